"""Exported files are readable only by their owner, show control characters visibly, and contain no spreadsheet
formulas."""

from __future__ import annotations

import csv
import io
import json
import stat
from datetime import datetime, timezone
from pathlib import Path

import pytest

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.export import as_csv, defused, exported
from slotkeeper.console.views.rows import Column, Row

COLUMNS = (Column("mark", "", 1), Column("job", "JOB", 8), Column("lag", "LAG", 4, right=True, least=200))
AT = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)


def rows(*values: str) -> list[Row]:
    return [Row(f"k{n}", Level.WARNING, {"mark": "!", "job": value, "lag": "-5"}) for n, value in enumerate(values)]


def test_all_columns_of_all_rows_are_written_for_their_owner_only(tmp_path: Path) -> None:
    result = exported(tmp_path / "state", "Job log", COLUMNS, rows("orders", "a\x1b]52;c;x\x07b"), AT)
    assert result.ok and "exported 2 rows" in result.text
    files = sorted((tmp_path / "state" / "exports").iterdir())
    assert [one.name for one in files] == ["job-log-20261121T023107.csv", "job-log-20261121T023107.json"]
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700
    for one in files:
        assert not any(byte < 32 and byte not in b"\r\n" for byte in one.read_bytes())
    made = json.loads(files[1].read_text("utf-8"))
    assert made["rows"][0] == {"severity": "warning", "key": "k0", "job": "orders", "lag": "-5"}
    found = list(csv.reader(io.StringIO(files[0].read_text("utf-8"))))
    assert found[0] == ["severity", "key", "JOB", "LAG"] and found[1] == ["warning", "k0", "orders", "-5"]


@pytest.mark.parametrize(
    "payload",
    ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "=HYPERLINK('http://x')", "\uff1d1+1", "-", "-5s"],
)
def test_no_cell_begins_as_a_formula_does(payload: str) -> None:
    cell = list(csv.reader(io.StringIO(as_csv(COLUMNS, rows(payload)))))[1][2]
    assert cell.startswith("'")


@pytest.mark.parametrize("number", ["-5", "+3.25", "-1e9", "-2.5%", "12", "0"])
def test_numbers_stay_numbers(number: str) -> None:
    assert defused(number) == number


def test_a_folder_that_others_can_write_is_refused_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o777)
    result = exported(folder, "Jobs", COLUMNS, rows("orders"), AT)
    assert not result.ok and result.text.startswith("not exported")
