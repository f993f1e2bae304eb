"""Options of a command: their values, their help, and how a list of words is read.

Reading is strict and says one line for whatever is wrong, so nothing is guessed: no abbreviations, and a value may
begin with a dash (``--clip-norm -inf``), which is why this is not argparse.
"""

import math
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgsom.checks import InputError, listed, suggestion, wrong

LONGEST_DEFAULT, LONGEST_CHOICES = 60, 90
"""In characters; what is longer the help only counts."""


@dataclass(frozen=True)
class Kind:
    """What values an option takes: from words on the command line, and from TOML."""

    placeholder: str
    accepted: str
    from_text: Callable[[str], Any]
    """Raises ValueError for what is not accepted."""
    from_value: Callable[[Any], Any]
    """The same for a value out of a file."""


@dataclass(frozen=True)
class Option:
    """One option of a command; `name` is its key in a file and what errors call it."""

    name: str
    kind: Kind
    help: str
    default: Any = None
    """For the help; a mapping is from the methods that have the option to their defaults."""
    choices: tuple[str, ...] = ()
    spelled: tuple[str, ...] = ()
    topic: str = "options"
    numbered: tuple[str, ...] = ()
    """Choices behind which a colon and a number may stand."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """On the command line, the usual one first."""
        return self.spelled or ("--" + self.name.replace("_", "-"),)

    def read(self, value: Any, *, of_text: bool) -> Any:
        """The value, converted and checked as far as the kind and the choices go."""
        try:
            read = self.kind.from_text(value) if of_text else self.kind.from_value(value)
        except (ValueError, OverflowError):
            raise wrong(self.name, value, f"accepted is {self.kind.accepted}") from None
        if self.choices and read not in self.choices and str(read).rpartition(":")[0] not in self.numbered:
            accepted = f"accepted are {listed(self.choices)}{suggestion(read, self.choices)}"
            raise wrong(self.name, read, accepted)
        return read


def read_arguments(
    arguments: Sequence[str], options: Sequence[Option], *, operands: Sequence[str] = ()
) -> dict[str, Any]:
    """What was given, by name: options as ``--name value`` or ``--name=value``, and words without dashes, in order."""
    by_spelling = {spelling: option for option in options for spelling in option.spellings}
    words, waiting = deque(arguments), deque(operands)
    given: dict[str, Any] = {}
    while words:
        word = words.popleft()
        spelling, equals, text = word.partition("=")
        if not word.startswith("-"):
            if not waiting:
                raise wrong("argument", word, "unexpected; accepted are options, such as --name value")
            given[waiting.popleft()] = word
            continue
        if spelling not in by_spelling:
            raise _unknown(spelling, by_spelling)
        option = by_spelling[spelling]
        if option.kind is FLAG:
            if equals:
                raise wrong(option.name, text, f"accepted is {spelling} alone, without a value")
            given[option.name] = True
            continue
        if not equals:
            if not words or words[0].startswith("--"):
                raise InputError(f"{spelling}: its value is missing; accepted is {_accepted(option)}")
            text = words.popleft()
        given[option.name] = option.read(text, of_text=True)
    return given


def read_table(table: Mapping[str, Any], options: Sequence[Option]) -> dict[str, Any]:
    """What a file gives, by name. Keys are names, or spellings without the leading dashes."""
    by_key = {key: option for option in options for key in _keys(option)}
    given: dict[str, Any] = {}
    for key, value in table.items():
        if key not in by_key:
            raise wrong("key", key, f"unknown{suggestion(key, (known for known in by_key if '-' not in known))}")
        option = by_key[key]
        if option.name in given:
            raise wrong("key", key, f"{option.name} is given twice")
        given[option.name] = option.read(value, of_text=False)
    return given


def help_text(usage: str, summary: str, options: Iterable[Option], *, after: str = "") -> str:
    """Usage, summary, and one line for each option under its topic."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for option in options:
        rows.setdefault(option.topic, []).append((_left(option), _right(option)))
    width = max(len(left) for topic in rows.values() for left, _ in topic)
    lines = [f"usage: {usage}", "", summary]
    for topic, entries in rows.items():
        lines += ["", f"{topic}:", *(f"  {left:<{width}}  {right}" for left, right in entries)]
    return "\n".join([*lines, *(["", after] if after else [])])


