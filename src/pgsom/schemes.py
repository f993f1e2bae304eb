"""Runge-Kutta schemes: how many batches one update takes, and where.

An update integrates dθ/dτ = d(θ), d being a rule's direction, over one step of length η:

    θ_i = θ + η Σ_j a_ij d(θ_j),     d = Σ_i b_i d(θ_i),     θ ← θ + η clip(d).

A scheme is a table of numbers that checks itself. Stages after the first use fresh episodes, or the first stage's
episodes re-weighted by importance. All stages start from the rule's same state; the new state is Σ_i b_i state_i,
which for moving averages is the average of what the stages saw, weighted as the direction is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import jax
import jax.numpy as jnp

from pgsom.checks import check_choice, check_number, wrong

Tree = Any
StageData = Literal["fresh", "reweighted"]
STAGE_DATA: dict[str, str] = {
    "fresh": "each stage plays its own episodes",
    "reweighted": "later stages re-weight the first stage's episodes by importance",
}


@dataclass(frozen=True)
class Scheme:
    """An explicit Runge-Kutta tableau.

    `a` is the strictly lower triangle, row by row (the first row empty), `b` the weights, `order` the order of
    convergence, which is checked against the order conditions up to 4.
    """

    name: str
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    order: int

    def __post_init__(self) -> None:
        for argument, numbers in (("a", [x for row in self.a for x in row]), ("b", list(self.b))):
            for number in numbers:
                check_number(argument, number)
        if len(self.a) != len(self.b):
            raise wrong("a", self.a, f"accepted are {len(self.b)} rows, one for each weight in b")
        for index, row in enumerate(self.a):
            if len(row) != index:
                raise wrong("a", self.a, f"row {index} has {len(row)} numbers; accepted are {index} (explicit scheme)")
        if abs(sum(self.b) - 1) > 1e-12:
            raise wrong("b", self.b, f"sums to {sum(self.b):g}; accepted are weights that sum to 1")
        if self.order != self.order_by_conditions():
            raise wrong(
                "order", self.order, f"the tableau satisfies the order conditions up to {self.order_by_conditions()}"
            )

    @property
    def stages(self) -> int:
        """How many directions one update evaluates."""
        return len(self.b)

    @property
    def nodes(self) -> tuple[float, ...]:
        """c_i = Σ_j a_ij."""
        return tuple(sum(row) for row in self.a)

    def order_by_conditions(self) -> int:
        """The largest p ≤ 4 such that all order conditions up to p hold."""
        b, c, a = self.b, self.nodes, self.a

        def image(x: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(sum(w * xi for w, xi in zip(row, x, strict=False)) for row in a)

        def weighted(*factors: tuple[float, ...]) -> float:
            return sum(reduce(lambda p, q: p * q, terms) for terms in zip(b, *factors, strict=True))

        c2 = tuple(x * x for x in c)
        conditions = {
            2: [(weighted(c), 1 / 2)],
            3: [(weighted(c2), 1 / 3), (weighted(image(c)), 1 / 6)],
            4: [
                (weighted(c, c2), 1 / 4),
                (weighted(c, image(c)), 1 / 8),
                (weighted(image(c2)), 1 / 12),
                (weighted(image(image(c))), 1 / 24),
            ],
        }
        for order, equations in conditions.items():
            if any(abs(left - right) > 1e-9 for left, right in equations):
                return order - 1
        return 4


EULER = Scheme("euler", ((),), (1.0,), 1)
HEUN = Scheme("heun", ((), (1.0,)), (0.5, 0.5), 2)
MIDPOINT = Scheme("midpoint", ((), (0.5,)), (0.0, 1.0), 2)
RALSTON = Scheme("ralston", ((), (2 / 3,)), (0.25, 0.75), 2)
RK4 = Scheme("rk4", ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6), 4)


def paper_alpha(alpha: float) -> Scheme:
    """The paper's scheme: a full step to θ̃, then α d(θ) + (1 − α) d(θ̃). Heun's, of order 2, for α = ½ only."""
    check_number("alpha", alpha, at_least=0, at_most=1)
    return Scheme("paper", ((), (1.0,)), (alpha, 1 - alpha), 2 if alpha == 0.5 else 1)


SCHEMES: dict[str, str] = {
    "euler": "order 1, one batch an update",
    "heun": "order 2, two batches; the paper's with α = ½",
    "midpoint": "order 2, two batches",
    "ralston": "order 2, two batches, least error bound",
    "rk4": "order 4, four batches",
    "paper": "α d(θ) + (1 − α) d(θ̃) with --alpha",
}
_FIXED = {scheme.name: scheme for scheme in (EULER, HEUN, MIDPOINT, RALSTON, RK4)}


def make_scheme(scheme: str | Scheme, alpha: float = 0.5) -> Scheme:
    """The named scheme; a `Scheme` is returned as it is."""
    if isinstance(scheme, Scheme):
        return scheme
    check_choice("scheme", scheme, SCHEMES)
    return paper_alpha(alpha) if scheme == "paper" else _FIXED[scheme]


def integrate(
    scheme: Scheme, direction_at: Callable[[int, Tree], tuple[Tree, Any]], params: Tree, rate: Any
) -> tuple[Tree, tuple[Any, ...]]:
    """The combined direction Σ b_i d_i, and what each stage returned beside its direction.

    ``direction_at(i, θ_i)`` gives (d_i, anything).
    """
    directions: list[Tree] = []
    beside: list[Any] = []
    for index, row in enumerate(scheme.a):
        point = params if index == 0 else _advance(params, rate, row, directions)
        direction, extra = direction_at(index, point)
        directions.append(direction)
        beside.append(extra)
    return combine(scheme.b, directions), tuple(beside)


def combine(weights: tuple[float, ...], trees: list[Tree] | tuple[Tree, ...]) -> Tree:
    """Σ_i b_i x_i for floating-point leaves, terms with weight 0 left out; other leaves are the first tree's."""
    if len(trees) == 1:
        return trees[0]
    used = [(w, tree) for w, tree in zip(weights, trees, strict=True) if w != 0]

    def mix(*leaves: Any) -> Any:
        if not jnp.issubdtype(leaves[0].dtype, jnp.floating):
            return leaves[0]
        return sum(w * leaf for (w, _), leaf in zip(used, leaves, strict=True))

    return jax.tree.map(mix, *(tree for _, tree in used))


def _advance(params: Tree, rate: Any, row: tuple[float, ...], directions: list[Tree]) -> Tree:
    """θ + η Σ_j a_ij d_j."""
    used = [(w, d) for w, d in zip(row, directions, strict=True) if w != 0]
    return jax.tree.map(
        lambda leaf, *moves: leaf + rate * sum(w * m for (w, _), m in zip(used, moves, strict=True)),
        params,
        *(d for _, d in used),
    )
