"""Positions in a binlog: a file and an offset at the end of a transaction, and the GTIDs executed up to there. Pure.

Files are ordered by the number at the end of their name, which can exceed 999999 (MySQL, "The Binary Log"). Slotkeeper
counts offsets itself, because an event's own end offset has only 32 bits. A GTID of MariaDB ("Global Transaction ID")
is domain-server-sequence and is ordered within its domain; the last GTID of each domain is stored. GTIDs of MySQL
("GTID Format and Storage") are source:first-last, with any number of intervals. A server retains no files for a job:
positions are stored only by Slotkeeper.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from slotkeeper.core.domain.position import NothingKept, Order, Position, nothing_of
from slotkeeper.core.errors import Defect
from slotkeeper.core.ports.source import SlotWords

_MARIA = re.compile(r"\d{1,10}-\d{1,10}-\d{1,20}(,\d{1,10}-\d{1,10}-\d{1,20})*")
_MYSQL = re.compile(r"[0-9a-f-]{36}(:\d+(-\d+)?)+(,[0-9a-f-]{36}(:\d+(-\d+)?)+)*")


@dataclass(frozen=True, slots=True)
class MariaState:
    """The last transaction of each domain: (server, sequence) by domain. A dump request contains all of them."""

    last: Mapping[int, tuple[int, int]]

    @classmethod
    def parse(cls, text: str) -> MariaState:
        """Parse a string; raises ValueError if it is not a GTID state.

        >>> MariaState.parse("3-77-200,0-1-5").text
        '0-1-5,3-77-200'
        """
        text = text.replace(" ", "")
        if not _MARIA.fullmatch(text):
            raise ValueError("invalid MariaDB GTID state (domain-server-sequence, one for each domain)")
        numbers = [tuple(map(int, one.split("-"))) for one in text.split(",")]
        return cls({domain: (server, sequence) for domain, server, sequence in numbers})

    @property
    def text(self) -> str:
        """The state in the format of @@gtid_binlog_pos, with domains in ascending order."""
        return ",".join(f"{domain}-{server}-{sequence}" for domain, (server, sequence) in sorted(self.last.items()))

    def after(self, domain: int, server: int, sequence: int) -> MariaState:
        """Return the state after a transaction."""
        return MariaState({**self.last, domain: (server, sequence)})

    def covers(self, other: MariaState) -> bool:
        """Whether this state includes all transactions of `other`; a missing domain has no transactions."""
        return all(self.last.get(domain, (0, -1))[1] >= sequence for domain, (_, sequence) in other.last.items())


Intervals = tuple[tuple[int, int], ...]
"""First and last number of each interval, in ascending order; adjacent intervals are merged."""


@dataclass(frozen=True, slots=True)
class MysqlSet:
    """Executed transactions, grouped by the server that first wrote them."""

    done: Mapping[UUID, Intervals]

    @classmethod
    def parse(cls, text: str) -> MysqlSet:
        """Parse a string; raises ValueError if it is not a GTID set, or contains tags.

        >>> MysqlSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5:7:6").text
        '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7'
        """
        text = re.sub(r"\s", "", text.lower())
        if not _MYSQL.fullmatch(text):
            raise ValueError("invalid MySQL GTID set (source:first-last, several intervals, several sources)")
        done: dict[UUID, Intervals] = {}
        for part in text.split(","):
            source, *intervals = part.split(":")
            ends = [one.partition("-") for one in intervals]
            found = [(int(first), int(last or first)) for first, _, last in ends]
            if any(first < 1 or last < first for first, last in found):
                raise ValueError("a GTID interval starts at 1 or more and ascends")
            done[UUID(source)] = _joined([*done.get(UUID(source), ()), *found])
        return cls(done)

    @property
    def text(self) -> str:
        """The set in the format of @@gtid_executed, with sources in ascending order."""
        return ",".join(
            ":".join([str(source), *(f"{a}" if a == b else f"{a}-{b}" for a, b in intervals)])
            for source, intervals in sorted(self.done.items())
        )

    def after(self, source: UUID, number: int) -> MysqlSet:
        """Return the set after a transaction."""
        return MysqlSet({**self.done, source: _joined([*self.done.get(source, ()), (number, number)])})

    def covers(self, other: MysqlSet) -> bool:
        return all(
            any(first <= low and high <= last for first, last in self.done.get(source, ()))
            for source, intervals in other.done.items()
            for low, high in intervals
        )

    @property
    def encoded(self) -> bytes:
        """The set in the format of COM_BINLOG_DUMP_GTID: an interval's end is its last number plus one."""
        parts = [struct.pack("<Q", len(self.done))]
        for source, intervals in sorted(self.done.items()):
            parts += [source.bytes, struct.pack("<Q", len(intervals))]
            parts += [struct.pack("<qq", first, last + 1) for first, last in intervals]
        return b"".join(parts)


