"""A target that refuses rows in many ways, in a database of the test: steps go in through `PostgresSink`.

No source and no job.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, BinaryIO, Protocol

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.quarantine import QuarantineEntry, Wanted
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.engine.worker.columns import RowPlan, with_columns
from slotkeeper.core.errors import RowRefused
from slotkeeper.core.ports.driver import Runner
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress
from slotkeeper.core.sinks.postgres.quarantine.entries import QuarantineRows
from slotkeeper.core.sinks.postgres.session import DIALECTS, SinkSession
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink
from slotkeeper.core.sinks.postgres.write.statements import TargetTable
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition
from slotkeeper.demo.postgres import Server
from tests.support.effects import copy_lines, planned

Row = Mapping[str, Any]
QUARANTINING = SinkOptions(on_bad_row="quarantine")


class Stage(Protocol):
    def __call__(self, reader: BinaryIO) -> int: ...


class Target:
    """One target table by its own DDL; `key` names its key columns, `forms` how their values become one text."""

    def __init__(
        self,
        server: Server,
        database: str,
        name: str,
        ddl: str,
        columns: Sequence[str],
        key: Sequence[str] = ("id",),
        forms: Sequence[str] = (),
        kind: str = "postgres",
        channel: ChannelSpec | None = None,
    ) -> None:
        self.channel = channel or ChannelSpec(name, name)
        endpoint = replace(server.endpoint(database), name="mart")
        self.session = SinkSession(endpoint, resolve(endpoint.password), f"slotkeeper/{name}/1", kind=kind)
        self.watch = server.connect(database)
        self.name, self.lane = name, LaneKey("dws1", name, "slot", "dn_1")
        self.run(f"CREATE TABLE {name} ({ddl})")
        known = TargetTable(name, tuple(columns), tuple(key), forms=tuple(forms), dialect=DIALECTS[kind])
        known = replace(known, marks=self.channel.marks)
        self.table = targets.seen(self.session, known)
        runner = Runner("quarantined", "run", "host", "user", 1)
        self.store = PostgresProgress(self.session, POSITIONS, self.lane, runner, quarantines=True)
        self.store.create_tables()
        target, at = f"{database}.{name}", DwsPosition(0)
        begun = ProgressRow(
            self.lane, 1, target, at, 0, 0, LaneState.RUNNING, DwsPosition(5, None), None, "c", "i", None
        )
        self.store.insert([begun])
        self.epoch = self.store.raise_epoch()
        self.position = DwsPosition(0)

    def sink(self, options: SinkOptions = QUARANTINING, copying: str = "direct") -> PostgresSink:
        """A worker's sink in a separate session, as at the start of a task."""
        self.session.close()
        made = PostgresSink(self.session, POSITIONS, self.table, options, copying)
        made.read_row(self.lane)
        return made

    def step(self, sink: PostgresSink, lines: Iterable[Sequence[Any]]) -> bool:
        """Apply one step of (point, sequence, kind, values...); returns whether it was isolated."""
        given = io.BytesIO()
        with_columns(given, RowPlan(self.channel), datetime(2026, 1, 1), copying=False).write(
            b"".join(map(line, lines))
        )
        text = given.getvalue()
        try:
            self._take(sink, sink.stage, text)
        except RowRefused:
            self._take(sink, sink.stage_isolating, text)
            return True
        return False

    def _take(self, sink: PostgresSink, stage: Stage, text: bytes) -> None:
        try:
            rows = stage(io.BytesIO(text))
            new = DwsPosition(self.position.point + 1)
            assert sink.commit(self.lane, self.epoch, self.position, new, rows)
            self.position = new
        except BaseException:
            sink.abandon()
            raise

    def chunk(self, sink: PostgresSink, rows: Iterable[Sequence[Any]], plan: bool = True) -> bool:
        """Apply one chunk of a copy; returns whether it was isolated."""
        if plan:
            planned(self.store, self.epoch)
        text = b"".join(map(line, rows))
        careful = False
        try:
            sink.copy_chunk(self.lane, self.epoch, 0, io.BytesIO(text))
        except RowRefused:
            careful = True
            assert sink.copy_chunk_isolating(self.lane, self.epoch, 0, io.BytesIO(text)) == text.count(b"\n")
        sink.finish_chunk()
        return careful

    def rows(self, what: str = "*") -> list[tuple[Any, ...]]:
        return self.asked(f"SELECT {what} FROM {self.name} ORDER BY {', '.join(self.table.key)}")

    def listed(self, **wanted: Any) -> list[QuarantineEntry]:
        """Return the entries of this target, the oldest first, without their values."""
        found = QuarantineRows(self.session).page(Wanted(**{"source_table": self.name, "limit": 10_000, **wanted}))
        return found[::-1]

    def quarantined(self, **wanted: Any) -> list[QuarantineEntry]:
        reader = QuarantineRows(self.session)
        return [entry for one in self.listed(**wanted) if (entry := reader.entry(one.id))]

    def run(self, *statements: str) -> None:
        with self.watch.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def asked(self, statement: str) -> list[tuple[Any, ...]]:
        with self.watch.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def close(self) -> None:
        self.session.close()
        self.watch.close()


def line(values: Sequence[Any]) -> bytes:
    """One line of COPY text; bytes are passed unchanged."""
    parts = []
    for value in values:
        if isinstance(value, bytes):
            parts.append(value)
        else:
            parts.append(copy_lines([{"v": value}], ["v"]).removesuffix(b"\n"))
    return b"\t".join(parts) + b"\n"
