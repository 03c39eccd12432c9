"""Positions of a binlog: a file and an offset at a transaction's end, and the GTIDs that are done there. Pure.

Files are ordered by the number at their name's end, which goes beyond 999999 (MySQL, "The Binary Log"); offsets are
counted by us, because an event's own end has 32 bits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from slotkeeper.core.domain.position import Order, Position
from slotkeeper.core.errors import Defect
from slotkeeper.core.sources.mysql.gtid import Gtids, order_of, parse_gtids

FIRST_OFFSET = 4
"""Where the first event of a file begins."""
_TEXT = re.compile(
    r"(?P<file>[^/|]+\.\d+)/(?P<offset>\d+)(?:@(?P<born>\d+-\d+))?(?:/(?P<gtids>[^|]+))?(?:\|(?P<pending>.+))?"
)
_PENDING = re.compile(r"(?P<xid>\d+-[0-9a-f]*-[0-9a-f]*)@(?P<number>\d+):(?P<offset>\d+)")
OFFSET_BITS = 40

Birth = tuple[int, int]
"""When a binlog file was created (seconds since 1970, by the source's clock), and by which server_id.

Its first event says so (MySQL, "Format_description_event"; MariaDB, "FORMAT_DESCRIPTION_EVENT"). After a RESET MASTER
the same file name has another one.
"""


@dataclass(frozen=True, slots=True)
class PendingXa:
    """A transaction that XA has prepared and not ended: its event group begins at `offset` of file `number`.

    `xid` is `formatID-gtrid-bqual`, both parts in hexadecimal digits.
    """

    xid: str
    number: int
    offset: int

    @property
    def text(self) -> str:
        """The form that is stored in a position."""
        return f"{self.xid}@{self.number}:{self.offset}"


@dataclass(frozen=True, slots=True)
class MysqlPosition(Position):
    """Everything before `offset` of `file` has been applied; it is where a transaction has ended, or a file begins.

    `gtids` are what was done until there, None where that is not known: then only the server whose file it is has
    the place.
    """

    file: str
    offset: int
    gtids: Gtids | None = None
    row: int = field(default=0, compare=False)
    """Which row of the transaction that ends there, for people who see it; 0 for the transaction."""

    time: int = field(default=0, compare=False)
    """When the transaction that ends there was committed, in seconds since 1970; 0 where that is not known."""

    born: Birth | None = field(default=None, compare=False)
    """The creation of `file`, which tells it from a later file of the same name; None where it is not known."""

    pending: tuple[PendingXa, ...] = field(default=(), compare=False)
    """Transactions that are prepared there and end later."""

    @property
    def committed_at(self) -> float | None:
        """The same; None where it is not known."""
        return self.time or None

    @property
    def text(self) -> str:
        """`file/offset@creation/GTIDs|prepared XA transactions`, without the parts that are not known.

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
        """`file/offset/GTIDs`."""
        return replace(self, born=None, pending=()).text

    def moved(self, file: str, offset: int) -> MysqlPosition:
        """A later position, up to which nothing happened."""
        born = self.born if file == self.file else None
        return MysqlPosition(file, offset, self.gtids, born=born, pending=self.pending)

    @property
    def gtids_text(self) -> str:
        """GTIDs as the server shows them: of MariaDB domain-server-sequence, of MySQL sets of intervals."""
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
        """The number of the file."""
        return int(self.file.rpartition(".")[2])

    @property
    def pair(self) -> tuple[int, int]:
        """File and offset as one number, and 0 or the row: what is read has offsets of its own below."""
        return self.number << OFFSET_BITS | self.offset, self.row

    @property
    def from_here(self) -> MysqlPosition:
        """Itself: what lies behind it is read."""
        return self

    @property
    def place(self) -> MysqlPosition:
        """Itself."""
        return self

    def order(self, other: Position) -> Order:
        """By GTIDs where both have them, else by file and offset; UNKNOWN for files of two names.

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
        return mine == its or not (mine and its)  # a place as it is shown names no file

    def ahead_of(self, other: Position) -> int | None:
        """Bytes beyond it in the same file; None across files, whose sizes are not known here."""
        two = ours(other)
        return max(0, self.offset - two.offset) if self.file == two.file else None


def ours(position: Position) -> MysqlPosition:
    """The same position; raises Defect for one of another dialect."""
    if not isinstance(position, MysqlPosition):
        raise Defect(f"a position of another kind: {position.text}")
    return position


def parse_position(text: str) -> MysqlPosition:
    """The position of a stored or typed text; raises ValueError where it is none.

    >>> parse_position("mysql-bin.000003/1234/3-77-200").gtids.text
    '3-77-200'
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise ValueError("no position of a binlog: file/offset, or file/offset/GTIDs")
    offset = int(found["offset"])
    if not FIRST_OFFSET <= offset < 1 << OFFSET_BITS:
        raise ValueError(f"a binlog's first event begins at offset {FIRST_OFFSET}")
    born: Birth | None = None
    if found["born"]:
        created, _, server = found["born"].partition("-")
        born = int(created), int(server)
    pending = tuple(map(_pending, found["pending"].split(","))) if found["pending"] else ()
    return MysqlPosition(found["file"], offset, parse_gtids(found["gtids"] or ""), born=born, pending=pending)


def _pending(text: str) -> PendingXa:
    found = _PENDING.fullmatch(text)
    if found is None:
        raise ValueError("a prepared XA transaction in a position is formatID-gtrid-bqual@file:offset")
    return PendingXa(found["xid"], int(found["number"]), int(found["offset"]))
