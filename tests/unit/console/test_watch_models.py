"""The six lines that `jobs watch` shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.console.commands.watch import LINES, list_lines
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobReport
from slotkeeper.core.state.rows import EventRow
from tests.tui.filled import NOW, lane

RUNNING = JobFacts("orders_rt", Level.FINE, JobState.RUNNING, alive=True, reported_at=NOW)
REPORT = JobReport(
    "orders_rt", "r", "RUNNING", lanes=(lane("dn_1", 88_512_330), lane("dn_2", 88_512_300)), changes=7, unit="commits"
)


@pytest.mark.parametrize(
    "job",
    [
        RUNNING,
        replace(RUNNING, report=REPORT, behind=30, current=True),
        replace(RUNNING, report=replace(REPORT, chunks_done=3, chunks_total=9, snapshot_rows=12_000)),
        JobFacts("orders_rt", Level.CRITICAL, JobState.FAILED, "SLOT LOST: dn_1: gone"),
        JobFacts("orders_rt", Level.REST, None, "never started"),
    ],
)
def test_there_are_always_six_lines_of_one_line_each(job: JobFacts) -> None:
    found = list_lines(job, (), NOW)
    assert len(found) == LINES
    assert not any("\n" in text for _, text in found)


def test_what_is_not_known_is_a_question_mark() -> None:
    assert list_lines(RUNNING, (), NOW)[3][1] == "behind  ?, worst lane ? of ?; events applied ?"


def test_the_worst_dn_and_the_copy_are_named() -> None:
    job = replace(RUNNING, report=replace(REPORT, chunks_done=3, chunks_total=9), behind=30, current=True)
    said = [text for _, text in list_lines(job, (), NOW)]
    assert said[3] == "behind  30 commits, worst DN dn_2 of 2; events applied 7"
    assert said[4] == "copy    chunks 3 of 9, rows 0"


def test_hostile_texts_are_made_visible() -> None:
    job = replace(RUNNING, level=Level.CRITICAL, name="\x1b[2J", wrong="\x9b31m", safe="\u202e")
    event = EventRow(1, NOW, "orders_rt", "\x07", "\x1b]0;x\x07")
    shown = "".join(text for _, text in list_lines(job, (event,), NOW))
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 or char == "\u202e" for char in shown)
