"""Ctrl-C and SIGTERM: the run ends at the next chunk of updates, and within two seconds in any case."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

PATIENCE = 1.2
"""Seconds that an update (or compiling) may still take before the process ends without it."""
CLOSING = 0.5
"""Seconds that a run may take besides to sum up what is on the disk by then: all its rows, and a checkpoint."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """While entered, the first signal asks the run to end, the second raises KeyboardInterrupt.

    Python runs no handler while one long call is under way, but the system's own handler writes a byte at once. A
    thread waits for it: if nothing has come of the first signal in time, it calls `leave`, which keeps what there is,
    prints its line and ends the process. So it does if a run that is kept on disk takes long to close.
    """

    def __init__(self, asked: Callable[[], None], leave: Callable[[], str], *, kept: bool = False) -> None:
        self.asked, self._kept = False, kept
        self._say, self._leave = asked, leave
        self._reached, self._left = threading.Event(), threading.Event()
        self._before: dict[int, Any] = {}
        self._ends: tuple[socket.socket, socket.socket] | None = None

    def __enter__(self) -> "Interrupt":
        # Only the main thread may set handlers; elsewhere signals never arrive.
        if threading.current_thread() is threading.main_thread():
            self._ends = socket.socketpair()
            self._ends[0].setblocking(False)
            self._before = {number: signal.signal(number, self._handle) for number in SIGNALS}
            signal.set_wakeup_fd(self._ends[0].fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._watch, args=(self._ends[1],), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.reached()
        self._left.set()
        if self._ends is not None:
            signal.set_wakeup_fd(-1)
            for number, handler in self._before.items():
                signal.signal(number, handler)
            self._ends[0].close()

    def reached(self) -> None:
        """The end of an update is reached, from which the run can end by itself."""
        self._reached.set()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._say()

    def _watch(self, end: socket.socket) -> None:
        with end:
            while word := end.recv(1):
                if word[0] in SIGNALS:
                    break
            else:
                return
        until = time.monotonic() + PATIENCE + CLOSING
        if self._reached.wait(PATIENCE) and (not self._kept or self._left.wait(until - time.monotonic())):
            return
        said = self._leave()
        sys.stdout.flush()
        print(said, file=sys.stderr, flush=True)
        os._exit(130)
