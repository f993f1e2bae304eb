"""What commands about one saved run share: RUN, and which of its seeds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsom.checks import InputError, wrong
from pgsom.cli.settings import FINISHED

if TYPE_CHECKING:
    from pgsom.runs import Result


def run_folder(given: dict[str, Any]) -> Path:
    """The folder named on the command line; that it has a run is checked before anything heavy is imported."""
    if "run" not in given:
        raise InputError("a run is missing; accepted is the folder of a saved run, as pgsom train --out makes it")
    folder = Path(given["run"])
    if not (folder / FINISHED).is_file():
        raise wrong("run", str(folder), f"accepted is the folder of a saved run, with {FINISHED} in it")
    return folder


def chosen_seed(result: "Result", given: dict[str, Any]) -> int:
    """The seed asked for, by default the one that ended best."""
    if "seed" in given:
        if given["seed"] not in result.seeds:
            raise wrong("seed", given["seed"], f"accepted are the trained seeds {', '.join(map(str, result.seeds))}")
        return int(given["seed"])
    return result.seeds[int(result.final_returns().argmax())]
