"""A page: one HTML file that needs nothing else. No request leaves it, and text from outside stays text.

    page = Page("Title", "what it is", sections=[Section("Results", "results", blocks=[Text("…"), Table(…)])])
    page.write(Path("report.html"))

The blocks are plain data (`blocks.py`); charts are drawn twice, once here so that the page prints and is read without
JavaScript (`lines.py`), and again by `assets/page.js` when the reader switches an axis or hides a curve. The page's
policy lets exactly our own style and script run, by their hashes: markup that got in all the same could do nothing.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pgsom.checks import wrong
from pgsom.report.blocks import (
    Bar,
    BarChart,
    Block,
    Code,
    Columns,
    Facts,
    LineChart,
    Series,
    Table,
    Text,
    check_blocks,
)
from pgsom.report.escaping import escape, prose
from pgsom.report.markup import block_markup

__all__ = [
    "Bar",
    "BarChart",
    "Code",
    "Columns",
    "Facts",
    "LineChart",
    "Page",
    "Section",
    "Series",
    "Table",
    "Text",
]
ANCHOR = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Section:
    """A heading, the name that links lead to (``page.html#anchor``), and what stands below."""

    heading: str
    anchor: str
    blocks: Sequence[Block]

    def __post_init__(self) -> None:
        if not isinstance(self.heading, str) or not self.heading:
            raise wrong("heading", self.heading, "accepted is text")
        if not isinstance(self.anchor, str) or not ANCHOR.fullmatch(self.anchor):
            raise wrong("anchor", self.anchor, "accepted are small letters, digits and dashes, a letter first")
        check_blocks(self.blocks)


@dataclass(frozen=True)
class Page:
    """A title, a line below it, and sections."""

    title: str
    subtitle: str
    sections: Sequence[Section]

    def __post_init__(self) -> None:
        for name in ("title", "subtitle"):
            if not isinstance(getattr(self, name), str):
                raise wrong(name, getattr(self, name), "accepted is text")
        anchors = [section.anchor for section in self.sections]
        for anchor in anchors:
            if anchors.count(anchor) > 1:
                raise wrong("anchor", anchor, "given twice; accepted are different ones")

    def html(self) -> str:
        """The whole file."""
        style, script = _asset("page.css"), _asset("page.js")
        policy = (
            f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
            "base-uri 'none'; form-action 'none'"
        )
        sections = "\n".join(map(_section, self.sections))
        return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{escape(self.title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header>
<h1>{escape(self.title)}</h1>
<p class="subtitle">{prose(self.subtitle)}</p>
{_contents(self.sections)}</header>
<main>
{sections}
</main>
<script>{script}</script>
</body>
</html>
"""

    def write(self, path: Path) -> Path:
        """Write the file, all or nothing."""
        temporary = path.with_name(path.name + ".part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # A file name may hold bytes that are no text; they become question marks.
            temporary.write_bytes(self.html().encode("utf-8", errors="replace"))
            temporary.replace(path)
        except OSError as error:
            raise wrong("path", str(path), f"cannot be written ({error.strerror}); accepted is a file") from None
        return path


def _section(section: Section) -> str:
    blocks = "\n".join(map(block_markup, section.blocks))
    return (
        f'<section aria-labelledby="{section.anchor}">\n'
        f'<h2 id="{section.anchor}">{escape(section.heading)}</h2>\n{blocks}\n</section>'
    )


def _contents(sections: Sequence[Section]) -> str:
    if len(sections) < 2:
        return ""
    links = "".join(f'<li><a href="#{part.anchor}">{escape(part.heading)}</a></li>' for part in sections)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n'


def _asset(name: str) -> str:
    return resources.files("pgsom.report").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What a Content-Security-Policy calls this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
