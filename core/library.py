"""The core as a library: read a slot batch by batch, see its errors, write to a sink, register. At least once.

There is no progress row here: the slot's own points are the memory, so a program that dies between writing and
registering reads its last batch again, and the sink's upserts and deletes by key make that harmless. A slot that is
read like this belongs to no job. Next door: `core.wiring.worker` composes jobs, which deliver exactly once.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from core.config.load import load as load_config
from core.config.model import Loaded
from core.domain.advance import choose_xmin, position_after, range_end
from core.domain.position import Position
from core.domain.slot import EventType, Shard, SlotStatus, TableIdentity
from core.domain.spec import JobSpec
from core.domain.watch import Expected, judge, trouble
from core.drivers.copy_text import value_of
from core.engine.driver.registration import widened
from core.errors import Defect, ErrorKind, Refused, SlotkeeperError, Trouble, TroubleName
from core.ports.source import register_point
from core.sinks.postgres.check import target as targets
from core.sinks.postgres.kind import PostgresConnection
from core.sinks.postgres.write import statements as compose
from core.sources.dws.source import DwsSlotAdmin
from core.wiring import worker

__all__ = ["Batch", "EventType", "Reader", "Record", "Sink", "SlotkeeperError", "Trouble", "load", "passes"]


def load(path: str) -> Loaded:
    """A configuration file; raises ConfigError with file, key and line."""
    return load_config(Path(path), os.environ)


def passes(error: SlotkeeperError) -> bool:
    """Whether the cause passes by itself, so that reading again later is all that is needed."""
    return error.kind in (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)


@dataclass(frozen=True, slots=True)
class Record:
    """One change: `values` are text by column, None for NULL; of B and d records only the key's are filled.

    A row that the channel's filter does not accept (any more) is a d record with all its values.
    """

    kind: EventType
    point: int
    sequence: int
    values: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one DN has in one range: `text` is COPY text as the sink takes it, `position` where the DN stands after."""

    shard: Shard
    position: Position
    rows: int
    text: bytes
    columns: tuple[str, ...]
    status: SlotStatus
    top_point: int | None

    @property
    def records(self) -> Iterator[Record]:
        """The changes one by one, in the order in which the server sent them."""
        for line in self.text.decode().split("\n")[:-1]:
            point, sequence, kind, *values = line.split("\t")
            named = dict(zip(self.columns, map(value_of, values), strict=True))
            if kind == "?":
                raise Defect(f"{self.shard.name}: an event whose type is none of I, d, B, U", where="source")
            yield Record(EventType.DELETE if kind == "x" else EventType(kind), int(point), int(sequence), named)


