"""Runs the demo: an embedded warehouse (a stand-in for DWS), a sink server, one real job, writers, and a verdict.

The job is started by the same supervisor as a user's job.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config import handover
from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.job import RESETTABLE, JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import over
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, Unreachable
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.view import Waiting, observe
from slotkeeper.core.state.sqlite import Store
from slotkeeper.core.verify.compare import Comparison, Opened
from slotkeeper.demo import ledger, orders, postgres, running, workload
from slotkeeper.demo import sinks as demo_sinks
from slotkeeper.demo.incidents.record import Answer, World
from slotkeeper.demo.incidents.small_disk import small_disk
from slotkeeper.demo.ledger import Tally
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.markers import Latency, Marker, SeenMarkers
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.workload import Workload

JOB = "orders_rt"
TARGET = demo_sinks.TARGET
SINK_DATABASE, SINK_USER = demo_sinks.DATABASE, demo_sinks.USER
WRITERS = 4
ROWS = 120_000
_LOG_BYTES = 1 << 20
STOP_SECONDS = 120.0
"""Seconds that the end of a demo waits for its job: a busy host needs more than the supervisor's own limits."""
_STARTING = "demo-servers"  # prefix of thread names
_COMMAND = re.compile(r"[;,]? ?(see )?`slotkeeper [^`]*`")
"""Matches advice about a job that the demo is about to remove."""

_STANDIN = """\
# Written by `slotkeeper demo`; the source is a stand-in for GaussDB(DWS).
[sources.dws1]
dialect = "dws"
host = "{source.host}"
port = {source.port}
database = "{source.database}"
user = "{source.user}"
password_file = "{source.password.ref}"
sslmode = "disable"
environment = "DEMO"
"""

_CONFIG = """\
{source}
{sinks}
[jobs.{job}]
source = "{named}"
sink = "{sink}"
start = "initial"

[[jobs.{job}.channels]]
from = "{table}"
into = "{target}"
create_target = true

[jobs.{job}.binlog]
binlog = true
binlog_slot_name = "{job}"
binlog_sleep_time = "50ms"
binlog_max_sleep_time = "500ms"
{binlog_options}

[jobs.{job}.sink_options]
{sink_options}

[jobs.{job}.spark]
{spark}

[state]
dir = "{state}"
{alerts}"""


class Standin(Protocol):
    """A stand-in for a warehouse, in one database of an embedded server."""

    @property
    def server(self) -> Server: ...
    @property
    def database(self) -> str: ...
    def endpoint(self) -> Endpoint: ...
    def connect(self, autocommit: bool = True) -> pg.Connection: ...
    def nodes(self) -> list[tuple[str, int]]: ...
    def purge(self) -> object: ...


class Stopped(Protocol):
    """A thread that ends on request."""

    def stop(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...


class Writing(Protocol):
    """Writers that change the source, and the number of rows that they have changed so far."""

    @property
    def writers(self) -> Sequence[Stopped]: ...
    @property
    def changes(self) -> int: ...
    def start(self) -> None: ...
    def stop(self) -> object: ...


class Marking(SeenMarkers, Protocol):
    """A thread that writes marker rows."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...
    def finish(self, seconds: float = 30.0) -> None: ...
    def latency(self) -> Latency: ...


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of a demo; `rate`: changes per second; `seconds`: run time of the writers.

    `spark`: the job's Spark settings, including the master and the settings of a standalone cluster. `sink_options` and
    `binlog_options` override the demo's own. `small_disk`: the state folder is on its own disk.
    """

    rows: int = ROWS
    dns: int = 4
    rate: float = 400.0
    seconds: float = 60.0
    seed: int = 1
    spark: Mapping[str, str] = field(default_factory=dict)
    sink_options: Mapping[str, object] = field(default_factory=dict)
    binlog_options: Mapping[str, object] = field(default_factory=dict)
    small_disk: bool = False
    source: str = "dws"
    """A key of `demo.sources.KINDS`."""
    sink: str = "postgres"
    """A key of `slotkeeper.demo.sinks.KINDS`."""


def configuration(
    source: Endpoint | str, sink: Endpoint | str, state: Path, options: DemoOptions, named: str = "dws1"
) -> str:
    """Return the text of the demo's configuration for these two servers.

    `source` is the stand-in's endpoint, or the configuration table of another kind of source, and `named` its name
    there. `sink` is the endpoint of a PostgreSQL server, or the configuration tables of another kind of sink.
    """
    sink_options = {"auto_flush_batch_size": 10_000, **options.sink_options}
    return _CONFIG.format(
        source=source if isinstance(source, str) else _STANDIN.format(source=source),
        named=named,
        sinks=sink if isinstance(sink, str) else demo_sinks.postgres_table(demo_sinks.SINK, sink),
        sink=demo_sinks.SINK,
        job=JOB,
        table=TABLE,
        target=TARGET,
        state=state,
        binlog_options=_keys(options.binlog_options),
        sink_options=_keys(sink_options),
        spark=_keys(options.spark),
        alerts='\n[alerts]\ndisk_free = "1MiB"\n' if options.small_disk else "",
    )


def _keys(values: Mapping[str, object]) -> str:
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items())


