"""Which JAX releases can hang, and the one warning that says so.

On few cores jaxlib 0.10.0 to 0.10.2 can wait for itself for ever when one compiled program holds several
batched Cholesky or QR factorisations that do not depend on each other. What would cure it is an XLA flag that
must be in the environment before JAX's backend starts, which a library imported later cannot ensure; so the
remedy is the version.
"""

import re
import warnings
from importlib import metadata

SUPPORTED = "jax>=0.9.2,<0.10"

_HANGS = re.compile(r"0\.10\.[012](?!\d)")


def can_hang(jaxlib_version: str) -> bool:
    """Whether batched factorisations can hang under this jaxlib.

    >>> can_hang("0.10.2"), can_hang("0.9.2")
    (True, False)
    """
    return _HANGS.match(jaxlib_version) is not None


def warn_if_jax_can_hang() -> None:
    """Warn once, in one line, if the installed jaxlib is known to hang. Does not import JAX."""
    try:
        installed = metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        return
    if can_hang(installed):
        warnings.warn(
            f"jaxlib {installed} can hang for ever in batched Cholesky and QR (orthogonal initialisation, "
            f'K-FAC, natural gradients); install one that does not: pip install "{SUPPORTED}"',
            RuntimeWarning,
            stacklevel=3,
        )
