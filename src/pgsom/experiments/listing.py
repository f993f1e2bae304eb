"""All trajectories of a small MDP as one batch whose episodes count as much as they are probable.

The code that trains, given such a batch, returns its expectation. Everything is for the tabular softmax policy
π(a|s) ∝ exp θ[s, a], in the default float dtype: float64 where `jax.enable_x64` is on.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from pgsom.curvature import Estimator, dense, diagonal
from pgsom.environments import (
    Discrete,
    Enumeration,
    FiniteMDP,
    Step,
    enumerate_trajectories,
    softmax_policy,
    trajectory_probabilities,
)
from pgsom.environments.exact import Dynamics, dynamics_of, finite_return, finite_values
from pgsom.environments.finite_mdp import Tables, begin, move, tables_of
from pgsom.experiments.problems import Problem
from pgsom.folds import padded_length
from pgsom.objective import LocalObjective, Weighting, observe
from pgsom.policies import Layer, Policy, derivatives, tabular_softmax
from pgsom.returns import Discounting
from pgsom.rollout import Rollout, collect

Matrix = NDArray[np.float64]
BASELINES = ("none", "constant", "state value")
"""b = 0, b = J, and b_t = V_t(s_t), the exact value of π."""
BATCH = 1024
"""Trajectories worked on at once; listings are padded to a multiple of it with trajectories of probability 0."""
# A third of the time to compile, for programs that run briefly.
_quickly = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


class Truth(NamedTuple):
    """J, ∇J [S, A] and ∇²J [S A, S A]."""

    value: float
    gradient: Matrix
    hessian: Matrix

    @property
    def hessian_diagonal(self) -> Matrix:
        """In the shape of θ."""
        return np.diag(self.hessian).reshape(self.gradient.shape)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KnownBaseline:
    """b [time, env], given. Of the steps' states and times alone, so unbiased."""

    table: Any
    unbiased: ClassVar[bool] = True
    least_episodes: ClassVar[int] = 1

    def init(self) -> tuple[()]:
        return ()

    def values(self, state: Any, returns: Array, mask: Array) -> Array:
        del state, mask
        return jnp.broadcast_to(self.table, returns.shape)

    def update(self, state: Any, returns: Array) -> Any:
        del returns
        return state


@dataclass(frozen=True, eq=False)
class Listing:
    """All trajectories of a problem, as the episodes of one batch [time, trajectory], and their probabilities."""

    problem: Problem
    rollout: Rollout
    probability: Matrix
    count: int
    """How many trajectories there are, padding apart."""

    @property
    def policy(self) -> Policy:
        """The tabular softmax policy."""
        return Policy(tabular_softmax(*self.problem.theta.shape))

    @property
    def params(self) -> tuple[Layer, ...]:
        """θ as the policy wants it."""
        return (Layer(jnp.asarray(self.problem.theta), None),)

    @cached_property
    def matters(self) -> NDArray[np.bool_]:
        """[S, A]: whether the state is ever acted in, so that its logits do anything."""
        state = np.asarray(self.rollout.observation)
        taken = (np.arange(len(state))[:, None] < np.asarray(self.rollout.length)) & (self.probability > 0)
        seen = np.zeros(self.problem.mdp.states, bool)
        seen[state[taken]] = True
        return np.repeat(seen[:, None], self.problem.mdp.actions, axis=1)

    @cached_property
    def truth(self) -> Truth:
        """Exact, of the discounted return."""
        return truth_of(self.problem)

    def objective(self, baseline: str = "none", discounting: Discounting = "lemma") -> LocalObjective:
        """What the listing says: each of its estimates is an expectation."""
        mdp = self.problem.mdp
        discount = jnp.asarray(mdp.discount)
        dynamics = dynamics_of(mdp)._replace(discount=jnp.ones(()) if discounting == "undiscounted" else discount)
        table = baseline_table(dynamics, self.problem.theta, self.rollout.observation, mdp.horizon, baseline)
        weighting = Weighting(discount, KnownBaseline(table), 0.0, discounting, "sum")
        key = jax.random.key(0)
        return observed(weighting, self.policy, self.params, self.rollout, self.probability, key)


