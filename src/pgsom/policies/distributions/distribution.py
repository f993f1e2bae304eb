"""What an action distribution is: what a network's outputs mean.

A distribution is a stateless object whose methods take the outputs for one observation. `fisher_factor` and
`log_prob_curvature` are what curvature estimators need to know about it, in the space of the outputs u:

    F(u) = E_a[∇_u ln p(a) ∇_u ln p(a)ᵀ] = S Sᵀ            fisher_factor returns S
    ∇²_u ln p(a) = Σ_c σ_c S_c S_cᵀ                         log_prob_curvature returns (S, σ)

What is drawn, and recorded, is the action that the log-probability is about. What the environment is given is
`executed(action)`: for a squashed or rescaled distribution its image, for an unbounded one its nearest point within the
bounds (clipping is then part of the environment, and the log-probability stays that of the number drawn).
"""

from typing import Protocol, runtime_checkable

from jax import Array


@runtime_checkable
class Distribution(Protocol):
    """What every action distribution offers; `outputs` are the network's, for one observation."""

    def sample(self, key: Array, outputs: Array) -> Array:
        """Draw an action."""
        ...

    def mode(self, outputs: Array) -> Array:
        """The most probable action."""
        ...

    def executed(self, action: Array) -> Array:
        """What the environment is given for a drawn action."""
        ...

    def log_prob(self, outputs: Array, action: Array) -> Array:
        """ln p(action)."""
        ...

    def entropy(self, outputs: Array) -> Array:
        """−E[ln p]."""
        ...

    def kl(self, outputs: Array, other: Array) -> Array:
        """KL(p_outputs ‖ p_other)."""
        ...

    def fisher_factor(self, outputs: Array) -> Array:
        """S [outputs, columns] with F = S Sᵀ."""
        ...

    def log_prob_curvature(self, outputs: Array, action: Array) -> tuple[Array, Array]:
        """S [outputs, columns] and signs σ [columns] with ∇² ln p(action) = S diag(σ) Sᵀ."""
        ...
