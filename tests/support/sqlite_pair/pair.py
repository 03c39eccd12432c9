"""A job from one SQLite file into another, with PostgreSQL as its store, run by the local runner.

`supervised` runs one under a real supervisor, with the product's driver as a separate process.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.launch import control
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.launch import Launch
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store
from slotkeeper.core.verify.compare import Comparison, compare, open_pair
from slotkeeper.demo.warehouse import Warehouse
from tests.support.jobs import FAST, Jobs
from tests.support.mirror import MakeMirror, Mirror
from tests.support.pairs import QUICK, Pair, write_config
from tests.support.polling import server
from tests.support.sqlite_pair import kind, sink
from tests.support.sqlite_pair.binlog import Origin, SourceTables
from tests.support.sqlite_pair.sink import TargetTables
from tests.support.waiting import until


@dataclass
class SecondPair(Pair):
    """A job that has not been started, the file that it reads and the one that it writes."""

    origin: Origin
    file: Path

    def compare(self, channel: ChannelSpec | None = None) -> Comparison:
        read = channel or self.mirror.job.channel
        source, target = SourceTables(str(self.origin.path)), TargetTables(str(self.file))
        return compare(*open_pair(source.table, read.source_table, target.table, read.target))

    def config(self, folder: Path) -> Path:
        job, store = self.mirror.job, self.mirror.job.store
        assert store is not None
        lines = [
            f"[sources.{job.source.name}]",
            f'dialect = "{job.source_kind}"',
            f'file = "{self.origin.path}"',
            f"[sinks.{job.sink.name}]",
            f'kind = "{job.sink_kind}"',
            f'file = "{self.file}"',
            f'progress_store = "{store.name}"',
        ]
        return write_config(folder, job, server("sinks", store) + "\n".join(lines))


MakePair = Callable[..., SecondPair]


@pytest.fixture
def make_pair(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakePair]:
    """Makes a job over tables `(id INTEGER PRIMARY KEY, v INTEGER)`, into a sink of the kind that is named."""

    def make(*tables: str, sink_kind: str = sink.BY_KEY, source_kind: str = kind.NAME) -> SecondPair:
        kind.register(monkeypatch)
        sink.register(monkeypatch)
        origin, file = Origin(tmp_path / "origin.db"), tmp_path / "sink.db"
        for table in tables:
            origin.create_table(table, "id INTEGER PRIMARY KEY, v INTEGER")
        mirror = make_mirror(warehouse, tables[0], tables[0])
        mirror.job = replace(
            mirror.job,
            source=kind.endpoint(origin),
            source_kind=source_kind,
            channels=tuple(ChannelSpec(table, f"mart.{table.partition('.')[2]}") for table in tables),
            sink=sink.endpoint(file),
            sink_kind=sink_kind,
            store=mirror.job.sink,
            store_kind=mirror.job.sink_kind,
            retry=QUICK,
        )
        return SecondPair(mirror, origin, file)

    yield make


DRIVER = Path(__file__).with_name("driver.py")
SECONDS = 120.0


class Configured(Protocol):
    """A job that can be written as a configuration."""

    @property
    def mirror(self) -> Mirror:
        """The job."""

    def config(self, folder: Path) -> Path:
        """Write the configuration, with a separate state folder."""


@dataclass(frozen=True, slots=True)
class Supervised:
    """The job, and the state store of its host."""

    pair: Configured
    store: Store

    @property
    def view(self) -> JobStatus:
        return observe(self.store, self.pair.mirror.job.name)

    def wait_for(self, state: JobState) -> JobStatus:
        def there() -> bool:
            view = self.view
            assert view.state is not JobState.FAILED or state is JobState.FAILED, (view, self.log)
            return view.state is state

        until(there, SECONDS, f"the job to be {state.value}")
        return self.view

    @property
    def log(self) -> str:
        return self.store.folder.log(self.pair.mirror.job.name).read_text("utf-8")

    def kill_driver(self) -> None:
        """SIGKILL the recorded driver, and wait until its supervisor has started another."""
        was = self.view.driver
        assert was is not None and processes.alive(was)
        os.kill(was.pid, signal.SIGKILL)
        until(lambda: self.view.driver not in (None, was) and self.view.driver_alive, SECONDS, "another driver")

    def stop(self) -> JobStatus:
        return control.stop(self.store, self.pair.mirror.job.name, Patience(SECONDS))


@contextmanager
def supervised(pair: Configured, folder: Path, runs_on: str) -> Iterator[Supervised]:
    """Start it, on "local" threads or on "spark", and end all of its processes by their identities afterwards."""
    path = pair.config(folder)
    with Store.open(folder / "state") as store:
        launch = Launch(command=(sys.executable, str(DRIVER), runs_on), limits=FAST)
        try:
            control.start(store, pair.mirror.job.name, str(path), launch, patience=Patience(SECONDS))
            yield Supervised(pair, store)
        finally:
            Jobs(store, folder).end_all()
