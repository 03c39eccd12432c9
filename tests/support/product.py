"""The product path for tests: two separate embedded servers, real supervisors, real Spark; and ways to disturb it.
Several jobs may run over the same servers, one after another or at once, each with its own slot and target.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import over
from slotkeeper.core.launch import control
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.launch import SUPERVISOR_LOCK, Launch, Limits
from slotkeeper.core.launch.view import observe
from slotkeeper.core.sources.dws.position import POSITIONS
from slotkeeper.core.state.sqlite import Store
from slotkeeper.core.verify.compare import Comparison, compare, open_pair
from slotkeeper.demo import workload
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.plans import Mix
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.run import JOB, SINK_DATABASE, TARGET, Demo, DemoOptions
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.workload import Workload
from tests.support.waiting import until


class JobProcesses:
    """Supervisor, driver, JVM and Python workers of the job `name` in `store`."""

    name: str
    store: Store

    def view(self) -> JobStatus:
        return observe(self.store, self.name)

    def events(self) -> list[str]:
        return [event.event for event in reversed(self.store.events(self.name, 1_000))]

    def log(self) -> str:
        return self.store.folder.log(self.name).read_text(encoding="utf-8", errors="replace")

    def jvm(self) -> psutil.Process:
        return until(lambda: next(iter(self._jvms()), None), 30, f"{self.name} to have a JVM")

    def workers(self) -> list[psutil.Process]:
        """The Python workers: children of the daemon that is the JVM's child."""
        found: list[psutil.Process] = []
        for jvm in self._jvms():
            with contextlib.suppress(psutil.Error):
                found += [worker for daemon in jvm.children() for worker in daemon.children()]
        return found

    def driver(self) -> psutil.Process:
        """The recorded driver; AssertionError if it is not running."""
        view = self.view()
        assert view.driver is not None
        assert view.driver_alive
        return psutil.Process(view.driver.pid)

    def _jvms(self) -> Iterator[psutil.Process]:
        view = self.view()
        if view.driver is not None and view.driver_alive:
            with contextlib.suppress(psutil.Error):
                yield from [one for one in psutil.Process(view.driver.pid).children() if one.name() == "java"]

    def kill_workers(self) -> None:
        """SIGKILL all Python workers: it is random which of them is busy."""
        for worker in until(self.workers, 30, f"{self.name} to have a worker"):
            killed(worker)

    def kill_supervisor(self) -> None:
        known = self.view().supervisor
        assert known is not None
        assert processes.alive(known)
        os.kill(known.pid, signal.SIGKILL)
        until(lambda: not processes.alive(known), 10, "the supervisor to be dead")

    def left(self) -> list[int]:
        known = [one for run in self.store.runs(self.name) for one in (run.supervisor, run.driver) if one]
        return sorted({pid for one in known for pid in processes.members(one)} - {os.getpid()})

    def end(self) -> None:
        """Kill every process of this job, including those that another of them starts meanwhile."""
        if self.store.job(self.name) is not None:
            until(self._ended, 30, f"all processes of {self.name} to end")

    def _ended(self) -> bool:
        recorded = self.store.runs(self.name)
        for run in recorded:
            self.store.end_run(run.run, None, "end of the test")
            for known in (run.supervisor, run.driver):
                if known is not None:
                    processes.kill_members(known)
        lock = self.store.folder.try_lock(self.name, SUPERVISOR_LOCK)
        if lock is None:
            return False
        lock.release()
        return not self.left()


