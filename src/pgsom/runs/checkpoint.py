"""Checkpoints: all that the next update needs, in one safetensors file whose name has its checksum.

The state is stored leaf by leaf under the names of its fields; what it looks like is known from the plan, so nothing in
a file is ever unpickled, evaluated or trusted to be of some size. Random keys are stored as their data, beside the name
of their generator.
"""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from pgsom.runs.driver import Carried, Stand
from pgsom.runs.files import DIGITS, DamageError, digest, inner_folder, read_checked, write
from pgsom.training import TrainState

CHECKPOINTS = "checkpoints"
FORMAT = 1
NAME = re.compile(rf"(\d{{10}})\.([0-9a-f]{{{DIGITS}}})\.safetensors")
LARGEST_CARRIED = 2**28
"""Bytes that simulators on the host may add to a checkpoint, header included."""
LARGEST = 2**36


class Entry(NamedTuple):
    """A checkpoint, as its name describes it."""

    path: Path
    updates: int
    digest: str


class Checkpoint(NamedTuple):
    """What a checkpoint holds."""

    stand: Stand
    carried: Carried
    score: float
    """Mean return over the updates since the checkpoint before it."""
    compile_seconds: float
    settings: str
    """The run's settings file, word for word."""


def write_checkpoint(run: Path, checkpoint: Checkpoint) -> Path:
    """Write it beside the others."""
    import safetensors.numpy

    stand = checkpoint.stand
    leaves, generators = _to_arrays(stand.state)
    arrays = {f"state.{name}": leaf for name, leaf in leaves.items()}
    arrays |= {f"carried.{name}": np.asarray(leaf) for name, leaf in checkpoint.carried.items()}
    about = {
        "format": FORMAT,
        "updates": stand.updates,
        "seconds": stand.seconds,
        "compile_seconds": checkpoint.compile_seconds,
        "score": checkpoint.score if math.isfinite(checkpoint.score) else None,
        "generators": generators,
        "settings": checkpoint.settings,
    }
    content = safetensors.numpy.save(arrays, {"pgsom": json.dumps(about)})
    path = inner_folder(run, CHECKPOINTS, make=True) / f"{stand.updates:010}.{digest(content)[:DIGITS]}.safetensors"
    write(path, content)
    return path


def read_checkpoint(entry: Entry, template: TrainState) -> Checkpoint:
    """The checkpoint, if it is what its name says and its state looks like the template."""
    leaves, generators = _to_arrays(template)
    about, arrays = contents(entry, sum(leaf.nbytes for leaf in leaves.values()) + LARGEST_CARRIED)
    found = {name.removeprefix("state."): leaf for name, leaf in arrays.items() if name.startswith("state.")}
    carried = {name.removeprefix("carried."): leaf for name, leaf in arrays.items() if name.startswith("carried.")}
    said = {name: (leaf.shape, leaf.dtype) for name, leaf in found.items()}
    expected = {name: (leaf.shape, leaf.dtype) for name, leaf in leaves.items()}
    if said != expected or about["generators"] != generators:
        raise DamageError(f"{entry.path}: of another run or version: {_difference(said, expected)}")
    state = _from_arrays(found, template)
    score = -math.inf if about["score"] is None else float(about["score"])
    stand = Stand(state, entry.updates, float(about["seconds"]))
    return Checkpoint(stand, carried, score, float(about["compile_seconds"]), str(about["settings"]))


def entries(run: Path) -> list[Entry]:
    """The checkpoints by their names, newest first."""
    folder = inner_folder(run, CHECKPOINTS)
    found = [(path, NAME.fullmatch(path.name)) for path in folder.iterdir()] if folder.is_dir() else []
    listed = [Entry(path, int(match[1]), match[2]) for path, match in found if match]
    return sorted(listed, key=lambda entry: (-entry.updates, entry.digest))


def prune(run: Path, last: int, scores: dict[str, float]) -> None:
    """Remove all but the newest `last` and the one with the best score; scores by file name."""
    present = entries(run)
    best = max((entry.path.name for entry in present), key=lambda name: scores.get(name, -math.inf), default=None)
    for entry in present[last:]:
        if entry.path.name != best:
            entry.path.unlink()


def contents(entry: Entry, largest: int = LARGEST) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What a checkpoint says of itself, and its arrays by name, its checksum being right."""
    import safetensors
    import safetensors.numpy

    content = read_checked(entry.path, entry.digest, largest=largest)
    try:
        arrays = safetensors.numpy.load(content)
        # The header: eight bytes that give its length, and JSON.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = json.loads(header["__metadata__"]["pgsom"])
        if about["format"] != FORMAT:
            raise DamageError(f"{entry.path}: of format {about['format']}; this version reads format {FORMAT}")
        if about["updates"] != entry.updates:
            raise DamageError(f"{entry.path}: holds update {about['updates']}, its name says {entry.updates}")
        (about["seconds"], about["compile_seconds"], about["score"], about["generators"], about["settings"])
    except DamageError:
        raise
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamageError(f"{entry.path}: not a checkpoint ({type(error).__name__}: {error})") from None
    return about, arrays


def leaf_names(tree: Any) -> list[str]:
    """A name for every leaf: the fields, keys and places that lead to it."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]


def _to_arrays(tree: Any) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Leaves by name, and the generators of those that are random keys."""
    leaves: dict[str, NDArray[Any]] = {}
    generators: dict[str, str] = {}
    for name, leaf in zip(leaf_names(tree), jax.tree.leaves(tree), strict=True):
        if _is_key(leaf):
            generators[name] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        leaves[name] = np.asarray(leaf)
    return leaves, generators


def _from_arrays(found: dict[str, NDArray[Any]], template: Any) -> Any:
    """The template with these leaves, in JAX or in NumPy as it has them."""
    leaves: list[Any] = []
    for name, leaf in zip(leaf_names(template), jax.tree.leaves(template), strict=True):
        if _is_key(leaf):
            leaves.append(jax.random.wrap_key_data(jnp.asarray(found[name]), impl=jax.random.key_impl(leaf)))
        else:
            leaves.append(jnp.asarray(found[name]) if isinstance(leaf, jax.Array) else found[name].copy())
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _difference(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """The first leaf that differs, in words."""

    def worded(leaf: Any) -> str:
        return "nothing" if leaf is None else f"{leaf[1]}{list(leaf[0])}"

    names: Sequence[str] = sorted(found.keys() | expected.keys())
    for name in names:
        if found.get(name) != expected.get(name):
            return f"{name} is {worded(found.get(name))}, here it would be {worded(expected.get(name))}"
    return "its random keys are of another generator"
