"""A command's progress: printed at a rate suitable for a log, shown as a bar by the console, never taken for an
error."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from slotkeeper.console.actions.outcome import complaint, how_far, reset_steps
from slotkeeper.console.actions.record import Said
from slotkeeper.console.actions.runner import SHOWN_BYTES
from slotkeeper.console.cli.diagnostics import AT_LEAST, Progress
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.views.how_far import HowFar, newest
from slotkeeper.console.views.lanes import copy_of, figures
from tests.unit.console.test_watch_models import REPORT, RUNNING


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_an_action_of_a_second_prints_nothing_and_a_longer_one_a_line_per_hundredth(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]
    progress = Progress("orders_rt", "rows compared", lambda: now[0])
    for now[0] in (0.2, 0.9):
        progress.at(10, 1_000)
    assert said(capsys) == []
    now[0] = 1.1
    progress.at(250, 1_000)
    now[0] = 4.0
    progress.at(500, 1_000)
    assert said(capsys) == [
        "slotkeeper: orders_rt: 250 of 1,000 rows compared",
        "slotkeeper: orders_rt: 500 of 1,000 rows compared, 125 rows/s, 4s left",
    ]
    now[0] = 5.5
    progress.at(501, 1_000)
    assert said(capsys) == [], "less than a hundredth more"
    now[0] = 4.0 + AT_LEAST + 0.1
    progress.at(502, 1_000)
    assert len(said(capsys)) == 1


def test_a_comparison_of_a_day_leaves_a_log_that_is_read_whole(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    progress = Progress("orders_rt", "rows compared", lambda: now[0])
    for second in range(86_400):
        now[0] = float(second)
        progress.at(second * 1_000_000, 86_400_000_000)
    lines = said(capsys)
    assert sum(len(line) + 1 for line in lines) < SHOWN_BYTES
    last = newest("\n".join(lines))
    assert last is not None and last.share > 0.99


def test_a_bar_is_read_from_what_a_command_said_last_and_no_complaint_of_it() -> None:
    err = "slotkeeper: a: 1,000 of 4,000 rows compared\nslotkeeper: a: 3,000 of 4,000 rows compared, 2s left\n"
    ((level, text),) = how_far("a", Said("", err), None, ascii_only=True)
    assert level is Level.BUSY
    assert text == "[#########...]  75 %  3,000 of 4,000 rows compared, 2s left"
    assert complaint(err) == ("", "")
    assert complaint(f"slotkeeper: sink mart: connection refused\n  is it up?\n{err}") == (
        "sink mart: connection refused",
        "is it up?",
    )
    assert len(text) <= 78, "one line of a terminal of 80 columns"


def test_a_copy_has_a_bar_and_the_time_left_at_its_pace_and_none_once_it_streams() -> None:
    report = replace(REPORT, lanes=(), chunks_done=31, chunks_total=50, snapshot_rows=310_000)
    job = replace(RUNNING, report=report, rate=19_000.0)
    assert copy_of(job) == HowFar("copy", 31, 50, "chunks copied", "10s", "19.0k rows/s")
    shown = figures(job, datetime.now(timezone.utc), ascii_only=True)
    assert shown.startswith("[#######.....] 62 %   chunks 31/50   310.0k rows, 10s left   rows/s 19.0k")
    assert len(shown) <= 78
    assert copy_of(replace(job, rate=None)) == HowFar("copy", 31, 50, "chunks copied")
    assert copy_of(RUNNING) is None


def test_entries_that_are_replayed_have_a_bar_with_their_pace() -> None:
    err = "slotkeeper: orders_rt: 30 of 120 entries replayed, 6 entries/s, 15s left\n"
    ((_, text),) = how_far("orders_rt", Said("", err), None, ascii_only=True)
    assert text == "[###.........]  25 %  30 of 120 entries replayed, 6 entries/s, 15s left"


def test_a_running_reset_shows_its_lanes_as_a_bar_and_its_steps() -> None:
    line = HowFar("orders_rt, move slot", 3, 12, "lanes moved").line
    drawn = [text for _, text in reset_steps(Said("", f"slotkeeper: {line}\n"), ascii_only=True)]
    assert drawn == [
        "Lanes    [###.........]  25 %  3 of 12 lanes moved",
        "Steps    ok backup   ok end older sessions   ok write positions   ~ move slot   - check",
    ]
    assert reset_steps(Said("", "slotkeeper: orders_rt: 3 of 12 rows compared\n"), ascii_only=True) == []
