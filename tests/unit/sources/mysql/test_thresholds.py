"""The ends of ranges and steps by the size of their events: the effect of each threshold of `[jobs.X.sync]`.

The stream is scripted; its rows are those of `tests.unit.sources.mysql.test_follow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import cast

import pytest

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.position import NOTHING_KEPT
from slotkeeper.core.domain.slot import SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, JobSpec, SyncOptions, TableAsked
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.sources.mysql.kind import KIND
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.source import SHARD, MysqlSource
from slotkeeper.core.sources.mysql.stream import Follower, Stream
from slotkeeper.core.sources.mysql.tables import TableSeen
from slotkeeper.core.sources.mysql.transactions import End, Item
from tests.unit.sources.mysql.test_follow import at, rows

WIDTH = 1_000
MIB = 1 << 20


class Transactions:
    """A stream with a transaction of the given size at each tenth offset."""

    def __init__(self, start: MysqlPosition, sizes: list[int]) -> None:
        self.here, self.inside, self._sizes = start, False, sizes

    def events(self, blocking: bool) -> Iterator[Item | None]:
        for size in self._sizes[(self.here.offset - 10) // 10 :]:
            self.inside = True
            for _ in range(4):
                yield rows(self.here.offset, bytes(size // 4))
            self.here, self.inside = at(self.here.offset + 10), False
            yield End(self.here, 0, 1)
        raise Unreachable("the line broke")

    def close(self) -> None:
        pass


def steps(sizes: list[int], least: int, most: int) -> list[list[int]]:
    """The ends of the ranges of each step, requested as a step does: until none is returned, or everything is read."""
    source = MysqlSource(cast(MysqlSession, None), "s.t", "slot", BinlogOptions(), None, least, most)
    source._follower = Follower(lambda place: cast(Stream, Transactions(place, sizes)))
    latest, reached = at(10 + 10 * len(sizes)), at(10)
    status = SlotStatus(SHARD, NOTHING_KEPT, latest, "one")
    found: list[list[int]] = []
    while reached < latest:
        found.append([])
        while reached < latest and (end := source.next_range(reached, status, WIDTH, not found[-1])) != reached:
            found[-1].append((end.offset - 10) // 10)
            reached = end
    return found


def test_min_bytes_sync_commit_ends_a_range_with_the_transaction_that_has_them() -> None:
    assert steps([MIB] * 12, 5 * MIB, 1_000 * MIB) == [[5, 10, 12]]


def test_max_bytes_sync_commit_ends_a_step_before_the_transaction_with_which_it_would_have_more() -> None:
    assert steps([MIB] * 12, 3 * MIB, 7 * MIB) == [[3, 6, 7], [10, 12]]


def test_a_transaction_of_more_bytes_than_a_step_may_have_is_a_step_alone() -> None:
    assert steps([MIB, 40 * MIB, MIB, MIB], 3 * MIB, 7 * MIB) == [[1], [2], [4]]


def test_a_source_that_no_step_asks_has_no_such_limit() -> None:
    source = MysqlSource(cast(MysqlSession, None), "s.t", "slot", BinlogOptions(), None, MIB, 2 * MIB)
    source._follower = Follower(lambda place: cast(Stream, Transactions(place, [MIB] * 9)))
    status, reached = SlotStatus(SHARD, NOTHING_KEPT, at(100), "one"), at(10)
    while reached < at(100):
        reached = source.next_range(reached, status, WIDTH)


def test_both_are_those_of_the_job() -> None:
    there = Endpoint("maria", "127.0.0.1", 1, "", "root", sslmode="disable")
    sync = SyncOptions(min_bytes_sync_commit=11, max_bytes_sync_commit=22)
    job = JobSpec("j", there, there, "slot", (ChannelSpec("s.t", "mart.t"),), source_kind="mysql", sync=sync)
    with closing(KIND.connect(Login(there, "", "test"))) as session:
        source = session.table(TableAsked.of(job)).source
        assert isinstance(source, MysqlSource)
        assert (source._most_bytes, source._step_bytes) == (11, 22)


class Heard:
    """A stream without packets; it records how long each read waited."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def packet(self, seconds: float) -> bytes | None:
        self.waited.append(seconds)
        return None

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("sync", "seconds"), [(SyncOptions(), 30.0), (SyncOptions(stream_read_timeout=90_000), 90.0)])
def test_a_stream_may_be_silent_for_as_long_as_its_job_says(
    monkeypatch: pytest.MonkeyPatch, sync: SyncOptions, seconds: float
) -> None:
    """At least 30 s by default: a server that flushes a large transaction sends no heartbeat for a while."""
    heard = Heard()
    monkeypatch.setattr(Stream, "_begin", lambda stream, blocking: heard)
    there = Endpoint("maria", "127.0.0.1", 1, "", "root", sslmode="disable")
    channel = ChannelSpec("s.t", "mart.t", cascades="allow")
    job = JobSpec("j", there, there, "slot", (channel,), source_kind="mysql", sync=sync)
    with closing(KIND.connect(Login(there, "", "test"))) as session:
        for source in (session.table(TableAsked.of(job)).source, session.table(TableAsked.of(job)).inspector):
            assert isinstance(source, MysqlSource)
            source._seen = TableSeen("s", "t", (), (), TableIdentity(0, (), (), "one"))
            assert list(source.stream(at(10), "reader").items(blocking=True)) == []
    assert heard.waited == [seconds, seconds]
