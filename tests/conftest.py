"""Set up before any test imports the package: CPU, quick compilation, shapes and types checked while tests run."""

import gc
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests compile much and run little; `make learn` sets XLA_FLAGS itself.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import jax
import jaxtyping
import pytest

import tests.shape_checks  # noqa: F401  (named in the string below)

# Kept for the whole run: modules imported later, inside a test, are checked too.
_import_hook = jaxtyping.install_import_hook("pgsom", "tests.shape_checks.checked")


@pytest.fixture
def float64() -> Iterator[None]:
    """Double precision for one test: new arrays are float64, and what is jitted meanwhile is compiled so."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No annotation is checked in this test: a wrong argument meets what a user's would."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


_TESTS = count(1)
_MAPS, _MOST_MAPS = Path("/proc/self/maps"), 20_000


def pytest_runtest_teardown() -> None:
    """Every compiled program holds memory maps, and Linux gives a process 65,530: past that, compiling crashes."""
    if next(_TESTS) % 10 == 0 and _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()
        gc.collect()
