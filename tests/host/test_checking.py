"""The checker finds what is wrong, says it in a line, and finds nothing where nothing is wrong."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from pgsom import Box, Discrete, Step, check_environment, make_environment
from tests.host.clock import Clock, limited

BOX, TWO = Box((1,), -2.0, 2.0), Discrete(2)


@dataclass(frozen=True)
class Sound:
    """Walks to 1; `fault` names what is wrong with it."""

    fault: str = ""
    name: str = "sound"
    observation: Any = BOX
    action: Any = TWO
    horizon: int = 6

    def reset(self, key: jax.Array) -> Any:
        if self.fault == "reset returns one":
            return jnp.zeros(1)
        start = jnp.zeros(2 if self.fault == "observation shape" else 1)
        return {"x": start[0], "t": jnp.asarray(0)}, start

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Any:
        if self.fault == "if" and action == 1:
            return None
        if self.fault == "raises":
            raise KeyError("speed")
        x, t = state["x"] + jnp.where(action == 1, 0.4, -0.3), state["t"] + 1
        if self.fault == "bounds":
            x = x * 50
        if self.fault == "hidden state":
            x = x + jax.pure_callback(lambda: np.float32(np.random.random()), jax.ShapeDtypeStruct((), jnp.float32))
        reward = {"reward shape": jnp.zeros(1), "whole reward": t, "nan": jnp.nan * x}.get(self.fault, x)
        ended = x > 1 if self.fault != "flag" else (x > 1).astype(float)
        cut = t >= {"never cut": 99, "early": 3}.get(self.fault, self.horizon)
        state = {"x": x, "t": t.astype(float) if self.fault == "state dtype" else t}
        if self.fault == "state structure":
            state |= {"extra": x}
        seen = x[None].astype(jnp.int32) if self.fault == "observation dtype" else x[None]
        return (state, seen, reward) if self.fault == "no step" else Step(state, seen, reward, ended, cut)


WRONG = {
    "reset returns one": r"reset: must return \(state, observation\)",
    "observation shape": r"reset: the observation has shape \(2,\); its spec says \(1,\)",
    "if": r"step: cannot be compiled \(.*bool.*\); use jnp.where or jax.lax.cond in place of if",
    "raises": "step: raises KeyError: 'speed'",
    "no step": "step: must return pgsom.Step",
    "observation dtype": "step: the observation has dtype int32; its spec says float32",
    "reward shape": r"step: the reward is float32\[1\]; it must be one real number",
    "whole reward": "step: the reward is one int32; it must be one real number",
    "flag": "step: terminated is one float32; it must be one bool",
    "state dtype": r"step: \['t'\] of the state goes from one int32 to one float32",
    "state structure": "step: the state's structure changes",
    "bounds": "observation: entry 0 is .* at step 1, outside of its bounds",
    "nan": "step: a reward is not finite",
    "never cut": "step: nothing ends the episode at step 6, the horizon",
    "early": "step: truncated is True at step 3, but the horizon is 6",
    "hidden state": "step: the same keys give other results the second time",
}


@pytest.mark.parametrize("fault", WRONG)
def test_each_fault_of_an_environment_in_jax_is_one_finding(fault: str, unchecked: None) -> None:
    (said,) = check_environment(Sound(fault))
    assert re.match(WRONG[fault], said) and "\n" not in said


def test_faults_of_the_parts(unchecked: None) -> None:
    assert check_environment(object())[0].startswith("name, observation, action, horizon, reset, step: missing")
    found = check_environment(replace(Sound(), name="", horizon=2.5, action=3, observation=Box((1,))))
    assert [line.split(":")[0] for line in found] == ["name", "action", "horizon"]

    class Unhashable(Sound):
        __hash__ = None  # type: ignore[assignment]

    assert check_environment(Unhashable())[0].startswith("hash: it is not hashable")


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert check_environment(Sound()) == check_environment(make_environment("chain")) == ()
    assert check_environment("double-integrator") == check_environment(limited) == check_environment(limited()) == ()
    assert check_environment("gymnasium:CartPole-v1") == ()


class Leaves(Clock):
    """Shows more than its space holds."""

    observation_space = spaces.Box(0, 2, (2,), np.float64)


class Returns(Clock):
    """Steps as environments did before 0.26."""

    def step(self, action: Any) -> Any:
        return (*super().step(action)[:3], {})


class Flags(Clock):
    def step(self, action: Any) -> Any:
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, np.inf if self.time == 2 else reward, terminated, truncated, info


def test_faults_of_gymnasiums_environments() -> None:
    assert check_environment(Clock)[0].startswith("time limit: it has none")

    def in_time(kind: Any) -> Any:
        return gymnasium.wrappers.TimeLimit(kind(), 10)

    (outside,) = check_environment(lambda: in_time(Leaves))
    assert outside == "step 3: the observation is outside of observation_space (entry 1 is 3)"
    assert "5" in check_environment(lambda: in_time(Returns))[-1]
    assert check_environment(lambda: in_time(Flags)) == ("step 2: the reward is inf",)
    clock = in_time(Clock)
    clock.unwrapped.action_space = spaces.Text(3)
    assert any(line.startswith("action_space=Text") for line in check_environment(clock))
    assert check_environment(lambda: 3) == ("it returned int; accepted is a gymnasium.Env",)


def test_the_pages_environment_is_sound_and_learns(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", Path("docs/environments.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(code, names)
    assert capsys.readouterr().out == "", "no finding"
    returns = names["result"].returns[0]
    assert returns[-5:].mean() > returns[:5].mean()
