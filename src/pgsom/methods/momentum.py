"""Momentum with second-order information: estimates of the gradient that follow it from iterate to iterate.

Plain momentum averages gradients of places that have been left. Each method here corrects for the way since then: by a
Hessian product on the way (HAPG, SHARP, HARPG, HA-MBPG) or at its end (SGDHess), by importance weights (STORM-PG,
PAGE-PG, IS-MBPG), or by asking for gradients further on (N-PG-IGT).
"""

from pgsom.curvature import Estimator
from pgsom.methods.method import DEFAULTS, INFINITE, Common, Method, assemble
from pgsom.updates.hapg import hessian_aided
from pgsom.updates.hessian_momentum import hessian_momentum
from pgsom.updates.mbpg import hessian_mbpg, weighted_mbpg
from pgsom.updates.sgdhess import sgdhess as sgdhess_rule
from pgsom.updates.storm import storm
from pgsom.updates.transport import gradient_transport


def hapg(
    learning_rate: float = 0.0005,
    *,
    curvature: str | Estimator = "causal",
    period: int = 5,
    spread: int = 2,
    normalised: bool = False,
    common: Common = DEFAULTS,
) -> Method:
    """HAPG: a gradient renewed every few updates, moved along by Hessian products in between.

    d ← ĝ(θ) every `period` updates, else d + ∇̂²J(θ_b) (θ − θ₋),  b ~ U[0, 1],  θ ← θ + η d.

    A batch at each of `spread` points θ_b; the renewed gradient is the mean over as many batches.
    """
    rule = hessian_aided(curvature, period=period, spread=spread, normalised=normalised)
    return assemble("hapg", rule, learning_rate, common)


def sharp(
    learning_rate: float = 0.2,
    *,
    curvature: str | Estimator = "causal",
    fresh: float = 1.0,
    fresh_power: float = 2 / 3,
    rate_power: float = 2 / 3,
    normalised: bool = True,
    common: Common = DEFAULTS,
) -> Method:
    """SHARP: normalised steps along momentum that Hessian products at random points keep unbiased.

    d ← (1 − α_t) (d + ∇̂²J(θ_b) (θ − θ₋)) + α_t ĝ,  b ~ U[0, 1],  θ ← θ + η (t + 1)^−q d/‖d‖,  α_t = α₀ (t + 1)^−p.
    """
    rule = hessian_momentum(
        curvature, fresh=fresh, fresh_power=fresh_power, rate_power=rate_power, normalised=normalised
    )
    return assemble("sharp", rule, learning_rate, common)


def harpg(
    learning_rate: float = 0.0005,
    *,
    curvature: str | Estimator = "causal",
    fresh: float = 0.7,
    fresh_power: float = 0.0,
    rate_power: float = 0.0,
    common: Common = DEFAULTS,
) -> Method:
    """HARPG: steps along momentum that Hessian products at random points keep unbiased.

    d ← (1 − α_t) (d + ∇̂²J(θ_b) (θ − θ₋)) + α_t ĝ,  b ~ U[0, 1],  θ ← θ + η (t + 1)^−q d,  α_t = α₀ (t + 1)^−p.
    """
    rule = hessian_momentum(curvature, fresh=fresh, fresh_power=fresh_power, rate_power=rate_power, normalised=False)
    return assemble("harpg", rule, learning_rate, common)


def n_harpg(
    learning_rate: float = 0.3,
    *,
    curvature: str | Estimator = "causal",
    fresh: float = 2.0,
    fresh_power: float = 1.0,
    rate_power: float = 0.6666666666666666,
    common: Common = DEFAULTS,
) -> Method:
    """N-HARPG: HARPG with steps of a length that does not depend on the gradient's.

    d ← (1 − α_t) (d + ∇̂²J(θ_b) (θ − θ₋)) + α_t ĝ,  b ~ U[0, 1],  θ ← θ + η (t + 1)^−q d/‖d‖,  α_t = α₀ (t + 1)^−p.
    """
    rule = hessian_momentum(curvature, fresh=fresh, fresh_power=fresh_power, rate_power=rate_power, normalised=True)
    return assemble("n-harpg", rule, learning_rate, common)


