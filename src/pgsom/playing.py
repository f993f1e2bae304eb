"""Watching a policy: episodes one by one, with a picture of every step.

Pictures come from the environment's own renderer. An environment in JAX that Gymnasium has too is drawn by Gymnasium's,
which is given the state; any other by bars of what the policy sees.
"""

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from pgsom.checks import InputError, wrong
from pgsom.environments import Environment, GymnasiumEnvironment, HostEnvironment
from pgsom.environments.gymnasium_spaces import action_conversion, flattening
from pgsom.runs import Result

Frame = NDArray[np.uint8]
FILES = (".gif", ".mp4")
FRAMES_A_SECOND = 30
STATES: dict[str, tuple[str, ...]] = {
    "CartPole-v1": ("x", "x_dot", "theta", "theta_dot"),
    "Acrobot-v1": ("joint_angle1", "joint_angle2", "velocity_1", "velocity_2"),
    "MountainCar-v0": ("position", "velocity"),
    "MountainCarContinuous-v0": ("position", "velocity"),
    "Pendulum-v1": ("theta", "theta_dot"),
}
"""Environments in JAX that Gymnasium draws, and the fields of their state in the order of Gymnasium's."""


class Shown(NamedTuple):
    """A moment of an episode."""

    frame: Frame | None
    """What it looks like, if it was to be drawn."""
    total: float
    """The return so far."""
    steps: int
    over: bool


def play(
    result: Result,
    seed: int,
    *,
    draw: str | None = "rgb_array",
    stochastic: bool = False,
    key: int = 1,
    episode: int = 0,
) -> Iterator[Shown]:
    """One episode of the policy of `seed`, moment by moment.

    `draw` is Gymnasium's ``"rgb_array"``, or ``"human"`` for a window, or None. The most probable action is taken each
    time, or with `stochastic` a drawn one.
    """
    without_display()
    policy = result.policy(seed)
    root = jax.random.fold_in(jax.random.key(key), episode)
    keys: Callable[[int], Any] = functools.partial(jax.random.fold_in, root)

    def act(observation: Any, t: int) -> Any:
        return policy.act(observation, key=keys(2 * t) if stochastic else None)

    environment = result.environment
    if isinstance(environment, GymnasiumEnvironment):
        return _on_the_host(environment, act, draw, int(jax.random.bits(keys(0)) >> 1))
    if isinstance(environment, HostEnvironment):
        raise wrong("environment", environment.name, "is a vector of the caller's; accepted are ids and instances")
    return _in_jax(environment, act, draw, keys)


def record(shown: list[Shown], path: Path, frames_a_second: int = FRAMES_A_SECOND) -> Path:
    """The moments as a film, GIF or MP4."""
    check_film(path)
    imageio = _imageio()
    frames = [moment.frame for moment in shown if moment.frame is not None]
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # JAX warns of every fork; the encoder's process runs nothing of this one.
        warnings.simplefilter("ignore", RuntimeWarning)
        if path.suffix.lower() == ".gif":
            imageio.mimwrite(path, frames, duration=1000 / frames_a_second, loop=0)
        else:
            imageio.mimwrite(path, [_even(frame) for frame in frames], fps=frames_a_second, macro_block_size=1)
    return path


def check_film(path: Path) -> None:
    """That a film of this name can be written."""
    if path.suffix.lower() not in FILES:
        raise wrong("out", str(path), f"accepted are files that end in {' or '.join(FILES)}")
    _imageio()


def has_display() -> bool:
    """Whether a window can be opened."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def without_display() -> None:
    """Before a simulator is imported: let it draw into memory, and keep quiet about missing devices."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    if not has_display():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("MUJOCO_GL", "egl")


def _imageio() -> Any:
    try:
        import imageio.v2
    except ImportError as error:
        needed = f"needs a package that is not installed ({error}); pip install imageio imageio-ffmpeg pygame"
        raise InputError(f"out: a film {needed}") from None
    return imageio.v2


def _on_the_host(
    environment: GymnasiumEnvironment, act: Callable[[Any, int], Any], draw: str | None, seed: int
) -> Iterator[Shown]:
    env = environment.single(render_mode=draw)
    flatten, convert = flattening(env.observation_space), action_conversion(env.action_space)
    try:
        seen, _ = env.reset(seed=seed)
        total = 0.0
        for t in range(environment.horizon):
            yield Shown(_picture(env), total, t, over=False)
            seen, reward, terminated, truncated, _ = env.step(convert(np.asarray(act(flatten(seen), t))[None])[0])
            total += float(reward)
            if terminated or truncated:
                break
        yield Shown(_picture(env), total, t + 1, over=True)
    finally:
        env.close()


def _picture(env: Any) -> Frame | None:
    return None if env.render_mode is None else _as_frame(env.render())


def _as_frame(rendered: Any) -> Frame | None:
    return np.asarray(rendered, np.uint8) if isinstance(rendered, np.ndarray) else None


def _in_jax(
    environment: Environment, act: Callable[[Any, int], Any], draw: str | None, keys: Callable[[int], Any]
) -> Iterator[Shown]:
    reset, step = jax.jit(environment.reset), jax.jit(environment.step)
    state, observation = reset(keys(0))
    drawing = _Drawing(environment, draw)
    total = 0.0
    try:
        for t in range(environment.horizon):
            yield Shown(drawing.picture(state, observation, total), total, t, over=False)
            action = act(observation, t)
            moved = step(keys(2 * t + 1), state, action)
            state, observation, total = moved.state, moved.observation, total + float(moved.reward)
            drawing.acted(action)
            if moved.terminated or moved.truncated:
                break
        yield Shown(drawing.picture(state, observation, total), total, t + 1, over=True)
    finally:
        drawing.close()


class _Drawing:
    """Pictures of an environment in JAX."""

    def __init__(self, environment: Environment, draw: str | None) -> None:
        self._fields = STATES.get(environment.name)
        self._draw = draw
        self._env: Any = None
        if draw is not None and self._fields is not None:
            import gymnasium

            self._env = gymnasium.make(environment.name, render_mode=draw, disable_env_checker=True)
            self._env.reset(seed=0)

    def acted(self, action: Any) -> None:
        """The last action, which Pendulum's picture shows."""
        if self._env is not None and hasattr(self._env.unwrapped, "last_u"):
            self._env.unwrapped.last_u = float(np.ravel(action)[0])

    def picture(self, state: Any, observation: Any, total: float) -> Frame | None:
        """Of the state, or of the observation where no renderer knows the state."""
        if self._draw is None:
            return None
        if self._env is None:
            return bars(np.asarray(observation, float).ravel(), f"return {total:.4g}")
        self._env.unwrapped.state = np.array([float(getattr(state, name)) for name in self._fields or ()])
        return _as_frame(self._env.render())

    def close(self) -> None:
        """Close the window."""
        if self._env is not None:
            self._env.close()


def bars(numbers: NDArray[Any], title: str) -> Frame:
    """A picture of a vector; its scale is symmetric and follows the largest number."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3), dpi=80)
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    reach = max(1.0, float(np.abs(numbers).max(initial=0)))
    axes.bar(np.arange(len(numbers)), numbers, color="tab:blue")
    axes.set(ylim=(-1.05 * reach, 1.05 * reach), xlabel="what the policy sees", title=title)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _even(frame: Frame) -> Frame:
    """Video codecs want even sides."""
    return frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]
