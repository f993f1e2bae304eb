"""K-FAC: factors and steps against the dense Fisher matrix, which they equal where theory says so."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import pgsom
from pgsom.checks import InputError
from pgsom.curvature import Fisher, dense
from pgsom.environments import random_mdp
from pgsom.linear_algebra import inverse
from pgsom.objective import LocalObjective
from pgsom.policies import MLP, Layer, Policy, derivatives
from pgsom.policies.layers import KroneckerFactors
from pgsom.updates import kfac
from pgsom.updates.kfac import divide
from tests.exact.oracle import STATES, flat, objective_of, observed, quick_jit, random_params, rollout_of, tables
from tests.exact.oracle import weighting as weighting_of

pytestmark = pytest.mark.usefixtures("float64")
TINY = 1e-10
NETWORK = Policy(MLP(STATES, 3, (3, 2), one_hot=True))
WITHOUT_BIAS = Policy(MLP(STATES, 3, (3,), bias=False, one_hot=True))


def several(policy: Policy) -> LocalObjective:
    """All trajectories of a random MDP with three actions."""
    mdp = random_mdp(np.random.default_rng(1), STATES, 3, 2, 0.9)
    return objective_of(mdp, policy, random_params(policy), (2, 600))


def single(policy: Policy) -> LocalObjective:
    """One step of one episode."""
    mdp, params = random_mdp(np.random.default_rng(2), 2, 3, 1, 0.9), random_params(policy)
    rollout = rollout_of(mdp, tables(policy, params), (1, 12))
    return observed(weighting_of(0.9), (), policy, params, rollout, np.eye(12)[0])


def blocks(policy: Policy, matrix: np.ndarray) -> list[np.ndarray]:
    """The diagonal block of each layer, rows in the order in which `divide` stacks weight and bias."""
    shapes = jax.eval_shape(policy.init, jax.random.key(0))
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(layer)) for layer in shapes]
    ends = np.cumsum(sizes)
    return [matrix[end - size : end, end - size : end] for end, size in zip(ends, sizes, strict=True)]


@quick_jit
def factors_and_fisher(objective: LocalObjective) -> Any:
    (factors,) = objective.evaluate(objective.kronecker_fold())
    return factors, dense(Fisher(), objective) / objective.step_weight.sum()


@pytest.mark.parametrize("policy", [NETWORK, WITHOUT_BIAS], ids=["biases", "none"])
def test_for_a_single_sample_the_factors_are_every_layers_block_of_the_fisher_matrix(policy: Policy) -> None:
    factors, fisher = factors_and_fisher(single(policy))
    for (A, G), block in zip(factors, blocks(policy, np.asarray(fisher)), strict=True):
        np.testing.assert_allclose(np.kron(A, G), block, atol=TINY)
        assert np.abs(block).max() > 1e-4


@pytest.mark.parametrize("policy", [NETWORK, WITHOUT_BIAS], ids=["biases", "none"])
def test_factors_are_the_second_moments_of_inputs_and_signals(policy: Policy) -> None:
    """From the states' shares of all steps, each layer's inputs and the Jacobian of its pre-activations, by hand."""
    objective = several(policy)
    factors, _ = factors_and_fisher(objective)
    share = np.zeros(STATES)
    np.add.at(share, np.asarray(objective.rollout.observation), np.asarray(objective.step_weight))
    share /= share.sum()
    for index, (A, G) in enumerate(factors):
        moment_in, moment_back = np.zeros(A.shape), np.zeros(G.shape)
        for state in range(STATES):
            a, K = input_and_jacobian(policy, objective.params, state, index)
            u = policy.outputs(objective.params, jnp.asarray(state))
            S = np.asarray(policy.distribution.fisher_factor(u))
            moment_in += share[state] * np.outer(a, a)
            moment_back += share[state] * K.T @ S @ S.T @ K
        np.testing.assert_allclose(A, moment_in, atol=TINY)
        np.testing.assert_allclose(G, moment_back, atol=TINY)


def input_and_jacobian(policy: Policy, params: Any, state: int, index: int) -> tuple[np.ndarray, np.ndarray]:
    """What goes into a layer (with a 1 for its bias), and ∂outputs/∂(what comes out of it)."""
    taps = tuple(jnp.zeros(n) for n in policy.network.units)

    def outputs(tap: jax.Array) -> jax.Array:
        changed = (*taps[:index], tap, *taps[index + 1 :])
        return policy.network.forward(params, jnp.asarray(state), changed).outputs

    a = policy.network.forward(params, jnp.asarray(state)).inputs[index]
    one = [] if params[index].bias is None else [1.0]
    return np.concatenate([np.asarray(a), one]), np.asarray(jax.jacrev(outputs)(taps[index]))


@pytest.mark.filterwarnings("ignore")
def test_the_factors_are_kfac_jaxs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch with biases, exact over actions; where kfac-jax is installed, which is no dependency."""
    kfac_jax = pytest.importorskip("kfac_jax", exc_type=ImportError)
    matcher = pytest.importorskip("kfac_jax._src.tag_graph_matcher")
    # kfac-jax 0.0.8 expects primitives to give their functions apart from their parameters, as they did before JAX 0.9.
    monkeypatch.setattr(matcher, "eval_jaxpr_eqn", bind_as_jax_does_now)
    policy = Policy(MLP(4, 3, (5, 6)))
    params, observation = random_params(policy), np.random.default_rng(0).normal(size=(8, 2, 4))

    def theirs(layers: Any, batch: jax.Array) -> jax.Array:
        for index, (weight, bias) in enumerate(layers):
            batch = batch @ weight + bias
            batch = jnp.tanh(batch) if index < len(layers) - 1 else batch
        kfac_jax.register_categorical_predictive_distribution(batch)
        return batch.sum()

    arguments = ([tuple(layer) for layer in params], jnp.asarray(observation.reshape(-1, 4)))
    estimator = kfac_jax.BlockDiagonalCurvature(theirs, default_estimation_mode="fisher_exact")
    key, powers = jax.random.key(0), {"exact_powers_to_cache": None, "approx_powers_to_cache": None}
    state = estimator.init(key, arguments, **powers)
    state = estimator.update_curvature_matrix_estimate(state, 0.0, 1.0, 1.0, 16, key, arguments)
    chunk = derivatives.Chunk(jnp.asarray(observation), jnp.zeros((8, 2), jnp.int32))
    ours = derivatives.kronecker_factors(policy, params, chunk, jnp.full((8, 2), 1 / 16))
    for (A, G), block in zip(ours, state.blocks_states, strict=True):
        np.testing.assert_allclose(A, block.factors[0].value, atol=TINY)
        np.testing.assert_allclose(G, block.factors[1].value, atol=TINY)


