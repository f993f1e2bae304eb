"""The protocols of the paper's experiment: one file of settings each, every number with its source.

A setting is a table with a `value` and a `source`: the place in the paper, or what was assumed where it is silent.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, NamedTuple

from pgsom.checks import check_choice, check_known

NAMES = ("as-printed", "as-run", "corrected")


class Setting(NamedTuple):
    """A number or a choice, and where it comes from."""

    value: Any
    source: str


@dataclass(frozen=True)
class Protocol:
    """How the twelve variants are trained and scored; ``protocol["learning_rate"]`` is a value."""

    name: str
    summary: str
    settings: Mapping[str, Setting]

    def __getitem__(self, name: str) -> Any:
        return self.settings[name].value

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or `default` where this protocol has no such setting."""
        return self.settings[name].value if name in self.settings else default

    @property
    def values(self) -> dict[str, Any]:
        """All values by name, without their sources."""
        return {name: setting.value for name, setting in self.settings.items()}

    def changed(self, name: str | None = None, **values: Any) -> "Protocol":
        """The same protocol with other values."""
        check_known("setting", values, self.settings)
        settings = dict(self.settings) | {key: Setting(value, "changed") for key, value in values.items()}
        return replace(self, name=name or self.name, settings=settings)

    @property
    def best_score(self) -> float:
        """The score of an episode of 500 steps: Σ_{i=1..500} γ^i, or 500."""
        gamma = float(self["score_discount"])
        return 500.0 if gamma == 1 else gamma * (1 - gamma**500) / (1 - gamma)


def with_linear_policy(protocol: Protocol) -> Protocol:
    """The protocol with the paper's smallest policy in place of its neural one."""
    return protocol.changed(f"{protocol.name}, linear policy", policy="linear", hidden=[])


def read_protocol(name: str) -> Protocol:
    """The named protocol."""
    check_choice("protocol", name, NAMES)
    table = tomllib.loads(resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    summary = table.pop("summary")
    return Protocol(name, summary, {key: Setting(entry["value"], entry["source"]) for key, entry in table.items()})
