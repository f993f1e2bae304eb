"""The paper's methods: REINFORCE, Hessian policy gradient, Runge-Kutta policy gradient and PG-SOM."""

from pgsom.curvature import Estimator
from pgsom.methods.method import DEFAULTS, INFINITE, Common, Method, assemble
from pgsom.updates import Ascent, som
from pgsom.updates.adaptive_som import adaptive_som
from pgsom.updates.som import Shape
from pgsom.updates.step_length import StepLength


def reinforce(learning_rate: float = 0.0005, *, common: Common = DEFAULTS) -> Method:
    """REINFORCE: the plain policy gradient.

    θ ← θ + η ĝ,  ĝ = mean over episodes of Σ_t w_t ∇ ln π_θ(a_t|s_t).
    """
    return assemble("reinforce", Ascent(), learning_rate, common)


def hessian_pg(
    learning_rate: float = 0.01,
    *,
    curvature: str | Estimator = "causal",
    probes: int = 0,
    shape: Shape = "absolute",
    exponent: float = 1.0,
    damping: float = 1.0,
    trust_cap: float = INFINITE,
    common: Common = DEFAULTS,
) -> Method:
    """Hessian policy gradient: the gradient divided by a diagonal of the policy Hessian, without memory.

    θ ← θ + η ĝ / P,  P = shape(ĥ)^p + ε,  ĥ ≈ diag ∇²J (Lemma 1 or its causal form).
    """
    rule = som(
        curvature,
        probes=probes,
        shape=shape,
        exponent=exponent,
        damping=damping,
        trust_cap=trust_cap,
        beta1=0.0,
        beta2=0.0,
    )
    return assemble("hessian-pg", rule, learning_rate, common)


def runge_kutta_pg(learning_rate: float = 0.001, *, common: Common = DEFAULTS) -> Method:
    """Runge-Kutta policy gradient: Heun's scheme on the gradient flow, a fresh batch for each stage.

    θ̃ = θ + η ĝ(θ),  θ ← θ + η (½ ĝ(θ) + ½ ĝ(θ̃)).
    """
    return assemble("runge-kutta-pg", Ascent(), learning_rate, common, scheme="heun")


def pg_som(
    learning_rate: float = 1.0,
    *,
    curvature: str | Estimator = "gauss-newton",
    probes: int = 0,
    shape: Shape = "absolute",
    exponent: float = 1.0,
    damping: float = 0.1,
    trust_cap: float = INFINITE,
    step_length: StepLength = "kl",
    kl_radius: float = 0.005,
    beta1: float = 0.5,
    beta2: float = 0.9,
    bias_correction: bool = True,
    refresh: int = 1,
    common: Common = DEFAULTS,
) -> Method:
    """PG-SOM, Algorithm 1: bias-corrected averages of gradient and curvature, one divided by the other.

    g ← β₁ g + (1 − β₁) ĝ,  h ← β₂ h + (1 − β₂) ĥ,  θ ← θ + η ḡ / P(h̄).

    As printed: ``curvature="lemma", shape="raw", damping=0, step_length="rate"``. The default divides by the
    Gauss-Newton diagonal, which is positive by construction and nearly free, and makes the step as long as the KL
    radius says; the learning rate is then a factor on that, best left at 1.
    """
    rule = som(
        curvature,
        probes=probes,
        shape=shape,
        exponent=exponent,
        damping=damping,
        trust_cap=trust_cap,
        step_length=step_length,
        kl_radius=kl_radius,
        beta1=beta1,
        beta2=beta2,
        bias_correction=bias_correction,
        refresh=refresh,
    )
    return assemble("pg-som", rule, learning_rate, common)


def adaptive_pg_som(
    learning_rate: float = 1.0,
    *,
    curvature: str | Estimator = "gauss-newton",
    probes: int = 0,
    shape: Shape = "absolute",
    exponent: float = 1.0,
    damping: float = 0.1,
    trust_cap: float = INFINITE,
    step_length: StepLength = "kl",
    kl_radius: float = 0.005,
    beta1: float = 0.9,
    beta2: float = 0.9,
    refresh: int = 1,
    tracking: float = 0.3,
    common: Common = DEFAULTS,
) -> Method:
    """PG-SOM with adaptive momentum: long while gradients are noise, short while they move.

    e = ĝ − g,  E ← (1 − φ) E + φ e,  M ← (1 − φ) M + φ ‖e‖,  α = max(1 − β₁, ‖E‖/M),
    g ← (1 − α) g + α ĝ,  h ← β₂ h + (1 − β₂) ĥ,  θ ← θ + η g / P(h̄).

    The paper names momentum that adapts to the training as future work; this is ours. β₁ is the longest memory.
    """
    rule = som(
        curvature,
        probes=probes,
        shape=shape,
        exponent=exponent,
        damping=damping,
        trust_cap=trust_cap,
        step_length=step_length,
        kl_radius=kl_radius,
        beta1=beta1,
        beta2=beta2,
        refresh=refresh,
    )
    return assemble("adaptive-pg-som", adaptive_som(rule, tracking), learning_rate, common)
