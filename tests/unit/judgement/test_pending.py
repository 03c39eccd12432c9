"""A job or table that stays PENDING is a warning after a minute, with the reason for the wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.fault import Fault, Severity
from slotkeeper.core.domain.job import JobState, TableReport
from slotkeeper.core.domain.pending import APART, COPIES, said_pending
from slotkeeper.core.domain.report import Condition, Identity, JobReport, JobStatus
from tests.unit.console.judged import stands
from tests.unit.judgement.test_judge import NOW, VIEW, ago, told

DRIVER = Identity(4711, "boot/ns/1", 4711, "r1", "host")
PENDING = replace(
    VIEW, state=JobState.PENDING, driver=DRIVER, report=JobReport("orders", "r1", "PENDING"), changed_at=ago(80)
)
TABLES = (
    TableReport("ods.a", "m.a", "RUNNING", since=ago(500).timestamp()),
    TableReport("ods.b", "m.b", "PENDING", "retrying 3: no answer", since=ago(80).timestamp()),
)


def not_started(view: JobStatus) -> list[Fault]:
    return [one for one in told(view) if one.rule == "not_started"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"driver": None}, "waits for its driver's process"),
        ({"report": None, "reported": False}, "waits for the first report of its driver"),
        ({}, "waits for its first positions"),
        ({"reason": "waiting for transaction 7"}, "waiting for transaction 7"),
    ],
)
def test_a_job_that_stays_pending_is_a_warning_with_what_it_waits_for(more: dict[str, object], words: str) -> None:
    view = replace(PENDING, **more)  # type: ignore[arg-type]
    (one,) = not_started(view)
    assert (one.severity, one.code, one.since) == (Severity.WARNING, "SK-2314", ago(80))
    assert words in one.cause and "jobs logs orders" in one.do
    assert not_started(replace(view, changed_at=ago(59))) == []
    assert said_pending(view, NOW).startswith("PENDING for 1m20s, ") and words in said_pending(view, NOW)


def test_a_start_that_another_fault_explains_is_reported_once() -> None:
    down = Condition("sink", "sink mart", "refused", ago(70).timestamp())
    report = JobReport("orders", "r1", "PENDING", conditions=(down,))
    assert [one.rule for one in told(replace(PENDING, report=report))] == ["sink_fails"]


def test_a_table_that_stays_pending_beside_others_is_a_warning_of_its_own() -> None:
    view = replace(VIEW, driver=DRIVER, report=JobReport("orders", "r1", "RUNNING", tables=TABLES))
    (one,) = not_started(view)
    assert (one.table, one.cause, one.since) == ("ods.b", "PENDING: retrying 3: no answer", ago(80))
    both = JobReport("orders", "r1", "RUNNING", tables=(*TABLES, replace(TABLES[1], source_table="ods.c")))
    (all_of_them,) = not_started(replace(view, report=both))
    assert all_of_them.cause.endswith("; 1 more table waiting"), "of many tables, one is reported"
    early = replace(TABLES[1], since=ago(12).timestamp())
    young = replace(view, report=JobReport("orders", "r1", "RUNNING", tables=(TABLES[0], early)))
    assert not_started(young) == []
    assert "ods.b PENDING for 12s, retrying 3: no answer" in stands(young, NOW).wrong


@pytest.mark.parametrize("reason", [f"{COPIES}ods.a", APART])
def test_a_table_that_waits_for_the_copy_of_another_may_do_so_for_hours(reason: str) -> None:
    view = replace(
        VIEW, driver=DRIVER, report=JobReport("orders", "r1", "RUNNING", tables=(replace(TABLES[1], reason=reason),))
    )
    assert not_started(view) == [] and reason in said_pending(view, NOW)


def test_a_job_without_a_process_is_not_waiting_for_anything() -> None:
    assert not_started(replace(PENDING, driver_alive=False, supervisor_alive=False)) == []
