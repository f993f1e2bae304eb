"""Gymnasium's environments behind our protocol: spaces, time limits, autoreset modes, wrappers, failures."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from pgsom.checks import InputError
from pgsom.environments import (
    Box,
    Discrete,
    EpisodeError,
    HostEnvironment,
    MultiBinary,
    MultiDiscrete,
    gymnasium_environment,
    make,
    mujoco_warnings,
)
from pgsom.environments.gymnasium_copies import GymnasiumCopies, InThreads
from pgsom.environments.gymnasium_spaces import action_conversion, action_spec, flattening, observation_spec
from tests.host.clock import BETWEEN, CUT, ENDED, Clock, limited

LABELS = ("seed 0", "seed 1")


def unlike_each_other() -> SyncVectorEnv:
    """Two clocks, the second of which ends earlier."""
    return SyncVectorEnv([limited, lambda: limited(lengths=(2,))], autoreset_mode=AutoresetMode.NEXT_STEP)


# --- episodes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vector", "autoreset"), [("sync", "same-step"), ("sync", "next-step"), ("async", "same-step")]
)
def test_every_end_is_told_from_the_next_beginning(vector: str, autoreset: str) -> None:
    """Episode 0 is ended by its own rule at step 3, episode 1 at step 2, episode 2 is cut at step 3."""
    environment = make(limited, vector=vector, autoreset=autoreset)
    copies = environment.open(LABELS)
    try:
        first = copies.reset([11, 12])
        np.testing.assert_array_equal(first, [[0, 0], [0, 0]])
        seen = first
        told = []
        while len(told) < 8:
            step = copies.step(np.zeros(2, np.int32))
            if step.taken[0]:
                flags = bool(step.terminated[0]), bool(step.truncated[0])
                told.append((seen[0].tolist(), float(step.reward[0]), *flags, step.final[0].tolist()))
            seen = step.observation
    finally:
        copies.close()
    assert told == [
        ([0, 0], BETWEEN, False, False, [0, 1]),
        ([0, 1], BETWEEN, False, False, [0, 2]),
        ([0, 2], ENDED, True, False, [0, 3]),
        ([1, 0], BETWEEN, False, False, [1, 1]),
        ([1, 1], ENDED, True, False, [1, 2]),
        ([2, 0], BETWEEN, False, False, [2, 1]),
        ([2, 1], BETWEEN, False, False, [2, 2]),
        ([2, 2], CUT, False, True, [2, 3]),
    ]


def test_idle_copies_are_not_stepped() -> None:
    copies = make(limited).open(LABELS)
    copies.reset([1, 2])
    copies.step(np.zeros(2, np.int32), np.array([False, True]))
    step = copies.step(np.zeros(2, np.int32), np.array([False, False]))
    np.testing.assert_array_equal(step.observation, [[0, 2], [0, 1]])
    np.testing.assert_array_equal(copies.step(np.zeros(2, np.int32), np.array([True, False])).taken, [False, True])


def test_gymnasiums_time_limit_is_a_truncation_and_both_flags_may_hold() -> None:
    environment = make(lambda: Clock(lengths=(9, 2), limit=99), max_episode_steps=2)
    assert environment.horizon == 2
    copies = environment.open(["seed 0"])
    copies.reset([0])
    steps = [copies.step(np.zeros(1, np.int32)) for _ in range(4)]
    assert [(s.terminated[0], s.truncated[0]) for s in steps] == [(0, 0), (0, 1), (0, 0), (1, 1)]


def test_the_environments_own_vector_is_stepped_in_its_mode() -> None:
    copies = make("gymnasium:CartPole-v1", vector="entry-point", max_episode_steps=5).open(LABELS)
    copies.reset([3, 4])
    steps = [copies.step(np.array([1, 0], np.int32)) for _ in range(6)]
    assert steps[4].truncated.all() and not steps[4].terminated.any() and steps[4].taken.all()
    assert not steps[5].taken.any() and (np.abs(steps[5].observation) <= 0.05).all()


def test_a_vector_with_a_seed_for_life_is_made_anew_for_another() -> None:
    """As EnvPool's, which takes its seed when it is made and ignores the one of `reset`."""
    alive: list[int] = []

    class Seeded(SyncVectorEnv):
        def __init__(self, seed: int) -> None:
            super().__init__([lambda: gymnasium.make("CartPole-v1")] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)
            self.own = seed
            alive.append(seed)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            assert seed is None
            return super().reset(seed=self.own)

        def close_extras(self, **arguments: Any) -> None:
            alive.remove(self.own)
            super().close_extras(**arguments)

    copies = GymnasiumCopies(InThreads(Seeded), "seeded", seed_each=False)
    first, again, other = (copies.reset([seed, 9]).copy() for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other) and alive == [4]
    assert copies.step(np.zeros(2, np.int32)).taken.all()
    copies.close()
    assert not alive


