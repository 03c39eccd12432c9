"""Every parameter of the vendor has a test of its effect, or a reason for having none: a check of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.parameters import READING, page

ROOT = Path(__file__).parents[3]
WALKED = ("[jobs.X.binlog]",)
"""The tables whose rows must each name a test of the key's effect, not only of how it is read."""


def _rows(title: str) -> list[list[str]]:
    """The cells of a table of the page: key, documented name, default, unit, meaning, test."""
    part = page().split(f"## `{title}`", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


CASES = [pytest.param(*row[:6:5], id=row[0].strip("`")) for title in WALKED for row in _rows(title)]


def fault(key: str, test: str) -> str:
    """The error in a row's last cell; "" if there is none."""
    if test.startswith("does not apply here: "):
        return "" if len(test) > len("does not apply here: ") else "no reason is given"
    path = ROOT / test.strip("`")
    if test.strip("`").startswith(READING) or not path.is_file():
        return f"{test} is not a file that tests an effect"
    if not re.search(rf"\b{key}\b|def test_{key}_", path.read_text()):
        return f"{test} does not name {key}"
    return ""


@pytest.mark.parametrize(("key", "test"), CASES)
def test_a_parameter_has_an_effect_test_that_names_it_or_a_reason(key: str, test: str) -> None:
    assert fault(key.strip("`"), test) == ""


def test_the_walk_finds_what_is_missing() -> None:
    assert fault("binlog", "`tests/unit/config`")
    assert fault("binlog_x", "`tests/integration/test_binlog_parameters.py`")
    assert fault("binlog", "`tests/integration/absent.py`")
    assert fault("binlog", "does not apply here: ")
    assert fault("binlog_sleep_time", "`tests/integration/test_binlog_parameters.py`") == ""


def test_all_nineteen_parameters_of_the_vendor_are_walked() -> None:
    assert len(CASES) >= 19
