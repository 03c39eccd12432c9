"""The messages about another session's lock, and the actions against it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from slotkeeper.core.domain.locks import (
    Blocker,
    LockOwner,
    LockWait,
    cause,
    continued,
    end_it,
    explain_lease,
    job_named,
    lease_cure,
    locked,
    ordered,
    target_cure,
    to_do,
    without_literals,
)
from slotkeeper.core.domain.remedy import OR
from slotkeeper.core.wiring.worker import session_name

LONG = Blocker(7, "etl", session_name("a_job_of_a_long_name", "3"))
EVE = Blocker(4711, "eve", "psql", "idle in transaction", 42.0, "LOCK TABLE mart.orders", transaction="3/4")
BOB = Blocker(12, "bob", "dbt", "active", 60.0, "ALTER TABLE mart.orders ADD c int", waits=True, transaction="4/9")
WAIT = LockWait(1, "slotkeeper/orders/7", "mart.orders", "RowExclusiveLock", 90.0, "MERGE", (EVE,))


@pytest.mark.parametrize(
    ("blockers", "said"),
    [
        ((), "a session that this login cannot see: it has just ended, or it is on another coordinator"),
        ((Blocker(7, "eve", "psql"),),
         "pid 7, user eve, application psql, its state and statement are hidden from this login"),
        ((Blocker(7),), "pid 7, user hidden, application hidden, its state and statement are hidden from this login"),
        ((Blocker(7, "", "", "active", 40.0, "autovacuum: VACUUM mart.orders (to prevent wraparound)"),),
         "pid 7, a server process, active for 60 s: autovacuum: VACUUM mart.orders (to prevent wraparound)"),
        ((Blocker(7, "eve", "psql", "active", 40.0, "SELECT 'pass' FROM t"),),
         "pid 7, user eve, application psql, active for 60 s: SELECT '...' FROM t"),
        ((Blocker(None, "eve", gid="left", since=0.0),), "prepared transaction 'left' of user eve, prepared for 100 s"),
        ((EVE, BOB), "pid 4711, user eve, application psql, idle in transaction for 58 s: LOCK TABLE mart.orders;"
         " earlier in the queue: pid 12, user bob, application dbt"),
        ((EVE, replace(EVE, pid=9), replace(EVE, pid=10)),
         "pid 4711, user eve, application psql, idle in transaction for 58 s: LOCK TABLE mart.orders;"
         " and by pid 9, user eve, application psql and 1 more session"),
    ],
)  # fmt: skip
def test_who_is_in_front_is_said_as_far_as_it_is_shown(blockers: tuple[Blocker, ...], said: str) -> None:
    assert cause(replace(WAIT, blockers=blockers), 100.0) == f"mart.orders is locked by {said}"


@pytest.mark.parametrize(
    ("blockers", "has", "has_not"),
    [
        ((EVE, BOB), "Ask user eve to commit or roll back; or as an administrator of the sink, run "
         "`SELECT pg_terminate_backend(4711)`", "(12)"),
        ((Blocker(7, "", "", "active"),), "Wait for the server's own process to end", "Ask user"),
        ((Blocker(None, "eve", gid="o'k"),), "ROLLBACK PREPARED 'o''k'", "terminate"),
        ((Blocker(7, "etl", "slotkeeper/prices/3"),), "`slotkeeper jobs pause prices`", "terminate"),
        ((Blocker(7, "etl", "slotkeeper/orders/3"),), "Wait: this is the job's own session, and its", "pause"),
        ((LONG,), "`slotkeeper jobs list` shows the full name", "pause a_"),
        ((EVE, replace(EVE, pid=9)), "SELECT pg_terminate_backend(9)", "hidden"),
        ((BOB,), "SELECT pg_terminate_backend(12)", "hidden"),
        ((), "Find the transaction in pg_locks", "terminate"),
    ],
)  # fmt: skip
def test_the_action_has_the_statement_and_says_that_slotkeeper_ends_no_session(
    blockers: tuple[Blocker, ...], has: str, has_not: str
) -> None:
    said = to_do(replace(WAIT, blockers=blockers))
    assert has in said and has_not not in said
    assert said.endswith("; Slotkeeper never ends another user's session by itself")


def test_hostile_names_and_statements_come_out_as_one_line_of_visible_characters() -> None:
    bad = Blocker(7, "e\x1b[2Jve", "ps\nql", "active", 1.0, "SELECT\n\x1b]52;c;x\x07")
    assert cause(replace(WAIT, thing="m.\u202et", blockers=(bad,)), 2.0).isprintable()
    assert to_do(replace(WAIT, blockers=(bad,))).isprintable()


@pytest.mark.parametrize(
    "hostile",
    [
        Blocker(7, "etl", "slotkeeper/x`; or type `DROP TABLE mart.orders/1"),
        Blocker(7, "eve`; or type `DROP TABLE mart.orders", "psql"),
        Blocker(None, "eve`; or type `DROP TABLE mart.orders", gid="a'`; or type `DROP TABLE mart.orders"),
        Blocker(7, "eve'; DROP TABLE mart.orders`", "psql", node="dn_1"),
    ],
)
def test_a_name_that_a_stranger_chose_puts_nothing_among_what_is_typed(hostile: Blocker) -> None:
    said = to_do(replace(WAIT, blockers=(hostile,)))
    typed = said.split("`")[1::2]
    assert len(typed) == (2 if hostile.node else 1) and not any(
        "DROP TABLE" in one for one in typed if "U&'" not in one
    )
    assert said.count(OR) == 1 and "`" not in said.partition(OR)[0]


def test_a_session_is_a_jobs_only_by_a_name_that_a_job_can_have() -> None:
    assert job_named(session_name("orders", "7")) == "orders"
    assert not job_named("slotkeeper/o rders/7") and not job_named("slotkeeper/7") and not job_named("slotkeeper//7")


def test_the_statement_that_ends_a_session_ends_none_that_has_its_pid_later() -> None:
    began = datetime(2026, 11, 27, 12, 0, 0, 999_999, timezone.utc)
    guard = "FROM pg_stat_activity WHERE pid = 4711 AND backend_start < '2026-11-27 12:00:01Z'`"
    assert guard in to_do(replace(WAIT, blockers=(replace(EVE, began=began.timestamp()),)))
    assert guard in end_it([LockOwner(4711, "eve", "psql", began, 9.0, None)])


@pytest.mark.parametrize("began", [None, datetime(2026, 11, 27, 12, tzinfo=timezone.utc)])
def test_a_session_that_is_to_be_ended_is_the_one_that_holds_the_lock(began: datetime | None) -> None:
    """Of several owners it is the first, which is also the one that is named."""
    later = began and began.replace(hour=13)
    owners = [LockOwner(4711, "eve", "psql", began, 9.0, None), LockOwner(12, "bob", "dbt", later, 9.0, None)]
    only = "" if began is None else " FROM pg_stat_activity WHERE pid = 4711 AND backend_start < '2026-11-27 12:00:01Z'"
    ends = f"`SELECT pg_terminate_backend(4711){only}`"
    for said in (end_it(owners), lease_cure(owners, "orders"), target_cure(owners)):
        assert ends in said and re.findall(r"terminate_backend\((\d+)\)|pid = (?!4711)(\d+)", said) == [("4711", "")]
    assert "pid 4711" in explain_lease("ods.orders slot s", owners, "")


@pytest.mark.parametrize("owners", [[], [LockOwner(None, None, None, None, None, None)]], ids=["unseen", "no pid"])
def test_a_lock_without_a_pid_has_no_statement_that_ends_it(owners: list[LockOwner]) -> None:
    assert end_it(owners) == "ask its owner to release the lock"


def test_a_session_of_a_dws_that_has_no_query_is_not_looked_for_among_all_that_have_none() -> None:
    at_dn = replace(EVE, node="dn_1", query=0)
    said = to_do(replace(WAIT, blockers=(at_dn,)))
    assert "query_id" not in said and "(4711)" not in said
    assert "`SELECT coorname, pid, state, xact_start FROM pgxc_stat_activity WHERE usename = 'eve'`" in said
    assert "WHERE query_id = 12`" in to_do(replace(WAIT, blockers=(replace(at_dn, query=12),)))


@pytest.mark.parametrize(
    ("statement", "of_mysql"),
    [
        ("/* it's */ ALTER ROLE eve PASSWORD 's3cret'", False),
        ("-- don't\nALTER ROLE eve PASSWORD 's3cret'", False),
        ("ALTER TABLE \"o'b\" ADD x text DEFAULT 's3cret'", False),
        (r"SELECT E'it\'s', 's3cret'", False),
        (r"SELECT 'C:\', 's3cret'", False),
        ("/* a /* b' */ ' */ ALTER ROLE eve PASSWORD 's3cret'", False),
        ("ALTER ROLE eve PASSWORD 's3cret\\", False),
        ('CREATE USER eve IDENTIFIED BY "s3cret"', True),
        ("# it's\nALTER TABLE `o'b` COMMENT 's3cret'", True),
        ('ALTER TABLE a CONNECTION="mysql://u:\\"s3cret@h/d"', True),
    ],
)
def test_a_text_is_left_out_wherever_another_quote_stands_before_it(statement: str, of_mysql: bool) -> None:
    assert "s3cret" not in without_literals(statement, of_mysql)


def test_a_long_comment_before_a_statement_hides_none_of_it() -> None:
    assert without_literals(f"/* {'x' * 100} */ VACUUM FULL ods.orders") == "VACUUM FULL ods.orders"


def test_one_thing_and_one_in_front_is_one_fault_however_many_wait_and_it_lasts_since_the_first() -> None:
    second, kept = replace(WAIT, pid=2, since=80.0), replace(WAIT, pid=3, since=70.0, waits=False)
    other = replace(WAIT, pid=4, thing="mart.lines", since=60.0)
    found = locked([WAIT, second, kept, other], 100.0)
    assert [(one.thing, one.sessions, one.since) for one in found] == [
        ("mart.lines", 1, 60.0),
        ("mart.orders", 2, 70.0),
    ]


def test_another_transaction_in_front_is_another_wait() -> None:
    later = replace(WAIT, pid=2, since=95.0)
    assert continued([WAIT], [later])[0].since == 90.0
    assert continued([WAIT], [replace(later, blockers=(replace(EVE, transaction="3/5"),))])[0].since == 95.0
    assert continued([], [later])[0].since == 95.0


def test_a_session_that_waits_for_no_other_comes_first_and_a_stranger_before_a_job() -> None:
    job = replace(EVE, pid=5, application="slotkeeper/prices/3", since=1.0)
    assert [one.pid for one in ordered([BOB, job, EVE])] == [4711, 5, 12]


def test_a_lock_is_reported_as_a_fault_with_one_time_that_of_our_wait() -> None:
    (one,) = locked([WAIT])
    assert (
        one.cause
        == "mart.orders is locked by pid 4711, user eve, application psql, idle in transaction: LOCK TABLE mart.orders"
    )
