"""JAX must not wait for itself for ever: the factorisations relied on, in a process with a time limit."""

import os
import re
import subprocess
import sys
import warnings
from importlib import metadata
from pathlib import Path

import pytest

import pgsom
from pgsom.jax_version import SUPPORTED, can_hang, warn_if_jax_can_hang

TIME_LIMIT = 90  # seconds; a run that ends takes about three
EXECUTIONS = 30

# As a user may do it: JAX is imported and its backend running before the library is there to set anything.
PREAMBLE = """
import jax
import jax.numpy as jnp
jax.devices()
import pgsom
"""

CHOLESKY = """
def factorise(key):
    noise = jax.random.normal(key, (4, 64, 64))
    return tuple(jnp.linalg.cholesky(a @ a.T + 64 * jnp.eye(64)) for a in noise)
seeds = 16
"""

QR = """
orthogonal = jax.nn.initializers.orthogonal()
shapes = (4, 64), (64, 64), (64, 64), (64, 2)
def factorise(key):
    return tuple(orthogonal(k, shape) for k, shape in zip(jax.random.split(key, len(shapes)), shapes))
seeds = 8
"""

REPEAT = f"""
compiled = jax.jit(jax.vmap(factorise))
for execution in range({EXECUTIONS}):
    jax.block_until_ready(compiled(jax.random.split(jax.random.key(execution), seeds)))
print("ended")
"""


@pytest.mark.parametrize("repeat", range(2))
@pytest.mark.parametrize("program", [CHOLESKY, QR], ids=["cholesky", "qr"])
def test_independent_batched_factorisations_end(program: str, repeat: int) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", PREAMBLE + program + REPEAT],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        stdin=subprocess.DEVNULL,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "ended\n"


ONE_CORE = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import pgsom
pgsom.train("three-state", "pg-som", policy="mlp", seeds=16, episodes=8)
print("ended")
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be taken away here")
def test_training_many_seeds_ends_on_one_core() -> None:
    """Batched LAPACK calls wait for a second thread even in releases that do not hang otherwise."""
    finished = subprocess.run(
        [sys.executable, "-c", ONE_CORE], capture_output=True, text=True, timeout=TIME_LIMIT, stdin=subprocess.DEVNULL
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "ended\n"


def test_nothing_that_is_vmapped_over_seeds_calls_lapack() -> None:
    """Allowed are exact values of finite MDPs and of linear-quadratic systems, and SciPy's, on the host."""
    source = Path(pgsom.__file__).parent
    factorisation = re.compile(
        r"linalg\.(cholesky|qr|svd|eigh?|inv|solve|lstsq)|initializers\.orthogonal|random\.orthogonal"
    )
    found = {str(f.relative_to(source)) for f in source.rglob("*.py") if factorisation.search(f.read_text("utf-8"))}
    exact = {"environments/exact.py", "environments/exact_control.py", "environments/linear_quadratic.py"}
    assert found <= exact | {"experiments/lanczos.py"}


@pytest.mark.parametrize("version", ["0.10.0", "0.10.1", "0.10.2", "0.10.2.dev20260601", "0.10.0+local"])
def test_an_affected_version_warns_once_in_one_line(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: {"jaxlib": version}[name])
    with pytest.warns(RuntimeWarning) as caught:
        warn_if_jax_can_hang()
    (warning,) = caught
    message = str(warning.message)
    assert "\n" not in message
    assert version in message and "Cholesky and QR" in message and SUPPORTED in message


@pytest.mark.parametrize("version", ["0.9.2", "0.9.10", "0.10.3", "0.10.20", "0.11.0", "1.0.10.1", "10.10.0"])
def test_an_unaffected_version_is_silent(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: {"jaxlib": version}[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_jax_can_hang()


def test_a_missing_jaxlib_is_left_to_the_import_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    warn_if_jax_can_hang()


def test_the_installed_version_does_not_hang() -> None:
    assert not can_hang(metadata.version("jaxlib"))


def test_the_guard_does_not_import_jax() -> None:
    program = "import sys, pgsom.jax_version as v; v.warn_if_jax_can_hang(); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=TIME_LIMIT, stdin=subprocess.DEVNULL)
