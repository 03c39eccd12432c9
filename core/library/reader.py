"""Reads the changes to one table in batches, confirms them, and continues after them in a later run."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.slot import EventType, Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import JobSpec, TableAsked
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.watch import Expected, exactly, judge, purged, trouble
from slotkeeper.core.drivers.pipe import value_of
from slotkeeper.core.errors import Defect, Refused, TroubleName
from slotkeeper.core.library.values import reader_of
from slotkeeper.core.ports.sink import Top
from slotkeeper.core.ports.source import Confirmation
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.wiring import worker


@dataclass(frozen=True, slots=True)
class Record:
    """One change; `values`: text by column, None for NULL. Records of kind `B` and `d` have only the values of the key.

    A row that does not match the channel's filter, or no longer matches it, is a `d` record with all its values.
    `point` and `sequence` order the changes of a DN (`Position.pair`).
    """

    kind: EventType
    point: int
    sequence: int
    values: dict[str, str | None]
    readers: Mapping[str, Callable[[str], object]]

    @property
    def typed(self) -> dict[str, object]:
        """The values in Python's types: int, Decimal, float, bool, date, datetime, bytes; other types stay text."""
        return {name: None if text is None else self.readers[name](text) for name, text in self.values.items()}


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
    fingerprint: str
    readers: Mapping[str, Callable[[str], object]]

    @property
    def mark(self) -> str:
        """The place after this batch as text, for `Reader.start` in a later run; it names the table and its server."""
        return _mark(self.position, self.fingerprint)

    @property
    def records(self) -> Iterator[Record]:
        """The changes one by one, in the order in which the server sent them."""
        for line in self.text.decode().split("\n")[:-1]:
            point, sequence, kind, *values = line.split("\t")
            named = dict(zip(self.columns, map(value_of, values), strict=True))
            if kind == "?":
                raise Defect(f"{self.shard.name}: an event of unknown type (not I, d, B or U)", where="source")
            event = EventType.DELETE if kind == "x" else EventType(kind)
            yield Record(event, int(point), int(sequence), named, self.readers)


def _mark(position: Position, fingerprint: str) -> str:
    return json.dumps([position.text, fingerprint])


OLDER_SECONDS = 10.0


