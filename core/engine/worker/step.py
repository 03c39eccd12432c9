"""Steps of lanes (design 4.2): read the status, stage a range, read the status again, commit under the fence.

The lanes that one pair of sessions processes work in rounds (ADR 85). In a round, each lane reads a range. A table's
lanes share the status that precedes these reads, and the one that follows the last of them. Steps whose rows are
buffered in memory are committed together; any other step is committed by itself at once. This module does not retry,
wait or register.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import BinaryIO, TypeVar

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import STREAMING, LaneKey, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.domain.watch import Expected, ahead_of_row, explain_miss, judge, purged, trouble
from slotkeeper.core.drivers.pipe import Headed, copy_through
from slotkeeper.core.engine.tasks import LaneOutcome, LaneTask, StreamTask
from slotkeeper.core.engine.worker.columns import Resolve, RowPlan, plan_of, with_columns
from slotkeeper.core.errors import Busy, ErrorValues, RowRefused, SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.ports.again import OLDEST, AgainSink, AgainStep, CopiedAgain
from slotkeeper.core.ports.sink import Buffered, BufferedStep, StepSink, Sweeps
from slotkeeper.core.ports.source import Chunk, Source

BEHIND = "the changes that follow a chunk do not fit into one step: the table has to catch up first"
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
    rows: RowPlan | None = None
    """How the source's rows are rewritten, if they are."""


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
    sweeps: Sweeps


@dataclass(frozen=True, slots=True)
class Ready:
    """A buffered step that only needs its commit, and its result if the commit succeeds."""

    step: BufferedStep
    result: Step
    sweeps: Sweeps


class Stepper:
    """Runs the steps of one lane with a worker's source and sink; retains the last status for the next step.

    `read` runs a step as a whole, or only its first part if the sink can commit the steps of several lanes together:
    then `recheck` follows, and either the commit of a sweep or `commit_alone`. A part that raises an error of
    `slotkeeper.core.errors` has committed nothing.
    """

    def __init__(self, source: Source, sink: StepSink, plan: StepPlan, clock: Clock, probe: Probe) -> None:
        self._source, self._sink, self._plan, self._clock = source, sink, plan, clock
        self._probe = probe
        self.status: SlotStatus | None = None
        """The status for the next step; None if it has to be read."""
        self.delayed = ""
        """Why the last planned chunk was not copied again; "" if it was, or if none was planned."""

    def read(self, read_now: Callable[[], SlotStatus], after: Position) -> Step | BufferedRange:
        """Run a step until its rows are buffered in memory; run it as a whole if the sink does not buffer them."""

        def run() -> Step | BufferedRange:
            found = self._read(read_now, after, isolating=False)
            if isinstance(found, Step):
                return found
            sweeps = self._sink.sweeps
            lines = sweeps.detach() if sweeps else None
            return BufferedRange(found, lines, sweeps) if sweeps and lines else self._complete(found, read_now)

        return self._guarded(run, read_now, after)

    def copy_again(self, read_now: Callable[[], SlotStatus], after: Position) -> Step | None:
        """Run a step that also copies the table's next planned chunk again (ADR 98); None if it does not.

        The changes from `after` to a position read after the chunk take effect over the chunk's rows. An error only
        delays the chunk: the next step raises a problem of the lane.
        """
        source, sink, self.delayed = self._source, self._sink, ""
        if not (isinstance(source, CopiedAgain) and isinstance(sink, AgainSink)):
            return None
        try:
            chunk = sink.next_chunk(self._plan.key, self._plan.epoch)
            return None if chunk is None else self._copy_chunk(source, sink, chunk, read_now, after)
        except BaseException as error:
            self.status = None
            self._sink.abandon()
            if not isinstance(error, SlotkeeperError):
                raise
            self.delayed = error.message
            return None

    def _copy_chunk(
        self, source: CopiedAgain, sink: AgainSink, chunk: Chunk, read_now: Callable[[], SlotStatus], after: Position
    ) -> Step | None:
        plan, reached, copied, began = self._plan, after, 0, self._clock.monotonic()

        def read(out: BinaryIO) -> int:
            nonlocal reached, copied
            out = self._with_columns(out)  # a table with computed columns or soft deletes is not copied again
            copied = total = source.copy_chunk_after(chunk, after, Headed(out, OLDEST))
            self._probe("after_chunk_read")
            high = self._checked(read_now(), after)
            while reached < high.latest:
                end = self._source.next_range(reached, high, plan.width, reached == after)
                if end == reached or total - copied >= plan.options.auto_flush_batch_size:
                    raise Busy(BEHIND, where="source")
                total += self._source.copy_changes(high.shard, reached, end, out)
                reached = end
            return total

        staged = copy_through(read, sink.stage_with_chunk, self._sink.encoding) or 0
        gone = sink.stage_gone(chunk)
        self._probe("after_chunk_staged")
        second = self._checked(read_now(), after)
        new = self._source.reached(after, reached, self._sink.top(reached), second)
        rows, read_at = staged - copied, self._clock.monotonic()
        done = sink.commit_chunk(AgainStep(plan.key, plan.epoch, after, new, rows, chunk, copied, copied + gone))
        self._probe("after_chunk_again")
        if done is False:
            reason = explain_miss(self._sink.read_row(plan.key), plan.epoch, after)
            if not isinstance(reason, Position):
                raise reason
            new, rows = reason, 0
        self.status = second
        return (
            None if done is None else Step(new, rows, False, second, read_at - began, self._clock.monotonic() - read_at)
        )

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
        return Ready(step, Step(new, read.rows, not new < second.latest, second, read.seconds), buffered.sweeps)

    def commit_alone(self, ready: Ready, read_now: Callable[[], SlotStatus]) -> Step:
        """Commit a buffered step that no sweep committed, in its own transaction."""

        def run() -> Step:
            ready.sweeps.put_back(ready.step.buffered)
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
            found = self._read(read_now, after, isolating=True)
            return found if isinstance(found, Step) else self._complete(found, read_now)
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
                lambda out: self._source.copy_changes(shard, after, end, self._with_columns(out)),
                self._sink.stage,
                self._sink.encoding,
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
        found = judge(status, self._plan.expected) or ahead_of_row(status, after) or purged(status, after)
        if found:
            raise found
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
            total, out = 0, self._with_columns(out)
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
        return copy_through(read, stage, self._sink.encoding) or 0, reached

    def _with_columns(self, out: BinaryIO) -> BinaryIO:
        rows = self._plan.rows
        return out if rows is None else with_columns(out, rows, self._clock.utc(), copying=False)


