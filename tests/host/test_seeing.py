"""Using a trained policy: exported files reproduce it, `predict` is as expected, episodes can be watched."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pgsom
from pgsom.checks import InputError
from pgsom.cli.main import main
from pgsom.environments import Box, Discrete, MultiBinary, MultiDiscrete, make
from pgsom.exporting import export, recipe
from pgsom.exporting.files import load_recipe, sample_observations
from pgsom.methods import make_method
from pgsom.normalisation import no_moments, with_more
from pgsom.playing import bars, play, record
from pgsom.policies import Policy, make_policy, standardised
from pgsom.runs import Result, Settings, TrainedPolicy
from tests.host.clock import Breaking


@dataclass(frozen=True)
class Toy:
    """Specs alone."""

    observation: Any
    action: Any
    name: str = "toy"
    horizon: int = 5


VECTOR, BOUNDED = Box((3,), (-1.0, -9.0, -np.inf), np.inf), Box((2, 1), (-2.0, -1.0), (2.0, 5.0))
CASES: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "linear": (VECTOR, Discrete(2), {"policy": "linear"}, "numpy"),
    "table": (Discrete(4), Discrete(3), {"policy": "tabular"}, "safetensors"),
    "choices": (VECTOR, MultiDiscrete((2, 3)), {"activation": "relu"}, "numpy"),
    "switches": (VECTOR, MultiBinary(3), {"activation": "silu"}, "safetensors"),
    "tanh-gaussian": (VECTOR, BOUNDED, {"actions": "tanh-gaussian", "activation": "elu"}, "numpy"),
    "beta": (VECTOR, BOUNDED, {"actions": "beta", "activation": "softplus"}, "safetensors"),
    "gaussian": (VECTOR, BOUNDED, {"log_std": "network", "activation": "gelu"}, "numpy"),
    "layer norm": (VECTOR, Box((1,), -1.0, 1.0), {"layer_norm": True}, "safetensors"),
    "standardised": (VECTOR, Discrete(3), {"normalised": True}, "numpy"),
}


def policy_of(
    observation: Any, action: Any, policy: str = "mlp", *, normalised: bool = False, **options: Any
) -> tuple[Policy, Any]:
    """With parameters that are nowhere 0."""
    made = make_policy(policy, Toy(observation, action), hidden=(8, 8), **options)
    if normalised:
        inner, params = policy_of(observation, action, policy, **options)
        seen = jax.random.normal(jax.random.key(2), (50, 1, *observation.shape)) * 3 + 1
        moments = with_more(no_moments(observation.shape), seen, jax.numpy.ones((50, 1)))
        return standardised(inner, observation), (params, moments)
    leaves, structure = jax.tree.flatten(made.init(jax.random.key(0)))
    keys = jax.random.split(jax.random.key(1), len(leaves))
    moved = [leaf + 0.5 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return made, jax.tree.unflatten(structure, moved)


@pytest.mark.parametrize("case", CASES)
def test_a_file_alone_reproduces_the_actions(case: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    observation, action, options, other = CASES[case]
    policy, params = policy_of(observation, action, **options)
    written = export(policy, params, observation, tmp_path / "policy.onnx", "onnx")
    assert written.observations == 10_000 and written.difference <= 1e-6 and written.other_choices == 0
    seen = sample_observations(observation, 500, seed=7)
    wanted = np.asarray(jax.vmap(policy.act, (None, 0))(params, seen))
    session = onnxruntime.InferenceSession(str(written.path), providers=["CPUExecutionProvider"])
    given = seen.astype(np.int64) if observation == Discrete(4) else seen
    found, outputs = session.run(["action", "distribution"], {"observation": given})
    np.testing.assert_allclose(found, wanted, atol=3e-6)
    np.testing.assert_allclose(outputs, jax.vmap(policy.outputs, (None, 0))(params, seen), rtol=1e-4, atol=1e-5)
    assert found.dtype == (np.int64 if np.issubdtype(wanted.dtype, np.integer) else np.float32)
    path = export(
        policy, params, observation, tmp_path / ("policy" + {"numpy": ".npz"}.get(other, ".safetensors")), other
    )
    np.testing.assert_allclose(load_recipe(path.path).act(seen), wanted, atol=3e-6)


def test_observations_are_tried_within_their_bounds() -> None:
    seen = sample_observations(Box((3,), (-1.0, -9.0, -np.inf), (2.0, 9.0, 5.0)), 2000)
    assert seen[:, 0].min() >= -1 and seen[:, 0].max() <= 2 and seen[:, 1].max() > 8
    assert sample_observations(Discrete(3), 50).max() == 2


def test_a_file_that_differs_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, params = policy_of(VECTOR, Discrete(3))
    monkeypatch.setitem(recipe.DO, "tanh", lambda x: x)
    with pytest.raises(RuntimeError, match=r"differs from the trained one by .*; nothing was kept"):
        export(policy, params, VECTOR, tmp_path / "policy.npz", "numpy")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"format='onx': .* did you mean 'onnx'?"):
        export(policy, params, VECTOR, tmp_path / "policy.npz", "onx")


def code_of(page: str) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", Path(page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_reads_a_file_with_numpy_alone(tmp_path: Path) -> None:
    policy, params = policy_of(VECTOR, BOUNDED)
    path = export(policy, params, VECTOR, tmp_path / "policy.npz", "numpy").path
    names: dict[str, Any] = {}
    exec(code_of("docs/using_policies.md")[-1], names)
    seen = sample_observations(VECTOR, 20, seed=1)
    wanted = jax.vmap(policy.act, (None, 0))(params, seen)
    np.testing.assert_allclose(names["act"](np.load(path), seen), wanted, atol=1e-5)


def test_predict_returns_action_and_state_as_in_stable_baselines() -> None:
    trained = TrainedPolicy(*policy_of(VECTOR, BOUNDED, actions="tanh-gaussian"), (3,))
    seen = np.zeros((5, 3))
    action, state = trained.predict(seen, deterministic=True)
    assert action.shape == (5, 2, 1) and state is None
    np.testing.assert_array_equal(action, trained.act(seen))
    drawn, kept = trained.predict(seen, "mine", np.zeros(5, bool))
    assert kept == "mine" and len(np.unique(drawn[:, 0])) == 5
    assert not np.array_equal(drawn, trained.predict(seen)[0])
    key = jax.random.key(3)
    np.testing.assert_array_equal(trained.predict(seen, key=key)[0], trained.predict(seen, key=key)[0])
    assert trained.predict(seen[0], deterministic=True)[0].shape == (2, 1)


def untrained(name: str, **options: Any) -> Result:
    """A result of a run that never was."""
    environment = make(name, **options)
    policy = make_policy("linear", environment)
    params = jax.vmap(policy.init)(jax.random.split(jax.random.key(0), 1))
    settings = Settings(name, options, "reinforce", {}, "linear", {}, 0, (0,), 1, True)
    nothing: Any = None
    return Result(settings, environment, policy, make_method("reinforce"), params, nothing, 0.0, 0.0)


def test_an_environment_in_jax_is_drawn_by_gymnasiums_renderer(tmp_path: Path) -> None:
    imageio = pytest.importorskip("imageio.v2")
    result = untrained("CartPole-v1", max_steps_in_episode=6)
    shown = list(play(result, 0))
    assert shown[-1].over and shown[-1].total == shown[-1].steps == len(shown) - 1
    assert shown[0].frame is not None and shown[0].frame.shape == (400, 600, 3)
    assert not np.array_equal(shown[0].frame, shown[-1].frame)
    # Pictures that are alike are one of twice the duration.
    assert 1 < len(imageio.mimread(record(shown, tmp_path / "film.gif"))) <= len(shown)
    assert record(shown, tmp_path / "film.mp4").read_bytes()[4:8] == b"ftyp"
    with pytest.raises(InputError, match=r"accepted are files that end in \.gif or \.mp4"):
        record(shown, tmp_path / "film.avi")


def test_what_nobody_draws_is_shown_as_bars() -> None:
    shown = list(play(untrained("double-integrator"), 0, stochastic=True))
    assert all(moment.frame is not None and moment.frame.shape == (240, 320, 3) for moment in shown)
    assert not np.array_equal(bars(np.array([1.0]), ""), bars(np.array([-1.0]), ""))


@pytest.fixture(scope="module", name="saved")
def _saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two seeds on the host."""
    options = {"max_episode_steps": 6}
    result = pgsom.train(
        "gymnasium:Pendulum-v1", "reinforce", policy="linear", batch=2, updates=1, seeds=2, environment_options=options
    )
    return result.save(tmp_path_factory.mktemp("run"))


