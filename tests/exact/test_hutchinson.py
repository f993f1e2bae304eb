"""Random probes: every sign vector enumerated, so that mean and variance are exact; then the real random numbers."""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pgsom.curvature import (
    CausalHessian,
    DecayedCausal,
    Fisher,
    Hutchinson,
    LemmaHessian,
    LogDensityHessian,
    diagonal,
    hutchinson,
    log_density,
)
from pgsom.curvature.estimator import rademacher_like
from pgsom.environments import random_mdp
from pgsom.objective import LocalObjective
from pgsom.policies import MLP, Bounds, Gaussian, Policy, layers
from pgsom.policies.tangents import SignPair, moved, sign_pairs
from tests.exact.oracle import STATES, estimates, objective_of, quick_jit, random_params
from tests.exact.test_diagonals import long_objective

pytestmark = pytest.mark.usefixtures("float64")
TINY = 1e-10
POLICY = Policy(MLP(STATES, 2, (), bias=True, one_hot=True))
"""Ten parameters, so 1,024 sign vectors; the biases make the Hessian dense."""


@pytest.fixture(name="objective")
def _objective() -> LocalObjective:
    mdp = random_mdp(np.random.default_rng(1), 3, 2, 2, 0.9)
    return objective_of(mdp, POLICY, random_params(POLICY), (2, 108))


def off_diagonal_squares(matrix: np.ndarray) -> np.ndarray:
    """Σ_{j≠i} H_ij² for each i."""
    return np.sum((matrix - np.diag(np.diag(matrix))) ** 2, axis=1)


PROBED = {
    "causal": (Hutchinson(of=DecayedCausal(1.0)), "causal", "causal"),
    "fisher": (Hutchinson(of=Fisher()), "fisher", "fisher"),
    "log-density part of the lemma": (LemmaHessian(probes=1), "lemma", "log-density"),
    "log-density part of the causal": (CausalHessian(probes=1), "causal", "log-density"),
    "log-density alone": (LogDensityHessian(probes=1), "log-density", "log-density"),
}


@pytest.mark.parametrize(("estimator", "exact", "probed"), PROBED.values(), ids=PROBED)
def test_over_all_signs_the_mean_is_the_diagonal_and_the_variance_the_off_diagonal_squares(
    monkeypatch: pytest.MonkeyPatch, objective: LocalObjective, estimator: Any, exact: str, probed: str
) -> None:
    size = ravel_pytree(objective.params)[0].size
    every = jnp.asarray(list(itertools.product((-1.0, 1.0), repeat=size)))

    @quick_jit
    def of_all(objective: LocalObjective) -> jax.Array:
        def of_signs(signs: jax.Array) -> jax.Array:
            for module in (hutchinson, log_density):
                monkeypatch.setattr(module, "rademacher_like", lambda key, tree: ravel_pytree(tree)[1](signs))
            return ravel_pytree(diagonal(estimator, objective))[0]

        return jax.lax.map(of_signs, every)

    found, matrices = np.asarray(of_all(objective)), estimates(objective)
    np.testing.assert_allclose(found.mean(axis=0), np.diag(matrices[exact]), atol=TINY)
    np.testing.assert_allclose(found.var(axis=0), off_diagonal_squares(matrices[probed]), atol=TINY)
    assert found.var(axis=0).max() > 1e-4


def test_signs_of_a_layer_may_be_products_of_signs(objective: LocalObjective) -> None:
    """Over all 2⁷ pairs (r, c) mean and variance are those of 2¹⁰ independent signs."""
    pairs = jnp.asarray(list(itertools.product((-1.0, 1.0), repeat=7)))

    @quick_jit
    def of_all(objective: LocalObjective) -> jax.Array:
        def of_pair(signs: jax.Array) -> jax.Array:
            v = (SignPair(signs[:5], signs[5:]).of_layer(objective.params[0]),)
            return ravel_pytree(v)[0] * ravel_pytree(CausalHessian().product(objective, v))[0]

        return jax.lax.map(of_pair, pairs)

    found, exact = np.asarray(of_all(objective)), estimates(objective)["causal"]
    np.testing.assert_allclose(found.mean(axis=0), np.diag(exact), atol=TINY)
    np.testing.assert_allclose(found.var(axis=0), off_diagonal_squares(exact), atol=TINY)


SHARED = {
    "table": Policy(MLP(STATES, 2, (), bias=False, one_hot=True)),
    "two hidden layers, pinned": Policy(MLP(STATES, 2, (3, 2), "silu", pinned_output=True, one_hot=True)),
}