def list_trajectories(problem: Problem) -> Listing:
    """Every trajectory with its probability under the problem's policy."""
    found = enumerate_trajectories(problem.mdp)
    probability = trajectory_probabilities(found, softmax_policy(jnp.asarray(problem.theta)))
    count, horizon = probability.size, problem.mdp.horizon
    behind, beside = padded_length(horizon) - horizon, -count % BATCH

    def rows(array: NDArray[Any]) -> Array:
        """More steps and more trajectories, of copies."""
        padded = np.pad(array, ((0, behind), (0, 0)), mode="edge")
        return jnp.asarray(np.pad(padded, ((0, 0), (0, beside)), mode="edge"))

    def columns(array: NDArray[Any]) -> Array:
        return jnp.asarray(np.pad(array, (0, beside), mode="edge"))

    state = rows(found.state)
    rollout = Rollout(
        observation=state,
        action=rows(found.action),
        outputs=jnp.asarray(problem.theta)[state],
        reward=rows(np.where(found.mask, found.reward, 0.0)) * (jnp.arange(state.shape[0]) < horizon)[:, None],
        length=columns(found.mask.sum(axis=0).astype(np.int32)),
        terminated=columns(np.asarray(found.terminated.any(axis=0))),
        truncated=columns(np.asarray(found.truncated.any(axis=0))),
        final_observation=columns(found.final_state),
    )
    return Listing(problem, rollout, np.pad(np.asarray(probability), (0, beside)), count)


def truth_of(problem: Problem) -> Truth:
    """J, ∇J and ∇²J by differentiating the recursion over states."""
    value, gradient, hessian = exact_derivatives(dynamics_of(problem.mdp), problem.theta, problem.mdp.horizon)
    return Truth(float(value), np.asarray(gradient), np.asarray(hessian))


@partial(_quickly, static_argnames="horizon")
def exact_derivatives(dynamics: Dynamics, theta: Array, horizon: int) -> tuple[Array, Array, Array]:
    """J, ∇J [S, A] and ∇²J [S A, S A], through the recursion over states."""

    def J(logits: Array) -> Array:
        return finite_return(dynamics, softmax_policy(logits.reshape(theta.shape)), horizon)

    flat = jnp.asarray(theta).ravel()
    return J(flat), jax.grad(J)(flat).reshape(theta.shape), jax.hessian(J)(flat)


@partial(_quickly, static_argnames=("horizon", "baseline"))
def baseline_table(dynamics: Dynamics, theta: Array, state: Array, horizon: int, baseline: str) -> Array:
    """b [time, trajectory]: 0, J, or the exact V_t(s_t)."""
    values = finite_values(dynamics, softmax_policy(jnp.asarray(theta)), horizon)
    rows = state.shape[0]
    by_time = jnp.pad(values, ((0, rows - horizon), (0, 0)))
    return {
        "none": jnp.zeros(state.shape),
        "constant": jnp.full(state.shape, values[0] @ dynamics.start),
        "state value": by_time[jnp.arange(rows)[:, None], state],
    }[baseline]


@partial(_quickly, static_argnames="policy")
def observed(
    weighting: Weighting, policy: Policy, params: Any, rollout: Rollout, episode_weight: Array, key: Array
) -> LocalObjective:
    """What episodes say of which each counts `episode_weight`."""
    return replace(observe(weighting, (), policy, params, rollout, key), episode_weight=episode_weight)


def play(mdp: FiniteMDP, policy: Policy, params: Any, key: Array, episodes: int) -> Rollout:
    """Episodes, as training plays them."""
    return _collected(tables_of(mdp), mdp.horizon, policy, params, key, episodes)


