"""Writes to a sink without a job: the batches of a reader, or single records with the program's own position."""

from __future__ import annotations

import io
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from types import TracebackType

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.config.load import fenced_entries
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.columns import added
from slotkeeper.core.domain.slot import Column, EventType, TableIdentity
from slotkeeper.core.domain.spec import SLOT_NAME, JobSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused
from slotkeeper.core.library.reader import Batch
from slotkeeper.core.library.values import text_of
from slotkeeper.core.ports.sink import QueryBatch, QuerySink, QueryTarget, Staged
from slotkeeper.core.wiring import worker
from slotkeeper.core.wiring.query import query_sink


class Sink:
    """The job's target: created on request, checked, and written batch by batch."""

    def __init__(self, job: JobSpec, table: TableIdentity) -> None:
        if added(job.channel):
            what = "the library's sink cannot add columns (constant, soft_delete, synced_at)"
            raise Refused(what, "use a job", where="sink")
        if job.sink_options.quarantines:
            what = "the library's sink cannot quarantine rows: `write` raises an error for a rejected row"
            raise Refused(what, 'set on_bad_row = "stop"', where="sink")
        self._session = worker.store_session(job, "library")
        self._batches = self._session.batches(job, table)

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def write(self, batch: Batch) -> None:
        """Write the net effect of a batch per key, in one transaction; writing the batch again changes nothing."""
        if batch.rows:
            self._batches.write(batch.text, batch.rows)

    def close(self) -> None:
        """End the session; safe to call twice."""
        self._session.close()


MOST_PENDING = 1_000_000
"""Maximum number of records after the last `advance`: they stay in memory until their position is known."""
TOKEN_BITS = 62
WRITER = "writer "
"""The beginning of a writer's id in the sink; the name and a part of this process follow."""


class RecordSink:
    """A sink of the configuration, for single records of one thread; it connects for each write and at no other time.

    `writer` names the program. The sink records it with each target's last position, in the transaction that writes the
    rows. A target has one writer, in one process: a later process takes it over, and the earlier one is then refused. A
    job's target has none. For Doris, the sink's store records the position, after the load that it names (ADR 106).
    Raises ConfigError for an unknown sink, and Refused for a sink of kind Hologres, which takes records at least once
    and from a job only.
    """

    def __init__(self, loaded: Loaded, sink: str, writer: str, clock: Clock | None = None) -> None:
        if not SLOT_NAME.fullmatch(writer):
            what = f"writer {safe(writer, 70)!r} is not a name: letters, digits, _ and $ only, at most 63"
            raise Refused(what, "choose another name and keep it: it identifies the program's positions", where="sink")
        self._entries, self._writer, self._clock = fenced_entries(loaded, sink), writer, clock or SystemClock()

    def table(
        self, name: str, key: Sequence[str], columns: Sequence[str], batch_size: int = 5_000, interval: float = 5.0
    ) -> TableWriter:
        """Return the writer of `schema.table`, whose existing unique key is `key`; `columns` include the key.

        `advance` writes once `batch_size` records are pending or the oldest is `interval` seconds old. Raises Refused
        for a target without these columns and this key, of a job, or of another writer.
        """
        missing = [one for one in key if one not in columns]
        if missing or not key or len(set(columns)) < len(columns):
            what = f"column {safe(missing[0], 60)} of the key is not in columns" if missing else "the columns are wrong"
            raise Refused(f"{safe(name)}: {what}", "name the key and all columns, each once", where="sink")
        target = QueryTarget(name, tuple(Column(one, "text") for one in columns), tuple(key))
        return TableWriter(lambda: self._open(target), target, self._writer, (batch_size, interval), self._clock)

    def _open(self, target: QueryTarget) -> QuerySink:
        return query_sink(*self._entries, target, f"slotkeeper-writer/{self._writer}"[:63])


