"""Adaptive rules: preconditioners that training itself gathers, from gradients or from curvature."""

from typing import Any

from pgsom.curvature import Estimator, SpatialAverage, make_estimator
from pgsom.methods.method import DEFAULTS, Common, Method, assemble
from pgsom.updates.ascent import from_optax
from pgsom.updates.ggt import descend_by_ggt, scale_by_ggt
from pgsom.updates.shampoo import descend_by_shampoo, scale_by_shampoo
from pgsom.updates.soap import descend_by_soap, scale_by_soap
from pgsom.updates.som import som
from pgsom.updates.sophia import sophia as sophia_rule


def adahessian(
    learning_rate: float = 0.1,
    *,
    curvature: str | Estimator = "hutchinson",
    probes: int = 0,
    block: int = 1,
    exponent: float = 1.0,
    damping: float = 1e-4,
    beta1: float = 0.9,
    beta2: float = 0.999,
    refresh: int = 1,
    common: Common = DEFAULTS,
) -> Method:
    """AdaHessian: Adam with the Hessian's diagonal, by random probes, in place of the gradient.

    m ← β₁ m + (1 − β₁) ĝ,  v ← β₂ v + (1 − β₂) (block means of ĥ)²,  θ ← θ + η m̄ / (√v̄ ^p + ε).

    It is Algorithm 1 with shape rms and one probe of the causal Hessian.
    """
    rule = som(
        SpatialAverage(make_estimator(curvature, probes), block),
        shape="rms",
        exponent=exponent,
        damping=damping,
        beta1=beta1,
        beta2=beta2,
        refresh=refresh,
    )
    return assemble("adahessian", rule, learning_rate, common)


def sophia(
    learning_rate: float = 0.003,
    *,
    curvature: str | Estimator = "gauss-newton-bartlett",
    probes: int = 0,
    gamma: float = 0.05,
    eps: float = 1e-12,
    trust_cap: float = 1.0,
    beta1: float = 0.965,
    beta2: float = 0.99,
    refresh: int = 10,
    common: Common = DEFAULTS,
) -> Method:
    """Sophia: the average gradient over the average curvature, clipped entry by entry.

    m ← β₁ m + (1 − β₁) ĝ,  h ← β₂ h + (1 − β₂) ĥ every k updates,  θ ← θ + η clip(m / max(γ h, eps), ± cap).
    """
    rule = sophia_rule(
        curvature,
        probes=probes,
        gamma=gamma,
        eps=eps,
        trust_cap=trust_cap,
        beta1=beta1,
        beta2=beta2,
        refresh=refresh,
    )
    return assemble("sophia", rule, learning_rate, common)


def shampoo(
    learning_rate: float = 0.02,
    *,
    beta1: float = 0.9,
    beta2: float = 0.99,
    damping: float = 1e-4,
    sums: bool = False,
    refresh: int = 1,
    common: Common = DEFAULTS,
) -> Method:
    """Shampoo: a matrix divided from the left and from the right by roots of its second moments.

    L ← β₂ L + (1 − β₂) Ĝ Ĝᵀ,  R ← β₂ R + (1 − β₂) Ĝᵀ Ĝ,  m ← β₁ m + (1 − β₁) Ĝ,
    θ ← θ + η (L̄ + ε λ_L I)^(−1/4) m̄ (R̄ + ε λ_R I)^(−1/4),  roots renewed every k updates.
    """
    options: dict[str, Any] = {"beta1": beta1, "beta2": beta2, "damping": damping, "sums": sums, "refresh": refresh}
    scale_by_shampoo(**options)
    return assemble("shampoo", from_optax(descend_by_shampoo, **options), learning_rate, common)


def soap(
    learning_rate: float = 0.005,
    *,
    beta1: float = 0.95,
    beta2: float = 0.95,
    eps: float = 1e-8,
    refresh: int = 10,
    common: Common = DEFAULTS,
) -> Method:
    """SOAP: Adam in the eigenbasis of Shampoo's second moments.

    L ← β₂ L + (1 − β₂) Ĝ Ĝᵀ,  R ← β₂ R + (1 − β₂) Ĝᵀ Ĝ,  Q_L and Q_R their eigenvectors every k updates,
    θ ← θ + η Q_L Adam(Q_Lᵀ Ĝ Q_R) Q_Rᵀ.
    """
    options: dict[str, Any] = {"beta1": beta1, "beta2": beta2, "eps": eps, "refresh": refresh}
    scale_by_soap(**options)
    return assemble("soap", from_optax(descend_by_soap, **options), learning_rate, common)


def ggt(
    learning_rate: float = 0.05,
    *,
    decay: float = 0.9,
    damping: float = 1e-4,
    window: int = 10,
    common: Common = DEFAULTS,
) -> Method:
    """GGT: AdaGrad with the full matrix of the latest gradients, by a root of r × r numbers.

    𝐆 = (ĝ_t, β ĝ_{t−1}, …, β^(r−1) ĝ_{t−r+1}),  θ ← θ + η [ (𝐆 𝐆ᵀ)^½ + ε I ]⁻¹ ĝ_t.
    """
    options: dict[str, Any] = {"decay": decay, "damping": damping, "window": window}
    scale_by_ggt(**options)
    return assemble("ggt", from_optax(descend_by_ggt, **options), learning_rate, common)
