"""How fast is training on the host, beside Stable-Baselines3, and what does our side cost beside the simulator?

CartPole of Gymnasium, 8 environments, A2C and PPO with each side's customary settings; the sides take turns. And
MuJoCo: the share of a run that is not spent in the environment's own `step` and `reset`, relative to what is.
"""

import json
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pgsom.environments import make
from pgsom.host_training import HostTraining
from pgsom.methods import make_method
from pgsom.policies import make_policy
from pgsom.training import seed_keys

PEER = Path(".venv-peers/bin/python")
SCRIPT = Path(__file__).parent / "peers" / "sb3_cartpole.py"
ROUNDS = 3
WANTED = {"a2c": 3, "ppo": 5}
SIZES: dict[str, dict[str, Any]] = {"a2c": {"steps": 5, "batch": 8}, "ppo": {"steps": 2048, "batch": 8}}
STEPS = {"a2c": 20_000, "ppo": 2 * 2048 * 8}


class Run:
    """A method on an environment of Gymnasium, compiled and running."""

    def __init__(self, environment: str, method: str, **options: Any) -> None:
        host = make(environment)
        policy = make_policy("mlp", host)
        self.training = HostTraining(host, policy, make_method(method, **options), ["seed 0"])
        self.state = self.training.init(seed_keys(0, 1))
        for _ in range(2):
            self.state, _ = self.training.step(self.state)

    def speed(self, steps: int) -> tuple[float, float]:
        """Steps per second, and per second of the processor."""
        before = made = int(np.asarray(self.state.env_steps)[0])
        started, busy = time.perf_counter(), time.process_time()
        while made - before < steps:
            self.state, _ = self.training.step(self.state)
            made = int(np.asarray(self.state.env_steps)[0])
        made -= before
        return made / (time.perf_counter() - started), made / (time.process_time() - busy)


def peer(method: str) -> tuple[float, float]:
    """The same of Stable-Baselines3."""
    command = [str(PEER), str(SCRIPT), method, str(STEPS[method])]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return said["steps_per_second"], said["steps_per_cpu_second"]


def overhead(environment: str, updates: int = 7, **options: Any) -> float:
    """(training − the environments' own `step` and `reset`) / these, in time of the processor: of the median update."""
    run = Run(environment, "adam", batch=8, **options)
    spent = [0.0]

    def timed(call: Any) -> Any:
        def with_clock(*arguments: Any, **named: Any) -> Any:
            began = time.thread_time()
            result = call(*arguments, **named)
            spent[0] += time.thread_time() - began
            return result

        return with_clock

    for copy in run.training.player._open._vector.envs:
        copy.env.step, copy.env.reset = timed(copy.env.step), timed(copy.env.reset)
    shares = []
    for _ in range(updates):
        spent[0], started = 0.0, time.process_time()
        run.state, _ = jax.block_until_ready(run.training.step(run.state))
        shares.append((time.process_time() - started - spent[0]) / spent[0])
    return statistics.median(shares)


def run() -> dict[str, float]:
    answers: dict[str, float] = {}
    print("\nGymnasium on the host: time of our side relative to the environment's own steps (wanted ≤ 0.30)")
    for name in ("HalfCheetah-v5", "Hopper-v5"):
        answers[f"overhead, {name}"] = overhead(name)
        print(f"  {name:<16} {answers[f'overhead, {name}']:.2f}")
    if not PEER.exists():
        print("  Stable-Baselines3 is left out: `make peers` installs it")
        return answers
    for method, size in SIZES.items():
        run = Run("gymnasium:CartPole-v1", method, **size)
        rows = [(run.speed(STEPS[method]), peer(method)) for _ in range(ROUNDS)]
        wall, busy = (np.median([ours[i] / theirs[i] for ours, theirs in rows]) for i in (0, 1))
        ours, theirs = (statistics.median(row[i][0] for row in rows) for i in (0, 1))
        print(
            f"  {method}: {ours:9,.0f} steps/s beside {theirs:9,.0f}: {wall:.1f}×, "
            f"{busy:.1f}× by time of the processor (wanted ≥ {WANTED[method]})"
        )
        answers[f"{method}, times Stable-Baselines3"] = float(wall)
        answers[f"{method}, times Stable-Baselines3 by processor time"] = float(busy)
    return answers
