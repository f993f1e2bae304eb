"""The twelve variants of a protocol, as methods."""

from dataclasses import replace
from typing import Any

from pgsom.baselines import ConstantBaseline
from pgsom.checks import wrong
from pgsom.experiments.as_run import ScriptDirection
from pgsom.experiments.printed import METHODS, STABILISERS, Variant
from pgsom.experiments.protocols import Protocol
from pgsom.methods import Common, Method, assemble, make_method
from pgsom.updates import Ascent, UpdateRule, som

INFINITE = float("inf")
OTHERS = ("adam", "npg", "pg-som")
"""First-order and Fisher methods, and Algorithm 1 with its curvature guarded, that the twelve are compared with."""
CRITIC, CRITICISED = "critic", ("reinforce", "hessian")
"""The stabiliser "a baseline V(s), learned beside the policy", and the methods that are tried with it."""
BY_RADIUS = ("npg", "pg-som")
"""Methods whose step is as long as a KL radius says: that is tuned, in place of the learning rate."""


def variants_of(protocol: Protocol) -> tuple[Variant, ...]:
    """The cells of Table 1; where the protocol has readings, each Hessian cell with a stabiliser in every one."""
    readings = tuple(protocol.get("readings", ("",)))
    return tuple(
        Variant(method, stabiliser, reading)
        for method in METHODS
        for stabiliser in STABILISERS
        for reading in (readings if method == "hessian" and stabiliser != "none" else ("",))
    )


def others_of(protocol: Protocol) -> tuple[Variant, ...]:
    """What the twelve are compared with, where every method is tuned alike: others, and two with a learned critic."""
    if not rates_of(protocol, Variant("adam", "baseline")):
        return ()
    return (*(Variant(method, "baseline") for method in OTHERS), *(Variant(method, CRITIC) for method in CRITICISED))


def method_of(protocol: Protocol, variant: Variant, rate: float | None = None) -> Method:
    """The variant as a method, `rate` in place of the protocol's learning rate (or KL radius).

    The value of a constant baseline is measured later. Names are structure: variants that share a program share a name.
    """
    common = _common(protocol, variant)
    if variant.method in OTHERS:
        option = "kl_radius" if variant.method in BY_RADIUS else "learning_rate"
        chosen = {} if rate is None else {option: rate}
        return make_method(variant.method, **chosen, **_given(common))
    clip = variant.stabiliser == "clip"
    if rate is None:
        rate = protocol["clip_learning_rate" if clip else "learning_rate"]
    scheme = protocol["scheme"] if variant.method == "runge-kutta" else "euler"
    return assemble(protocol.name, _rule(protocol, variant), rate, replace(common, scheme=scheme))


def is_measured(method: Method) -> bool:
    """Whether the method's baseline is a number that has to be measured first."""
    return isinstance(method.weighting.baseline, ConstantBaseline)


def updates_of(protocol: Protocol, method: Method) -> int:
    """How many updates the protocol gives the method: a number of its own, or what the budget of episodes pays for."""
    if protocol.get("updates") is not None:
        return int(protocol["updates"])
    updates = int(protocol["budget"]) // method.episodes_per_update
    return updates - updates % int(protocol["evaluate_every"])


def rates_of(protocol: Protocol, variant: Variant) -> tuple[float, ...]:
    """What is tried for the variant; nothing where the protocol has its rates from the paper."""
    return tuple(protocol.get("radii" if variant.method in BY_RADIUS else "rates", ()))


def _common(protocol: Protocol, variant: Variant) -> Common:
    clip = protocol["clip"] if variant.stabiliser == "clip" else INFINITE
    true_entropy = variant.stabiliser == "entropy" and protocol["entropy_as"] == "gradient"
    with_baseline = variant.stabiliser in protocol["baseline_with"]
    # A constant baseline of 0 is none, and shares the program of one that is something.
    without = "constant" if protocol["baseline"] == "constant" else "none"
    return Common(
        batch=protocol["batch"],
        discount=protocol["discount"],
        discounting=protocol["discounting"],
        baseline=CRITIC if variant.stabiliser == CRITIC else protocol["baseline"] if with_baseline else without,
        entropy=protocol["entropy"] if true_entropy else 0.0,
        clip_norm=clip if protocol["clip_of"] == "norm" else INFINITE,
        clip_elements=clip if protocol["clip_of"] == "elements" else INFINITE,
    )


def _rule(protocol: Protocol, variant: Variant) -> UpdateRule:
    """What each protocol means by "Hessian"; the other methods ascend the gradient."""
    hessian = variant.method == "hessian"
    if protocol["hessian"] == "script":
        bent = hessian and variant.stabiliser != "none"
        return ScriptDirection(
            scores=2.0 if bent else 1.0,
            curvature={"plus": -1.0, "minus": 1.0}.get(variant.reading, 0.0),
            entropy=protocol["entropy"] if variant.stabiliser == "entropy" else 0.0,
        )
    if not hessian:
        return Ascent()
    if protocol["hessian"] == "algorithm 1":
        return som("lemma", shape="raw", damping=0.0, beta1=protocol["beta1"], beta2=protocol["beta2"])
    if protocol["hessian"] == "guarded":
        return som("causal", shape="absolute", damping=protocol["damping"], beta1=0.0, beta2=0.0)
    raise wrong("hessian", protocol["hessian"], "accepted are script, algorithm 1, guarded")


def _given(common: Common) -> dict[str, Any]:
    """What differs from the defaults, as options of a named method."""
    return {name: value for name, value in vars(common).items() if value != getattr(Common(), name)}
