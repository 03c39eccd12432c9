"""A stint: one task takes one step for each of its lanes in turn, until its deadline or until all are quiet.

Runs on a worker; it never raises: each lane's failure is in its outcome. Next door: `step.py` is one step,
`core.wiring` opens the sessions.
"""

from __future__ import annotations

import resource
import threading
from dataclasses import dataclass, replace

from core.clock import Clock
from core.domain.position import Position
from core.domain.progress import LaneKey
from core.domain.slot import Look
from core.domain.watch import trouble
from core.engine.plan import ErrorValues, LaneOutcome, LaneTask, StintOutcome, StintSpec
from core.engine.progress import explain_miss
from core.engine.step import Probe, Stepper, StepPlan, nothing
from core.errors import SlotkeeperError, TroubleName
from core.ports import Source, StepSink

LINGER = 0.3
"""Seconds for which a stint stays with lanes that are all quiet."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.04
"""Seconds between looks while it stays."""


def lane_key(spec: StintSpec, task: LaneTask) -> LaneKey:
    """The key of a lane's progress row."""
    return LaneKey(spec.job.source.name, spec.job.channel.source_table, spec.job.slot, task.shard.name)


def run(spec: StintSpec, source: Source, sink: StepSink, clock: Clock, probe: Probe = nothing) -> StintOutcome:
    """Take the stint's lanes in turn; returns an outcome per lane."""
    deadline = clock.monotonic() + spec.seconds
    lull = _Lull(clock)
    turns = [_Turn(spec, task, source, sink, clock, probe) for task in spec.lanes]
    live = list(turns)
    while live:
        for turn in list(live):
            turn.take()
            if turn.failed:
                live.remove(turn)
        if clock.monotonic() >= deadline:
            break
        if lull.over(all(turn.quiet for turn in live)):
            return StintOutcome(tuple(turn.outcome for turn in turns), peak_kib(), lull=True)
    return StintOutcome(tuple(turn.outcome for turn in turns), peak_kib())


class _Lull:
    """Stays with quiet lanes for a moment: looking again costs milliseconds, another Spark task tens of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None
        self._pause = SHORTEST_PAUSE
        self._never = threading.Event()

    def over(self, quiet: bool) -> bool:
        """Whether all lanes have been quiet for long enough; waits a little where they have not."""
        if not quiet:
            self._since, self._pause = None, SHORTEST_PAUSE
            return False
        now = self._clock.monotonic()
        self._since = self._since if self._since is not None else now
        if now - self._since >= LINGER:
            return True
        self._never.wait(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        return False


def peak_kib() -> int:
    """The highest resident memory of this process, in KiB on Linux."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@dataclass
class _Turn:
    """One lane within a stint."""

    spec: StintSpec
    task: LaneTask
    source: Source
    sink: StepSink
    clock: Clock
    probe: Probe
    quiet: bool = False
    failed: bool = False

    def __post_init__(self) -> None:
        self.outcome = LaneOutcome(self.task.shard)
        self._key = lane_key(self.spec, self.task)
        plan = StepPlan(self._key, self.spec.epoch, self.task.expected, self.task.width, self.spec.job.sink_options)
        self._stepper = Stepper(self.source, self.sink, plan, self.clock, self.probe)
        self._after: Position | None = None

    def take(self) -> None:
        """One step; a failure ends the lane's part of the stint."""
        try:
            self._take()
        except SlotkeeperError as error:
            self._fail(error)
        except Exception as error:
            # a task never raises: Spark would answer with pages of Java text and rerun it in a cluster
            self._fail(error)

    def _take(self) -> None:
        if self._after is None:
            self._after = self._begin()
            self.outcome = replace(self.outcome, position=self._after.text)
        step = self._stepper.take(self._look, self._after)
        self._after = step.position
        self.quiet = step.quiet
        done = self.outcome
        self.outcome = replace(
            done,
            position=step.position.text,
            steps=done.steps + (not step.quiet),
            rows=done.rows + step.rows,
            top_point=step.top_point if step.rows else done.top_point,
            look_latest=step.look.latest,
            look_xmin=step.look.xmin,
            read_seconds=done.read_seconds + step.read_seconds,
            write_seconds=done.write_seconds + step.write_seconds,
        )

    def _begin(self) -> Position:
        """The position to read from: the row's own, never one that was sent."""
        row = self.sink.read_row(self._key)
        if row is None or row.epoch != self.spec.epoch or row.position is None:
            reason = explain_miss(row, self.spec.epoch, Position(0))
            if isinstance(reason, Position):
                raise trouble(TroubleName.PROGRESS_LOST, f"the progress row of {self._key.shard} has no position")
            raise reason
        return row.position

    def _look(self) -> Look:
        looks = self.source.look(self.task.shard)
        found = next((look for look in looks if look.shard == self.task.shard), None)
        if found is None:
            name = self.task.shard.name
            raise trouble(TroubleName.TOPOLOGY_CHANGED, f"{name} no longer answers for this table under its name")
        return found

    def _fail(self, error: BaseException) -> None:
        self.failed = True
        self.outcome = replace(self.outcome, error=ErrorValues.of(error))
