"""A run that is stopped anywhere, carried on, ends with the bits of one that never stopped."""

from pathlib import Path

import jax
import numpy as np
import pytest

import pgsom
from pgsom.environments import make
from pgsom.methods import METHODS, make_method
from pgsom.policies import make_policy
from pgsom.runs.checkpoint import Checkpoint, entries, read_checkpoint, write_checkpoint
from pgsom.runs.driver import CompiledEngine, Stand
from pgsom.runs.plan import Plan
from pgsom.schemes import SCHEMES
from tests.faults.moments import photographed
from tests.faults.small_run import (
    EVERY,
    STOP,
    UPDATES,
    begun,
    carried_on,
    difference,
    rows_difference,
    stopped,
    uninterrupted,
)


@pytest.fixture(scope="module", name="whole")
def _whole() -> pgsom.Result:
    return uninterrupted()


def test_stopping_and_carrying_on_changes_nothing(whole: pgsom.Result, tmp_path: Path) -> None:
    assert STOP <= stopped(tmp_path / "run").updates < UPDATES
    result = pgsom.resume(tmp_path / "run")
    assert difference(result, whole) == "" and rows_difference(tmp_path / "run", whole) == ""
    assert difference(pgsom.load(tmp_path / "run"), whole) == ""
    assert result.notes == ()


def test_a_run_that_has_ended_goes_further(whole: pgsom.Result, tmp_path: Path) -> None:
    first = begun(tmp_path / "run", updates=STOP)
    assert first.updates == STOP
    per_update = first.method.episodes_per_update
    assert difference(pgsom.resume(tmp_path / "run", episodes=UPDATES * per_update), whole) == ""
    assert pgsom.load(tmp_path / "run").settings.updates == UPDATES
    again = begun(tmp_path / "other", updates=STOP)
    assert difference(again, first) == ""
    assert difference(begun(tmp_path / "other", resume="auto"), whole) == ""


@pytest.mark.parametrize("method", METHODS)
def test_the_state_of_every_method_comes_back_from_a_checkpoint(method: str, tmp_path: Path) -> None:
    """Of every shape and type: nothing is run, arrays are random, so that none is like another by chance."""
    environment = make("three-state")
    plan = Plan(environment, make_policy("mlp", environment, hidden=(3,)), (make_method(method),), (0, 1), 0, 1)
    shapes = jax.eval_shape(CompiledEngine(plan).start)
    random = np.random.default_rng(0)

    def filled(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(7), leaf.shape)
        return jax.numpy.asarray(random.integers(0, 2**20, leaf.shape) / 3).astype(leaf.dtype)

    state = jax.tree.map(filled, shapes)
    carried = {"simulator": random.integers(0, 256, 9, dtype=np.uint8)}
    write_checkpoint(tmp_path, Checkpoint(Stand(state, 5, 1.5), carried, 2.5, 0.25, "settings"))
    (entry,) = entries(tmp_path)
    found = read_checkpoint(entry, jax.tree.map(lambda leaf: filled(jax.typeof(leaf)), state))
    assert (found.stand.updates, found.stand.seconds, found.score, found.settings) == (5, 1.5, 2.5, "settings")
    np.testing.assert_array_equal(found.carried["simulator"], carried["simulator"])
    assert jax.tree.structure(found.stand.state) == jax.tree.structure(state)
    for one, other in zip(jax.tree.leaves(found.stand.state), jax.tree.leaves(state), strict=True):
        assert one.dtype == other.dtype
        raw = [
            jax.random.key_data(x) if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in (one, other)
        ]
        assert np.asarray(raw[0]).tobytes() == np.asarray(raw[1]).tobytes()


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name in ("heun", "rk4")])
def test_schemes_carry_on_too(scheme: str, tmp_path: Path) -> None:
    """Every method with every scheme: ``make faults``."""
    options = {"scheme": scheme, "updates": 4, "batch": 2, "seeds": 1}
    whole = pgsom.train("two-armed-bandit", "adam", **options)
    run = tmp_path / "run"
    pgsom.train("two-armed-bandit", "adam", out=run, checkpoint_updates=2, callback=lambda p: True, **options)
    assert difference(pgsom.resume(run), whole) == ""


def test_whole_episodes_of_a_simulator_on_the_host_carry_on_to_the_same_bits(tmp_path: Path) -> None:
    options = {"environment": "gymnasium:CartPole-v1", "method": "reinforce", "updates": 4, "batch": 2, "hidden": (4,)}
    whole, run = pgsom.train(**options), tmp_path / "run"
    pgsom.train(**options, out=run, checkpoint_updates=1, callback=lambda p: p.updates >= 2)
    result = pgsom.resume(run)
    assert difference(result, whole) == "" and rows_difference(run, whole) == "" and result.notes == ()


def test_a_simulator_in_mid_episode_begins_anew_and_the_summary_says_so(tmp_path: Path) -> None:
    steps = {
        "environment": "gymnasium:CartPole-v1",
        "method": "a2c",
        "steps": 5,
        "batch": 2,
        "hidden": (4,),
        "seeds": 2,
    }
    run = tmp_path / "run"
    first = pgsom.train(**steps, updates=6, out=run, checkpoint_updates=1, callback=lambda p: p.updates >= 3)
    result = pgsom.resume(run)
    assert (result.env_steps == 10 * np.arange(1, 7)).all(), "each step counted once"
    ended = np.diff(np.asarray(result.metrics.episodes), axis=1)
    assert (ended >= 0).all() and (ended <= 10).all()
    made = first.updates
    assert all((new[:, :made] == old).all() for new, old in zip(result.metrics[-2:], first.metrics[-2:], strict=True))
    assert rows_difference(run, result) == ""
    (note, where) = result.notes
    assert "began new episodes" in note and where == f"taken up after update {made}"
    assert note in (run / "summary.md").read_text()


def test_a_run_that_is_killed_in_any_write_can_be_carried_on(whole: pgsom.Result, tmp_path: Path) -> None:
    """Some of the moments; ``make faults`` tries all."""
    run = tmp_path / "run"
    with photographed(run, tmp_path / "album") as moments:
        begun(run)
    assert len(moments) > 40
    for moment in moments[::9]:
        result = carried_on(moment)
        assert difference(result, whole) == "" and rows_difference(moment, whole) == "", moment.name


def test_a_run_that_is_killed_while_it_is_carried_on_can_be_carried_on(whole: pgsom.Result, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stopped(run)
    # Rows beyond the checkpoint that counts, which are to be cut off.
    newest = entries(run)[0]
    newest.path.write_bytes(b"")
    with photographed(run, tmp_path / "album") as moments:
        carried_on(run)
    assert entries(run)[-1].updates >= EVERY
    for moment in moments[1:12:2]:
        assert difference(carried_on(moment), whole) == "" and rows_difference(moment, whole) == "", moment.name
