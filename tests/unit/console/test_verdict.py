"""The one-line verdict and the figures below it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from slotkeeper.console.monitor.snapshot import JobFacts, LanePace, Level, Local, TableSeen
from slotkeeper.console.views.verdict import Figure, figure_lines, figures, states, verdict
from slotkeeper.core.domain.fault import Fault, Party, Severity
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobReport, LaneReport
from slotkeeper.core.state.rows import ErrorRow

NOW = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)
LANE = LaneReport("dn_1", 1, "running", "idle", "1/0", "1", "1", 9, 1.0, at=1, latest_at=1, behind=0)
JOB = JobFacts(
    "orders_rt", Level.FINE, JobState.RUNNING, alive=True, report=JobReport("orders_rt", "r", "RUNNING", lanes=(LANE,)),
    current=True, lag_seconds=12.0, rate=325.0, throughput={"dn_1": LanePace(12.0)}, spark=(None, 5.0),
)  # fmt: skip
HELD = Fault("lock_waits", Party.LOCK, "mart.orders", Severity.CRITICAL, "locked by pid 3234", job="orders_rt")
DISK = Fault("disk_nearly_full", Party.MACHINE, "this host", Severity.WARNING, "4 GiB are free")


def test_the_worst_fault_is_the_verdict_and_the_others_are_one_key_away() -> None:
    local = Local(NOW, (JOB,), faults=(HELD, DISK))
    first, second = (verdict(local, NOW, place) for place in (0, 1))
    assert (first.level, first.words, first.job) == (
        Level.CRITICAL, "1 of 2 \u00b7 orders_rt: mart.orders: locked by pid 3234", "orders_rt",
    )  # fmt: skip
    assert (second.level, second.words, second.job) == (
        Level.WARNING, "2 of 2 \u00b7 this host: 4 GiB are free", "",
    )  # fmt: skip
    assert verdict(local, NOW, 2) == first
    assert verdict(replace(local, faults=(HELD,)), NOW).words.startswith("orders_rt: ")


@pytest.mark.parametrize("room", [30, 40, 52, 60, 70, 80, 116])
def test_a_cause_is_divided_between_clauses_and_no_clause_is_lost_or_told_twice(room: int) -> None:
    cause = "pooler: failed to create 1 connections, Error Message: remote node dn_3, detail: no route"
    fault = Fault(
        "dn_fails", Party.DN, "dn_3", Severity.WARNING, cause, "1 of 4 DNs waits", since=NOW - timedelta(seconds=40),
        job="orders_rt",
    )  # fmt: skip
    found = verdict(Local(NOW, (JOB,), faults=(fault,)), NOW, apart="; ", room=room)
    said = found.words.partition("; ")[0].removeprefix("orders_rt: dn_3: ").removesuffix(" ..")
    assert len(found.words) <= room and found.fault is fault
    if found.rest != cause:
        assert cause in (f"{said}, {found.rest}", f"{said}: {found.rest}", said)
    if room >= 60:
        assert ("40 s" in found.words, "DNs waits" in found.words) == (room >= 70, room >= 80)


def test_without_a_fault_it_says_what_the_jobs_do_and_what_is_proven() -> None:
    copying = replace(JOB, name="b", state=JobState.SNAPSHOT)
    gone = replace(JOB, name="c", state=JobState.STOPPED, last_known=True)
    found = verdict(Local(NOW, (gone, copying, JOB)), NOW, apart="; ")
    assert found.words.startswith("No problems; 1 job streaming, 1 copying, 1 ") and "verified" in found.words
    assert states([JOB, replace(JOB, name="d")]) == "2 jobs streaming"


def test_no_escape_sequence_of_a_name_reaches_a_line() -> None:
    evil = replace(HELD, job="a\x1b[31m\u202e[bold]", cause="b\x07\n")
    words = verdict(Local(NOW, (JOB,), faults=(evil,)), NOW).words
    assert not {"\x1b", "\x07", "\n", "\u202e"} & set(words) and "[bold]" in words


def _by_label(local: Local, width: int, tables: tuple[TableSeen, ...] = ()) -> dict[str, Figure]:
    return {one.label.split()[0]: one for one in figures(local, tables, NOW, width, 1, True)}


def test_five_figures_at_80_columns_and_eight_from_120_on() -> None:
    late = ErrorRow("orders_rt", "s", 1, NOW, NOW - timedelta(seconds=2), "source", "08006", "refused")
    old = replace(late, last_at=NOW - timedelta(hours=2))
    local = Local(NOW, (JOB,), errors=(late, old))
    few, many = _by_label(local, 80), _by_label(local, 120)
    assert list(few) == ["STREAMING", "WORST", "ROWS/S", "NEXT", "ERRORS"] and len(many) == 8
    assert (few["WORST"].value, few["WORST"].more, few["WORST"].role) == ("12 s", "dn_1", "warn-word")
    assert many["WORST"].more == "dn_1, orders_rt"
    assert (few["ROWS/S"].value, few["ROWS/S"].more) == ("325", " 1")
    assert (few["ERRORS"].value, few["ERRORS"].more, many["ERRORS"].more) == ("1 open", "1/h", "1 in 1 h, last 2 s ago")
    assert (few["NEXT"].value, few["NEXT"].more) == ("-", "not seen yet")


def test_of_a_job_without_a_process_no_figure_is_of_now() -> None:
    gone = replace(JOB, last_known=True, alive=False)
    found = _by_label(Local(NOW, (gone,)), 120)
    assert found["STREAMING"].value == "0"
    assert {found[name].value for name in ("WORST", "ROWS/S", "SINK")} == {"-"}


@pytest.mark.parametrize("width", [70, 80, 119, 120, 160, 200])
def test_figures_are_never_wider_than_the_screen(width: int) -> None:
    local = Local(NOW, (replace(JOB, name="n" * 60, lag_seconds=99_999.0),))
    for line in figure_lines(figures(local, (), NOW, width, 3), width):
        assert len("".join(words for words, _ in line)) <= width
