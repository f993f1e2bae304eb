"""How annotations are checked while the tests run: beartype on every function of the package."""

from collections.abc import Callable
from typing import Any

import beartype

# Where a float is asked for, an int will do, as type checkers have it.
_checked = beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check `function` at each call, unless it is a constructor.

    JAX rebuilds pytrees with placeholders and with leaves of other shapes (`vmap` axes, `None`, shape
    structs), and what a caller passes wrongly to a constructor is for the constructor's own checks to say.
    """
    return function if function.__name__ == "__init__" else _checked(function)
