"""The expectation of every estimator, by enumeration in float64, against the derivatives of the exact return."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgsom.baselines import (
    ConstantBaseline,
    LeaveOneOutBaseline,
    MovingAverageBaseline,
    TimeStepBaseline,
)
from pgsom.environments import (
    FiniteMDP,
    chain,
    exact_gradient,
    exact_return,
    probe_delayed,
    random_mdp,
    softmax_policy,
    three_state,
    two_armed_bandit,
)
from pgsom.objective import LocalObjective, observe
from pgsom.policies import MLP, Policy, linear_logistic, policy_from_functions
from tests.exact.oracle import (
    ESTIMATORS,
    STATES,
    Tables,
    by_hand,
    estimates,
    flat,
    in_groups,
    objective_of,
    probabilities,
    quick_jit,
    random_params,
    rollout_of,
    tables,
    tabular,
    trajectories,
    truth,
    weighting,
    weights_by_hand,
)

pytestmark = pytest.mark.usefixtures("float64")
TINY = 1e-10
HESSIANS = ("lemma", "causal")
LARGE, SMALL = (6, 3888), (4, 700)


def random(
    seed: int, states: int = 3, actions: int = 2, horizon: int = 3, discount: float = 0.9, ends: int = 0
) -> FiniteMDP:
    return random_mdp(np.random.default_rng(seed), states, actions, horizon, discount, ends)


MDPS = {
    "three-state": three_state(),
    "chain": chain(length=3, horizon=5),
    "random": random(1),
    "random with ends": random(2, states=4, ends=2, discount=0.8),
    "random, undiscounted": random(3, states=2, horizon=4, discount=1.0),
    "random, first reward only": random(4, states=2, discount=0.0),
}


@pytest.fixture(params=MDPS, name="mdp")
def _mdp(request: pytest.FixtureRequest) -> FiniteMDP:
    return MDPS[request.param]


def assert_unbiased(found: dict[str, np.ndarray], expected: Any) -> None:
    """Gradient, diagonals and dense matrices, within 1e-10 of the size of the truth."""
    scale = max(1.0, np.abs(expected.hessian).max())
    np.testing.assert_allclose(found["gradient"], expected.gradient, rtol=0, atol=TINY * scale)
    for name in HESSIANS:
        np.testing.assert_allclose(found[name], expected.hessian, rtol=0, atol=TINY * scale)
        np.testing.assert_allclose(found[name + " diagonal"], np.diag(expected.hessian), rtol=0, atol=TINY * scale)


# --- unbiased ----------------------------------------------------------------------------------------------------


def test_the_truth_is_the_exact_return_of_the_library(mdp: FiniteMDP) -> None:
    params = random_params(tabular())
    theta = params[0].weight[: mdp.states]
    found = truth(mdp, tabular(), params)
    assert found.value == pytest.approx(float(exact_return(mdp, softmax_policy(theta))), abs=TINY)
    gradient = flat(exact_gradient(mdp, softmax_policy, theta))
    np.testing.assert_allclose(found.gradient[: gradient.size], gradient, atol=TINY)


@pytest.mark.parametrize(
    ("baseline", "state"),
    [(None, ()), (ConstantBaseline(1.7), ()), (MovingAverageBaseline(0.9), (0.3, 0.1))],
    ids=["no baseline", "constant", "moving average"],
)
def test_gradient_and_hessians_are_unbiased_for_a_table(mdp: FiniteMDP, baseline: Any, state: Any) -> None:
    policy, changes = tabular(), {"baseline": baseline} if baseline else {}
    params = random_params(policy)
    objective = objective_of(mdp, policy, params, LARGE, jax.tree.map(jnp.asarray, state), **changes)
    assert_unbiased(estimates(objective), truth(mdp, policy, params))


def test_three_actions() -> None:
    mdp, policy = random(5, states=2, actions=3), tabular(actions=3)
    params = random_params(policy)
    assert_unbiased(estimates(objective_of(mdp, policy, params, SMALL)), truth(mdp, policy, params))


def features(observation: jax.Array) -> jax.Array:
    return jnp.asarray([[1.0, 0.2, -0.3], [0.5, -1.0, 0.4], [0.1, 0.3, 1.0], [0.0, 0.6, -0.8]])[observation]


def linear_logistic_on_features() -> Policy:
    network = linear_logistic(3, 2)
    return policy_from_functions(network.init, lambda params, s: network.apply(params, features(s)))


def mlp(*hidden: int, **changes: Any) -> Policy:
    return Policy(MLP(STATES, 2, hidden, one_hot=True, **changes))


def the_same_as_a_function(policy: Policy) -> Policy:
    return policy_from_functions(policy.network.init, policy.network.apply)


POLICIES = {
    "linear logistic on one-hot": mlp(bias=False, pinned_output=True),
    "linear logistic on features": linear_logistic_on_features(),
    "one hidden layer": mlp(3),
    "two hidden layers": mlp(3, 2, activation="silu"),
    "three hidden layers": mlp(2, 3, 2, activation="softplus"),
    "a function": the_same_as_a_function(mlp(3)),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_gradient_and_hessians_are_unbiased_for_any_network(policy: Policy) -> None:
    params = random_params(policy)
    for mdp in (random(6), chain(length=2, horizon=4)):
        objective = objective_of(mdp, policy, params, SMALL, baseline=ConstantBaseline(0.4))
        assert_unbiased(estimates(objective, HESSIANS), truth(mdp, policy, params))


@pytest.mark.parametrize(
    "mdp", [chain(length=1, horizon=2), random(7, states=3, horizon=2, ends=1)], ids=["chain", "random"]
)
def test_leave_one_out_is_unbiased_over_all_pairs_of_episodes(mdp: FiniteMDP) -> None:
    """Episodes of different lengths among them: the other one may have ended already."""
    params = random_params(tabular())
    found = in_groups(mdp, tabular(), params, 2, baseline=LeaveOneOutBaseline())
    assert_unbiased(found, truth(mdp, tabular(), params))


@pytest.mark.parametrize("episodes", [2, 3])
def test_the_time_step_baseline_shrinks_everything_by_its_declared_factor(episodes: int) -> None:
    """(N − 1)/N, with episodes of equal length."""
    mdp, params = two_armed_bandit(), random_params(tabular())
    exact, factor = truth(mdp, tabular(), params), (episodes - 1) / episodes
    found = in_groups(mdp, tabular(), params, episodes, baseline=TimeStepBaseline())
    np.testing.assert_allclose(found["gradient"], factor * exact.gradient, atol=TINY)
    assert np.abs(exact.gradient).max() > 0.1


def test_the_time_step_baseline_shrinks_the_gradient_of_longer_episodes_too() -> None:
    mdp, params = random(8, states=2, horizon=2), random_params(tabular())
    found = in_groups(mdp, tabular(), params, 2, baseline=TimeStepBaseline())
    np.testing.assert_allclose(found["gradient"], truth(mdp, tabular(), params).gradient / 2, atol=TINY)


# --- trajectory by trajectory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("discounting", ["lemma", "appendix", "undiscounted"])
@pytest.mark.parametrize("policy", [tabular(), mlp(3)], ids=["table", "one hidden layer"])
def test_every_estimator_is_its_formula_on_each_trajectory(policy: Policy, discounting: str) -> None:
    """Arbitrary episode weights in place of probabilities: nothing is left to cancel in expectation."""
    mdp, params = chain(length=2, horizon=4), random_params(policy)
    table = tables(policy, params)
    rollout = rollout_of(mdp, table, SMALL)
    e = np.random.default_rng(0).normal(size=SMALL[1])
    objective = objective_of(mdp, policy, params, SMALL, discounting=discounting)
    found = estimates(dataclasses.replace(objective, episode_weight=jnp.asarray(e)))
    w = weights_by_hand(np.asarray(rollout.reward), np.asarray(rollout.length), mdp.discount, discounting)
    np.testing.assert_allclose(objective.weight, w, atol=TINY)
    expected = by_hand(table, rollout, e, w)
    for name in ("gradient", *ESTIMATORS):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-9, err_msg=name)
    for name in ESTIMATORS:
        np.testing.assert_allclose(found[name + " diagonal"], np.diag(expected[name]), atol=1e-9, err_msg=name)


@pytest.mark.parametrize(("reduction", "share"), [("sum", 1 / 10), ("mean", 1 / 18)])
def test_reductions_average_over_episodes_or_over_steps(reduction: str, share: float) -> None:
    """The chain of one cell and two steps has ten trajectories: two of length 1 and eight of length 2."""
    mdp, params = chain(length=1, horizon=2), random_params(tabular())
    table = tables(tabular(), params)
    rollout = rollout_of(mdp, table, (2, 10))
    made = weighting(mdp.discount, reduction=reduction)
    objective = observe(made, (), tabular(), params, rollout, jax.random.key(0))
    w = weights_by_hand(np.asarray(rollout.reward), np.asarray(rollout.length), mdp.discount, "lemma")
    expected = by_hand(table, rollout, np.full(10, share), w)
    found = estimates(objective)
    for name in ("gradient", *ESTIMATORS):
        np.testing.assert_allclose(found[name], expected[name], atol=TINY)


# --- discounting -------------------------------------------------------------------------------------------------


def occupancy_gradient(mdp: FiniteMDP, table: Tables, front: np.ndarray) -> np.ndarray:
    """Σ_t front_t Σ_s P(s_t = s) Σ_a π(a|s) z(s, a) Q_t(s, a), by recursions over states."""
    n, pi, going = mdp.states, np.exp(table.log_prob[: mdp.states]), ~mdp.terminal
    transition = mdp.transition * going[:, None, None] * going
    reward = mdp.reward * going[:, None]
    Q, V = [], np.zeros(n)
    for _ in range(mdp.horizon):
        Q.insert(0, reward + mdp.discount * transition @ V)
        V = (pi * Q[0]).sum(axis=1)
    total, here = 0.0, mdp.start
    for t in range(mdp.horizon):
        total = total + front[t] * np.einsum("s,sa,sad,sa->d", here, pi, table.score[:n], Q[t])
        here = np.einsum("s,sa,sat->t", here, pi, transition)
    return total


def test_appendix_discounting_is_biased_by_the_forgotten_factors(mdp: FiniteMDP) -> None:
    """Its bias is Σ_t (1 − γ^t) E[z_t Q_t]: nothing at γ = 1, a good part of the gradient below."""
    params = random_params(tabular())
    table, exact = tables(tabular(), params), truth(mdp, tabular(), params)
    found = estimates(objective_of(mdp, tabular(), params, LARGE, discounting="appendix"))["gradient"]
    forgotten = 1 - mdp.discount ** np.arange(mdp.horizon)
    bias = occupancy_gradient(mdp, table, forgotten)
    np.testing.assert_allclose(found - exact.gradient, bias, atol=TINY)
    share = np.linalg.norm(bias) / np.linalg.norm(exact.gradient)
    assert share < TINY if mdp.discount == 1 else share > 0.005


def test_undiscounted_is_the_gradient_of_the_undiscounted_return(mdp: FiniteMDP) -> None:
    params = random_params(tabular())
    found = estimates(objective_of(mdp, tabular(), params, LARGE, discounting="undiscounted"))
    assert_unbiased(found, truth(mdp, tabular(), params, discount=1.0))


# --- what is wrong, and by how much ------------------------------------------------------------------------------


def discounted_fisher(mdp: FiniteMDP, table: Tables) -> np.ndarray:
    """E Σ_t γ^t z_t z_tᵀ."""
    found = trajectories(mdp)
    p, d = probabilities(mdp, table), mdp.discount ** np.arange(mdp.horizon)
    z = table.score[found.state, found.action]
    return np.einsum("n,t,tn,tni,tnj->ij", p, d, found.mask, z, z)


def test_a_baseline_in_one_term_only_biases_the_hessian_by_that_baseline_times_the_fisher(mdp: FiniteMDP) -> None:
    """∇²ℓ with w − b beside score products with w: E[−b Σ γ^t ∇²ℓ_t] = b Σ γ^t E[z zᵀ] too much, and the reverse."""
    b, params = 1.7, random_params(tabular())
    plain = estimates(objective_of(mdp, tabular(), params, LARGE))
    with_baseline = estimates(objective_of(mdp, tabular(), params, LARGE, baseline=ConstantBaseline(b)))
    exact = truth(mdp, tabular(), params).hessian
    bias = b * discounted_fisher(mdp, tables(tabular(), params))
    for name in HESSIANS:
        only_in_log_density = plain[name] - plain["log-density"] + with_baseline["log-density"]
        only_in_scores = with_baseline[name] - with_baseline["log-density"] + plain["log-density"]
        np.testing.assert_allclose(only_in_log_density - exact, bias, atol=TINY)
        np.testing.assert_allclose(only_in_scores - exact, -bias, atol=TINY)
    assert np.abs(np.diag(bias)).max() > 0.1


def test_differentiating_the_surrogate_twice_is_not_the_policy_hessian(mdp: FiniteMDP) -> None:
    params = random_params(tabular())
    found = estimates(objective_of(mdp, tabular(), params, LARGE))
    exact = truth(mdp, tabular(), params).hessian
    assert np.linalg.norm(np.diag(found["log-density"] - exact)) > 0.5 * np.linalg.norm(np.diag(exact))


def test_where_every_return_is_the_same_the_hessian_is_zero_and_the_surrogate_bends() -> None:
    base, params = three_state(), random_params(tabular())
    mdp = FiniteMDP(base.transition, np.ones((3, 2)), base.start, 0.9, 4)
    found = estimates(objective_of(mdp, tabular(), params, LARGE))
    for name in HESSIANS:
        np.testing.assert_allclose(found[name], 0, atol=TINY)
    assert np.diag(found["log-density"])[: 2 * mdp.states].max() < -0.1


# --- entropy -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discounting", ["lemma", "undiscounted"])
def test_entropy_bonus_is_the_gradient_of_the_return_plus_discounted_entropy(mdp: FiniteMDP, discounting: str) -> None:
    """Of H at the visited states, and of which states are visited."""
    c, params = 0.3, random_params(tabular())
    discount = mdp.discount if discounting == "lemma" else 1.0
    exact = truth(mdp, tabular(), params, discount=discount, entropy=c)
    found = estimates(objective_of(mdp, tabular(), params, LARGE, discounting=discounting, entropy=c))
    np.testing.assert_allclose(found["gradient"], exact.gradient, atol=TINY)
    unchanged = truth(mdp, tabular(), params, discount=discount)
    np.testing.assert_allclose(found["causal"], unchanged.hessian, atol=TINY)
    assert np.abs(exact.gradient - unchanged.gradient).max() > 0.004


def test_entropy_bonus_under_the_appendix_is_its_definition(mdp: FiniteMDP) -> None:
    """Σ_t ∇H_t + z_t Σ_{k>t} γ^(k−t) H_k, summed term by term."""
    c, params = 0.3, random_params(tabular())
    table, found = tables(tabular(), params), trajectories(mdp)
    p, expected = probabilities(mdp, table), np.zeros(table.score.shape[-1])
    for t in range(mdp.horizon):
        state, taken = found.state[t], found.mask[t]
        expected += np.einsum("n,nd->d", p * taken, table.entropy_gradient[state])
        for k in range(t + 1, mdp.horizon):
            later = mdp.discount ** (k - t) * table.entropy[found.state[k]] * found.mask[k]
            expected += np.einsum("n,nd->d", p * later, table.score[state, found.action[t]])
    with_bonus, without = (
        estimates(objective_of(mdp, tabular(), params, LARGE, discounting="appendix", entropy=x))["gradient"]
        for x in (c, 0.0)
    )
    np.testing.assert_allclose(with_bonus - without, c * expected, atol=TINY)


# --- re-weighting ------------------------------------------------------------------------------------------------


_at = quick_jit(LocalObjective.at)


@pytest.mark.parametrize("discounting", ["lemma", "appendix"])
@pytest.mark.parametrize("policy", [tabular(), mlp(3)], ids=["table", "one hidden layer"])
def test_reweighted_episodes_say_in_expectation_what_fresh_ones_would(policy: Policy, discounting: str) -> None:
    """Gradient with entropy, every estimator, KL-metric: E over θ of the re-weighted = E over θ′ of the fresh."""
    mdp = chain(length=2, horizon=4)
    here, there = random_params(policy, 0), random_params(policy, 1)
    changes = {"baseline": ConstantBaseline(-1.3), "entropy": 0.3, "discounting": discounting}
    fresh = objective_of(mdp, policy, there, SMALL, **changes)
    again = _at(objective_of(mdp, policy, here, SMALL, **changes), there)
    np.testing.assert_allclose(again.episode_weight, fresh.episode_weight, atol=TINY)
    expected, found = estimates(fresh), estimates(again)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=TINY, err_msg=name)


def test_reweighting_to_the_same_place_changes_nothing() -> None:
    mdp, params = probe_delayed(steps=2), random_params(tabular())
    changes = {"entropy": 0.3}
    objective = objective_of(mdp, tabular(), params, SMALL, **changes)
    again = _at(objective, params)
    for before, after in zip(jax.tree.leaves(objective), jax.tree.leaves(again), strict=True):
        if not jax.dtypes.issubdtype(before.dtype, jax.dtypes.prng_key):
            taken = np.broadcast_to(1.0, before.shape)
            np.testing.assert_allclose(before * taken, after * taken, atol=TINY)
