"""One process writes into a run; the second is told which."""

import contextlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import NamedTuple

from pgsom.checks import InputError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK = "lock"


class Holder(NamedTuple):
    """Who writes into a run."""

    pid: int
    host: str
    since: str
    born: str
    """When the process began, as the system counts: a later process may get the same number."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


class Lock:
    """Held while entered. The system lets go of it when the process ends, however it ends.

    File systems of several machines must share locks (NFS 4, Lustre with flock, …).
    """

    def __init__(self, run: Path) -> None:
        self._path = run / LOCK
        self._handle: int | None = None
        self.abandoned: Holder | None = None
        """Who held it before and ended without letting go."""

    def __enter__(self) -> "Lock":
        while self._handle is None:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
            if not _taken(handle):
                os.close(handle)
                held = f"held by {read_holder(self._path.parent) or 'another process'}"
                raise InputError(f"{self._path.parent}: {held}; accepted when that has ended, or another folder")
            # Whoever held it may have removed the file meanwhile, and then this is no lock.
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(handle).st_ino == self._path.stat().st_ino:
                    self._handle = handle
                    continue
            os.close(handle)
        try:
            self._sign(self._handle)
        except OSError:
            # A full disk: held without a name, the run would be held until this process ends.
            self.__exit__()
            raise
        return self

    def _sign(self, handle: int) -> None:
        """Note who held it, and write down who does now."""
        self.abandoned = _parsed(os.read(handle, 4096))
        own = Holder(os.getpid(), socket.gethostname(), time.strftime("%Y-%m-%d %H:%M:%S"), _born(os.getpid()))
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, json.dumps(own._asdict()).encode())

    def __exit__(self, *exception: object) -> None:
        assert self._handle is not None
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._handle)
        self._handle = None


def read_holder(run: Path) -> Holder | None:
    """Who says that it holds the run."""
    try:
        with open(os.open(run / LOCK, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            return _parsed(file.read(4096))
    except OSError:
        return None


def living_holder(run: Path) -> Holder | None:
    """Who holds the run, unless it is known to have ended. Does not touch the lock, so anyone may ask."""
    holder = read_holder(run)
    if holder is None or holder.host != socket.gethostname():
        return holder
    try:
        os.kill(holder.pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass
    return holder if _born(holder.pid) == holder.born else None


def _taken(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _parsed(content: bytes) -> Holder | None:
    try:
        found = json.loads(content)
        return Holder(int(found["pid"]), str(found["host"]), str(found["since"]), str(found["born"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _born(pid: int) -> str:
    """In ticks since the machine started; empty where the system does not say."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
