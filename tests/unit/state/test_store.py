"""The state store returns the values written to it, loses no concurrent writes, and stays bounded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobEvent, JobState, TableReport, WantedState
from slotkeeper.core.domain.locks import Blocker, LockWait
from slotkeeper.core.domain.report import Identity, JobReport, LaneReport
from slotkeeper.core.errors import Refused
from slotkeeper.core.state import sqlite
from slotkeeper.core.state.sqlite import Store

TABLES = (TableReport("ods.a", "m.a", "FAILED", "ods.a: gone", "SLOT LOST", "reset it", 1_790_000_000.5),)
EVE = Blocker(4711, "eve", "psql", "idle in transaction", 1_790_000_000.5, "LOCK TABLE m.a", transaction="3/4")
WAITS = (LockWait(1, "slotkeeper/orders/7", "m.a", "RowExclusiveLock", 1_790_000_001.5, None, (EVE,)),)
ME = Identity(pid=7, started="boot:ns:99", session_id=7, run_id="r1", host="here")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state") as opened:
        opened.register_job("orders", "/etc/slotkeeper.toml")
        yield opened


def test_a_new_job_is_stopped_and_was_never_started(store: Store) -> None:
    row = store.job("orders")
    assert row is not None
    assert (row.state, row.wanted, row.reason, row.run) == (JobState.STOPPED, WantedState.STOP, "never started", "")
    assert store.jobs() == [row]
    assert store.job("other") is None


def test_an_unknown_job_is_refused_by_name(store: Store) -> None:
    with pytest.raises(Refused, match="'unknown'"):
        store.set_wanted("unknown", WantedState.STOP)
    with pytest.raises(Refused, match="'unknown'"):
        store.wanted("unknown")


def test_a_start_sets_state_wish_and_run_at_once_and_only_for_a_stopped_job(store: Store) -> None:
    store.begin_run("orders", "r1", "launch")
    row = store.job("orders")
    assert row is not None
    assert (row.state, row.wanted, row.run) == (JobState.PENDING, WantedState.RUN, "r1")
    with pytest.raises(Refused):
        store.begin_run("orders", "r2")
    assert [run.run for run in store.runs("orders")] == ["r1"]


def test_a_report_comes_back_as_it_was_told(store: Store) -> None:
    store.begin_run("orders", "r1")
    lane = LaneReport("dn_1", -5, "running", "idle", "10/3", "12", None, 99, 0.25, at=10, latest_at=12, behind=2)
    report = JobReport(
        "orders", "r1", "CATCHING UP", reason="why", lanes=(lane,), chunks_done=3, tables=TABLES, lock_waits=WAITS
    )
    assert store.put_report(report)
    row = store.job("orders")
    assert row is not None
    assert row.report == report
    assert row.reported_at is not None
    assert (row.state, row.reason) == (JobState.CATCHING_UP, "why")


def test_a_late_report_brings_no_ended_job_back(store: Store) -> None:
    store.begin_run("orders", "r1")
    store.apply("orders", JobEvent.FAILED, "five crashes")
    assert not store.put_report(JobReport("orders", "r1", "RUNNING"))
    store.end_run("r1", 3, "five crashes")
    store.begin_run("orders", "r2")
    assert not store.put_report(JobReport("orders", "r1", "RUNNING"))
    assert store.put_report(JobReport("orders", "r2", "RUNNING"))


def test_identities_and_ends_are_kept_with_their_run(store: Store) -> None:
    store.begin_run("orders", "r1", "how")
    store.set_supervisor("r1", ME)
    store.set_driver("r1", ME)
    store.note_exit("r1", 10)
    store.set_driver("r1", ME)
    run = store.run("r1")
    assert run is not None
    assert (run.supervisor, run.driver, run.launch, run.exit_code, run.ended_at) == (ME, ME, "how", 10, None)
    store.end_run("r1", None, "first end")
    store.end_run("r1", 0, "second end")
    ended = store.run("r1")
    assert ended is not None
    assert (ended.exit_code, ended.outcome) == (10, "first end")


def test_another_driver_forgets_the_exit_code_of_the_one_before(store: Store) -> None:
    store.begin_run("orders", "r1")
    store.set_driver("r1", ME)
    store.note_exit("r1", 10)
    store.set_driver("r1", Identity(8, "boot:ns:100", 8, "r1", "here"))
    run = store.run("r1")
    assert run is not None
    assert run.exit_code is None


def test_equal_errors_count_as_one_whatever_numbers_they_hold_and_show_no_raw_bytes(store: Store) -> None:
    store.record_error("orders", "sink", "40P01", "deadlock of process 12\x1b]52;c;x\x07")
    store.record_error("orders", "sink", "40P01", "deadlock of process 99\x1b]52;c;x\x07")
    (error,) = store.errors("orders")
    assert error.count == 2
    assert error.message == "deadlock of process 99\\x1b]52;c;x\\x07"
    assert error.first_at <= error.last_at


def test_events_errors_and_runs_keep_the_newest_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "KEPT_EVENTS", 5)
    monkeypatch.setattr(sqlite, "KEPT_ERRORS", 3)
    monkeypatch.setattr(sqlite, "KEPT_RUNS", 2)
    for number in range(8):
        store.record_event("orders", "tick", f"number {number}")
        store.record_error("orders", "source", f"code {number}", "text")
        store.begin_run("orders", f"run {number}")
        store.apply("orders", JobEvent.STOPPED)
    assert [event.text for event in store.events("orders")] == [f"number {n}" for n in (7, 6, 5, 4, 3)]
    assert [error.code for error in store.errors("orders")] == ["code 7", "code 6", "code 5"]
    assert [run.run for run in store.runs("orders")] == ["run 7", "run 6"]


def test_no_update_is_lost_between_many_writers_that_open_the_store_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "busy"

    def write(_: int) -> None:
        with Store.open(folder) as mine:
            mine.register_job("orders", "c")
            for _ in range(20):
                mine.record_error("orders", "sink", "X", "same")
                mine.record_event("orders", "tick")
                mine.apply("orders", JobEvent.STOPPED)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    with Store.open(folder) as store:
        assert store.errors("orders")[0].count == 120
        assert len(store.events("orders", 1_000)) == 120


def test_of_two_starts_at_once_exactly_one_goes_through(store: Store) -> None:
    def begin(run: str) -> str | None:
        with Store.open(store.folder.path) as mine:
            try:
                mine.begin_run("orders", run)
            except Refused:
                return None
            return run

    with ThreadPoolExecutor(5) as pool:
        done = [run for run in pool.map(begin, [f"r{n}" for n in range(5)]) if run is not None]
    assert [run.run for run in store.runs("orders")] == done
    assert len(done) == 1


def test_a_cancelled_job_stays_cancelled(store: Store) -> None:
    store.apply("orders", JobEvent.CANCELLED)
    store.set_state("orders", JobState.RUNNING)
    row = store.job("orders")
    assert row is not None
    assert row.state is JobState.CANCELLED


def test_a_second_store_in_one_process_leaves_the_first_its_locks(tmp_path: Path) -> None:
    """Without its shared lock, another process's close would remove the write-ahead log that the first store uses."""
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+b')\n"
        "try:\n    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)\n"
        "except OSError:\n    print('locked')"
    )
    with Store.open(tmp_path / "state") as first:
        assert first.jobs() == []
        Store.open(tmp_path / "state").close()
        words = [sys.executable, "-c", code, str(first.file)]
        assert subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout == "locked\n"
