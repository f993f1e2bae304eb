"""What every registered estimator, baseline, scheme and method promises."""

import dataclasses
import inspect
import math
import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import pgsom.collectors
import pgsom.training
from pgsom.baselines import BASELINES, LEARNED, make_baseline
from pgsom.checks import InputError
from pgsom.curvature import ESTIMATORS, Estimator, dense, diagonal, make_estimator
from pgsom.environments import chain, random_mdp
from pgsom.methods import METHODS, Common, Method, make_method, method_options
from pgsom.objective import LocalObjective, observe
from pgsom.policies import MLP, Policy, policy_from_functions, tabular_softmax
from pgsom.rollout import collect
from pgsom.schemes import SCHEMES, STAGE_DATA
from pgsom.training import TrainState, init, seed_keys, step
from pgsom.updates import Info, UpdateRule, roams
from pgsom.updates.update_rule import all_finite, batches_of, points_of, update_from
from tests.exact.oracle import (
    flat,
    in_groups,
    objective_of,
    quick_jit,
    random_params,
    tabular,
    truth,
)

MDPS = 100
SHAPE = (3, 864)
LAYERS_ONLY = {"hesscale"}
"""Estimators that only an MLP can give."""
float64 = pytest.mark.usefixtures("float64")


# --- estimators --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", name="found")
def _found() -> list[tuple[dict[str, Any], np.ndarray]]:
    """Dense matrix, and diagonal where it is not random, of every estimator on 100 random MDPs; and ∇²J."""
    made = {name: make_estimator(name) for name in ESTIMATORS}

    @quick_jit
    def of_one(objective: LocalObjective) -> dict[str, Any]:
        return {n: (dense(e, objective), ravel_pytree(diagonal(e, objective))[0]) for n, e in made.items()}

    results = []
    with jax.enable_x64(True):
        for seed in range(MDPS):
            generator = np.random.default_rng(seed)
            states, ends = 2 + seed % 3, seed % 2
            horizon = {2: 3, 3: 3, 4: 2}[states]
            mdp = random_mdp(generator, states, 2, horizon, generator.uniform(0.3, 1), ends)
            params = random_params(tabular(), seed)
            objective = objective_of(mdp, tabular(), params, SHAPE)
            matrices = jax.tree.map(np.asarray, of_one(objective))
            results.append((matrices, truth(mdp, tabular(), params).hessian))
    return results


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_is_unbiased_exactly_if_it_says_so(name: str, found: Any) -> None:
    """A biased one is off by more than rounding on every MDP, and on most by more than a little."""
    distance = [np.abs(matrices[name][0] - hessian).max() for matrices, hessian in found]
    if make_estimator(name).biased:
        assert min(distance) > 1e-8 and np.median(distance) > 1e-3
    else:
        assert max(distance) < 1e-10


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_is_never_negative_exactly_if_it_says_so(name: str, found: Any) -> None:
    lowest = [np.linalg.eigvalsh((m[name][0] + m[name][0].T) / 2)[0] for m, _ in found]
    entries = [m[name][1].min() for m, _ in found]
    if make_estimator(name).positive_semi_definite:
        assert min(lowest) > -1e-12 and min(entries) >= 0
    else:
        assert min(lowest) < -1e-3


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimators_matrix_is_symmetric_and_has_its_diagonal(name: str, found: Any) -> None:
    """The diagonal by random probes has it in expectation only, which tests/exact/test_hutchinson.py shows."""
    for matrices, _ in found:
        matrix, entries = matrices[name]
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
        if name != "hutchinson":
            np.testing.assert_allclose(entries, np.diag(matrix), atol=1e-12)


@pytest.mark.usefixtures("unchecked")
def test_estimators_compiled_side_by_side_and_one_by_one_agree() -> None:
    """Every diagonal, of three objectives batched, and of one without a program of its own."""
    made = {name: make_estimator(name) for name in ESTIMATORS}
    params = random_params(POLICY)
    keys = jax.random.split(jax.random.key(0), 3)
    weighting = make_method("reinforce").weighting

    def of_one(key: jax.Array) -> dict[str, Any]:
        rollout = collect(ENVIRONMENT, POLICY, params, key, 4)
        objective = observe(weighting, (), POLICY, params, rollout, key)
        return {name: diagonal(estimator, objective) for name, estimator in made.items()}

    together = quick_jit(jax.vmap(of_one))(keys)
    alone = quick_jit(of_one)
    with jax.disable_jit():
        plain = of_one(keys[0])
    for index, key in enumerate(keys):
        by_itself = alone(key)
        for name in made:
            batched = flat(jax.tree.map(lambda leaf, i=index: leaf[i], together[name]))
            np.testing.assert_allclose(batched, flat(by_itself[name]), rtol=1e-4, atol=1e-6, err_msg=name)
            assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(by_itself[name])), name
    for name in made:
        np.testing.assert_allclose(flat(plain[name]), flat(alone(keys[0])[name]), rtol=1e-4, atol=1e-6, err_msg=name)
    assert alone._cache_size() == 1


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_describes_itself(name: str) -> None:
    estimator = make_estimator(name)
    assert isinstance(estimator, Estimator) and estimator.name == name and estimator.estimates
    assert hash(estimator) == hash(make_estimator(name)) and estimator == make_estimator(name)
    assert make_estimator(estimator) is estimator
    if ESTIMATORS[name].takes_probes:
        assert make_estimator(name, 3).probes == 3


