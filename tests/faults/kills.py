"""Runs that are killed at random moments, and carried on each time; at the end the bits of one that never was."""

import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pgsom
from pgsom.runs.folder import standing
from tests.faults.small_run import difference, rows_difference

PROGRAM = (sys.executable, "-c", "import sys; from pgsom.cli.main import main; sys.exit(main())")
SIGNALS = {signal.SIGKILL: "kill -9", signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}


class Config(NamedTuple):
    """What is run, small enough to be run many times and long enough to be killed in the middle."""

    environment: str
    method: str
    updates: int
    options: dict[str, Any]
    same_bits: bool = True
    """False where what is played depends on when a run was stopped: simulators on the host, in mid-episode."""

    def words(self, run: Path) -> list[str]:
        given = {"env": self.environment, "method": self.method, "updates": self.updates, "seeds": 2, **self.options}
        named = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", _word(value))]
        return [*named, "--out", str(run), "--resume", "auto", "--checkpoint-updates", "25", "--evaluate", "0"]

    def uninterrupted(self) -> pgsom.Result:
        return pgsom.train(self.environment, self.method, updates=self.updates, seeds=2, **self.options)


CONFIGS = (
    Config("three-state", "reinforce", 40_000, {"baseline": "moving-average"}),
    Config("CartPole-v1", "pg-som", 400, {"hidden": (8,)}),
    Config("double-integrator", "npg", 1_500, {"hidden": (8,), "batch": 2}),
    Config("chain", "adam", 8_000, {"scheme": "heun"}),
    Config("Pendulum-v1", "trpo", 120, {"hidden": (8,), "batch": 2, "actions": "tanh-gaussian"}),
    Config("CartPole-v1", "ppo", 300, {"hidden": (8,), "steps": 32, "batch": 4}),
    Config("gymnasium:CartPole-v1", "reinforce", 120, {"hidden": (8,)}),
    Config("gymnasium:CartPole-v1", "ppo", 200, {"hidden": (8,), "steps": 32, "batch": 4}, same_bits=False),
)


class Count(NamedTuple):
    """What happened."""

    by_signal: dict[str, int]
    slowest: float
    """Seconds from SIGTERM or Ctrl-C to the end of the process."""
    wrong: list[str]


def killed_and_carried_on(config: Config, folder: Path, kills: int, chance: random.Random) -> Count:
    """Start, stop at a random moment, `kills` times; then to the end, and compare. After a run that ends, another."""
    slowest, by_signal, wrong = 0.0, dict.fromkeys(SIGNALS.values(), 0), []
    expected = config.uninterrupted() if config.same_bits else None
    runs = 0
    while sum(by_signal.values()) < kills and not wrong:
        run = folder / str(runs)
        runs += 1
        while (done := sum(by_signal.values())) < kills:
            process = _started(config, run)
            begun = _wait(process, run, chance)
            if process.poll() is not None:
                said = process.communicate()[1]
                wrong += [f"ended by itself with {process.returncode}: {said[-300:]}"] if process.returncode else []
                break
            number = signal.SIGKILL if done % 3 < 2 else (signal.SIGTERM, signal.SIGINT)[done // 3 % 2]
            sent = time.monotonic()
            process.send_signal(number)
            said = process.communicate(timeout=120)[1]
            by_signal[SIGNALS[number]] += 1
            if number != signal.SIGKILL and begun:
                slowest = max(slowest, time.monotonic() - sent)
                if process.returncode not in (130, 0):
                    wrong.append(f"{SIGNALS[number]}: exit code {process.returncode}: {said[-300:]}")
        wrong += _compared(config, run, expected)
    return Count(by_signal, slowest, wrong)


def _started(config: Config, run: Path) -> subprocess.Popen[str]:
    words = [*PROGRAM, "train", *config.words(run)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _wait(process: subprocess.Popen[str], run: Path, chance: random.Random) -> bool:
    """A third of the time any moment from Python's first on, else one after an update; whether it was the latter."""
    after_an_update = chance.random() > 1 / 3
    before = _kept(run)
    limit = time.monotonic() + (120 if after_an_update else chance.uniform(0.2, 6))
    while time.monotonic() < limit and process.poll() is None and not (after_an_update and _kept(run) > before):
        time.sleep(0.01)
    if after_an_update:
        time.sleep(chance.uniform(0, 2.5))
    return after_an_update


def _kept(run: Path) -> int:
    try:
        return standing(run).updates if run.is_dir() else 0
    except FileNotFoundError:
        return 0


def _compared(config: Config, run: Path, expected: pgsom.Result | None) -> list[str]:
    ended = subprocess.run([*PROGRAM, "train", *config.words(run), "--quiet"], capture_output=True, text=True)
    if ended.returncode != 0:
        return [f"{config.environment} {config.method}: exit code {ended.returncode}: {ended.stderr[-300:]}"]
    found = _does_not_add_up(config, run) if expected is None else _differs(run, expected)
    return [f"{config.environment} {config.method}: {found}"] if found else []


def _differs(run: Path, expected: pgsom.Result) -> str:
    found = difference(pgsom.load(run), expected) or rows_difference(run, expected)
    return found and f"{found} differs"


def _does_not_add_up(config: Config, run: Path) -> str:
    """What is promised where the bits are not: each update once, every step counted, and a word on new episodes."""
    result = pgsom.load(run)
    expected = config.options["steps"] * config.options["batch"] * np.arange(1, config.updates + 1)
    if result.env_steps.shape != (2, config.updates) or (result.env_steps != expected).any():
        return f"{result.updates} updates, or not each step counted once"
    if (np.diff(result.metrics.episodes) < 0).any() or result.skipped.any():
        return "episodes counted backwards, or an update left out"
    notes, taken_up = (
        standing(run).summary["notes"],
        re.search("taken up after update [1-9]", (run / "log.txt").read_text()),
    )
    said = any("began new episodes" in note for note in notes)
    return "" if said == bool(taken_up) else f"of new episodes it says {notes}"


def _word(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
