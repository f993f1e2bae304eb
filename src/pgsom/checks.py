"""Wrong input, said well: one line with the argument, its value, what is accepted and the nearest right spelling.

Every check runs when an object is built, before anything is traced, and raises `InputError`. Arrays with axes and
tracers (a vmapped hyper-parameter) are let through: they have no single value to judge.
"""

import difflib
import math
import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

LONGEST_SHOWN = 100
"""Characters of a value in a message."""
LONGEST_LIST, SHOWN_OF_MANY = 16, 8
"""An error names every choice of up to so many, and so many of more."""


class InputError(ValueError):
    """The caller's mistake. The command line prints its one line and exits with code 2."""


class RunError(RuntimeError):
    """A run that went wrong for no fault of the caller's words. The command line prints its one line, exit code 1."""


def wrong(argument: str, value: Any, accepted: str) -> InputError:
    """The one form all messages have: ``argument=value: accepted``."""
    return InputError(f"{argument}={_shown(value)}: {accepted}")


def printable(text: str) -> str:
    """Text from anywhere, made harmless in a terminal: what could move the cursor or turn the line is spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice most alike to `word`, if any is alike at all."""
    by_folded = {choice.lower().replace("_", "-"): choice for choice in choices}
    found = difflib.get_close_matches(str(word).lower().replace("_", "-"), by_folded, n=1, cutoff=0.5)
    return by_folded[found[0]] if found else None


def suggestion(word: str, choices: Iterable[str]) -> str:
    """``; did you mean 'x'?`` or nothing."""
    found = nearest(word, choices)
    return f"; did you mean {found!r}?" if found else ""


def listed(choices: Iterable[str]) -> str:
    """The choices, separated by commas; of very many the first few and how many more there are."""
    known = tuple(choices)
    if len(known) <= LONGEST_LIST:
        return ", ".join(known)
    return f"{', '.join(known[:SHOWN_OF_MANY])} and {len(known) - SHOWN_OF_MANY} more"


def check_choice(argument: str, value: Any, choices: Iterable[str]) -> str:
    """`value` must be one of `choices`."""
    known = tuple(choices)
    if isinstance(value, str) and value in known:
        return value
    raise wrong(argument, value, f"accepted are {listed(known)}{suggestion(str(value), known)}")


def check_known(argument: str, names: Iterable[str], choices: Iterable[str]) -> None:
    """Every one of `names` (keyword arguments, keys of a file) must be among `choices`."""
    known = tuple(choices)
    for name in names:
        if name not in known:
            raise wrong(argument, name, f"unknown; accepted are {listed(known)}{suggestion(name, known)}")


def check_number(
    argument: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    infinite: bool = False,
) -> Any:
    """`value` must be a real number within the bounds; infinity only where `infinite` (a limit that is off)."""
    value = _scalar(value)
    if _is_array(value):
        return value
    accepted = _describe("a number", above, at_least, at_most, below) + (" (inf: off)" if infinite else "")
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong(argument, value, f"accepted is {accepted}")
    number = float(value)
    outside = (
        (above is not None and not number > above)
        or (at_least is not None and not number >= at_least)
        or (at_most is not None and not number <= at_most)
        or (below is not None and not number < below)
    )
    if math.isnan(number) or (math.isinf(number) and not infinite) or outside:
        raise wrong(argument, value, f"accepted is {accepted}")
    return number


def check_count(argument: str, value: Any, *, at_least: int = 1, at_most: int | None = None) -> int:
    """`value` must be a whole number within the bounds."""
    value = _scalar(value)
    accepted = _describe("a whole number", None, at_least, at_most, None)
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < at_least:
        raise wrong(argument, value, f"accepted is {accepted}")
    if at_most is not None and int(value) > at_most:
        raise wrong(argument, value, f"accepted is {accepted}")
    return int(value)


def check_flag(argument: str, value: Any) -> bool:
    """`value` must be True or False."""
    if not isinstance(value, bool):
        raise wrong(argument, value, "accepted are True and False")
    return value


def _describe(
    noun: str, above: float | None, at_least: float | None, at_most: float | None, below: float | None
) -> str:
    bounds = ((">", above), (">=", at_least), ("<=", at_most), ("<", below))
    said = " and ".join(f"{sign} {_plain(bound)}" for sign, bound in bounds if bound is not None)
    return f"{noun} {said}" if said else f"a finite {noun.removeprefix('a ')}"


def _shown(value: Any) -> str:
    """In one line, and short unless it is text, of which every letter may matter."""
    if isinstance(value, str):
        return repr(value)
    shown = re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(value).split()))
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[: LONGEST_SHOWN - 1]}…"


def _plain(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else f"{bound:g}"


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _scalar(value: Any) -> Any:
    """A NumPy or JAX number as Python's, so that it can be judged; tracers, which have no value yet, as they are."""
    if not _is_array(value) or value.shape != ():
        return value
    try:
        return value.item()
    except TypeError:  # JAX's answer where a tracer is asked for its value
        return value
