"""A run on disk: settings as TOML, metrics as Parquet, policies as safetensors, a summary as JSON."""

import json
import math
import platform
import tomllib
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from pgsom.checks import wrong
from pgsom.environments import make
from pgsom.methods import make_method
from pgsom.policies import make_policy, standardised
from pgsom.runs.plan import Settings
from pgsom.runs.result import Result, metric, metric_names
from pgsom.training import Metrics

SETTINGS, METRICS, POLICY, SUMMARY = "settings.toml", "metrics.parquet", "policy.safetensors", "summary.json"


def save(result: Result, folder: Path) -> Path:
    """Write the run; the folder may exist, files of the same names are replaced."""
    import safetensors.numpy
    import tomli_w

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise wrong(
            "out", str(folder), f"cannot be made a folder ({error.strerror}); accepted is a writable one"
        ) from None
    settings = asdict(result.settings)
    _write(folder / POLICY, safetensors.numpy.save(_named_leaves(result.params)))
    _write(folder / SUMMARY, to_json(summary(result)).encode())
    temporary = folder / (METRICS + ".part")
    _table(result).write_parquet(temporary)
    temporary.replace(folder / METRICS)
    # Last, as its presence says that the run is whole.
    _write(folder / SETTINGS, tomli_w.dumps(_plain(settings) | {"versions": versions()}).encode())
    return folder


def load(path: str | Path) -> Result:
    """Read a run back that `Result.save` wrote and whose parts all had names."""
    import polars
    import safetensors.numpy

    folder = Path(path)
    if not (folder / SETTINGS).is_file():
        raise wrong("path", str(path), f"accepted is the folder of a saved run, with {SETTINGS} in it")
    written = tomllib.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    timings = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    written.pop("versions", None)
    settings = Settings(**written | {"seeds": tuple(written["seeds"])})
    if not settings.rebuildable:
        raise wrong(
            "path", str(path), "a part of this run was an object, not a name; its arrays can be read one by one"
        )
    environment = make(settings.environment, **settings.environment_options)
    policy = make_policy(settings.policy, environment, **settings.policy_options | {"hidden": settings.hidden})
    method = make_method(settings.method, **settings.options)
    if method.plan.normalise_observations:
        policy = standardised(policy, environment.observation)
    shapes = jax.eval_shape(policy.init, jax.random.key(0))
    leaves = safetensors.numpy.load((folder / POLICY).read_bytes())
    params = jax.tree.unflatten(jax.tree.structure(shapes), [leaves[name] for name in _leaf_names(shapes)])
    table = polars.read_parquet(folder / METRICS)
    shape = (len(settings.seeds), -1)
    metrics = Metrics(*(jnp.asarray(table[name].to_numpy().reshape(shape)) for name in metric_names()))
    seconds = timings["compile_seconds"], timings["run_seconds"]
    return Result(settings, environment, policy, method, params, metrics, *seconds)


def summary(result: Result) -> dict[str, Any]:
    """The run in a few numbers, JSON-ready; what `pgsom train --json` prints."""
    final = result.final
    return {
        "environment": result.settings.environment,
        "method": result.settings.method,
        "policy": result.settings.policy,
        "parameters": result.policy_definition.parameter_count(),
        "seeds": list(result.seeds),
        "updates": int(result.returns.shape[1]),
        "episodes": int(result.episodes[-1]),
        "env_steps": [int(n) for n in result.env_steps[:, -1]],
        "final_return": {"mean": float(final.mean), "low": float(final.low), "high": float(final.high)},
        "final_return_by_seed": [float(r) for r in result.final_returns()],
        "skipped_updates": [int(n) for n in result.skipped],
        "first_failures": [failure._asdict() for failure in result.failures],
        "frozen_seeds": [seed for seed, frozen in zip(result.seeds, result.frozen, strict=True) if frozen],
        "declined_updates": [int(n) for n in result.declined],
        "warnings": list(result.warnings),
        "compile_seconds": result.compile_seconds,
        "run_seconds": result.run_seconds,
        "steps_per_second": result.steps_per_second,
    }


def to_json(value: Any) -> str:
    """JSON text; NaN and infinity, which JSON does not know, become null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def versions() -> dict[str, str]:
    """Of everything that can change numbers."""
    packages = {name: version(name) for name in ("pgsom", "jax", "jaxlib", "numpy", "optax", "gymnax")}
    return packages | {"python": platform.python_version(), "machine": platform.machine()}


def _table(result: Result) -> Any:
    import polars

    seeds, updates = result.returns.shape
    index = {
        "seed": np.repeat(np.asarray(result.seeds), updates),
        "update": np.tile(np.arange(updates), seeds),
    }
    return polars.DataFrame(index | {name: metric(result, name).reshape(-1) for name in metric_names()})


def _named_leaves(tree: Any) -> dict[str, NDArray[Any]]:
    return dict(zip(_leaf_names(tree), (np.asarray(leaf) for leaf in jax.tree.leaves(tree)), strict=True))


def _leaf_names(tree: Any) -> list[str]:
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]


def _plain(value: Any) -> Any:
    """Tuples as lists, for TOML; infinities are TOML's own."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, float) and math.isinf(value) else value


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write(path: Path, content: bytes) -> None:
    """All or nothing: a reader never sees half a file."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(content)
    temporary.replace(path)
