"""One step of one lane (design 4.2): read the status, stage a range, read the status again, commit under the fence.

This module does not retry, wait or register.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import BinaryIO, TypeVar

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey, ProgressRow
from slotkeeper.core.domain.slot import SlotStatus
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.domain.watch import Expected, ahead_of_row, explain_miss, judge, purged
from slotkeeper.core.drivers.pipe import copy_through
from slotkeeper.core.errors import RowRefused, SlotkeeperError, Trouble
from slotkeeper.core.ports.sink import Buffered, BufferedStep, StepSink
from slotkeeper.core.ports.source import Source

Found = TypeVar("Found")
Probe = Callable[[str], None]
"""Called at named points of a step; does nothing in production, and stops or disturbs the step in tests."""


def nothing(point: str) -> None:
    """Do nothing: the probe in production."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The inputs of a step; `width` is in the source's unit."""

    key: LaneKey
    epoch: int
    expected: Expected
    width: int
    options: SinkOptions


@dataclass(frozen=True, slots=True)
class Step:
    """A step's result. `quiet`: no changes are left to read, or there were none up to the first status's `latest`."""

    position: Position
    rows: int
    quiet: bool
    status: SlotStatus
    read_seconds: float = 0.0
    write_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ReadRange:
    """A range that was read and staged but not checked again; `newest` is the first status's `latest`."""

    after: Position
    up_to: Position
    rows: int
    newest: Position
    seconds: float


@dataclass(frozen=True, slots=True)
class BufferedRange:
    """A range whose rows are buffered in memory."""

    range: ReadRange
    lines: Buffered


@dataclass(frozen=True, slots=True)
class Ready:
    """A buffered step that only needs its commit, and its result if the commit succeeds."""

    step: BufferedStep
    result: Step


