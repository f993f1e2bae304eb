"""The further estimators: their formulas on each trajectory, their expectations, and how they hang together."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pgsom.checks import InputError
from pgsom.curvature import (
    CausalHessian,
    DecayedCausal,
    EmpiricalFisher,
    Fisher,
    GaussNewtonBartlett,
    HesScale,
    Hutchinson,
    LogDensityHessian,
    MinusLogDensity,
    SampledFisher,
    SpatialAverage,
    WithoutCrossTerms,
    bends_down,
    dense,
    diagonal,
    make_estimator,
)
from pgsom.curvature.averaged import average_blocks
from pgsom.curvature.scores import drawn_actions
from pgsom.environments import chain, random_mdp
from pgsom.objective import LocalObjective
from pgsom.policies import MLP, Policy, derivatives
from pgsom.policies.derivatives import Chunk
from pgsom.updates import som
from tests.exact.oracle import (
    STATES,
    estimates,
    flat,
    objective_of,
    quick_jit,
    random_params,
    rollout_of,
    tables,
    tabular,
    weights_by_hand,
)

pytestmark = pytest.mark.usefixtures("float64")
TINY = 1e-10
DECAY = 0.6
SMALL = (4, 700)
NETWORK = Policy(MLP(STATES, 2, (3, 2), one_hot=True))
FORMULAS = {
    "causal-decay": DecayedCausal(DECAY),
    "without-cross": WithoutCrossTerms(),
    "minus-log-density": MinusLogDensity(),
    "empirical-fisher": EmpiricalFisher(),
}


@partial(quick_jit, static_argnums=1)
def found_by(objective: LocalObjective, estimators: tuple[Any, ...]) -> list[Any]:
    """Dense matrix and diagonal of each."""
    return [(dense(e, objective), ravel_pytree(diagonal(e, objective))[0]) for e in estimators]


def formulas(objective: LocalObjective, e: np.ndarray, w: np.ndarray) -> dict[str, np.ndarray]:
    """Each matrix trajectory by trajectory, from tabulated derivatives of ln π."""
    table = tables(objective.policy, objective.params)
    state, action = np.asarray(objective.rollout.observation), np.asarray(objective.rollout.action)
    size = table.score.shape[-1]
    made = {name: np.zeros((size, size)) for name in FORMULAS}
    for n in np.flatnonzero(e):
        c = np.zeros(size)
        for t in range(int(objective.rollout.length[n])):
            s, a = state[t, n], action[t, n]
            z, curvature = table.score[s, a], table.curvature[s, a]
            own = curvature + np.outer(z, z)
            cross = np.outer(z, c) + np.outer(c, z)
            made["causal-decay"] += e[n] * w[t, n] * (own + DECAY * cross)
            made["without-cross"] += e[n] * w[t, n] * own
            made["minus-log-density"] -= e[n] * w[t, n] * curvature
            made["empirical-fisher"] += e[n] * np.outer(z, z)
            c = z + DECAY * c
    return made


@pytest.mark.parametrize("policy", [tabular(), NETWORK], ids=["table", "two hidden layers"])
def test_an_estimator_is_its_formula_on_each_trajectory(policy: Policy) -> None:
    """Arbitrary episode weights in place of probabilities; the chain's rewards are of both signs once weighted."""
    mdp, params = chain(length=2, horizon=4), random_params(policy)
    rollout = rollout_of(mdp, tables(policy, params), SMALL)
    e = np.random.default_rng(0).normal(size=SMALL[1])
    objective = replace(objective_of(mdp, policy, params, SMALL), episode_weight=jnp.asarray(e))
    w = weights_by_hand(np.asarray(rollout.reward), np.asarray(rollout.length), mdp.discount, "lemma")
    expected = formulas(objective, e, w)
    for name, (matrix, entries) in zip(FORMULAS, found_by(objective, tuple(FORMULAS.values())), strict=True):
        np.testing.assert_allclose(matrix, expected[name], atol=1e-9, err_msg=name)
        np.testing.assert_allclose(entries, np.diag(expected[name]), atol=1e-9, err_msg=name)


def expectation_of(policy: Policy, seed: int = 1) -> LocalObjective:
    mdp = random_mdp(np.random.default_rng(seed), 3, 2, 2, 0.9)
    return objective_of(mdp, policy, random_params(policy), (2, 108))


