"""The tests that the page on security names exist: without its test, a protection could be lost unnoticed."""

from __future__ import annotations

import re

from tests.architecture.checkout import ROOT

TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def missing(text: str) -> list[str]:
    """The tests that a text names and that do not exist."""
    found = []
    for file, name in TEST.findall(text):
        path = ROOT / file
        if not path.is_file() or f"def {name}(" not in path.read_text("utf-8"):
            found.append(f"{file}::{name}")
    return found


def test_every_threat_has_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "security.md").read_text("utf-8")
    rows = text.partition("## Threats")[2].partition("\n## ")[0].splitlines()[4:]
    threats = [row for row in rows if row.startswith("| ")]
    assert len(threats) >= 10
    assert [row for row in threats if not TEST.search(row)] == []
    assert missing(text) == []


def test_a_test_that_is_not_there_is_reported() -> None:
    page = "`tests/unit/test_retry.py::test_no_such` `tests/no/such.py::test_x`"
    assert missing(page) == ["tests/unit/test_retry.py::test_no_such", "tests/no/such.py::test_x"]