class Demo:
    """One demo; `close` stops everything that it started, in any state."""

    note = "stand-in for the DWS binlog functions, not GaussDB(DWS)"
    """The source's description."""
    servers: tuple[str, ...] = running.SERVERS
    """The PostgreSQL servers that the demo starts; the last is the sink."""
    begun = "position <> '' AND registered ~ '^[1-9]'"
    """SQL condition for the progress row of a started lane, which applies every change that the writers count."""
    mirrors = True
    """Whether `slotkeeper init` can create another job for the demo's servers."""
    stays = True
    """Whether the demo can continue after its own process has ended."""
    has_read_by = False
    """Whether the source's changes can be read in several ways."""
    one_lane = False
    """Whether the source has one stream, regardless of the number of DNs."""

    def __init__(self, options: DemoOptions, say: Callable[[str], None]) -> None:
        self.options = options
        self.spark: dict[str, object] = {}
        """Measurements of Spark for the result."""
        self.folder = Path(tempfile.gettempdir()) / f"{running.PREFIX}{secrets.token_hex(8)}"
        """Created after its note, which `demo stop` reads; without a note, `prepare` creates it."""
        self._say = say
        self._clock = SystemClock()
        self._opened = ExitStack()
        self._servers: list[Server] = []
        self._threads: list[Stopped] = []
        self._writers: Writing | None = None
        self._janitor: _Janitor | None = None
        self.marker: Marking | None = None
        self.target = demo_sinks.KINDS[options.sink]()
        """The target's sink; `sink` is the server that stores the progress rows, which can be the same."""
        self.warehouse: Standin | None = None
        self.sink: Server | None = None
        self.loaded: Loaded | None = None
        self.store: Store | None = None

    # -- setup -------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Start the servers, create and load the table, write the configuration."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._say(f"starting PostgreSQL servers: {' and '.join(self.servers)}")
        with ThreadPoolExecutor(2, _STARTING) as pool:
            starting = [
                pool.submit(postgres.start, self.folder / name, name, {"shared_buffers": "256MB"})
                for name in self.servers
            ]
            for one in starting:
                self._servers.append(one.result())
        self.sink = self._servers[-1]
        sink_password = self._make_sink(self.sink)
        self.make_source()
        if self.options.small_disk:
            self._opened.enter_context(small_disk(self.state_folder.parent))
        sink = self.sink.endpoint(SINK_DATABASE, SINK_USER, sink_password)
        if not self.target.at_store:
            self._say(f"starting the sink: {self.target.note}")
        self.target.prepare(self.sink, self.folder)
        text = self.written_down(self.target.tables(sink))
        self.config.write_text(text, encoding="utf-8")
        self.loaded = load(self.config, dict(os.environ))
        self.store = Store.open(self.loaded.state_dir)

    def make_source(self) -> None:
        """Create the source's table and load its rows."""
        made = self.warehouse = Warehouse.install(self._servers[0], self.options.dns)
        workload.create(made)
        self._say(f"loading {self.options.rows:,} rows into {TABLE} on {self.options.dns} DNs")
        with closing(made.connect()) as connection:
            orders.load(connection, self.options.rows, self.options.seed)

    def written_down(self, sink: str) -> str:
        """Return the text of the configuration."""
        assert self.warehouse is not None
        return configuration(self.warehouse.endpoint(), sink, self.state_folder, self.options)

    @property
    def config(self) -> Path:
        """The configuration that the demo wrote."""
        return self.folder / running.CONFIG

    def world(self) -> World:
        """Return the environment of an incident: the servers, and the job through its commands."""
        return World(
            self.incident_source(),
            self._sink(),
            SINK_DATABASE,
            SINK_USER,
            self._sink_password,
            self.config,
            self.state_folder,
            self._command,
        )

    def incident_source(self) -> Warehouse | MariaServer:
        """Return the source of an incident."""
        warehouse, _ = self._known()
        assert isinstance(warehouse, Warehouse), "this source has no incidents"
        return warehouse

    @property
    def state_folder(self) -> Path:
        """The job's state folder."""
        return (self.folder / running.DISK if self.options.small_disk else self.folder) / running.STATE

    def _command(self, words: Sequence[str]) -> Answer:
        """Run a command as a user types it, and return its result."""
        named = () if "--config" in words else ("--config", str(self.config))
        command = [sys.executable, "-P", "-m", "slotkeeper.console", *words, *named]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=handover.environment())
        return Answer(ended.returncode, ended.stdout + ended.stderr)

    @property
    def _sink_password(self) -> Path:
        return self.folder / f"{SINK_USER}.password"

    def _make_sink(self, server: Server) -> Path:
        file = self._sink_password
        password = postgres.write_password(file)
        with closing(server.connect("postgres")) as connection, connection.cursor() as cursor:
            name = pg.sql.Identifier(SINK_USER)
            cursor.execute(pg.sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, pg.sql.Literal(password)))
            cursor.execute(f"CREATE DATABASE {SINK_DATABASE} OWNER {SINK_USER}")
        with closing(server.connect(SINK_DATABASE)) as connection, connection.cursor() as cursor:
            cursor.execute(f"GRANT CREATE ON SCHEMA public TO {SINK_USER}")
        return file

    # -- running -----------------------------------------------------------------------------------------------------

    def start_job(self) -> None:
        """Start the job through its supervisor; as long as the job makes progress, wait until recording has started."""
        self._say("starting the job: supervisor, Spark driver, JVM")
        began = self._clock.monotonic()
        self._started(lambda: control.has_begun(self.view()))
        self.spark["start_s"] = round(self._clock.monotonic() - began, 1)
        self.wait_for(lambda: self.recording() == self.options.dns)

    def go_on(self) -> None:
        """Start a job that a user has stopped, and wait until the start has finished."""
        self._started(lambda: control.has_begun(self.view()))

    def _started(self, reached: Callable[[], bool]) -> None:
        assert self.store is not None
        with suppress(Busy):  # the demo itself waits below
            control.start(self.store, JOB, str(self.config), patience=Patience(seconds=0, waiting=self._say))
        self.wait_for(reached)

    def start_writers(self) -> None:
        """Start the writers; every one of their changes is in the ledger."""
        self._writers = self.workload()
        self._writers.start()

    def workload(self) -> Writing:
        """Return the writers, not started; start a thread for the purge that DWS does automatically."""
        warehouse, _ = self._known()
        self._janitor = _Janitor(warehouse)
        self._janitor.start()
        return Workload(lambda: warehouse.connect(autocommit=False), WRITERS, self.options.rate, self.options.seed)

    def start_markers(self) -> None:
        """Start measuring latency, once the job is RUNNING: a change made during the copy waits for the copy."""
        if self.marker is not None:
            return
        marker = self.marker = self.marking()
        reader = self.target.reader(marker)
        self._threads = [marker, reader]
        marker.start()
        reader.start()

    def marking(self) -> Marking:
        """Return the thread that writes marker rows."""
        warehouse, _ = self._known()
        return Marker(lambda: warehouse.connect(autocommit=False))

    def stop_writers(self) -> None:
        """Stop changing the source; raises the error of a writer that ended early."""
        if self._writers is not None:
            self._writers.stop()
            self._writers = None
        if self._threads and self.marker is not None:
            self.marker.stop()
            self.marker.finish()

    def quiet_writers(self, seconds: float = 5.0) -> None:
        """Stop the writers; a writer that waits for a lock ends once it has the lock."""
        if self._writers is not None:
            for writer in self._writers.writers:
                writer.stop()
            end = self._clock.monotonic() + seconds
            for writer in self._writers.writers:
                writer.join(max(0.0, end - self._clock.monotonic()))

    def view(self) -> JobStatus:
        """Return the job's current status."""
        assert self.store is not None
        return observe(self.store, JOB)

    def written(self) -> int:
        """Return the number of rows changed in the source so far."""
        return self._writers.changes if self._writers is not None else 0

    def latency(self) -> Latency | None:
        """Return the latency that the markers have measured so far."""
        return self.marker.latency() if self.marker is not None else None

    def caught_up(self) -> bool:
        """Whether the copy is done, and every lane has applied as many events as the ledger contains."""
        return self.view().state is JobState.RUNNING and self.applied() == self.ledger()

    def wait_for(
        self, condition: Callable[[], bool], moved: Callable[[], Hashable] | None = None, what: str = ""
    ) -> None:
        """Wait for a condition while the job makes progress, and show it.

        `moved`: another value that changes with progress; if it is given, a heartbeat alone does not count as progress.
        Raises the error of a failed job, or Unreachable after ten minutes without progress.
        """
        waiting, pause = Waiting(self._say), threading.Event()
        while not condition():
            self.refuse_ended()
            if why := waiting.status(self.view(), moved() if moved is not None else None, what):
                raise Unreachable(why)
            pause.wait(0.1)

    def wait_caught_up(self) -> None:
        """Wait until everything is applied, as long as the number of applied events grows."""
        what = "every change to be applied"
        self.wait_for(self.caught_up, lambda: (tuple(self.applied().items()), self.view().state), what)

    def refuse_ended(self) -> None:
        """Raise Refused with the job's reason if the job has ended."""
        view = self.view()
        if view.state in RESETTABLE:
            raise Refused(_COMMAND.sub("", f"the job is {view.state.value}: {view.reason}"))

    def sessions(self) -> list[str]:
        """Return the commands that open a superuser session on each server."""
        warehouse, _ = self._known()
        return [_psql(warehouse.server, warehouse.database), *self.sink_sessions()]

    def sink_sessions(self) -> list[str]:
        """Return the commands that open a superuser session on the sink."""
        return [_psql(self._sink(), SINK_DATABASE)]

    def log_file(self) -> Path | None:
        """Return the most informative log about a failure: the job's, else a server's; None if there is none."""
        logs = [self.store.folder.log(JOB)] if self.store is not None else []
        logs += [one.log_file for one in self._servers] + [self._log_of(name) for name in self.servers]
        return next((one for one in logs if one.exists()), None)

    def _log_of(self, server: str) -> Path:
        """Return the path of a server's log after its data have been deleted."""
        return self.folder / f"{server}.log"

    # -- counts -------------------------------------------------------------------------------------------------------

    def ledger(self) -> dict[str, int]:
        """Return the events per DN that the writers recorded."""
        totals = self.booked()
        return {name: totals[name].total if name in totals else 0 for name in self.lanes()}

    def lanes(self) -> list[str]:
        """Return the names of the lanes."""
        warehouse, _ = self._known()
        return [name for name, _ in warehouse.nodes()]

    def ledger_kinds(self) -> dict[str, int]:
        """Return the rows changed, by kind."""
        whole = sum(self.booked().values(), ledger.Events())
        kinds = (whole.inserted, whole.updated, whole.deleted, whole.key_changed)
        return dict(zip(("insert", "update", "delete", "key_change"), kinds, strict=True))

    def booked(self) -> Tally:
        """Return the events that the writers recorded in the ledger."""
        warehouse, _ = self._known()
        with closing(warehouse.connect(autocommit=False)) as connection:
            return ledger.ledger_totals(connection)

    def applied(self) -> dict[str, int]:
        """Return the events per DN according to the sink's progress rows."""
        rows = self._at_sink("SELECT shard, changes FROM slotkeeper_progress")
        return {str(shard): int(str(changes)) for shard, changes in rows}

    def verify(self) -> Comparison:
        """Compare the two tables row by row."""
        with self.source_tables() as opened:
            return self.target.compare(opened, TABLE)

    @contextmanager
    def source_tables(self) -> Iterator[Opened]:
        """Yield the function that opens the source's tables for the comparison."""
        warehouse, _ = self._known()
        with closing(warehouse.connect(autocommit=False)) as source:
            yield over(source)

    def recording(self) -> int:
        """Return the number of lanes that have started."""
        try:
            return len(self._at_sink(f"SELECT 1 FROM slotkeeper_progress WHERE {self.begun}"))
        except pg.DriverError:
            return 0  # the job has not created its tables yet

    def _at_sink(self, statement: str) -> list[tuple[object, ...]]:
        with closing(self._sink().connect(SINK_DATABASE)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def _sink(self) -> Server:
        assert self.sink is not None
        return self.sink

    def _known(self) -> tuple[Standin, Server]:
        assert self.warehouse is not None
        return self.warehouse, self._sink()

    # -- end ----------------------------------------------------------------------------------------------------------

    def detach(self) -> None:
        """Stop writing, and leave servers and job running (`--keep`)."""
        self._quiet_threads()
        if self.store is not None:
            self.store.close()

    def close(self, keeps: bool = False) -> None:
        """Stop the writers, the job and the servers, and delete all files; never raises for a process that has already
        exited.

        `keeps`: configuration, state and logs remain, the servers' data do not.
        """
        for thread in threading.enumerate():
            if thread.name.startswith(_STARTING):  # Ctrl-C within `submit` hides a thread from its pool
                thread.join(STOP_SECONDS)
        self._quiet_threads()
        if self.store is not None:
            try:
                if self.store.job(JOB) is not None:
                    control.stop(self.store, JOB, Patience(seconds=STOP_SECONDS))
            except SlotkeeperError as error:
                self._say(f"stopping the job: {error}")
            self.store.close()
        self.target.close()
        logs = self._server_logs() if keeps else {}
        self.end_source()
        if not (keeps and self.options.small_disk):  # the state is on that disk
            self._opened.close()
        for name in self.servers:
            postgres.discard(self.folder / name)
        for name, text in logs.items():
            with suppress(OSError):  # the disk may be full
                self._log_of(name).write_bytes(text)
        if not keeps:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _server_logs(self) -> dict[str, bytes]:
        found = {}
        for server in self._servers:
            with suppress(OSError):
                found[server.name] = server.log_file.read_bytes()[-_LOG_BYTES:]
        return found

    def end_source(self) -> None:
        """Stop a source that is not one of the PostgreSQL servers."""

    def _quiet_threads(self) -> None:
        if self._janitor is not None:
            self._janitor.stop()
        for thread in self._threads:
            thread.stop()
        if self._writers is not None:
            for writer in self._writers.writers:
                writer.stop()


def _psql(server: Server, database: str) -> str:
    return (
        f"{server.name}: PGPASSWORD=$(cat {server.password_file}) psql -h {server.host} -p {server.port}"
        f" -U {server.superuser} {database}"
    )


class _Janitor(threading.Thread):
    """Purges records that every slot has passed, or that are past their TTL, as the source does automatically."""

    def __init__(self, warehouse: Standin) -> None:
        super().__init__(name="janitor", daemon=True)
        self._warehouse = warehouse
        self._stop_asked = threading.Event()

    def run(self) -> None:
        while not self._stop_asked.wait(5.0):
            try:
                self._warehouse.purge()
            except pg.DriverError:
                continue  # the server is restarting: the next round purges

    def stop(self) -> None:
        """Ask the thread to end; safe to call twice."""
        self._stop_asked.set()
