"""Derivatives of ln π without per-sample gradients, against the same derivatives sample by sample, in float64."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pgsom.checks import InputError
from pgsom.curvature import CausalHessian, Fisher
from pgsom.folds import CHUNK, map_fold, padded_length, run
from pgsom.objective import LocalObjective, observe
from pgsom.policies import (
    MLP,
    Bernoulli,
    Beta,
    Bounds,
    Gaussian,
    LayerNormMLP,
    MultiCategorical,
    Policy,
    TanhGaussian,
    derivatives,
    policy_from_functions,
)
from pgsom.policies.derivatives import Chunk
from pgsom.rollout import Rollout
from tests.exact.oracle import (
    ESTIMATORS,
    STATES,
    by_hand,
    estimates,
    flat,
    quick_jit,
    random_params,
    tables,
    tabular,
    weighting,
    weights_by_hand,
)

pytestmark = pytest.mark.usefixtures("float64")
TINY = 1e-10

NETWORKS = {
    "no hidden layer": MLP(3, 3, ()),
    "no hidden layer, logistic": MLP(3, 2, (), bias=False, pinned_output=True),
    "one, relu, five outputs": MLP(3, 5, (4,), "relu"),
    "one, softplus, table": MLP(4, 2, (3,), "softplus", one_hot=True),
    "two, tanh, pinned": MLP(3, 3, (4, 3), "tanh", pinned_output=True),
    "two, silu, no bias": MLP(3, 5, (3, 4), "silu", bias=False),
    "three, softplus": MLP(3, 2, (3, 4, 2), "softplus"),
    "three, relu, logistic": MLP(3, 2, (4, 4, 3), "relu", pinned_output=True),
    "four, tanh": MLP(3, 3, (3, 2, 4, 3), "tanh"),
    "four, silu, pinned, table": MLP(4, 5, (3, 3, 2, 3), "silu", pinned_output=True, one_hot=True),
}


class Sample(NamedTuple):
    """Some steps of some episodes, and signed weights for them."""

    policy: Policy
    params: Any
    chunk: Chunk
    weights: jax.Array


def sample_of(network: MLP, seed: int = 0) -> Sample:
    generator, shape = np.random.default_rng(seed), (3, 2)
    seen = (
        generator.integers(0, network.inputs, shape)
        if network.one_hot
        else generator.normal(size=(*shape, network.inputs))
    )
    chunk = Chunk(jnp.asarray(seen), jnp.asarray(generator.integers(0, network.outputs, shape)))
    policy = Policy(network)
    return Sample(policy, random_params(policy, seed), chunk, jnp.asarray(generator.normal(size=shape)))


class Derivatives(NamedTuple):
    """One row a step, of the flat parameters."""

    score: jax.Array
    curvature: jax.Array
    fisher: jax.Array


def sample_by_sample(sample: Sample) -> Derivatives:
    """By `jax.hessian` of ln softmax, and the Fisher matrix as the expectation of score products over actions."""
    vector, unravel = ravel_pytree(sample.params)
    network = sample.policy.network

    def log_probs(theta: jax.Array, seen: jax.Array) -> jax.Array:
        u = network.apply(unravel(theta), seen)
        return u - jax.scipy.special.logsumexp(u)

    def of_one(seen: jax.Array, action: jax.Array) -> Derivatives:
        scores = jax.jacrev(log_probs)(vector, seen)
        fisher = jnp.einsum("a,ai,aj->ij", jnp.exp(log_probs(vector, seen)), scores, scores)
        return Derivatives(scores[action], jax.hessian(lambda theta: log_probs(theta, seen)[action])(vector), fisher)

    seen, action = (x.reshape(-1, *x.shape[2:]) for x in sample.chunk)
    return jax.vmap(of_one)(seen, action)


def by_layers(sample: Sample) -> dict[str, jax.Array]:
    """What the library says of the chunk, all flat."""
    policy, params, chunk, w = sample
    carried = jax.tree.map(lambda leaf: jnp.stack([0.1 + leaf, 0.2 - leaf]), params)
    squares, c = derivatives.causal_square_sum(policy, params, chunk, w, carried)
    made = {
        "score sum": derivatives.score_sum(policy, params, chunk, w),
        "hessian diagonal": derivatives.hessian_diagonal(policy, params, chunk, w),
        "fisher diagonal": derivatives.fisher_diagonal(policy, params, chunk, w),
        "squared score sum": derivatives.squared_score_sum(policy, params, chunk, w),
        "causal square sum": squares,
    }
    by_episode = {
        "scores by episode": derivatives.score_sums_by_episode(policy, params, chunk, w),
        "last c": c,
    }
    return {name: ravel_pytree(tree)[0] for name, tree in made.items()} | {
        name: jax.vmap(lambda t: ravel_pytree(t)[0])(tree) for name, tree in by_episode.items()
    }


def expected_of(sample: Sample, per_step: Derivatives) -> dict[str, np.ndarray]:
    w = np.asarray(sample.weights)
    z = np.asarray(per_step.score).reshape(*w.shape, -1)
    curvature, fisher = (
        np.einsum("nii->ni", np.asarray(matrix)).reshape(*w.shape, -1)
        for matrix in (per_step.curvature, per_step.fisher)
    )
    theta = flat(sample.params)
    c = np.stack([0.1 + theta, 0.2 - theta])
    causal = np.zeros_like(theta)
    for t in range(w.shape[0]):
        causal += w[t] @ (z[t] ** 2 + 2 * z[t] * c)
        c = c + z[t]
    return {
        "score sum": np.einsum("te,teD->D", w, z),
        "hessian diagonal": np.einsum("te,teD->D", w, curvature),
        "fisher diagonal": np.einsum("te,teD->D", w, fisher),
        "squared score sum": np.einsum("te,teD->D", w, z**2),
        "causal square sum": causal,
        "scores by episode": np.einsum("te,teD->eD", w, z),
        "last c": c,
    }


@partial(quick_jit, static_argnums=3)
def _both(params: Any, chunk: Chunk, weights: jax.Array, policy: Policy) -> Any:
    sample = Sample(policy, params, chunk, weights)
    return by_layers(sample), sample_by_sample(sample)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_sums_through_the_layers_are_the_sums_over_samples(network: MLP) -> None:
    """The exact Hessian diagonal of up to four hidden layers, Fisher, squared scores, and the causal recursion."""
    sample = sample_of(network)
    found, per_step = _both(sample.params, sample.chunk, sample.weights, sample.policy)
    for name, expected in expected_of(sample, per_step).items():
        np.testing.assert_allclose(found[name], expected, rtol=TINY, atol=TINY, err_msg=name)


BOX = Bounds((-2.0, 0.5), (1.0, 0.75), (2,))
HEADS: dict[str, Policy] = {
    "gaussian, free scales": Policy(MLP(3, 4, (4, 3), free=2), Gaussian(BOX)),
    "gaussian, free scales, linear": Policy(MLP(3, 4, (), bias=False, free=2), Gaussian(BOX)),
    "gaussian, scales from the network": Policy(MLP(3, 4, (3, 2, 3), "softplus"), Gaussian(BOX)),
    "tanh-gaussian": Policy(MLP(3, 4, (3,), "silu", free=2), TanhGaussian(BOX)),
    "beta": Policy(MLP(3, 4, (3,)), Beta(BOX)),
    "switches": Policy(MLP(3, 2, (4,)), Bernoulli()),
    "several choices": Policy(MLP(3, 5, (3, 3)), MultiCategorical((2, 3))),
    "layer norm": Policy(LayerNormMLP(MLP(3, 4, (4, 3), free=2)), Gaussian(BOX)),
}


@partial(quick_jit, static_argnums=3)
def _of_head(params: Any, chunk: Chunk, weights: jax.Array, policy: Policy) -> Any:
    """By layers, and sample by sample from `jax.hessian` and the Jacobian of the outputs."""
    vector, unravel = ravel_pytree(params)

    def of_one(seen: jax.Array, action: jax.Array) -> Derivatives:
        def log_prob(theta: jax.Array) -> jax.Array:
            return policy.log_prob(unravel(theta), seen, action)

        jacobian = jax.jacrev(lambda theta: policy.outputs(unravel(theta), seen))(vector)
        factor = policy.distribution.fisher_factor(policy.outputs(params, seen))
        columns = jacobian.T @ factor
        return Derivatives(jax.grad(log_prob)(vector), jax.hessian(log_prob)(vector), columns @ columns.T)

    seen, action = (x.reshape(-1, *x.shape[2:]) for x in chunk)
    return by_layers(Sample(policy, params, chunk, weights)), jax.vmap(of_one)(seen, action)


@pytest.mark.parametrize("policy", HEADS.values(), ids=HEADS)
def test_the_same_holds_for_every_head(policy: Policy) -> None:
    """Fisher factors, tested with the distributions, are taken from them; everything else is differentiated."""
    generator, params = np.random.default_rng(0), random_params(policy)
    seen = jnp.asarray(generator.normal(size=(3, 2, 3)))
    keys = jax.random.split(jax.random.key(0), (3, 2))
    action = jax.vmap(jax.vmap(lambda o, k: policy.sample(params, o, k)))(seen, keys)
    sample = Sample(policy, params, Chunk(seen, action), jnp.asarray(generator.normal(size=(3, 2))))
    found, per_step = _of_head(sample.params, sample.chunk, sample.weights, policy)
    for name, expected in expected_of(sample, per_step).items():
        np.testing.assert_allclose(found[name], expected, rtol=TINY, atol=TINY, err_msg=name)


def test_a_function_network_gives_the_same_numbers_with_parameters_of_any_form() -> None:
    """The two-layer network again, its parameters in a dict and nothing known about layers."""
    sample = sample_of(NETWORKS["two, tanh, pinned"])
    layers = sample.params

    def apply(params: dict[str, Any], seen: jax.Array) -> jax.Array:
        return sample.policy.network.apply(params["net"], seen)

    policy = policy_from_functions(lambda key: {"net": sample.policy.init(key)}, apply)
    (by_function, _) = _both({"net": layers}, sample.chunk, sample.weights, policy)
    (by_layer, _) = _both(layers, sample.chunk, sample.weights, sample.policy)
    for name, expected in by_layer.items():
        np.testing.assert_allclose(by_function[name], expected, rtol=TINY, atol=TINY, err_msg=name)


# --- several chunks ----------------------------------------------------------------------------------------------

LENGTHS = np.array([1, CHUNK, CHUNK + 1, 2 * CHUNK + 9])
ROWS = 4 * CHUNK


def long_rollout(policy: Policy, params: Any, seed: int = 0) -> Rollout:
    """Four episodes of different lengths in four chunks; behind their ends stand other numbers, not zeros."""
    generator, shape = np.random.default_rng(seed), (ROWS, LENGTHS.size)
    observation = jnp.asarray(generator.integers(0, STATES, shape))
    mask = np.arange(ROWS)[:, None] < LENGTHS
    return Rollout(
        observation=observation,
        action=jnp.asarray(generator.integers(0, 2, shape)),
        outputs=jnp.asarray(tables(policy, params).outputs)[observation],
        reward=jnp.asarray(generator.normal(size=shape) * mask),
        length=jnp.asarray(LENGTHS, jnp.int32),
        terminated=jnp.zeros(LENGTHS.size, bool),
        truncated=jnp.ones(LENGTHS.size, bool),
        final_observation=observation[0],
    )


def long_objective(policy: Policy, seed: int = 0) -> LocalObjective:
    params = random_params(policy)
    return observe(
        weighting(0.97, "appendix"), (), policy, params, long_rollout(policy, params, seed), jax.random.key(0)
    )


@pytest.mark.parametrize("policy", [tabular(), Policy(MLP(STATES, 2, (3,), one_hot=True))], ids=["table", "network"])
def test_a_pass_in_chunks_is_the_sum_over_all_steps(policy: Policy) -> None:
    """Gradient and every estimator, dense and diagonal, over three filled chunks of four."""
    objective = long_objective(policy)
    w = weights_by_hand(np.asarray(objective.rollout.reward), LENGTHS, 0.97, "appendix")
    expected = by_hand(tables(policy, objective.params), objective.rollout, np.full(LENGTHS.size, 1 / LENGTHS.size), w)
    found = estimates(objective)
    for name in ("gradient", *ESTIMATORS):
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(found[name], expected[name], atol=TINY * scale, err_msg=name)
    for name in ESTIMATORS:
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(found[name + " diagonal"], np.diag(expected[name]), atol=TINY * scale, err_msg=name)


def test_what_stands_behind_the_end_of_an_episode_does_not_matter() -> None:
    policy = tabular()
    one, other = long_objective(policy, 0), long_objective(policy, 1)
    mask = np.arange(ROWS)[:, None] < LENGTHS
    observation = jnp.where(mask, one.rollout.observation, other.rollout.observation)
    action = jnp.where(mask, one.rollout.action, other.rollout.action)
    outputs = jnp.where(mask[..., None], one.rollout.outputs, other.rollout.outputs)
    rollout = one.rollout._replace(observation=observation, action=action, outputs=outputs)
    changed = observe(weighting(0.97, "appendix", entropy=0.1), (), policy, one.params, rollout, one.key)
    unchanged = observe(weighting(0.97, "appendix", entropy=0.1), (), policy, one.params, one.rollout, one.key)
    expected = estimates(unchanged)
    for name, value in estimates(changed).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-12, atol=1e-12, err_msg=name)


def test_chunks_behind_the_longest_episode_are_not_visited() -> None:
    """The longest episode fills three chunks; NaN in the fourth would be seen."""
    rows = jnp.where(jnp.arange(ROWS) < 3 * CHUNK, jnp.arange(ROWS, dtype=float), jnp.nan)
    (doubled,) = run((map_fold(lambda chunk: 2 * chunk, rows),), jnp.asarray(LENGTHS.max()))
    np.testing.assert_array_equal(doubled[: 3 * CHUNK], 2 * np.arange(3 * CHUNK))
    np.testing.assert_array_equal(doubled[3 * CHUNK :], 0)


def test_batches_side_by_side_are_each_swept_to_their_own_end() -> None:
    """Two batches, one filling a chunk and one all four, under `vmap`: the loop ends with the longer one."""
    policy = tabular()
    short = long_objective(policy)
    clipped = jnp.minimum(short.rollout.length, CHUNK)
    weight = short.weight * (jnp.arange(ROWS)[:, None] < clipped)
    short = dataclasses.replace(short, rollout=short.rollout._replace(length=clipped), weight=weight)
    longest = long_objective(policy, 1)
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), short, longest)

    @quick_jit
    def together(objective: LocalObjective) -> Any:
        return jax.vmap(lambda o: o.evaluate(o.gradient_fold(), CausalHessian().diagonal(o), Fisher().diagonal(o)))(
            objective
        )

    for name, found in zip(("gradient", "causal diagonal", "fisher diagonal"), together(both), strict=True):
        for index, objective in enumerate((short, longest)):
            expected = estimates(objective)[name]
            np.testing.assert_allclose(np.asarray(found[0].weight[index]).ravel(), expected, rtol=1e-10, atol=1e-10)


def test_rows_that_are_no_whole_number_of_chunks_are_refused() -> None:
    """The last chunk would start too early, and steps be counted twice."""
    with pytest.raises(InputError, match=f"rows={CHUNK + 1}: accepted are up to {CHUNK} and whole multiples"):
        run((map_fold(lambda chunk: chunk, jnp.zeros(CHUNK + 1)),), jnp.asarray(1))
    assert padded_length(CHUNK + 1) == 2 * CHUNK and padded_length(5) == 5


# --- Fisher matrix, KL divergence and surrogate ------------------------------------------------------------------


def kl_by_hand(objective: LocalObjective, there: Any) -> float:
    old, new = (np.exp(tables(objective.policy, p).log_prob) for p in (objective.params, there))
    by_state = np.sum(old * np.log(old / new), axis=1)
    mask = np.asarray(objective.rollout.mask)
    return float(np.sum(by_state[np.asarray(objective.rollout.observation)] * mask) / mask.sum())


def test_kl_and_surrogate_are_their_definitions() -> None:
    policy = Policy(MLP(STATES, 2, (3,), one_hot=True))
    objective, there = long_objective(policy), random_params(policy, 1)
    assert float(objective.kl(there)) == pytest.approx(kl_by_hand(objective, there), rel=TINY)
    seen, action = np.asarray(objective.rollout.observation), np.asarray(objective.rollout.action)
    new, old = (tables(policy, p).log_prob[seen, action] for p in (there, objective.params))
    expected = np.sum(np.asarray(objective.weight) * np.exp(new - old)) / LENGTHS.size
    assert float(objective.value(there)) == pytest.approx(expected, rel=TINY)
    log_ratio = (new - old) * np.asarray(objective.rollout.mask)
    past = np.exp(np.cumsum(log_ratio, axis=0) - log_ratio)
    expected = np.sum(np.asarray(objective.weight) * past * np.expm1(log_ratio)) / LENGTHS.size
    (gain,) = objective.evaluate(objective.gain_fold(there, whole_past=True))
    assert float(gain) == pytest.approx(expected, rel=TINY)


def test_the_surrogate_and_the_kl_have_the_gradient_and_the_fisher_matrix_as_derivatives() -> None:
    """At θ: ∇value is the estimated gradient, KL and ∇KL vanish, ∇²KL is the Fisher matrix averaged over steps."""
    policy = tabular()
    objective = long_objective(policy)
    theta, unravel = ravel_pytree(objective.params)

    @quick_jit
    def derivatives_at(theta: jax.Array) -> Any:
        def kl(x: jax.Array) -> jax.Array:
            return objective.kl(unravel(x))

        value = jax.jvp(lambda x: objective.value(unravel(x)), (theta,), (jnp.ones_like(theta),))[1]
        return value, kl(theta), jax.jacfwd(kl)(theta), jax.jacfwd(jax.jacfwd(kl))(theta)

    slope, kl, kl_gradient, kl_hessian = derivatives_at(theta)
    found = estimates(objective)
    mean_fisher = found["fisher"] / float(objective.step_weight.sum())
    assert float(slope) == pytest.approx(found["gradient"].sum(), rel=TINY)
    assert abs(float(kl)) < 1e-12 and np.abs(kl_gradient).max() < 1e-12
    np.testing.assert_allclose(kl_hessian, mean_fisher, atol=TINY)


def test_mean_step_curvature_is_the_fisher_form_and_twice_the_kl_of_a_small_step() -> None:
    objective = long_objective(tabular())
    theta, unravel = ravel_pytree(objective.params)
    v = np.random.default_rng(3).normal(size=theta.size)
    fisher = estimates(objective)["fisher"] / float(objective.step_weight.sum())
    bend = float(objective.mean_step_curvature(unravel(jnp.asarray(v))))
    assert bend == pytest.approx(v @ fisher @ v, rel=TINY)
    ratios = [2 * kl_by_hand(objective, unravel(theta + size * v)) / (size**2 * bend) for size in (1e-2, 1e-3)]
    assert abs(ratios[1] - 1) < 1e-3 and abs(ratios[1] - 1) < abs(ratios[0] - 1) / 5


def test_directional_scores_and_products_are_the_dense_ones() -> None:
    sample = sample_of(NETWORKS["two, silu, no bias"])
    theta, unravel = ravel_pytree(sample.params)
    v = np.random.default_rng(4).normal(size=theta.size)
    policy, params, chunk, w = sample
    _, per_step = _both(params, chunk, w, policy)
    tree = unravel(jnp.asarray(v))
    along = derivatives.directional_scores(policy, params, chunk, tree)
    np.testing.assert_allclose(np.asarray(along).ravel(), np.asarray(per_step.score) @ v, atol=TINY)
    flat_w = np.asarray(w).ravel()
    products = {
        "hessian": (derivatives.hessian_product(policy, params, chunk, w, tree), per_step.curvature),
        "fisher": (derivatives.fisher_product(policy, params, chunk, w, tree), per_step.fisher),
    }
    for name, (found, matrices) in products.items():
        expected = np.tensordot(flat_w, np.asarray(matrices), 1) @ v
        np.testing.assert_allclose(flat(found), expected, atol=TINY, err_msg=name)
