"""What every registered environment promises to the rest of the library."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgsom.checks import InputError
from pgsom.environments import (
    Box,
    Discrete,
    Environment,
    FiniteMDP,
    Flattened,
    GymnaxEnvironment,
    MultiBinary,
    MultiDiscrete,
    Step,
    available,
    chain,
    double_integrator,
    flattened,
    make,
    names,
    random_mdp,
    register,
    registry,
)
from pgsom.environments.gymnax_catalogue import GYMNAX

OTHERS = {
    "CartPole-v1 with a heavy pole": lambda: make("CartPole-v1", masspole=0.5, max_steps_in_episode=50),
    "Acrobot-v1 with noise": lambda: make("Acrobot-v1", torque_noise_max=0.5, max_steps_in_episode=50),
    "infinite control": lambda: double_integrator(horizon=None, discount=0.5),
    "infinite horizon": lambda: random_mdp(np.random.default_rng(0), 3, 2, None, 0.5, terminal_states=1),
}
BUILDERS = {name: (lambda name=name: make(name)) for name in names()} | OTHERS
# One of each family of gymnax stands for the others; the rest are slow to compile and get one test of their own.
SAMPLE = ("Pendulum-v1", "MountainCarContinuous-v0", "FrozenLake-misc", "Catch-bsuite", "PointRobot-misc")
QUICK = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", *SAMPLE)


def marked(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow) if name in GYMNAX and name not in QUICK else name


@pytest.fixture(params=[marked(name) for name in BUILDERS], name="build")
def _build(request: pytest.FixtureRequest) -> Any:
    return BUILDERS[request.param]


@pytest.fixture(name="environment")
def _environment(build: Any) -> Environment:
    return build()


def random_action(key: jax.Array, spec: Any) -> jax.Array:
    if isinstance(spec, Discrete):
        return jax.random.randint(key, (), 0, spec.n, jnp.int32)
    low, high = jnp.maximum(jnp.asarray(spec.low, float), -1.0), jnp.minimum(jnp.asarray(spec.high, float), 1.0)
    return jax.random.uniform(key, spec.shape, float, low, high)


def some_action(spec: Any) -> jax.Array:
    return jnp.int32(1) if isinstance(spec, Discrete) else jnp.full(spec.shape, 0.5)


def roll(environment: Environment, key: jax.Array, length: int) -> Step:
    """`length` steps of random actions, on and on behind the end of the episode."""
    first, rest = jax.random.split(key)
    state, _ = environment.reset(first)

    def advance(state: Any, key: jax.Array) -> tuple[Any, Step]:
        choose, move = jax.random.split(key)
        step = environment.step(move, state, random_action(choose, environment.action))
        return step.state, step

    return jax.lax.scan(advance, state, jax.random.split(rest, length))[1]


def signature(tree: Any) -> Any:
    """Structure, shapes, dtypes and weak types."""
    leaves, structure = jax.tree.flatten(jax.tree.map(jax.typeof, tree))
    return structure, [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in leaves]


def test_it_is_an_environment_with_specs(environment: Environment) -> None:
    assert isinstance(environment, Environment)
    assert isinstance(environment.observation, Box | Discrete)
    assert isinstance(environment.action, Box | Discrete)
    assert environment.horizon >= 1 and environment.name


@pytest.mark.parametrize("double", [False, True], ids=["float32", "float64"])
def test_shapes_and_dtypes_are_those_of_the_specs_and_never_change(build: Any, double: bool) -> None:
    with jax.enable_x64(double):
        check_shapes_and_dtypes(build())


def check_shapes_and_dtypes(environment: Environment) -> None:
    state, observation = environment.reset(jax.random.key(0))
    step = environment.step(jax.random.key(1), state, some_action(environment.action))
    assert signature(step.state) == signature(state)
    assert signature(step.observation) == signature(observation)
    assert observation.shape == environment.observation.shape
    assert observation.dtype == jnp.zeros((), environment.observation.dtype).dtype
    assert step.reward.dtype == jnp.zeros((), float).dtype and step.reward.shape == ()
    assert step.terminated.dtype == step.truncated.dtype == bool
    assert step.terminated.shape == step.truncated.shape == ()
    assert all(not leaf.weak_type for leaf in map(jax.typeof, jax.tree.leaves(step)))


def test_observations_lie_within_the_spec_until_the_episode_ends(environment: Environment) -> None:
    steps = jax.vmap(lambda key: roll(environment, key, 60))(jax.random.split(jax.random.key(0), 20))
    running = np.cumsum(steps.terminated | steps.truncated, axis=1) == 0
    seen = np.asarray(steps.observation)[running]
    check_bounds(environment.observation, seen)


def check_bounds(spec: Any, seen: np.ndarray) -> None:
    if isinstance(spec, Discrete):
        assert np.all((seen >= 0) & (seen < spec.n))
    else:
        assert np.all((seen >= np.asarray(spec.low) - 1e-6) & (seen <= np.asarray(spec.high) + 1e-6))


HEAVY = ("Asterix-MinAtar", "Freeway-MinAtar", "Seaquest-MinAtar", "SpaceInvaders-MinAtar")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in HEAVY else n for n in GYMNAX if n not in QUICK],
)
def test_the_others_in_one_rollout(name: str) -> None:
    """Shapes, dtypes, bounds and the time limit, in one compiled program each."""
    environment = make(name)
    state, observation = jax.eval_shape(environment.reset, jax.random.key(0))
    steps = jax.jit(lambda key: roll(environment, key, environment.horizon + 1))(jax.random.key(0))
    assert jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), steps.state) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), state
    )
    assert isinstance(environment.observation, Box) and environment.observation.shape == observation.shape
    assert len(observation.shape) == 1 and steps.observation.dtype == observation.dtype
    assert observation.dtype == jnp.zeros((), environment.observation.dtype).dtype
    assert np.array_equal(steps.truncated, np.arange(1, environment.horizon + 2) >= environment.horizon)
    running = np.cumsum(np.asarray(steps.terminated | steps.truncated)) == 0
    check_bounds(environment.observation, np.asarray(steps.observation)[running])
    assert np.all(np.isfinite(steps.reward)) and steps.reward.shape == (environment.horizon + 1,)


def test_truncation_falls_exactly_on_the_horizon(environment: Environment) -> None:
    """Also when the episode has terminated before, or terminates then: the clock is all that counts."""
    steps = jax.jit(lambda key: roll(environment, key, environment.horizon + 2))(jax.random.key(0))
    expected = np.arange(1, environment.horizon + 3) >= environment.horizon
    assert np.array_equal(steps.truncated, expected)


def test_jit_and_vmap_change_nothing(environment: Environment) -> None:

    def first_step(key: jax.Array) -> Step:
        return environment.step(key, environment.reset(key)[0], some_action(environment.action))

    keys = jax.random.split(jax.random.key(3), 3)
    together = jax.jit(jax.vmap(first_step))(keys)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(first_step, keys))
    for one, other in zip(jax.tree.leaves(together), jax.tree.leaves(stacked), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_equal_environments_compile_once(build: Any) -> None:
    first, second = build(), build()
    assert first == second and hash(first) == hash(second)
    traces = []

    @jax.jit(static_argnums=0)
    def begin(environment: Environment, key: jax.Array) -> Any:
        traces.append(environment.name)
        return environment.reset(key)

    begin(first, jax.random.key(0))
    begin(second, jax.random.key(1))
    assert len(traces) == 1


def test_different_environments_differ() -> None:
    built = [build() for build in BUILDERS.values()]
    assert len(set(built)) == len(built)
    assert chain(slip=0.1) != chain(slip=0.2) and chain(horizon=5) != chain(horizon=6)


def test_first_use_may_stand_inside_a_compiled_function() -> None:
    """Specs computed while tracing must be numbers, and stay usable after the trace."""

    @jax.jit
    def inside(key: jax.Array) -> jax.Array:
        environment = make("Acrobot-v1", link_length_1=1.25, available_torque=(-2.0, 0.0, 2.0))
        assert environment.horizon == 500
        return roll(environment, key, 3).observation

    assert inside(jax.random.key(0)).shape == (3, 6)
    outside = make("Acrobot-v1", link_length_1=1.25, available_torque=(-2.0, 0.0, 2.0))
    assert roll(outside, jax.random.key(0), 3).observation.shape == (3, 6)


def test_the_two_flags_are_told_apart() -> None:
    """On one corridor: the end before the limit, at the limit, and the limit before the end."""
    corridor = chain(length=2, horizon=2, slip=0.0)
    early, both, late = chain(length=1, horizon=2, slip=0.0), corridor, chain(length=3, horizon=2, slip=0.0)
    flags = []
    for environment in (early, both, late):
        state, _ = environment.reset(jax.random.key(0))
        steps = []
        for _ in range(2):
            step = environment.step(jax.random.key(0), state, jnp.int32(1))
            state = step.state
            steps.append((bool(step.terminated), bool(step.truncated)))
        flags.append(steps)
    assert flags[0] == [(True, False), (True, True)]
    assert flags[1] == [(False, False), (True, True)]
    assert flags[2] == [(False, False), (False, True)]


def test_nothing_is_reset_behind_the_end() -> None:
    """A fallen pole stays down: the observation at the end is the one that ended the episode."""
    environment = make("CartPole-v1")
    steps = roll(environment, jax.random.key(0), 200)
    assert bool(steps.terminated[-1]) and not bool(steps.terminated[0])
    first = int(np.argmax(steps.terminated))
    assert abs(float(steps.observation[first, 2])) > 12 * 2 * np.pi / 360
    assert np.array_equal(steps.state.time, np.arange(1, 201))


def test_horizon_follows_the_parameter() -> None:
    assert [make(name).horizon for name in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")] == [500, 500, 200]
    assert make("CartPole-v1", max_steps_in_episode=7).horizon == 7


def test_parameters_at_their_defaults_are_no_difference() -> None:
    assert make("CartPole-v1", masspole=0.1, max_steps_in_episode=500) == make("CartPole-v1")
    pairs = (("masspole", 0.25), ("gravity", 10))
    made = make("CartPole-v1", gravity=10.0, masspole=np.float32(0.25))
    assert GymnaxEnvironment("CartPole-v1", pairs) == made


@pytest.mark.parametrize("changes", [{"masscart": 2.0}, {"masspole": 0.3}, {"length": 0.8}])
def test_derived_constants_follow_the_masses(changes: dict[str, float]) -> None:
    """One Euler step of the equations of Barto, Sutton and Anderson, written out with the masses."""
    environment = make("CartPole-v1", **changes)
    state, _ = environment.reset(jax.random.key(0))
    start = {"x": 0.0, "x_dot": 0.0, "theta": 0.1, "theta_dot": 2.0}
    state = state.replace(**{name: jnp.asarray(value, float) for name, value in start.items()})
    step = environment.step(jax.random.key(0), state, jnp.int32(1))
    cart, pole, half = ({"masscart": 1.0, "masspole": 0.1, "length": 0.5} | changes).values()
    sine, cosine = np.sin(0.1), np.cos(0.1)
    push = (10 + pole * half * 2**2 * sine) / (cart + pole)
    angular = (9.8 * sine - cosine * push) / (half * (4 / 3 - pole * cosine**2 / (cart + pole)))
    linear = push - pole * half * angular * cosine / (cart + pole)
    expected = [0, 0.02 * linear, 0.1 + 0.02 * 2, 2 + 0.02 * angular]
    np.testing.assert_allclose(step.observation, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("wrong_call", "message"),
    [
        (lambda: make("CartPole"), "; did you mean 'CartPole-v1'?"),
        (lambda: make("brx:ant"), "accepted before the colon are "),
        (lambda: make("brx:ant"), "; did you mean 'brax'?"),
        (lambda: make("brax:"), "environment='brax:': the name after brax: is missing"),
        (lambda: make("cartpole-v1"), "; did you mean 'CartPole-v1'?"),
        (lambda: make("three_state"), "; did you mean 'three-state'?"),
        (lambda: make("CartPole-v1", mass_pole=1.0), "parameter='mass_pole': unknown; accepted are "),
        (lambda: make("CartPole-v1", mass_pole=1.0), "; did you mean 'masspole'?"),
        (lambda: make("CartPole-v1", total_mass=2.0), "parameter='total_mass': unknown; accepted are "),
        (lambda: make("CartPole-v1", masspole="x"), "masspole='x': accepted is a finite number"),
        (lambda: make("CartPole-v1", masspole=float("nan")), "masspole=nan: accepted is a finite number"),
        (
            lambda: make("CartPole-v1", max_steps_in_episode=0),
            "max_steps_in_episode=0: accepted is a whole number >= 1",
        ),
        (lambda: make("Acrobot-v1", available_torque=1.0), "available_torque=1.0: accepted are 3 numbers"),
        (lambda: make("chain", size=3), "option='size': unknown; accepted are length, horizon, slip, "),
        (lambda: make("three-state", size=3), "options=('size',): this environment has none"),
        (lambda: make(chain(), length=3), "options=('length',): accepted only together with the name"),
        (lambda: make(3), "environment=3: accepted is a registered name or an object with name, "),
        (lambda: GymnaxEnvironment("Cartpole-v1"), "did you mean 'CartPole-v1'?"),
        (lambda: register("chain", chain, ""), "name='chain': already registered; pass replace=True"),
        (lambda: register("", chain, ""), "name='': accepted is a non-empty string"),
        (lambda: register("new", 3, ""), "factory=3: accepted is a function that returns an environment"),
        (lambda: Box((2,), (0.0,), 1.0), "low=(0.0,): accepted is one number or a tuple of 2"),
        (lambda: Discrete(0), "n=0: accepted is a whole number >= 1"),
        (lambda: MultiDiscrete(()), "n=(): accepted is at least one number of choices"),
        (lambda: MultiDiscrete((3, 0)), "n=0: accepted is a whole number >= 1"),
        (lambda: MultiBinary(0), "n=0: accepted is a whole number >= 1"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_calls_are_answered(wrong_call: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        wrong_call()
    assert message in str(error.value)


@dataclass
class Unhashable:
    observation: Discrete
    action: Discrete
    name: str = "mine"
    horizon: int = 1

    def reset(self, key: Any) -> Any: ...

    def step(self, key: Any, state: Any, action: Any) -> Any: ...


def test_an_environment_must_be_hashable() -> None:
    with pytest.raises(InputError, match="must be hashable, such as a frozen dataclass"):
        make(Unhashable(Discrete(1), Discrete(1)))


def test_own_environments_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    register("mine", lambda length=2: chain(length), "a corridor of my own")
    assert make("mine") == chain(2) and make("mine", length=4) == chain(4)
    assert ("mine", "a corridor of my own") in available() and "mine" in names()
    register("mine", lambda: chain(5), "longer", replace=True)
    assert make("mine") == chain(5)


def test_an_environment_is_passed_through() -> None:
    mdp = chain()
    assert make(mdp) is mdp and isinstance(mdp, FiniteMDP)


def test_listing_imports_nothing_heavy() -> None:
    program = (
        "import sys, pgsom.environments as e; assert len(e.available()) >= 7; e.names();"
        "assert not {'jax', 'numpy', 'gymnax'} & set(sys.modules);"
        "e.make('chain'); assert 'gymnax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@dataclass(frozen=True)
class Showing:
    """Shows one thing of any spec."""

    observation: Any
    shown: tuple[Any, ...]
    name: str = "showing"
    horizon: int = 3

    @property
    def action(self) -> Discrete:
        return Discrete(2)

    def reset(self, key: Any) -> Any:
        return jnp.zeros((), jnp.int32), jnp.asarray(self.shown, self.observation.dtype).reshape(self.observation.shape)

    def step(self, key: Any, state: Any, action: Any) -> Step:
        seen = self.reset(key)[1]
        return Step(state + 1, seen, jnp.zeros(()), jnp.asarray(False), state + 1 >= self.horizon)


@pytest.mark.parametrize(
    ("spec", "shown", "vector", "low", "high"),
    [
        (Box((2, 2), (0.0, 1.0, 2.0, 3.0), 9.0), (4.0, 5.0, 6.0, 7.0), (4, 5, 6, 7), (0.0, 1.0, 2.0, 3.0), 9.0),
        (Discrete(4), (2,), (0, 0, 1, 0), 0.0, 1.0),
        (MultiDiscrete((2, 3)), (1, 0), (0, 1, 1, 0, 0), 0.0, 1.0),
        (MultiBinary(3), (1, 0, 1), (1, 0, 1), 0.0, 1.0),
    ],
)
def test_observations_are_laid_out(spec: Any, shown: Any, vector: Any, low: Any, high: Any) -> None:
    flat = Flattened(Showing(spec, shown))
    state, first = flat.reset(jax.random.key(0))
    step = flat.step(jax.random.key(0), state, jnp.int32(0))
    assert np.array_equal(first, vector) and np.array_equal(step.observation, vector)
    assert flat.observation == Box((len(vector),), low, high) and flat.horizon == 3 and flat.name == "showing"
    assert flat == Flattened(Showing(spec, shown)) and hash(flat) == hash(Flattened(Showing(spec, shown)))
    check_shapes_and_dtypes(flat)


def test_only_what_is_no_vector_is_laid_out() -> None:
    assert isinstance(make("CartPole-v1"), GymnaxEnvironment) and isinstance(make("FrozenLake-misc"), GymnaxEnvironment)
    assert make("Catch-bsuite", max_steps_in_episode=7).horizon == 7 and isinstance(make("Catch-bsuite"), Flattened)
    mdp = chain()
    assert flattened(mdp) is mdp


@pytest.mark.parametrize("name", ["brax:ant", "playground:CartpoleBalance"])
def test_what_is_not_installed_says_how_to_install_it(name: str) -> None:
    with pytest.raises(InputError, match=r"environment='.*': needs a package that is not installed .*; pip install "):
        make(name)
