"""A step that waits for another session's lock is abandoned: only its own session at the sink ends.

The sink is a PostgreSQL that does not check for lost clients, as versions before 14 and DWS do: a statement that a
worker leaves behind would run until its limit, which is ten minutes here. Tasks are threads, and keep running.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from slotkeeper.core.domain.report import GIVEN_UP
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver import job, loop
from slotkeeper.core.engine.driver.context import StreamPlan
from slotkeeper.core.engine.driver.failure import of_lanes
from slotkeeper.core.sinks.postgres import session as sink_session
from slotkeeper.core.spark.runner import open_runner
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror, orders, written
from tests.support.waiting import until

WAITING = (
    "SELECT pid, application_name, pg_blocking_pids(pid) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


Waits = dict[int, tuple[str, set[int]]]
"""The waiting sessions: the name of each, and the session in front of it."""
OF_A_TASK = r"\.[0-9a-f]{6}\.|\.ends$"


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    """A job whose tasks are abandoned half a second late."""
    settings = {**sink_session.SETTINGS, "lock_timeout": "600s", "client_connection_check_interval": "0"}
    monkeypatch.setattr(sink_session, "SETTINGS", settings)
    monkeypatch.setattr(sink_session, "SESSION", replace(sink_session.SESSION, settings=settings))
    monkeypatch.setattr(loop, "OVERRUN", 0.3)
    monkeypatch.setattr(loop, "CANCEL_AFTER", 0.2)
    monkeypatch.setattr(loop, "MOST_SLACK", 0.3)
    monkeypatch.setattr(loop, "STOP_WITHIN", 1.0)
    monkeypatch.setattr(job, "StreamPlan", partial(StreamPlan, task_seconds=0.3))
    return orders(make_mirror, warehouse, seed)


@dataclass
class Eve:
    """A stranger who has locked the target."""

    session: pg.Connection

    @property
    def pid(self) -> int:
        return int(self.session.info.backend_pid)

    def sees(self, but: Collection[int] = ()) -> Waits:
        """Return the session of a task that waits for a lock."""
        with self.session.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(WAITING)
            waits = {int(pid): (str(name), set(front)) for pid, name, front in cursor.fetchall() if pid not in but}
        return {pid: wait for pid, wait in waits.items() if re.search(OF_A_TASK, wait[0])}

    def living(self, tasks: bool = True) -> set[int]:
        """Return all sessions of the database, or those of no task: of the lease, the driver and the stranger."""
        with self.session.cursor() as cursor:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute("SELECT pid, application_name FROM pg_stat_activity WHERE datname = current_database()")
            return {int(pid) for pid, name in cursor.fetchall() if tasks or not re.search(OF_A_TASK, name)}

    def lets_go(self) -> None:
        with self.session.cursor() as cursor:
            cursor.execute("COMMIT")


def alone(waits: Waits, pid: int) -> Waits:
    """Whether these sessions are the waiting ones, if any, and only one session blocks them."""
    return waits if {one for _, front in waits.values() for one in front} == {pid} else {}


@pytest.fixture
def eve(mirror: Mirror) -> Iterator[Eve]:
    mirror.start().wait_running()
    with closing(mirror.sink()) as session:
        with session.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"LOCK TABLE {mirror.job.channel.target} IN ACCESS EXCLUSIVE MODE")
        yield Eve(session)


def test_the_session_of_an_abandoned_step_ends_and_the_next_try_waits_for_the_stranger_alone(
    mirror: Mirror, eve: Eve, seed: int
) -> None:
    with written(mirror, seed, changes=60):
        first = until(eve.sees, 30, "a step to wait for her lock")
    drivers = eve.living(tasks=False)
    until(lambda: not eve.living() & set(first), 30, "its session to end, whose own limit is ten minutes")
    names = [name for name, _ in first.values()]
    again = until(lambda: alone(eve.sees(but=first), eve.pid), 30, "the next try to wait for her alone")
    names += [name for name, _ in again.values()]
    until(lambda: not eve.living() & set(again), 30, "its session to end, too")
    (epoch,) = {row.epoch for row in mirror.rows()}
    given = rf"slotkeeper/{mirror.job.name}/{epoch}\.[0-9a-f]{{6}}\.[0-9a-f]+"
    assert all(re.fullmatch(given, name) for name in names), names
    # the session that checks targets is reopened after each lock that it did not get
    assert len(drivers - eve.living()) <= 1, "a session of another program was ended"
    eve.lets_go()
    mirror.wait_applied(mirror.booked())
    mirror.stop()


def test_a_sink_that_was_at_work_on_an_abandoned_step_is_named_and_no_longer_once_it_is_quick(
    mirror: Mirror, seed: int
) -> None:
    mirror.start().wait_running()
    mirror.at_sink(
        "CREATE FUNCTION public.slow(bigint) RETURNS int LANGUAGE plpgsql IMMUTABLE SET search_path = public"
        " AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN 1; END $$",
        f"CREATE INDEX slow ON {mirror.job.channel.target} (public.slow(order_no)) WHERE order_no > 1000000",
    )
    mirror.source(f"UPDATE {mirror.job.channel.source_table} SET order_no = order_no + 2000000 WHERE order_no < 40")

    def blamed() -> set[tuple[str, str]]:
        found = of_lanes(mirror.heard.now.values(), 0.0, 0.0, {"sink": "sink mart"})
        return {(one.party, one.name) for one in found if GIVEN_UP in one.cause}

    until(lambda: blamed() == {("sink", "sink mart")}, 30, "the sink to be named")
    mirror.at_sink("DROP INDEX mart.slow")
    mirror.wait_equal()
    until(lambda: not blamed(), 30, "nothing to be wrong")
    mirror.stop()


def test_a_login_that_may_end_no_session_changes_nothing(mirror: Mirror, seed: int) -> None:
    login = mirror.warehouse.endpoint()
    mirror.at_sink(
        f"GRANT CREATE, TEMPORARY ON DATABASE {mirror.sink_database} TO {login.user}",
        f"GRANT USAGE, CREATE ON SCHEMA public TO {login.user}",
        "REVOKE EXECUTE ON FUNCTION pg_terminate_backend(integer, bigint) FROM PUBLIC",
    )
    mirror.job = replace(mirror.job, sink=replace(mirror.job.sink, user=login.user, password=login.password))
    mirror.start().wait_running()
    with closing(mirror.sink()) as session, session.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"LOCK TABLE {mirror.job.channel.target} IN ACCESS EXCLUSIVE MODE")
        stranger = Eve(session)
        with written(mirror, seed, changes=60):
            first = until(stranger.sees, 30, "a step to wait for her lock")
        until(lambda: len(stranger.sees()) > len(first), 30, "the next try to wait, too")
        assert set(first) <= stranger.living()
        stranger.lets_go()
    mirror.wait_applied(mirror.booked())
    mirror.stop()


def test_a_pause_ends_the_session_of_what_it_gives_up(mirror: Mirror, eve: Eve, seed: int) -> None:
    with written(mirror, seed, changes=60):
        first = until(eve.sees, 30, "a step to wait for her lock")
    mirror.pause()
    until(lambda: not eve.sees(), 30, "no session of the job to wait any more")
    assert not eve.living() & set(first)
    eve.lets_go()
    mirror.stop()


def test_a_copy_that_is_stopped_leaves_no_transaction_of_a_chunk_open(mirror: Mirror) -> None:
    reached, let = threading.Event(), threading.Event()

    def held() -> None:
        reached.set()
        assert let.wait(60)

    mirror.start(probe=At("before_chunk_commit", held))
    assert reached.wait(60)
    with closing(mirror.sink()) as session:
        watched = Eve(session)
        chunks = watched.living() - watched.living(tasks=False)
        assert chunks
        mirror.stop()
        until(lambda: not watched.living() & chunks, 30, "the sessions of its chunks to end, though their threads live")
    let.set()
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


@pytest.mark.chaos
@pytest.mark.spark
def test_a_worker_of_spark_goes_by_its_tasks_name_and_leaves_nothing(
    mirror: Mirror, seed: int, spark_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(spark_cache))
    for name, seconds in (("OVERRUN", 2.0), ("MOST_SLACK", 4.0), ("CANCEL_AFTER", 2.0)):
        monkeypatch.setattr(loop, name, seconds)
    monkeypatch.setattr(job, "StreamPlan", partial(StreamPlan, task_seconds=1.0))
    mirror.make_runner = lambda: open_runner(SparkOptions(master="local[2]"), "abandoned steps", tmp_path)
    mirror.start().wait_running(120)
    try:
        with closing(mirror.sink()) as session, session.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"LOCK TABLE {mirror.job.channel.target} IN ACCESS EXCLUSIVE MODE")
            eve = Eve(session)
            with written(mirror, seed, changes=60):
                first = until(eve.sees, 60, "a step to wait for her lock")
            assert all(re.search(OF_A_TASK, name) for name, _ in first.values()), first
            until(lambda: not eve.living() & set(first), 60, "its session to end")
            until(lambda: alone(eve.sees(but=first), eve.pid), 60, "the next try to wait for her alone")
            eve.lets_go()
        mirror.wait_applied(mirror.booked(), 120)
        mirror.stop()
    finally:
        mirror.runner.close()
