"""Presets: complete settings of a run, by name. One TOML file each beside this one; see README.md there.

A preset is what ``pgsom train --config`` reads, plus `goal`: the mean return of fresh episodes after training that a
seed is to reach.
"""

import tomllib
from importlib import resources
from typing import Any, NamedTuple

from pgsom.checks import check_choice

SEEDS_MEASURED = 32


class Preset(NamedTuple):
    """A preset as its file has it."""

    name: str
    settings: dict[str, Any]
    """The arguments of `pgsom.train`: environment, method, episodes, and the method's options."""
    goal: float
    """The mean return of 100 fresh episodes after training that a seed is to reach (`make learn`)."""
    seeds_measured: int
    """How many seeds that is asked of: 32, and fewer where training is long (`make learn-long`)."""

    @property
    def summary(self) -> str:
        """In a line."""
        chosen = self.settings
        budget = f"{chosen['env_steps']:,} steps" if "env_steps" in chosen else f"{chosen['episodes']:,} episodes"
        return f"{chosen['method']} on {chosen['environment']}, {budget}; goal {self.goal:g}"


def preset_names() -> tuple[str, ...]:
    """The names of all presets, in alphabetical order."""
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def read_preset(name: str) -> Preset:
    """The named preset."""
    check_choice("preset", name, preset_names())
    text = resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    settings = tomllib.loads(text)
    goal, seeds = float(settings.pop("goal")), int(settings.pop("seeds_measured", SEEDS_MEASURED))
    return Preset(name, settings | settings.pop("options"), goal, seeds)


def preset(name: str, **changes: Any) -> dict[str, Any]:
    """The arguments that make `pgsom.train` run the named preset, with `changes` to them.

    ``pgsom.train(**pgsom.preset("adam", seeds=8, learning_rate=0.01))``
    """
    settings = read_preset(name).settings
    if {"updates", "episodes", "env_steps"} & changes.keys():
        settings = {name: value for name, value in settings.items() if name not in ("episodes", "env_steps")}
    return settings | changes
