"""How long does the paper's experiment take, beside a PyTorch script that trains its 12 × 5 runs?

Ours is the whole command, `pgsom paper --protocol as-run --seeds 5`: start, compilation, 18 readings of the 12 cells,
and 20 evaluations of 500 episodes each. Theirs is training alone, a few runs timed and multiplied up to 60. The sides
take turns.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PEER = Path(".venv-peers/bin/python")
SCRIPT = Path(__file__).parent / "peers" / "as_run_torch.py"
ROUNDS, PEER_RUNS, GRID = 3, 2, 60
WANTED = 30


def ours() -> float:
    """Seconds of the command."""
    with tempfile.TemporaryDirectory() as folder:
        command = "from pgsom.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"
        words = ["paper", "--protocol", "as-run", "--seeds", "5", "--out", folder, "--json"]
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", command, *words], check=True, capture_output=True)
        return time.perf_counter() - started


def theirs() -> float:
    """Seconds for the grid, from a few of its runs."""
    said = subprocess.run([str(PEER), str(SCRIPT), str(PEER_RUNS)], check=True, capture_output=True, text=True).stdout
    return float(json.loads(said)["seconds"]) / PEER_RUNS * GRID


def run() -> dict[str, Any]:
    print(f"\nthe paper's experiment as run, 5 seeds, whole command (wanted ≤ {WANTED} s)")
    seconds, ratios = [], []
    for _ in range(ROUNDS):
        seconds.append(ours())
        ratios += [theirs() / seconds[-1]] if PEER.exists() else []
        beside = f"   a PyTorch script's training alone takes {ratios[-1]:.0f}× as long" if ratios else ""
        print(f"  {seconds[-1]:6.1f} s{beside}")
    if not ratios:
        print("  the peer is left out: it is not installed; `make peers` installs it")
    found = {"seconds, as-run, 5 seeds": statistics.median(seconds)}
    return found | ({"PyTorch, training alone, times as long": statistics.median(ratios)} if ratios else {})