@dataclass(frozen=True, eq=False)
class _Traced:
    """A finite MDP whose numbers are arguments of the program it is compiled into."""

    tables: Tables
    horizon: int
    name: str = "finite-mdp"

    @property
    def observation(self) -> Discrete:
        return Discrete(self.tables.start.shape[0])

    @property
    def action(self) -> Discrete:
        return Discrete(self.tables.reward.shape[1])

    def reset(self, key: Array) -> tuple[Any, Array]:
        return begin(self.tables, key)

    def step(self, key: Array, state: Any, action: Array) -> Step:
        return move(self.tables, self.horizon, key, state, action)


@partial(_quickly, static_argnames=("horizon", "policy", "episodes"))
def _collected(tables: Tables, horizon: int, policy: Policy, params: Any, key: Array, episodes: int) -> Rollout:
    return collect(_Traced(tables, horizon), policy, params, key, episodes)


@partial(_quickly, static_argnames="quantity")
def values_of_each(objective: LocalObjective, quantity: Estimator | None, key: Array) -> Array:
    """The gradient (None) or an estimator's diagonal from each trajectory alone [trajectory, D]."""

    def of_one(episode: Array) -> Array:
        one = replace(_episode(objective, episode), key=jax.random.fold_in(key, episode))
        return ravel_pytree(one.gradient() if quantity is None else diagonal(quantity, one))[0]

    return _over_trajectories(of_one, objective)


@partial(_quickly, static_argnames="matrix")
def matrix_of_each(objective: LocalObjective, matrix: Estimator) -> tuple[Array, Array]:
    """H_ii and Σ_{j≠i} H_ij² of each trajectory."""

    def of_one(episode: Array) -> tuple[Array, Array]:
        H = dense(matrix, _episode(objective, episode))
        return jnp.diag(H), jnp.sum(jnp.square(H - jnp.diag(jnp.diag(H))), axis=1)

    return _over_trajectories(of_one, objective)


@_quickly
def trajectory_scores(objective: LocalObjective) -> Array:
    """Σ_t z_t [trajectory, D]."""
    scores = derivatives.score_sums_by_episode(
        objective.policy, objective.params, objective.chunk, objective.rollout.mask
    )
    return jax.vmap(lambda score: ravel_pytree(score)[0])(scores)


@partial(_quickly, static_argnames="estimator")
def expected_matrix(objective: LocalObjective, estimator: Estimator) -> Array:
    """The whole matrix [D, D]."""
    return dense(estimator, objective)


@_quickly
def log_probability_gradient(found: Enumeration, theta: Array) -> Array:
    """∇ ln p(τ) [trajectory, D], of the whole probability."""
    flat = jnp.asarray(theta).ravel()
    return jax.jacfwd(
        lambda logits: jnp.log(trajectory_probabilities(found, softmax_policy(logits.reshape(theta.shape))))
    )(flat)


def _over_trajectories(function: Any, objective: LocalObjective) -> Any:
    trajectories = objective.episode_weight.size
    return jax.lax.map(function, jnp.arange(trajectories), batch_size=min(trajectories, BATCH))


def _episode(objective: LocalObjective, index: Array) -> LocalObjective:
    """One trajectory as a batch of its own."""

    def column(array: Array) -> Array:
        return array[:, index][:, None]

    by_time = {"observation", "action", "outputs", "reward"}
    by_episode = {"length", "terminated", "truncated", "final_observation"}
    recorded: dict[str, Any] = objective.rollout._asdict()
    rollout = Rollout(
        **{name: column(array) for name, array in recorded.items() if name in by_time},
        **{name: array[index][None] for name, array in recorded.items() if name in by_episode},
    )
    return replace(
        objective,
        rollout=rollout,
        outputs=column(objective.outputs),
        weight=column(objective.weight),
        episode_weight=jnp.ones(1),
        entropy_to_go=column(objective.entropy_to_go),
        entropy_weight=column(objective.entropy_weight),
    )
