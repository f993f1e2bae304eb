"""What ``pgsom train`` shall do: from the command line, from a TOML file, from a preset, or all three."""

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgsom.checks import InputError, check_count, wrong
from pgsom.cli.arguments import read_arguments, read_table
from pgsom.cli.options import FILE_OPTIONS, METHOD_OPTIONS, RUN_OPTIONS, TRAIN_OPTIONS, default_of, takers
from pgsom.environments import check_name
from pgsom.presets import read_preset

# Written into a saved run's settings.toml beside its options.
NOT_OPTIONS = ("versions", "platform", "keeping", "telling", "rebuildable")
KEEPING = ("out", "resume", "overwrite", "checkpoint_seconds", "checkpoint_updates", "keep")
WATCHING = ("log", "evaluate_every", "evaluation_episodes", "target_return")
FINISHED = "settings.toml"
BUDGETS = {"episodes", "updates", "env_steps"}


@dataclass(frozen=True)
class Settings:
    """Options by name, only those that were given; for those that a file or a preset gave, which one."""

    given: dict[str, Any]
    source: dict[str, str]

    def flag(self, name: str) -> bool:
        """Whether the flag was given."""
        return bool(self.given.get(name, False))

    @property
    def evaluate(self) -> int:
        """Episodes of the evaluation."""
        return int(self.given.get("evaluate", default_of("evaluate")))

    @property
    def out(self) -> Path | None:
        """Where the run is saved."""
        return Path(self.given["out"]) if "out" in self.given else None

    def of_training(self) -> dict[str, Any]:
        """The arguments of `pgsom.train`."""
        known = {option.name for option in (*RUN_OPTIONS, *METHOD_OPTIONS)} - {"evaluate", "preset", "config"}
        return {name: value for name, value in self.given.items() if name in known}

    def of_keeping(self) -> dict[str, Any]:
        """Those arguments of `pgsom.train` that say what is kept on disk, and what is told on the way."""
        return {name: self.given[name] for name in (*KEEPING, *WATCHING) if name in self.given}

    def located(self, error: InputError) -> InputError:
        """The same error, with the file or the preset in front if that gave what is wrong."""
        named = re.match(r"(?:option=')?(\w+)", str(error))
        origin = self.source.get(named[1]) if named else None
        return InputError(f"{origin}: {error}") if origin else error


def read_settings(arguments: Sequence[str]) -> Settings:
    """Read all; the command line wins over the file, the file over the preset. Checked as far as now possible."""
    typed = read_arguments(arguments, TRAIN_OPTIONS)
    config = typed.pop("config", None)
    written = _read_file(config) if config else {}
    chosen = typed.pop("preset", written.pop("preset", None))
    basis = read_table(read_preset(chosen).settings, FILE_OPTIONS) if chosen else {}
    given: dict[str, Any] = {}
    source: dict[str, str] = {}
    for table, origin in ((basis, f"preset {chosen}"), (written, config), (typed, None)):
        # The two budgets exclude each other, so one of them replaces either in what counts less.
        replaced = table.keys() | (BUDGETS if table.keys() & BUDGETS else set())
        given = {name: value for name, value in given.items() if name not in replaced} | table
        source = {name: kept for name, kept in source.items() if name not in replaced}
        source |= dict.fromkeys(table, origin) if origin else {}
    settings = Settings(given, source)
    try:
        check(settings)
    except InputError as error:
        raise settings.located(error) from None
    return settings


def check(settings: Settings) -> None:
    """What can be judged before anything is built: the environment's name, the method's options, the folder."""
    if "environment" in settings.given:
        check_name(settings.given["environment"])
    method = settings.given.get("method", default_of("method"))
    for option in METHOD_OPTIONS:
        if option.name in settings.given and method not in takers(option):
            accepted = f"{method} does not take it; accepted with --method {' or '.join(takers(option))}"
            raise wrong("option", option.name, accepted)
    check_count("evaluate", settings.evaluate, at_least=0)
    if settings.out is not None:
        check_folder(settings.out, replace=settings.flag("overwrite"), resume="resume" in settings.given)
    else:
        for name in KEEPING[1:3]:
            if name in settings.given:
                raise wrong(name, settings.given[name], "accepted only together with --out, the run's folder")


def check_folder(folder: Path, *, replace: bool, resume: bool) -> None:
    """That a run can be kept there; nothing is made yet, since the rest may still be wrong."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise wrong("out", str(folder), f"{existing} is a file; accepted is a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise wrong("out", str(folder), f"{existing} cannot be written to; accepted is a writable folder")
    if replace and resume:
        raise wrong("overwrite", True, "accepted is either --overwrite or --resume auto")
    if (folder / FINISHED).exists() and not replace and not resume:
        accepted = "a run is there; accepted with --resume auto, with --overwrite, or another folder"
        raise wrong("out", str(folder), accepted)


def _read_file(config: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(Path(config).read_text(encoding="utf-8"))
    except OSError as error:
        raise wrong("config", config, f"cannot be read ({error.strerror}); accepted is a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise wrong("config", config, f"not valid TOML: {error}") from None
    try:
        return read_table(_flat(table), FILE_OPTIONS)
    except InputError as error:
        raise InputError(f"{config}: {error}") from None


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """A saved run's settings have the method's and the policy's options in tables, and more beside them."""
    flat = {key: value for key, value in table.items() if key not in NOT_OPTIONS}
    for of, name in (("method", "options"), ("policy", "policy_options")):
        options = flat.pop(name, {})
        if not isinstance(options, dict):
            raise wrong(name, options, f"accepted is a table of the {of}'s options")
        for key in options:
            if key in flat:
                raise wrong("key", key, "given twice")
        flat |= options
    return flat
