"""Text from anywhere, made harmless in markup and in data."""

import html
import json
import math
import re
from typing import Any


def escape(text: str) -> str:
    """Text that stays text, between tags and in attributes."""
    return html.escape(text, quote=True)


def prose(text: str) -> str:
    """Escaped, and what stands in backticks as code."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))


def json_in_script(value: Any) -> str:
    """JSON that cannot end the script element it stands in; what is not finite is null.

    Only ASCII: U+2028 and its like are escaped too.
    """
    text = json.dumps(_finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
