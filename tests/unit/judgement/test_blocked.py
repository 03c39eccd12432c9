"""A session at the source that waits for a job is a fault at once, critical after half a minute, with its action."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from slotkeeper.core.domain.fault import Fault, Party, Severity
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.locks import Blocker
from slotkeeper.core.domain.source_waits import (
    CRITICAL_AFTER,
    DDL,
    VACUUM_FULL,
    SlotBehind,
    SourceWait,
    conflicts,
    of_job,
    to_do,
)
from slotkeeper.core.judgement.facts import Facts, JobSeen
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.sources.waits import MOST, Limit, Pair, by_locks
from tests.unit.judgement.test_judge import NOW, VIEW, ago

EVE = Blocker(4711, "eve", "gsql", "active", statement="VACUUM FULL ods.orders")
OURS = Blocker(99, "etl", "slotkeeper/orders/3.ab/copy", "idle in transaction", query=None)
WAIT = SourceWait(
    EVE, VACUUM_FULL, "ods.orders", ago(12).timestamp(), (SlotBehind("orders_rt", "orders", ("dn_1",)),), behind=3,
    limit="binlog_consume_timeout 3600 s", fails_at=(NOW + timedelta(hours=1)).timestamp(),
)  # fmt: skip


def told(*waits: SourceWait, state: JobState = JobState.RUNNING, **more: object) -> tuple[Fault, ...]:
    assert VIEW.report is not None
    view = replace(VIEW, state=state, report=replace(VIEW.report, source_waits=waits), **more)  # type: ignore[arg-type]
    return judge(Facts(NOW, (JobSeen(view),)))


def test_a_wait_is_reported_at_once_with_its_sessions_the_number_that_follow_and_when_it_fails() -> None:
    (one,) = told(WAIT)
    assert (one.rule, one.code, one.party, one.severity) == (
        "source_blocked", "SK-2106", Party.LOCK, Severity.WARNING,
    )  # fmt: skip
    assert one.cause == (
        "VACUUM FULL on ods.orders (pid 4711, user eve, application gsql) waits for slot orders_rt (job orders) on"
        " dn_1: VACUUM FULL ods.orders"
    )
    assert one.effect == "3 sessions wait after it; fails at 13:00:00Z (binlog_consume_timeout 3600 s)"
    assert (one.since, one.table, one.value) == (ago(12), "ods.orders", "3")


def test_half_a_minute_makes_it_critical() -> None:
    (one,) = told(replace(WAIT, since=ago(CRITICAL_AFTER).timestamp()))
    assert one.severity is Severity.CRITICAL


def test_of_a_paused_job_it_comes_before_the_pause_and_its_act_resumes_the_job() -> None:
    first, second = told(WAIT, state=JobState.PAUSED)
    assert (first.rule, second.rule) == ("source_blocked", "job_paused")
    assert first.do.startswith(
        "`slotkeeper jobs resume orders`; then `slotkeeper jobs drain orders` waits until all is read; or as an "
    )
    assert told(WAIT)[0].do.startswith(
        "`slotkeeper jobs drain orders` waits until all is read; or as an administrator "
    )


def test_of_several_waits_at_a_table_the_longest_is_reported_and_each_table_by_itself() -> None:
    later = replace(WAIT, waiter=replace(EVE, pid=5), since=ago(2).timestamp())
    other = replace(WAIT, table="ods.items")
    assert sorted((one.table, one.thing) for one in told(later, WAIT, other)) == [
        ("ods.items", "ods.items 4711"), ("ods.orders", "ods.orders 4711"),
    ]  # fmt: skip


def test_a_job_without_a_process_tells_of_no_wait() -> None:
    found = told(WAIT, state=JobState.STOPPED, supervisor_alive=False, driver_alive=False)
    assert "source_blocked" not in {one.rule for one in found}
    silent = told(WAIT, reported=False)
    assert "source_blocked" not in {one.rule for one in silent}


def test_what_is_hidden_is_said_as_hidden_and_never_as_none() -> None:
    unseen = Blocker(7, None, None)
    (one,) = told(replace(WAIT, waiter=unseen, behind=None, slots=(), fails_at=None))
    assert "user hidden" in one.cause and one.cause.endswith(": hidden") and "a slot whose name is hidden" in one.cause
    assert one.effect == "sessions after it: hidden" and one.value == "hidden"
    assert "None" not in one.cause + one.effect + one.do


def test_the_act_for_a_session_names_the_job_and_the_statement_that_ends_the_session() -> None:
    by_session = replace(WAIT, what=DDL, slots=(), sessions=(OURS,))
    assert to_do(by_session).startswith(
        "`slotkeeper jobs pause orders`; or as an administrator of the source, end its session:"
        " `SELECT pg_terminate_backend(99)`; or as an administrator of the source, cancel the DDL: "
    )
    mysql = replace(by_session, ends="KILL {}", sessions=(replace(OURS, application=None),), job="orders")
    assert "`KILL 99`" in to_do(mysql) and "jobs pause orders" in to_do(mysql) and mysql.jobs == ("orders",)


def test_a_wait_is_reported_by_the_jobs_that_it_waits_for_and_by_all_of_a_table_whose_slot_has_no_job() -> None:
    without_job = replace(WAIT, slots=(SlotBehind("retired"),))
    assert of_job((WAIT, without_job), "orders") == (WAIT, without_job)
    assert of_job((WAIT, without_job), "prices") == (without_job,)
    assert of_job((replace(WAIT, slots=(), sessions=(OURS,)),), "a very long name", "orders")


def pair(waiter: Blocker, wanted: str, holder: Blocker, granted: str, lasts: float) -> Pair:
    return Pair("ods.orders", waiter, wanted, lasts, holder, granted)


def test_only_locks_that_exclude_each_other_make_a_session_wait_for_ours() -> None:
    ddl, writer, other = (Blocker(pid, "eve", "gsql", statement="ALTER TABLE ods.orders") for pid in (1, 2, 3))
    stranger = Blocker(8, "bob", "psql")
    pairs = [
        pair(ddl, "AccessExclusiveLock", OURS, "AccessShareLock", 9.0),
        pair(ddl, "AccessExclusiveLock", stranger, "RowExclusiveLock", 9.0),
        pair(writer, "RowExclusiveLock", OURS, "AccessShareLock", 4.0),
        pair(other, "ExclusiveLock", stranger, "RowExclusiveLock", 20.0),
    ]
    (one,) = by_locks(pairs, 100.0, lambda mode: Limit("lockwait_timeout 1200 s", 1200.0))
    assert (one.waiter, one.sessions, one.behind, one.since, one.fails_at) == (ddl, (OURS,), 1, 91.0, 1291.0)


def test_of_ten_thousand_that_wait_at_a_table_the_longest_are_told_and_all_are_counted() -> None:
    ddl = [Blocker(pid, "eve", "gsql", statement="TRUNCATE ods.orders") for pid in range(1, 10_001)]
    pairs = [pair(one, "AccessExclusiveLock", OURS, "AccessShareLock", float(one.pid or 0)) for one in ddl]
    apart = replace(pairs[0], table="ods.items")
    found = list(by_locks([*pairs, apart], 20_000.0, lambda mode: None))
    assert [one.waiter.pid for one in found] == [*range(10_000, 10_000 - MOST, -1), 1]
    assert [one.behind for one in found[:2]] == [9_999, 9_998] and found[-1].behind == 0


def test_a_stranger_s_name_puts_nothing_among_what_is_typed_at_a_source() -> None:
    hostile = replace(OURS, application="slotkeeper/`; then `DROP TABLE x`/1", user="`DROP TABLE x`")
    wait = replace(WAIT, slots=(SlotBehind("s`; then `DROP TABLE x"),), sessions=(hostile,))
    assert not any("DROP TABLE" in one for one in to_do(wait).split("`")[1::2])


@pytest.mark.parametrize(
    ("one", "excluded"),
    [
        ("AccessShareLock", {"AccessExclusiveLock"}),
        ("RowShareLock", {"ExclusiveLock", "AccessExclusiveLock"}),
        ("RowExclusiveLock", {"ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"}),
        ("ShareLock", {"RowExclusiveLock", "ShareUpdateExclusiveLock", "ShareRowExclusiveLock", "ExclusiveLock",
                       "AccessExclusiveLock"}),
    ],
)  # fmt: skip
def test_table_locks_exclude_each_other_as_postgresql_documents(one: str, excluded: set[str]) -> None:
    levels = ("AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock", "ShareLock",
              "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")  # fmt: skip
    assert {other for other in levels if conflicts(one, other)} == excluded
    assert {other for other in levels if conflicts(other, one)} == excluded
