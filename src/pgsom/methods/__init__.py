"""The named methods: each is a composition of parts, with its equations in the docstring."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from pgsom.checks import check_choice, listed, suggestion, wrong
from pgsom.methods.actor_critic import a2c, ppo
from pgsom.methods.adaptive import adahessian, ggt, shampoo, soap, sophia
from pgsom.methods.first_order import adabelief, adam, rmsprop
from pgsom.methods.method import Common, Method, assemble
from pgsom.methods.momentum import (
    ha_mbpg,
    hapg,
    harpg,
    is_mbpg,
    n_harpg,
    n_pg_igt,
    page_pg,
    sgdhess,
    sharp,
    storm_pg,
)
from pgsom.methods.natural import kfac, npg, trpo
from pgsom.methods.newton import cubic_newton, hessian_free, natural_actor_critic
from pgsom.methods.paper import adaptive_pg_som, hessian_pg, pg_som, reinforce, runge_kutta_pg

METHODS: dict[str, Callable[..., Method]] = {
    "reinforce": reinforce,
    "hessian-pg": hessian_pg,
    "runge-kutta-pg": runge_kutta_pg,
    "pg-som": pg_som,
    "adam": adam,
    "npg": npg,
    "trpo": trpo,
    "kfac": kfac,
    "rmsprop": rmsprop,
    "adabelief": adabelief,
    "adahessian": adahessian,
    "sophia": sophia,
    "shampoo": shampoo,
    "soap": soap,
    "ggt": ggt,
    "adaptive-pg-som": adaptive_pg_som,
    "hapg": hapg,
    "sharp": sharp,
    "harpg": harpg,
    "n-harpg": n_harpg,
    "storm-pg": storm_pg,
    "page-pg": page_pg,
    "is-mbpg": is_mbpg,
    "ha-mbpg": ha_mbpg,
    "sgdhess": sgdhess,
    "n-pg-igt": n_pg_igt,
    "hessian-free": hessian_free,
    "cubic-newton": cubic_newton,
    "natural-actor-critic": natural_actor_critic,
    "a2c": a2c,
    "ppo": ppo,
}


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
                raise wrong("option", name, f"{method} does not take it; accepted with {listed(others)}")
            raise wrong("option", name, f"unknown; accepted are {listed(known)}{suggestion(name, known)}")
    own = {name: value for name, value in options.items() if name in _own_parameters(method)}
    shared = {name: value for name, value in options.items() if name not in own}
    return METHODS[method](**own, common=replace(_common(method), **shared))


def method_options(method: str) -> dict[str, Any]:
    """Every option that the named method takes, with its default."""
    own = {name: parameter.default for name, parameter in _own_parameters(method).items()}
    return own | asdict(_common(method))


def _common(method: str) -> Common:
    """What the method makes of the options that all share, if none is given."""
    common: Common = inspect.signature(METHODS[method]).parameters["common"].default
    return common


def _own_parameters(method: str) -> Mapping[str, inspect.Parameter]:
    """What the method's function takes beside `Common`."""
    parameters = dict(inspect.signature(METHODS[method]).parameters)
    parameters.pop("common")
    return parameters


__all__ = [
    "METHODS",
    "Common",
    "Method",
    "a2c",
    "adabelief",
    "adahessian",
    "adam",
    "adaptive_pg_som",
    "assemble",
    "cubic_newton",
    "ggt",
    "ha_mbpg",
    "hapg",
    "harpg",
    "hessian_free",
    "hessian_pg",
    "is_mbpg",
    "kfac",
    "make_method",
    "method_options",
    "n_harpg",
    "n_pg_igt",
    "natural_actor_critic",
    "npg",
    "page_pg",
    "pg_som",
    "ppo",
    "reinforce",
    "rmsprop",
    "runge_kutta_pg",
    "sgdhess",
    "shampoo",
    "sharp",
    "soap",
    "sophia",
    "storm_pg",
    "trpo",
]