class Reader:
    """The changes to one table, read in this thread; the job supplies source, table, slot and options.

    A server that stores positions (DWS, Hologres with slots) continues at its slot. For the others (MySQL, Hologres
    without slots), the program stores the mark of each DN's last batch, and passes the marks to `start`.

    Every call raises errors of `slotkeeper.core.errors`: a `Trouble` means that changes may have been dropped. A source
    under GTM-Lite can be read only with `points_proven`, that is, if `doctor --probe` found one sync point per
    transaction there.
    """

    def __init__(self, job: JobSpec, points_proven: bool = False, clock: Clock | None = None) -> None:
        self._positions = sources.positions(job.source_kind)
        self._session = worker.source_session(job, "library")
        table = self._session.table(TableAsked.of(job, points_proven))
        self._source, self._slot = table.source, table.slot
        self._job = job
        self._identity: TableIdentity | None = None
        self._position: dict[Shard, Position] = {}
        self._expected: dict[Shard, Expected] = {}
        self._registered: dict[Shard, Kept] = {}
        self._older: dict[Shard, float] = {}
        """The time since which a DN's newest position is before what was read."""
        self._clock = clock or SystemClock()

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

    def start(self, marks: Mapping[str, str] | None = None) -> dict[str, str]:
        """Continue after `marks` (`Batch.mark` by DN name), or without marks at the slot's position.

        Without a slot, empty marks start at the newest position: existing rows are not read. Returns the marks at which
        reading starts; a program that has none yet stores them before its first read. Raises Refused for a mark that is
        damaged or of another DN, and for a server without slots if no marks are given, and Trouble if changes after a
        mark may be gone, or if the table was changed.
        """
        if marks is None and self._slot is None:
            what = f"a source of kind {self._job.source_kind} stores no position to continue at"
            raise Refused(what, "pass the stored marks to `start`; {} at the program's first run", where="source")
        self._source.admit()
        stored = {name: self._stored(name, mark) for name, mark in (marks or {}).items()}
        statuses, is_new = self._open(bool(marks))
        for status in statuses:
            shard, kept, begin = status.shard, status.kept, status.latest.from_here
            if kept.missing:
                raise trouble(TroubleName.SLOT_LOST, f"{shard.name}: the slot holds {kept.shown}")
            if not is_new:
                begin = (kept.oldest or kept.again).from_here
            position, fingerprint = stored.pop(shard.name, (begin, status.fingerprint))
            if not is_new and position < begin:
                what = f"{shard.name}: the slot is at {begin.shown}, after the mark {position.shown}"
                raise trouble(TroubleName.SLOT_MOVED, what)
            self._position[shard], self._registered[shard] = position, kept
            self._expected[shard] = exactly(kept, fingerprint)
            self._check(status)
        if stored or (marks and len(marks) < len(statuses)):
            shown = ", ".join(sorted(status.shard.name for status in statuses))
            given = ", ".join(sorted(safe(name, 40) for name in marks or {}))
            what = f"the marks are of {given}, but the table is on {shown}"
            raise Refused(what, "pass the last mark of each DN, or take a new copy of the table", where="source")
        return {shard.name: _mark(at, self._expected[shard].fingerprint) for shard, at in self._position.items()}

    def _stored(self, name: str, mark: str) -> tuple[Position, str]:
        try:
            text, fingerprint = json.loads(mark)
            return self._positions.position(text), str(fingerprint)
        except (ValueError, TypeError, AttributeError) as error:
            what = f"the mark of {safe(name, 40)} is damaged: {safe(str(mark), 60)!r}"
            raise Refused(what, "pass `Batch.mark` unchanged", where="source") from error

    def _open(self, continues: bool) -> tuple[list[SlotStatus], bool]:
        """Return the status of each DN, and whether there was no slot with a position to continue from.

        A slot that does not exist is created at the newest position; raises SLOT LOST instead if marks depend on it.
        """
        if self._slot is None:
            return self._source.open_lanes(), True
        statuses = self._source.read_status(None)
        is_new = all(status.kept.missing for status in statuses)
        if is_new and continues:
            raise trouble(TroubleName.SLOT_LOST, f"slot {self._job.slot} no longer exists, so changes may be gone")
        if is_new:
            self._slot.full_sync()
            statuses = self._source.read_status(None)
        return statuses, is_new and all(status.kept.oldest is None for status in statuses)

    def read(self) -> Iterator[Batch]:
        """Yield one range of each DN that has advanced; a batch without rows must be registered, too."""
        for status in self._source.read_status(None):
            after = self._position[status.shard]
            self._check(status)
            if status.latest < after:
                self._note_older(status, after)
                continue
            self._older.pop(status.shard, None)
            if status.latest <= after and not self._source.has_changes(status.shard, after, status.latest):
                continue
            end = self._source.next_range(after, status, self._job.binlog.binlog_sync_point_size, begins=True)
            up_to = max(end, after.place)
            out = io.BytesIO()
            rows = self._source.copy_changes(status.shard, after, up_to, out)
            (second,) = self._source.read_status(status.shard)
            self._check(second)
            yield self._batch(second, after, up_to, rows, out.getvalue())

    def _note_older(self, status: SlotStatus, after: Position) -> None:
        """Raise SOURCE OLDER if statuses stay behind what was read: the source was then restored to an older copy."""
        now = self._clock.monotonic()
        if now - self._older.setdefault(status.shard, now) < OLDER_SECONDS:
            return
        sentence = f"{status.shard.name}: the source's newest point {status.latest.shown} is before {after.shown}"
        raise trouble(TroubleName.SOURCE_OLDER, sentence)

    def register(self, batch: Batch) -> None:
        """Confirm a written batch: the next read starts after it, and the source can drop earlier changes.

        Nothing is sent to a server that stores no positions: store `batch.mark` before the call. Raises Refused for a
        batch before a confirmed one: a position only increases.
        """
        shard = batch.shard
        if batch.position < self._position[shard]:
            what = f"{shard.name}: the batch ends at {batch.position.shown}, before {self._position[shard].shown}"
            raise Refused(what, "register the batches of a DN in the order of `read`", where="source")
        if self._slot is not None:
            before, expected = self._registered[shard], self._expected[shard]
            (first,) = self._source.read_status(shard)
            self._check(first)
            self._expected[shard] = expected.widened(before.at(batch.position))
            asked = Confirmation(batch.position, before, expected.fingerprint, lambda: None, lambda point: None)
            kept = self._slot.confirm(first, asked)
            self._expected[shard], self._registered[shard] = exactly(kept, expected.fingerprint), kept
        self._position[shard] = batch.position

    def close(self) -> None:
        """End the session; safe to call twice. The slot stays until its TTL ends."""
        self._session.close()

    def _check(self, status: SlotStatus) -> None:
        found = judge(status, self._expected[status.shard]) or purged(status, self._position[status.shard])
        if found:
            raise found

    def _batch(self, status: SlotStatus, after: Position, up_to: Position, rows: int, text: bytes) -> Batch:
        heads = [(int(first), int(second)) for first, second, _ in (x.split(b"\t", 2) for x in text.split(b"\n")[:-1])]
        last = up_to.pair[0]
        second = max((second for first, second in heads if first == last), default=None)
        top = Top(max((first for first, _ in heads), default=None), second)
        mapped = self._job.channel.read
        types = {column.name: reader_of(self.table.plain(column.type)) for column in self.table.columns}
        position = self._source.reached(after, up_to, top, status)
        fingerprint = self._expected[status.shard].fingerprint
        return Batch(status.shard, position, rows, text, tuple(mapped or types), fingerprint, types)
