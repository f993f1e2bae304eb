"""Watching a run: callbacks, evaluations now and then, loggers, and an early end. docs/watching.md says how."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pgsom.checks import check_count, check_number, wrong
from pgsom.runs.driver import Chunk, Stand
from pgsom.runs.evaluations import Evaluation, fresh_returns
from pgsom.runs.folder import Telling
from pgsom.runs.loggers import Logger, check_log, make_loggers, names_of
from pgsom.runs.plan import Plan, Settings
from pgsom.runs.report import Callback, Report
from pgsom.training import TrainState, trained

EvaluationCallback = Callable[[Evaluation], bool | None]


@dataclass(frozen=True)
class Watch:
    """What is to be told of a run while it goes on, to whom."""

    callback: Callback | None = None
    log: str | Sequence[str | Logger] = ()
    evaluate_every: int = 0
    evaluation_episodes: int = 20
    on_evaluation: EvaluationCallback | None = None
    target_return: float | None = None
    kept: bool = False
    """Whether the run has a folder."""

    def __post_init__(self) -> None:
        for name, takes in (("callback", "Progress"), ("on_evaluation", "Evaluation")):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise wrong(name, function, f"accepted is a function of {takes}")
        check_log(self.log, kept=self.kept)
        check_count("evaluate_every", self.evaluate_every, at_least=0)
        check_count("evaluation_episodes", self.evaluation_episodes)
        if self.target_return is not None:
            check_number("target_return", self.target_return)
        for name in ("on_evaluation", "target_return"):
            if getattr(self, name) is not None and not self.evaluate_every:
                raise wrong(name, getattr(self, name), "accepted only together with evaluate_every")

    def telling(self) -> Telling:
        """What of it can be written down."""
        target = None if self.target_return is None else float(self.target_return)
        return Telling(names_of(self.log), self.evaluate_every, self.evaluation_episodes, target)

    def every(self, other: int = 0) -> int | None:
        """At multiples of what chunks must end, so that evaluations (and whatever else is due) fall on their ends."""
        return math.gcd(self.evaluate_every, other) or None


def watch_again(
    telling: Telling,
    callback: Callback | None,
    log: str | Sequence[str | Logger] | None,
    on_evaluation: EvaluationCallback | None,
    target_return: float | None,
    *,
    evaluate_every: int | None,
    evaluation_episodes: int | None,
) -> Watch:
    """Of a run that is taken up: as it was told before, but for what is given now."""
    every = telling.evaluate_every if evaluate_every is None else evaluate_every
    if target_return is None and every:
        target_return = telling.target_return
    episodes = telling.evaluation_episodes if evaluation_episodes is None else evaluation_episodes
    return Watch(callback, telling.log if log is None else log, every, episodes, on_evaluation, target_return, True)


class Watching:
    """A run that is being watched."""

    def __init__(self, watch: Watch, plan: Plan, settings: Settings, report: Report, folder: Path | None) -> None:
        self._watch, self._plan, self._settings, self._report = watch, plan, settings, report
        config = {name: value for name, value in asdict(settings).items() if value is not None}
        self.loggers = make_loggers(watch.log, folder, plan.seeds, config)
        self.evaluations: list[Evaluation] = []
        self.reached = False

    def stop(self, chunk: Chunk) -> bool:
        """Tell everybody of the chunk; whether anybody wants the run to end."""
        asked = self._report(chunk)
        return (self._due(chunk.last) and self._evaluate(chunk.last, chunk.state)) or asked

    def over(self, stand: Stand) -> bool:
        """Whether a run that is taken up here had ended here; evaluated again, in case it was stopped in between."""
        return self._due(stand.updates) and self._evaluate(stand.updates, stand.state)

    def _due(self, updates: int) -> bool:
        every = self._watch.evaluate_every
        return every > 0 and updates > 0 and updates % every == 0

    def close(self) -> None:
        """After the last chunk."""
        for logger in self.loggers:
            logger.close()

    def notes(self) -> tuple[str, ...]:
        """What the summary should say of it."""
        if not self.reached:
            return ()
        last = self.evaluations[-1]
        target = f"{self._watch.target_return:g}"
        return (f"ended after update {last.updates:,}: evaluated at {last.mean:.4g}, and the target was {target}",)

    def _evaluate(self, updates: int, state: TrainState) -> bool:
        plan, watch = self._plan, self._watch
        policy, params = trained(plan.policy, plan.environment.observation, state)
        # Episodes of their own each time, and others than those of the evaluation at the end: stopping because of
        # lucky ones must not make that one lucky too.
        root = 2 + updates
        returns = fresh_returns(plan.environment, policy, params, plan.seeds, watch.evaluation_episodes, seed=root)
        sound = np.asarray(state.failures) < float(plan.methods[0].freeze_after)
        evaluation = Evaluation(updates, returns, sound)
        self.evaluations.append(evaluation)
        for logger in self.loggers:
            logger.evaluated(evaluation)
        self.reached = watch.target_return is not None and evaluation.mean >= watch.target_return
        asked = watch.on_evaluation is not None and bool(watch.on_evaluation(evaluation))
        return self.reached or asked
