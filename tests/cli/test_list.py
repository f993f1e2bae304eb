"""``pgsom list``."""

import json
from typing import Any

import pytest

from pgsom.cli.listing import SECTIONS
from pgsom.cli.main import main


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["list", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_everything(capsys: pytest.CaptureFixture[str]) -> None:
    sections = listed(capsys)
    assert list(sections) == list(SECTIONS)
    for entries in sections.values():
        assert entries
        for entry in entries:
            assert entry["name"] and entry["summary"] and "\n" not in entry["summary"]


@pytest.mark.parametrize("section", SECTIONS)
def test_one_section_is_one_line_each(section: str, capsys: pytest.CaptureFixture[str]) -> None:
    entries = listed(capsys, section)[section]
    assert main(["list", section]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading == f"{section}:"
    assert [line.split()[0] for line in lines] == [entry["name"] for entry in entries]


def test_estimators_say_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    declared = {
        entry["name"]: (entry["biased"], entry["positive_semi_definite"])
        for entry in listed(capsys, "estimators")["estimators"]
    }
    assert declared["gauss-newton"] == (True, True)
    assert declared["causal"] == (False, False)
    main(["list", "estimators"])
    lines = capsys.readouterr().out
    assert "(unbiased, of either sign)" in lines and "(biased, positive semi-definite)" in lines