def _joined(intervals: list[tuple[int, int]]) -> Intervals:
    """
    >>> _joined([(5, 6), (1, 2), (3, 3)])
    ((1, 3), (5, 6))
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


Gtids = MariaState | MysqlSet


def parse_gtids(text: str) -> Gtids | None:
    """Parse GTIDs of MariaDB or MySQL; returns None for an empty string. Raises ValueError."""
    if not text:
        return None
    return MariaState.parse(text) if _MARIA.fullmatch(text.replace(" ", "")) else MysqlSet.parse(text)


def order_of(one: Gtids, other: Gtids) -> Order:
    """Return the order of two states; UNKNOWN if each has transactions that the other lacks, or their formats
    differ.
    """
    if type(one) is not type(other):
        return Order.UNKNOWN
    mine: Any = one
    its: Any = other
    there, back = mine.covers(its), its.covers(mine)
    if there and back:
        return Order.SAME
    return Order.AFTER if there else Order.BEFORE if back else Order.UNKNOWN


FIRST_OFFSET = 4
"""Byte offset of a file's first event."""
_TEXT = re.compile(
    r"(?P<file>[^/|]+\.\d+)/(?P<offset>\d+)(?:@(?P<born>\d+-\d+))?(?:/(?P<gtids>[^|]+))?(?:\|(?P<pending>.+))?"
)
_PENDING = re.compile(r"(?P<xid>\d+-[0-9a-f]*-[0-9a-f]*)@(?P<number>\d+):(?P<offset>\d+)")
OFFSET_BITS = 40

Birth = tuple[int, int]
"""A binlog file's creation time (seconds since 1970, by the source's clock) and server_id.

Source: its first event (MySQL, "Format_description_event"; MariaDB, "FORMAT_DESCRIPTION_EVENT"). After a RESET MASTER,
a file with the same name has another value.
"""


@dataclass(frozen=True, slots=True)
class PendingXa:
    """An XA transaction that is prepared and has not ended. Its event group starts at `offset` of file `number`.

    `xid` is `formatID-gtrid-bqual`, both parts in hexadecimal digits.
    """

    xid: str
    number: int
    offset: int

    @property
    def text(self) -> str:
        return f"{self.xid}@{self.number}:{self.offset}"


@dataclass(frozen=True, slots=True)
class MysqlPosition(Position):
    """A position: everything before `offset` of `file` has been applied. It is a transaction's end or a file's start.

    `gtids` are the transactions executed up to there. If they are unknown (None), the position is valid only on the
    server that wrote the file.
    """

    file: str
    offset: int
    gtids: Gtids | None = None
    row: int = field(default=0, compare=False)
    """Row number in the transaction that ends at this position, for display; 0 for the transaction as a whole."""

    time: int = field(default=0, compare=False)
    """Commit time of the transaction that ends at this position, in seconds since 1970; 0 if unknown."""

    born: Birth | None = field(default=None, compare=False)
    """Creation time and server_id of `file`, which distinguish it from a later file of the same name; None if
    unknown."""

    pending: tuple[PendingXa, ...] = field(default=(), compare=False)
    """XA transactions that are prepared before this position and end after it."""

    @property
    def committed_at(self) -> float | None:
        return self.time or None

    @property
    def text(self) -> str:
        """The position as `file/offset@creation/GTIDs|prepared XA transactions`; unknown parts are omitted.

        >>> MysqlPosition("mysql-bin.000003", 1234).text
        'mysql-bin.000003/1234'
        >>> MysqlPosition("b.000003", 1234, born=(1700000000, 77), pending=(PendingXa("1-6162-", 3, 900),)).text
        'b.000003/1234@1700000000-77|1-6162-@3:900'
        """
        born = "" if self.born is None else f"@{self.born[0]}-{self.born[1]}"
        gtids = f"/{self.gtids_text}".rstrip("/")
        pending = "|" + ",".join(one.text for one in self.pending) if self.pending else ""
        return f"{self.file}/{self.offset}{born}{gtids}{pending}"

    @property
    def plain(self) -> str:
        return replace(self, born=None, pending=()).text

    def moved(self, file: str, offset: int) -> MysqlPosition:
        """Return this position moved to a later one; there must be no changes in between."""
        born = self.born if file == self.file else None
        return MysqlPosition(file, offset, self.gtids, born=born, pending=self.pending)

    @property
    def gtids_text(self) -> str:
        """GTIDs in the server's format: domain-server-sequence for MariaDB, sets of intervals for MySQL."""
        return "" if self.gtids is None else self.gtids.text

    @property
    def shown(self) -> str:
        """The file's number and the offset.

        >>> MysqlPosition("mysql-bin.000003", 1234).shown
        '3:1234'
        """
        return f"{self.number}:{self.offset}"

    @property
    def number(self) -> int:
        return int(self.file.rpartition(".")[2])

    @property
    def pair(self) -> tuple[int, int]:
        """File and offset as one number, and the row number or 0; the changes of the transaction have lower offsets."""
        return self.number << OFFSET_BITS | self.offset, self.row

    @property
    def from_here(self) -> MysqlPosition:
        """The position itself, because reading continues after it."""
        return self

    @property
    def place(self) -> MysqlPosition:
        return self

    def order(self, other: Position) -> Order:
        """Compare by GTIDs if both have them, else by file and offset; UNKNOWN if the base names of the files differ.

        >>> one, two = parse_position("b.999999/900"), parse_position("b.1000000/4")
        >>> one.order(two), two.order(parse_position("other.000001/4"))
        (<Order.BEFORE: -1>, <Order.UNKNOWN: None>)
        """
        two = ours(other)
        if self.gtids is not None and two.gtids is not None:
            found = order_of(self.gtids, two.gtids)
            if found is not Order.SAME or not self._same_files(two):
                return found
        if not self._same_files(two):
            return Order.UNKNOWN
        mine, its = (self.number, self.offset), (two.number, two.offset)
        return Order.SAME if mine == its else Order.BEFORE if mine < its else Order.AFTER

    def _same_files(self, other: MysqlPosition) -> bool:
        mine, its = self.file.rpartition(".")[0], other.file.rpartition(".")[0]
        return mine == its or not (mine and its)  # a position that was parsed from its displayed form has no base name

    def ahead_of(self, other: Position) -> int | None:
        """Return the number of bytes from `other` to this position, or None if they are in different files."""
        two = ours(other)
        return max(0, self.offset - two.offset) if self.file == two.file else None