# --- baselines ---------------------------------------------------------------------------------------------------


@float64
@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_keeps_gradient_and_hessian_unbiased_exactly_if_it_says_so(name: str) -> None:
    """Over all pairs of episodes of the shortest chain, with a state from earlier updates."""
    mdp, policy = chain(length=1, horizon=2), tabular()
    params, baseline = random_params(policy), make_baseline(name, value=-1.3, decay=0.5, episodes=2)
    state = baseline.update(baseline.init(), jnp.asarray([[-2.0, -1.0], [-1.0, 0.0]]))
    exact = truth(mdp, policy, params)
    found = in_groups(mdp, policy, params, 2, state, baseline=baseline)
    for key, expected in (("gradient", exact.gradient), ("causal", exact.hessian), ("lemma", exact.hessian)):
        distance = np.abs(found[key] - expected).max()
        assert distance < 1e-10 if baseline.unbiased else distance > 1e-3


def test_the_moving_average_is_corrected_for_its_start_at_zero() -> None:
    """Batches with mean G₀ 10, then 20: b is 0, then 10, then (½·10 + 20) / (½ + 1) by a decay of ½."""
    baseline = make_baseline("moving-average", value=0.0, decay=0.5, episodes=2)
    state, seen = baseline.init(), []
    for returns in ([[8.0, 12.0], [1.0, 2.0]], [[15.0, 25.0], [7.0, 7.0]], None):
        seen.append(float(baseline.values(state, jnp.zeros((2, 2)), jnp.ones((2, 2)))[0, 0]))
        state = state if returns is None else baseline.update(state, jnp.asarray(returns))
    np.testing.assert_allclose(seen, [0.0, 10.0, 25 / 1.5])


def test_baselines_across_episodes_by_hand() -> None:
    """Three episodes of lengths 2, 2, 1 with returns-to-go (4, 2), (6, 1), (5)."""
    returns, mask = jnp.asarray([[4.0, 6.0, 5.0], [2.0, 1.0, 0.0]]), jnp.asarray([[1.0, 1, 1], [1, 1, 0]])
    others = make_baseline("leave-one-out", value=0.0, decay=0.0, episodes=3).values((), returns, mask)
    np.testing.assert_allclose(others * mask, [[5.5, 4.5, 5.0], [1.0, 2.0, 0.0]])
    everyone = make_baseline("time-step", value=0.0, decay=0.0, episodes=3).values((), returns, mask)
    np.testing.assert_allclose(everyone * mask, [[5.0, 5.0, 5.0], [1.5, 1.5, 0.0]])
    alone = make_baseline("leave-one-out", value=0.0, decay=0.0, episodes=2).values(
        (), jnp.asarray([[3.0, 4.0], [2.0, 0.0]]), jnp.asarray([[1.0, 1], [1, 0]])
    )
    np.testing.assert_allclose(alone, [[4.0, 3.0], [0.0, 2.0]], err_msg="alone at step 1: nobody to compare with")


# --- methods -----------------------------------------------------------------------------------------------------

ENVIRONMENT = chain(length=2, horizon=3)
POLICY = Policy(tabular_softmax(3, 2))


ONE_OF_EACH_RULE = {
    (type(method.rule), getattr(method.rule, "make", None), method.scheme): method.name
    for method in map(make_method, reversed(METHODS))
}.values()
"""The first method with each kind of rule and scheme: for tests that would compile the others' programs over again."""
QUICK = ("reinforce", "runge-kutta-pg", "pg-som", "kfac", "sharp", "storm-pg", "a2c")
EACH_RULE_SOON_OR_LATER = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ONE_OF_EACH_RULE
]
"""All of them in `make learn`, a few of every family always: many programs to compile for each."""


def with_numbers(method: Method) -> Method:
    """Numbers as arrays, as training has them."""
    return jax.tree.map(jnp.asarray, method)


