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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import UUID

from slotkeeper.core.domain.position import NothingKept, Order, Position, nothing_of
from slotkeeper.core.errors import Defect
from slotkeeper.core.ports.source import SlotWords

_MARIA = re.compile(r"\d{1,10}-\d{1,10}-\d{1,20}(,\d{1,10}-\d{1,10}-\d{1,20})*")
_TAG = r"[a-z_][a-z0-9_]{0,31}"
_OF_SOURCE = rf"[0-9a-f-]{{36}}(:{_TAG})?:\d+(-\d+)?(:({_TAG}:)?\d+(-\d+)?)*"
_MYSQL = re.compile(f"{_OF_SOURCE}(,{_OF_SOURCE})*")


K = TypeVar("K")
V = TypeVar("V")
FEW_CHANGES = 16
"""Maximum number of entries in which a set of GTIDs differs from the entries that it shares with earlier sets."""


class _Shared(Mapping[K, V]):
    """The entries of `base`, which many sets share, with `changes`; a set of a few entries is a dict of its own.

    There is one set for each transaction, and most of its entries are those of the set before it.
    """

    __slots__ = ("base", "changes")

    def __init__(self, base: dict[K, V], changes: dict[K, V]) -> None:
        self.base, self.changes = base, changes

    def __getitem__(self, key: K) -> V:
        return self.changes[key] if key in self.changes else self.base[key]

    def __iter__(self) -> Iterator[K]:
        return iter({**self.base, **self.changes})

    def __len__(self) -> int:
        return len(self.base) + sum(key not in self.base for key in self.changes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.base, self.changes)


