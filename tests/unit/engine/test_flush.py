"""When a step stops taking ranges: enough rows, enough time, or nothing more to read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO, cast

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.worker.step import Step, Stepper, StepPlan, nothing
from slotkeeper.core.ports.sink import StepSink, Top
from slotkeeper.core.ports.source import Source
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, ours
from slotkeeper.core.sources.dws.source import DwsSource

DN = Shard("dn_1", 1)
POLL = SlotStatus(DN, SyncPoints(1, 1, 5), DwsPosition(1_000, None, 5), "one")
ROWS, WIDTH = 100, 10
"""Rows in each range, and its sync points: the lane has 100 ranges to read."""


class Clock(SystemClock):
    """A clock that advances only when a range is read."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Ranges:
    """A source that takes `seconds` to read each range."""

    clock: Clock
    seconds: float = 0.0
    read: int = 0

    next_range, reached = DwsSource.next_range, DwsSource.reached

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        self.read += 1
        self.clock.now += self.seconds
        out.write(b"x\n" * ROWS)
        return ROWS


@dataclass
class Taken:
    """A sink that counts rows and accepts every commit."""

    sweeps = None
    encoding = Encoding.COPY_TEXT
    committed: list[int] = field(default_factory=list)

    def stage(self, reader: BinaryIO) -> int:
        return reader.read().count(b"\n")

    def top(self, up_to: Position) -> Top:
        return Top(ours(up_to).point, 1)

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        self.committed.append(rows)
        return True

    def abandon(self) -> None:
        raise AssertionError("the step failed")


def rows_of_a_step(options: SinkOptions, seconds: float = 0.0) -> int:
    """The number of rows in the first step of a lane that is far behind."""
    clock, taken = Clock(), Taken()
    plan = StepPlan(LaneKey("dws1", "ods.t", "slot", "dn_1"), 7, exactly(SyncPoints(1, 1), "one"), WIDTH, options)
    source = cast(Source, Ranges(clock, seconds))
    step = Stepper(source, cast(StepSink, taken), plan, clock, nothing).read(lambda: POLL, DwsPosition(1))
    assert isinstance(step, Step)
    assert [step.rows] == taken.committed
    return step.rows


def test_auto_flush_batch_size_ends_a_step() -> None:
    assert rows_of_a_step(SinkOptions(auto_flush_batch_size=1)) == ROWS
    assert rows_of_a_step(SinkOptions(auto_flush_batch_size=3 * ROWS)) == 3 * ROWS
    assert rows_of_a_step(SinkOptions(auto_flush_batch_size=3 * ROWS + 1)) == 4 * ROWS


def test_auto_flush_max_interval_ends_a_step() -> None:
    endless = SinkOptions(auto_flush_batch_size=1_000_000)
    assert endless.auto_flush_max_interval == 5_000
    assert rows_of_a_step(endless) == 100 * ROWS
    assert rows_of_a_step(endless, seconds=1.0) == 5 * ROWS
    assert rows_of_a_step(SinkOptions(1_000_000, auto_flush_max_interval=2_000), seconds=1.0) == 2 * ROWS
    assert rows_of_a_step(SinkOptions(1_000_000, auto_flush_max_interval=1), seconds=1.0) == ROWS


def test_a_step_at_the_binlogs_end_waits_for_nothing_whatever_it_may_wait_for() -> None:
    """An interval of 10,000 s hid all rows of a sync job (apache/doris #15877)."""
    clock, taken = Clock(), Taken()
    options = SinkOptions(auto_flush_batch_size=10_000_000, auto_flush_max_interval=10_000_000)
    plan = StepPlan(LaneKey("dws1", "ods.t", "slot", "dn_1"), 7, exactly(SyncPoints(1, 1), "one"), WIDTH, options)
    source = cast(Source, Ranges(clock))
    step = Stepper(source, cast(StepSink, taken), plan, clock, nothing).read(lambda: POLL, DwsPosition(991))
    assert isinstance(step, Step)
    assert [step.rows] == taken.committed == [ROWS]
    assert clock.now == 0
