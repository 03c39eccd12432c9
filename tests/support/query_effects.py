"""A separate target for batches of a Spark query: histories are staged as by its tasks, rows are read.

No Spark: the tests check the sink's side.

Histories come as the changelog that a DataFrame has: Arrow batches with the columns of
`slotkeeper.core.dataframe.changelog`.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.dataframe import changelog
from slotkeeper.core.dataframe.writer.encode import Lines
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.ports.sink import QueryBatch, QueryTarget, Staged
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write.query_sink import PostgresQuerySink
from slotkeeper.demo.postgres import Server
from tests.support.effects import NAMES, Effects
from tests.support.oracle import COLUMNS, Accepts, Event

_INTS = ("h", "k", "a")
CHANGES = pa.schema(
    [
        (changelog.CHANGE, pa.string()),
        (changelog.DN, pa.string()),
        (changelog.POINT, pa.int64()),
        (changelog.SEQUENCE, pa.int64()),
        *((name, pa.int32() if name in _INTS else pa.string()) for name in COLUMNS),
    ]
)


def row_of(event: Event, accepts: Accepts | None = None) -> dict[str, Any]:
    """Return an event as a row; old images contain only their key or, every other one, values that must not be used."""
    image: dict[str, Any] = dict(event.image) if event.image is not None else {"h": event.key[0], "k": event.key[1]}
    kind = event.kind
    if event.image is not None and accepts is not None and not accepts(event.image):
        kind = changelog.DELETE
    if event.image is None and event.sequence % 2:
        image |= {"a": -1, "b": "old", "tags": "{-1}", "j": "-1"}
    ours = {changelog.CHANGE: kind, changelog.DN: f"dn_{event.key[0] % 3}"}
    return ours | {changelog.POINT: event.point, changelog.SEQUENCE: event.sequence} | image


def batches_of(events: Iterable[Event], size: int, accepts: Accepts | None = None) -> list[pa.RecordBatch]:
    """Record batches of at most `size` rows."""
    rows = [row_of(event, accepts) for event in events]
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    return [pa.RecordBatch.from_pylist(part, CHANGES) for part in parts]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in _checked(batches) for row in batch.to_pylist()]


def _checked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        assert batch.schema == CHANGES
        yield batch


QUERY = "0e13aa2c-0000-4000-8000-000000000001"
OTHER = "77777777-0000-4000-8000-000000000002"
_TYPES = {"h": "integer", "k": "integer", "a": "integer"}


class QueryEffects(Effects):
    """One target, `sink()` sessions at it, and the position of its fence."""

    def __init__(self, server: Server, database: str, name: str, others: bool = False, kind: str = "postgres") -> None:
        self._server, self._database, self._kind = server, database, kind
        super().__init__(server, database, name, others, kind)

    def _progress(self, target: str) -> None:
        """Return nothing: no job has this target."""

    def query_target(self, options: SinkOptions, **more: Any) -> QueryTarget:
        columns = tuple(Column(NAMES[one], _TYPES.get(one, "text")) for one in COLUMNS)
        key = (NAMES["h"], NAMES["k"])
        return replace(QueryTarget(self.table.name, columns, key, options=options), **more)

    @contextmanager
    def opened(self, options: SinkOptions | None = None, **more: Any) -> Iterator[PostgresQuerySink]:
        """A session for the block, as each process of a query opens one."""
        endpoint = replace(self._server.endpoint(self._database), name="mart")
        session = SinkSession(endpoint, resolve(endpoint.password), "slotkeeper-query/test", kind=self._kind)
        target = self.query_target(options or SinkOptions(), **more)
        with closing(PostgresQuerySink(session, target)) as sink:
            yield sink

    def stage(
        self, sink: PostgresQuerySink, events: Sequence[Event], query: str = QUERY, accepts: Accepts | None = None
    ) -> Staged:
        token = secrets.randbits(62)
        place = sink.admit()
        lines = Lines(batches_of(events, 50, accepts), token, COLUMNS)
        return Staged(token, sink.stage(place, query, token, lines))

    def batch(
        self,
        number: int,
        events: Sequence[Event],
        options: SinkOptions | None = None,
        accepts: Accepts | None = None,
        draw: random.Random | None = None,
        query: str = QUERY,
        **more: Any,
    ) -> bool:
        """A whole batch of two tasks, whose rows have any order."""
        mixed = list(events)
        (draw or random.Random(number)).shuffle(mixed)
        half = len(mixed) // 2
        with self.opened(options, **more) as sink:
            staged = [self.stage(sink, part, query, accepts) for part in (mixed[:half], mixed[half:])]
            done = sink.commit(QueryBatch(query, number), staged)
            sink.discard()
        return done

    def fence(self) -> list[tuple[Any, ...]]:
        """(query, batch, rows) of the target's fence; none before the first batch."""
        return self.asked(
            "SELECT query, batch, rows FROM public.slotkeeper_streams WHERE target = %s", (self.table.name,)
        )

    def start_over(self) -> None:
        if self.asked("SELECT to_regclass('public.slotkeeper_streams') IS NOT NULL") == [(True,)]:
            self.asked("DELETE FROM public.slotkeeper_streams WHERE target = %s", (self.table.name,))

    def versions(self) -> set[tuple[Any, ...]]:
        """Return the location of each row and the transaction that wrote it; a write would change one of them."""
        return set(self.asked(f"SELECT ctid::text, xmin::text FROM {self._name}"))

    def staged_rows(self) -> int:
        """Rows in the staging tables of all targets of this database."""
        names = self.asked("SELECT tablename FROM pg_tables WHERE tablename LIKE 'slotkeeper_staged_%'")
        return sum(self.asked(f'SELECT count(*) FROM public."{name}"')[0][0] for (name,) in names)

    def asked(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._watch.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []
