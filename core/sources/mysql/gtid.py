"""GTIDs in both servers' forms: MariaDB's last transaction of each domain, MySQL's set of transactions. Pure.

MariaDB, "Global Transaction ID": domain-server-sequence, ordered in a domain. MySQL, "GTID Format and Storage":
source:first-last, any number of intervals.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from slotkeeper.core.domain.position import Order

_MARIA = re.compile(r"\d{1,10}-\d{1,10}-\d{1,20}(,\d{1,10}-\d{1,10}-\d{1,20})*")
_MYSQL = re.compile(r"[0-9a-f-]{36}(:\d+(-\d+)?)+(,[0-9a-f-]{36}(:\d+(-\d+)?)+)*")


@dataclass(frozen=True, slots=True)
class MariaState:
    """The last transaction of each domain: (server, sequence) by domain. Dump requests name all of them."""

    last: Mapping[int, tuple[int, int]]

    @classmethod
    def parse(cls, text: str) -> MariaState:
        """Raises ValueError where the text is none.

        >>> MariaState.parse("3-77-200,0-1-5").text
        '0-1-5,3-77-200'
        """
        text = text.replace(" ", "")
        if not _MARIA.fullmatch(text):
            raise ValueError("no MariaDB GTID state: domain-server-sequence, one for each domain")
        numbers = [tuple(map(int, one.split("-"))) for one in text.split(",")]
        return cls({domain: (server, sequence) for domain, server, sequence in numbers})

    @property
    def text(self) -> str:
        """The form of @@gtid_binlog_pos, domains ascending."""
        return ",".join(f"{domain}-{server}-{sequence}" for domain, (server, sequence) in sorted(self.last.items()))

    def after(self, domain: int, server: int, sequence: int) -> MariaState:
        """The state once a transaction is done."""
        return MariaState({**self.last, domain: (server, sequence)})

    def covers(self, other: MariaState) -> bool:
        """Whether every transaction of the other's is done here; a domain that is missing has none done."""
        return all(self.last.get(domain, (0, -1))[1] >= sequence for domain, (_, sequence) in other.last.items())


Intervals = tuple[tuple[int, int], ...]
"""First and last number of each, ascending, neither touching."""


@dataclass(frozen=True, slots=True)
class MysqlSet:
    """Transactions done, by the server that wrote them first."""

    done: Mapping[UUID, Intervals]

    @classmethod
    def parse(cls, text: str) -> MysqlSet:
        """Raises ValueError where the text is none, or has tags.

        >>> MysqlSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5:7:6").text
        '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7'
        """
        text = re.sub(r"\s", "", text.lower())
        if not _MYSQL.fullmatch(text):
            raise ValueError("no MySQL GTID set: source:first-last, several intervals, several sources")
        done: dict[UUID, Intervals] = {}
        for part in text.split(","):
            source, *intervals = part.split(":")
            ends = [one.partition("-") for one in intervals]
            found = [(int(first), int(last or first)) for first, _, last in ends]
            if any(first < 1 or last < first for first, last in found):
                raise ValueError("a GTID interval goes from 1 or more upwards")
            done[UUID(source)] = _joined([*done.get(UUID(source), ()), *found])
        return cls(done)

    @property
    def text(self) -> str:
        """The form of @@gtid_executed, sources ascending."""
        return ",".join(
            ":".join([str(source), *(f"{a}" if a == b else f"{a}-{b}" for a, b in intervals)])
            for source, intervals in sorted(self.done.items())
        )

    def after(self, source: UUID, number: int) -> MysqlSet:
        """The set once a transaction is done."""
        return MysqlSet({**self.done, source: _joined([*self.done.get(source, ()), (number, number)])})

    def covers(self, other: MysqlSet) -> bool:
        """Whether every transaction of the other's is in this."""
        return all(
            any(first <= low and high <= last for first, last in self.done.get(source, ()))
            for source, intervals in other.done.items()
            for low, high in intervals
        )

    @property
    def encoded(self) -> bytes:
        """As COM_BINLOG_DUMP_GTID has it: ends are one beyond the last."""
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
    """Either form; None for no text. Raises ValueError."""
    if not text:
        return None
    return MariaState.parse(text) if _MARIA.fullmatch(text.replace(" ", "")) else MysqlSet.parse(text)


def order_of(one: Gtids, other: Gtids) -> Order:
    """How two states lie to each other; UNKNOWN where each has what the other has not, or they are of two servers."""
    if type(one) is not type(other):
        return Order.UNKNOWN
    mine: Any = one
    its: Any = other
    there, back = mine.covers(its), its.covers(mine)
    if there and back:
        return Order.SAME
    return Order.AFTER if there else Order.BEFORE if back else Order.UNKNOWN
