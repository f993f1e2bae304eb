"""A diagnosis of a finished run, seed by seed, or of a run while it goes on."""

from collections.abc import Sequence

import jax

from pgsom.checks import check_count, wrong
from pgsom.curvature import Estimator, make_estimator
from pgsom.experiments.diagnosis import DEFAULT_EFFORT, Diagnosis, Effort, diagnose_at
from pgsom.runs import Progress, Result


def diagnose(
    result: Result,
    *,
    seeds: Sequence[int] | None = None,
    curvature: str | Estimator | None = None,
    effort: Effort = DEFAULT_EFFORT,
) -> list[Diagnosis]:
    """How well the method sees where a run ended, and whether its next step does what it promises.

    Args:
        result: from `pgsom.train`, or `pgsom.load` of a saved run.
        seeds: which of the run's; all by default.
        curvature: whose diagonal is judged; the method's own by default, the causal Hessian's if it has none.
        effort: how many batches, episodes and Lanczos steps.
    """
    chosen = result.seeds if seeds is None else tuple(seeds)
    found = []
    for seed in chosen:
        if seed not in result.seeds:
            raise wrong("seed", seed, f"accepted are the trained seeds {', '.join(map(str, result.seeds))}")
        place = result.seeds.index(seed)
        params, state = (
            jax.tree.map(lambda leaf, place=place: leaf[place], tree) for tree in (result.params, result.state)
        )
        parts = (result.environment, result.policy_definition, result.method)
        found.append(diagnose_at(*parts, params, state=state, seed=seed, curvature=curvature, effort=effort))
    return found


class Diagnosing:
    """A callback of `pgsom.train`: a diagnosis after every `every` updates or so, and at the end, kept in `found`.

    ::

        watch = pgsom.Diagnosing(every=50)
        pgsom.train("CartPole-v1", "pg-som", episodes=1000, callback=watch)
        for updates, diagnosis in watch.found: ...

    It comes at the end of the chunk of updates in which it is due, of the first `seeds` seeds of each method.
    """

    def __init__(
        self, every: int = 50, *, seeds: int = 1, curvature: str | Estimator | None = None, effort: Effort | None = None
    ) -> None:
        self.every, self.seeds = check_count("every", every), check_count("seeds", seeds)
        self.curvature = None if curvature is None else make_estimator(curvature)
        self.effort = effort or DEFAULT_EFFORT
        self.found: list[tuple[int, Diagnosis]] = []
        self._due = self.every

    def __call__(self, progress: Progress) -> None:
        """Never asks the run to stop."""
        ended = progress.updates >= progress.total_updates
        if progress.plan is None or (progress.updates < self._due and not ended):
            return
        self._due = progress.updates + self.every
        plan = progress.plan
        for number, method in enumerate(plan.methods):
            for place, seed in enumerate(plan.seeds[: self.seeds]):
                member = number * len(plan.seeds) + place
                state = jax.tree.map(lambda leaf, member=member: leaf[member], progress.state)
                parts = (plan.environment, plan.policy, method, state.params)
                found = diagnose_at(*parts, state=state, seed=seed, curvature=self.curvature, effort=self.effort)
                self.found.append((progress.updates, found))
