"""Methods in the metric of the policy's own change: natural gradients and trust regions."""

from pgsom.methods.method import DEFAULTS, Common, Method, assemble
from pgsom.updates.kfac import INFINITE
from pgsom.updates.kfac import kfac as kfac_rule
from pgsom.updates.natural_gradient import natural_gradient
from pgsom.updates.step_length import StepLength
from pgsom.updates.trust_region import trust_region


def npg(
    learning_rate: float = 1.0,
    *,
    damping: float = 0.1,
    cg_steps: int = 10,
    tolerance: float = 1e-5,
    step_length: StepLength = "kl",
    kl_radius: float = 0.01,
    common: Common = DEFAULTS,
) -> Method:
    """Natural policy gradient: the gradient in the metric of the Fisher matrix.

    (F + λ I) x = ĝ by conjugate gradients,  d = x √(2δ / xᵀFx),  θ ← θ + η d.

    With the default step length the KL radius says how far to go, and the learning rate is a factor on that, best
    left at 1. As Kakade has it: ``step_length="rate"``, d = x.
    """
    rule = natural_gradient(
        damping=damping, cg_steps=cg_steps, tolerance=tolerance, step_length=step_length, kl_radius=kl_radius
    )
    return assemble("npg", rule, learning_rate, common)


def trpo(
    *,
    damping: float = 0.1,
    cg_steps: int = 10,
    tolerance: float = 1e-5,
    kl_radius: float = 0.01,
    backtrack: float = 0.5,
    accept: float = 0.0,
    tries: int = 10,
    common: Common = DEFAULTS,
) -> Method:
    """TRPO: the natural gradient step, shortened until its KL divergence and its gain are what was asked.

    (F + λ I) x = ĝ,  s = x √(2δ / xᵀFx),  θ ← θ + η βʲ s, η = 1, for the first j with KL ≤ δ and a gain; none: θ stays.

    There is no learning rate: the radius is the step length, and no update leaves it.
    """
    rule = trust_region(
        damping=damping,
        cg_steps=cg_steps,
        tolerance=tolerance,
        kl_radius=kl_radius,
        backtrack=backtrack,
        accept=accept,
        tries=tries,
    )
    return assemble("trpo", rule, common=common)


def kfac(
    learning_rate: float = 1.0,
    *,
    damping: float = 0.01,
    decay: float = 0.9,
    momentum: float = 0.0,
    step_length: StepLength = "kl",
    kl_radius: float = 0.01,
    longest: float = INFINITE,
    common: Common = DEFAULTS,
) -> Method:
    """K-FAC, as ACKTR has it for the policy: natural gradients layer by layer, in a KL trust region.

    A ← β A + (1 − β) E[ā āᵀ],  G ← β G + (1 − β) E[δ δᵀ],  V = (A + π√λ I)⁻¹ ĝ (G + √λ/π I)⁻¹ layer by layer,
    m ← μ m + V,  θ ← θ + η m min(longest, √(2δ / mᵀFm)).

    With the default step length the learning rate is a factor on the KL step, best left at 1.
    """
    rule = kfac_rule(
        damping=damping,
        decay=decay,
        momentum=momentum,
        step_length=step_length,
        kl_radius=kl_radius,
        longest=longest,
    )
    return assemble("kfac", rule, learning_rate, common)
