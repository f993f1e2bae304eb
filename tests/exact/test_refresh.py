"""Curvature renewed every k updates: which updates move it, what the others cost, and seeds that fall out of step."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgsom
from pgsom.curvature import Fisher
from pgsom.environments import chain
from pgsom.folds import Fold
from pgsom.objective import LocalObjective
from pgsom.updates import som
from pgsom.updates.refresh import gradient_and_curvature, renewed
from tests.exact.oracle import flat, objective_of, quick_jit, random_params, tabular

# β₂ = 3/4, k = 2             update 1    update 2    update 3    update 4
# ĥ                             −2        not used       1        not used
# h                            −1/2        −1/2        −1/8        −1/8
# 1 − β₂^renewals               1/4         1/4        7/16        7/16
# h̄                             −2          −2         −2/7        −2/7
GIVEN, H_BAR = (-2.0, 100.0, 1.0, np.nan), (-2.0, -2.0, -2 / 7, -2 / 7)


@pytest.mark.usefixtures("float64")
def test_every_second_update_moves_the_curvature_and_its_bias_correction() -> None:
    """β₁ = 0 and ĝ = 1, so that the direction is 1/h̄; what is given for ĥ in between is not looked at."""
    rule = som("causal", shape="raw", damping=0.0, beta1=0.0, beta2=0.75, refresh=2)
    state = rule.init(jnp.zeros(()))
    for given, h_bar, negative in zip(GIVEN, H_BAR, (1.0, 1.0, 0.0, 0.0), strict=True):
        direction, state = rule.precondition(jnp.ones(()), jnp.asarray(given), state)
        assert float(direction) == pytest.approx(1 / h_bar, rel=1e-12)
        assert float(state.negative) == negative


@jax.tree_util.register_static
@dataclass(frozen=True)
class Counted:
    """The Fisher diagonal, and a word to `seen` each time it is computed."""

    name: ClassVar[str] = "counted"
    estimates: ClassVar[str] = "as Fisher"
    biased: ClassVar[bool] = True
    positive_semi_definite: ClassVar[bool] = True
    seen: ClassVar[list[int]] = []

    def diagonal(self, objective: LocalObjective) -> Fold:
        fold = Fisher().diagonal(objective)

        def finish(carry: Any) -> Any:
            jax.debug.callback(lambda x: Counted.seen.append(1), jax.tree.leaves(carry)[0].sum())
            return fold.finish(carry)

        return fold._replace(finish=finish)

    def product(self, objective: LocalObjective, vector: Any) -> Any:
        return Fisher().product(objective, vector)


def test_the_updates_in_between_do_not_compute_it() -> None:
    """Three seeds side by side for seven updates with k = 3: three estimates a seed, and not seven."""
    Counted.seen.clear()
    pgsom.train(chain(2, 3), "pg-som", seeds=3, updates=7, curvature=Counted(), refresh=3)
    jax.effects_barrier()
    assert len(Counted.seen) == 3 * 3


@pytest.mark.usefixtures("float64")
def test_members_that_fell_out_of_step_get_what_they_would_get_alone() -> None:
    """Counters 0 to 5 side by side with k = 2 and k = 3; and with k = 7 only the first is due."""
    policy = tabular()
    params = random_params(policy)
    objective = objective_of(chain(1, 2), policy, params, (2, 10))
    kept = jax.tree.map(lambda leaf: jnp.full_like(leaf, -5.0), params)
    fresh = np.asarray(flat(objective.evaluate(Fisher().diagonal(objective))[0]))

    def of_member(updates: jax.Array, every: int) -> Any:
        gradient, curvature = gradient_and_curvature(objective, Fisher(), updates, every, kept)
        return gradient, curvature, renewed(updates, every, lambda: params, kept)

    for every in (1, 2, 3, 7):
        found = quick_jit(jax.vmap(of_member, in_axes=(0, None)), static_argnums=1)(jnp.arange(6), every)
        for updates in range(6):
            gradient, curvature, other = jax.tree.map(lambda leaf, i=updates: leaf[i], found)
            due = updates % every == 0
            np.testing.assert_allclose(flat(gradient), flat(objective.gradient()), atol=1e-12)
            np.testing.assert_allclose(flat(curvature), fresh if due else -5.0, atol=1e-12)
            np.testing.assert_array_equal(flat(other), flat(params) if due else -5.0)
