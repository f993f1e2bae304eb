"""Pages in a real, headless Chromium: drawn, touched, resized, printed; nothing leaves them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgsom.report.page import Page
from tests.report.browser import Browser
from tests.report.conftest import example
from tests.report.test_page import HOSTILE

# How it is known that something ran: each of these sets window.ran.
INJECTION = (
    "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"
    "\"><svg onload='window.ran = 3'><a href='javascript:window.ran = 4'>" + HOSTILE
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example().write(tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture
def shown(browser: Browser, file: Path) -> Iterator[Browser]:
    """The browser with the page; whatever a test does, the console stays empty and nothing else is asked for."""
    browser.look()
    browser.open(file)
    yield browser
    assert browser.console() == []
    assert browser.requests() == [file.as_uri()]


def test_the_script_draws_what_stood_there_before(shown: Browser, file: Path) -> None:
    drawn = """
        const PLACE = ["x", "y", "text-anchor"];
        const before = new DOMParser().parseFromString(arguments[0], "text/html");
        const all = (root, selector, read) => [...root.querySelectorAll(selector)].map(read);
        const picture = (root) => [
            ...all(root, ".lines path", (path) => path.getAttribute("d")),
            ...all(root, ".lines text", (t) => [t.textContent, ...PLACE.map((k) => t.getAttribute(k))]),
            ...all(root, ".lines .grid line", (line) => ["x1", "x2", "y1", "y2"].map((k) => line.getAttribute(k))),
        ].map(String);
        return [picture(before), picture(document)];
    """
    before, after = shown.run(drawn, file.read_text(encoding="utf-8"))
    assert before == after
    assert len(before) > 40


def test_the_pointer_reads_every_curve_off(shown: Browser) -> None:
    shown.point(".plot", 0.5)
    assert shown.text(".readout caption") == "updates word: 20"
    cells = shown.run("return [...document.querySelectorAll('.readout td')].map((cell) => cell.innerText.trim())")
    assert cells == ["first word", "50", "[45, 55]", "second", "500", "[495, 505]"]
    dots = shown.run("return [...document.querySelectorAll('.dot')].map((dot) => dot.getAttribute('cx'))")
    assert dots == ["50%", "50%"]
    shown.point("h1", 0.5)
    assert shown.run("return document.querySelector('.readout').hidden")


def test_the_keyboard_reads_them_off_too(shown: Browser) -> None:
    shown.press(".plot", "Home")
    shown.press(".plot", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert shown.text(".readout caption") == "updates word: 2"
    said = shown.run("return document.querySelector('.plot').getAttribute('aria-valuetext')")
    assert said == "updates word 2: first word 5 [0, 10]; second 50 [45, 55]"
    shown.press(".plot", "End")
    assert shown.text(".readout caption") == "updates word: 40"
    shown.press(".plot", "Escape")
    assert shown.run("return document.querySelector('.readout').hidden")


def test_a_legend_entry_hides_its_curve_and_the_axis_follows(shown: Browser) -> None:
    names = "return [...document.querySelector('.curves').children].map((curve) => curve.dataset.name)"
    top = "return document.querySelector('.y-axis').lastElementChild.textContent"
    second = ".legend button:nth-child(2)"
    assert (shown.run(names), shown.run(top)) == (["first word", "second"], "1000")
    shown.click(second)
    assert (shown.run(names), shown.run(top)) == (["first word"], "100")
    assert shown.run("return document.querySelector(arguments[0]).getAttribute('aria-pressed')", second) == "false"
    shown.point(".plot", 0.5)
    assert "second" not in shown.text(".readout")
    shown.click(".legend button:nth-child(1)")
    assert shown.run(names) == []
    shown.point(".plot", 0.4)
    shown.click(second)
    assert (shown.run(names), shown.run(top)) == (["second"], "1000")


def test_the_axis_switches(shown: Browser) -> None:
    ticks = "return [...document.querySelector('.lines .x-axis').children].map((tick) => tick.textContent)"
    assert shown.run(ticks) == ["0", "10", "20", "30", "40"]
    shown.click(".switch button:nth-child(2)")
    assert shown.run(ticks) == ["0", "100", "200", "300"]
    assert shown.text(".lines .x-label") == "episodes per seed word"
    pressed = "return [...document.querySelector('.switch').children].map((b) => b.getAttribute('aria-pressed'))"
    assert shown.run(pressed) == ["false", "true", "false"]
    # 40 updates are 160 episodes of the first curve and 320 of the second, so only that goes on to the end.
    shown.point(".plot", 0.99)
    assert [line.split("\t")[1] for line in shown.text(".readout tbody").splitlines() if line] == ["–", "1000"]


def test_a_group_of_bars_hides(shown: Browser) -> None:
    shown.click(".bars .legend button:nth-child(1)")
    visible = "return [...document.querySelectorAll('.bars .group')].map((group) => group.checkVisibility())"
    assert shown.run(visible) == [False, True]


def test_hostile_text_does_nothing(browser: Browser, tmp_path: Path) -> None:
    file = example(INJECTION).write(tmp_path / "page.html")
    browser.look()
    browser.open(file)
    browser.point(".plot", 0.5)
    browser.click(".legend button:nth-child(1)")
    assert browser.run("return window.ran ?? null") is None
    assert browser.run("return document.images.length") == 0
    assert browser.text("h1").startswith("title </script><script>window.ran = 1</script>")
    assert (browser.console(), browser.requests()) == ([], [file.as_uri()])


def test_what_got_in_all_the_same_may_not_run(browser: Browser, tmp_path: Path) -> None:
    """The page's policy alone stops a script, a handler, a style and a request."""
    file = tmp_path / "page.html"
    text = Page("t", "", []).html()
    image = "<img src='http://127.0.0.1:9/x.png' onerror='window.ran = 2'>"
    file.write_text(text.replace("<main>", f"<main><script>window.ran = 1</script>{image}<p style='color: red'>"))
    browser.open(file)
    assert browser.run("return window.ran ?? null") is None
    assert len([line for line in browser.console() if "Content Security Policy" in line]) >= 3


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_no_width_needs_scrolling_sideways(browser: Browser, tmp_path: Path, width: int) -> None:
    file = example("along_" + "word" * 30).write(tmp_path / "page.html")
    browser.look(width=width, height=800)
    browser.open(file)
    browser.point(".plot", 0.45)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.querySelector('.readout').getBoundingClientRect().right") <= width
    assert browser.run("return document.querySelector('.plot').getBoundingClientRect().width") > width / 3.5
    inside = "const box = document.querySelector('.readout'); return box.scrollWidth <= box.clientWidth"
    assert browser.run(inside)


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_enough_contrast(browser: Browser, file: Path, dark: bool) -> None:
    browser.look(dark=dark)
    browser.open(file)
    browser.click(".legend button:nth-child(1)")
    browser.point(".plot", 0.5)
    found = browser.run(
        """
        const light = ([r, g, b]) => [[r, 0.2126], [g, 0.7152], [b, 0.0722]].reduce((sum, [c, weight]) =>
            sum + weight * (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4), 0);
        const parse = (text) => text.match(/[\\d.]+/g).map(Number);
        const paper = (e) => {
            for (; e; e = e.parentElement) {
                const colour = parse(getComputedStyle(e).backgroundColor);
                if (colour.length === 3 || colour[3] === 1) return colour;
            }
        };
        const texts = [...document.querySelectorAll("body *:not(script)")].filter((e) =>
            [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()));
        return texts.map((e) => {
            const ink = parse(getComputedStyle(e)[e instanceof SVGElement ? "fill" : "color"]);
            const [a, b] = [light(ink), light(paper(e))].sort((x, y) => x - y);
            return [(b + 0.05) / (a + 0.05), e.tagName + "." + e.className + ": " + e.textContent.slice(0, 40)];
        });
        """
    )
    assert len(found) > 60
    assert [what for ratio, what in found if ratio < 4.5] == []


def test_it_prints(browser: Browser, file: Path) -> None:
    browser.look(dark=True)
    browser.open(file)
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 4
    browser.devtools("Emulation.setEmulatedMedia", {"media": "print"})
    hidden = "return [...document.querySelectorAll('.switch, nav, .numbers')].every((e) => !e.checkVisibility())"
    assert browser.run(hidden)
    assert browser.run("return getComputedStyle(document.body).color") == "rgb(28, 32, 36)"
    browser.devtools("Emulation.setEmulatedMedia", {"media": ""})
