"""A run's folder: what is where, the settings in it, and how it stands. docs/runs.md describes it to its readers."""

import json
import os
import platform
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax

from pgsom.checks import check_count, check_number, wrong
from pgsom.runs.checkpoint import contents, entries
from pgsom.runs.files import SUMS, DamageError, read, read_listed, read_sums, write, write_sums
from pgsom.runs.lock import Holder, living_holder
from pgsom.runs.plan import Settings
from pgsom.runs.rows import listed

SETTINGS, SUMMARY, TEXT, POLICY, LOG, FIGURES = (
    "settings.toml",
    "summary.json",
    "summary.md",
    "policy.safetensors",
    "log.txt",
    "figures",
)
RUNNING, INTERRUPTED, FAILED, FINISHED = "running", "interrupted", "failed", "finished"
PACKAGES = ("pgsom", "jax", "jaxlib", "numpy", "optax", "gymnax")


@dataclass(frozen=True)
class Keeping:
    """How often a run keeps its state, and how much of it stays."""

    seconds: float = 60.0
    """Between two checkpoints."""
    updates: int = 0
    """Between two checkpoints, beside those by the clock; 0: only by the clock."""
    last: int = 3
    """Checkpoints that stay, beside the best."""

    def __post_init__(self) -> None:
        check_number("checkpoint_seconds", self.seconds, above=0, infinite=True)
        check_count("checkpoint_updates", self.updates, at_least=0)
        check_count("keep", self.last)


@dataclass(frozen=True)
class Telling:
    """What a run tells on its way, and to whom, as far as words say it: what is an object cannot be written down."""

    log: tuple[str, ...] = ()
    """Loggers by name."""
    evaluate_every: int = 0
    evaluation_episodes: int = 20
    target_return: float | None = None

    def __post_init__(self) -> None:
        if not all(type(name) is str for name in self.log):
            raise wrong("log", self.log, "accepted are names of loggers")
        check_count("evaluate_every", self.evaluate_every, at_least=0)
        check_count("evaluation_episodes", self.evaluation_episodes)
        if self.target_return is not None:
            check_number("target_return", self.target_return)


class Written(NamedTuple):
    """A run's settings file."""

    settings: Settings
    keeping: Keeping
    telling: Telling
    versions: dict[str, str]
    platform: dict[str, Any]
    text: str


class Standing(NamedTuple):
    """How a run stands, from its small files alone."""

    state: str
    """running, interrupted, failed or finished."""
    holder: Holder | None
    """Who writes into it."""
    updates: int
    planned_updates: int
    summary: dict[str, Any]
    """What summary.json says; at first only what is known before training."""


def settings_text(settings: Settings, keeping: Keeping, telling: Telling) -> str:
    """The settings file: everything resolved, and what it was made with."""
    import tomli_w

    table = asdict(settings) | {"keeping": asdict(keeping), "telling": asdict(telling)}
    table |= {"versions": versions(), "platform": machine()}
    return tomli_w.dumps(plain(table))


def write_settings(run: Path, text: str) -> None:
    """Write them and their checksum; the other files with fixed names are from now on not the run's last."""
    write(run / SETTINGS, text.encode())
    write_sums(run, (SETTINGS,))


def read_settings(run: Path) -> Written:
    """The settings, checked; if the file is damaged or missing, from the newest checkpoint that is whole."""
    try:
        return parse_settings(read_listed(run, SETTINGS), str(run / SETTINGS))
    except (DamageError, FileNotFoundError) as error:
        for entry in entries(run):
            try:
                return parse_settings(str(contents(entry)[0]["settings"]).encode(), str(entry.path))
            except (DamageError, FileNotFoundError):
                continue
        raise DamageError(str(error)) if isinstance(error, FileNotFoundError) else error from None


