"""Second-order momentum, Algorithm 1 of the paper, with every choice it leaves open made explicit."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from pgsom.checks import check_choice, check_count, check_number, wrong
from pgsom.curvature import Estimator, bends_down, make_estimator
from pgsom.objective import LocalObjective
from pgsom.updates.refresh import gradient_and_curvature, renewals, where_due
from pgsom.updates.step_length import STEP_LENGTHS, StepLength, scale_to_kl, with_evidence
from pgsom.updates.update_rule import Info, describe, share_negative

Tree = Any
Shape = Literal["raw", "absolute", "negative_part", "rms"]

SHAPES: dict[str, str] = {
    "raw": "P = h̄, as printed: walks away from maxima, explodes where h̄ crosses 0",
    "absolute": "P = |h̄|",
    "negative_part": "P = max(−h̄, 0), how strongly J bends down",
    "rms": "P = √(average of h²), as AdaHessian",
}


class SOMState(NamedTuple):
    """The two moving averages, each the size of the parameters, and the number of updates in the first."""

    updates: Array
    gradient: Tree
    curvature: Tree
    negative: Array
    """Share of negative entries in the latest ĥ."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SecondOrderMomentum:
    """Algorithm 1: moments of gradient and curvature, and the one divided by a power of the other.

        g ← β₁ g + (1 − β₁) ĝ
        h ← β₂ h + (1 − β₂) ĥ            (rms: of ĥ²)
        ḡ = g / (1 − β₁^{t+1}),   h̄ = h / (1 − β₂^{t+1})
        P = shape(h̄)^p + ε
        d = clip(ḡ / P, ± trust_cap)
        d ← d √(2 δ / dᵀFd)              (step_length = "kl"; 0 where ĝ = 0)

    ĝ and ĥ are estimated from the same episodes, in one pass where the estimator allows it. With shape raw the
    power keeps the sign of h̄, and ε is added away from zero. With refresh = k only every k-th update estimates ĥ
    and moves h, whose bias correction then counts those; the others cost what a gradient costs.
    """

    beta1: Any
    beta2: Any
    exponent: Any
    damping: Any
    trust_cap: Any
    kl_radius: Any
    curvature: Estimator = field(metadata={"static": True})
    shape: Shape = field(metadata={"static": True})
    step_length: StepLength = field(metadata={"static": True})
    bias_correction: bool = field(metadata={"static": True})
    refresh: int = field(metadata={"static": True})

    def init(self, params: Tree) -> SOMState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return SOMState(jnp.zeros((), jnp.int32), zeros, zeros, share_negative(zeros))

    def update(self, objective: LocalObjective, state: SOMState, params: Tree) -> tuple[Tree, SOMState, Info]:
        gradient, curvature = gradient_and_curvature(
            objective, self.curvature, state.updates, self.refresh, state.curvature
        )
        direction, state = self.precondition(gradient, curvature, state)
        if self.step_length == "kl":
            direction = scale_to_kl(objective, direction, self.kl_radius)
            direction = with_evidence(gradient, direction)
        return direction, state, describe(gradient, direction)._replace(negative_curvature=state.negative)

    def precondition(self, gradient: Tree, curvature: Tree, state: SOMState) -> tuple[Tree, SOMState]:
        """All of the algorithm but the estimates: ĝ, ĥ (unused unless due) and the old moments to d and the new."""
        squared = self.shape == "rms"
        g = _average(self.beta1, state.gradient, gradient)
        h = _average(self.beta2, state.curvature, jax.tree.map(jnp.square, curvature) if squared else curvature)
        negative = share_negative(curvature)
        h, negative = where_due(state.updates, self.refresh, (h, negative), (state.curvature, state.negative))
        count, renewed = state.updates + 1, renewals(state.updates, self.refresh)
        g_bar = _corrected(g, self.beta1, count) if self.bias_correction else g
        h_bar = _corrected(h, self.beta2, renewed) if self.bias_correction else h
        # An entry that has never seen a gradient stays, whatever its curvature: 0/0 is 0 here.
        direction = jax.tree.map(lambda gi, hi: jnp.where(gi == 0, 0, gi / self._scale(hi)), g_bar, h_bar)
        direction = jax.tree.map(lambda d: jnp.clip(d, min=-self.trust_cap, max=self.trust_cap), direction)
        return direction, SOMState(count, g, h, negative)

    def _scale(self, h: Array) -> Array:
        """P from h̄."""
        if self.shape == "raw":
            magnitude = jnp.abs(h) ** self.exponent + self.damping
            return jnp.where(h < 0, -magnitude, magnitude)
        positive = {
            "absolute": jnp.abs,
            "negative_part": lambda x: jnp.maximum(-x, 0),
            "rms": jnp.sqrt,
        }[self.shape](h)
        return positive**self.exponent + self.damping