@pytest.mark.parametrize("policy", SHARED.values(), ids=SHARED)
def test_probes_in_the_gradients_pass_are_products_with_the_same_signs(policy: Policy) -> None:
    """Over episodes of several chunks, which the products sweep twice and the probes once; two probes."""
    objective = long_objective(policy)

    @quick_jit
    def both(objective: LocalObjective) -> Any:
        found = [ravel_pytree(diagonal(Hutchinson(probes=n), objective))[0] for n in (1, 2)]
        made = []
        root = jax.random.fold_in(objective.key, 2)
        for probe, probes in ((0, 1), (0, 2), (1, 2)):
            pairs = [SignPair(r[probe], c[probe]) for r, c in sign_pairs(root, objective.params, probes)]
            v = tuple(pair.of_layer(layer) for pair, layer in zip(pairs, objective.params, strict=True))
            made.append(ravel_pytree(v)[0] * ravel_pytree(CausalHessian().product(objective, v))[0])
        return found, (made[0], (made[1] + made[2]) / 2)

    for found, expected in zip(*both(objective), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=TINY)


def test_probes_of_scales_that_do_not_depend_on_the_state() -> None:
    """A Gaussian's free ln σ is a layer whose input does not move."""
    policy = Policy(MLP(2, 2, (3,), free=1), Gaussian(Bounds((-1.0,), (1.0,), (1,))))
    params, generator = random_params(policy), np.random.default_rng(0)
    seen, action = jnp.asarray(generator.normal(size=(5, 2))), jnp.asarray(generator.normal(size=(5, 1)))
    pairs = jax.tree.map(lambda signs: signs[0], sign_pairs(jax.random.key(0), params, 1))
    v = tuple(pair.of_layer(layer) for pair, layer in zip(pairs, params, strict=True))

    def signals(p: Any) -> Any:
        passed = layers.backward(policy.network, p, seen)
        by_outputs = jax.vmap(jax.grad(policy.distribution.log_prob))(passed.outputs, action)
        log_prob = jax.vmap(policy.distribution.log_prob)(passed.outputs, action)
        return passed.inputs, passed.signals(by_outputs), log_prob

    (inputs, deltas, _), (inputs_dot, deltas_dot, log_prob_dot) = jax.jvp(signals, (params,), (v,))
    there = moved(layers.backward(policy.network, params, seen), policy.distribution, pairs, action)
    from_outside = [index for index, a_dot in enumerate(there.inputs_dot) if a_dot is None]
    assert from_outside == [0, 2] and not any(inputs_dot[index].any() for index in from_outside)
    there = there._replace(inputs_dot=(inputs_dot[0], there.inputs_dot[1], inputs_dot[2]))
    expected = (inputs, inputs_dot, deltas, deltas_dot, log_prob_dot)
    for found, right in zip(jax.tree.leaves(tuple(there)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(found, right, atol=TINY)


@pytest.mark.parametrize("probes", [1, 4])
def test_with_real_random_numbers_mean_and_variance_agree_with_theory(objective: LocalObjective, probes: int) -> None:
    """20,000 keys: the mean within 4.5 standard errors, the variance divided by the number of probes within 6 %."""
    draws, estimator = 20_000, Hutchinson(probes=probes)

    @quick_jit
    def sample(keys: jax.Array) -> jax.Array:
        return jax.vmap(lambda k: ravel_pytree(diagonal(estimator, dataclasses.replace(objective, key=k)))[0])(keys)

    found = np.asarray(sample(jax.random.split(jax.random.key(5), draws)))
    exact = estimates(objective)["causal"]
    expected = off_diagonal_squares(exact) / probes
    seen = expected > 1e-12
    z = (found.mean(axis=0) - np.diag(exact))[seen] / np.sqrt(expected[seen] / draws)
    assert np.abs(z).max() < 4.5
    np.testing.assert_allclose(found.var(axis=0)[seen], expected[seen], rtol=0.06)
    np.testing.assert_allclose(
        found[:, ~seen], np.broadcast_to(np.diag(exact)[~seen], (draws, (~seen).sum())), atol=TINY
    )


def test_signs_are_fair_and_independent() -> None:
    tree = {"a": jnp.zeros((2, 2)), "b": jnp.zeros(3)}
    keys = jax.random.split(jax.random.key(0), 10_000)
    signs = np.asarray(jax.vmap(lambda key: ravel_pytree(rademacher_like(key, tree))[0])(keys))
    assert np.all(np.abs(signs) == 1)
    second_moments = signs.T @ signs / len(signs)
    np.testing.assert_allclose(signs.mean(axis=0), 0, atol=0.045)
    np.testing.assert_allclose(second_moments, np.eye(7), atol=0.045)
