"""`python -m benchmarks.theory`: the exact numbers of docs/theory.md, and the page."""

import sys
from collections.abc import Sequence
from pathlib import Path

from pgsom.experiments.problems import built_in_problems, random_problems
from pgsom.experiments.theory import study
from pgsom.report import theory

PAGE = Path(__file__).parents[1] / "docs" / "theory.md"
RANDOM, EPISODES = 100, 1_000

HEAD = """# The lemmas and the estimators, without sampling error

```sh
pgsom theory                    # the built-in MDPs
pgsom theory --random 100       # random ones, summed up
pgsom theory --mdp own.npz      # one's own; --json for the numbers
```

A finite MDP with few enough trajectories is listed whole, and an expectation is a sum over the list. The list is given
to the code that trains, as one batch whose episodes count as much as they are probable, so what is judged is that code
and no copy of it. The truth comes from elsewhere: J by a recursion over states, ∇J and ∇²J by differentiating it, in
float64. The policy is π(a|s) ∝ exp θ[s, a].

This page is written by `make theory`. Its numbers are exact but for the z-scores, which are of episodes really played
(with a fixed seed), and for estimators that draw numbers of their own (fisher-sampled, gauss-newton-bartlett): those
are asked eight times about each trajectory. A Hutchinson probe's variance is known.

## What is checked

- **C1, Lemma 1.** E[∇²Ψ + (∇ ln p)(∇Ψ)ᵀ] = ∇²J, the whole matrix. It holds with w_t = Σ_{k≥t} γ^k r_k (the lemma's
  discounting) for the discounted return, and undiscounted for the undiscounted one. With the appendix's
  w_t = Σ_{k≥t} γ^(k−t) r_k it is off by what the table says: that is the Hessian of no return.
- **C2, Lemma 2.** ∇ ln p(τ) = Σ_t z_t: the logarithm of a trajectory's whole probability is differentiated, transition
  kernel and all, for the MDP's kernel and for another one with the same possible transitions; the scores know neither.
- **C3.** Each estimator that declares itself unbiased has the expectation diag ∇²J, with every baseline; the mean over
  played episodes agrees with it within its standard error (z).

## Columns

*bias*: the largest difference of any entry to diag ∇²J (or ∇J), by the lemma's discounting and by the appendix's.
Gauss-Newton and Fisher matrices stand for −∇²J and keep their own sign, so theirs is large. *variance*: of an
estimate from one trajectory, summed over the entries. *trajectories for S/N 1*: how many must be averaged until the
noise is as large as the signal, √(Σ Var / n) = ‖E‖. *negative*: how likely an entry is negative when estimated from
one trajectory, over the states that are acted in. Baselines: *constant* is J, *state value* the exact V_t(s_t).
"""

LIMITS = """
## One's own MDP

A file has `P[S, A, S]`, `R[S, A]`, `rho[S]`, `gamma`, `horizon` and the logits `theta[S, A]`; `terminal[S]`, true or
false, if wanted. As .npz or as JSON:

```python
import numpy as np

np.savez(
    "own.npz",
    P=np.full((2, 2, 2), 0.5),
    R=[[1.0, 0.0], [0.0, 2.0]],
    rho=[1.0, 0.0],
    gamma=0.9,
    horizon=3,
    theta=np.zeros((2, 2)),
)
```

Nothing is unpickled, and what a header claims must agree with the bytes that are there before anything is allocated.
Accepted are up to 256 states times actions, 1,000 steps and 200,000 trajectories.

`--json` prints, of one MDP, an object with the exact `return`, `gradient` and `hessian_diagonal` (as [S][A], of the
return under the lemma's discounting, as its `conventions` say), `lemmas`, and under `estimators` for each its
`expectation`, `bias`, `variance`, `trajectories_needed` and, `with_baseline`, the same again; without --mdp `mdps` is a
list of such objects. The exit code is 1 if anything contradicts a lemma or an estimator's own declaration.

In Python:

```python
import numpy as np

from pgsom.environments import FiniteMDP
from pgsom.experiments.problems import Problem
from pgsom.experiments.theory import study

mdp = FiniteMDP(np.full((2, 2, 2), 0.5), [[1.0, 0.0], [0.0, 2.0]], [1.0, 0.0], 0.9, 2)
found = study(Problem("coin", mdp, np.zeros((2, 2))), estimators=["lemma", "causal"])
print(found.lemma_errors, found.finding("causal", "state value").moments.trajectories_needed)
```
"""


def main() -> int:
    built_in = next(problem for problem in built_in_problems() if problem.name == "three-state")
    one = study(built_in, episodes=EPISODES)
    many = [study(problem, episodes=0) for problem in random_problems(RANDOM)]
    PAGE.write_text(page(one, many), "utf-8")
    return 0


def page(one: theory.Study, many: Sequence[theory.Study]) -> str:
    """docs/theory.md."""
    printed, quiet = (one.finding(*which).moments for which in (("lemma", "none"), ("causal", "state value")))
    whole = theory.plain_summary(many)
    held = ", ".join(f"{claim} holds in {whole[claim]} of {len(many)}" for claim in ("C1", "C2", "C3"))
    return "".join(
        (
            HEAD,
            f"\n## One MDP\n\n{theory.headline(one)}.\n\n",
            *(f"- {line}\n" for line in theory.check_lines(one)),
            f"\nThe causal form with the state value has {printed.total_variance / quiet.total_variance:.0f} times "
            f"less variance than Lemma 1 as printed: {quiet.trajectories_needed:.0f} trajectories in place of "
            f"{printed.trajectories_needed:.0f}.\n\n",
            _markdown(theory.ESTIMATOR_HEADER, theory.estimator_rows(one)),
            "\n### Does dividing by it climb?\n\ngᵀP⁻¹g with the exact gradient and P of the curvature's expectation; "
            "the last column is the cosine between g and the expected\nstep when gradient and curvature both come from "
            "the same single trajectory, without momentum.\n\n",
            _markdown(theory.ASCENT_HEADER, theory.ascent_rows(one)),
            f"\n## {len(many)} random MDPs\n\nThree states, two actions, three steps; γ uniform on [½, 1], rewards and "
            f"logits normal, a terminal state in every other one.\n{held}; {whole['negative_share']:.0%} of the "
            "entries of diag ∇²J are negative. Variances and trajectories are medians.\n\n",
            _markdown(theory.SUMMARY_HEADER, theory.summary_rows(many)),
            "\n",
            _markdown(theory.CLIMBING_HEADER, theory.climbing_rows(many)),
            LIMITS,
        )
    )


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    align = ["---" if place < 2 else "---:" for place in range(len(header))]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in (header, align, *rows))
    return "".join(f"| {' | '.join(row)} |\n" for row in escaped)


if __name__ == "__main__":
    sys.exit(main())
