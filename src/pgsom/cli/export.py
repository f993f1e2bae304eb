"""``pgsom export``: a trained policy as a file that needs neither pgsom nor JAX."""

from collections.abc import Sequence
from pathlib import Path

from pgsom.checks import wrong
from pgsom.cli.arguments import COUNT, FLAG, PATH, TEXT, Option, help_text, read_arguments
from pgsom.cli.saved import chosen_seed, run_folder

SUFFIXES = {"onnx": ".onnx", "safetensors": ".safetensors", "numpy": ".npz"}
OPTIONS = (
    Option("format", TEXT, "", "onnx", tuple(SUFFIXES)),
    Option("out", PATH, "the file to write; by default exported.onnx and the like, in the run's folder"),
    Option("seed", COUNT, "whose policy; by default the seed that ended best"),
    Option("overwrite", FLAG, "replace that file"),
    Option("debug", FLAG, "show the traceback of a failure"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)
USAGE = "pgsom export RUN [--format onnx|safetensors|numpy] [--out FILE]"
SUMMARY = (
    "Write a policy, its normaliser and its action bounds included, so that the file alone reproduces the actions.\n"
    "The file is read back and compared with the policy on 10,000 observations; docs/using_policies.md shows its use."
)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS, after="example: pgsom export runs/first --format onnx"))
        return 0
    given = read_arguments(arguments, OPTIONS, operands=("run",))
    folder = run_folder(given)
    file_format = given.get("format", "onnx")
    # The run's own policies, of all seeds, are in policy.safetensors.
    out = Path(given.get("out", folder / f"exported{SUFFIXES[file_format]}"))
    if out.exists() and not given.get("overwrite"):
        raise wrong("out", str(out), "exists; accepted with --overwrite, or another file")

    from pgsom.exporting import export
    from pgsom.runs import load

    result = load(folder)
    seed = chosen_seed(result, given)
    policy = result.policy(seed)
    written = export(policy.policy, policy.params, result.environment.observation, out, file_format)
    print(
        f"the policy of seed {seed} is in {written.path}: on {written.observations:,} observations its numbers are "
        f"within {written.difference:.1e} of the trained one's"
    )
    return 0