def som(
    curvature: str | Estimator = "gauss-newton",
    *,
    probes: int = 0,
    shape: Shape = "absolute",
    exponent: float = 1.0,
    damping: float = 1e-8,
    trust_cap: float = float("inf"),
    step_length: StepLength = "rate",
    kl_radius: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.999,
    bias_correction: bool = True,
    refresh: int = 1,
) -> SecondOrderMomentum:
    """Check the options and build the rule."""
    estimator = make_estimator(curvature, probes)
    check_choice("shape", shape, SHAPES)
    check_choice("step_length", step_length, STEP_LENGTHS)
    if not isinstance(bias_correction, bool):
        raise wrong("bias_correction", bias_correction, "accepted are True and False")
    if shape == "negative_part" and estimator.positive_semi_definite:
        raise wrong("shape", shape, f"{estimator.name} is never negative, so this would be 0; accepted is absolute")
    if shape == "negative_part" and bends_down(estimator):
        raise wrong("shape", shape, f"{estimator.name} is positive where J bends down; accepted are raw, absolute, rms")
    return SecondOrderMomentum(
        beta1=check_number("beta1", beta1, at_least=0, below=1),
        beta2=check_number("beta2", beta2, at_least=0, below=1),
        exponent=check_number("exponent", exponent, at_least=0),
        damping=check_number("damping", damping, at_least=0),
        trust_cap=check_number("trust_cap", trust_cap, above=0, infinite=True),
        kl_radius=check_number("kl_radius", kl_radius, above=0),
        curvature=estimator,
        shape=shape,
        step_length=step_length,
        bias_correction=bias_correction,
        refresh=check_count("refresh", refresh),
    )


def scale_by_som(
    beta1: float = 0.9,
    beta2: float = 0.999,
    *,
    shape: Shape = "absolute",
    exponent: float = 1.0,
    damping: float = 1e-8,
    trust_cap: float = float("inf"),
    bias_correction: bool = True,
) -> optax.GradientTransformationExtraArgs:
    """Algorithm 1 as a plain optax transform, for any training loop that can name a curvature diagonal.

        tx = optax.chain(scale_by_som(), optax.scale_by_learning_rate(1e-2))
        updates, state = tx.update(gradient, state, params, hessian_diagonal=h)

    optax descends, so `gradient` and `hessian_diagonal` are those of the *loss*. The rule is the one for J = −loss
    mirrored: `negative_part` is the positive part of the loss's curvature, and `raw` keeps the printed sign,
    which climbs out of minima.
    """
    rule = som(
        "causal",
        shape=shape,
        exponent=exponent,
        damping=damping,
        trust_cap=trust_cap,
        beta1=beta1,
        beta2=beta2,
        bias_correction=bias_correction,
    )

    def update(
        updates: Tree, state: SOMState, params: Tree = None, *, hessian_diagonal: Tree, **others: Any
    ) -> tuple[Tree, SOMState]:
        del params, others
        ascent, curvature = (jax.tree.map(jnp.negative, tree) for tree in (updates, hessian_diagonal))
        direction, state = rule.precondition(ascent, curvature, state)
        return jax.tree.map(jnp.negative, direction), state

    return optax.GradientTransformationExtraArgs(rule.init, update)


def _average(beta: Any, average: Tree, fresh: Tree) -> Tree:
    def mixed(old: Array, new: Array) -> Array:
        exact = jnp.promote_types(old.dtype, jnp.float32)
        return (beta * old.astype(exact) + (1 - beta) * new.astype(exact)).astype(old.dtype)

    return jax.tree.map(mixed, average, fresh)


def _corrected(average: Tree, beta: Any, count: Array) -> Tree:
    """In float32 at least: in less, 1 − β may be 0."""

    def corrected(leaf: Array) -> Array:
        exact = jnp.promote_types(leaf.dtype, jnp.float32)
        return (leaf / (1 - jnp.asarray(beta, exact) ** count)).astype(leaf.dtype)

    return jax.tree.map(corrected, average)
