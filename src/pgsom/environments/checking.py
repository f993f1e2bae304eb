"""What is wrong with an environment, one line a finding, each with what to do about it."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pgsom.checks import InputError
from pgsom.environments.environment import Box, Discrete, MultiBinary, MultiDiscrete, Spec, Step

PARTS = ("name", "observation", "action", "horizon", "reset", "step")
LONGEST = 300
"""Steps that are tried, of longer episodes."""


def check_environment(environment: Any) -> tuple[str, ...]:
    """Try an environment, in JAX or of Gymnasium, and return what is wrong with it; nothing if all is well.

    ``pgsom.check_environment(MyEnvironment())``; of Gymnasium an instance, a class or a function that makes one.
    """
    gymnasium = sys.modules.get("gymnasium")
    if isinstance(environment, str):
        from pgsom.environments.registry import make

        environment = make(environment)
    if gymnasium is not None and _is_of_gymnasium(environment, gymnasium):
        from pgsom.environments.gymnasium_checking import gymnasium_findings

        return tuple(gymnasium_findings(environment))
    return tuple(_Tried(environment).findings())


def _is_of_gymnasium(environment: Any, gymnasium: Any) -> bool:
    if isinstance(environment, type):
        return issubclass(environment, gymnasium.Env)
    makes = callable(environment) and not all(hasattr(environment, part) for part in ("reset", "step"))
    return makes or isinstance(environment, gymnasium.Env) or hasattr(environment, "single")


class _Tried:
    """One environment of the JAX protocol under examination."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment

    def findings(self) -> Iterator[str]:
        """In the order in which they matter; what cannot be tried because of one is left out."""
        missing = [part for part in PARTS if not hasattr(self.environment, part)]
        if missing:
            yield f"{', '.join(missing)}: missing; an environment has {', '.join(PARTS)}"
            return
        static = list(self._static())
        yield from static
        if any(said.startswith(("observation", "action")) for said in static):
            return
        reset = list(self._reset())
        yield from reset
        if reset:
            return
        step = list(self._step())
        yield from step
        if not step:
            yield from self._episode()

    def _static(self) -> Iterator[str]:
        environment = self.environment
        try:
            hash(environment)
        except TypeError:
            yield "hash: it is not hashable, and it is a static part of compiled programs; make it a frozen dataclass"
        if not isinstance(environment.name, str) or not environment.name:
            yield f"name: is {environment.name!r}; it must be a non-empty string"
        for part in ("observation", "action"):
            spec = getattr(environment, part)
            if not isinstance(spec, Box | Discrete | MultiDiscrete | MultiBinary):
                kinds = "pgsom.Box, Discrete, MultiDiscrete or MultiBinary"
                yield f"{part}: is {type(spec).__name__}; it must be a {kinds}"
        horizon = environment.horizon
        if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
            yield f"horizon: is {horizon!r}; it must be a whole number >= 1, the steps of the longest episode"

    def _reset(self) -> Iterator[str]:
        found, said = _traced("reset", self.environment.reset, jax.random.key(0))
        if said:
            yield said
            return
        if not isinstance(found, tuple) or len(found) != 2:
            yield "reset: must return (state, observation)"
            return
        yield from _mismatch("reset: the observation", found[1], self.environment.observation)

    def _step(self) -> Iterator[str]:
        environment = self.environment
        state = jax.eval_shape(environment.reset, jax.random.key(0))[0]
        arguments = (jax.random.key(1), state, _action_shape(environment.action))
        found, said = _traced("step", environment.step, *arguments)
        if said:
            yield said
            return
        if not isinstance(found, Step):
            yield "step: must return pgsom.Step(state, observation, reward, terminated, truncated)"
            return
        yield from _mismatch("step: the observation", found.observation, environment.observation)
        if found.reward.shape != () or not jnp.issubdtype(found.reward.dtype, jnp.floating):
            yield f"step: the reward is {_worded(found.reward)}; it must be one real number"
        for flag in ("terminated", "truncated"):
            value = getattr(found, flag)
            if value.shape != () or value.dtype != bool:
                yield f"step: {flag} is {_worded(value)}; it must be one bool, such as x > 1 gives"
        trees: list[Any] = [jax.tree.structure(tree) for tree in (state, found.state)]
        before, after = trees
        if before != after:
            yield f"step: the state's structure changes from {before} to {after}; it must stay as reset made it"
        else:
            yield from _changed_leaves(state, found.state)

    def _episode(self) -> Iterator[str]:
        """Random actions until the end, or for `LONGEST` steps."""
        environment, steps = self.environment, min(self.environment.horizon, LONGEST)
        first, seen, told = _rolled(environment, steps)
        again = _rolled(environment, steps)
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(_arrays(told), _arrays(again[2]), strict=True)):
            yield "step: the same keys give other results the second time; all randomness must come from the key"
        over = np.asarray(told.terminated | told.truncated)
        length = int(np.argmax(over)) + 1 if over.any() else steps
        shown = np.concatenate([np.asarray(seen)[None], np.asarray(told.observation)[:length]])
        yield from _outside(shown, environment.observation)
        if not np.isfinite(np.asarray(told.reward)[:length]).all():
            yield f"step: a reward is not finite (step {int(np.argmin(np.isfinite(told.reward))) + 1})"
        if length == environment.horizon and not over.any():
            yield f"step: nothing ends the episode at step {length}, the horizon; truncated must be True there"
        early = np.asarray(told.truncated)[: min(length, environment.horizon - 1)]
        if early.any():
            at = int(np.argmax(early)) + 1
            said = f"the horizon is {environment.horizon}; an end by its own rule is terminated"
            yield f"step: truncated is True at step {at}, but {said}"
        del first