def parse_settings(content: bytes, source: str) -> Written:
    """The settings in a file's content."""
    try:
        text = content.decode()
        table = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise DamageError(f"{source}: not valid TOML: {error}") from None
    # Runs made before it was written down tell nothing.
    table.setdefault("telling", {})
    kinds = {"environment_options": dict, "options": dict, "policy_options": dict, "seed": int, "seeds": list}
    kinds |= {"updates": int, "rebuildable": bool, "keeping": dict, "telling": dict}
    kinds |= {"versions": dict, "platform": dict}
    for name in [field.name for field in fields(Settings)] + ["keeping", "telling", "versions", "platform"]:
        kind = kinds.get(name, str)
        if type(table.get(name)) is not kind:
            what = "missing" if name not in table else f"{table[name]!r:.60}"
            raise DamageError(
                f"{source}: {name} is {what}; accepted is {_KIND_WORDS[kind]} (is it of another version?)"
            )
    extra = {name: table.pop(name) for name in ("keeping", "telling", "versions", "platform")}
    try:
        settings = Settings(
            **table | {"seeds": tuple(check_count("seeds", seed, at_least=0) for seed in table["seeds"])}
        )
        keeping = Keeping(**extra["keeping"])
        told = extra["telling"]
        telling = Telling(**told | {"log": tuple(told.get("log", ()))})
    except (TypeError, ValueError) as error:
        raise DamageError(f"{source}: {error}") from None
    return Written(settings, keeping, telling, extra["versions"], extra["platform"], text)


_KIND_WORDS: dict[type, str] = {
    str: "a text",
    dict: "a table",
    list: "a list",
    int: "a whole number",
    bool: "true or false",
}


def differences(written: Written) -> list[str]:
    """What is not as it was when the run was made, among all that can change its last bits."""
    here = versions() | {name: str(value) for name, value in machine().items()}
    there = written.versions | {name: str(value) for name, value in written.platform.items()}
    return [f"{name} {there.get(name, 'unknown')}, here {here[name]}" for name in here if there.get(name) != here[name]]


def is_run(run: Path) -> bool:
    """Whether there is a run, perhaps a damaged one."""
    return any((run / name).exists() for name in (SETTINGS, SUMS, "checkpoints", "metrics"))


def standing(run: Path) -> Standing:
    """How the run stands; quick, and without waiting for whoever writes into it."""
    try:
        said = json.loads(read(run / SUMMARY))
    except (OSError, ValueError):
        said = {}
    summary = said if isinstance(said, dict) else {}
    made = max([part.last for part in listed(run)] + [entry.updates for entry in entries(run)], default=0)
    planned = summary.get("planned_updates")
    state, holder = str(summary.get("state", INTERRUPTED)), living_holder(run)
    if state == RUNNING and holder is None:
        state = INTERRUPTED
    return Standing(state, holder, made, planned if type(planned) is int else 0, summary)


def write_summary(run: Path, summary: Mapping[str, Any], text: str) -> None:
    """For programs and for people."""
    write(run / SUMMARY, to_json(summary).encode() + b"\n")
    write(run / TEXT, text.encode())


def mark_failed(run: Path, why: str) -> None:
    """Let the summary say that the run went wrong."""
    said = standing(run).summary | {"state": FAILED, "error": why}
    write(run / SUMMARY, to_json(said).encode() + b"\n")
    log(run, f"failed: {why}")


def seal(run: Path) -> None:
    """List the checksums of all files with fixed names: the run is whole."""
    write_sums(run, tuple(name for name in (SETTINGS, POLICY, SUMMARY, TEXT) if (run / name).is_file()))


def sealed(run: Path) -> bool:
    """Whether all files with fixed names are as the list of checksums has them."""
    try:
        sums = read_sums(run)
        for name in (SETTINGS, POLICY, SUMMARY, TEXT):
            read_listed(run, name, largest=2**40)
        return sums.keys() >= {SETTINGS, POLICY, SUMMARY, TEXT}
    except (DamageError, OSError):
        return False


def log(run: Path, line: str) -> None:
    """Add a line to the run's log, whole."""
    import time

    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(run / LOG, flags, 0o666)
    try:
        os.write(handle, f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n".encode())
    finally:
        os.close(handle)


def versions() -> dict[str, str]:
    """Of everything that can change numbers."""
    return {name: version(name) for name in PACKAGES} | {
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def machine() -> dict[str, Any]:
    """The system, and how JAX is set up."""
    config: Any = jax.config
    return {
        "system": platform.system(),
        "backend": jax.default_backend(),
        "x64": bool(config.jax_enable_x64),
        "generator": str(config.jax_default_prng_impl),
        "matmul_precision": str(config.jax_default_matmul_precision),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def to_json(value: Any) -> str:
    """JSON text; NaN and infinity, which JSON does not know, become null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def plain(value: Any) -> Any:
    """What TOML holds: tuples as lists, None left out."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items() if item is not None}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and (value != value or abs(value) == float("inf")) else value
