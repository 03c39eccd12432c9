"""A target of its own for batches of a Spark query: histories go in as its tasks stage them, rows come out.

No Spark: what is tested is the sink's side.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.dataframe.writer.encode import Lines
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.ports.sink import QueryBatch, QueryTarget, Staged
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write.query_sink import PostgresQuerySink
from slotkeeper.demo.postgres import Server
from tests.support.changes import batches_of
from tests.support.effects import NAMES, Effects
from tests.support.histories import COLUMNS
from tests.support.oracle import Accepts, Event

QUERY = "0e13aa2c-0000-4000-8000-000000000001"
OTHER = "77777777-0000-4000-8000-000000000002"
_TYPES = {"h": "integer", "k": "integer", "a": "integer"}


class QueryEffects(Effects):
    """One target, `sink()` sessions at it, and how far its fence is."""

    def __init__(self, server: Server, database: str, name: str, others: bool = False, kind: str = "postgres") -> None:
        self._server, self._database, self._kind = server, database, kind
        super().__init__(server, database, name, others, kind)

    def _progress(self, target: str) -> None:
        """No job has this target."""

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
        """What one task stages."""
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
        """A whole batch of two tasks, whose rows come in any order."""
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

    def begin_anew(self) -> None:
        """Forget the fence."""
        if self.asked("SELECT to_regclass('public.slotkeeper_streams') IS NOT NULL") == [(True,)]:
            self.asked("DELETE FROM public.slotkeeper_streams WHERE target = %s", (self.table.name,))

    def versions(self) -> set[tuple[Any, ...]]:
        """Where each row lies and which transaction wrote it: the same where nothing was written."""
        return set(self.asked(f"SELECT ctid::text, xmin::text FROM {self._name}"))

    def staged_rows(self) -> int:
        """Rows in the staging tables of all targets of this database."""
        names = self.asked("SELECT tablename FROM pg_tables WHERE tablename LIKE 'slotkeeper_staged_%'")
        return sum(self.asked(f'SELECT count(*) FROM public."{name}"')[0][0] for (name,) in names)

    def asked(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._watch.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []
