"""Newton's method on the policy: with conjugate gradients, with a cube, and the natural one with a critic."""

from pgsom.curvature import Estimator
from pgsom.methods.method import DEFAULTS, Common, Method, assemble
from pgsom.updates.cubic_newton import cubic_newton as cubic_rule
from pgsom.updates.hessian_free import hessian_free as hessian_free_rule
from pgsom.updates.natural_actor_critic import natural_actor_critic as natural_actor_critic_rule
from pgsom.updates.step_length import StepLength


def hessian_free(
    *,
    curvature: str | Estimator = "gauss-newton",
    damping: float = 10.0,
    cg_steps: int = 10,
    tolerance: float = 1e-3,
    kl_radius: float = 0.003,
    common: Common = DEFAULTS,
) -> Method:
    """Hessian-free Newton: conjugate gradients on a damped curvature, whose damping follows how well it predicts.

    (M + λ I) x = ĝ,  s = x min(1, √(2δ / xᵀFx)),  θ ← θ + η s, η = 1, if the batch says that s gains; else θ stays.

    M is the Gauss-Newton matrix, or with ``curvature="causal"`` −∇̂²J itself (Newton-CG), whose conjugate gradients end
    at negative curvature. There is no learning rate: the damping and the radius set the length.
    """
    rule = hessian_free_rule(curvature, damping=damping, cg_steps=cg_steps, tolerance=tolerance, kl_radius=kl_radius)
    return assemble("hessian-free", rule, common=common)


def cubic_newton(
    learning_rate: float = 1.0,
    *,
    curvature: str | Estimator = "causal",
    regularisation: float = 100000.0,
    lanczos_steps: int = 5,
    common: Common = DEFAULTS,
) -> Method:
    """Cubic-regularised policy Newton: the best step of a second-order model less a cube.

    d = argmax_s ĝᵀs + ½ sᵀ∇̂²J s − (ρ/6) ‖s‖³,  θ ← θ + η d.

    The regularisation says how far to trust the model; the learning rate is a factor on that, best left at 1.
    """
    rule = cubic_rule(curvature, regularisation=regularisation, lanczos_steps=lanczos_steps)
    return assemble("cubic-newton", rule, learning_rate, common)


def natural_actor_critic(
    learning_rate: float = 1.0,
    *,
    damping: float = 0.1,
    cg_steps: int = 10,
    tolerance: float = 1e-5,
    step_length: StepLength = "kl",
    kl_radius: float = 0.01,
    common: Common = DEFAULTS,
) -> Method:
    """Natural actor-critic: a critic on compatible features, whose weights are the natural gradient.

    (x, v) = argmin mean (w_t − z_tᵀx − φ_tᵀv)² + λ ‖·‖²,  d = x √(2δ / xᵀFx),  θ ← θ + η d.

    With the default step length the KL radius says how far to go, and the learning rate is a factor on that, best left
    at 1.
    """
    rule = natural_actor_critic_rule(
        damping=damping, cg_steps=cg_steps, tolerance=tolerance, step_length=step_length, kl_radius=kl_radius
    )
    return assemble("natural-actor-critic", rule, learning_rate, common)
