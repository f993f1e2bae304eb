"""Learning curves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pgsom
from pgsom.report.figures import (
    AGAINST,
    COLOURS,
    _on_one_grid,
    _running_mean,
    colours,
    column_figure,
    learning_curve,
    legend_above,
    save_learning_curve,
)
from tests.cli.conftest import Trained


@pytest.fixture(scope="module")
def result(trained: Trained) -> pgsom.Result:
    return pgsom.load(trained.folder)


@pytest.mark.parametrize("against", AGAINST)
def test_mean_and_band_are_those_of_the_seeds(result: pgsom.Result, against: str) -> None:
    axes = column_figure().add_subplot()
    learning_curve([result], axes, against=against)
    (mean,) = (line for line in axes.lines if line.get_label() == "reinforce")
    assert np.allclose(mean.get_ydata(), result.returns.mean(axis=0))
    assert mean.get_color() == COLOURS["reinforce"]
    assert len(axes.collections) == 1
    assert axes.get_xlabel() == AGAINST[against]
    last = {"env_steps": 480, "episodes": 120, "updates": 30}[against]
    assert mean.get_xdata()[-1] == last


def test_both_files_are_made_and_the_same_again(result: pgsom.Result, tmp_path: Path) -> None:
    first = [path.read_bytes() for path in save_learning_curve([result], tmp_path / "a.b")]
    assert {path.name for path in tmp_path.iterdir()} == {"a.b.png", "a.b.pdf"}
    assert [path.read_bytes() for path in save_learning_curve([result], tmp_path / "a.b")] == first


def test_seeds_with_different_steps_meet_on_one_grid(result: pgsom.Result) -> None:
    steps = np.stack([np.arange(1, 31) * 10, np.arange(1, 31) * 20])
    returns = steps.astype(np.float32)
    metrics = result.metrics._replace(env_steps=steps, episode_return=returns)
    x, curves = _on_one_grid(replace(result, metrics=metrics), 1, "env_steps")
    assert x[0] == 20 and x[-1] == 300
    assert np.allclose(curves, x)


def test_running_mean() -> None:
    assert np.allclose(_running_mean(np.array([1.0, 3.0, 5.0, 7.0]), 2), [1, 2, 4, 6])
    assert np.allclose(_running_mean(np.array([1.0, 3.0]), 1), [1, 3])


def test_colours_are_the_methods_own_and_differ(result: pgsom.Result) -> None:
    names = ["reinforce", "reinforce, clipped", "pg-som"]
    chosen = colours([result] * 3, names)
    assert chosen[0] == COLOURS["reinforce"] and chosen[2] == COLOURS["pg-som"]
    assert len(set(chosen)) == 3


def test_the_legend_names_each_method_once(result: pgsom.Result) -> None:
    figure = column_figure()
    for axes in figure.subplots(1, 2):
        learning_curve([result], axes)
    legend_above(figure, "a caption")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["reinforce"]


@pytest.mark.usefixtures("unchecked")
def test_wrong_arguments(result: pgsom.Result) -> None:
    axes = column_figure().add_subplot()
    with pytest.raises(pgsom.InputError, match=r"against='steps': accepted are env_steps, .* mean 'env_steps'"):
        learning_curve([result], axes, against="steps")
    with pytest.raises(pgsom.InputError, match=r"labels=\['a', 'b'\]: accepted is one for each of 1 results"):
        learning_curve([result], axes, labels=["a", "b"])