def test_in_expectation_the_squares_of_taken_scores_are_the_fisher_matrix() -> None:
    objective = expectation_of(NETWORK)
    ((matrix, _),) = found_by(objective, (EmpiricalFisher(),))
    np.testing.assert_allclose(matrix, estimates(objective, ("fisher",))["fisher"], atol=TINY)


def test_the_decay_leads_from_the_causal_form_to_the_one_without_cross_terms() -> None:
    objective = expectation_of(tabular())
    whole, causal, none, without = found_by(
        objective, (DecayedCausal(1.0), CausalHessian(), DecayedCausal(0.0), WithoutCrossTerms())
    )
    for found, expected in ((whole, causal), (none, without)):
        np.testing.assert_allclose(found[0], expected[0], atol=TINY)
        np.testing.assert_allclose(found[1], expected[1], atol=TINY)
    assert not DecayedCausal(1.0).biased and DecayedCausal(0.99).biased
    assert np.abs(whole[0] - none[0]).max() > 1e-3


# --- drawn actions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draws", [1, 3])
def test_drawn_actions_make_the_matrices_they_should(draws: int) -> None:
    """From the actions that were drawn, by the definitions, in NumPy."""
    objective = expectation_of(NETWORK)
    objective = replace(objective, episode_weight=jnp.asarray(np.random.default_rng(2).uniform(size=108)))
    score = tables(NETWORK, objective.params).score
    drawn, state = np.asarray(drawn_actions(objective, draws)), np.asarray(objective.rollout.observation)
    e, taken = np.asarray(objective.episode_weight), np.asarray(objective.rollout.mask)
    z = score[state[..., None], drawn] * taken[..., None, None]
    fisher = np.einsum("n,tnmi,tnmj->ij", e, z, z) / draws
    g = np.einsum("n,tnmi->mi", np.sqrt(e), z)
    for (matrix, entries), expected in zip(
        found_by(objective, (SampledFisher(draws), GaussNewtonBartlett(draws))), (fisher, g.T @ g / draws), strict=True
    ):
        np.testing.assert_allclose(matrix, expected, atol=TINY)
        np.testing.assert_allclose(entries, np.diag(expected), atol=TINY)


def test_drawn_actions_follow_the_policy_independently_of_each_other() -> None:
    """Their shares within 4.5 standard errors of π, and the expectation of both estimators of the Fisher diagonal."""
    objective = expectation_of(tabular())
    draws = 4000
    drawn = np.asarray(drawn_actions(objective, draws))
    p = np.asarray(jax.nn.softmax(objective.outputs))[..., 1]
    z = (drawn.mean(axis=-1) - p) / np.sqrt(p * (1 - p) / draws)
    assert np.abs(z).max() < 4.5
    expected = np.diag(estimates(objective, ("fisher",))["fisher"])
    for estimator in (SampledFisher(1), GaussNewtonBartlett(1)):

        @quick_jit
        def sample(keys: jax.Array, estimator: Any = estimator) -> jax.Array:
            return jax.vmap(lambda k: ravel_pytree(diagonal(estimator, replace(objective, key=k)))[0])(keys)

        found = np.asarray(sample(jax.random.split(jax.random.key(1), draws)))
        error = found.std(axis=0) / np.sqrt(draws)
        seen = error > 1e-12
        assert np.abs((found.mean(axis=0) - expected)[seen] / error[seen]).max() < 4.5
        np.testing.assert_allclose(found[:, ~seen], np.broadcast_to(expected[~seen], found[:, ~seen].shape), atol=TINY)


# --- HesScale ----------------------------------------------------------------------------------------------------


def hesscale_by_hand(network: MLP, params: Any, seen: np.ndarray, action: int) -> list[np.ndarray]:
    """The recursion for one sample and ℓ = ln softmax(u)_a, unit by unit; tanh."""
    a, inputs, pre = seen, [], []
    for index, layer in enumerate(params):
        inputs.append(a)
        z = a @ np.asarray(layer.weight) + np.asarray(layer.bias)
        pre.append(z)
        a = np.tanh(z) if index < len(params) - 1 else z
    p = np.exp(pre[-1]) / np.exp(pre[-1]).sum()
    delta, h = (np.arange(p.size) == action) - p, -p * (1 - p)
    diagonals = []
    for index in range(len(params) - 1, -1, -1):
        diagonals.append((np.outer(inputs[index] ** 2, h), h))
        if index:
            W, slope = np.asarray(params[index].weight), 1 - inputs[index] ** 2
            bend = -2 * inputs[index] * slope
            h = np.array([slope[i] ** 2 * (W[i] ** 2 @ h) + bend[i] * (W[i] @ delta) for i in range(W.shape[0])])
            delta = slope * (W @ delta)
    return [part for pair in diagonals[::-1] for part in pair]


