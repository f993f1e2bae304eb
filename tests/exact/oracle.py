"""Two routes to the expectation of an estimator over all trajectories of a finite MDP, neither of them by sampling.

`objective_of` lays all trajectories side by side as the episodes of one batch, each weighted with its probability:
the production estimators then return their expectation. `by_hand` is the slow route: the formulas of the paper,
trajectory by trajectory in NumPy, from derivatives of ln π(a|s) that `tables` takes by `jax.jacfwd`. The truth
about J, in `truth`, comes from a recursion over states that knows nothing of trajectories.

Rollouts are padded to one shape with trajectories of probability 0, so that few programs are compiled.
"""

import dataclasses
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from pgsom.baselines import NoBaseline
from pgsom.curvature import (
    CausalHessian,
    Fisher,
    GaussNewton,
    LemmaHessian,
    LogDensityHessian,
    dense,
    diagonal,
)
from pgsom.environments import Enumeration, FiniteMDP, enumerate_trajectories
from pgsom.objective import LocalObjective, Weighting, observe
from pgsom.policies import Policy, tabular_softmax
from pgsom.rollout import Rollout

Tree = Any
Shape = tuple[int, int]
quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""Compiled in a third of the time, for programs that run a few times only."""
ESTIMATORS = {
    "lemma": LemmaHessian(),
    "causal": CausalHessian(),
    "log-density": LogDensityHessian(),
    "gauss-newton": GaussNewton(),
    "fisher": Fisher(),
}
STATES = 4
"""Policies of the tests know this many states; those beyond the MDP's own are never visited."""
STEPS = 6
"""The longest horizon `truth` can do."""


def flat(tree: Tree) -> np.ndarray:
    """All leaves in one vector."""
    return np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(tree)])


def tabular(actions: int = 2) -> Policy:
    return Policy(tabular_softmax(STATES, actions))


def random_params(policy: Policy, seed: int = 0, scale: float = 0.7) -> Tree:
    """Normal numbers in the shape of the policy's parameters."""
    shapes = jax.eval_shape(policy.init, jax.random.key(0))
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(scale * generator.normal(size=leaf.shape)), shapes)


# --- the truth ---------------------------------------------------------------------------------------------------


class Truth(NamedTuple):
    """J, ∇J and ∇²J, of the flat parameters."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray


def truth(
    mdp: FiniteMDP, policy: Policy, params: Tree, *, discount: float | None = None, entropy: float = 0.0
) -> Truth:
    """Of J + entropy · E Σ_t γ^t H(π(·|s_t)), by the recursion d_{t+1} = d_t P_π over the states' probabilities."""
    time, discount = np.arange(STEPS), mdp.discount if discount is None else discount
    pad = STATES - mdp.states
    running = np.pad(~mdp.terminal, (0, pad)).astype(float)
    transition = np.pad(mdp.transition, ((0, pad), (0, 0), (0, pad)))
    reward = np.pad(mdp.reward, ((0, pad), (0, 0)))
    weights = np.where(time < mdp.horizon, discount**time, 0.0)
    vector, unravel = ravel_pytree(params)
    found = _derivatives(
        policy, unravel, vector, transition, reward, np.pad(mdp.start, (0, pad)), running, weights, entropy
    )
    return Truth(float(found[0]), *(np.asarray(x) for x in found[1:]))


@partial(quick_jit, static_argnums=(0, 1))
def _derivatives(policy, unravel, vector, transition, reward, start, running, weights, entropy):
    def J(theta: jax.Array) -> jax.Array:
        pi = jax.nn.softmax(jax.vmap(policy.outputs, (None, 0))(unravel(theta), jnp.arange(STATES)))
        earned = running * jnp.sum(pi * (reward - entropy * jnp.log(pi)), axis=1)
        going = running[:, None] * jnp.einsum("sa,sat->st", pi, transition)
        distribution, total = start, 0.0
        for t in range(STEPS):
            total = total + weights[t] * distribution @ earned
            distribution = distribution @ going
        return total

    return J(vector), jax.grad(J)(vector), jax.hessian(J)(vector)


# --- derivatives of ln π, tabulated ------------------------------------------------------------------------------


class Tables(NamedTuple):
    """A policy with finitely many observations, by automatic differentiation of its network alone."""

    outputs: np.ndarray
    """u [s, output]"""
    log_prob: np.ndarray
    """ln π [s, a]"""
    score: np.ndarray
    """∇ ln π [s, a, D]"""
    curvature: np.ndarray
    """∇² ln π [s, a, D, D]"""
    jacobian: np.ndarray
    """∂u/∂θ [s, output, D]"""
    entropy: np.ndarray
    """H(π(·|s)) [s]"""
    entropy_gradient: np.ndarray
    """∇H [s, D]"""


