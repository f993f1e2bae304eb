"""The named methods: each is a composition of parts, with its equations in the docstring.

A `Method` says everything about learning except the environment and the policy. Numbers in it are leaves: methods
that differ only in numbers run in one compiled program (`pgsom.sweep_methods`).
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import jax
import optax

from pgsom.baselines import Baseline, make_baseline
from pgsom.checks import check_choice, check_count, check_number, suggestion, wrong
from pgsom.curvature import Estimator
from pgsom.objective import REDUCTIONS, Reduction, Weighting
from pgsom.returns import DISCOUNTINGS, Discounting
from pgsom.schemes import STAGE_DATA, Scheme, StageData, make_scheme
from pgsom.updates import Ascent, Clipping, UpdateRule, from_optax, som
from pgsom.updates.som import Shape, StepLength

INFINITE = float("inf")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Method:
    """A method, assembled: θ ← θ + η clip(Σ_i b_i d(θ_i)), d the rule's direction, (a, b) the scheme."""

    name: str = field(metadata={"static": True})
    rule: UpdateRule
    learning_rate: Any
    weighting: Weighting
    clipping: Clipping
    scheme: Scheme = field(metadata={"static": True})
    stage_data: StageData = field(metadata={"static": True})
    episodes_per_batch: int = field(metadata={"static": True})

    @property
    def episodes_per_update(self) -> int:
        """Episodes that one update consumes, all stages counted."""
        return self.episodes_per_batch * (self.scheme.stages if self.stage_data == "fresh" else 1)


@dataclass(frozen=True)
class Common:
    """What every method accepts: how much data, how it is weighted, and the stabilisers."""

    batch: int = 4
    """episodes in one batch; a scheme with fresh stages plays one batch a stage"""
    discount: float = 0.99
    """γ"""
    discounting: Discounting = "appendix"
    """how γ enters the weights"""
    reduction: Reduction = "sum"
    """what is done with the steps of an episode"""
    baseline: str | Baseline = "leave-one-out"
    """what is subtracted from the return-to-go"""
    baseline_value: float = 0.0
    """the constant baseline's value"""
    baseline_decay: float = 0.9
    """the moving-average baseline's decay"""
    entropy: float = 0.0
    """coefficient of the entropy bonus"""
    clip_norm: float = INFINITE
    """largest Euclidean norm of the direction"""
    clip_elements: float = INFINITE
    """largest absolute value of an element of the direction"""
    scheme: str | Scheme | None = None
    """Runge-Kutta scheme; the method's own if not given"""
    alpha: float = 0.5
    """weight of the first stage in the paper's scheme"""
    stage_data: StageData = "fresh"
    """where later stages get their episodes"""


def reinforce(learning_rate: float = 0.0005, *, common: Common = Common()) -> Method:
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
    common: Common = Common(),
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


def runge_kutta_pg(learning_rate: float = 0.001, *, common: Common = Common()) -> Method:
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
    common: Common = Common(),
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
    )
    return assemble("pg-som", rule, learning_rate, common)


def adam(
    learning_rate: float = 0.005, *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, common: Common = Common()
) -> Method:
    """Adam on the policy gradient, optax's: the yardstick.

    m ← b₁ m + (1 − b₁) ĝ,  v ← b₂ v + (1 − b₂) ĝ²,  θ ← θ + η m̄ / (√v̄ + eps).
    """
    check_number("b1", b1, at_least=0, below=1)
    check_number("b2", b2, at_least=0, below=1)
    check_number("eps", eps, above=0)
    rule = from_optax(optax.adam, learning_rate=1.0, b1=b1, b2=b2, eps=eps)
    return assemble("adam", rule, learning_rate, common)


METHODS: dict[str, Callable[..., Method]] = {
    "reinforce": reinforce,
    "hessian-pg": hessian_pg,
    "runge-kutta-pg": runge_kutta_pg,
    "pg-som": pg_som,
    "adam": adam,
}


def assemble(
    name: str, rule: UpdateRule, learning_rate: float = 1.0, common: Common = Common(), *, scheme: str = "euler"
) -> Method:
    """A method from any rule; `scheme` is the one used where `common` names none."""
    check_count("batch", common.batch)
    check_choice("discounting", common.discounting, DISCOUNTINGS)
    check_choice("reduction", common.reduction, REDUCTIONS)
    check_choice("stage_data", common.stage_data, STAGE_DATA)
    baseline = make_baseline(
        common.baseline, value=common.baseline_value, decay=common.baseline_decay, episodes=common.batch
    )
    return Method(
        name=name,
        rule=rule,
        learning_rate=check_number("learning_rate", learning_rate, above=0),
        weighting=Weighting(
            discount=check_number("discount", common.discount, at_least=0, at_most=1),
            baseline=baseline,
            entropy=check_number("entropy", common.entropy, at_least=0),
            discounting=common.discounting,
            reduction=common.reduction,
        ),
        clipping=Clipping(
            norm=check_number("clip_norm", common.clip_norm, above=0, infinite=True),
            elements=check_number("clip_elements", common.clip_elements, above=0, infinite=True),
        ),
        scheme=make_scheme(common.scheme or scheme, common.alpha),
        stage_data=common.stage_data,
        episodes_per_batch=common.batch,
    )


def make_method(method: str | Method, **options: Any) -> Method:
    """The named method with options of its own and of `Common`; a `Method` takes none."""
    if isinstance(method, Method):
        if options:
            raise wrong("options", sorted(options), "accepted only with a method's name; this method is assembled")
        return method
    check_choice("method", method, METHODS)
    known = method_options(method)
    for name in options:
        if name not in known:
            others = [m for m in METHODS if name in method_options(m)]
            if others:
                raise wrong("option", name, f"{method} does not take it; accepted with {', '.join(others)}")
            raise wrong("option", name, f"unknown; accepted are {', '.join(known)}{suggestion(name, known)}")
    own = {name: value for name, value in options.items() if name in _own_parameters(method)}
    shared = {name: value for name, value in options.items() if name not in own}
    return METHODS[method](**own, common=Common(**shared))


def method_options(method: str) -> dict[str, Any]:
    """Every option that the named method takes, with its default."""
    own = {name: parameter.default for name, parameter in _own_parameters(method).items()}
    return own | asdict(Common())


def _own_parameters(method: str) -> Mapping[str, inspect.Parameter]:
    parameters = dict(inspect.signature(METHODS[method]).parameters)
    parameters.pop("common")
    return parameters


__all__ = [
    "METHODS",
    "Common",
    "Method",
    "adam",
    "assemble",
    "hessian_pg",
    "make_method",
    "method_options",
    "pg_som",
    "reinforce",
    "runge_kutta_pg",
]