def storm_pg(
    learning_rate: float = 0.0005,
    *,
    fresh: float = 0.7,
    largest_ratio: float = INFINITE,
    normalised: bool = False,
    common: Common = DEFAULTS,
) -> Method:
    """STORM-PG: momentum corrected by the same episodes' importance-weighted gradient at the last iterate.

    d ← ĝ(θ) + (1 − α) (d − ρ ĝ(θ₋)),  ρ = Π_t π_θ₋/π_θ,  θ ← θ + η d.
    """
    rule = storm(fresh=fresh, largest_ratio=largest_ratio, normalised=normalised)
    return assemble("storm-pg", rule, learning_rate, common)


def page_pg(
    learning_rate: float = 0.0005,
    *,
    fresh: float = 0.7,
    largest_ratio: float = INFINITE,
    normalised: bool = False,
    common: Common = DEFAULTS,
) -> Method:
    """PAGE-PG: a gradient renewed by the throw of a coin, moved along by importance weights in between.

    d ← ĝ(θ) with probability α, else d + ĝ(θ) − ρ ĝ(θ₋),  ρ = Π_t π_θ₋/π_θ,  θ ← θ + η d.
    """
    rule = storm(fresh=fresh, largest_ratio=largest_ratio, at_random=True, normalised=normalised)
    return assemble("page-pg", rule, learning_rate, common)


def is_mbpg(
    learning_rate: float = 0.2,
    *,
    offset: float = 1.0,
    fresh_factor: float = 10000.0,
    largest_ratio: float = INFINITE,
    common: Common = DEFAULTS,
) -> Method:
    """IS-MBPG: STORM-PG with steps and memory that follow the gradients seen.

    d ← ĝ(θ) + (1 − α_t) (d − ρ ĝ(θ₋)),  s = (m + Σ ‖ĝ‖²)^−1/3,  θ ← θ + η s d,  α_{t+1} = min(1, c s²).
    """
    rule = weighted_mbpg(offset=offset, fresh_factor=fresh_factor, largest_ratio=largest_ratio)
    return assemble("is-mbpg", rule, learning_rate, common)


def ha_mbpg(
    learning_rate: float = 0.2,
    *,
    curvature: str | Estimator = "causal",
    offset: float = 1.0,
    fresh_factor: float = 10000.0,
    largest_ratio: float = INFINITE,
    common: Common = DEFAULTS,
) -> Method:
    """HA-MBPG: one batch on the way between two iterates gives gradient and Hessian product.

    ĝ = ρ ĝ(θ),  d ← (1 − α_t) (d + ∇̂²J(θ_b) (θ − θ₋)) + α_t ĝ,  b ~ U[0, 1],  ρ = Π_t π_θ/π_θ_b,
    s = (m + Σ ‖ĝ‖²)^−1/3,  θ ← θ + η s d,  α_{t+1} = min(1, c s²).
    """
    rule = hessian_mbpg(curvature, offset=offset, fresh_factor=fresh_factor, largest_ratio=largest_ratio)
    return assemble("ha-mbpg", rule, learning_rate, common)


def sgdhess(
    learning_rate: float = 0.0005,
    *,
    curvature: str | Estimator = "causal",
    fresh: float = 0.7,
    largest_estimate: float = INFINITE,
    normalised: bool = False,
    common: Common = DEFAULTS,
) -> Method:
    """SGDHess: momentum corrected by the Hessian product of the batch at hand, and clipped.

    d ← (1 − α) (d + ∇̂²J(θ) (θ − θ₋)) + α ĝ,  d ← d min(1, G/‖d‖),  θ ← θ + η d.
    """
    rule = sgdhess_rule(curvature, fresh=fresh, largest_estimate=largest_estimate, normalised=normalised)
    return assemble("sgdhess", rule, learning_rate, common)


def n_pg_igt(
    learning_rate: float = 0.05,
    *,
    fresh: float = 1.0,
    fresh_power: float = 0.8,
    rate_power: float = 0.0,
    common: Common = DEFAULTS,
) -> Method:
    """N-PG-IGT: normalised steps along momentum whose gradients are asked beyond the iterate.

    θ̃ = θ + (1 − α_t)/α_t (θ − θ₋),  d ← (1 − α_t) d + α_t ĝ(θ̃),  θ ← θ + η (t + 1)^−q d/‖d‖,  α_t = α₀ (t + 1)^−p.
    """
    rule = gradient_transport(fresh=fresh, fresh_power=fresh_power, rate_power=rate_power)
    return assemble("n-pg-igt", rule, learning_rate, common)
