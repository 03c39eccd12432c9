"""The lanes that one pair of sessions processes in turn, round by round (ADR 85).

In a round, each lane reads a range. The lanes of a table share the status that is read before, and the one that is read
after all of them have read. Steps whose rows are buffered in memory are committed together; any other step is committed
by itself at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import STREAMING, LaneKey, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.watch import explain_miss, trouble
from slotkeeper.core.engine.tasks import LaneOutcome, LaneTask, StreamTask
from slotkeeper.core.engine.worker.step import BufferedRange, Probe, Ready, Step, Stepper, StepPlan
from slotkeeper.core.errors import ErrorValues, SlotkeeperError, TroubleName
from slotkeeper.core.ports.sink import StepSink
from slotkeeper.core.ports.source import Source

MOST_LANES = 32
"""Maximum number of steps per transaction: beyond it, the transaction's own cost is a small part of each step's."""
BUFFERED_SECONDS = 0.05
"""Time from the first read after which buffered steps are committed before another table is read."""
ALONE_SECONDS = 30.0
"""Time for which DNs are queried one by one after a query of all DNs failed: with a DN that does not answer, it takes
its whole time limit."""

Opened = Callable[[str], tuple[Source, StepSink]]
"""Returns the source and the sink of a source table's channel, over one pair of sessions."""


def lane_key(spec: StreamTask, task: LaneTask) -> LaneKey:
    """Return the key of a lane's progress row."""
    return LaneKey(spec.job.source.name, task.table, spec.job.slot, task.shard.name)


@dataclass
class Turn:
    """A lane within a task. A failure ends the lane's part of the task: it becomes part of the outcome."""

    spec: StreamTask
    task: LaneTask
    opened: Opened
    clock: Clock
    probe: Probe
    quiet: bool = False
    worked: bool = False
    failed: bool = False

    def __post_init__(self) -> None:
        self.outcome = LaneOutcome(self.task.table, self.task.shard)
        self.key = lane_key(self.spec, self.task)
        self.after: Position | None = None
        self.channel: tuple[Source, StepSink] | None = None

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
        """Open the lane's channel."""
        self.channel = self.source, self.sink = self.opened(self.task.table)
        plan = StepPlan(self.key, self.spec.epoch, self.task.expected, self.task.width, self.spec.job.sink_options)
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

    def read_status(self) -> SlotStatus:
        """Return the current status of the lane's DN."""
        statuses = self.source.read_status(self.task.shard)
        found = next((status for status in statuses if status.shard == self.task.shard), None)
        if found is None:
            name = self.task.shard.name
            raise trouble(TroubleName.TOPOLOGY_CHANGED, f"the source no longer lists {name} for this table")
        return found

    def record(self, step: Step) -> None:
        """Continue after a step."""
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


class Sweep:
    """The rounds of the lanes that share a pair of sessions; no lane's turn begins after the deadline."""

    def __init__(self, clock: Clock, began: float, deadline: float) -> None:
        self._clock, self._began, self._deadline = clock, began, deadline
        self._ready: list[tuple[Turn, Ready]] = []
        self._buffered_since = 0.0
        self._alone_until = 0.0
        self._first = True

    def round(self, turns: Sequence[Turn]) -> None:
        """Take a step of each lane; in the first round, the first lane gets its turn in any case."""
        for _, own in groupby(turns, lambda turn: turn.task.table):
            self._read(list(own))
            if self._ready and (
                len(self._ready) >= MOST_LANES or self._clock.monotonic() - self._buffered_since >= BUFFERED_SECONDS
            ):
                self._commit()
        self._commit()
        for turn in turns:
            turn.worked = turn.worked and not turn.failed

    def _read(self, turns: list[Turn]) -> None:
        """Read a range of each of a table's lanes; the steps that are buffered are then ready to be committed."""
        if not self._ready:
            self._buffered_since = self._clock.monotonic()
        due = self._due(turns)
        self._begin([turn for turn in due if turn.after is None])
        self._share_status([turn for turn in due if not turn.failed and turn.stepper.status is None])
        buffered: list[tuple[Turn, BufferedRange]] = []

        def read(turn: Turn) -> None:
            assert turn.after is not None
            found = turn.stepper.read(turn.read_status, turn.after)
            if isinstance(found, Step):
                turn.record(found)
            else:
                buffered.append((turn, found))

        for turn in due:
            turn.attempt(read, turn)
        self._recheck(buffered)

    def _due(self, turns: list[Turn]) -> list[Turn]:
        now, due = self._clock.monotonic(), []
        for turn in turns:
            if now >= self._deadline and not self._first:
                break
            self._first, turn.worked = False, False
            if turn.outcome.waited is None:
                turn.outcome = replace(turn.outcome, waited=now - self._began)
            due.append(turn)
        return due

    def _begin(self, turns: list[Turn]) -> None:
        for turn in turns:
            turn.attempt(turn.open)
        opened = [turn for turn in turns if not turn.failed]
        if not opened:
            return
        sweeps = opened[0].sink.sweeps
        try:
            rows = sweeps.read_rows([turn.key for turn in opened]) if sweeps and len(opened) > 1 else None
        except Exception as error:
            for turn in opened:
                turn.fail(error)
            return

        def begin(turn: Turn) -> None:
            turn.begin(turn.sink.read_row(turn.key) if rows is None else rows.get(turn.key))

        for turn in opened:
            turn.attempt(begin, turn)

    def _share_status(self, turns: list[Turn]) -> None:
        """Give each lane a status; a lane without one reads it itself."""
        for turn, status in self._statuses(turns):
            turn.stepper.status = status

    def _statuses(self, turns: list[Turn]) -> Iterable[tuple[Turn, SlotStatus | None]]:
        """Return the statuses of a table's lanes from one query; None for each lane that has to read its own."""
        found: dict[Shard, SlotStatus] = {}
        if len(turns) > 1 and self._clock.monotonic() >= self._alone_until:
            try:
                found = {status.shard: status for status in turns[0].source.read_status(None)}
            except SlotkeeperError:
                self._alone_until = self._clock.monotonic() + ALONE_SECONDS
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
        """Commit the steps that are ready, together if there are several."""
        ready, self._ready = self._ready, []
        passed: frozenset[LaneKey] | None = None
        began = self._clock.monotonic()
        if len(ready) > 1:
            turn = ready[0][0]
            assert turn.sink.sweeps is not None
            turn.probe("before_sweep")
            try:
                done = turn.sink.sweeps.sweep([one.step for _, one in ready])
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