def bind_as_jax_does_now(equation: Any, values: list[Any]) -> list[Any]:
    found = equation.primitive.bind(*values, **equation.primitive.get_bind_params(equation.params))
    return found if isinstance(found, list) else [found]


def test_for_a_linear_layer_whose_inputs_and_signals_are_independent_the_blocks_are_exact() -> None:
    """With all weights zero the policy is uniform in every state: the signals are the same, whatever comes in."""
    policy = Policy(MLP(STATES, 3, (), one_hot=True))
    mdp = random_mdp(np.random.default_rng(1), STATES, 3, 2, 0.9)
    params = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), random_params(policy))
    ((A, G),), fisher = factors_and_fisher(objective_of(mdp, policy, params, (2, 600)))
    np.testing.assert_allclose(np.kron(A, G), fisher, atol=TINY)
    ((A, G),), fisher = factors_and_fisher(several(policy))
    assert np.abs(np.kron(A, G) - fisher).max() > 1e-3, "and elsewhere they are an approximation"


def test_dividing_a_layer_is_the_dense_solve_with_factored_damping() -> None:
    """(A + π√λ I) ⊗ (G + √λ/π I), solved as one system."""
    generator = np.random.default_rng(0)
    spread = [generator.normal(size=(n, n)) for n in (4, 3)]
    A, G = (s @ s.T / len(s) for s in spread)
    damping, weight, bias = 0.1, generator.normal(size=(3, 3)), generator.normal(size=3)
    pi = np.sqrt((np.trace(A) / 4) / (np.trace(G) / 3))
    matrix = np.kron(A + pi * np.sqrt(damping) * np.eye(4), G + np.sqrt(damping) / pi * np.eye(3))
    expected = np.linalg.solve(matrix, np.vstack([weight, bias]).ravel()).reshape(4, 3)
    factors = KroneckerFactors(jnp.asarray(A), jnp.asarray(G))
    found = divide(Layer(jnp.asarray(weight), jnp.asarray(bias)), factors, damping)
    np.testing.assert_allclose(np.vstack([found.weight, found.bias]), expected, atol=TINY)


