"""Faults that a judgement must not hide, and parties that it must not name as the cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.fault import Severity
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.locks import Blocker, LockWait
from slotkeeper.core.domain.report import Condition, Identity, JobStatus, LaneReport
from slotkeeper.core.domain.source_waits import DDL, SourceWait
from tests.unit.judgement.test_judge import NOW, VIEW, ago, told

DRIVER = Identity(4711, "boot:ns:1", 4711, "r1", "here")
SUPERVISOR = Identity(4712, "boot:ns:2", 4712, "r1", "here")
BY_LOCK = "sink mart (h:5432/m as etl): canceling statement due to lock timeout"


def lane(table: str, error: str) -> LaneReport:
    return LaneReport(
        "dn_1", -1, "running", "waiting", "1/-1", None, None, 0, None, error=error, side="sink",
        source_table=f"ods.{table}", target=f"mart.{table}", label=f"ods.{table} dn_1",
    )  # fmt: skip


def locked(
    *lanes: LaneReport, cause: str = "canceling statement due to lock timeout", party: str = "sink"
) -> JobStatus:
    wait = LockWait(1, "slotkeeper/orders/1", "mart.a", "RowExclusiveLock", ago(9).timestamp(), None, (Blocker(7),))
    names, act = tuple(each.name for each in lanes), "`slotkeeper locks orders` names the session"
    one = Condition(party, "sink mart", cause, ago(9).timestamp(), names, len(lanes), 1, "55P03", "SK-1401", act)
    assert VIEW.report is not None
    return replace(VIEW, report=replace(VIEW.report, lanes=lanes, conditions=(one,), lock_waits=(wait,)))


def test_a_sink_that_refuses_one_table_is_reported_also_while_a_lock_keeps_another_waiting() -> None:
    refused = lane("b", "ods.b dn_1: sink mart (h:5432/m as etl): permission denied for table b")
    found = told(locked(lane("a", BY_LOCK), refused))
    assert [(one.rule, one.cause, one.effect) for one in found if one.rule == "sink_fails"] == [
        ("sink_fails", "permission denied for table b", "1 of 2 DNs waits")
    ]
    (one,) = (one for one in found if one.rule == "sink_fails")
    assert one.code == "SK-1101" and "the GRANT that is missing" in one.do and "slotkeeper locks" not in one.do
    unknown = lane("b", "ods.b dn_1: sink mart (h:5432/m as etl): the moon is full")
    (one,) = (one for one in told(locked(lane("a", BY_LOCK), unknown)) if one.rule == "sink_fails")
    assert (one.code, one.cause) == ("SK-2104", "the moon is full") and one.do.startswith("wait: the job retries")


def test_what_a_lock_makes_fail_is_the_locks_alone() -> None:
    assert [one.rule for one in told(locked(lane("a", BY_LOCK)))] == ["lock_waits"]
    ended = lane("a", "ods.a dn_1: a step did not end in time and was cancelled")
    assert [one.rule for one in told(locked(ended, cause="a step did not end in time", party="process"))] == [
        "lock_waits"
    ]


def test_a_step_that_takes_too_long_at_an_unlocked_target_is_reported() -> None:
    ended = lane("b", "ods.b dn_1: a step did not end in time and was cancelled")
    found = told(locked(ended, cause="a step did not end in time", party="process"))
    assert {one.rule for one in found} == {"lock_waits", "driver_retries"}


def test_a_driver_that_is_gone_is_gone_since_its_last_report_and_not_since_the_job_began_to_run() -> None:
    view = replace(VIEW, driver=DRIVER, driver_alive=False, reported_at=ago(3))
    (one,) = told(view)
    assert (one.rule, one.since) == ("driver_gone", ago(3))


def test_an_earlier_drivers_report_does_not_count_as_silence_of_one_that_has_just_started() -> None:
    begun = replace(VIEW, driver=DRIVER, state=JobState.PENDING, changed_at=ago(4), reported_at=ago(400))
    assert told(begun) == ()
    (one,) = told(replace(begun, changed_at=ago(200)))
    assert (one.rule, one.severity) == ("driver_silent", Severity.WARNING)


def test_a_clock_that_was_set_back_after_a_state_change_makes_no_driver_silent() -> None:
    assert told(replace(VIEW, driver=DRIVER, changed_at=ago(-3_600), reported_at=ago(1))) == ()


@pytest.mark.parametrize(("silent", "severity"), [(1.0, Severity.WARNING), (301.0, Severity.CRITICAL)])
def test_a_driver_that_a_signal_has_stopped_is_reported_as_stopped(silent: float, severity: Severity) -> None:
    view = replace(VIEW, driver=DRIVER, driver_stopped=True, reported_at=ago(silent))
    (one,) = told(view)
    assert (one.rule, one.severity, one.thing) == ("process_stopped", severity, "driver")
    assert "`kill -CONT 4711`" in one.do and ago(0) == NOW


def test_a_supervisor_that_a_signal_has_stopped_is_reported_and_supervises_nothing() -> None:
    view = replace(VIEW, supervisor=SUPERVISOR, supervisor_stopped=True)
    (one,) = told(view)
    assert (one.rule, one.thing, one.severity) == ("process_stopped", "supervisor", Severity.WARNING)
    gone = told(replace(view, driver=DRIVER, driver_alive=False))
    assert {fault.rule for fault in gone} == {"process_stopped", "driver_gone"}
    assert not any("restarts it" in fault.cause for fault in gone)


@pytest.mark.parametrize("party", ["source", "sink"])
def test_no_dn_is_blamed_for_its_lag_while_a_server_does_not_answer(party: str) -> None:
    assert VIEW.report is not None
    silent = Condition(party, f"{party} mart", "does not answer", ago(40).timestamp())
    view = replace(VIEW, report=replace(VIEW.report, lanes=(lane("a", ""),), conditions=(silent,)))
    assert [one.rule for one in told(view, lags={"ods.a dn_1": 40.0})] == [f"{party}_fails"]


@pytest.mark.parametrize(("silent", "rules"), [(20, {"lock_waits", "source_blocked"}), (40, {"driver_silent"})])
def test_who_waited_when_a_driver_reported_last_is_not_told_once_that_is_silent(silent: float, rules: set[str]) -> None:
    assert VIEW.report is not None
    lock = LockWait(1, "slotkeeper/orders/1", "mart.a", "RowExclusiveLock", ago(50).timestamp(), None, (Blocker(7),))
    wait = SourceWait(Blocker(8), DDL, "ods.a", ago(50).timestamp())
    view = replace(VIEW, reported_at=ago(silent), report=replace(VIEW.report, lock_waits=(lock,), source_waits=(wait,)))
    assert {one.rule for one in told(view)} == rules