def killed(process: psutil.Process) -> None:
    """SIGKILL a process and wait until it has exited."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    until(lambda: not _running(process), 10, "it to be dead")


def _running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


Kind = Literal["driver", "jvm", "worker", "supervisor", "source", "sink"]
KINDS: tuple[Kind, ...] = ("driver", "jvm", "worker", "supervisor", "source", "sink")
TIRELESS = Limits(crashes=100_000, backoff_first=0.1, backoff_most=2.0)
"""By default, five crashes in ten minutes end a job."""
RECOVERY = 120.0
"""The maximum seconds of a recovery before a test reports that there was none."""


@dataclass
class Mirrored(JobProcesses):
    """One job of a `Product`; `base` is the ledger when its slot began to record."""

    product: Product
    name: str
    config: Path
    base: dict[str, int] = field(default_factory=dict)
    launch: Launch = field(default_factory=Launch)

    @property
    def store(self) -> Store:  # type: ignore[override]
        return self.product.store

    # -- commands

    def start(self) -> Mirrored:
        """Start it and wait until every DN records; no writer may write meanwhile at its first start."""
        self.base = self.base or self.product.ledger()
        self.start_again()
        until(self._recording, 90, f"{self.name} to record on every DN")
        return self

    def start_again(self) -> None:
        """Run `jobs start` only."""
        control.start(self.product.store, self.name, str(self.config), self.launch, patience=Patience(0))

    def stop(self, seconds: float = 30) -> float:
        """Run `jobs stop`; return its seconds."""
        return self._timed(control.stop, seconds)

    def pause(self, seconds: float = 30) -> float:
        """Run `jobs pause`; return its seconds."""
        return self._timed(control.pause, seconds)

    def resume(self, seconds: float = 30) -> float:
        """Run `jobs resume`; return its seconds."""
        return self._timed(control.resume, seconds)

    def _timed(self, command: Callable[[Store, str, Patience], JobStatus], seconds: float) -> float:
        began = time.monotonic()
        command(self.product.store, self.name, Patience(seconds))
        return time.monotonic() - began

    # -- looking

    def applied(self) -> dict[str, int]:
        rows = self.product.at_sink("SELECT shard, changes FROM slotkeeper_progress WHERE slot = %s", (self.name,))
        return {str(shard): int(changes) for shard, changes in rows}

    def registered(self) -> dict[str, tuple[int, int]]:
        """Both registered points per DN by the progress rows."""
        found = self.product.at_sink("SELECT shard, registered FROM slotkeeper_progress WHERE slot = %s", (self.name,))
        kept = {shard: POSITIONS.kept(text) for shard, text in found}
        return {shard: (points.live or 0, points.durable or 0) for shard, points in kept.items()}

    def expected(self) -> dict[str, int]:
        """Events per DN that this job should have applied by now."""
        return {dn: events - self.base.get(dn, 0) for dn, events in self.product.ledger().items()}

    def chunks(self) -> tuple[int, int]:
        statement = "SELECT count(*) FILTER (WHERE state = 'done'), count(*) FROM slotkeeper_chunks WHERE slot = %s"
        with contextlib.suppress(pg.DriverError):  # the job has not created its tables yet, or the sink restarts
            done, planned = self.product.at_sink(statement, (self.name,))[0]
            return done, planned
        return 0, 0

    def compare(self) -> Comparison:
        source, target = self.product.connect(), self.product.sink.connect(SINK_DATABASE, autocommit=False)
        try:
            read = over(source), TABLE, over(target), f"mart.{self.name}"
            return compare(*open_pair(*read))
        finally:
            source.close()
            target.close()

    def _recording(self) -> bool:
        self.refuse_end()
        recording = "position <> '' AND registered ~ '^[1-9]'"
        statement = f"SELECT count(*) FROM slotkeeper_progress WHERE slot = %s AND {recording}"
        with contextlib.suppress(pg.DriverError):
            return bool(self.product.at_sink(statement, (self.name,))[0][0] == self.product.demo.options.dns)
        return False

    # -- waiting

    def refuse_end(self) -> None:
        """AssertionError if the job has ended, with its reason and the end of its log."""
        view = self.view()
        ended = not view.state.has_process or not view.lives
        assert not ended, f"{self.name} is {view.state.value}: {view.reason}; {self.log()[-2000:]}"

    def wait_state(self, state: JobState, seconds: float = RECOVERY) -> None:
        def reached() -> bool:
            self.refuse_end()
            return self.view().state is state

        self._until(reached, seconds, f"{self.name} to be {state.value}")

    def wait_applied(self, least: dict[str, int], seconds: float = RECOVERY) -> None:

        def reached() -> bool:
            self.refuse_end()
            with contextlib.suppress(pg.DriverError):
                applied = self.applied()
                return all(applied.get(dn, 0) >= events for dn, events in least.items())
            return False

        self._until(reached, seconds, f"{self.name} to apply {least}")

    def wait_copying(self, share: float = 0.2) -> None:
        """Wait until some of the chunks are done; AssertionError if none is left then."""

        def reached() -> bool:
            self.refuse_end()
            done, planned = self.chunks()
            return planned > 0 and done >= planned * share

        until(reached, 60, f"{self.name} to copy")
        done, planned = self.chunks()
        assert done < planned, "the copy ended before it could be disturbed"

    def wait_equal(self, seconds: float = RECOVERY) -> None:
        """With stopped writers: wait until the job is RUNNING, every event is applied once, and both tables are
        equal."""
        self.wait_applied(self.expected(), seconds)
        self.wait_state(JobState.RUNNING, seconds)
        applied, expected = self.applied(), self.expected()
        assert applied == expected, f"{applied} applied of {expected}"
        found = self.compare()
        assert found.equal, found

    def _until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        try:
            until(condition, seconds, what)
        except AssertionError as error:
            view = self.view()
            raise AssertionError(
                f"{error}; it is {view.state.value} ({view.reason}), {self.applied()} of {self.expected()};"
                f" {self.log()[-2000:]}"
            ) from None

    # -- processes

    def kill(self, kind: Kind) -> None:
        """SIGKILL a process of the job (all its workers: it is random which one is busy), or crash a server."""
        if kind == "source":
            self.product.warehouse.server.restart("immediate")
        elif kind == "sink":
            self.product.sink.restart("immediate")
        elif kind == "supervisor":
            self.kill_supervisor()
        elif kind == "driver":
            killed(self.driver())
        elif kind == "jvm":
            killed(self.jvm())
        else:
            self.kill_workers()

    def drop_slot(self) -> None:
        """Drop the slot, so that the source retains no records for it."""
        with closing(self.product.warehouse.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT pgxc_binlog_clear_target_slot(%s, %s)", (TABLE, self.name))

    # -- the common course of every kill

    def recover_from(self, kind: Kind, idle: bool = False) -> float:
        """Kill, then return the seconds until the earlier commits and another change are applied without any
        command."""
        before = self.view()
        began = time.monotonic()
        self.kill(kind)
        until(lambda: self._another(kind, before), RECOVERY, f"{self.name}: another {kind}; {self.log()[-1000:]}")
        if idle:
            self.product.insert_one()  # only now: a worker of the killed driver may process its lanes for a moment
        known = self.expected()
        self.wait_applied(known)
        return time.monotonic() - began

    def _another(self, kind: Kind, before: JobStatus) -> bool:
        now = self.view()
        self.refuse_end()
        if kind == "supervisor":
            return now.supervisor_alive
        if kind in ("driver", "jvm"):
            return now.driver_alive and now.driver != before.driver
        return now.driver_alive


class Product:
    """Two servers with the loaded table; `job` makes jobs over them, `close` ends everything."""

    def __init__(
        self,
        folder: Path,
        rows: int = 20_000,
        dns: int = 4,
        seed: int = 1,
        chunk: int = 50_000,
        spark: Mapping[str, str] | None = None,
        small_disk: bool = False,
    ) -> None:
        self.rows, self.seed, self.chunk = rows, seed, chunk
        options = DemoOptions(rows=rows, dns=dns, seed=seed, spark=spark or {}, small_disk=small_disk)
        self.demo = Demo(options, print)
        self.demo.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.jobs: list[Mirrored] = []
        self._writers: Workload | None = None
        self._bursts = 0
        try:
            self.demo.prepare()
        except BaseException:
            self.demo.close()
            raise

    @property
    def warehouse(self) -> Warehouse:
        assert self.demo.warehouse is not None
        assert isinstance(self.demo.warehouse, Warehouse)
        return self.demo.warehouse

    @property
    def sink(self) -> Server:
        assert self.demo.sink is not None
        return self.demo.sink

    @property
    def store(self) -> Store:
        assert self.demo.store is not None
        return self.demo.store

    def job(self, name: str, sink_options: Mapping[str, object] | None = None, **binlog: object) -> Mirrored:
        """One more job from the table into `mart.<name>`; `binlog` and `sink_options` are further keys of its tables
        of these names."""
        text = self.demo.config.read_text(encoding="utf-8")
        text = text.replace(f'into = "{TARGET}"', f'into = "mart.{name}"').replace(JOB, name)
        keys = {"full_sync_binlog_batch_read_size": self.chunk, **binlog}
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        text = re.sub(r"^binlog = true\n", "binlog = true\n" + lines, text, flags=re.MULTILINE)
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in (sink_options or {}).items())
        text = re.sub(r"^(\[jobs\..*\.sink_options\]\n)", lambda head: head[1] + lines, text, flags=re.MULTILINE)
        config = self.demo.folder / f"{name}.toml"
        config.write_text(text, encoding="utf-8")
        self.jobs.append(Mirrored(self, name, config))
        return self.jobs[-1]

    def write(self, rate: float = 300.0, writers: int = 4, mix: Mix | None = None, seed: int | None = None) -> Workload:
        """Start writers; they continue through restarts of the source until `quiet`."""
        mix = mix or Mix(rows=self.rows)
        self._writers = Workload(self.connect, writers, rate, self.seed if seed is None else seed, mix)
        self._writers.start()
        return self._writers

    def quiet(self) -> None:
        """Stop the writers; raises the error that ended one before its time."""
        writers, self._writers = self._writers, None
        if writers is not None:
            writers.stop()

    def connect(self) -> pg.Connection:
        return self.warehouse.connect(autocommit=False)

    def insert_one(self) -> None:
        """Insert one row on some DN and record it in the ledger, like a writer."""
        with closing(self.warehouse.connect()) as connection:
            workload.bulk(connection, "insert", 20, first=900_000_000_000 + time.monotonic_ns() // 1_000_000)

    def burst(self, rows: int) -> None:
        """Insert this number of new orders, spread over the DNs, in large transactions, and record them in the
        ledger."""
        with closing(self.warehouse.connect()) as connection:
            workload.bulk(connection, "insert", rows, workload.BULK_FIRST + self._bursts, seed=self.seed)
        self._bursts += rows

    def ledger(self) -> dict[str, int]:
        return self.demo.ledger()

    def at_sink(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with closing(self.sink.connect(SINK_DATABASE)) as connection, connection.cursor() as cursor:
            cursor.execute(statement, tuple(values))
            return cursor.fetchall()

    def close(self) -> None:
        """End writers, jobs by their recorded identities, servers and files."""
        if self._writers is not None:
            for writer in self._writers.writers:
                writer.stop()
        try:
            for job in self.jobs:
                job.end()
        finally:
            self.demo.close()


def status_kib(pid: int, key: str = "VmHWM") -> int:
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)
    assert found, f"{key} of {pid}"
    return int(found[1])
