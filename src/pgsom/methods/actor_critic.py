"""The yardsticks everyone knows, on the same parts: PPO and A2C."""

from typing import Any

import optax

from pgsom.checks import check_number
from pgsom.methods.method import INFINITE, Common, Method, assemble
from pgsom.updates import from_optax
from pgsom.updates.proximal import proximal

PPO = Common(
    batch=8,
    steps=128,
    reduction="mean",
    baseline="critic",
    gae_lambda=0.95,
    td_lambda=0.95,
    critic_rate=0.001,
    critic_epochs=4,
    critic_minibatches=4,
    critic_clip_norm=0.5,
)
"""What PPO is with nothing else said."""
A2C = Common(
    batch=8,
    steps=5,
    reduction="mean",
    baseline="critic",
    critic_rate=0.0007,
    critic_epochs=1,
    critic_clip_norm=0.5,
    critic_optimiser="rmsprop",
)
"""What A2C is with nothing else said."""


def ppo(
    learning_rate: float = 0.001,
    *,
    clip: float = 0.2,
    epochs: int = 4,
    minibatches: int = 4,
    standardise_advantages: bool = True,
    max_gradient_norm: float = 0.5,
    stop_kl: float = INFINITE,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-5,
    common: Common = PPO,
) -> Method:
    """PPO: several passes over one batch, by a surrogate that does not reward going far.

    θ ← θ + η Adam(∇ mean_t min(ρ_t Â_t, clip(ρ_t, 1 − ε, 1 + ε) Â_t)) for every minibatch of every pass,
    ρ_t = π_θ(a_t|s_t)/π_old(a_t|s_t),  Â by GAE(λ) from a critic with passes of its own.
    """
    rule = proximal(
        learning_rate=learning_rate,
        clip=clip,
        max_norm=max_gradient_norm,
        stop_kl=stop_kl,
        b1=b1,
        b2=b2,
        eps=eps,
        epochs=epochs,
        minibatches=minibatches,
        standardise=standardise_advantages,
    )
    return assemble("ppo", rule, common=common)


def a2c(
    learning_rate: float = 0.0007,
    *,
    max_gradient_norm: float = 0.5,
    b2: float = 0.99,
    eps: float = 1e-5,
    common: Common = A2C,
) -> Method:
    """A2C: one step of RMSProp on a few steps of many environments.

    θ ← θ + η g/(√v + ε),  g = clip_norm(mean_t Â_t ∇ ln π_θ(a_t|s_t)),  v ← β₂ v + (1 − β₂) g²,  Â from a critic.
    """
    rule = from_optax(
        _clipped_rmsprop,
        learning_rate=1.0,
        max_norm=check_number("max_gradient_norm", max_gradient_norm, above=0, infinite=True),
        decay=check_number("b2", b2, at_least=0, below=1),
        eps=check_number("eps", eps, above=0),
    )
    return assemble("a2c", rule, learning_rate, common)


def _clipped_rmsprop(*, learning_rate: Any, max_norm: Any, decay: Any, eps: Any) -> optax.GradientTransformation:
    rmsprop = optax.rmsprop(learning_rate, decay=decay, eps=eps, eps_in_sqrt=False)
    return optax.chain(optax.clip_by_global_norm(max_norm), rmsprop)
