"""What MuJoCo warns of, once: it says so for every copy and every step, on lines of its own, and into a file."""

import contextlib
import sys

_HEARD: set[str] = set()


def hear_mujoco() -> None:
    """From now on each of MuJoCo's warnings is a line on the standard error, once; unless somebody else listens."""
    with contextlib.suppress(ImportError):  # Gymnasium will say that it is missing
        import mujoco

        if mujoco.get_mju_user_warning() is None:
            mujoco.set_mju_user_warning(say_once)


def say_once(message: str) -> None:
    """The message, if it is new but for the time in it."""
    what = message.partition(" Time = ")[0]
    if what not in _HEARD:
        _HEARD.add(what)
        print(f"MuJoCo: {what}", file=sys.stderr)
