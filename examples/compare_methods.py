"""A few methods with their defaults on CartPole, side by side: the figure in the README.

The defaults were chosen on the seeds of another root (1000) than the one used here (0).
"""

import sys
from pathlib import Path

import pgsom
from pgsom.report.figures import save_learning_curve

METHODS = ("reinforce", "hessian-pg", "runge-kutta-pg", "pg-som", "adam")


def main(folder="docs/figures", seeds=32, episodes=500):
    results = []
    for method in METHODS:
        result = pgsom.train("CartPole-v1", method, seeds=seeds, episodes=episodes)
        evaluated = result.evaluate(100).mean(axis=1)
        solved = int((evaluated >= 475).sum())
        print(
            f"{method:<15} mean return while learning {result.returns.mean():5.1f}, "
            f"evaluation {evaluated.mean():5.1f}, worst seed {evaluated.min():5.1f}, "
            f"at least 475: {solved} of {seeds} seeds, {result.env_steps[:, -1].mean():,.0f} steps a seed",
            flush=True,
        )
        results.append(result)
    Path(folder).mkdir(parents=True, exist_ok=True)
    save_learning_curve(results, Path(folder) / "cartpole")


if __name__ == "__main__":
    main(*sys.argv[1:2])