def tables(policy: Policy, params: Tree) -> Tables:
    vector, unravel = ravel_pytree(params)
    return Tables(*(np.asarray(x) for x in _tabulate(policy, unravel, vector)))


@partial(quick_jit, static_argnums=(0, 1))
def _tabulate(policy, unravel, vector):
    def outputs(theta: jax.Array) -> jax.Array:
        return jax.vmap(policy.network.apply, (None, 0))(unravel(theta), jnp.arange(STATES))

    def log_prob(theta: jax.Array) -> jax.Array:
        u = outputs(theta)
        return u - jnp.log(jnp.sum(jnp.exp(u), axis=1, keepdims=True))

    def entropy(theta: jax.Array) -> jax.Array:
        return -jnp.sum(jnp.exp(log_prob(theta)) * log_prob(theta), axis=1)

    score, slope = jax.jacfwd(log_prob), jax.jacfwd(entropy)
    functions = (outputs, log_prob, score, jax.jacfwd(score), jax.jacfwd(outputs), entropy, slope)
    return tuple(function(vector) for function in functions)


# --- all trajectories as one batch -------------------------------------------------------------------------------


@cache
def trajectories(mdp: FiniteMDP) -> Enumeration:
    return enumerate_trajectories(mdp)


def rollout_of(mdp: FiniteMDP, table: Tables, shape: Shape) -> Rollout:
    """All trajectories as the episodes of one batch [time, env], padded to `shape`."""
    found = trajectories(mdp)
    behind, beside = (size - have for size, have in zip(shape, found.state.shape, strict=True))
    assert behind >= 0 and beside >= 0, f"{found.state.shape} trajectories do not fit into {shape}"

    def columns(array: np.ndarray) -> np.ndarray:
        return np.concatenate([array, np.repeat(array[..., :1], beside, axis=-1)], axis=-1)

    def rows(array: np.ndarray, mode: str) -> np.ndarray:
        return np.pad(columns(array), ((0, behind), (0, 0)), mode=mode)

    state = rows(found.state, "edge")
    return Rollout(
        observation=jnp.asarray(state),
        action=jnp.asarray(rows(found.action, "edge")),
        outputs=jnp.asarray(table.outputs[state]),
        reward=jnp.asarray(rows(found.reward, "constant")),
        length=jnp.asarray(columns(found.mask.sum(axis=0)), jnp.int32),
        terminated=jnp.asarray(columns(found.terminated.any(axis=0))),
        truncated=jnp.asarray(columns(found.truncated.any(axis=0))),
        final_observation=jnp.asarray(columns(found.final_state)),
    )


def probabilities(mdp: FiniteMDP, table: Tables, count: int | None = None) -> np.ndarray:
    """p(τ) = ρ(s_0) Π_t P(s_{t+1}|s_t, a_t) π(a_t|s_t) of all trajectories, then zeros up to `count`."""
    found = trajectories(mdp)
    chosen = np.where(found.mask, np.exp(table.log_prob)[found.state, found.action], 1.0)
    p = found.environment_probability * chosen.prod(axis=0)
    return np.pad(p, (0, (count or p.size) - p.size))


def weighting(discount: float, discounting: str = "lemma", **changes: Any) -> Weighting:
    """Sums over steps, no baseline and no entropy unless `changes` say so."""
    options = {"baseline": NoBaseline(), "entropy": 0.0, "reduction": "sum"} | changes
    return Weighting(discount=discount, discounting=discounting, **options)


def objective_of(
    mdp: FiniteMDP,
    policy: Policy,
    params: Tree,
    shape: Shape,
    baseline_state: Tree = (),
    **changes: Any,
) -> LocalObjective:
    """The production objective whose estimates are expectations over all trajectories."""
    table = tables(policy, params)
    made = weighting(**({"discount": mdp.discount} | changes))
    return observed(
        made, baseline_state, policy, params, rollout_of(mdp, table, shape), probabilities(mdp, table, shape[1])
    )


def observed(
    made: Weighting, baseline_state: Tree, policy: Policy, params: Tree, rollout: Rollout, episode_weight: np.ndarray
) -> LocalObjective:
    """What these episodes say, each counting as much as `episode_weight` says."""
    return _observe(made, baseline_state, policy, params, rollout, jnp.asarray(episode_weight))


@partial(quick_jit, static_argnums=2)
def _observe(made, baseline_state, policy, params, rollout, episode_weight):
    objective = observe(made, baseline_state, policy, params, rollout, jax.random.key(0))
    return dataclasses.replace(objective, episode_weight=episode_weight)


def estimates(objective: LocalObjective, names: tuple[str, ...] = tuple(ESTIMATORS)) -> dict[str, np.ndarray]:
    """The gradient, and of every named estimator the dense matrix and (``"… diagonal"``) the diagonal, flat."""
    return {name: np.asarray(value) for name, value in _jitted_estimates(objective, names).items()}


