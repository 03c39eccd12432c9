"""The pairs on which the contracts of any source and any sink run: each pair's job, a writer of its source, and its
rows."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import SlotStatus
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pipe import rows_of
from slotkeeper.core.engine.worker.two_part import pair_of
from slotkeeper.core.ports.kinds import SourceKind, SourceSession, TableSession
from slotkeeper.core.ports.sink import Fields, Top
from slotkeeper.core.ports.source import Source
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.demo.warehouse import Warehouse
from tests.support.hologres import HoloPair
from tests.support.mirror import MakeMirror, Mirror
from tests.support.pairs import DorisPair, HologresPair, MysqlPair
from tests.support.sqlite_pair import kind as sqlite
from tests.support.sqlite_pair import sink
from tests.support.sqlite_pair.binlog import Origin
from tests.support.sqlite_pair.pair import MakePair

TABLE = "ods.t"
Change = tuple[int, int | None]
"""A key and its new value; None deletes it."""


class Writes(Protocol):
    """Writes one transaction at the source."""

    def __call__(self, *changes: Change) -> None: ...


@dataclass
class Pair:
    """A job over a table `(id, v)` that has not been started, and a function that writes its source."""

    mirror: Mirror
    write: Writes

    @property
    def job(self) -> JobSpec:
        return self.mirror.job

    @property
    def kind(self) -> SourceKind:
        return sources.open(self.job.source_kind)

    def session(self) -> SourceSession:
        return self.kind.connect(login(self.job.source, "slotkeeper-contract"))

    def source_tables(self) -> TableSession:
        return self.kind.tables(login(self.job.source, "contract"), 10_000)

    def sink_tables(self) -> TableSession:
        return sinks.open(self.job.sink_kind).tables(login(self.job.sink, "contract"), 10_000)


def _first(make_mirror: MakeMirror, warehouse: Warehouse, make_pair: MakePair) -> Pair:
    warehouse.create_table(TABLE, "id bigint, v bigint", ("id",), ("id",))
    return Pair(make_mirror(warehouse, TABLE, "mart.t"), by_sql(warehouse, TABLE))


def by_sql(warehouse: Warehouse, table: str) -> Writes:
    put = f"INSERT INTO {table} VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v"

    def write(*changes: Change) -> None:
        with closing(warehouse.connect(False)) as connection, pg.transaction(connection) as cursor:
            for key, value in changes:
                if value is None:
                    cursor.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
                else:
                    cursor.execute(put, (key, value))

    return write


def _second(kind: str, source_kind: str = sqlite.NAME) -> Callable[[MakeMirror, Warehouse, MakePair], Pair]:
    def made(make_mirror: MakeMirror, warehouse: Warehouse, make_pair: MakePair) -> Pair:
        pair = make_pair(TABLE, sink_kind=kind, source_kind=source_kind)
        return Pair(pair.mirror, in_file(pair.origin))

    return made


def in_file(origin: Origin) -> Writes:
    def write(*changes: Change) -> None:
        with origin.transaction() as writing:
            for key, value in changes:
                if value is None:
                    writing.delete(TABLE, id=key)
                else:
                    writing.put(TABLE, id=key, v=value)

    return write


FIRST, SECOND, KEEPS, DORIS = "first", "second", "keeps", "doris"
HOLOGRES, OF_HOLOGRES, BY_STREAM, MYSQL = "into hologres", "of hologres", "of hologres by stream", "mysql"
BY_SLOT = "of hologres by slot"
MADE = {
    FIRST: _first,
    SECOND: _second(sink.BY_KEY),
    KEEPS: _second(sink.BY_KEY, sqlite.KEEPS),
    sink.ADDS_UP: _second(sink.ADDS_UP),
    sink.TOKENS: _second(sink.TOKENS),
}


@pytest.fixture
def pair(request: pytest.FixtureRequest, make_mirror: MakeMirror, warehouse: Warehouse, make_pair: MakePair) -> Pair:
    if request.param == DORIS:
        made: DorisPair = request.getfixturevalue("doris_pair")
        return Pair(made.mirror, made.write)
    if request.param == HOLOGRES:
        to: HologresPair = request.getfixturevalue("hologres_pair")
        return Pair(to.mirror, to.write)
    if request.param == MYSQL:
        other: MysqlPair = request.getfixturevalue("mysql_pair")
        return Pair(other.mirror, other.write)
    if request.param in (OF_HOLOGRES, BY_STREAM, BY_SLOT):
        of: HoloPair = request.getfixturevalue("slot_pair" if request.param == BY_SLOT else "holo_pair")
        if request.param != OF_HOLOGRES:
            of.options(read_by="stream", binlog_read_batch_size=5)
        return Pair(of.mirror, of.write)
    return MADE[request.param](make_mirror, warehouse, make_pair)


def read(source: Source, status: SlotStatus, after: Position, end: Position) -> list[Fields]:
    """The rows of a range in their order."""
    out = io.BytesIO()
    count = source.copy_changes(status.shard, after, end, out)
    out.seek(0)
    rows = sorted(rows_of(out), key=pair_of)
    assert len(rows) == count
    return rows


def top(rows: list[Fields], end: Position) -> Top:
    """The `Top` that a sink reports for these staged rows."""
    pairs = [pair_of(row) for row in rows]
    last = [number for point, number in pairs if point == end.pair[0]]
    return Top(max((point for point, _ in pairs), default=None), max(last, default=None))
