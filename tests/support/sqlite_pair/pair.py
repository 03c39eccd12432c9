"""A job from one SQLite file into another, with PostgreSQL as its store, run by the local runner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.spec import ChannelSpec, RetryOptions
from slotkeeper.core.verify.compare import Comparison, compare, open_pair
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import server
from tests.support.sqlite_pair import kind, sink
from tests.support.sqlite_pair.binlog import Origin
from tests.support.sqlite_pair.sink import TargetTables
from tests.support.sqlite_pair.tables import SourceTables
from tests.support.waiting import until


@dataclass
class SecondPair:
    """A job that has not been started, the file that it reads and the one that it writes."""

    origin: Origin
    file: Path
    mirror: Mirror

    def compare(self, channel: ChannelSpec | None = None) -> Comparison:
        """Both tables of a channel row by row."""
        read = channel or self.mirror.job.channel
        source, target = SourceTables(str(self.origin.path)), TargetTables(str(self.file))
        return compare(*open_pair(source.table, read.source_table, target.table, read.target))

    def wait_equal(self, seconds: float = 60) -> None:
        """Wait until the tables of every channel are equal."""

        def equal() -> bool:
            if self.mirror.error is not None:
                raise self.mirror.error
            return all(self.compare(channel).equal for channel in self.mirror.job.channels)

        until(equal, seconds, "source and target to be equal")

    def config(self, folder: Path) -> Path:
        """Write a configuration with this job alone and a state folder of its own."""
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
            f"[jobs.{job.name}]",
            f'source = "{job.source.name}"',
            f'sink = "{job.sink.name}"',
            f'slot = "{job.slot}"',
        ]
        for channel in job.channels:
            lines += [f"[[jobs.{job.name}.channels]]", f'from = "{channel.source_table}"', f'into = "{channel.target}"']
        lines += [f"[jobs.{job.name}.binlog]", "binlog = true", "[state]", f'dir = "{folder / "state"}"']
        path = folder / "slotkeeper.toml"
        path.write_text(server("sinks", store) + "\n".join(lines) + "\n", encoding="utf-8")
        return path


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
            retry=RetryOptions(wait_initial=1, wait_max=50, wait_jitter=1),
        )
        return SecondPair(origin, file, mirror)

    yield make