def said(capsys: pytest.CaptureFixture[str], *words: Any) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_evaluate_tells_both_ways_with_intervals(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(said(capsys, "evaluate", saved, "--episodes", 5, "--json"))
    assert whole["seeds"] == [0, 1] and whole["episodes"] == 5
    for way, deterministic in (("stochastic", False), ("deterministic", True)):
        returns = pgsom.load(saved).evaluate(5, deterministic=deterministic)
        assert returns.shape == (2, 5)
        np.testing.assert_allclose(whole[way]["mean"], returns.mean(), rtol=1e-6)
        np.testing.assert_allclose(whole[way]["return_by_seed"], returns.mean(axis=1), rtol=1e-6)
        assert whole[way]["low"] <= whole[way]["mean"] <= whole[way]["high"]
        assert whole[way]["interval_over"] == "seeds"
    assert "95 % over seeds" in said(capsys, "evaluate", saved, "--episodes", 5)


def test_play_and_export_from_the_command_line(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film = tmp_path / "film.gif"
    lines = said(capsys, "play", saved, "--episodes", 2, "--out", film, "--seed", 1).splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["episode 1", "episode 2"] and "in 6 steps" in lines[0]
    assert film.exists() and str(film) in lines[2]
    assert "the policy of seed 1" in said(capsys, "export", saved, "--format", "numpy", "--seed", 1)
    policy = pgsom.load(saved).policy(1)
    seen = np.array([[0.1, 0.2, 0.3]])
    np.testing.assert_allclose(load_recipe(saved / "exported.npz").act(seen), policy.act(seen), atol=1e-6)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("evaluate", "pgsom evaluate: a run is missing; accepted is the folder of a saved run"),
        ("play nowhere", "pgsom play: run='nowhere': accepted is the folder of a saved run, with settings.toml in it"),
        ("export RUN --format onx", "pgsom export: format='onx': accepted are onnx, safetensors, numpy; did you mean"),
        ("export RUN --format numpy --seed 7 --out NEW", "pgsom export: seed=7: accepted are the trained seeds 0, 1"),
        ("play RUN --out film.avi", "pgsom play: out='film.avi': accepted are files that end in .gif or .mp4"),
        ("evaluate RUN --episodes 0", "pgsom evaluate: episodes=0: accepted is a whole number >= 1"),
    ],
)
def test_wrong_use(words: str, line: str, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    arguments = words.replace("RUN", str(saved)).replace("NEW", str(tmp_path / "x.npz")).split()
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(line) and said.err.count("\n") == 1


def test_an_environment_that_raises_ends_the_run_which_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two episodes an update: the third update is not made, the first two are saved and can be used."""
    Breaking.played = 0
    words = "train --env gymnasium:tests.host.clock:Breaking-v0 --method reinforce --policy linear"
    words += " --batch 2 --updates 9 --quiet --evaluate 0 --out"
    capsys.readouterr()
    assert main([*words.split(), str(tmp_path / "run")]) == 1
    told = capsys.readouterr().err
    where = r"gymnasium:tests.host.clock:Breaking-v0, seed 0, copy 0, step 3 of episode 1 after reset\(seed=\d+\)"
    assert re.search(rf"failed: EpisodeError: {where}: ValueError: the spring broke; ", told)
    assert "first 2 of 9 updates are saved in" in told and told.count("\n") == 1
    result = pgsom.load(tmp_path / "run")
    assert result.updates == 2 and result.returns.tolist() == [[9.0, 9.0]]