class Reader:
    """One slot of one table, read in this thread; the job gives source, table, slot and options.

    Every call raises errors of `core.errors`: a `Trouble` means that changes may have been dropped. A source under
    GTM-Lite is read where `points_proven` says that `doctor --probe` found one sync point per transaction there.
    """

    def __init__(self, job: JobSpec, points_proven: bool = False) -> None:
        admin = worker.open_admin(job, "library")
        assert isinstance(admin, DwsSlotAdmin), "the configuration admits one dialect"
        self._admin = admin
        self._admin.points_proven = points_proven
        self._options = job.binlog
        self._position: dict[Shard, Position] = {}
        self._expected: dict[Shard, Expected] = {}
        self._xmin: dict[Shard, int] = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def table(self) -> TableIdentity:
        """The source's columns and key."""
        return self._admin.identity

    def start(self) -> None:
        """Go on where the slot stands; a new slot begins at the newest point (what is there is not read)."""
        self._admin.admit()
        statuses = self._admin.read_status(None)
        if all(status.points.missing for status in statuses):
            self._admin.register_full_sync()
            statuses = self._admin.read_status(None)
        for status in statuses:
            live, durable = status.points.both
            if not live or not durable:
                raise trouble(TroubleName.SLOT_LOST, f"{status.shard.name}: the slot holds {live}/{durable}")
            self._position[status.shard] = Position(min(live, durable))
            self._expected[status.shard] = Expected(frozenset({live}), frozenset({durable}), status.fingerprint)
            self._xmin[status.shard] = status.xmin

    def read(self) -> Iterator[Batch]:
        """One range of each DN that has moved; a batch without rows is to be registered too."""
        for status in self._admin.read_status(None):
            after = self._position[status.shard]
            self._check(status)
            if status.latest <= after.point and not self._admin.has_changes(status.shard, after, status.latest):
                continue
            up_to = range_end(after, status.latest, self._options.binlog_sync_point_size)
            out = io.BytesIO()
            rows = self._admin.copy_changes(status.shard, after, max(up_to, after.point), out)
            self._check(*self._admin.read_status(status.shard))
            yield self._batch(status, after, max(up_to, after.point), rows, out.getvalue())

    def register(self, batch: Batch) -> None:
        """Tell the source that a batch is written: it may drop what lies before, and the next read goes on behind."""
        shard, point = batch.shard, batch.position.point
        choice = choose_xmin(point, batch.status.latest, batch.status.xmin, batch.top_point, self._xmin[shard])
        found = self._admin.xmin_at(shard, choice.ask_at) if choice.known is None and choice.ask_at else None
        xmin = choice.known or max(found or 0, choice.fallback)
        expected = self._expected[shard]
        self._expected[shard] = widened(expected, point)
        for checkpoint in (False, True):
            register_point(self._admin, shard, point, checkpoint, xmin)
        self._expected[shard] = replace(expected, live=frozenset({point}), durable=frozenset({point}))
        self._position[shard], self._xmin[shard] = batch.position, xmin

    def close(self) -> None:
        """End the session; safe to call twice. The slot stays, until its TTL runs out."""
        self._admin.close()

    def _check(self, status: SlotStatus) -> None:
        found = judge(status, self._expected[status.shard])
        if found:
            raise found

    def _batch(self, status: SlotStatus, after: Position, up_to: int, rows: int, text: bytes) -> Batch:
        heads = [
            (int(point), int(sequence)) for point, sequence, _ in (x.split(b"\t", 2) for x in text.split(b"\n")[:-1])
        ]
        top = max((sequence for point, sequence in heads if point == up_to), default=None)
        columns = tuple(column.name for column in self._admin.selection.columns(self.table))
        position = position_after(after, up_to, top)
        return Batch(status.shard, position, rows, text, columns, status, max((one for one, _ in heads), default=None))


class Sink:
    """The job's target: made on request, checked, and written to batch by batch."""

    def __init__(self, job: JobSpec, table: TableIdentity) -> None:
        self._options = job.sink_options
        if self._options.quarantines:
            what = "a sink of the library keeps no quarantine: a row that it refuses is an error of `write`"
            raise Refused(what, 'set on_bad_row = "stop"', where="sink")
        opened = worker.store_session(job, "library")
        assert isinstance(opened, PostgresConnection), "the configuration admits one kind"
        self._session = opened.session
        target, image = targets.target_of(job.channel, table), targets.image_of(job.channel, table)
        if job.channel.create_target:
            targets.create(self._session, job.channel.target, image)
        targets.check(self._session, target, image, self._options)
        self._target = targets.seen(self._session, target)

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def write(self, batch: Batch) -> None:
        """The net effect of a batch per key, in one transaction; writing it again changes nothing."""
        if not batch.rows:
            return
        plan = compose.plan(self._target, self._options, batch.rows)
        with self._session.transaction() as cursor:
            for made in compose.temporary(self._target, self._options):
                cursor.execute(made)
            cursor.copy_expert(compose.fill_staging(self._target).as_string(cursor), io.BytesIO(batch.text))
            compose.execute(cursor, plan)

    def close(self) -> None:
        """End the session; safe to call twice."""
        self._session.close()