def ours(position: Position) -> MysqlPosition:
    """Return the same position; raises Defect for a position of another kind of source."""
    if not isinstance(position, MysqlPosition):
        raise Defect(f"a position of another source kind: {position.text}")
    return position


def parse_position(text: str) -> MysqlPosition:
    """Parse a position that was stored or typed; raises ValueError if the string is invalid.

    >>> parse_position("mysql-bin.000003/1234/3-77-200").gtids.text
    '3-77-200'
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise ValueError("invalid binlog position (file/offset, or file/offset/GTIDs)")
    offset = int(found["offset"])
    if not FIRST_OFFSET <= offset < 1 << OFFSET_BITS:
        raise ValueError(f"a binlog's first event starts at offset {FIRST_OFFSET}")
    born: Birth | None = None
    if found["born"]:
        created, _, server = found["born"].partition("-")
        born = int(created), int(server)
    pending = []
    for prepared in found["pending"].split(",") if found["pending"] else ():
        named = _PENDING.fullmatch(prepared)
        if named is None:
            raise ValueError("a prepared XA transaction in a position is formatID-gtrid-bqual@file:offset")
        pending.append(PendingXa(named["xid"], int(named["number"]), int(named["offset"])))
    return MysqlPosition(found["file"], offset, parse_gtids(found["gtids"] or ""), born=born, pending=tuple(pending))


_SHOWN = re.compile(r"(\d{1,10}):(\d{1,13})")


class BinlogPositions:
    """Implements `slotkeeper.core.domain.position.Positions`."""

    unit = "bytes"
    name = "binlog position"
    part = "stream"
    marks: tuple[str, ...] = ()

    def position(self, text: str) -> MysqlPosition:
        return parse_position(text)

    def place(self, text: str) -> MysqlPosition:
        """Parse a position in its stored or displayed form; the displayed form contains only the number of the file.

        >>> POSITIONS.place("3:1234").shown, POSITIONS.place("mysql-bin.000003/1234").shown
        ('3:1234', '3:1234')
        """
        short = _SHOWN.fullmatch(text.strip())
        if short is None:
            return parse_position(text)
        offset = int(short[2])
        if offset < FIRST_OFFSET:
            raise ValueError(f"a binlog's first event starts at offset {FIRST_OFFSET}")
        return MysqlPosition(f".{int(short[1]):06d}", offset)

    def kept(self, text: str) -> NothingKept:
        return nothing_of(text)


POSITIONS = BinlogPositions()


WORDS = SlotWords(
    no_list="the server has no slots: positions come from the progress rows",
    no_count="Slotkeeper does not count unread events",
    head="the server deletes binlog files by age, read or not",
    ttl="binlog_expire_logs_seconds",
    part=POSITIONS.part,
    identity="columns and key",
    retains=False,
    no_expiry="MySQL has no slot that expires; it purges binlog files by age (binlog_expire_logs_seconds)",
)
