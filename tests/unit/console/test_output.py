"""The output on stdout: fitted to the width, visible characters only, JSON without control bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.console.cli import output

CELLS = st.none() | st.integers() | st.booleans() | st.floats() | st.text() | st.binary()
ROOT = Path(__file__).parents[3]
HOSTILE = "a\x1b]52;c;x\x07\n\u202e[red]\x7f\x9b"


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int | None
    at: datetime


def test_a_table_is_plain_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["job", "lag", "on"], [["orders", 12, True], ["x", None, False]])
    assert capsys.readouterr().out == "job     lag  on\n------  ---  ---\norders   12  yes\nx         -  no\n"


def test_a_table_without_rows_is_its_headers(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["job"], [])
    assert capsys.readouterr().out == "job\n---\n"


def test_cells_that_are_too_long_are_cut_the_widest_first() -> None:
    lines = output.table_lines(["a", "b"], [["x" * 100, "keep me"]], True, 40)
    assert lines[2] == "x" * 29 + "..  keep me"


@given(st.lists(st.lists(CELLS, min_size=4, max_size=4), max_size=5), st.booleans())
def test_a_table_fits_and_holds_nothing_raw(rows: list[list[object]], ascii_only: bool) -> None:
    for line in output.table_lines(["a", "b", "c", "d"], rows, ascii_only, 80):
        assert sum(2 if output._advance(c) == 2 else output._advance(c) for c in line) <= 80
        assert line.isprintable()
        assert line.isascii() or not ascii_only


def test_a_paragraph_breaks_no_command_no_name_and_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    command = "`slotkeeper slots reset ods.orders-of-today orders_rt --to snapshot --on-existing replace`"
    output.paragraph("do", f"verify the target first, then {command}, which is a plan; " + "x" * 90 + " \ue000")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "do  verify the target first, then"
    assert lines[1] == f"    {command},"
    assert lines[2:] == ["    which is a plan;", "    " + "x" * 90, "    \\ue000"]


def test_hostile_cells_are_made_visible(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["x"], [[HOSTILE]])
    output.line(HOSTILE)
    output.block(f"one\n{HOSTILE}")
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    assert "[red]" in out


def test_json_is_ascii_without_control_bytes_and_reads_back(capsys: pytest.CaptureFixture[str]) -> None:
    output.as_json({"x": HOSTILE})
    out = capsys.readouterr().out
    assert out.strip().isascii() and out.strip().isprintable()
    assert json.loads(out) == {"x": HOSTILE}


@given(st.recursive(CELLS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8))
def test_any_value_becomes_one_clean_line_of_json(value: object) -> None:
    text = output.json_text(value)
    assert text.isascii() and text.isprintable()
    json.loads(text)


def test_values_of_slotkeeper_become_plain_json() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    value = {
        "p": Point(None, at),
        "c": Colour.RED,
        "f": Path("/x"),
        "n": float("nan"),
        "d": timedelta(seconds=2),
        "t": (1,),
    }
    assert json.loads(output.json_text(value)) == {
        "p": {"x": None, "at": "2026-01-02T01:04:05Z"},
        "c": "red",
        "f": "/x",
        "n": None,
        "d": 2.0,
        "t": [1],
    }


def test_json_lines_are_one_value_each(capsys: pytest.CaptureFixture[str]) -> None:
    output.as_jsonl([{"a": 1}, "b\nc"])
    assert capsys.readouterr().out == '{"a": 1}\n"b\\nc"\n'


def test_a_narrow_terminal_goes_without_spare_columns_before_anything_is_cut() -> None:
    headers, row = ["id", "kind", "where", "message"], [17, "I", "amount", "value out of range for numeric(12,2)"]
    assert output.table_lines(headers, [row], True, 80, ["kind", "where"])[0].split() == headers
    narrow = output.table_lines(headers, [row], True, 44, ["kind", "where"])
    assert narrow[0].split() == ["id", "message"] and narrow[2] == "17  value out of range for numeric(12,2)"
    some = output.table_lines(headers, [row], True, 52, ["kind", "where"])
    assert some[0].split() == ["id", "where", "message"]


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [(["docs", "runbook"], ""), (["docs", "runbook"], "1"), (["--help"], "")],
    ids=["long", "long, unbuffered", "short"],
)
def test_an_answer_onto_a_full_disk_is_one_line_and_no_defect(words: list[str], unbuffered: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "slotkeeper.console", *words],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60, env=env,
        )  # fmt: skip
    said = "slotkeeper: warning: cannot write to standard output: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, said)
