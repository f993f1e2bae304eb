"""Studies that were never run: curves with a known truth."""

from collections.abc import Callable, Mapping

import numpy as np

from pgsom.experiments.blocks import Trained
from pgsom.experiments.printed import Variant
from pgsom.experiments.protocols import NAMES, read_protocol
from pgsom.experiments.study import Study, Try
from pgsom.experiments.variants import method_of, others_of, rates_of, updates_of, variants_of

Curve = Callable[[np.ndarray], np.ndarray]


def curve(final: float, *, half: float = 100.0, noise: float = 5.0, seeds: int = 40, negative: float = 0.0) -> dict:
    """20 + (final − 20) u/(u + half), scaled to end at `final`; seeds differ by a constant of this spread."""
    return {"final": final, "half": half, "noise": noise, "seeds": seeds, "negative": negative}


def trained(protocol_name: str, variant: Variant, shape: Mapping, *, alignment: float = 0.5) -> Trained:
    protocol = read_protocol(protocol_name)
    method = method_of(protocol, variant, 0.01)
    updates = np.arange(0, updates_of(protocol, method) + 1, protocol["evaluate_every"])
    rise = updates / (updates + shape["half"]) * (updates[-1] + shape["half"]) / updates[-1]
    mean = 20 + (shape["final"] - 20) * rise
    seeds = shape["seeds"]
    # The same seeds in every variant, as in the experiment; mean 0 and standard deviation 1 exactly.
    offsets = np.random.default_rng(sum(map(ord, variant.label))).normal(size=seeds)
    offsets = (offsets - offsets.mean()) / offsets.std()
    scores = mean + shape["noise"] * offsets[:, None] * (updates > 0)
    episodes = updates * method.episodes_per_update
    steps = np.tile(50 * episodes, (seeds, 1))
    filled = np.ones_like(scores)
    return Trained(
        updates, episodes, steps, scores, shape["negative"] * filled, alignment * filled, np.zeros(seeds, int)
    )


def studies(
    curves: Mapping[tuple[str, str], Mapping] | None = None, names: tuple[str, ...] = NAMES, **common: float
) -> dict[str, Study]:
    """Every variant at 300 of the protocol's score but for those in `curves`, the same in all protocols."""
    made = {}
    for name in names:
        protocol = read_protocol(name)
        variants = (*variants_of(protocol), *others_of(protocol))
        outcome = {
            v: trained(name, v, (curves or {}).get((v.method, v.stabiliser), curve(300, **common))) for v in variants
        }
        tries = tuple(
            Try(v, rate, 100.0, index == 2) for v in variants for index, rate in enumerate(rates_of(protocol, v))
        )
        made[name] = Study(protocol, outcome, tries, 12.0, 0)
    return made