def _unknown(spelling: str, by_spelling: Mapping[str, Option]) -> InputError:
    by_word = {known.lstrip("-"): known for known in by_spelling}
    near = suggestion(spelling.lstrip("-"), by_word)
    for word, known in by_word.items():
        near = near.replace(f"{word!r}", f"{known!r}")
    return wrong("option", spelling, f"unknown{near or '; --help lists the options'}")


def _accepted(option: Option) -> str:
    return "one of " + ", ".join(option.choices) if option.choices else option.kind.accepted


def _keys(option: Option) -> list[str]:
    return [option.name, *(spelling.lstrip("-") for spelling in option.spellings)]


def _left(option: Option) -> str:
    return f"{', '.join(option.spellings)} {option.kind.placeholder}".rstrip()


def _right(option: Option) -> str:
    choices = ", ".join(option.choices)
    if len(choices) > LONGEST_CHOICES:
        choices = f"one of {len(option.choices)}, see pgsom list"
    said = ": ".join(filter(None, (option.help, choices)))
    return f"{said}  [{_default(option.default)}]" if option.default is not None else said


def _default(default: Any) -> str:
    """In words. A mapping is from methods to their defaults."""
    if not isinstance(default, Mapping):
        return _worded(default)
    by_value: dict[str, list[str]] = {}
    for method, value in default.items():
        by_value.setdefault(_worded(value), []).append(method)
    usual = max(by_value, key=lambda value: len(by_value[value]))
    said = "; ".join(f"{', '.join(methods)}: {value}" for value, methods in by_value.items())
    if len(said) > LONGEST_DEFAULT and 2 * len(by_value[usual]) > len(default):
        others = (f"{', '.join(methods)}: {value}" for value, methods in by_value.items() if value != usual)
        said = "; ".join((usual, *others))
    return said if len(said) <= LONGEST_DEFAULT else f"of {len(default)} methods, each its own"


def _worded(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "the method's own" if value is None else str(value)


def _not(value: Any) -> ValueError:
    return ValueError(repr(value))


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _not(value)
    return value


def _number_from_text(text: str) -> int | float:
    return _number(float(text))


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise _not(value)
    # A whole number stays one, so that an error repeats it as it was typed.
    return int(value) if float(value).is_integer() else value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _not(value)
    return value


def _switch_from_text(text: str) -> bool:
    if text not in ("true", "false"):
        raise _not(text)
    return text == "true"


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _not(value)
    return value


def _widths_from_text(text: str) -> tuple[int, ...]:
    return () if text == "none" else tuple(int(part) for part in text.split(","))


def _counts(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise _not(value)
    return tuple(_count(item) for item in value)


def _seeds_from_text(text: str) -> int | tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part) if "," in text else int(text)


def _seeds(value: Any) -> int | tuple[int, ...]:
    return _counts(value) if isinstance(value, list) else _count(value)


def _table_from_text(text: str) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise _not(text)
        try:
            table[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            table[name] = value
    return table


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _not(value)
    return value


COUNT = Kind("N", "a whole number", int, _count)
NUMBER = Kind("X", "a number", _number_from_text, _number)
TEXT = Kind("NAME", "a name", _text, _text)
PATH = Kind("PATH", "a path", _text, _text)
SWITCH = Kind("true|false", "true or false", _switch_from_text, _switch)
FLAG = Kind("", "true or false", _switch_from_text, _switch)
WIDTHS = Kind("N,N,…", "whole numbers such as 64,64, or none", _widths_from_text, _counts)
TABLE = Kind("K=V,…", "names with values, such as masspole=0.2,length=0.6", _table_from_text, _table)
SEEDS = Kind("N", "a whole number, or different ones such as 0,2,5", _seeds_from_text, _seeds)
