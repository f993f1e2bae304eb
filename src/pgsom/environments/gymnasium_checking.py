"""What is wrong with an environment of Gymnasium: what Gymnasium's checker says, and what training needs besides."""

import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from pgsom.checks import InputError
from pgsom.environments.gymnasium_adapter import GymnasiumEnvironment
from pgsom.environments.gymnasium_spaces import action_spec, observation_spec, time_limit

STEPS = 300


def gymnasium_findings(source: Any) -> Iterator[str]:
    """One line each."""
    environment = _made(source)
    if not isinstance(environment, gymnasium.Env):
        yield f"it returned {type(environment).__name__}; accepted is a gymnasium.Env"
        return
    missing = [part for part in ("observation_space", "action_space") if getattr(environment, part, None) is None]
    if missing:
        yield f"{', '.join(missing)}: missing; set it in __init__"
        return
    for part, spec_of in (("observation_space", observation_spec), ("action_space", action_spec)):
        try:
            spec_of(getattr(environment, part))
        except InputError as error:
            yield str(error)
    if time_limit(environment) is None:
        yield "time limit: it has none; wrap it in gymnasium.wrappers.TimeLimit or pass max_episode_steps"
    said = list(_by_gymnasium(environment))
    yield from said
    if not said:
        yield from _by_an_episode(environment)


def _made(source: Any) -> Any:
    if isinstance(source, GymnasiumEnvironment):
        return source.single()
    return source if isinstance(source, gymnasium.Env) else source()


def _by_gymnasium(environment: Any) -> Iterator[str]:
    """Warnings and failed assertions of Gymnasium's checker; those about rendering and bounds of taste left out."""
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_env(_without_checker(environment), skip_render_check=True)
        except Exception as raised:
            error = raised
    for warning in caught:
        text = _plain(str(warning.message))
        if any(part in text for part in TASTE):
            continue
        yield text
    if error is not None:
        kind = "" if isinstance(error, AssertionError) else f"raises {type(error).__name__}: "
        yield f"{kind}{_plain(str(error))}"


TASTE = ("spec", "symmetric", "normalized", "infinity", "different from the unwrapped version", "too long")


def _without_checker(environment: Any) -> Any:
    """Gymnasium's checker wants to see the environment without wrappers."""
    return environment.unwrapped


def _by_an_episode(environment: Any) -> Iterator[str]:
    """Random actions; what Gymnasium's checker, which takes one step, cannot see."""
    environment.action_space.seed(0)
    seen, _ = environment.reset(seed=0)
    for step in range(1, STEPS + 1):
        seen, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
        if not environment.observation_space.contains(seen):
            yield f"step {step}: the observation is outside of observation_space ({_first_outside(environment, seen)})"
            return
        if not np.isfinite(float(reward)):
            yield f"step {step}: the reward is {reward}"
            return
        for flag, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_):
                yield f"step {step}: {flag} is a {type(value).__name__}; it must be a bool"
                return
        if terminated or truncated:
            return


def _first_outside(environment: Any, seen: Any) -> str:
    space: Any = environment.observation_space
    if not isinstance(space, spaces.Box):
        return str(seen)[:80]
    flat: Any = np.asarray(seen)
    dtype: Any = space.dtype
    if flat.shape != space.shape:
        return f"its shape is {flat.shape}, the space's {space.shape}"
    if not np.can_cast(flat.dtype, dtype):
        return f"its dtype is {flat.dtype}, the space's {dtype}"
    beyond = ~((flat >= space.low) & (flat <= space.high))
    entry = int(np.argmax(beyond))
    return f"entry {entry} is {flat.ravel()[entry]:g}"


def _plain(text: str) -> str:
    """Without Gymnasium's colours, on one line."""
    for code in ("\x1b[33m", "\x1b[31m", "\x1b[0m", "WARN: ", "ERROR: "):
        text = text.replace(code, "")
    return " ".join(text.split())
