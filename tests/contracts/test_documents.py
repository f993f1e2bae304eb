"""Every Python block of the README and the docs runs as it is printed, and links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "block", "exec"), {"__name__": "block"})


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text("utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_second_order_momentum_fits_in_a_loop_that_is_not_ours() -> None:
    namespace: dict[str, object] = {"__name__": "example"}
    exec(compile((ROOT / "examples" / "optax_loop.py").read_text("utf-8"), "optax_loop", "exec"), namespace)
    curve = namespace["main"](300)  # type: ignore[operator]
    assert sum(curve[-50:]) / 50 < 0.4 * sum(curve[:10]) / 10