@pytest.mark.parametrize("size", [1, 5, 16, 17, 40])
def test_inverses_without_lapack(size: int) -> None:
    """Either side of the size from which quarters are used."""
    spread = np.random.default_rng(size).normal(size=(size, size))
    matrix = spread @ spread.T / size + 0.1 * np.eye(size)
    np.testing.assert_allclose(quick_jit(inverse)(jnp.asarray(matrix)), np.linalg.inv(matrix), atol=1e-11)


def test_an_update_is_its_equations_and_as_long_as_the_radius_says() -> None:
    """Two updates: averages corrected for their start, momentum, then ½ dᵀFd = δ with the exact F."""
    objective = several(NETWORK)
    rule = kfac(damping=0.02, decay=0.8, momentum=0.5, kl_radius=0.003)
    update = quick_jit(rule.update)
    fresh, fisher = factors_and_fisher(objective)
    gradient = objective.gradient()
    once = [flat(divide(g, f, 0.02)) for g, f in zip(gradient, fresh, strict=True)]
    state = rule.init(objective.params)
    for factor in (1.0, 1.5):
        direction, state, info = update(objective, state, objective.params)
        expected = factor * np.concatenate(once)
        np.testing.assert_allclose(flat(state.velocity), expected, atol=TINY, rtol=1e-9)
        d = flat(direction)
        np.testing.assert_allclose(d / np.linalg.norm(d), expected / np.linalg.norm(expected), atol=1e-9)
        assert 0.5 * d @ np.asarray(fisher) @ d == pytest.approx(0.003, rel=1e-9)
    assert int(state.updates) == 2 and float(info.alignment) > 0


def test_the_longest_factor_is_kept_to() -> None:
    """ACKTR's η_max: with a radius that would take it further, the direction itself times the factor."""
    objective = several(NETWORK)
    rate, capped = (
        quick_jit(kfac(**options).update)(objective, kfac().init(objective.params), objective.params)[0]
        for options in ({"step_length": "rate"}, {"kl_radius": 1e6, "longest": 0.25})
    )
    np.testing.assert_allclose(flat(capped), 0.25 * flat(rate), rtol=1e-9)


def test_a_network_without_layers_is_refused() -> None:
    policy = pgsom.policy_from_functions(lambda key: jnp.zeros(3), lambda params, s: params[:2])
    with pytest.raises(InputError, match="K-FAC needs the layers; accepted are mlp, linear, tabular"):
        kfac().init(policy.init(jax.random.key(0)))


def test_the_state_is_the_factors_and_a_velocity() -> None:
    """Σ (n_in + 1)² + n_out² and D numbers."""
    params = random_params(NETWORK)
    sizes = [leaf.size for leaf in jax.tree.leaves(kfac().init(params))]
    expected = sum((layer.weight.shape[0] + 1) ** 2 + layer.weight.shape[1] ** 2 for layer in params)
    assert sum(sizes) == expected + ravel_pytree(params)[0].size + 1
