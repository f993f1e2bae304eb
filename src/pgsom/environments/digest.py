"""A fingerprint of contents, by which environments made of arrays are compared and hashed."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np


def digest_of(fields: Mapping[str, Any]) -> str:
    """The same for the same names and values; arrays count with shape and contents."""
    digest = hashlib.sha256()
    for field in sorted(fields):
        value = fields[field]
        content = (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
        digest.update(repr((field, content)).encode())
    return digest.hexdigest()