@pytest.mark.parametrize(
    ("name", "baseline"),
    [
        *((name, method_options(name)["baseline"]) for name in METHODS),
        *(("pg-som", b) for b in (*BASELINES, *LEARNED) if b != Common().baseline),
    ],
)
def test_an_update_keeps_every_shape_and_type_of_the_state(name: str, baseline: str) -> None:
    method = with_numbers(make_method(name, baseline=baseline))
    state = jax.eval_shape(partial(init, ENVIRONMENT, POLICY, method), jax.random.key(0))
    new, _ = jax.eval_shape(partial(step, ENVIRONMENT, POLICY), method, state)
    assert jax.tree.structure(new) == jax.tree.structure(state)
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(new), strict=True):
        assert (before.shape, before.dtype) == (after.shape, after.dtype)


@pytest.mark.parametrize("curvature", ESTIMATORS)
def test_parameters_may_be_any_pytree(curvature: str) -> None:
    """A dict with a vector, a matrix and a scalar: the same structure comes back, or the need for layers is said."""

    def apply(params: dict[str, Any], state: jax.Array) -> jax.Array:
        logits = params["table"][state] + params["deep"][0]
        return jnp.stack([logits[0] * params["deep"][1], logits[1]])

    def start(key: jax.Array) -> dict[str, Any]:
        return {"table": jnp.zeros((3, 2)), "deep": (jax.random.normal(key, (2,)), jnp.asarray(0.5))}

    policy = policy_from_functions(start, apply)
    method = with_numbers(make_method("pg-som", curvature=curvature))
    state = jax.eval_shape(partial(init, ENVIRONMENT, policy, method), jax.random.key(0))
    if curvature in LAYERS_ONLY:
        with pytest.raises(InputError, match="HesScale needs the layers; accepted are mlp, linear, tabular"):
            jax.eval_shape(partial(step, ENVIRONMENT, policy), method, state)
        return
    new, _ = jax.eval_shape(partial(step, ENVIRONMENT, policy), method, state)
    assert jax.tree.structure(new.params) == jax.tree.structure(state.params)
    assert jax.tree.leaves(new.params) == jax.tree.leaves(state.params)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Compiled:
    """A rule whose update is compiled once for all schemes it is used in."""

    rule: UpdateRule

    def init(self, params: Any) -> Any:
        return self.rule.init(params)

    @property
    def batches(self) -> int:
        return batches_of(self.rule)

    def points(self, state: Any, params: Any, key: jax.Array) -> tuple[Any, ...]:
        return points_of(self.rule, state, params, key)

    def update(
        self, objective: LocalObjective, state: Any, params: Any, *others: LocalObjective
    ) -> tuple[Any, Any, Info]:
        return _update(self.rule, (objective, *others), state, params)


_update = quick_jit(update_from)


_collect = quick_jit(collect, static_argnums=(0, 1, 4))
_observe = quick_jit(observe, static_argnums=2)
_plain_at, _quick_at = LocalObjective.at, quick_jit(LocalObjective.at)


def _at(objective: LocalObjective, params: Any) -> LocalObjective:
    """Compiled on its own, unless a rule that is being compiled asks."""
    inside = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((objective, params)))
    return (_plain_at if inside else _quick_at)(objective, params)


@pytest.fixture(name="parts_compiled")
def _parts_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """`step` itself is run by Python, its expensive parts each compiled once."""
    monkeypatch.setattr(pgsom.collectors, "collect", _collect)
    monkeypatch.setattr(pgsom.training, "observe", _observe)
    monkeypatch.setattr(LocalObjective, "at", _at)


@pytest.mark.usefixtures("parts_compiled", "unchecked")
@pytest.mark.parametrize("name", EACH_RULE_SOON_OR_LATER)
def test_any_rule_runs_under_any_scheme_with_either_stage_data(name: str) -> None:
    """Two updates each: everything finite, parameters moved, all stages counted."""
    for scheme in SCHEMES:
        for stage_data in STAGE_DATA:
            # Four episodes of this chain often have equal returns, and then there is nothing to move for.
            options = Common(scheme=scheme, stage_data=stage_data, alpha=0.3, batch=16)
            if stage_data == "reweighted" and roams(METHODS[name]().rule):
                with pytest.raises(InputError, match="plays episodes where it chooses"):
                    METHODS[name](common=options)
                continue
            method = METHODS[name](common=options)
            method = with_numbers(dataclasses.replace(method, rule=Compiled(method.rule)))
            state = init(ENVIRONMENT, POLICY, method, jax.random.key(0))
            for _ in range(2):
                state, metrics = step(ENVIRONMENT, POLICY, method, state)
            said = f"{name}, {scheme}, {stage_data}"
            for leaf in jax.tree.leaves((state._replace(key=0), metrics)):
                assert np.all(np.isfinite(leaf)), said
            assert np.linalg.norm(flat(state.params)) > 0 and int(state.skipped) == 0, said
            stages = method.scheme.stages if stage_data == "fresh" else 1
            assert int(state.episodes) == 2 * 16 * stages * batches_of(method.rule), said
    assert_promises(with_numbers(make_method(name)).rule, name)


