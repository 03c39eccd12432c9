"""How long a task polls lanes that have no new changes: a poll takes milliseconds, another task tens of
milliseconds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import BinaryIO, cast

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.tasks import LaneTask, StreamTask
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.ports.sink import StepSink, Top
from slotkeeper.core.ports.source import Source
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, ours
from slotkeeper.core.sources.dws.source import DwsSource

NOWHERE = Endpoint("none", "localhost", 1, "none", "none")
JOB = JobSpec("j", NOWHERE, NOWHERE, "s", (ChannelSpec("ods.t", "mart.t"),))
KEPT, BEGIN, END = SyncPoints(1, 1, 5), DwsPosition(1), DwsPosition(9, None, 5)


@dataclass
class Lanes:
    """A source and a sink of many lanes, each of which has one range to read."""

    encoding = Encoding.COPY_TEXT
    sweeps = None
    joint_status = True
    reads: Counter[str] = field(default_factory=Counter)
    shards: tuple[Shard, ...] = ()
    empty: bool = False
    busy: bool = False
    asked: int = 0

    next_range, reached = DwsSource.next_range, DwsSource.reached

    def opened(self, table: str) -> tuple[Source, StepSink]:
        return cast(Source, self), cast(StepSink, self)

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        self.asked += self.busy
        latest = replace(END, point=END.point + self.asked)
        return [SlotStatus(one, KEPT, latest, "one") for one in ([shard] if shard else self.shards)]

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        self.reads[shard.name] += 1
        if self.empty or ours(after) != BEGIN:
            return 0
        out.write(b"x\n")
        return 1

    def stage(self, reader: BinaryIO) -> int:
        return reader.read().count(b"\n")

    def top(self, up_to: Position) -> Top:
        return Top(ours(up_to).point, 1)

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        return True

    def read_row(self, key: LaneKey) -> ProgressRow:
        return ProgressRow(key, 1, "mart.t", BEGIN, 1, 0, LaneState.RUNNING, None, None, "channel", "one", None)

    def abandon(self) -> None: ...


def looks(lanes: int, empty: bool = False, busy: bool = False) -> Counter[str]:
    """How often each lane was read in one task without a time limit; if `busy`, other sessions commit meanwhile."""
    server = Lanes(empty=empty, busy=busy, shards=tuple(Shard(f"dn_{n}", n) for n in range(lanes)))
    tasks = [LaneTask("ods.t", shard, exactly(KEPT, "one"), 1_000) for shard in server.shards]
    spec = StreamTask(JOB, 1, tuple(tasks), 60.0)
    outcome = entries.stream_lanes(spec, [server.opened], SystemClock())
    assert outcome.idle
    assert [one.error for one in outcome.lanes] == [None] * lanes
    assert [one.rows for one in outcome.lanes] == [0 if empty else 1] * lanes
    return server.reads


def test_many_lanes_that_have_read_all_are_looked_at_once_more() -> None:
    assert set(looks(60).values()) == {2}


def test_many_lanes_without_anything_new_are_looked_at_once() -> None:
    assert set(looks(60, empty=True).values()) == {1}


def test_commits_of_other_sessions_make_no_lane_busy() -> None:
    assert set(looks(60, empty=True, busy=True).values()) == {1}


def test_a_single_lane_is_looked_at_for_a_while() -> None:
    assert 2 < looks(1)["dn_0"] <= 1 + entries.QUESTIONS
    assert 2 < looks(1, empty=True)["dn_0"] <= entries.QUESTIONS


def test_once_one_share_has_ended_no_other_continues_without_it() -> None:
    idle = entries._IdleWait(SystemClock(), 2)
    assert not idle.note(0, True, entries.QUESTIONS)
    assert idle.note(1, True, entries.QUESTIONS)
    assert idle.note(0, True, 0), "its own lanes have had changes since, but neither part polls the lanes of the other"
    assert idle.note(0, False, 0)
