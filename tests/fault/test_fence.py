"""The progress row is the fence: zombies, lost answers and rows that fell back change nothing, or are reported."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.driver import loop, start
from slotkeeper.core.engine.driver.context import KEEPALIVE
from slotkeeper.core.engine.tasks import LaneTask, StreamOutcome, StreamTask
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.engine.worker.step import nothing
from slotkeeper.core.errors import ErrorKind, Refused, Trouble, TroubleName, Unreachable
from slotkeeper.core.wiring import worker
from slotkeeper.core.wiring.driver import WiredSessions
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror, orders, written
from tests.support.waiting import until


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int) -> Mirror:
    """A mirror that has copied and was stopped; further writes are recorded."""
    made = orders(make_mirror, warehouse, seed)
    made.start().wait_running()
    made.stop()
    return made


def task_of(mirror: Mirror) -> StreamTask:
    rows = mirror.rows()
    tasks = []
    for row in rows:
        assert row.registered
        shard = Shard(row.key.shard, row.node_id)
        tasks.append(LaneTask(row.key.source_table, shard, exactly(row.registered, row.fingerprint), 5_000))
    return StreamTask(mirror.job, rows[0].epoch, tuple(tasks), 2.0)


def registered(mirror: Mirror) -> bool:
    """Whether every lane's slot is at its row's position."""
    rows = mirror.rows()
    return all(row.registered and row.position and row.registered == row.registered.at(row.position) for row in rows)


class Running(threading.Thread):
    """A task in a thread; `finish` returns its outcome."""

    def __init__(self, spec: StreamTask) -> None:
        super().__init__(daemon=True)
        self._spec = spec
        self._outcome: StreamOutcome | None = None
        self.start()

    def run(self) -> None:
        self._outcome = worker.ENTRIES.stream(self._spec)

    def finish(self) -> StreamOutcome:
        self.join(240)
        assert self._outcome is not None
        return self._outcome


def test_two_copies_of_one_task_apply_every_event_once(mirror: Mirror, seed: int) -> None:
    with written(mirror, seed, changes=200):
        copies = [Running(task_of(mirror)) for _ in range(2)]
        outcomes = [copy.finish() for copy in copies]
    last = worker.ENTRIES.stream(task_of(mirror))
    assert not [lane.error for one in (*outcomes, last) for lane in one.lanes if lane.error]
    mirror.wait_applied(mirror.booked(), 1)


@pytest.mark.parametrize("moment", ["after_recheck"])
def test_a_zombie_of_an_old_epoch_commits_nothing(mirror: Mirror, moment: str, seed: int) -> None:
    with written(mirror, seed):
        pass
    reached, go_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        reached.set()
        go_on.wait(240)

    entries.probe = At(moment, stand_still)
    zombie = Running(task_of(mirror))
    until(reached.is_set, 20, "the zombie to stand still")
    mirror.start().wait_running()
    mirror.wait_applied(mirror.booked())
    go_on.set()
    errors = [lane.error for lane in zombie.finish().lanes if lane.error]
    assert errors
    kinds = {error.error().kind for error in errors} - {ErrorKind.TRANSIENT}  # its source session was ended
    assert kinds <= {ErrorKind.SUPERSEDED, ErrorKind.OPERATOR}
    mirror.wait_applied(mirror.booked())
    mirror.stop()


@pytest.mark.parametrize(
    ("which", "rest"),
    [("", True), ("WHERE shard = 'dn_2'", True), ("WHERE shard = 'dn_2'", False)],
    ids=["all while stopped", "one while stopped", "one while running"],
)
def test_a_deleted_progress_row_is_progress_lost(mirror: Mirror, rest: bool, which: str, seed: int) -> None:
    mirror.start().wait_running()
    if rest:
        mirror.stop()
    mirror.at_sink(f"DELETE FROM slotkeeper_progress {which}")
    with written(mirror, seed):
        pass
    mirror.job = replace(mirror.job, on_existing="merge")  # otherwise the filled target is rejected first
    error = (mirror.start() if rest else mirror).wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.PROGRESS_LOST


@pytest.mark.parametrize("idle", [False, True], ids=["at work", "idle"])
def test_a_row_that_fell_back_under_a_running_job_is_named(mirror: Mirror, seed: int, idle: bool) -> None:
    mirror.at_sink("CREATE TABLE older AS SELECT shard, position FROM slotkeeper_progress")
    mirror.start().wait_running()
    with written(mirror, seed):
        pass
    booked = mirror.booked()
    mirror.wait_applied(booked)
    until(lambda: registered(mirror), 20, "it to be registered")
    mirror.warehouse.purge()
    mirror.at_sink("UPDATE slotkeeper_progress p SET position = o.position FROM older o WHERE o.shard = p.shard")
    if not idle:
        with written(mirror, seed + 1):
            pass
    error = mirror.wait_error(KEEPALIVE / 2)
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.SINK_OLDER
    assert sum(mirror.changes().values()) == sum(booked.values()), "nothing after the gap was applied"
    again = mirror.start().wait_error()
    assert isinstance(again, Trouble)
    assert again.name in (TroubleName.SLOT_MOVED, TroubleName.SINK_OLDER)


def kill_sink_sessions(mirror: Mirror) -> None:
    mirror.at_sink(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name LIKE 'slotkeeper/job%' AND application_name NOT LIKE '%/test'"
    )


def lost(mirror: Mirror) -> Callable[[], None]:
    def act() -> None:
        kill_sink_sessions(mirror)
        raise Unreachable("the answer was lost", where="sink")

    return act


@pytest.mark.parametrize(
    ("moment", "answered"),
    [("after_status", True), ("after_read", True), ("after_recheck", True), ("after_commit", False)],
)
def test_a_sink_session_killed_in_a_step_loses_and_doubles_nothing(
    mirror: Mirror, moment: str, answered: bool, seed: int
) -> None:
    act = (lambda: kill_sink_sessions(mirror)) if answered else lost(mirror)
    probe = At(moment, act, nth=2)
    mirror.start(probe).wait_running()
    with written(mirror, seed):
        pass
    mirror.wait_applied(mirror.booked())
    assert probe.done.is_set()
    mirror.stop()


@pytest.mark.parametrize("moment", ["after_false", "after_true"])
def test_a_lost_answer_of_a_registration_is_not_taken_for_somebody_else(
    mirror: Mirror, moment: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(loop, "LOST_ANSWER_WAIT", 0.5)

    def foreign() -> None:
        raise RuntimeError("a failure that no table names")

    probe = At(moment, foreign)
    mirror.start(nothing, probe).wait_running()
    with written(mirror, seed):
        until(probe.done.is_set, 30, "a registration to fail")
    mirror.wait_applied(mirror.booked())
    until(lambda: registered(mirror), 30, "it to be registered")
    mirror.stop()


def test_a_partial_registration_is_tried_again(mirror: Mirror, seed: int) -> None:
    mirror.start().wait_running()
    mirror.warehouse.partial_registration("dn_1", 2)
    with written(mirror, seed):
        pass
    mirror.wait_applied(mirror.booked())
    until(lambda: registered(mirror), 40, "it to be registered")
    mirror.stop()


def test_a_second_job_on_the_same_target_is_refused(mirror: Mirror) -> None:
    mirror.job = replace(mirror.job, slot="another", name="second", on_existing="merge")
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "belongs to job job_" in error.message


def test_another_target_under_the_same_slot_is_refused(mirror: Mirror) -> None:
    mirror.job = replace(mirror.job, channels=(ChannelSpec(mirror.table, "mart.other", create_target=True),))
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "differs from the progress rows" in error.message


def test_a_held_lease_refuses_with_its_holder_and_gives_way_to_a_take_over(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "LEASE_WAIT", 1.0)
    other = WiredSessions(mirror.job, "elsewhere")
    until(lambda: other.store().take_lease(), 10.0, "the session of an earlier test to end")
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert f"is held by job {mirror.job.name} run run-1 by" in error.message
    mirror.take_over = True
    mirror.start().wait_running()
    mirror.stop()
    other.close()


def test_a_take_over_that_cannot_end_the_holder_stops_at_the_limit(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "LEASE_WAIT", 1.0)
    other = WiredSessions(replace(mirror.job, name="under another name"), "elsewhere")
    until(lambda: other.store().take_lease(), 10.0, "the session of an earlier test to end")
    assert other.store().take_target(mirror.job.locked_target)
    mirror.take_over = True
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "the lease of ods.orders slot" in error.message, "the lease of a running job is not taken"
    other.close()