def _traced(part: str, function: Callable[..., Any], *arguments: Any) -> tuple[Any, str | None]:
    """Shapes of what the function returns, or why it cannot be traced."""
    try:
        return jax.eval_shape(function, *arguments), None
    except jax.errors.ConcretizationTypeError as error:
        reason = str(error).splitlines()[0]
        hint = "use jnp.where or jax.lax.cond in place of if, jnp in place of float, int and numpy"
        return None, f"{part}: cannot be compiled ({reason}); {hint}"
    except InputError as error:
        return None, f"{part}: {error}"
    except Exception as error:
        said = " ".join(str(error).split())
        return None, f"{part}: raises {type(error).__name__}: {said}"


def _mismatch(what: str, value: Any, spec: Spec) -> Iterator[str]:
    if not hasattr(value, "shape"):
        yield f"{what} is a {type(value).__name__}; it must be one array"
        return
    if value.shape != spec.shape:
        yield f"{what} has shape {value.shape}; its spec says {spec.shape}"
    wanted = jnp.zeros((), spec.dtype).dtype
    if value.dtype != wanted:
        yield f"{what} has dtype {value.dtype}; its spec says {wanted} (jnp.asarray(x, {wanted}))"


def _changed_leaves(before: Any, after: Any) -> Iterator[str]:
    paths = jax.tree_util.tree_leaves_with_path(before)
    for (path, old), new in zip(paths, jax.tree.leaves(after), strict=True):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            where = jax.tree_util.keystr(path) or "the state"
            said = "it must keep shape and dtype (jnp.asarray(x, dtype))"
            yield f"step: {where} of the state goes from {_worded(old)} to {_worded(new)}; {said}"


def _rolled(environment: Any, steps: int) -> tuple[Any, Any, Step]:
    """First state and observation, and what random actions led to [step, …]."""
    state, seen = jax.jit(environment.reset)(jax.random.key(0))

    def advance(state: Any, key: Any) -> tuple[Any, Step]:
        choose, move = jax.random.split(key)
        step = environment.step(move, state, _random_action(choose, environment.action))
        return jax.tree.map(lambda new, old: new.astype(old.dtype), step.state, state), step._replace(state=())

    state = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), state)
    return (
        state,
        seen,
        jax.jit(lambda s, k: jax.lax.scan(advance, s, k))(state, jax.random.split(jax.random.key(1), steps))[1],
    )


def _random_action(key: Any, spec: Spec) -> Any:
    if isinstance(spec, Discrete):
        return jax.random.randint(key, (), 0, spec.n, jnp.int32)
    if isinstance(spec, MultiDiscrete):
        return jax.random.randint(key, spec.shape, 0, jnp.asarray(spec.n), jnp.int32)
    if isinstance(spec, MultiBinary):
        return jax.random.bernoulli(key, shape=spec.shape).astype(jnp.int32)
    low, high = (jnp.broadcast_to(jnp.asarray(end, float), (spec.size,)) for end in (spec.low, spec.high))
    drawn = jax.random.uniform(key, (spec.size,), float, jnp.maximum(low, -1.0), jnp.minimum(high, 1.0))
    return jnp.clip(drawn, low, high).reshape(spec.shape)


def _action_shape(spec: Spec) -> Any:
    return jax.ShapeDtypeStruct(spec.shape, jnp.zeros((), spec.dtype).dtype)


def _outside(shown: Any, spec: Spec) -> Iterator[str]:
    """What observations of an episode say about their spec's bounds."""
    if np.issubdtype(shown.dtype, np.floating) and not np.isfinite(shown).all():
        yield "observation: an entry is not finite"
        return
    low, high = (spec.low, spec.high) if isinstance(spec, Box) else (0, _largest(spec))
    flat = shown.reshape(len(shown), -1)
    slack = 1e-6 * (1 + np.abs(flat))
    beyond = (flat < np.asarray(low) - slack) | (flat > np.asarray(high) + slack)
    if beyond.any():
        step, entry = np.argwhere(beyond)[0]
        yield f"observation: entry {entry} is {flat[step, entry]:g} at step {step}, outside of its bounds"


def _largest(spec: Spec) -> Any:
    if isinstance(spec, MultiBinary):
        return 1
    return np.asarray(spec.n) - 1 if not isinstance(spec, Box) else spec.high


def _arrays(tree: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def _worded(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}" if leaf.shape else f"one {leaf.dtype}"
