"""Writing a policy, and the proof at once: the written file's actions beside the policy's own."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from pgsom.checks import InputError, check_choice, wrong
from pgsom.environments import Box, Discrete, Spec
from pgsom.exporting.onnx_graph import onnx_model
from pgsom.exporting.recipe import Recipe, Step, recipe_of
from pgsom.policies import Policy

Tree = Any
FORMATS = {"onnx": ".onnx", "safetensors": ".safetensors", "numpy": ".npz"}
OBSERVATIONS, TOLERANCE, WIDEST = 10_000, 1e-6, 10.0
"""How many observations are tried, how far numbers may be apart (relative to 1 or to their size), and their range."""


@dataclass(frozen=True)
class Exported:
    """A written file and how far it is from the policy."""

    path: Path
    format: str
    observations: int
    difference: float
    """The largest of distribution parameters and continuous actions, relative to 1 or to their size if that is more."""
    other_choices: int
    """Observations for which a discrete choice differs: two outputs there are equal to within the tolerance."""


def export(policy: Policy, params: Tree, observation: Spec, path: str | Path, file_format: str = "onnx") -> Exported:
    """Write the policy, read the file back, and compare the two on 10,000 observations."""
    check_choice("format", file_format, FORMATS)
    recipe = recipe_of(policy, params, observation)
    target = Path(path)
    content = {"onnx": onnx_model, "safetensors": _safetensors, "numpy": _npz}[file_format](recipe)
    temporary = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
    except OSError as error:
        raise wrong("out", str(path), f"cannot be written ({error.strerror}); accepted is a writable file") from None
    seen = sample_observations(observation, OBSERVATIONS)
    difference, others = _compared(policy, params, seen, _read(temporary.read_bytes(), file_format, seen))
    if difference > TOLERANCE or others:
        temporary.unlink()
        raise RuntimeError(f"the written policy differs from the trained one by {difference:.2g}; nothing was kept")
    temporary.replace(target)
    return Exported(target, file_format, OBSERVATIONS, difference, others)


def sample_observations(observation: Spec, count: int, seed: int = 0) -> NDArray[Any]:
    """Within the bounds, normal where there are none (or none nearer than 10)."""
    generator = np.random.default_rng(seed)
    if isinstance(observation, Discrete):
        return generator.integers(0, observation.n, count).astype(np.int32)
    normal = generator.normal(size=(count, *observation.shape))
    if not isinstance(observation, Box):
        return (normal > 0).astype(np.float32)
    ends = (np.broadcast_to(end, observation.size) for end in (observation.low, observation.high))
    low, high = (np.reshape(end, observation.shape) for end in ends)
    bounded = (np.abs(low) <= WIDEST) & (np.abs(high) <= WIDEST)
    low, high = np.where(bounded, low, 0.0), np.where(bounded, high, 1.0)
    return np.where(bounded, generator.uniform(low, high, normal.shape), normal).astype(np.float32)


def load_recipe(path: str | Path) -> Recipe:
    """The recipe in a file of the formats numpy and safetensors."""
    return _recipe_from(Path(path).read_bytes(), "numpy" if str(path).endswith(".npz") else "safetensors")


def _compared(
    policy: Policy, params: Tree, seen: NDArray[Any], found: tuple[NDArray[Any], NDArray[Any]]
) -> tuple[float, int]:
    """Reckoned with in 64 bits on both sides: what is then left is what the file gets wrong, not what 32 bits round."""
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
        given = seen if np.issubdtype(seen.dtype, np.integer) else seen.astype(np.float64)
        outputs = np.asarray(jax.jit(jax.vmap(policy.outputs, (None, 0)))(wide, given))
        modes = np.asarray(jax.jit(jax.vmap(policy.act, (None, 0)))(wide, given))
    pairs = [(outputs, found[0])]
    others = 0
    if np.issubdtype(modes.dtype, np.floating):
        pairs.append((modes, found[1]))
    else:
        others = int(np.sum(np.any((modes != found[1]).reshape(len(seen), -1), axis=1) & ~_tied(outputs)))
    apart = [np.abs(a - b) / np.maximum(np.abs(a), 1) for a, b in pairs]
    return float(max(part.max() for part in apart)), others


def _tied(outputs: NDArray[Any]) -> NDArray[Any]:
    """[n]; whether two of the outputs (or one and 0) are the same but for rounding."""
    edges = np.sort(np.concatenate([outputs, np.zeros((len(outputs), 1))], axis=1), axis=1)
    return np.any(np.diff(edges, axis=1) <= 2 * TOLERANCE * np.maximum(np.abs(edges[:, 1:]), 1), axis=1)


def _read(content: bytes, file_format: str, seen: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """What the file says: distribution parameters and actions."""
    if file_format != "onnx":
        return _recipe_from(content, file_format).run(seen)
    try:
        import onnxruntime
    except ImportError as error:
        needed = f"needs a package that is not installed ({error}); pip install onnx onnxruntime"
        raise InputError(f"format='onnx': {needed}") from None
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    given = seen.astype(np.int64) if np.issubdtype(seen.dtype, np.integer) else seen
    action, outputs = session.run(["action", "distribution"], {"observation": given})
    return np.asarray(outputs), np.asarray(action)


def _npz(recipe: Recipe) -> bytes:
    import io

    buffer = io.BytesIO()
    np.savez(buffer, recipe=np.array(_described(recipe)), **_arrays(recipe))  # type: ignore[arg-type]
    return buffer.getvalue()


def _safetensors(recipe: Recipe) -> bytes:
    import safetensors.numpy

    return safetensors.numpy.save(_arrays(recipe), metadata={"recipe": _described(recipe)})


def _described(recipe: Recipe) -> str:
    """Everything but the arrays, as JSON; an array is named by its step's number and its own name."""
    steps = [{"do": step.do, **step.numbers, "arrays": list(step.arrays)} for step in recipe.steps]
    whole = {"steps": steps, "outputs": recipe.outputs, "observation_shape": list(recipe.observation_shape)}
    return json.dumps(whole | {"whole_numbers": recipe.whole_numbers})


def _arrays(recipe: Recipe) -> dict[str, NDArray[Any]]:
    return {f"{i}.{name}": array for i, step in enumerate(recipe.steps) for name, array in step.arrays.items()}


def _recipe_from(content: bytes, file_format: str) -> Recipe:
    if file_format == "numpy":
        import io

        arrays: dict[str, Any] = dict(np.load(io.BytesIO(content), allow_pickle=False))
        described = json.loads(str(arrays.pop("recipe")))
    else:
        import safetensors.numpy

        arrays = safetensors.numpy.load(content)
        # The format begins with the length of a JSON header, which has the metadata.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        described = json.loads(header["__metadata__"]["recipe"])
    steps = tuple(
        Step(
            step["do"],
            {key: value for key, value in step.items() if key not in ("do", "arrays")},
            {name: arrays[f"{i}.{name}"] for name in step["arrays"]},
        )
        for i, step in enumerate(described["steps"])
    )
    return Recipe(steps, described["outputs"], tuple(described["observation_shape"]), described["whole_numbers"])
