"""Ranges of a stream: the next range continues the stream, a broken connection restarts it; buffered in memory or a
file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from slotkeeper.core.errors import Unreachable
from slotkeeper.core.sources.mysql.events import Action, Header, Rows
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.stream import IN_MEMORY, Follower, Spool, Stream
from slotkeeper.core.sources.mysql.table_map import TableMap
from slotkeeper.core.sources.mysql.transactions import End, Item, TableRows

TABLE = TableMap(1, "s", "t", (), None, b"layout")


def at(offset: int) -> MysqlPosition:
    return MysqlPosition("b.000001", offset)


def rows(offset: int, body: bytes = b"row") -> TableRows:
    header = Header(1_700_000_000, 23, 1, 10, offset, 0)
    return TableRows(TABLE, Rows(header, Action.INSERT, 1, 1, b"\1", b"\1", body, 0, len(body)), 1, offset)


class Scripted:
    """A stream with rows and an end at every tenth offset; it breaks before the event at `breaks`."""

    def __init__(self, start: MysqlPosition, breaks: int = -1) -> None:
        self.here, self.inside, self._breaks, self.closed = start, False, breaks, False

    def events(self, blocking: bool) -> Iterator[Item | None]:
        while True:
            if self.here.offset == self._breaks:
                raise Unreachable("the line broke")
            self.inside = True
            yield rows(self.here.offset)
            self.here, self.inside = at(self.here.offset + 10), False
            yield End(self.here, 0, 1)

    def close(self) -> None:
        self.closed = True


class Begun:
    """Starts streams and records them."""

    def __init__(self, *breaks: int) -> None:
        self.streams: list[Scripted] = []
        self._breaks = list(breaks)

    def __call__(self, place: MysqlPosition) -> Stream:
        self.streams.append(Scripted(place, self._breaks.pop(0) if self._breaks else -1))
        return cast(Stream, self.streams[-1])


def test_the_next_range_continues_in_the_same_stream() -> None:
    begun = Begun()
    follower = Follower(begun)
    assert len(list(follower.read(at(10), at(30)))) == len(list(follower.read(at(30), at(50)))) == 4
    assert follower.here == at(50) and len(begun.streams) == 1


def test_another_place_begins_another_stream_and_ends_the_first() -> None:
    begun = Begun()
    follower = Follower(begun)
    list(follower.read(at(10), at(30)))
    list(follower.read(at(10), at(30)))
    assert [one.closed for one in begun.streams] == [True, False]


def test_a_range_left_in_the_middle_is_not_gone_on_with() -> None:
    begun = Begun()
    follower = Follower(begun)
    next(iter(follower.read(at(10), at(30))))
    assert follower.here is None
    assert [item.position for item in follower.read(at(10), at(20)) if isinstance(item, End)] == [at(20)]
    assert len(begun.streams) == 2


def test_a_line_that_broke_between_ranges_is_taken_up_once_without_a_word() -> None:
    begun = Begun(30, 30)
    follower = Follower(begun)
    list(follower.read(at(10), at(30)))
    with pytest.raises(Unreachable):
        list(follower.read(at(30), at(50)))
    assert len(begun.streams) == 2
    assert len(list(follower.read(at(30), at(50)))) == 4


def test_rows_behind_the_last_end_do_not_count_and_large_ones_wait_in_a_file() -> None:
    spool = Spool(at(10))
    body = bytes(IN_MEMORY // 3)
    for number in range(7):
        spool.add(rows(number, body))
        if number == 4:
            spool.ended(at(20))
    assert [item.at for item in spool.rows()] == [item.at for item in spool.rows()] == [0, 1, 2, 3, 4]
    spool.add(rows(7))
    spool.ended(at(30))
    assert [item.at for item in spool.rows()] == list(range(8))
    assert all(item.table == TABLE for item in spool.rows())
    spool.close()
