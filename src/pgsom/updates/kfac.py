"""K-FAC: the Fisher matrix of each layer as a Kronecker product, whose inverse is two small ones."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_choice, check_number, wrong
from pgsom.linear_algebra import inverse
from pgsom.objective import LocalObjective
from pgsom.policies import MLP, Layer
from pgsom.policies.layers import KroneckerFactors
from pgsom.updates.averages import average, corrected
from pgsom.updates.step_length import STEP_LENGTHS, StepLength, scale_to_kl, with_evidence
from pgsom.updates.update_rule import Info, describe

Tree = Any
INFINITE = float("inf")


class KFACState(NamedTuple):
    """Averages of every layer's factors, Σ n² numbers for layers of n units, and of the preconditioned gradient."""

    updates: Array
    factors: tuple[KroneckerFactors, ...]
    velocity: Tree


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KFAC:
    """Natural gradients layer by layer, from inputs ā = (a, 1) and signals δ that are exact over actions.

        A ← β A + (1 − β) mean ā āᵀ,   G ← β G + (1 − β) mean Σ_c δ_c δ_cᵀ,   both divided by 1 − β^{t+1}
        π = √( (tr A / dim A) / (tr G / dim G) )
        V = (A + π√λ I)⁻¹ ĝ (G + √λ/π I)⁻¹
        m ← μ m + V
        d = m min(η_max, √(2 δ / mᵀFm))     (step_length = "kl", F exact; "rate": d = m)

    A ⊗ G is the layer's block of the Fisher matrix if inputs and signals are independent, for one sample always.
    """

    damping: Any
    decay: Any
    momentum: Any
    kl_radius: Any
    longest: Any
    step_length: StepLength = field(metadata={"static": True})

    def init(self, params: Tree) -> KFACState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return KFACState(jnp.zeros((), jnp.int32), tuple(map(_no_factors, _layers_of(params))), zeros)

    def update(self, objective: LocalObjective, state: KFACState, params: Tree) -> tuple[Tree, KFACState, Info]:
        del params
        if not isinstance(objective.policy.network, MLP):
            raise _not_layered()
        gradient, fresh = objective.evaluate(objective.gradient_fold(), objective.kronecker_fold())
        direction, state = self.precondition(gradient, fresh, state)
        if self.step_length == "kl":
            direction = scale_to_kl(objective, direction, self.kl_radius, self.longest)
            direction = with_evidence(gradient, direction)
        return direction, state, describe(gradient, direction)

    def precondition(
        self, gradient: Tree, fresh: tuple[KroneckerFactors, ...], state: KFACState
    ) -> tuple[Tree, KFACState]:
        """All but the estimates and the length."""
        count = state.updates + 1
        factors = average(self.decay, state.factors, fresh)
        ready = corrected(factors, self.decay, count)
        divided = tuple(divide(g, f, self.damping) for g, f in zip(gradient, ready, strict=True))
        velocity = jax.tree.map(lambda m, v: self.momentum * m + v, state.velocity, divided)
        return velocity, KFACState(count, factors, velocity)


def divide(gradient: Layer, factors: KroneckerFactors, damping: Any) -> Layer:
    """(A + π√λ I)⁻¹ ĝ (G + √λ/π I)⁻¹ of one layer, the bias being the last row."""
    A, G = factors
    ratio = (jnp.trace(A) / A.shape[0]) / (jnp.trace(G) / G.shape[0])
    pi = jnp.sqrt(jnp.where(jnp.isfinite(ratio) & (ratio > 0), ratio, 1))
    root = jnp.sqrt(damping)
    stacked = gradient.weight if gradient.bias is None else jnp.vstack([gradient.weight, gradient.bias])
    divided = inverse(_add(A, pi * root)) @ stacked @ inverse(_add(G, root / pi))
    return Layer(divided, None) if gradient.bias is None else Layer(divided[:-1], divided[-1])


def kfac(
    *,
    damping: float = 0.01,
    decay: float = 0.9,
    momentum: float = 0.0,
    step_length: StepLength = "kl",
    kl_radius: float = 0.01,
    longest: float = INFINITE,
) -> KFAC:
    """Check the options and build the rule."""
    check_choice("step_length", step_length, STEP_LENGTHS)
    return KFAC(
        damping=check_number("damping", damping, above=0),
        decay=check_number("decay", decay, at_least=0, below=1),
        momentum=check_number("momentum", momentum, at_least=0, below=1),
        kl_radius=check_number("kl_radius", kl_radius, above=0),
        longest=check_number("longest", longest, above=0, infinite=True),
        step_length=step_length,
    )


def _add(matrix: Array, number: Any) -> Array:
    return matrix + number * jnp.eye(matrix.shape[0], dtype=matrix.dtype)


def _no_factors(layer: Layer) -> KroneckerFactors:
    inputs, units = layer.weight.shape
    inputs += layer.bias is not None
    dtype = layer.weight.dtype
    return KroneckerFactors(jnp.zeros((inputs, inputs), dtype), jnp.zeros((units, units), dtype))


def _layers_of(params: Tree) -> tuple[Layer, ...]:
    if not (isinstance(params, tuple) and params and all(isinstance(layer, Layer) for layer in params)):
        raise _not_layered()
    return params


def _not_layered() -> Exception:
    return wrong("policy", "a network of one's own", "K-FAC needs the layers; accepted are mlp, linear, tabular")