def test_mujoco_warns_once(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    monkeypatch.setattr(mujoco_warnings, "_HEARD", set())
    make("HalfCheetah-v5").open(["a", "b", "c"]).close()
    mujoco_warnings.say_once("QACC is huge. Time = 0.1.")
    mujoco_warnings.say_once("QACC is huge. Time = 0.2.")
    said = [line for line in capfd.readouterr().err.splitlines() if line]
    assert len(set(said)) == len(said) and said[-1] == "MuJoCo: QACC is huge."
    assert all(line.startswith("MuJoCo: ") for line in said)


def test_a_vector_of_the_callers_stays_open() -> None:
    vector = unlike_each_other()
    environment = make(vector)
    copies = environment.open(LABELS)
    copies.reset([0, 0])
    steps = [copies.step(np.zeros(2, np.int32)) for _ in range(3)]
    assert [step.taken.tolist() for step in steps] == [[True, True], [True, True], [True, False]]
    copies.close()
    assert not vector.closed
    with pytest.raises(InputError, match=r"3 copies are needed .* the vector has 2"):
        environment.open(["a", "b", "c"])


def test_wrappers_are_kept() -> None:
    wrapped = gymnasium.wrappers.TransformReward(limited(), lambda reward: 10 * reward)
    wrapped.unwrapped.lengths = (1,)
    copies = make(wrapped).open(LABELS)
    copies.reset([0, 0])
    np.testing.assert_array_equal(copies.step(np.zeros(2, np.int32)).reward, 10 * ENDED)


# --- spaces ------------------------------------------------------------------------------------------------------

ACTIONS: list[tuple[spaces.Space[Any], Any, Any, Any]] = [
    (spaces.Discrete(3, start=-1), Discrete(3), [0, 2], [-1, 1]),
    (spaces.MultiDiscrete([2, 3], start=[4, 0]), MultiDiscrete((2, 3)), [[1, 2]], [[5, 2]]),
    (spaces.MultiDiscrete([[2, 3], [4, 5]]), MultiDiscrete((2, 3, 4, 5)), [[1, 2, 3, 4]], [[[1, 2], [3, 4]]]),
    (spaces.MultiBinary((2, 2)), MultiBinary(4), [[1, 0, 0, 1]], [[[1, 0], [0, 1]]]),
    (spaces.Box(-1, 1, (2, 1), np.float64), Box((2, 1), -1.0, 1.0), [[[0.5], [-1]]], [[[0.5], [-1]]]),
    (spaces.Box(np.float32([-2, 0]), np.float32([2, 1])), Box((2,), (-2.0, 0.0), (2.0, 1.0)), [[0.5, 1]], [[0.5, 1]]),
]


@pytest.mark.parametrize(("space", "spec", "chosen", "given"), ACTIONS, ids=lambda x: str(x)[:30])
def test_actions_are_converted(space: Any, spec: Any, chosen: Any, given: Any) -> None:
    assert action_spec(space) == spec
    converted = action_conversion(space)(np.array(chosen))
    np.testing.assert_array_equal(converted, given)
    assert all(space.contains(one) for one in converted)


OBSERVATIONS: list[tuple[spaces.Space[Any], Any, Any, Any]] = [
    (spaces.Discrete(4, start=2), Discrete(4), 3, 1),
    (spaces.Box(0, 255, (2, 2), np.uint8), Box((4,), 0.0, 255.0), np.uint8([[1, 2], [3, 4]]), [1, 2, 3, 4]),
    (spaces.MultiBinary(2), Box((2,), 0.0, 1.0), np.array([1, 0], np.int8), [1, 0]),
    (
        spaces.Dict(a=spaces.Discrete(2), b=spaces.Tuple([spaces.Box(-1, 1, (1,)), spaces.MultiDiscrete([2, 2])])),
        Box((7,), (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0), 1.0),
        {"a": 1, "b": (np.float32([0.5]), np.array([0, 1]))},
        [0, 1, 0.5, 1, 0, 0, 1],
    ),
]


@pytest.mark.parametrize(("space", "spec", "shown", "seen"), OBSERVATIONS, ids=lambda x: str(x)[:30])
def test_observations_are_one_vector_or_a_whole_number(space: Any, spec: Any, shown: Any, seen: Any) -> None:
    assert observation_spec(space) == spec
    found = flattening(space)(shown)
    np.testing.assert_array_equal(found, seen)
    assert found.shape == spec.shape


class Shows(Clock):
    """A clock that shows what it is told to."""

    def __init__(self, space: spaces.Space[Any], shown: Any) -> None:
        super().__init__()
        self.observation_space, self.shown = space, shown

    def _seen(self) -> Any:
        return self.shown


@pytest.mark.parametrize("autoreset", ["same-step", "next-step"])
@pytest.mark.parametrize(("space", "spec", "shown", "seen"), OBSERVATIONS, ids=lambda x: str(x)[:30])
def test_they_arrive_so_from_every_vector(autoreset: str, space: Any, spec: Any, shown: Any, seen: Any) -> None:
    environment = make(lambda: Shows(space, shown), max_episode_steps=2, autoreset=autoreset)
    copies = environment.open(LABELS)
    np.testing.assert_array_equal(copies.reset([0, 0]), [seen, seen])
    copies.step(np.zeros(2, np.int32))
    last = copies.step(np.zeros(2, np.int32))
    assert last.truncated.all()
    np.testing.assert_array_equal(last.final, [seen, seen])
    vector = SyncVectorEnv([limited], autoreset_mode=AutoresetMode.SAME_STEP)
    np.testing.assert_array_equal(make(vector).open(["seed 0"]).reset([0]), [[0, 0]])


def test_an_unusual_vectors_last_observations_are_read_as_gymnasium_keeps_them() -> None:
    """Of a Dict space Gymnasium keeps one dict of arrays for all copies."""
    space, _, shown, seen = OBSERVATIONS[-1]
    vector = SyncVectorEnv([lambda: Shows(space, shown)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    copies = make(vector, max_episode_steps=3).open(LABELS)
    copies.reset([0, 0])
    steps = [copies.step(np.zeros(2, np.int32)) for _ in range(3)]
    assert steps[-1].terminated.all()
    np.testing.assert_array_equal(steps[-1].final, [seen, seen])


# --- names and mistakes ------------------------------------------------------------------------------------------


def test_names() -> None:
    assert make("gymnasium:CartPole-v1").name == "gymnasium:CartPole-v1"
    assert make("FrozenLake8x8-v1").name == "FrozenLake8x8-v1"
    assert isinstance(make("FrozenLake8x8-v1"), HostEnvironment)
    assert not isinstance(make("CartPole-v1"), HostEnvironment)
    assert make(limited).name == make(Clock, max_episode_steps=3).name == "Clock"
    assert (
        make("gymnasium:CartPole-v1") == make("gymnasium:CartPole-v1") != make("gymnasium:CartPole-v1", vector="async")
    )
    assert make("gymnasium:FrozenLake-v1", is_slippery=False, max_episode_steps=7).horizon == 7


class Disabled(VectorEnv):
    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012
    num_envs = 1
    single_observation_space, single_action_space = Clock.observation_space, Clock.action_space


WRONG = {
    "disabled": (lambda: make(limited, autoreset="disabled"), r"autoreset='disabled': .* accepted are same-step"),
    "disabled vector": (lambda: make(Disabled()), "autoreset_mode='DISABLED': .*accepted are NEXT_STEP and SAME_STEP"),
    "no limit": (lambda: make(Clock), "environment='Clock': it has no time limit.*max_episode_steps=1000"),
    "unknown": (lambda: make("gymnasium:CartPol-v1"), "unknown to Gymnasium; did you mean 'CartPole-v1'?"),
    "unknown plainly": (lambda: make("LunarLandr-v3"), "did you mean 'LunarLander-v3'?"),
    "option": (lambda: make("gymnasium:CartPole-v1", gravity=3), "Gymnasium cannot make it: .*'gravity'"),
    "option of an instance": (lambda: make(limited, gravity=3), "options=.'gravity',.: accepted only with the id"),
    "vector": (lambda: make(limited, vector="asink"), "vector='asink': .* did you mean 'async'?"),
    "own vector": (
        lambda: make("gymnasium:Acrobot-v1", vector="entry-point"),
        "Acrobot-v1 has no vector of its own; accepted are sync, async",
    ),
    "own vector of an instance": (lambda: make(limited, vector="entry-point"), "accepted only with the id"),
    "space": (lambda: make(lambda: Shows(spaces.Text(3), ""), max_episode_steps=3), "observation_space=Text"),
    "whole-number box": (lambda: action_spec(spaces.Box(0, 9, (2,), np.int64)), "action_space=Box.*real numbers"),
    "not an environment": (lambda: make(lambda: 3), "returned int; accepted is a gymnasium.Env"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_one_line(case: str, unchecked: None) -> None:
    call, said = WRONG[case]
    with pytest.raises(InputError, match=said) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("vector", ["sync", "async"])
def test_what_raises_is_named_with_seed_and_step(vector: str) -> None:
    environment = gymnasium_environment(lambda: limited(raises_at=(1, 2)), vector=vector)
    copies = environment.open(("seed 4", "seed 5"))
    copies.reset([11, 12])
    said = r"^Clock, seed [45], step 2 of episode 2 after reset\(seed=1[12]\): ValueError: the spring broke$"
    with pytest.raises(EpisodeError, match=said):
        for _ in range(9):
            copies.step(np.zeros(2, np.int32))
    copies.close()


def test_what_raises_in_a_vector_is_named() -> None:
    copies = make(SyncVectorEnv([lambda: limited(raises_at=(0, 2))])).open(["seed 0"])
    copies.reset([0])
    copies.step(np.zeros(1, np.int32))
    with pytest.raises(EpisodeError, match="Clock, step 2 of its copies: ValueError: the spring broke"):
        copies.step(np.zeros(1, np.int32))
