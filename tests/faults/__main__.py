"""``python -m tests.faults [WHAT…]``: all cases of what the suite tries a few of, and counts of what became of them."""

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import pgsom
from pgsom.methods import METHODS, method_options
from pgsom.schemes import SCHEMES
from tests.faults import living
from tests.faults.damage import cases, outcome
from tests.faults.kills import CONFIGS, killed_and_carried_on
from tests.faults.moments import photographed
from tests.faults.small_run import begun, carried_on, difference, rows_difference, stopped, uninterrupted

STOPS, READERS, MINUTES, REPEATS = 10, 200, 10, 7


def kills(folder: Path) -> list[str]:
    """Stopped at random moments, over methods and kinds of environments: two thirds kill -9, the others signals."""
    total, slowest, wrong = Counter[str](), 0.0, []
    for place, config in enumerate(CONFIGS):
        found = killed_and_carried_on(config, folder / str(place), STOPS, random.Random(place))
        total.update(found.by_signal)
        slowest = max(slowest, found.slowest)
        wrong += found.wrong
        print(f"  {config.environment}, {config.method}: {found.by_signal}, wrong: {found.wrong}", flush=True)
    print(f"kills: {total.total()} ({dict(total)}), slowest answer to a signal {slowest:.2f} s")
    return wrong


def damage(folder: Path) -> list[str]:
    """Every file of an interrupted and of a finished run, in every class of its bytes."""
    expected, counted, wrong = uninterrupted(), Counter(), []
    for name, make in (("stopped", stopped), ("finished", begun)):
        make(folder / name)
        for case in cases(folder / name):
            said = outcome(folder / name, folder / "work", case, expected)
            counted[said] += 1
            if "WRONG" in said:
                wrong.append(f"{name} run, {case.file}, {case.what}: {said}")
    print(f"damage: {counted.total()} cases")
    for said, count in counted.most_common():
        print(f"  {count:4} {said}")
    return wrong


def moments(folder: Path) -> list[str]:
    """Killed before every single step that changes the folder: begun, carried on, ended."""
    expected, wrong = uninterrupted(), []
    run = folder / "run"
    with photographed(run, folder / "album") as begun_to_end:
        begun(run)
    (folder / "again").mkdir()
    stopped(folder / "again" / "run")
    with photographed(folder / "again" / "run", folder / "more") as carried_to_end:
        carried_on(folder / "again" / "run")
    every = [*begun_to_end, *carried_to_end]
    for moment in every:
        found = difference(carried_on(moment), expected) or rows_difference(moment, expected)
        wrong += [f"{moment.name}: {found}"] if found else []
    print(f"moments: killed before each of {len(every)} steps on the disk")
    return wrong


def methods(folder: Path) -> list[str]:
    """Every method, and every scheme, stopped and carried on."""
    wrong, tried = [], [(method, {}) for method in METHODS]
    tried += [("adam", {"scheme": scheme}) for scheme in SCHEMES]
    tried += [("reinforce", {"scheme": "heun", "stage_data": "reweighted"})]
    tried += [("ppo", {"normalise_observations": True, "normalise_rewards": True, "rate_decay": 1.0})]
    for place, (method, options) in enumerate(tried):
        # Methods that play steps need real-valued observations no more than others; CartPole has both kinds.
        small = {"batch": 2} if not method_options(method)["steps"] else {"batch": 2, "steps": 16}
        options = {"updates": 6, "hidden": (4,), "seeds": 2} | small | options
        run = folder / f"{place} {method}"
        pgsom.train("CartPole-v1", method, out=run, checkpoint_updates=2, callback=lambda p: p.updates >= 2, **options)
        found = difference(pgsom.resume(run), pgsom.train("CartPole-v1", method, **options))
        wrong += [f"{method} {options}: {found}"] if found else []
    print(f"methods: {len(tried)} methods and schemes stopped and carried on")
    return wrong


def readers(folder: Path) -> list[str]:
    """200 readers while a run is written."""
    count, wrong = living.read_while_written(folder / "run", READERS, 400)
    print(f"readers: {READERS} at once, {count:,} readings")
    return wrong


def disk(folder: Path) -> list[str]:
    """A disk that is full at every stage; needs root."""
    said = Counter(living.full_disk(folder / "disk", uninterrupted()))
    print(f"full disk: {dict(said)}")
    return [sentence for sentence in said if "WRONG" in sentence]


def memory(folder: Path) -> list[str]:
    """Resident memory over ten minutes, after the first."""
    samples, updates = living.memory_over(folder / "run", "CartPole-v1", 10**9, seconds=60.0 * MINUTES, warm=60.0)
    first, last = float(np.median(samples[: len(samples) // 20])), float(np.median(samples[-len(samples) // 20 :]))
    print(
        f"memory: {first:.1f} MiB after a minute, {last:.1f} after {MINUTES} ({last / first - 1:+.2%}), "
        f"at most {max(samples):.1f}, {updates:,} updates"
    )
    return [] if abs(last / first - 1) <= 0.02 else ["it is not within 2 %"]


def cost(folder: Path) -> list[str]:
    """What keeping a run costs, a checkpoint every 2 s: seconds with over seconds without."""
    ratios = sorted(living.cost(folder, REPEATS, 600))
    print(f"cost: ratios {', '.join(f'{ratio:.3f}' for ratio in ratios)}; median {np.median(ratios):.3f}")
    return [] if np.median(ratios) <= 1.03 else ["it is more than 3 %"]


PARTS: dict[str, Callable[[Path], list[str]]] = {
    part.__name__: part for part in (damage, moments, methods, readers, disk, cost, kills, memory)
}


def main(words: list[str]) -> int:
    """The exit code: 0 if nothing was wrong."""
    wrong = []
    for name in words or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            found = PARTS[name](Path(folder))
        print(f"{name}: {len(found)} wrong", flush=True)
        for sentence in found[:20]:
            print(f"  {sentence}", flush=True)
        wrong += found
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