class Stepper:
    """Runs the steps of one lane with a worker's source and sink; retains the last status for the next step.

    A step runs as a whole (`take`), or in parts if its sink can commit the steps of several lanes together: `read`,
    `recheck`, and either the commit of a sweep or `commit_alone`. A part that raises an error of
    `slotkeeper.core.errors` has committed nothing.
    """

    def __init__(self, source: Source, sink: StepSink, plan: StepPlan, clock: Clock, probe: Probe) -> None:
        self._source, self._sink, self._plan, self._clock = source, sink, plan, clock
        self._probe = probe
        self.status: SlotStatus | None = None
        """The status for the next step; None if it has to be read."""

    def take(self, read_now: Callable[[], SlotStatus], after: Position) -> Step:
        """Run one step from `after`."""
        return self._guarded(lambda: self._take(read_now, after), read_now, after)

    def read(self, read_now: Callable[[], SlotStatus], after: Position) -> Step | BufferedRange:
        """Run a step until its rows are buffered in memory; run it as a whole if the sink does not buffer them."""

        def run() -> Step | BufferedRange:
            found = self._read(read_now, after, isolating=False)
            if isinstance(found, Step):
                return found
            lines = self._sink.sweeps.detach() if self._sink.sweeps else None
            return BufferedRange(found, lines) if lines else self._complete(found, read_now)

        return self._guarded(run, read_now, after)

    def recheck(self, buffered: BufferedRange, second: SlotStatus) -> Step | Ready:
        """Check the status that was read after the range."""
        read, self.status = buffered.range, None
        self._checked(second, read.after)
        self._probe("after_recheck")
        self.status = second
        if read.rows == 0 and read.up_to >= read.newest:
            return Step(read.after, 0, True, second, read_seconds=read.seconds)
        new = self._source.reached(read.after, read.up_to, buffered.lines.top(read.up_to), second)
        step = BufferedStep(self._plan.key, self._plan.epoch, read.after, new, read.rows, buffered.lines)
        return Ready(step, Step(new, read.rows, not new < second.latest, second, read.seconds))

    def commit_alone(self, ready: Ready, read_now: Callable[[], SlotStatus]) -> Step:
        """Commit a buffered step that no sweep committed, in its own transaction."""

        def run() -> Step:
            assert self._sink.sweeps is not None
            self._sink.sweeps.put_back(ready.step.buffered)
            return self._committed(ready.result, ready.step.after, ready.step.rows)

        return self._guarded(run, read_now, ready.step.after)

    def _guarded(self, run: Callable[[], Found], read_now: Callable[[], SlotStatus], after: Position) -> Found | Step:
        """Run a part of a step; if the sink rejects a row that can be isolated, run the step again and isolate it."""
        try:
            return run()
        except BaseException as error:
            self.status = None
            self._sink.abandon()
            if not may_isolate(error, self._plan.options, self._sink):
                raise
            refused = error
        self._probe("before_isolated_step")
        try:
            return self._take(read_now, after, isolating=True)
        except BaseException as error:
            self.status = None
            self._sink.abandon()
            if hides(error, self._plan.options):
                raise refused from error
            raise

    def finish(self, read_now: Callable[[], SlotStatus], row: ProgressRow) -> None:
        """Finish the decided range in the lane's row. Raises errors of `slotkeeper.core.errors`."""

        def read_again() -> int:
            """Stage the range again; as in any step, check the status before and after."""
            after, decided = row.position, row.decided
            assert after is not None
            assert decided is not None
            shard, end = self._checked(read_now(), after).shard, decided.end
            rows = copy_through(
                lambda out: self._source.copy_changes(shard, after, end, out), self._sink.stage, self._sink.encoding
            )
            self._probe("after_reading_again")
            self._checked(read_now(), after)
            return rows or 0

        try:
            self._sink.finish(self._plan.key, self._plan.epoch, row, read_again)
        except BaseException:
            self._sink.abandon()
            raise
        self._probe("after_finish")

    def _take(self, read_now: Callable[[], SlotStatus], after: Position, isolating: bool = False) -> Step:
        found = self._read(read_now, after, isolating)
        return found if isinstance(found, Step) else self._complete(found, read_now)

    def _read(self, read_now: Callable[[], SlotStatus], after: Position, isolating: bool) -> Step | ReadRange:
        first = self._checked(self.status or read_now(), after)
        self.status = None
        self._probe("after_status")
        if first.latest < after:
            return Step(after, 0, True, first)
        began = self._clock.monotonic()
        try:
            rows, up_to = self._stage(first, after, isolating)
        except SlotkeeperError as error:
            if error.where == "source":
                self._checked(read_now(), after)  # if DDL is the cause, this raises a more specific Trouble
            raise
        seconds = self._clock.monotonic() - began
        self._probe("after_read")
        return ReadRange(after, up_to, rows, first.latest, seconds)

    def _complete(self, read: ReadRange, read_now: Callable[[], SlotStatus]) -> Step:
        second = self._checked(read_now(), read.after)
        self._probe("after_recheck")
        self.status = second
        if read.rows == 0 and read.up_to >= read.newest:
            self._sink.abandon()
            # on a busy cluster, other sessions move `latest` between queries: do not query again at once
            return Step(read.after, 0, True, second, read_seconds=read.seconds)
        new = self._source.reached(read.after, read.up_to, self._sink.top(read.up_to), second)
        return self._committed(
            Step(new, read.rows, not new < second.latest, second, read.seconds), read.after, read.rows
        )

    def _committed(self, step: Step, after: Position, rows: int) -> Step:
        began = self._clock.monotonic()
        reached = self._commit(after, step.position, rows)
        self._probe("after_commit")
        if reached != step.position:
            step = replace(step, position=reached, rows=0, quiet=not reached < step.status.latest)
        return replace(step, write_seconds=self._clock.monotonic() - began)

    def _checked(self, status: SlotStatus, after: Position) -> SlotStatus:
        trouble = judge(status, self._plan.expected) or ahead_of_row(status, after) or purged(status, after)
        if trouble:
            raise trouble
        return status

    def _commit(self, after: Position, new: Position, rows: int) -> Position:
        plan = self._plan
        if self._sink.commit(plan.key, plan.epoch, after, new, rows):
            return new
        reason = explain_miss(self._sink.read_row(plan.key), plan.epoch, after)
        if isinstance(reason, Position):
            return reason
        raise reason

    def _stage(self, status: SlotStatus, after: Position, isolating: bool) -> tuple[int, Position]:
        """Fill the staging table with one or more ranges; returns (rows, end of the last range)."""
        reached = after
        options = self._plan.options
        deadline = self._clock.monotonic() + options.auto_flush_max_interval / 1000

        def read(out: BinaryIO) -> int:
            nonlocal reached
            total = 0
            while True:
                try:
                    end = self._source.next_range(reached, status, self._plan.width, reached == after)
                except Trouble:
                    if reached == after:
                        raise
                    return total  # apply the earlier changes first; the next step starts with the failed range
                if end == reached and reached != after:
                    return total  # the source's limit for a step is reached
                total += self._source.copy_changes(status.shard, reached, end, out)
                reached = end
                full = total >= options.auto_flush_batch_size
                if full or end >= status.latest or self._clock.monotonic() >= deadline:
                    return total

        stage = self._sink.stage_isolating if isolating else self._sink.stage
        rows = copy_through(read, stage, self._sink.encoding)
        return rows or 0, reached


def may_isolate(error: BaseException, options: SinkOptions, sink: StepSink) -> bool:
    """Whether a step can isolate the row that the sink rejected, to quarantine it or to name its key in the error."""
    return isinstance(error, RowRefused) and error.where == "sink" and (options.quarantines or sink.names_rows)


def hides(error: BaseException, options: SinkOptions) -> bool:
    """Whether an error during isolation would hide the rejection of the row, which is the reason why the job stops."""
    return not options.quarantines and isinstance(error, Exception) and not isinstance(error, RowRefused)