def assert_promises(rule: UpdateRule, name: str) -> None:
    """Of one update from a fresh state: jit or not, the same; no advantage, no step; NaN is seen; all one program."""
    key, params = jax.random.key(0), random_params(POLICY)
    rollout = _collect(ENVIRONMENT, POLICY, params, key, 16)
    objective = _observe(with_numbers(make_method("reinforce")).weighting, (), POLICY, params, rollout, key)

    def update_with(weights: Any, update: Any = _update) -> tuple[Any, Any, Info]:
        changed = dataclasses.replace(objective, weight=objective.weight * weights)
        return update(rule, (changed,) * batches_of(rule), rule.init(params), params)

    compiled = update_with(1.0)
    programs = _update._cache_size()
    with jax.disable_jit():
        plain = update_with(1.0, update_from)
    for found, expected in zip(jax.tree.leaves(compiled), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6, err_msg=name)
    assert not np.any(flat(update_with(0.0)[0])), f"{name} moves without an advantage"
    assert not all_finite(update_with(jnp.nan)), f"{name} hides a NaN"
    assert np.any(flat(compiled[0])) and _update._cache_size() == programs


@pytest.mark.parametrize("name", EACH_RULE_SOON_OR_LATER)
def test_seeds_and_numbers_side_by_side_are_each_by_itself(name: str) -> None:
    """Three seeds, each with other numbers, over two updates in float32; up to rounding, for a batched product may sum
    in another order. And no further program is compiled for other numbers, or to go on from a new state.
    """
    method = with_numbers(make_method(name))
    factors = jnp.asarray([1.0, 0.95, 0.9])
    methods = jax.tree.map(lambda number: (number * factors).astype(number.dtype), method)

    def two_updates(method: Method, state: TrainState) -> TrainState:
        return jax.lax.fori_loop(0, 2, lambda i, s: step(ENVIRONMENT, POLICY, method, s)[0], state)

    states = jax.vmap(partial(init, ENVIRONMENT, POLICY, method))(seed_keys(0, 3))
    together = quick_jit(jax.vmap(two_updates))(methods, states)
    alone = quick_jit(two_updates)
    for index in range(3):
        one = alone(*jax.tree.map(lambda leaf, i=index: leaf[i], (methods, states)))
        for found, expected in zip(jax.tree.leaves(together), jax.tree.leaves(one), strict=True):
            if jnp.issubdtype(found.dtype, jax.dtypes.prng_key):
                found, expected = jax.random.key_data(found), jax.random.key_data(expected)
            np.testing.assert_allclose(found[index], expected, rtol=1e-4, atol=1e-6)
    alone(jax.tree.map(lambda leaf: leaf[0], methods), one)
    assert alone._cache_size() == 1


def numbers_of(name: str) -> list[str]:
    """The method's own options that take a number."""
    own = inspect.signature(METHODS[name]).parameters
    return [option for option, p in own.items() if option != "common" and type(p.default) in (int, float)]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", METHODS)
def test_a_wrong_argument_is_named(name: str) -> None:
    """A word, no number and a number far out of range in place of each of the method's own numbers."""
    for option in numbers_of(name):
        for value in ("much", math.nan, -1e9):
            with pytest.raises(InputError, match=rf"^{option}={re.escape(repr(value))}: accepted is a"):
                make_method(name, **{option: value})


@pytest.mark.parametrize("name", METHODS)
def test_the_state_grows_with_the_parameters_and_no_faster_unless_its_page_says_so(name: str) -> None:
    """Of a hidden layer of 8 and of 64 units: at most four numbers a parameter, or a matrix for each axis."""

    def size(tree: Any) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(tree))

    rule = make_method(name).rule
    for width in (8, 64):
        params = jax.eval_shape(Policy(MLP(4, 2, (width,))).init, jax.random.key(0))
        parameters, state = size(params), size(jax.eval_shape(rule.init, params))
        axes = sum(n**2 for leaf in jax.tree.leaves(params) for n in (*leaf.shape, 5, 2))
        assert state <= {"ggt": 11 * parameters}.get(name, 4 * parameters + 2 * axes * (name in MATRICES)) + 10


MATRICES = {"kfac", "shampoo", "soap"}
"""Methods with a matrix for every axis of a layer."""


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_every_stabiliser(name: str) -> None:
    made = make_method(
        name, steps=0, clip_norm=1.0, clip_elements=0.5, entropy=0.01, baseline="constant", baseline_value=2.0
    )
    assert (made.clipping.norm, made.clipping.elements, made.weighting.entropy) == (1.0, 0.5, 0.01)
    assert made.weighting.baseline.value == 2.0 and made.name == name
    assert METHODS[name].__doc__ and "θ ← θ + η" in METHODS[name].__doc__
    assert math.isinf(make_method(name).clipping.norm)
