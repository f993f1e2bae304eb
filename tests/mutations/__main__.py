"""``python -m tests.mutations``: sabotage a copy of the package, one line at a time, and see that tests go red."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutations.catalogue import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]


def survives(mutation: Mutation, folder: Path) -> bool:
    """Whether the tests pass with the mutation in place."""
    shutil.copytree(ROOT / "src" / "pgsom", folder / "pgsom")
    target = folder / "pgsom" / mutation.file
    text = target.read_text(encoding="utf-8")
    target.write_text(text.replace(mutation.before, mutation.after), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutation.tests.split()]
    ran = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True
    )
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{mutation.what}: the tests did not run\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.returncode == 0


def main(words: list[str]) -> int:
    """The exit code: 0 if every sabotage (with these words in its description) was noticed."""
    chosen = [m for m in MUTATIONS if all(word in m.what for word in words)]
    survivors = 0
    for mutation in chosen:
        with tempfile.TemporaryDirectory() as folder:
            alive = survives(mutation, Path(folder))
        survivors += alive
        print(
            f"{'SURVIVED' if alive else 'noticed '}  {mutation.what}  ({mutation.file}; {mutation.tests})", flush=True
        )
    print(f"{len(chosen) - survivors} of {len(chosen)} sabotages were noticed")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