def may_isolate(error: BaseException, options: SinkOptions, sink: StepSink) -> bool:
    """Whether a step can isolate the row that the sink rejected, to quarantine it or to name its key in the error."""
    return isinstance(error, RowRefused) and error.where == "sink" and (options.quarantines or sink.names_rows)


def hides(error: BaseException, options: SinkOptions) -> bool:
    """Whether an error during isolation would hide the rejection of the row, which is the reason why the job stops."""
    return not options.quarantines and isinstance(error, Exception) and not isinstance(error, RowRefused)


MOST_LANES = 32
"""Maximum number of steps per transaction: beyond it, the transaction's own cost is a small part of each step's."""
BUFFERED_SECONDS = 0.05
"""Time from the first read after which buffered steps are committed before another table is read."""
ALONE_SECONDS = 30.0
"""Time for which DNs are queried one by one after a failed query of all DNs, which can take its whole time limit."""

Opened = Callable[[str], tuple[Source, StepSink]]
"""Returns the source and the sink of a source table's channel, over one pair of sessions."""


def lane_key(spec: StreamTask, task: LaneTask) -> LaneKey:
    return LaneKey(spec.job.source.name, task.table, spec.job.slot, task.shard.name)


@dataclass
class Turn:
    """A lane within a task. A failure ends the lane's part of the task: it becomes part of the outcome."""

    spec: StreamTask
    task: LaneTask
    opened: Opened
    clock: Clock
    probe: Probe
    resolve: Resolve | None = None
    quiet: bool = False
    worked: bool = False
    failed: bool = False
    again: bool = False
    """Whether the next step also copies a chunk again: every second one."""

    def __post_init__(self) -> None:
        self.outcome = LaneOutcome(self.task.table, self.task.shard)
        self.key = lane_key(self.spec, self.task)
        self.after: Position | None = None
        self.channel: tuple[Source, StepSink] | None = None

    @property
    def sweeps(self) -> bool:
        """Whether the lane's small steps can be committed together with those of other lanes."""
        return self.channel is not None and self.sink.sweeps is not None

    def attempt(self, action: Callable[..., None], *arguments: object) -> None:
        """Run a part of the lane's turn, unless it has failed."""
        if self.failed:
            return
        try:
            action(*arguments)
        except Exception as error:
            # a task never raises, because Spark would report pages of Java text, and in a cluster rerun the task
            self.fail(error)

    def fail(self, error: Exception) -> None:
        self.failed = True
        self.outcome = replace(self.outcome, error=ErrorValues.of(error))

    def open(self) -> None:
        self.channel = self.source, self.sink = self.opened(self.task.table)
        job, task = self.spec.job, self.task
        plans = (plan_of(one, self.source, task.shard.name, self.resolve) for one in job.rewritten(task.table))
        plan = StepPlan(self.key, self.spec.epoch, task.expected, task.width, job.sink_options, next(plans, None))
        self.stepper = Stepper(self.source, self.sink, plan, self.clock, self.probe)

    def begin(self, row: ProgressRow | None) -> None:
        """Start from the row's position, never from a position of the driver; finish a decided range first."""
        position, row = self._checked(row)
        if row.decided is not None:
            self.stepper.finish(self.read_status, row)
            position, row = self._checked(self.sink.read_row(self.key))
        self.after = position
        self.outcome = replace(self.outcome, position=position, changes=row.changes, repeats=row.repeats)

    def _checked(self, row: ProgressRow | None) -> tuple[Position, ProgressRow]:
        if row is None or row.epoch != self.spec.epoch or row.position is None or row.state not in STREAMING:
            reason = explain_miss(row, self.spec.epoch)
            if isinstance(reason, Position):
                raise trouble(TroubleName.PROGRESS_LOST, f"the progress row of {self.key.shard} has no position")
            raise reason
        return row.position, row

    def step(self) -> Step | BufferedRange:
        assert self.after is not None
        if self.again:
            self.again = False
            found = self.stepper.copy_again(self.read_status, self.after)
            if found is not None:
                return found
            self.task = replace(self.task, again=False)  # none is left, or the next task tries again
            self.outcome = replace(self.outcome, delayed=self.stepper.delayed)
        self.again = self.task.again
        return self.stepper.read(self.read_status, self.after)

    def read_status(self) -> SlotStatus:
        statuses = self.source.read_status(self.task.shard)
        found = next((status for status in statuses if status.shard == self.task.shard), None)
        if found is None:
            name = self.task.shard.name
            raise trouble(TroubleName.TOPOLOGY_CHANGED, f"the source no longer lists {name} for this table")
        return found

    def record(self, step: Step) -> None:
        self.after = step.position
        self.quiet, self.worked = step.quiet, step.rows > 0
        done = self.outcome
        self.outcome = replace(
            done,
            position=step.position,
            steps=done.steps + (step.rows > 0 or not step.quiet),
            rows=done.rows + step.rows,
            changes=done.changes + step.rows,
            latest=step.status.latest,
            read_seconds=done.read_seconds + step.read_seconds,
            write_seconds=done.write_seconds + step.write_seconds,
        )


