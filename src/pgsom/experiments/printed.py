"""What the paper prints, as data: Table 1, and the numbers of its text."""

from typing import NamedTuple


class Variant(NamedTuple):
    """A cell of Table 1. `reading` is the open sign of x²σ(1−σ) in as-run's Hessian rows, empty elsewhere."""

    method: str
    stabiliser: str
    reading: str = ""

    @property
    def label(self) -> str:
        """For tables and figures."""
        sign = {"plus": " (+)", "minus": " (−)", "none": " (0)", "": ""}[self.reading]
        return f"{self.method}, {self.stabiliser}{sign}"


METHODS = ("reinforce", "hessian", "runge-kutta")
STABILISERS = ("none", "clip", "entropy", "baseline")
RUNS = 5
"""The table's cells are over this many runs."""

PRINTED: dict[tuple[str, str], tuple[float, float]] = {
    ("reinforce", "none"): (202.70, 23.99),
    ("reinforce", "clip"): (370.51, 38.72),
    ("reinforce", "entropy"): (239.90, 58.98),
    ("reinforce", "baseline"): (218.84, 47.17),
    ("hessian", "none"): (147.00, 24.53),
    ("hessian", "clip"): (392.79, 0.55),
    ("hessian", "entropy"): (274.99, 112.73),
    ("hessian", "baseline"): (208.43, 115.63),
    ("runge-kutta", "none"): (314.18, 66.33),
    ("runge-kutta", "clip"): (383.09, 7.15),
    ("runge-kutta", "entropy"): (314.75, 95.46),
    ("runge-kutta", "baseline"): (328.21, 65.32),
}
"""Table 1: mean and standard deviation over five runs."""

REACHES_200 = {"runge-kutta": 250.0, "reinforce": 350.0, "hessian": 400.0}
"""Sample efficiency: "Runge-Kutta reaches the reward threshold of 200 after ~250 episodes, whereas Policy Gradient
requires ~350 episodes and Hessian PG almost 400"."""
THRESHOLD = 200.0
FASTER = {"reinforce": 1.40, "hessian": 1.55}
"""Caption of Figure 2: "~40 % faster than vanilla Policy Gradient and ~55 % faster than Hessian PG"."""
GOAL, FEWER_EPISODES = 400.0, 3.0
"""Computational complexity: "≈3× reduction in the number of episodes required to surpass 400 reward on CartPole"."""
WALL_CLOCK = 1.8
"""The same place: "≈1.8× wall-clock slowdown"."""
SAMPLE_EFFICIENCY = 2.1
"""Abstract: "up to a 2.1x increase in sample efficiency"."""
TEXT_CELLS: dict[tuple[str, str], tuple[float, float]] = {
    ("runge-kutta", "clip"): (389.6, 7.2),
    ("hessian", "clip"): (378.4, 0.6),
}
"""Asymptotic performance, of the same cells as Table 1: "RK+clip attains the highest score (mean 389.6, std 7.2),
followed by Hessian PG+clip (mean 378.4, std 0.6)"."""
ALGORITHM_1_NEEDS = ("learning rate η", "momentum factor β₁", "momentum factor β₂")
"""Algorithm 1, Require; REINFORCE needs the first."""
