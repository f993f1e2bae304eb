"""First-order yardsticks: optax's optimisers on the policy gradient."""

import optax

from pgsom.checks import check_number
from pgsom.methods.method import DEFAULTS, Common, Method, assemble
from pgsom.updates import from_optax


def adam(
    learning_rate: float = 0.005, *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, common: Common = DEFAULTS
) -> Method:
    """Adam on the policy gradient, optax's: the yardstick.

    m ← b₁ m + (1 − b₁) ĝ,  v ← b₂ v + (1 − b₂) ĝ²,  θ ← θ + η m̄ / (√v̄ + eps).
    """
    check_number("b1", b1, at_least=0, below=1)
    check_number("b2", b2, at_least=0, below=1)
    check_number("eps", eps, above=0)
    rule = from_optax(optax.adam, learning_rate=1.0, b1=b1, b2=b2, eps=eps)
    return assemble("adam", rule, learning_rate, common)


def rmsprop(learning_rate: float = 0.005, *, b2: float = 0.9, eps: float = 1e-8, common: Common = DEFAULTS) -> Method:
    """RMSProp on the policy gradient, optax's: Adam without the average gradient.

    v ← b₂ v + (1 − b₂) ĝ²,  θ ← θ + η ĝ / √(v + eps).
    """
    check_number("b2", b2, at_least=0, below=1)
    check_number("eps", eps, above=0)
    return assemble("rmsprop", from_optax(optax.rmsprop, learning_rate=1.0, decay=b2, eps=eps), learning_rate, common)


def adabelief(
    learning_rate: float = 0.005, *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, common: Common = DEFAULTS
) -> Method:
    """AdaBelief on the policy gradient, optax's: the gradient over how much it strays from its average.

    m ← b₁ m + (1 − b₁) ĝ,  s ← b₂ s + (1 − b₂) (ĝ − m)² + eps²,  θ ← θ + η m̄ / (√s̄ + eps).
    """
    check_number("b1", b1, at_least=0, below=1)
    check_number("b2", b2, at_least=0, below=1)
    check_number("eps", eps, above=0)
    rule = from_optax(optax.adabelief, learning_rate=1.0, b1=b1, b2=b2, eps=eps)
    return assemble("adabelief", rule, learning_rate, common)
