"""Finite MDPs with a policy to stand at: the examples, random ones, and a user's own from a file.

A file is never unpickled, and what it claims about itself is believed only as far as its size allows: nothing is
allocated before the claim and the bytes agree.
"""

import json
import lzma
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgsom.checks import InputError, check_count, check_known, wrong
from pgsom.environments import FiniteMDP, chain, probe_delayed, random_mdp, three_state, two_armed_bandit

REQUIRED = ("P", "R", "rho", "gamma", "horizon", "theta")
KNOWN = (*REQUIRED, "terminal")
CALLED = {"transition": "P", "reward": "R", "start": "rho", "discount": "gamma"}
"""What `FiniteMDP` calls them, and what a file does."""
LARGEST_FILE = 8 * 2**20
MOST_PARAMETERS = 256
"""S · A; matrices of its square are made."""
MOST_TRAJECTORIES = 200_000
MOST_STEPS = 1_000
MOST_NUMBERS = 5_000_000
"""Trajectories times steps, and trajectories times parameters."""
LARGEST_LOGIT, LARGEST_REWARD = 300.0, 1e100
"""Beyond them probabilities, or squares of returns, leave float64."""


@dataclass(frozen=True, eq=False)
class Problem:
    """An MDP small enough to list all its trajectories, and the logits θ[s, a] of the policy to stand at."""

    name: str
    mdp: FiniteMDP
    theta: NDArray[np.float64]

    def __post_init__(self) -> None:
        shape = (self.mdp.states, self.mdp.actions)
        if self.theta.shape != shape:
            raise wrong("theta.shape", self.theta.shape, f"accepted is (states, actions) = {shape}")
        _check_size("theta", self.theta, LARGEST_LOGIT)
        _check_size("R", self.mdp.reward, LARGEST_REWARD)
        _check_listable(self.mdp)


def built_in_problems() -> list[Problem]:
    """The example MDPs, each at logits drawn with a fixed seed."""
    generator = np.random.default_rng(0)
    mdps = (two_armed_bandit(), three_state(), chain(), probe_delayed())
    return [Problem(mdp.name, mdp, generator.normal(size=mdp.reward.shape)) for mdp in mdps]


def random_problems(count: int, *, seed: int = 0) -> list[Problem]:
    """Random MDPs of three states, two actions and three steps; every other one with a terminal state.

    γ is uniform on [½, 1], rewards and logits are standard normal. Number i is the same whatever `count` is.
    """
    check_count("random", count)
    return [_random_problem(np.random.default_rng([check_count("seed", seed, at_least=0), i]), i) for i in range(count)]


def _random_problem(generator: np.random.Generator, index: int) -> Problem:
    mdp = random_mdp(generator, 3, 2, 3, float(generator.uniform(0.5, 1)), index % 2)
    return Problem(f"random-{index}", mdp, generator.normal(size=(3, 2)))


def read_problem(path: str | Path) -> Problem:
    """An MDP of one's own: an .npz file, or JSON, with P[S, A, S], R[S, A], rho[S], gamma, horizon, theta[S, A].

    `terminal`[S], booleans, may be there too. Every error names the file and what is wrong in it.
    """
    file = Path(path)
    try:
        fields = _read_npz(file) if _content_of(file)[:2] == b"PK" else _read_json(file)
        return _problem_of(file.stem, fields)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _problem_of(name: str, fields: Mapping[str, Any]) -> Problem:
    check_known("key", fields, KNOWN)
    for key in REQUIRED:
        if key not in fields:
            raise wrong("key", key, f"missing; accepted are {', '.join(REQUIRED)}, and terminal if wanted")
    theta = _numbers("theta", fields["theta"])
    if theta.ndim == 2 and theta.size > MOST_PARAMETERS:
        raise wrong("theta.shape", theta.shape, f"accepted are up to {MOST_PARAMETERS} entries")
    horizon = check_count("horizon", _number("horizon", fields["horizon"]), at_most=MOST_STEPS)
    terminal = None if "terminal" not in fields else np.asarray(_array("terminal", fields["terminal"]))
    P, R, rho = (_numbers(key, fields[key]) for key in ("P", "R", "rho"))
    try:
        mdp = FiniteMDP(P, R, rho, _number("gamma", fields["gamma"]), horizon, terminal, name=name)
    except InputError as error:
        named = "|".join(CALLED)
        raise InputError(re.sub(rf"\b({named})\b", lambda m: CALLED[m[0]], str(error), count=1)) from None
    return Problem(name, mdp, theta)


UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, SyntaxError, TypeError, OverflowError),
)
"""What zipfile and NumPy raise for files that are not what they claim to be."""


def _read_json(file: Path) -> dict[str, Any]:
    try:
        fields = json.loads(_content_of(file).decode("utf-8"))
    except (ValueError, RecursionError):
        raise InputError("neither an .npz file nor valid JSON") from None
    if not isinstance(fields, dict):
        raise InputError(f"accepted is one JSON object with {', '.join(REQUIRED)}")
    return fields


def _read_npz(file: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            names = [info.filename.removesuffix(".npy") for info in archive.infolist()]
            check_known("key", names, KNOWN)
            return {name: _member(archive, info) for name, info in zip(names, archive.infolist(), strict=True)}
    except UNREADABLE as error:
        if isinstance(error, InputError):
            raise
        raise InputError("not a whole .npz file, as numpy.savez writes it") from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """One array, read only when its header and its size agree."""
    name = info.filename.removesuffix(".npy")
    if info.file_size > LARGEST_FILE:
        raise wrong(name, f"{info.file_size:,} bytes", f"accepted are up to {LARGEST_FILE:,}")
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
        if dtype.kind not in "fiub":
            raise wrong(f"{name}.dtype", str(dtype), "accepted are numbers")
        claimed, there = math.prod(shape) * dtype.itemsize, info.file_size - stream.tell()
        if claimed != there:
            raise wrong(f"{name}.shape", shape, f"{claimed:,} bytes are claimed and {there:,} are there")
        array = np.frombuffer(stream.read(claimed), dtype)
    return array.reshape(shape, order="F" if fortran else "C")


def _content_of(file: Path) -> bytes:
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise InputError(f"{file.stat().st_size:,} bytes; accepted are up to {LARGEST_FILE:,}")
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}); accepted is an .npz or a JSON file") from None


def _array(key: str, value: Any) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except (ValueError, OverflowError):
        raise InputError(f"{key}: accepted is an array, all rows of one length") from None


def _numbers(key: str, value: Any) -> NDArray[np.float64]:
    array = _array(key, value)
    if array.dtype.kind not in "fiu":
        raise InputError(f"{key}: accepted is an array of numbers")
    return array.astype(np.float64)


def _number(key: str, value: Any) -> Any:
    array = _array(key, value)
    if array.shape != () or array.dtype.kind not in "fiu":
        raise InputError(f"{key}: accepted is one number")
    number = array.item()
    return int(number) if key == "horizon" and math.isfinite(number) and int(number) == number else number


def _check_size(key: str, array: NDArray[np.float64], largest: float) -> None:
    for index in np.argwhere(~(np.abs(array) <= largest))[:1].tolist():
        accepted = f"accepted are finite numbers, of at most {largest:g} in size"
        raise InputError(f"{key}{index}={float(array[tuple(index)])}: {accepted}")


def _check_listable(mdp: FiniteMDP) -> None:
    """That all trajectories can be listed, told without listing, or counting, more than there may be."""
    if mdp.infinite:
        raise wrong("horizon", None, "accepted is a whole number, infinite trajectories cannot be listed")
    parameters = mdp.states * mdp.actions
    if parameters > MOST_PARAMETERS:
        raise wrong("P.shape", mdp.transition.shape, f"accepted are up to {MOST_PARAMETERS} states times actions")
    most = min(MOST_TRAJECTORIES, MOST_NUMBERS // max(parameters, mdp.horizon))
    ways = np.sum(mdp.transition > 0, axis=1, dtype=float) * ~mdp.terminal[:, None]
    running, ended = (mdp.start > 0).astype(float), 0.0
    for step in range(1, mdp.horizon + 1):
        running = running @ ways
        ended += running[mdp.terminal].sum()
        running = running * ~mdp.terminal
        if (count := ended + running.sum()) > most:
            said = f"after {step} steps there are {count:,.0f} trajectories"
            raise wrong("horizon", mdp.horizon, f"{said}; accepted are up to {most:,}, take a shorter horizon")
