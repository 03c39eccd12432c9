"""A job over the stand-in and a real PostgreSQL sink, run by the local runner in a thread of the test."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.consent import Consent, Consents
from slotkeeper.core.domain.copy_limit import CopyLimit
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.inventory import Skipped
from slotkeeper.core.domain.job import AS_THE_JOB, JobEvent, JobState, TableReport, TableWanted, WantedState
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, JobSpec, RetryOptions, SinkOptions
from slotkeeper.core.domain.tries import Tries
from slotkeeper.core.domain.views import ViewReport
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver.context import CopyBudget, JobAudit, JobContext
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.core.engine.driver.tables import run as run_job
from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.core.engine.worker import entries, rounds
from slotkeeper.core.engine.worker.step import Probe, nothing
from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.ports.again import AgainRequests
from slotkeeper.core.ports.driver import ChunkCounts, TaskRunner
from slotkeeper.core.sinks.postgres.kind import PostgresConnection
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sqltext import dotted
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.wiring import worker
from slotkeeper.core.wiring.driver import SourceTables, WiredSessions
from slotkeeper.core.wiring.worker import ENTRIES
from slotkeeper.demo import ledger, workload
from slotkeeper.demo.orders import TABLE, load
from slotkeeper.demo.plans import Mix
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.workload import Workload
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

_numbers = itertools.count(1)
HASTE = 10
"""The factor by which the driver's pauses are shorter than in production, at most 0.2 s each: a start alone has six of
0.2 s.
"""
LINGER = entries.LINGER
FAST = BinlogOptions(binlog=True, binlog_sleep_time=20, binlog_max_sleep_time=100, full_sync_binlog_batch_read_size=500)


@dataclass
class Heard:
    """The reports to the narrator; implements `slotkeeper.core.engine.driver.context.Narrator`."""

    events: list[JobEvent] = field(default_factory=list)
    now: dict[str, Lane] = field(default_factory=dict)
    state: LaneState | None = None
    epoch: int = 0
    retries: list[str] = field(default_factory=list)
    registrations: int = 0
    rows_quarantined: int | None = None
    copied: ChunkCounts | None = None
    tables: dict[str, TableReport] = field(default_factory=dict)
    reader_error: SlotkeeperError | None = None
    found: list[ChannelSpec] = field(default_factory=list)
    unfit: dict[str, str] = field(default_factory=dict)

    def event(self, event: JobEvent, reason: str = "") -> None:
        self.events.append(event)

    def lanes(self, lanes: dict[str, Lane], state: LaneState, epoch: int, registrations: int) -> None:
        self.now, self.state, self.epoch, self.registrations = dict(lanes), state, epoch, registrations

    def copy(self, counts: ChunkCounts, epoch: int) -> None:
        self.copied, self.epoch = counts, epoch

    def quarantined(self, rows: int, newest: str = "") -> None:
        self.rows_quarantined = rows

    def table(self, report: TableReport) -> None:
        self.tables[report.source_table] = report

    def stored(self, states: Mapping[str, LaneState]) -> None:
        """Do nothing: reports on tables come through `table`."""

    def waits(self, tables: Collection[str], text: str) -> None:
        """Do nothing: the tests do not use it."""

    def shared_reader(self, error: SlotkeeperError | None) -> None:
        self.reader_error = error

    def joined(self, channel: ChannelSpec) -> None:
        self.found.append(channel)

    def skipped(self, one: Skipped) -> None:
        self.unfit[one.table] = one.reason

    def retrying(self, text: str, by: SlotkeeperError | Party | None = None) -> None:
        if text:
            self.retries.append(text)


class At:
    """A probe that acts once: at the `nth` call of the point `point` while `armed`; `done` is set afterwards."""

    def __init__(self, point: str, action: Callable[[], object], nth: int = 1, armed: bool = True) -> None:
        self.point = point
        self.armed = armed
        self.done = threading.Event()
        self._action = action
        self._left = nth
        self._lock = threading.Lock()

    def __call__(self, point: str) -> None:
        with self._lock:
            here = self.armed and point == self.point
            self._left -= here
            hit = here and self._left == 0
        if hit:
            try:
                self._action()
            finally:
                self.done.set()


@dataclass
class Shared:
    """The consents that a reset stores, as a running job sees them; none before the first reset."""

    of: Consents | None = None

    def known(self) -> Iterable[Consent]:
        return self.of.known() if self.of else ()

    def given(self, plan: str) -> bool:
        return self.of is not None and self.of.given(plan)

    def keep(self, one: Consent) -> None:
        if self.of:
            self.of.keep(one)

    def drop(self, table: str, but: str = "") -> None:
        if self.of:
            self.of.drop(table, but)


class Mirror:
    """One job; `start` runs it in a thread, `stop` ends it by the desired state, `wait_equal` waits until it has caught
    up.

    Its source is the table `table` of the stand-in; its sink a database of its own, in `sink_server` or beside it.
    """

    def __init__(
        self, warehouse: Warehouse, table: str, target: str = "mart.orders", sink_server: Server | None = None
    ) -> None:
        self.warehouse = warehouse
        self.table = table
        self.sink_server = sink_server or warehouse.server
        number = next(_numbers)
        self.sink_database = f"sink_{number}"
        new_database(self.sink_server, self.sink_database)
        self.job = JobSpec(
            name=f"job_{number}",
            source=replace(warehouse.endpoint(), name="dws1"),
            sink=replace(self.sink_server.endpoint(self.sink_database), name="mart"),
            slot=f"slot_{number}",
            channels=(ChannelSpec(table, target, create_target=True),),
            binlog=FAST,
            sink_options=SinkOptions(auto_flush_batch_size=2_000),
            retry=RetryOptions(wait_initial=100, wait_jitter=100),
            wait_ms=20_000,
        )
        self.heard = Heard()
        self.wanted = WantedState.RUN
        self.error: BaseException | None = None
        self.end: JobEnd | None = None
        self.clock: Clock = SystemClock()
        self.waits: Callable[[float], None] = lambda seconds: time.sleep(min(seconds / HASTE, 0.2))
        self.keepalive = 5.0
        self.take_over = False
        self.recorded: dict[str, Position] = {}
        self.of_tables: dict[str, TableWanted] = {}
        self.until_caught_up = False
        self.audit: JobAudit | None = None
        self.consents: Consents | None = Shared()
        self.tries: Tries | None = None
        self.copy_limit: CopyLimit | None = None
        self.again: AgainRequests | None = None
        self.patterns: Path | None = None
        """The state folder for the tables that the job's patterns match; None without patterns."""
        self.explicit: tuple[ChannelSpec, ...] = ()
        """The channels of the configuration besides the patterns."""
        self.told: list[str] = []
        self.views_told: list[tuple[ViewReport, ...]] = []
        self.capacity = 4
        self.make_runner: Callable[[], TaskRunner] = lambda: LocalRunner(self.capacity)
        self.runner: TaskRunner = LocalRunner(self.capacity)
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self, probe: Probe = nothing, driver_probe: Probe = nothing) -> Mirror:
        """Run the job in a thread; `probe` is called on workers, `driver_probe` around registrations."""
        entries.probe = probe
        self.wanted, self.error, self.end = WantedState.RUN, None, None
        self.heard = Heard()
        self.runner = self.make_runner()
        self._thread = threading.Thread(target=self._run, args=(driver_probe,), daemon=True, name=self.job.name)
        self._thread.start()
        return self

    def run_here(self, probe: Probe = nothing, driver_probe: Probe = nothing) -> None:
        """Run the job in this thread until it ends, as `start` does in another."""
        entries.probe = probe
        self.wanted, self.error, self.end = WantedState.RUN, None, None
        self.heard, self.runner = Heard(), self.make_runner()
        self._run(driver_probe)

    def _run(self, driver_probe: Probe) -> None:
        discovery = None
        if self.patterns is not None:
            discovery = SourceTables(replace(self.job, channels=self.explicit), StateFolder.open(self.patterns))
            try:
                self.job = discovery.first()
            except BaseException as error:
                self.error = error
                return
        sessions = WiredSessions(self.job, "run-1")
        wired = JobContext(
            job=self.job,
            sessions=sessions,
            runner=self.runner,
            work=ENTRIES,
            narrator=self.heard,
            wanted=lambda: self.wanted,
            pause=self.waits,
            probe=driver_probe,
            keepalive=self.keepalive,
            until_caught_up=self.until_caught_up,
            clock=self.clock,
            take_over=self.take_over,
            asked=lambda: dict(self.of_tables),
            audit=self.audit,
            consents=self.consents,
            recorded=self.recorded,
            tries=self.tries,
            copies=CopyBudget(lambda: self.copy_limit),
            discovery=discovery,
            tell_views=self.told.append,
            report_views=self.views_told.append,
            again=self.again,
        )
        try:
            self.end = run_job(wired)
        except BaseException as error:
            self.error = error
        finally:
            sessions.close()

    def stop(self) -> None:
        """Stop the job and wait for the end of its thread; raises the job's error, if any."""
        self.wanted = WantedState.STOP
        with no_lingering():
            self.join()
        if self.error is not None:
            raise self.error

    def join(self, seconds: float = 240) -> None:
        if self._thread is not None:
            self._thread.join(seconds)
            assert not self._thread.is_alive(), "the job did not end"

    def pause(self, seconds: float = 30) -> None:
        """Pause the job and wait until it reports PAUSED."""
        self.wanted = WantedState.PAUSE
        with no_lingering():
            self._until(lambda: self.heard.events[-1:] == [JobEvent.PAUSED], seconds, "the job to be paused")

    def ended(self) -> bool:
        return self._thread is not None and not self._thread.is_alive()

    def wait_running(self, seconds: float = 60) -> Mirror:
        """Wait until the job is RUNNING; fails at once if it ended with an error."""
        self._until(lambda: self.heard.state is LaneState.RUNNING, seconds, "the job to be RUNNING")
        return self

    def want(self, table: str, wanted: WantedState, anew: bool = False) -> None:
        """Set the desired state of one table, as `jobs ... --table` does."""
        turn = self.of_tables.get(table, AS_THE_JOB).turn
        self.of_tables[table] = TableWanted(wanted, turn + anew)

    def wait_table(self, table: str, state: JobState, seconds: float = 60) -> TableReport:
        """Wait until one table is in that state; returns its report."""

        def there() -> bool:
            known = self.heard.tables.get(table)
            return known is not None and known.state == state.value

        self._until(there, seconds, f"{table} to be {state.value}")
        return self.heard.tables[table]

    def wait_equal(self, seconds: float = 60) -> None:
        """Wait until source and target have the same rows and every lane has read everything."""
        with closing(self.warehouse.connect()) as source, closing(self.sink()) as sink:
            # opening a session for each check would cost more than the check
            statements = [self._statements(channel) for channel in self.job.channels]

            def equal() -> bool:
                return all(_asked(source, ours) == _asked(sink, theirs) for ours, theirs in statements)

            self._until(equal, seconds, "source and target to be equal")

    def wait_error(self, seconds: float = 60) -> BaseException:
        """Wait until the job ends with an error, and return the error."""
        until(self.ended, seconds, "the job to end")
        assert self.error is not None, f"the job ended as {self.end}"
        return self.error

    def _until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait; fail at once if the job has ended with an error; print its events if it takes too long."""

        def asked() -> bool:
            if self.error is not None:
                raise self.error
            return condition()

        try:
            until(asked, seconds, what)
        except AssertionError as late:
            heard = self.heard
            lanes = [f"{one.key.shard} {one.activity.value} {one.position} {one.error}" for one in heard.now.values()]
            tables = [f"{one.source_table} {one.state} {one.reason}" for one in heard.tables.values()]
            story = [
                tables,
                [event.value for event in heard.events][-20:],
                heard.state,
                heard.retries[-3:],
                lanes,
                self.end,
            ]
            raise AssertionError(f"{late}; {story}") from late

    def difference(self) -> tuple[int, int]:
        """(rows only in the source, rows only in the target), over all channels."""
        lost = extra = 0
        for channel in self.job.channels:
            source, target = set(self.source_rows(channel)), set(self.target_rows(channel))
            lost, extra = lost + len(source - target), extra + len(target - source)
        return lost, extra

    def source_rows(self, channel: ChannelSpec | None = None) -> list[tuple[Any, ...]]:
        return self.query(self.warehouse.connect, self._statements(channel)[0])

    def target_rows(self, channel: ChannelSpec | None = None) -> list[tuple[Any, ...]]:
        return self.query(self.sink, self._statements(channel)[1])

    def _statements(self, channel: ChannelSpec | None = None) -> tuple[str, str]:
        """The statements that read the rows of a channel's source, and of its target."""
        read = channel or self.job.channel
        source, target = (f"SELECT t::text FROM {dotted(name)} t" for name in (read.source_table, read.target))
        return source, target

    def sink(self) -> pg.Connection:
        return self.sink_server.connect(self.sink_database)

    def sink_session(self) -> SinkSession:
        """The product's own session at the sink, as in a worker of the job."""
        made = worker.store_session(self.job, "test")
        assert isinstance(made, PostgresConnection)
        return made.session

    def at_sink(self, *statements: str) -> None:
        """Run statements at the sink, each in a separate transaction, as the superuser."""
        connection = self.sink()
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        connection.close()

    def booked(self) -> dict[str, int]:
        """Events per DN in the workload's ledger: the events that the binlog must contain and the sink must have
        applied."""
        with closing(self.warehouse.connect()) as connection:
            return {dn: events.total for dn, events in ledger.ledger_totals(connection).items()}

    def wait_applied(self, booked: dict[str, int], seconds: float = 60) -> None:
        """Wait until the counts of the progress rows equal the ledger for each DN, then compare the tables once."""

        def applied() -> dict[str, int]:
            return {dn: count for dn, count in self.changes().items() if count}

        self._until(lambda: sum(applied().values()) >= sum(booked.values()), seconds, f"{booked} to be applied")
        assert applied() == booked
        assert self.difference() == (0, 0)

    def source(self, *statements: str) -> None:
        """Run statements at the source in one transaction, as the superuser."""
        connection = self.warehouse.connect(False)
        with pg.transaction(connection) as cursor:
            for statement in statements:
                cursor.execute(statement)
        connection.close()

    def query(self, connect: Callable[[], pg.Connection], statement: str) -> list[tuple[Any, ...]]:
        with closing(connect()) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def rows(self) -> list[ProgressRow]:
        try:
            return self._rows()
        except Unreachable:  # a driver that starts ends every session of its job, including this one
            return self._rows()

    def _rows(self) -> list[ProgressRow]:
        found = []
        for job in self.job.narrowed:
            progress = worker.open_progress(job, "test", worker.who(job, "test"))
            try:
                found += progress.rows()
            finally:
                progress.close()
        return found

    def changes(self) -> dict[str, int]:
        return {self.job.lane_name(row.key.source_table, row.key.shard): row.changes for row in self.rows()}

    def close(self) -> None:
        """Stop it and forget its sink; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self.wanted = WantedState.STOP
        if self._thread is not None:
            with no_lingering():
                self._thread.join(120)
        entries.probe = nothing
        entries.close_kept(self.job)
        rounds.close_kept(self.job)
        if self.sink_server.running():
            drop_database(self.sink_server, self.sink_database)


@contextmanager
def no_lingering() -> Iterator[None]:
    """Tasks end with their first quiet check: a job that has to stop need not wait until they would linger."""
    entries.LINGER = 0.0
    try:
        yield
    finally:
        entries.LINGER = LINGER


def _asked(connection: pg.Connection, statement: str) -> set[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return set(cursor.fetchall())


MakeMirror = Callable[..., Mirror]


@pytest.fixture
def make_mirror() -> Iterator[MakeMirror]:
    """Makes mirrors of tables; all are stopped and their sink databases dropped at the end."""
    made: list[Mirror] = []

    def make(
        warehouse: Warehouse, table: str, target: str = "mart.orders", sink_server: Server | None = None
    ) -> Mirror:
        made.append(Mirror(warehouse, table, target, sink_server))
        return made[-1]

    yield make
    for mirror in made:
        mirror.close()


ROWS = 400


def orders(make_mirror: MakeMirror, warehouse: Warehouse, seed: int, rows: int = ROWS) -> Mirror:
    """A mirror of `ods.orders` with `rows` orders and an empty ledger; not started."""
    workload.create(warehouse)
    connection = warehouse.connect(False)
    load(connection, rows, seed)
    connection.close()
    return make_mirror(warehouse, TABLE)


def writers(mirror: Mirror, seed: int, number: int = 3, rate: float = 300) -> Workload:
    """Writers on the mirror's source; not started."""
    return Workload(mirror.warehouse.connect, number, rate, seed, Mix(rows=ROWS))


@contextmanager
def written(mirror: Mirror, seed: int, changes: int = 100, number: int = 3, rate: float = 300) -> Iterator[Workload]:
    """Run writers during the block, for at least `changes` changes; they end with the block."""
    work = writers(mirror, seed, number, rate)
    work.start()
    try:
        yield work
        until(lambda: work.failed or work.changes >= changes, 30, f"{changes} changes to be written")
    finally:
        work.stop()


def as_superuser(mirror: Mirror) -> Mirror:
    """Return the mirror, reading its source with a login that sees other sessions."""
    source = replace(mirror.warehouse.endpoint("postgres"), name=mirror.job.source.name)
    mirror.job = replace(mirror.job, source=source)
    return mirror


def both(first: Probe, second: Probe = nothing) -> Probe:

    def call(point: str) -> None:
        first(point)
        second(point)

    return call