def _with(entries: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """Return the entries with another value of a key, without a copy of most of them.

    >>> changed = _with(_with(dict.fromkeys(range(40), 0), 3, 1), 41, 2)
    >>> changed[3], changed[41], len(changed), changed == {**dict.fromkeys(range(40), 0), 3: 1, 41: 2}
    (1, 2, 41, True)
    """
    base, changes = (entries.base, entries.changes) if isinstance(entries, _Shared) else (dict(entries), {})
    changes = {**changes, key: value}
    if len(base) <= FEW_CHANGES or len(changes) > FEW_CHANGES:
        return {**base, **changes}
    return _Shared(base, changes)


@dataclass(frozen=True, slots=True)
class MariaState:
    """The last transaction of each domain: (server, sequence) by domain. A dump request contains all of them.

    `others` is the last sequence of each other server of a domain, by (domain, server). `whole` means that it is
    complete: then every transaction of the state is known, as in @@gtid_binlog_state.
    """

    last: Mapping[int, tuple[int, int]]
    others: Mapping[tuple[int, int], int] = field(default_factory=dict, compare=False)
    whole: bool = field(default=False, compare=False)

    @classmethod
    def parse(cls, text: str) -> MariaState:
        """Parse a string; raises ValueError if it is not a GTID state.

        >>> MariaState.parse("3-77-200,0-1-5").text
        '0-1-5,3-77-200'
        """
        return cls({domain: (server, sequence) for domain, server, sequence in maria_gtids(text)})

    @classmethod
    def of_list(cls, gtids: Iterable[tuple[int, int, int]]) -> MariaState:
        """Return the state before a file, from its list of the last (domain, server, sequence) of each server.

        MariaDB, "GTID_LIST_EVENT": the last entry of a domain is the domain's last transaction.

        >>> MariaState.of_list([(0, 2, 150), (0, 1, 200)]).others
        {(0, 2): 150}
        """
        found = cls({}, whole=True)
        for domain, server, sequence in gtids:
            found = found.after(domain, server, sequence)
        return found

    @property
    def text(self) -> str:
        """The state in the format of @@gtid_binlog_pos, with domains in ascending order."""
        return ",".join(f"{domain}-{server}-{sequence}" for domain, (server, sequence) in sorted(self.last.items()))

    @property
    def each(self) -> dict[tuple[int, int], int]:
        """The last known sequence of each server of a domain, by (domain, server)."""
        return {**self.others, **{(domain, server): sequence for domain, (server, sequence) in self.last.items()}}

    def after(self, domain: int, server: int, sequence: int) -> MariaState:
        """Return the state after a transaction."""
        before, others = self.last.get(domain), self.others
        if before is not None and before[0] != server:
            others = {**others, (domain, before[0]): before[1]}
            others.pop((domain, server), None)
        return MariaState(_with(self.last, domain, (server, sequence)), others, self.whole)

    def covers(self, other: MariaState) -> bool:
        """Whether this state includes all transactions of `other`; a missing domain has no transactions."""
        return all(self.last.get(domain, (0, -1))[1] >= sequence for domain, (_, sequence) in other.last.items())


def maria_gtids(text: str) -> list[tuple[int, int, int]]:
    """Parse a list of MariaDB GTIDs, such as @@gtid_binlog_state; raises ValueError."""
    text = text.replace(" ", "")
    if not _MARIA.fullmatch(text):
        raise ValueError("invalid MariaDB GTID state (domain-server-sequence, one for each domain)")
    return [
        (int(domain), int(server), int(number)) for domain, server, number in (x.split("-") for x in text.split(","))
    ]


Intervals = tuple[tuple[int, int], ...]
"""First and last number of each interval, in ascending order; adjacent intervals are merged."""
MysqlSource = tuple[UUID, str]
"""The server that first wrote a transaction, and the transaction's tag ("" for none; MySQL 8.3 and later)."""


@dataclass(frozen=True, slots=True)
class MysqlSet:
    """Executed transactions, grouped by the server that first wrote them and their tag."""

    done: Mapping[MysqlSource, Intervals]

    @classmethod
    def parse(cls, text: str) -> MysqlSet:
        """Parse a string; raises ValueError if it is not a GTID set.

        >>> MysqlSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5:7:6").text
        '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7'
        >>> MysqlSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5:Red:2:blue:7:3").text
        '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:blue:3:7:red:2'
        """
        text = re.sub(r"\s", "", text.lower())
        if not _MYSQL.fullmatch(text):
            raise ValueError("invalid MySQL GTID set (source:first-last, several intervals, several sources)")
        done: dict[MysqlSource, list[tuple[int, int]]] = {}
        for part in text.split(","):
            source, *intervals = part.split(":")
            tag = ""
            for one in intervals:
                if not one[0].isdigit():
                    tag = one
                    continue
                low, _, high = one.partition("-")
                first, last = int(low), int(high or low)
                if first < 1 or last < first:
                    raise ValueError("a GTID interval starts at 1 or more and ascends")
                done.setdefault((UUID(source), tag), []).append((first, last))
        return cls({source: _joined(found) for source, found in done.items()})

    @property
    def text(self) -> str:
        """The set in the format of @@gtid_executed, with sources in ascending order."""
        by_server: dict[UUID, list[str]] = {}
        for (server, tag), intervals in sorted(self.done.items()):
            numbers = [f"{first}" if first == last else f"{first}-{last}" for first, last in intervals]
            by_server.setdefault(server, [str(server)]).extend([*([tag] if tag else []), *numbers])
        return ",".join(":".join(parts) for parts in by_server.values())

    def after(self, source: UUID, number: int, tag: str = "") -> MysqlSet:
        """Return the set after a transaction."""
        mine = self.done.get((source, tag), ())
        if mine and mine[-1][1] + 1 == number:  # the usual case, without sorting
            return MysqlSet(_with(self.done, (source, tag), (*mine[:-1], (mine[-1][0], number))))
        return MysqlSet(_with(self.done, (source, tag), _joined([*mine, (number, number)])))

    def contains(self, source: UUID, number: int, tag: str = "") -> bool:
        return any(first <= number <= last for first, last in self.done.get((source, tag), ()))

    def covers(self, other: MysqlSet) -> bool:
        return not other.minus(self).done

    def minus(self, other: MysqlSet) -> MysqlSet:
        """Return the transactions of this set that `other` lacks.

        >>> one = MysqlSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-9")
        >>> one.minus(MysqlSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-3:5")).text
        '3e11fa47-71ca-11e1-9e33-c80aa9429562:4:6-9'
        """
        left = {source: _without(intervals, other.done.get(source, ())) for source, intervals in self.done.items()}
        return MysqlSet({source: intervals for source, intervals in left.items() if intervals})

    @property
    def encoded(self) -> bytes:
        """The set in the format of COM_BINLOG_DUMP_GTID: an interval's end is its last number plus one.

        Tags have another format (MySQL, `Gtid_set::encode`): the number of sources is between two bytes of value 1, and
        each source is followed by its tag with its length, which is shifted left by one bit (`varlen`).
        """
        tagged = any(tag for _, tag in self.done)
        parts = [struct.pack("<Q", 1 << 56 | len(self.done) << 8 | 1 if tagged else len(self.done))]
        for (server, tag), intervals in sorted(self.done.items()):
            parts += [server.bytes, *([bytes([len(tag) << 1]), tag.encode()] if tagged else [])]
            parts += [struct.pack("<Q", len(intervals))]
            parts += [struct.pack("<qq", first, last + 1) for first, last in intervals]
        return b"".join(parts)

    @classmethod
    def decode(cls, body: bytes) -> MysqlSet:
        """Parse the format of `encoded`, which is also the body of PREVIOUS_GTIDS_LOG_EVENT.

        Raises struct.error, IndexError or ValueError if it is damaged.
        """
        (count,) = struct.unpack_from("<Q", body)
        tagged, at = count >> 56, 8
        if tagged > 1:
            raise ValueError("an unknown format of a GTID set")
        done: dict[MysqlSource, list[tuple[int, int]]] = {}
        for _ in range(count >> 8 & (1 << 48) - 1 if tagged else count):
            server, at, tag = UUID(bytes=body[at : at + 16]), at + 16, ""
            if tagged:
                size = body[at] >> 1
                tag, at = body[at + 1 : at + 1 + size].decode("ascii"), at + 1 + size
            (intervals,) = struct.unpack_from("<Q", body, at)
            at += 8
            for _ in range(intervals):
                first, end = struct.unpack_from("<qq", body, at)
                at += 16
                done.setdefault((server, tag), []).append((first, end - 1))
        if at != len(body):
            raise ValueError("a GTID set has another length than its encoding")
        return cls({source: _joined(found) for source, found in done.items()})


def _without(intervals: Intervals, others: Intervals) -> Intervals:
    """
    >>> _without(((1, 9),), ((1, 3), (5, 5)))
    ((4, 4), (6, 9))
    """
    left = list(intervals)
    for first, last in others:
        left = [
            part
            for low, high in left
            for part in ((low, min(high, first - 1)), (max(low, last + 1), high))
            if part[0] <= part[1]
        ]
    return tuple(left)


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
    """Return the order of two states; UNKNOWN if each lacks transactions of the other, or their formats differ."""
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
    r"(?P<file>[^/|]+\.\d{1,10})/(?P<offset>\d{1,13})(?:@(?P<born>\d+-\d+))?(?:/(?P<gtids>[^|~!]+))?"
    r"(?:~(?P<others>[^|!]*))?(?:!(?P<mark>[^|@]+@\d+))?(?:\|(?P<pending>.+))?"
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
class Mark:
    """A transaction by which another server's binlog is recognized as the same history: its GTID and its time.

    `time` is the time of its first event (seconds since 1970) or, with MySQL 8, of its commit on the server that first
    wrote it (microseconds). Both are the same in the binlogs of all replicas (`failover`).
    """

    gtid: str
    time: int

    @property
    def text(self) -> str:
        return f"{self.gtid}@{self.time}"

    @classmethod
    def parse(cls, text: str) -> Mark:
        gtid, _, time = text.rpartition("@")
        return cls(gtid, int(time))


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
    """Creation time and server_id of `file`, unlike those of a later file of the same name; None if unknown."""

    pending: tuple[PendingXa, ...] = field(default=(), compare=False)
    """XA transactions that are prepared before this position and end after it."""

    mark: Mark | None = field(default=None, compare=False)
    """One of the last transactions of `gtids`; None if unknown."""

    @property
    def committed_at(self) -> float | None:
        return self.time or None

    @property
    def text(self) -> str:
        """The position as `file/offset@creation/GTIDs~others!mark|prepared XA transactions`, without unknown parts.

        >>> MysqlPosition("mysql-bin.000003", 1234).text
        'mysql-bin.000003/1234'
        >>> MysqlPosition("b.000003", 1234, born=(1700000000, 77), pending=(PendingXa("1-6162-", 3, 900),)).text
        'b.000003/1234@1700000000-77|1-6162-@3:900'
        >>> MysqlPosition("b.000003", 9, MariaState.of_list([(0, 2, 5), (0, 1, 7)]), mark=Mark("0-1-7", 17)).text
        'b.000003/9/0-1-7~0-2-5!0-1-7@17'
        """
        born = "" if self.born is None else f"@{self.born[0]}-{self.born[1]}"
        gtids = f"/{self.gtids_text}".rstrip("/")
        if isinstance(self.gtids, MariaState) and self.gtids.whole:
            gtids += "~" + ",".join(
                f"{domain}-{server}-{n}" for (domain, server), n in sorted(self.gtids.others.items())
            )
        if self.mark is not None:
            gtids += f"!{self.mark.text}"
        pending = "|" + ",".join(one.text for one in self.pending) if self.pending else ""
        return f"{self.file}/{self.offset}{born}{gtids}{pending}"

    @property
    def plain(self) -> str:
        gtids = self.gtids if isinstance(self.gtids, MysqlSet) else self.gtids and MariaState(self.gtids.last)
        return replace(self, gtids=gtids, born=None, pending=(), mark=None).text

    def moved(self, file: str, offset: int) -> MysqlPosition:
        """Return this position moved to a later one; there must be no changes in between."""
        born = self.born if file == self.file else None
        return MysqlPosition(file, offset, self.gtids, born=born, pending=self.pending, mark=self.mark)

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
    gtids = parse_gtids(found["gtids"] or "")
    if found["others"] is not None:
        others = maria_gtids(found["others"]) if found["others"] else []
        known = gtids.last if isinstance(gtids, MariaState) else {}
        gtids = MariaState(known, {(domain, server): number for domain, server, number in others}, True)
    mark = Mark.parse(found["mark"]) if found["mark"] else None
    return MysqlPosition(found["file"], offset, gtids, born=born, pending=tuple(pending), mark=mark)


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
