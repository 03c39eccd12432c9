"""The contract of any sink for the steps of a lane, in one transaction or in two parts with a separate store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import ProgressRow
from slotkeeper.core.domain.slot import SlotStatus
from slotkeeper.core.drivers.pipe import copy_through
from slotkeeper.core.ports.sink import StepSink
from slotkeeper.core.ports.source import Source
from slotkeeper.core.verify.compare import compare, open_pair
from slotkeeper.core.wiring import worker
from tests.contract.pairs import DORIS, FIRST, HOLOGRES, SECOND, Pair, pair
from tests.support.sqlite_pair.sink import ADDS_UP, TOKENS

__all__ = ["pair"]
pytestmark = pytest.mark.parametrize("pair", [FIRST, SECOND, ADDS_UP, TOKENS, DORIS, HOLOGRES], indirect=True)
LOADED = 30


@dataclass
class Steps:
    """A stopped job that has streamed: the rows of its lanes, and a source and a sink as in a worker."""

    pair: Pair
    source: Source
    sink: StepSink

    def lanes(self) -> Iterator[tuple[ProgressRow, SlotStatus]]:
        rows = {row.key.shard: row for row in self.pair.mirror.rows()}
        for status in self.source.read_status(None):
            yield rows[status.shard.name], status

    def stage(self, after: Position, status: SlotStatus) -> tuple[int, Position]:
        """Stage a step's rows; return their number and the lane's position after them."""
        end = status.latest
        rows = copy_through(lambda out: self.source.copy_changes(status.shard, after, end, out), self.sink.stage)
        return rows or 0, self.source.reached(after, end, self.sink.top(end), status)

    def equal(self) -> bool:
        channel = self.pair.job.channel
        with closing(self.pair.source_tables()) as left, closing(self.pair.sink_tables()) as right:
            return compare(*open_pair(left.table, channel.source_table, right.table, channel.target)).equal


@pytest.fixture
def steps(pair: Pair) -> Iterator[Steps]:
    """Rows that were copied; rows written later stay unread."""
    pair.write(*((key, key) for key in range(LOADED)))
    pair.mirror.start().wait_running()
    pair.mirror.stop()
    (epoch,) = {row.epoch for row in pair.mirror.rows()}
    opened = worker.open_pair(pair.job, epoch)
    with closing(opened):
        yield Steps(pair, *opened.opened(pair.job, "direct", ""))


def changed(pair: Pair) -> None:
    pair.write(*((key, -key) for key in range(0, LOADED, 2)), *((key, None) for key in range(1, LOADED, 4)))


def test_a_step_is_applied_and_its_position_moves(steps: Steps) -> None:
    assert steps.equal()
    changed(steps.pair)
    assert not steps.equal()
    for row, status in steps.lanes():
        assert row.position is not None
        rows, new = steps.stage(row.position, status)
        assert steps.sink.commit(row.key, row.epoch, row.position, new, rows)
        after = steps.sink.read_row(row.key)
        assert after is not None
        assert (after.position, after.changes, after.decided) == (new, row.changes + rows, None)
    assert steps.equal()


def test_a_step_that_somebody_else_has_taken_changes_nothing(steps: Steps) -> None:
    changed(steps.pair)
    for row, status in steps.lanes():
        assert row.position is not None
        rows, new = steps.stage(row.position, status)
        assert steps.sink.commit(row.key, row.epoch, row.position, new, rows)
        steps.pair.write((1_000, 1))
        rows, again = steps.stage(row.position, steps.source.read_status(status.shard)[0])
        if again == new:
            continue
        assert not steps.sink.commit(row.key, row.epoch, row.position, again, rows)
        steps.sink.abandon()
        after = steps.sink.read_row(row.key)
        assert after is not None
        assert after.position == new


def test_a_step_of_another_epoch_changes_nothing(steps: Steps) -> None:
    changed(steps.pair)
    for row, status in steps.lanes():
        assert row.position is not None
        rows, new = steps.stage(row.position, status)
        assert not steps.sink.commit(row.key, row.epoch - 1, row.position, new, rows)
        steps.sink.abandon()
        assert steps.sink.read_row(row.key) == row
    assert not steps.equal()


def test_an_abandoned_stage_leaves_nothing(steps: Steps) -> None:
    changed(steps.pair)
    for row, status in steps.lanes():
        assert row.position is not None
        steps.stage(row.position, status)
        steps.sink.abandon()
        steps.sink.rest()
        assert steps.sink.read_row(row.key) == row
        rows, new = steps.stage(row.position, status)
        assert steps.sink.commit(row.key, row.epoch, row.position, new, rows)
    assert steps.equal()


def test_a_range_without_rows_moves_the_position(steps: Steps) -> None:
    for row, status in steps.lanes():
        assert row.position is not None
        before = row.position
        steps.stage(before, status)
        new = steps.source.reached(before, None, None, status)
        assert steps.sink.commit(row.key, row.epoch, before, new, 0)
        after = steps.sink.read_row(row.key)
        assert after is not None
        assert (after.position, after.changes) == (new, row.changes)
    assert steps.equal()


def test_a_job_continues_after_steps_that_a_test_has_applied(steps: Steps) -> None:
    changed(steps.pair)
    row, status = next(steps.lanes())
    assert row.position is not None
    rows, new = steps.stage(row.position, status)
    assert steps.sink.commit(row.key, row.epoch, row.position, new, rows)
    mirror = steps.pair.mirror
    mirror.start().wait_running()
    mirror._until(steps.equal, 30, "both tables to be equal")
    mirror.stop()
    assert {one.repeats for one in mirror.rows()} == {0}
