"""How many environment steps a second, training end to end, beside the customary PyTorch + Gymnasium loop?

Same network (4-64-64-2 tanh), one episode an update, 500 episodes a seed. The sides take turns.
"""

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pgsom

PEER = Path(".venv-peers/bin/python")
SCRIPT = Path(__file__).parent / "peers" / "reinforce_torch.py"
ROUNDS = 3
WANTED = {1: 20, 64: 100}


def peer(episodes: int) -> float:
    """Steps per second of the PyTorch loop."""
    printed = subprocess.run([str(PEER), str(SCRIPT), str(episodes)], check=True, capture_output=True, text=True).stdout
    return float(json.loads(printed)["steps_per_second"])


def ours(seeds: int) -> tuple[float, float]:
    """Steps per second of training, without and with compilation."""
    result = pgsom.train(
        "CartPole-v1", "adam", seeds=seeds, episodes=500, batch=1, baseline="moving-average", learning_rate=3e-3
    )
    steps = float(result.env_steps[:, -1].sum())
    return steps / result.run_seconds, steps / (result.run_seconds + result.compile_seconds)


def run() -> dict[str, Any]:
    print("\nenvironment steps per second, training end to end, 500 episodes a seed")
    if not PEER.exists():
        print("  left out: the peer is not installed; `make peers` installs it")
        return {}
    ratios: dict[int, list[tuple[float, float]]] = {seeds: [] for seeds in WANTED}
    for _ in range(ROUNDS):
        theirs = peer(500)
        for seeds, rows in ratios.items():
            running, with_compiling = ours(seeds)
            rows.append((running / theirs, with_compiling / theirs))
            print(
                f"  PyTorch {theirs:9,.0f}   pgsom, {seeds:2d} seed(s) {running:11,.0f}   ratio {running / theirs:6.1f}"
            )
    answers: dict[str, Any] = {}
    for seeds, rows in ratios.items():
        running, whole = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"  {seeds:2d} seed(s): {running:.0f}× (wanted ≥ {WANTED[seeds]}), compilation included {whole:.0f}×")
        answers[f"{seeds} seeds"] = running
        answers[f"{seeds} seeds, compilation included"] = whole
    return answers
