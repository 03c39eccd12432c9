"""Impossible rows in a state store are reported in one clear line, never as an internal error."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobReport, LaneReport
from slotkeeper.core.domain.row_counts import Verified
from slotkeeper.core.state import observed
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.sqlite import FILE_NAME, Store

LANE = LaneReport("dn_1", -5, "running", "idle", "10/3", "12", None, 99, 0.25)
Reads = Callable[[Store], object]


def jobs(store: Store) -> object:
    return store.jobs()


def one(store: Store) -> object:
    return store.job("orders")


def runs(store: Store) -> object:
    return store.runs("orders")


def errors(store: Store) -> object:
    return store.errors("orders")


def events(store: Store) -> object:
    return store.events("orders")


def state(store: Store) -> object:
    return store.state("orders")


def wanted(store: Store) -> object:
    return store.wanted("orders")


def stopped(store: Store) -> object:
    store.set_state("orders", JobState.RUNNING)
    return None


@pytest.mark.parametrize(
    ("spoil", "reads"),
    [
        ("UPDATE jobs SET state = 'FLYING'", jobs),
        ("UPDATE jobs SET state = 'FLYING'", state),
        ("UPDATE jobs SET state = 'FLYING'", stopped),
        ("UPDATE jobs SET wanted = ''", wanted),
        ("UPDATE jobs SET changed_at = 1e300", jobs),
        ("UPDATE reports SET report = '{'", jobs),
        ("UPDATE reports SET report = '[]'", jobs),
        ("UPDATE reports SET report = 'null'", one),
        ("UPDATE reports SET report = '{\"lanes\": 7}'", jobs),
        ("UPDATE reports SET report = replace(report, '99', '\"many\"')", jobs),
        ("UPDATE reports SET report = replace(report, '\"dn_1\"', 'null')", jobs),
        (
            'UPDATE reports SET report = replace(report, \'"lock_waits": []\', \'"lock_waits": [{"blockers": 7}]\')',
            jobs,
        ),
        ("UPDATE reports SET report = replace(report, '\"lock_waits\": []', '\"lock_waits\": [7]')", jobs),
        ("UPDATE reports SET reported_at = -1e18", jobs),
        ("UPDATE runs SET driver = '[1, 2]'", runs),
        ("UPDATE runs SET started_at = 1e17", runs),
        ("UPDATE verifies SET at = 1e17", observed.last),
        ("UPDATE errors SET last_at = 1e17", errors),
        ("UPDATE events SET at = 1e17", events),
    ],
)
def test_what_cannot_be_is_said_with_its_file_and_the_way_out(spoil: str, reads: Reads, tmp_path: Path) -> None:
    with Store.open(tmp_path / "state") as store:
        store.register_job("orders", "/etc/slotkeeper.toml")
        store.begin_run("orders", "r1")
        store.put_report(JobReport("orders", "r1", "RUNNING", lanes=(LANE,)))
        store.record_error("orders", "sink", "22P02", "no number")
        store.record_event("orders", "started")
        observed.record(store, Verified("orders", SystemClock().utc(), "equal", 0, 0, 0, 1, 1, 1.0, "me"))
        assert reads(store) != []
        with closing(sqlite3.connect(tmp_path / "state" / FILE_NAME)) as other, other:
            assert other.execute(spoil).rowcount == 1
        with pytest.raises(StateError, match=rf"^state file .*{FILE_NAME} contains an? .* that is invalid: ") as found:
            reads(store)
    assert "stop the jobs, move the file away" in found.value.hint
    assert "\n" not in found.value.message