def _estimates(objective: LocalObjective, names: tuple[str, ...]) -> dict[str, jax.Array]:
    made = {"gradient": ravel_pytree(objective.gradient())[0]}
    for name in names:
        made[name + " diagonal"] = ravel_pytree(diagonal(ESTIMATORS[name], objective))[0]
        made[name] = dense(ESTIMATORS[name], objective)
    return made


_jitted_estimates = quick_jit(_estimates, static_argnums=1)


def in_groups(
    mdp: FiniteMDP, policy: Policy, params: Tree, size: int, baseline_state: Tree = (), **changes: Any
) -> dict[str, np.ndarray]:
    """The expectation over all batches of `size` episodes, every combination of trajectories played out."""
    table = tables(policy, params)
    single = rollout_of(mdp, table, trajectories(mdp).state.shape)
    p = probabilities(mdp, table)
    members = np.stack(np.meshgrid(*[np.arange(p.size)] * size, indexing="ij"), -1).reshape(-1, size)
    single = single._replace(reward_scale=jnp.ones(p.size))
    group = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0)[members], single)
    group = group._replace(reward_scale=jnp.ones(len(members)))
    time_env = ("observation", "action", "reward")
    group = group._replace(
        **{name: jnp.moveaxis(getattr(group, name), -1, 1) for name in time_env},
        outputs=jnp.asarray(table.outputs)[jnp.moveaxis(group.observation, -1, 1)],
    )
    made = weighting(**({"discount": mdp.discount} | changes))
    expected = _expected(made, baseline_state, policy, params, group, p[members].prod(axis=1))
    return {name: np.asarray(value) for name, value in expected.items()}


@partial(quick_jit, static_argnums=2)
def _expected(made, baseline_state, policy, params, group, p):
    def of_one(rollout: Rollout) -> dict[str, jax.Array]:
        objective = observe(made, baseline_state, policy, params, rollout, jax.random.key(0))
        return _estimates(objective, ("lemma", "causal"))

    return jax.tree.map(lambda x: jnp.tensordot(p, x, 1), jax.vmap(of_one)(group))


# --- the slow route ----------------------------------------------------------------------------------------------


def weights_by_hand(reward: np.ndarray, length: np.ndarray, discount: float, discounting: str) -> np.ndarray:
    """w [time, env] from the definition, one sum after the other."""
    w = np.zeros(reward.shape)
    for n in range(reward.shape[1]):
        for t in range(length[n]):
            for k in range(t, length[n]):
                power = {"lemma": k, "appendix": k - t, "undiscounted": 0}[discounting]
                w[t, n] += discount**power * reward[k, n]
    return w


def by_hand(table: Tables, rollout: Rollout, e: np.ndarray, w: np.ndarray) -> dict[str, np.ndarray]:
    """Σ_n e_n X_n, X_n the gradient or matrix that the formula makes of trajectory n."""
    state, action, length = (np.asarray(x) for x in (rollout.observation, rollout.action, rollout.length))
    size = table.score.shape[-1]
    made = {name: np.zeros((size, size)) for name in ESTIMATORS} | {"gradient": np.zeros(size)}
    pi = np.exp(table.log_prob)
    fisher = np.einsum("sa,sai,saj->sij", pi, table.score, table.score)
    for n in np.flatnonzero(e):
        z = table.score[state[: length[n], n], action[: length[n], n]]
        earlier = np.cumsum(z, axis=0) - z
        wn = w[: length[n], n]
        surrogate = wn @ z
        log_density = np.tensordot(wn, table.curvature[state[: length[n], n], action[: length[n], n]], 1)
        outer = np.outer(z.sum(axis=0), surrogate)
        cross = np.einsum("t,ti,tj->ij", wn, z, earlier)
        made["gradient"] += e[n] * surrogate
        made["log-density"] += e[n] * log_density
        made["lemma"] += e[n] * (log_density + (outer + outer.T) / 2)
        made["causal"] += e[n] * (log_density + np.einsum("t,ti,tj->ij", wn, z, z) + cross + cross.T)
        made["fisher"] += e[n] * fisher[state[: length[n], n]].sum(axis=0)
        made["gauss-newton"] += e[n] * np.tensordot(
            np.abs(wn), [_gauss_newton(table, pi, s) for s in state[: length[n], n]], 1
        )
    return made


def _gauss_newton(table: Tables, pi: np.ndarray, s: int) -> np.ndarray:
    """Kᵀ F K with F = diag(π) − π πᵀ."""
    K = table.jacobian[s]
    return K.T @ (np.diag(pi[s]) - np.outer(pi[s], pi[s])) @ K
