"""Rules that play their episodes elsewhere than at θ, or at several points."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pgsom
from pgsom.checks import InputError
from pgsom.environments import chain
from pgsom.methods import Common, assemble
from pgsom.objective import LocalObjective
from pgsom.policies import Policy, tabular_softmax
from pgsom.training import init, step
from pgsom.updates import Info, followed_by, from_optax, roams
from pgsom.updates.update_rule import describe

POLICY = Policy(tabular_softmax(4, 2))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class There:
    """direction = the distance from the first point to the second, which is θ + `shift` with noise from the key."""

    shift: Any

    @property
    def batches(self) -> int:
        return 2

    def points(self, state: Any, params: Any, key: jax.Array) -> tuple[Any, ...]:
        noise = jax.random.uniform(key)
        return params, jax.tree.map(lambda p: p + self.shift + 0 * noise, params)

    def init(self, params: Any) -> Any:
        return ()

    def update(
        self, objective: LocalObjective, state: Any, params: Any, *others: LocalObjective
    ) -> tuple[Any, Any, Info]:
        (other,) = others
        direction = jax.tree.map(lambda a, b: b - a, objective.params, other.params)
        return direction, state, describe(objective.gradient(), direction, declined=1)


@pytest.mark.parametrize("followed", [False, True])
def test_each_point_gets_a_batch_and_all_are_counted(followed: bool) -> None:
    rule = followed_by(There(0.5), from_optax(optax.scale, step_size=2.0)) if followed else There(0.5)
    method = assemble("there", rule, 1.0, Common(batch=3, scheme="heun"))
    assert roams(rule) and method.episodes_per_update == 12
    state = init(chain(), POLICY, method, jax.random.key(0))
    new, metrics = jax.jit(lambda s: step(chain(), POLICY, method, s))(state)
    expected = 1.0 if followed else 0.5
    for before, after in zip(jax.tree.leaves(state.params), jax.tree.leaves(new.params), strict=True):
        np.testing.assert_allclose(after - before, expected, rtol=1e-6)
    assert int(new.episodes) == 12 and int(new.env_steps) >= 12 and int(metrics.declined) == 1


def test_their_stages_cannot_share_episodes() -> None:
    with pytest.raises(InputError, match="stage_data='reweighted': there plays episodes where it chooses"):
        assemble("there", There(0.5), common=Common(stage_data="reweighted"))
    plain = followed_by(pgsom.Ascent(), from_optax(optax.scale, step_size=2.0))
    assert not roams(plain) and assemble("plain", plain, common=Common(stage_data="reweighted"))


def test_a_result_warns_of_negative_curvature_and_of_declined_updates() -> None:
    """On the bandit at θ = 0 the diagonal of the causal form is as often negative as positive."""
    quiet = pgsom.train("two-armed-bandit", "pg-som", updates=5)
    assert quiet.warnings == ()
    signed = pgsom.train("two-armed-bandit", "hessian-pg", updates=5, seeds=4)
    assert any("of the curvature's entries were negative (said from 25%)" in line for line in signed.warnings)
    method = assemble("there", There(jnp.asarray(0.1)), 1.0, Common(batch=2))
    declined = pgsom.train("two-armed-bandit", method, updates=3, seeds=2)
    np.testing.assert_array_equal(declined.declined, [3, 3])
    assert declined.warnings == ("6 updates were declined: the rule found no step it could answer for",)
