"""Every preset loads and starts, says where its numbers come from, and is shipped."""

import re
import subprocess
import sys
import zipfile
from importlib import resources
from pathlib import Path

import jax
import pytest

import pgsom
from pgsom.checks import InputError
from pgsom.environments import make
from pgsom.methods import METHODS, make_method, method_options
from pgsom.policies import make_policy
from pgsom.presets import preset_names, read_preset
from pgsom.runs.plan import budget

PRESETS = preset_names()
FOLDER = resources.files("pgsom.presets")
OF_A_RUN = {"environment", "method", "episodes", "env_steps", "policy", "hidden", "activation"}


def test_every_method_has_a_preset_of_its_name_for_cartpole() -> None:
    assert [name for name in METHODS if name not in PRESETS] == [], "methods without src/pgsom/presets/NAME.toml"
    for name in METHODS:
        settings = read_preset(name).settings
        assert (settings["environment"], settings["method"]) == ("CartPole-v1", name)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_complete_and_starts(name: str) -> None:
    """Only assembled: its environment, its policy and its method, whose options all are options."""
    found = read_preset(name)
    settings = dict(found.settings)
    of_run = {key: settings.pop(key) for key in OF_A_RUN if key in settings}
    method = make_method(of_run["method"], **settings)
    assert settings and settings.keys() <= method_options(of_run["method"]).keys()
    environment = make(of_run["environment"])
    kind, hidden = of_run.get("policy", "mlp"), tuple(of_run.get("hidden", (64, 64)))
    policy = make_policy(kind, environment, hidden=hidden, activation=of_run.get("activation", "tanh"))
    assert jax.eval_shape(policy.init, jax.random.key(0)) is not None
    assert budget(method, of_run.get("episodes"), None, of_run.get("env_steps")) >= 1 and found.goal == found.goal
    assert f"{of_run.get('episodes', of_run.get('env_steps')):,}" in found.summary


@pytest.mark.parametrize("name", PRESETS)
def test_every_number_of_a_preset_has_a_comment(name: str) -> None:
    for line in FOLDER.joinpath(f"{name}.toml").read_text("utf-8").splitlines():
        if re.search(r"= *-?[\d.\[]", line.partition("#")[0]):
            assert re.search(r"#.*\w{3}", line), f"{name}.toml: say where it comes from: {line}"


def test_presets_are_in_the_wheel(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = zipfile.ZipFile(wheel).namelist()
    assert [name for name in PRESETS if f"pgsom/presets/{name}.toml" not in inside] == []
    assert all(FOLDER.joinpath(f"{name}.toml").is_file() for name in PRESETS)


def test_a_preset_as_arguments_of_train() -> None:
    changed = pgsom.preset("adam", environment="two-armed-bandit", updates=2, learning_rate=0.25)
    assert "episodes" not in changed
    result = pgsom.train(**changed)
    assert (result.settings.method, result.settings.updates) == ("adam", 2)
    assert result.settings.options["learning_rate"] == 0.25


def test_an_unknown_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"preset='reinforc': accepted are .*; did you mean 'reinforce'\?"):
        pgsom.preset("reinforc")
