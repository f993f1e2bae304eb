"""Files of a run: written whole or not at all, and read only if they are what was written.

What changes while a run goes on (metrics, checkpoints) carries the checksum of its content in its name, so that file
and checksum appear in one step. Files with fixed names are listed in ``SHA256SUMS``.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pgsom.checks import InputError, RunError

SUMS = "SHA256SUMS"
UNFINISHED = ".part"
DIGITS = 16
"""Of a checksum in a name: enough for accidents."""
LARGEST = 2**24
"""Bytes of a settings or summary file; what is larger was not written by us."""


class DamageError(InputError):
    """A file of a run is not what was written."""


def write(path: Path, content: bytes) -> None:
    """All or nothing, and on the disk when it returns: a reader never sees half a file, not after a crash either."""
    temporary = path.with_name(path.name + UNFINISHED)
    try:
        # Not through a link that somebody left there.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        with open(os.open(temporary, flags, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def disk(run: Path) -> Iterator[None]:
    """What the disk refuses is said in a line. Only around what writes: other people's errors stay theirs."""
    try:
        yield
    except OSError as error:
        raise refused(run, error) from None


def refused(run: Path, error: OSError) -> RunError:
    """The run cannot be written, for instance as the disk is full."""
    return RunError(f"{run} cannot be written ({error.strerror or error}); pgsom resume {run} carries on")


def sync(folder: Path) -> None:
    """Make renamed and deleted entries of a folder last, where folders can be opened."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sweep_up(folder: Path) -> None:
    """Remove what interrupted writes left."""
    for path in folder.glob(f"*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def inner_folder(run: Path, name: str, *, make: bool = False) -> Path:
    """A folder of the run itself, not a link to somewhere else."""
    folder = run / name
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DamageError(f"{folder}: not a folder of the run; accepted is a folder, not a link")
    if make:
        folder.mkdir(exist_ok=True)
    return folder


def read(path: Path, *, largest: int = LARGEST) -> bytes:
    """The content of an ordinary file of a plausible size."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise DamageError(f"{path}: not an ordinary file")
    if status.st_size > largest:
        raise DamageError(f"{path}: {status.st_size:,} bytes; what a run writes there has at most {largest:,}")
    return path.read_bytes()


def digest(content: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def read_checked(path: Path, expected: str, *, largest: int) -> bytes:
    """The content, whose checksum must begin with `expected`."""
    content = read(path, largest=largest)
    if not digest(content).startswith(expected):
        raise DamageError(f"{path}: damaged (its checksum is not the one in its name)")
    return content


def write_sums(run: Path, names: tuple[str, ...]) -> None:
    """List the checksums of these files as ``sha256sum --check`` reads them."""
    listed = [f"{digest((run / name).read_bytes())}  {name}\n" for name in names]
    write(run / SUMS, "".join(listed).encode())


def read_sums(run: Path) -> dict[str, str]:
    """Checksums by name; none if they are not listed."""
    try:
        text = read(run / SUMS).decode()
        pairs = [line.split("  ", 1) for line in text.splitlines()]
        return {name: checksum for checksum, name in pairs}
    except FileNotFoundError:
        return {}
    except ValueError:
        raise DamageError(f"{run / SUMS}: damaged (not a list of checksums)") from None


def read_listed(run: Path, name: str, *, largest: int = LARGEST) -> bytes:
    """The content of a file with a fixed name, which must agree with its checksum where one is listed."""
    sums = read_sums(run)
    if name in sums and not (run / name).exists():
        raise DamageError(f"{run / name}: missing, and listed in {SUMS}")
    content = read(run / name, largest=largest)
    if digest(content) != sums.get(name, digest(content)):
        raise DamageError(f"{run / name}: damaged or changed since it was written ({SUMS} has another checksum)")
    return content
