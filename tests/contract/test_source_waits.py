"""Sessions that wait at a source for slots and sessions of jobs: on the stand-in, while the wait lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.source_waits import DDL, SCALE_OUT, VACUUM_FULL, SourceWait, cause, to_do
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver.upkeep import EVERY, LEAST, LocksAt, LockWatch
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import SourceWaits
from slotkeeper.core.sources import registry
from slotkeeper.core.sources.waits import LIMIT_MS
from slotkeeper.demo import facts, scaling
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import MakeWarehouse, Surface, run
from tests.support.waiting import until

TABLE, OURS, THEIRS = "ods.orders", "orders_rt", "retired"
ASKED = {TABLE: {OURS: "orders"}}


@dataclass
class Stage:
    """A warehouse, a client that acts as consumers, and sessions that end with the test."""

    warehouse: Warehouse
    surface: Surface
    stack: ExitStack

    def session(self, name: str) -> pg.Connection:
        connection = self.warehouse.connect(autocommit=False)
        self.stack.callback(connection.close)
        _run(connection, f"SET application_name = '{name}'")
        connection.commit()
        return connection

    def begins(self, act: Callable[[pg.Cursor], None], name: str = "gsql") -> pg.Connection:
        """Start a statement that waits, in its own thread and session."""
        session = self.session(name)

        def go() -> None:
            with suppress(pg.DriverError, Refused), pg.transaction(session) as cursor:
                act(cursor)

        thread = threading.Thread(target=go)
        thread.start()
        self.stack.callback(thread.join)
        self.stack.callback(pg.cancel, session)
        return session

    def vacuum(self) -> pg.Connection:
        locked = threading.Event()
        session = self.begins(lambda cursor: scaling.vacuum_full(cursor, TABLE, 300, locked.set))
        assert locked.wait(20)
        return session

    def write(self, first: int = 1, last: int = 20) -> None:
        run(self.warehouse, f"INSERT INTO {TABLE} SELECT g, 'x' FROM generate_series({first}, {last}) g")

    def consume(self, slot: str) -> None:
        for point in self.surface.read_status(TABLE, slot).values():
            self.surface.register_both(TABLE, slot, point.node, point.latest)

    def reader(self, user: str = "") -> SourceWaits:
        endpoint: Endpoint = self.warehouse.endpoint()
        session = registry.open("dws").connect(login(endpoint, "slotkeeper-locks/orders"))
        self.stack.callback(session.close)
        found = session.doctor.waits(ASKED)
        assert found is not None
        return found


def _run(connection: pg.Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def found(reader: SourceWaits, count: int = 1) -> Sequence[SourceWait]:
    """Return the waits, once there is this number of them."""

    def some() -> tuple[Sequence[SourceWait]] | None:
        seen = reader.read(time.time())
        return (seen,) if len(seen) == count else None

    return until(some, 20, f"{count} to wait")[0]


@pytest.fixture
def stage(make_warehouse: MakeWarehouse) -> Iterator[Stage]:
    warehouse = make_warehouse()
    warehouse.create_table(TABLE, "id int, v text", ["id"])
    facts.sees_statistics(warehouse)
    with closing(Surface(warehouse)) as surface, ExitStack() as stack:
        yield Stage(warehouse, surface, stack)
    facts.sees_statistics(warehouse, False)


def test_vacuum_full_that_waits_for_a_slot_is_reported_with_who_and_how_many_follow_until_the_slot_has_read(
    stage: Stage,
) -> None:
    stage.surface.start(TABLE, OURS)
    stage.write()
    reader = stage.reader()
    assert not reader.read(time.time()) and not reader.hidden
    vacuum = stage.vacuum()
    stage.begins(lambda cursor: cursor.execute(f"INSERT INTO {TABLE} VALUES (1001, 'w')"))
    (wait,) = found(reader)
    wait = until(lambda: next((one for one in reader.read(time.time()) if one.behind), None), 20, "a writer to wait")
    assert (wait.what, wait.table, wait.waiter.pid, wait.behind) == (VACUUM_FULL, TABLE, vacuum.info.backend_pid, 1)
    assert [(one.slot, one.job) for one in wait.slots] == [(OURS, "orders")]
    assert wait.waiter.statement == f"VACUUM FULL {TABLE}"
    assert "waits for slot orders_rt (job orders) on dn_" in cause(wait, None)
    assert "`slotkeeper jobs drain orders`" in to_do(wait)
    stage.consume(OURS)
    until(lambda: not reader.read(time.time()), 20, "it to be cleared")


@dataclass
class Watched:
    """The reports of a job's watch on a reader's answers, each with the number of its query."""

    reader: SourceWaits
    asked: int = 0
    told: list[tuple[int, bool]] = field(default_factory=list)

    def read(self, now: float) -> Sequence[SourceWait]:
        self.asked += 1
        return self.reader.read(now)

    def tell(self, waits: tuple[SourceWait, ...], _untold: str) -> None:
        self.told.append((self.asked, bool(waits)))

    def questions_until(self, waits: bool) -> int:
        """Return the number of queries that are sent until that is reported."""
        sent, known = self.asked, len(self.told)
        found = until(lambda: [n for n, so in self.told[known:] if so is waits], 20, f"waits to be told: {waits}")
        return found[0] - sent


def test_a_wait_is_reported_by_the_second_question_sent_while_it_lasts_and_no_more_by_the_first_after_its_end(
    stage: Stage,
) -> None:
    assert EVERY + LEAST + LIMIT_MS / 1000 <= 5.0, "the maximum distance of the answers, plus the second answer's time"
    stage.surface.start(TABLE, OURS)
    stage.write()
    seen = Watched(stage.reader())
    watch = LockWatch[SourceWait]([LocksAt(seen.read, lambda: None)], SystemClock(), seen.tell)
    watch.start()
    stage.stack.callback(watch.stop)
    until(lambda: seen.asked, 20, "the first question")
    stage.vacuum()
    assert seen.questions_until(True) <= 2
    stage.consume(OURS)
    another = stage.reader()
    until(lambda: not another.read(time.time()), 20, "it to end")
    assert seen.questions_until(False) <= 1


def test_a_slot_of_no_job_is_named_as_such(stage: Stage) -> None:
    for slot in (OURS, THEIRS):
        stage.surface.start(TABLE, slot)
    stage.write()
    stage.consume(OURS)
    stage.vacuum()
    (wait,) = found(stage.reader())
    assert [(one.slot, one.job) for one in wait.slots] == [(THEIRS, "")]
    assert "Find the program that reads slot retired (no configured job does)" in to_do(wait)


def test_a_limit_says_when_it_fails(stage: Stage) -> None:
    facts.say(stage.warehouse, "binlog_consume_timeout", "1800")
    stage.surface.start(TABLE, OURS)
    stage.write()
    stage.vacuum()
    (wait,) = found(stage.reader())
    assert wait.fails_at == pytest.approx(wait.since + 1800) and wait.limit == "binlog_consume_timeout 1800 s"


def test_scaling_that_waits_is_reported(stage: Stage) -> None:
    stage.surface.start(TABLE, OURS)
    stage.write()
    reader = stage.reader()

    def scale() -> None:
        with suppress(Refused, pg.DriverError):
            scaling.add_dn(stage.warehouse, "dn_5", timeout=300)

    thread = threading.Thread(target=scale)
    thread.start()
    stage.stack.callback(thread.join)
    stage.stack.callback(stage.consume, OURS)
    (wait,) = found(reader)
    assert (wait.what, [one.slot for one in wait.slots]) == (SCALE_OUT, [OURS])
    stage.consume(OURS)
    until(lambda: not reader.read(time.time()), 20, "it to be cleared")


def test_ddl_that_waits_for_a_job_s_session_names_the_session_and_the_statement_that_ends_it(stage: Stage) -> None:
    copy = stage.session("slotkeeper/orders/7/copy")
    _run(copy, f"SELECT count(*) FROM {TABLE}")
    ddl = stage.begins(lambda cursor: cursor.execute(f"ALTER TABLE {TABLE} ADD COLUMN c int"))
    stage.begins(lambda cursor: cursor.execute(f"INSERT INTO {TABLE} VALUES (1001, 'w')"))
    reader = stage.reader()
    found(reader)
    wait = until(lambda: next((one for one in reader.read(time.time()) if one.behind), None), 20, "a writer to wait")
    assert (wait.what, wait.waiter.pid, wait.behind) == (DDL, ddl.info.backend_pid, 1)
    assert [(one.pid, one.job) for one in wait.sessions] == [(copy.info.backend_pid, "orders")]
    assert f"query_id = {copy.info.backend_pid}`" in to_do(wait)
    copy.rollback()
    until(lambda: not reader.read(time.time()), 20, "it to be cleared")


def test_sessions_that_wait_for_others_are_not_the_jobs_own(stage: Stage) -> None:
    eve = stage.session("psql")
    _run(eve, f"LOCK TABLE {TABLE}")
    stage.begins(lambda cursor: cursor.execute(f"ALTER TABLE {TABLE} ADD COLUMN c int"))
    reader = stage.reader()
    until(lambda: _waiting(stage), 20, "it to wait")
    assert not reader.read(time.time())
    eve.rollback()


def _waiting(stage: Stage) -> bool:
    with closing(stage.warehouse.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pgxc_lock_conflicts WHERE NOT granted")
        row = cursor.fetchone()
        return bool(row and row[0])


@pytest.mark.parametrize("by_user", [True, False], ids=["sees only its own", "sees texts as hidden"])
def test_a_login_that_sees_only_its_own_sessions_says_hidden(stage: Stage, by_user: bool) -> None:
    facts.sees_statistics(stage.warehouse, False)
    facts.activity_by_user(stage.warehouse, by_user)
    stage.surface.start(TABLE, OURS)
    stage.write()
    stage.vacuum()
    reader = stage.reader()
    reader.read(time.time())
    assert (
        reader.hidden.startswith("hidden: cannot see all sessions of other logins")
        and "GRANT gs_role_read_all_stats" in reader.hidden
    )


def test_a_server_without_the_list_of_locks_says_so_and_that_those_who_follow_are_hidden(stage: Stage) -> None:
    run(
        stage.warehouse,
        "DROP VIEW pg_catalog.pgxc_lock_conflicts",
        settings=("SET allow_system_table_mods = on",),
    )
    stage.surface.start(TABLE, OURS)
    stage.write()
    stage.vacuum()
    reader = stage.reader()
    (wait,) = found(reader)
    assert wait.behind is None and "cannot read pgxc_lock_conflicts" in reader.hidden
