"""One target has one writer, even across progress schemas, which share no fence: a lock held as long as the lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.engine.driver import lease, start, upkeep
from slotkeeper.core.engine.driver.lease import Leases
from slotkeeper.core.errors import Refused
from slotkeeper.core.sinks.postgres.progress.locks import lock_number
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror, orders, written
from tests.support.waiting import until

Thief = Callable[[], None]


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    monkeypatch.setattr(lease, "TARGET_WAIT", 0.3)
    monkeypatch.setattr(start, "LEASE_WAIT", 0.3)
    return orders(make_mirror, warehouse, seed)


def holders(mirror: Mirror) -> list[str]:
    """The names of the sessions that hold the lock on the target."""
    number = lock_number("slotkeeper target/mart.orders")
    found = mirror.query(
        mirror.sink,
        "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory'"
        f" AND granted AND ((l.classid::bigint << 32) | l.objid::bigint) = {number}",
    )
    return [name for (name,) in found]


def lose_the_lease(mirror: Mirror) -> None:
    mirror.at_sink(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE application_name = 'slotkeeper/{mirror.job.name}/lease'"
    )


@pytest.fixture
def thief(mirror: Mirror) -> Iterator[Thief]:
    """End the lease's session while a waiting session of another job takes the target's lock."""
    with closing(mirror.sink()) as connection, connection.cursor() as cursor:
        cursor.execute("SET application_name = 'slotkeeper/thief/lease'")

        def wait() -> None:
            with connection.cursor() as waiting:
                waiting.execute("SELECT pg_advisory_lock(%s)", (lock_number("slotkeeper target/mart.orders"),))

        def act() -> None:
            thread = threading.Thread(target=wait, daemon=True)
            thread.start()
            waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            until(lambda: bool(mirror.query(mirror.sink, waits)), 10, "the thief to wait")
            lose_the_lease(mirror)
            thread.join(10)
            assert holders(mirror) == ["slotkeeper/thief/lease"]

        yield act


def second_of(mirror: Mirror, make_mirror: MakeMirror, **other: object) -> Mirror:
    """Another configuration's job that writes to the same target with its own progress rows."""
    mirror.at_sink("CREATE SCHEMA second")
    made = make_mirror(mirror.warehouse, mirror.table)
    there = {"sink": mirror.job.sink, "progress_schema": "second", "on_existing": "merge"}
    made.job = replace(made.job, **there, **other)  # type: ignore[arg-type]
    return made


def test_two_jobs_on_one_target_from_two_progress_schemas_are_refused(
    mirror: Mirror, make_mirror: MakeMirror, seed: int
) -> None:
    mirror.start().wait_running()
    second = second_of(mirror, make_mirror)
    error = second.start().wait_error()
    assert isinstance(error, Refused)
    name = mirror.job.name
    assert f"mart.orders belongs to job {name} of another progress schema" in error.message
    assert f"session slotkeeper/{name}/lease, user " in error.message
    with written(mirror, seed):
        pass
    mirror.wait_applied(mirror.booked())
    mirror.stop()
    assert second.start().wait_running(), "a target is free once no job writes to it"
    second.stop()


def test_a_take_over_passes_no_target_of_another_progress_schema(mirror: Mirror, make_mirror: MakeMirror) -> None:
    mirror.start().wait_running()
    second = second_of(mirror, make_mirror, name=mirror.job.name, slot=mirror.job.slot)
    second.take_over = True
    error = second.start().wait_error()
    assert isinstance(error, Refused)
    assert holders(mirror) == [f"slotkeeper/{mirror.job.name}/lease"], "no session was ended"
    again = Mirror.__new__(Mirror)
    again.__dict__.update(mirror.__dict__)
    again.take_over = True
    again.start().wait_running()
    assert holders(mirror) == [f"slotkeeper/{mirror.job.name}/lease"]
    again.stop()
    mirror.join()


def test_a_job_that_loses_its_lease_takes_lease_and_target_again(mirror: Mirror, seed: int) -> None:
    mirror.start().wait_running()
    for _ in range(2):
        lose_the_lease(mirror)
        until(lambda: holders(mirror) == [f"slotkeeper/{mirror.job.name}/lease"], 20, "the lock to be taken again")
    with written(mirror, seed):
        pass
    mirror.wait_applied(mirror.booked())
    mirror.stop()
    assert holders(mirror) == []


def test_a_job_that_loses_its_target_to_another_job_stops_and_names_it(mirror: Mirror, thief: Thief) -> None:
    mirror.start().wait_running()
    thief()
    error = mirror.wait_error()
    assert isinstance(error, Refused)
    assert "mart.orders belongs to job thief of another progress schema" in error.message


def test_a_copy_that_loses_its_target_to_another_job_stops_and_names_it(mirror: Mirror, thief: Thief) -> None:
    error = mirror.start(At("before_chunk_commit", thief)).wait_error()
    assert isinstance(error, Refused)
    assert "mart.orders belongs to job thief of another progress schema" in error.message


def test_nothing_is_applied_while_the_session_of_the_lease_does_not_answer(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    answers, keep = threading.Event(), Leases.keep
    monkeypatch.setattr(upkeep, "LEASE_LATE", 0.3)
    monkeypatch.setattr(upkeep, "LEASE_EVERY", 0.0)
    silent = threading.Event()

    def late(self: Leases) -> None:
        if silent.is_set():
            assert answers.wait(60)
        keep(self)

    monkeypatch.setattr(Leases, "keep", late)

    def delayed() -> bool:
        lanes = mirror.heard.now.values()
        under_way = any(one.activity is Activity.APPLYING for one in lanes)
        return not under_way and any("does not answer" in one.error for one in lanes)

    mirror.start().wait_running()
    silent.set()
    with written(mirror, seed):
        until(delayed, 20, "lanes to be held back")
        applied = mirror.changes()
    assert mirror.changes() == applied
    answers.set()
    mirror.wait_applied(mirror.booked())
    mirror.stop()
