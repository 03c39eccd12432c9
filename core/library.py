"""The core as a library: read a slot in batches, handle errors, write to a sink, register. At-least-once delivery.

The library uses no progress rows: the slot's own points record the progress. A program that exits between writing and
registering reads its last batch again; this is harmless, because the sink upserts and deletes by key. A slot that is
read in this way belongs to no job.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from slotkeeper.core.config.load import load as load_config
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.slot import EventType, Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import JobSpec, TableAsked
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.watch import Expected, exactly, judge, trouble
from slotkeeper.core.drivers.pipe import value_of
from slotkeeper.core.errors import Defect, ErrorKind, Refused, SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.ports.sink import Top
from slotkeeper.core.ports.source import Confirmation
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.wiring import worker

__all__ = ["Batch", "EventType", "Reader", "Record", "Sink", "SlotkeeperError", "Trouble", "load", "passes"]


def load(path: str) -> Loaded:
    """Load a configuration file; raises ConfigError with file, key and line."""
    return load_config(Path(path), os.environ)


def passes(error: SlotkeeperError) -> bool:
    """Whether the error is transient, so that the caller only needs to read again later."""
    return error.kind in (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)


@dataclass(frozen=True, slots=True)
class Record:
    """One change; `values`: text by column, None for NULL. Records of kind `B` and `d` have only the values of the key.

    A row that does not match the channel's filter, or no longer matches it, is a `d` record with all its values.
    """

    kind: EventType
    point: int
    sequence: int
    values: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of one DN in one range."""

    shard: Shard
    position: Position
    """The position of the DN after the batch."""
    rows: int
    text: bytes
    """The changes as COPY text, in the form that the sink reads."""
    columns: tuple[str, ...]

    @property
    def records(self) -> Iterator[Record]:
        """The changes one by one, in the order in which the server sent them."""
        for line in self.text.decode().split("\n")[:-1]:
            point, sequence, kind, *values = line.split("\t")
            named = dict(zip(self.columns, map(value_of, values), strict=True))
            if kind == "?":
                raise Defect(f"{self.shard.name}: an event of unknown type (not I, d, B or U)", where="source")
            yield Record(EventType.DELETE if kind == "x" else EventType(kind), int(point), int(sequence), named)


class Reader:
    """One slot of one table, read in this thread; the job supplies source, table, slot and options.

    Every call raises errors of `slotkeeper.core.errors`: a `Trouble` means that changes may have been dropped. A source
    under GTM-Lite can be read only with `points_proven`, that is, if `doctor --probe` found one sync point per
    transaction there.

    Raises Refused for a source kind that stores no slot points or supplies no COPY text.
    """

    def __init__(self, job: JobSpec, points_proven: bool = False) -> None:
        kind = sources.open(job.source_kind)
        if not kind.traits.keeps_positions or Encoding.COPY_TEXT not in kind.gives:
            why = "it stores no slot points or supplies no COPY text"
            raise Refused(
                f"the library cannot read a source of kind {job.source_kind}: {why}",
                f"read it with a job: `slotkeeper jobs start {typed(job.name)}`",
                where="source",
            )
        self._session = worker.source_session(job, "library")
        table = self._session.table(TableAsked.of(job, points_proven))
        self._source, self._slot = table.source, table.own_slot
        self._job = job
        self._identity: TableIdentity | None = None
        self._position: dict[Shard, Position] = {}
        self._expected: dict[Shard, Expected] = {}
        self._registered: dict[Shard, Kept] = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def table(self) -> TableIdentity:
        """The source's columns and key."""
        if self._identity is None:
            self._identity = self._source.identify()
        return self._identity

    def start(self) -> None:
        """Continue from the slot's position; a new slot starts at the newest point (existing rows are not read)."""
        self._source.admit()
        statuses = self._source.read_status(None)
        if all(status.kept.missing for status in statuses):
            self._slot.full_sync()
            statuses = self._source.read_status(None)
        for status in statuses:
            oldest = status.kept.oldest
            if status.kept.missing or oldest is None:
                what = f"{status.shard.name}: the slot holds {status.kept.shown}"
                raise trouble(TroubleName.SLOT_LOST, what)
            self._position[status.shard] = oldest.from_here
            self._expected[status.shard] = exactly(status.kept, status.fingerprint)
            self._registered[status.shard] = status.kept

    def read(self) -> Iterator[Batch]:
        """Yield one range of each DN that has advanced; a batch without rows must be registered, too."""
        for status in self._source.read_status(None):
            after = self._position[status.shard]
            self._check(status)
            if status.latest <= after and not self._source.has_changes(status.shard, after, status.latest):
                continue
            end = self._source.next_range(after, status, self._job.binlog.binlog_sync_point_size)
            up_to = max(end, after.place)
            out = io.BytesIO()
            rows = self._source.copy_changes(status.shard, after, up_to, out)
            (second,) = self._source.read_status(status.shard)
            self._check(second)
            yield self._batch(second, after, up_to, rows, out.getvalue())

    def register(self, batch: Batch) -> None:
        """Confirm a written batch to the source, which can then drop earlier changes; the next read starts after it."""
        shard, before = batch.shard, self._registered[batch.shard]
        expected = self._expected[shard]
        (first,) = self._source.read_status(shard)
        self._check(first)
        self._expected[shard] = expected.widened(before.at(batch.position))
        asked = Confirmation(batch.position, before, expected.fingerprint, lambda: None, lambda point: None)
        kept = self._slot.confirm(first, asked)
        self._expected[shard] = exactly(kept, expected.fingerprint)
        self._position[shard], self._registered[shard] = batch.position, kept

    def close(self) -> None:
        """End the session; safe to call twice. The slot stays until its TTL ends."""
        self._session.close()

    def _check(self, status: SlotStatus) -> None:
        found = judge(status, self._expected[status.shard])
        if found:
            raise found

    def _batch(self, status: SlotStatus, after: Position, up_to: Position, rows: int, text: bytes) -> Batch:
        heads = [(int(first), int(second)) for first, second, _ in (x.split(b"\t", 2) for x in text.split(b"\n")[:-1])]
        last = up_to.pair[0]
        second = max((second for first, second in heads if first == last), default=None)
        top = Top(max((first for first, _ in heads), default=None), second)
        mapped = tuple(source for source, _ in self._job.channel.columns)
        columns = mapped or tuple(column.name for column in self.table.columns)
        position = self._source.reached(after, up_to, top, status)
        return Batch(status.shard, position, rows, text, columns)


class Sink:
    """The job's target: created on request, checked, and written batch by batch."""

    def __init__(self, job: JobSpec, table: TableIdentity) -> None:
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