def test_hesscale_is_becker_and_lecuns_recursion() -> None:
    policy = Policy(MLP(3, 3, (4, 3)))
    params, generator = random_params(policy), np.random.default_rng(0)
    seen, action = generator.normal(size=(3, 2, 3)), generator.integers(0, 3, (3, 2))
    w = generator.normal(size=(3, 2))
    arguments = (policy, params, Chunk(jnp.asarray(seen), jnp.asarray(action)), jnp.asarray(w))
    expected = 0.0
    for t, n in np.ndindex(3, 2):
        by_sample = hesscale_by_hand(policy.network, params, seen[t, n], action[t, n])
        expected = expected + w[t, n] * np.concatenate([part.ravel() for part in by_sample])
    found = derivatives.propagated_diagonal(*arguments)
    np.testing.assert_allclose(flat(found), expected, atol=TINY)
    exact = derivatives.hessian_diagonal(*arguments)
    np.testing.assert_allclose(flat(found[-1]), flat(exact[-1]), atol=TINY, err_msg="the last layer is exact")
    assert np.abs(flat(found[0]) - flat(exact[0])).max() > 1e-3, "and the first is not"


def test_hesscale_is_exact_where_no_layer_has_two_units_that_meet() -> None:
    objective = expectation_of(Policy(MLP(STATES, 2, (1,), pinned_output=True, one_hot=True)))
    (scaled, _), (exact, _) = found_by(objective, (HesScale(), LogDensityHessian()))
    np.testing.assert_allclose(np.diag(scaled), np.diag(exact), atol=TINY)


# --- names, signs, averages --------------------------------------------------------------------------------------


def test_random_probes_for_the_matrix_of_any_estimator() -> None:
    assert make_estimator("hutchinson:fisher", 3) == Hutchinson(of=Fisher(), probes=3)
    assert make_estimator("hutchinson:causal") == Hutchinson()
    assert bends_down(make_estimator("hutchinson:fisher")) and not bends_down(make_estimator("hutchinson"))
    assert make_estimator("causal-decay:0.5", 2) == DecayedCausal(0.5, 2)
    assert make_estimator("hutchinson:causal-decay:1") == Hutchinson(of=DecayedCausal(1.0))
    with pytest.raises(InputError, match="did you mean 'hutchinson:fisher'"):
        make_estimator("hutchinson:fischer")


@pytest.mark.parametrize("curvature", ["minus-log-density", "hutchinson:minus-log-density", "hutchinson:fisher"])
def test_where_positive_means_bending_down_the_negative_part_is_refused(curvature: str) -> None:
    with pytest.raises(InputError, match="is positive where J bends down; accepted are raw, absolute, rms"):
        som(curvature, shape="negative_part")


def test_block_means_by_hand() -> None:
    """Blocks of three of a 2 × 4 array and a vector: the last ones are shorter."""
    tree = {"a": jnp.asarray([[1.0, 2, 3, 4], [5, 6, 7, 8]]), "b": jnp.asarray([1.0, -1.0])}
    averaged = average_blocks(tree, 3)
    np.testing.assert_allclose(averaged["a"], [[2, 2, 2, 5], [5, 5, 7.5, 7.5]])
    np.testing.assert_allclose(averaged["b"], [0, 0])
    objective = expectation_of(tabular())
    plain, paired = SpatialAverage(Fisher()), SpatialAverage(CausalHessian(), 2)
    (_, fisher), (_, same), (_, causal), (_, pairs) = found_by(objective, (Fisher(), plain, CausalHessian(), paired))
    np.testing.assert_allclose(same, fisher, atol=TINY)
    np.testing.assert_allclose(pairs, np.repeat(causal.reshape(-1, 2).mean(axis=1), 2), atol=TINY)
    assert paired.biased and not SpatialAverage(CausalHessian()).biased and plain.positive_semi_definite
