"""Slotkeeper's side: a job of the product's engine, driven from this process, on Spark or on the local runner.

Timed: the copy, from the event of its start to the event of its end; and the catch-up, from the start of the job
until the progress rows include every event of the round.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bench.rig import TARGET
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.inventory import Skipped
from slotkeeper.core.domain.job import JobEvent, TableReport, WantedState
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, JobSpec, SinkOptions, SparkOptions
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.engine.driver.tables import run as run_job
from slotkeeper.core.engine.tasks import LaneOutcome, LocalRunner, StreamOutcome
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.driver import ChunkCounts, TaskRunner
from slotkeeper.core.wiring.driver import WiredSessions
from slotkeeper.core.wiring.worker import ENTRIES
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse

LIMIT = 300.0
POLL = 0.01


class Place(Protocol):
    """The folder and servers that a job uses."""

    @property
    def folder(self) -> Path: ...
    @property
    def warehouse(self) -> Warehouse: ...
    @property
    def sink(self) -> Server: ...


@dataclass
class Heard:
    """The times of the job's events, and the job's retries; implements
    `slotkeeper.core.engine.driver.context.Narrator`.
    """

    at: dict[JobEvent, float] = field(default_factory=dict)
    retries: list[str] = field(default_factory=list)

    def event(self, event: JobEvent, reason: str = "") -> None:
        self.at[event] = time.monotonic()

    def lanes(self, lanes: dict[str, Lane], state: LaneState, epoch: int, registrations: int) -> None:
        pass

    def copy(self, counts: ChunkCounts, epoch: int) -> None:
        pass

    def quarantined(self, rows: int, newest: str = "") -> None:
        pass

    def table(self, report: TableReport) -> None:
        pass

    def stored(self, states: Mapping[str, LaneState]) -> None:
        pass

    def waits(self, tables: Collection[str], text: str) -> None:
        pass

    def shared_reader(self, error: SlotkeeperError | None) -> None:
        pass

    def joined(self, channel: ChannelSpec) -> None:
        pass

    def skipped(self, one: Skipped) -> None:
        pass

    def retrying(self, text: str, by: SlotkeeperError | Party | None = None) -> None:
        if text and self.retries[-1:] != [text]:
            self.retries.append(text)


class Recorder:
    """A task runner that records the outcomes of another runner's tasks; closing it does not close the other runner."""

    def __init__(self, inner: TaskRunner) -> None:
        self._inner = inner
        self.lanes: list[LaneOutcome] = []
        self.tasks = 0
        self.task_seconds = 0.0
        self.first_at: float | None = None
        """When the first task was started."""

    @property
    def capacity(self) -> int:
        return self._inner.capacity

    @property
    def tasks_started(self) -> int:
        return self._inner.tasks_started

    def submit(self, entry: Any, spec: object, group: str) -> Future[Any]:
        began = time.monotonic()
        self.first_at = self.first_at or began
        future = self._inner.submit(entry, spec, group)
        future.add_done_callback(partial(self._done, began))
        return future

    def cancel(self, group: str) -> None:
        self._inner.cancel(group)

    def close(self) -> None:
        pass

    def _done(self, began: float, future: Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        outcome = future.result()
        if isinstance(outcome, StreamOutcome):
            self.tasks += 1
            self.task_seconds += time.monotonic() - began
            self.lanes.extend(outcome.lanes)


def open_runner(kind: str, place: Place) -> tuple[TaskRunner, float]:
    """Return the runner with warm workers, and the seconds that this took (never part of a timing)."""
    began = time.monotonic()
    runner: TaskRunner
    if kind == "local":
        runner = LocalRunner(4)
    else:
        from slotkeeper.core.spark.runner import open_runner as open_spark

        runner = open_spark(
            SparkOptions(), "slotkeeper bench", place.folder / "spark", kinds=("dws", "postgres")
        )  # as a job's driver does
    warm(runner, place)
    return runner, time.monotonic() - began


def warm(runner: TaskRunner, place: Place) -> None:
    """Keep every worker running: Spark ends workers without a task for a minute, which does not occur in a busy job."""
    spec = job_of(place, "warm")
    warming = [runner.submit(entries.close_kept, spec, f"warm-{n}") for n in range(runner.capacity)]
    for one in warming:
        one.result(LIMIT)


class OurJob:
    """One job over a warehouse and a sink database, by default for the orders; each start is one run of its driver."""

    def __init__(self, place: Place, database: str, runner: TaskRunner, spec: JobSpec | None = None) -> None:
        self.place = place
        self.database = database
        self.recorder = Recorder(runner)
        self.heard = Heard()
        self.spec = spec or job_of(place, database)
        self.start_seconds = 0.0
        """Seconds of the last catch-up from the job's start to its first task; part of the timing."""
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def copy(self) -> float:
        """Start for the first time: create the slot, copy, and end when caught up; return the copy's seconds."""
        self._start()
        self._join()
        return self.heard.at[JobEvent.COPY_DONE] - self.heard.at[JobEvent.COPY_BEGAN]

    def catch_up(self, expected: int) -> float:
        """Start again after `expected` events in total have been recorded; return the seconds until the progress rows
        include all of them.
        """
        self.recorder = Recorder(self.recorder._inner)
        connection = self.place.sink.connect(self.database)
        began = time.monotonic()
        self._start()
        with connection.cursor() as cursor:
            while True:
                cursor.execute("SELECT sum(changes) FROM slotkeeper_progress")
                if cursor.fetchall()[0][0] == expected:
                    break
                self._alive(began)
                time.sleep(POLL)
        seconds = time.monotonic() - began
        self.start_seconds = (self.recorder.first_at or began) - began
        connection.close()
        self._join()
        return seconds

    def drop(self) -> None:
        """Close the connections that this process keeps open, and drop the slot, so that the warehouse can purge."""
        entries.close_kept(self.spec)
        connection = self.place.warehouse.connect()
        with connection.cursor() as cursor:
            for channel in self.spec.channels:
                cursor.execute("SELECT pgxc_binlog_clear_target_slot(%s, %s)", (channel.source_table, self.spec.slot))
        connection.close()
        self.place.warehouse.purge()

    def _start(self) -> None:
        self.heard, self._error = Heard(), None
        self._thread = threading.Thread(target=self._run, daemon=True, name="driver")
        self._thread.start()

    def _run(self) -> None:
        sessions = WiredSessions(self.spec, "bench")
        ctx = JobContext(
            job=self.spec,
            sessions=sessions,
            runner=self.recorder,
            work=ENTRIES,
            narrator=self.heard,
            wanted=lambda: WantedState.RUN,
            pause=lambda seconds: time.sleep(min(seconds, 0.2)),
            until_caught_up=True,
        )
        try:
            run_job(ctx)
        except BaseException as error:
            self._error = error
        finally:
            sessions.close()

    def _alive(self, began: float) -> None:
        if self._error is not None:
            raise self._error
        if time.monotonic() - began > LIMIT:
            raise TimeoutError(f"not caught up within {LIMIT:.0f} s: {self.heard.retries}")

    def _join(self) -> None:
        assert self._thread is not None
        self._thread.join(LIMIT)
        if self._error is not None:
            raise self._error


def job_of(place: Place, database: str, *tables: str) -> JobSpec:
    """Return the job with the settings of `config.example.toml` and the demo's shorter sleeps, for the orders or for
    these tables, each with a target of the same name.
    """
    channels = [ChannelSpec(table, table, create_target=True) for table in tables]
    return JobSpec(
        name=f"bench_{database}",
        source=replace(place.warehouse.endpoint(), name="dws1"),
        sink=replace(place.sink.endpoint(database), name="mart"),
        slot=f"bench_{database}",
        channels=tuple(channels) or (ChannelSpec(TABLE, TARGET, create_target=True),),
        binlog=BinlogOptions(binlog=True, binlog_sleep_time=50, binlog_max_sleep_time=500),
        sink_options=SinkOptions(auto_flush_batch_size=10_000),
        wait_ms=60_000,
    )