@dataclass(slots=True)
class Silence:
    """The time until which the DNs of a source are queried one by one, in monotonic seconds."""

    until: float = 0.0


class Sweep:
    """The rounds of the lanes that share a pair of sessions; no lane's turn begins after the deadline."""

    def __init__(self, clock: Clock, began: float, deadline: float, silence: Silence) -> None:
        self._clock, self._began, self._deadline, self._silence = clock, began, deadline, silence
        self._ready: list[tuple[Turn, Ready]] = []
        self._buffered_since = 0.0
        self._first = True

    def round(self, turns: Sequence[Turn]) -> None:
        """Take a step of each lane; in the first round, the first lane gets its turn in any case."""
        for turn in turns:
            turn.worked = False
        for _, table in groupby(turns, lambda turn: turn.task.table):
            own = list(table)
            for first in range(0, len(own), MOST_LANES):
                if self._is_over():
                    break
                self._read(own[first : first + MOST_LANES])
                age = self._clock.monotonic() - self._buffered_since
                if self._ready and (len(self._ready) >= MOST_LANES or age >= BUFFERED_SECONDS):
                    self._commit()
        self._commit()

    def _is_over(self) -> bool:
        return not self._first and self._clock.monotonic() >= self._deadline

    def _read(self, turns: list[Turn]) -> None:
        """Read a range of each of a table's lanes; the steps that are buffered are then ready to be committed."""
        if not self._ready:
            self._buffered_since = self._clock.monotonic()
        self._begin([turn for turn in turns if turn.after is None])
        for turn, status in self._statuses([turn for turn in turns if not turn.failed and turn.stepper.status is None]):
            turn.stepper.status = status
        buffered: list[tuple[Turn, BufferedRange]] = []

        def read(turn: Turn) -> None:
            found = turn.step()
            if isinstance(found, Step):
                turn.record(found)
            else:
                buffered.append((turn, found))

        for turn in turns:
            if self._is_over():
                break
            self._first = False
            self._note_turn(turn)
            turn.attempt(read, turn)
        self._recheck(buffered)

    def _note_turn(self, turn: Turn) -> None:
        if turn.outcome.waited is None:
            turn.outcome = replace(turn.outcome, waited=self._clock.monotonic() - self._began)

    def _begin(self, turns: list[Turn]) -> None:
        for turn in turns:
            turn.attempt(turn.open)
        opened = [turn for turn in turns if not turn.failed]
        rows: Mapping[LaneKey, ProgressRow] | None = None
        if len(opened) > 1 and opened[0].sink.sweeps is not None:
            try:
                rows = opened[0].sink.sweeps.read_rows([turn.key for turn in opened])
            except Exception as error:
                for turn in opened:
                    turn.fail(error)

        def begin(turn: Turn) -> None:
            turn.begin(turn.sink.read_row(turn.key) if rows is None else rows.get(turn.key))

        for turn in opened:
            turn.attempt(begin, turn)
        for turn in turns:
            if turn.failed:  # an error counts as a turn
                self._note_turn(turn)

    def _statuses(self, turns: list[Turn]) -> Iterable[tuple[Turn, SlotStatus | None]]:
        """Yield each lane with its status; a lane without one reads it itself."""
        found: dict[Shard, SlotStatus] = {}
        source = turns[0].source if len(turns) > 1 else None
        if source is not None and source.joint_status and self._clock.monotonic() >= self._silence.until:
            try:
                found = {status.shard: status for status in source.read_status(None)}
            except Exception:  # each lane's own query raises an error of that lane
                self._silence.until = self._clock.monotonic() + ALONE_SECONDS
        return [(turn, found.get(turn.task.shard)) for turn in turns]

    def _recheck(self, buffered: list[tuple[Turn, BufferedRange]]) -> None:
        def recheck(turn: Turn, read: BufferedRange, status: SlotStatus | None) -> None:
            found = turn.stepper.recheck(read, status or turn.read_status())
            if isinstance(found, Step):
                turn.record(found)
                return
            self._ready.append((turn, found))

        statuses = self._statuses([turn for turn, _ in buffered])
        for (turn, read), (_, status) in zip(buffered, statuses, strict=True):
            turn.attempt(recheck, turn, read, status)

    def _commit(self) -> None:
        ready, self._ready = self._ready, []
        passed: frozenset[LaneKey] | None = None
        began = self._clock.monotonic()
        if len(ready) > 1:
            turn, first = ready[0]
            turn.probe("before_sweep")
            try:
                done = first.sweeps.sweep([one.step for _, one in ready])
            except Exception as error:
                for turn, _ in ready:
                    turn.stepper.status = None
                    turn.fail(error)
                return
            turn.probe("after_sweep")
            passed = frozenset(done) if done is not None else None
        seconds = (self._clock.monotonic() - began) / max(1, len(ready))

        def commit(turn: Turn, one: Ready) -> None:
            if passed is not None and one.step.key in passed:
                turn.record(replace(one.result, write_seconds=seconds))
            else:
                turn.record(turn.stepper.commit_alone(one, turn.read_status))

        for turn, one in ready:
            turn.attempt(commit, turn, one)