class TableWriter:
    """Upserts and deletes of one target, in order per key, each taking effect once.

    Positions are whole numbers that the program defines, such as an offset, and that only increase. After a crash,
    `position` is the last one whose records are in the target: continue after it. After an error, the pending records
    are kept: `flush` writes them, and finds out whether an unanswered attempt already has.
    """

    def __init__(
        self, open: Callable[[], QuerySink], target: QueryTarget, writer: str, limits: tuple[int, float], clock: Clock
    ) -> None:
        self._open, self._target, self._clock = open, target, clock
        self._query = f"{WRITER}{writer}:{secrets.token_hex(8)}"
        """Identifies this writer of this process: a later one takes the target over, and this one is then refused."""
        self._batch_size, self._interval = limits
        with closing(open()) as sink:
            self._place, position = sink.admit(), sink.claim(self._query, f"{WRITER}{writer}:")
        self.position: int | None = position
        """The last committed position; None if this writer has written nothing to the target."""
        self._reached = self.position
        self._lines: list[str] = []
        self._ready = 0
        """The number of lines up to the last `advance`."""
        self._number = 0
        self._since: float | None = None
        """The time of the oldest pending record."""

    def upsert(self, values: Mapping[str, object]) -> None:
        """Insert the row of these values or update it; every column must have a value, None for NULL."""
        columns = [one.name for one in self._target.columns]
        self._refuse_odd(values, columns)
        self._add(EventType.AFTER, values)

    def delete(self, key: Mapping[str, object]) -> None:
        self._refuse_odd(key, self._target.key)
        self._add(EventType.DELETE, key)

    def advance(self, position: int | None = None) -> bool:
        """Declare all records so far to be complete up to `position`; return whether they were written now.

        Without a position, the next whole number is used. Raises Refused for a position that does not increase
        or is not an int of at most 63 bits.
        """
        if position is not None and (type(position) is not int or position >= 1 << 63):
            what = f"{self._target.name}: position {safe(str(position), 40)} is not an int of at most 63 bits"
            raise Refused(what, "convert it: advance(int(...))", where="sink")
        reached = -1 if self._reached is None else self._reached
        position = reached + 1 if position is None else position
        if position <= reached:
            what = f"{self._target.name}: position {position} is not after {reached}"
            raise Refused(what, "positions of a writer only increase: continue after `position`", where="sink")
        self._reached, self._ready = position, len(self._lines)
        age = 0.0 if self._since is None else self._clock.monotonic() - self._since
        if self._ready < self._batch_size and age < self._interval:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Write the records up to the last `advance`, in one transaction with its position."""
        if self._reached is None or self._reached == self.position:
            return
        token, staged = secrets.randbits(TOKEN_BITS), list[Staged]()
        with closing(self._open()) as sink:
            if self._ready:
                lines = io.BytesIO("".join(f"{token},{line}" for line in self._lines[: self._ready]).encode())
                staged.append(Staged(token, sink.stage(self._place, self._query, token, lines)))
            sink.commit(QueryBatch(self._query, self._reached), staged)
            sink.discard()
        self.position = self._reached
        del self._lines[: self._ready]
        self._ready, self._since = 0, self._clock.monotonic() if self._lines else None

    def _refuse_odd(self, values: Mapping[str, object], wanted: Sequence[str]) -> None:
        if values.keys() == set(wanted):
            return
        odd = sorted(values.keys() ^ set(wanted))[0]
        what = f"{self._target.name}: column {safe(odd, 60)} is {'unknown' if odd in values else 'missing'}"
        raise Refused(what, f"give exactly {', '.join(wanted)}", where="sink")

    def _add(self, kind: EventType, values: Mapping[str, object]) -> None:
        if len(self._lines) - self._ready >= MOST_PENDING:
            what = f"{self._target.name}: {MOST_PENDING:,} records since the last `advance`"
            raise Refused(what, "call `advance` more often: until then all records stay in memory", where="sink")
        texts = [text_of(one.name, values.get(one.name)) for one in self._target.columns]
        fields = ["" if text is None else '"' + text.replace('"', '""') + '"' for text in texts]
        self._number += 1
        self._lines.append(f"{self._number},0,{kind.value},{','.join(fields)}\n")
        self._since = self._clock.monotonic() if self._since is None else self._since
