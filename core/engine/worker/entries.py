"""What a worker runs: a task that streams lanes in turn, and a task that copies chunks.

A stream task runs steps of its lanes until its deadline or until no more changes arrive. If fewer tasks than lanes run
at a time, it runs `binlog_parallel_num` lanes at once. Each of these has its own pair of sessions. The channels of all
lanes that use a pair in turn share its sessions; pairs are retained for the next task. Each chunk of a copy is one sink
transaction, fenced by the chunk's own row. No task raises an error: each failure is part of its outcome.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import BinaryIO, Protocol

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.copy_limit import Pace
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.lane import distribute
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.drivers.pipe import Wait, copy_through, paced
from slotkeeper.core.engine.tasks import CopyOutcome, CopyTask, StreamOutcome, StreamTask
from slotkeeper.core.engine.worker.columns import Resolve, RowPlan, plan_of, with_columns
from slotkeeper.core.engine.worker.step import Opened, Probe, Silence, Sweep, Turn, hides, may_isolate, nothing
from slotkeeper.core.errors import ErrorKind, ErrorValues, RowRefused, SlotkeeperError
from slotkeeper.core.ports.sink import StepSink
from slotkeeper.core.ports.source import Chunk, Source

LINGER = 0.3
"""Seconds for which a task continues to poll quiet lanes."""
QUESTIONS = 12
"""Maximum number of sequential queries of one pair for quiet lanes: after that, a new task is cheaper. With many lanes,
these queries are one round."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.04
"""Seconds between two polls of quiet lanes."""
PACE = 0.025
"""Minimum seconds between two rounds' starts if a round applied all available changes: a step of a few rows costs as
much as one of hundreds."""


class Pair(Protocol):
    """A source session and a sink session over which the channels of a job are opened."""

    def opened(self, job: JobSpec, copying: str, feed: str) -> tuple[Source, StepSink]:
        """Open the only channel of `job`, and read it from the shared reader `feed` if given; queries both servers."""

    def resolve(self, ref: SecretRef) -> str:
        """Return the secret of a reference; raises SecretUnread."""

    def close(self) -> None: ...


OpenPair = Callable[[JobSpec, int, str], Pair]
"""Opens a pair for a job and its epoch; the last argument names its store session, "" for any name."""


@dataclass(slots=True, eq=False)
class Lent:
    """A pair for one task; `channels` are the channels opened over it, by source table, copy method and feed."""

    pair: Pair
    job: JobSpec
    channels: dict[tuple[str, str, str], tuple[Source, StepSink]] = field(default_factory=dict)

    def opened(self, table: str, copying: str = "direct", feed: str = "") -> tuple[Source, StepSink]:
        """Return the channel of a source table; the first call queries both servers."""
        key = table, copying, feed
        if key not in self.channels:
            self.channels[key] = self.pair.opened(self.job.of(table), copying, feed)
        return self.channels[key]

    def opened_of(self, tables: Collection[str]) -> int:
        """Return the number of these tables whose channel is open over the pair."""
        return sum(table in tables for table, _, _ in self.channels)

    def rest(self, session: str) -> None:
        """Prepare for the next task: roll back an open transaction, and end a sink session after long use.

        The store session is renamed to `session`, its name for the next task.
        """
        for _, sink in self.channels.values():
            sink.rest(session)
            return  # the channels share the session


probe: Probe = nothing
"""Called at named points of steps and copies on this worker; tests set it."""
_kept: dict[tuple[Endpoint, Endpoint, str, str, str, int], list[Lent]] = {}
"""The pairs that are retained between tasks, by endpoints, job, slot, group of tables and epoch."""
_silences: dict[Endpoint, Silence] = {}
"""By source, so that not every task waits for a DN that does not answer."""
_lock = threading.Lock()


@contextmanager
def lend(
    open_pair: OpenPair, job: JobSpec, epoch: int, group: str = "", session: str = "", tables: Collection[str] = ()
) -> Iterator[Lent]:
    """Yield a pair of this worker, and retain it for the next task unless the block raises.

    `session` is the name of the pair's store session. Pairs of the same `group` from other epochs are closed. A pair
    over which most of `tables` are open is preferred.
    """
    key = (job.source.address, job.sink, job.name, job.slot, group, epoch)
    with _lock:
        others = [one for one in _kept if one[:5] == key[:5] and one[5] != epoch]
        old = [lent for one in others for lent in _kept.pop(one)]
        waiting = _kept.setdefault(key, [])
        lent = max(waiting, key=lambda one: one.opened_of(tables), default=None)
        if lent is not None:
            waiting.remove(lent)
    for one in old:
        one.pair.close()
    if lent is None:
        lent = Lent(open_pair(job, epoch, session), job)
    lent.job = job
    try:
        lent.rest(session)
        yield lent
    except BaseException:
        lent.pair.close()
        raise
    with _lock:
        _kept.setdefault(key, []).append(lent)


def close_kept(job: JobSpec) -> None:
    """Close the sessions that this process retains for a job's next tasks."""
    with _lock:
        mine = [key for key in _kept if key[:4] == (job.source.address, job.sink, job.name, job.slot)]
        closing = [lent for key in mine for lent in _kept.pop(key)]
    for one in closing:
        one.pair.close()


def run_stream(open_pair: OpenPair, task: StreamTask) -> StreamOutcome:
    """Run a task on a worker, with up to `parallel` pairs of sessions for its lanes."""
    with ExitStack() as stack:
        pair = (open_pair, task.job, task.epoch, task.group, task.session)
        shares = distribute(task.lanes, min(task.parallel, len(task.lanes)), lambda lane: lane.table)
        lent = [stack.enter_context(lend(*pair, {lane.table for lane in lanes})) for lanes in shares]
        for one, lanes in zip(lent, shares, strict=True):
            _connect(one, task, lanes[0].table)
        opened: list[Opened] = [partial(one.opened, feed=task.feed) for one in lent]
        silence = _silences.setdefault(task.job.source.address, Silence())
        return stream_lanes(task, opened, SystemClock(), probe, silence, lent[0].pair.resolve)


_OF_ALL_LANES = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION, ErrorKind.ACCESS, ErrorKind.LOGIN)


def _connect(lent: Lent, task: StreamTask, table: str) -> None:
    """Open the sessions before any lane's turn: a silent server is a failure of all lanes and not of one lane.

    An error about one table stops only the lanes of that table.
    """
    try:
        lent.opened(table, feed=task.feed)
    except SlotkeeperError as error:
        if len(task.job.channels) == 1 or error.kind in _OF_ALL_LANES:
            raise


def stream_lanes(
    spec: StreamTask,
    pairs: Sequence[Opened],
    clock: Clock,
    probe: Probe = nothing,
    silence: Silence | None = None,
    resolve: Resolve | None = None,
) -> StreamOutcome:
    """Process the task's lanes in turn, as many at once as there are pairs of sessions; return an outcome per lane.

    A lane that had no turn before the deadline has `waited` None in its outcome: it is still due.
    """
    began = clock.monotonic()
    pairs = pairs[: max(1, len(spec.lanes))]
    distributed = [
        [Turn(spec, task, opened, clock, probe, resolve) for task in lanes]
        for opened, lanes in zip(pairs, distribute(spec.lanes, len(pairs), lambda lane: lane.table), strict=True)
    ]
    idle = _IdleWait(clock, len(pairs))
    end, silence = began + spec.seconds, silence or Silence()
    shares = [_Share(n, turns, began, end, idle, clock, silence) for n, turns in enumerate(distributed)]
    threads = [threading.Thread(target=share.run, name="slotkeeper-lanes", daemon=True) for share in shares[1:]]
    for thread in threads:
        thread.start()
    shares[0].run()
    for thread in threads:
        thread.join()
    outcomes = tuple(turn.outcome for turns in distributed for turn in turns)
    seconds = clock.monotonic() - began
    load = sum(1.0 - one.rested / seconds for one in shares) if seconds > 0 else float(len(shares))
    return StreamOutcome(outcomes, peak_kib(), all(one.idle for one in shares), seconds, load)


class _Share:
    """The lanes that take turns using one pair of sessions.

    `idle`: the share ended because no lane had new changes. `rested`: seconds for which it waited for changes
    with a sink that commits steps of several lanes together.
    """

    def __init__(
        self,
        number: int,
        turns: list[Turn],
        began: float,
        deadline: float,
        idle: _IdleWait,
        clock: Clock,
        silence: Silence,
    ) -> None:
        self.idle, self.rested, self._silence = False, 0.0, silence
        self._number, self._turns, self._began, self._deadline = number, turns, began, deadline
        self._quiet, self._clock = idle, clock

    def run(self) -> None:
        """Run rounds until the deadline, or until all lanes are quiet; the first lane always gets at least one turn."""
        try:
            self._run()
        except Exception as error:  # without an outcome, its lanes would be assigned again and again
            for turn in self._turns:
                turn.outcome = replace(turn.outcome, waited=turn.outcome.waited or 0.0)
                if not turn.failed:
                    turn.fail(error)
            self._quiet.note(self._number, True, QUESTIONS)

    def _run(self) -> None:
        live = list(self._turns)
        sweep = Sweep(self._clock, self._began, self._deadline, self._silence)
        while live:
            began = self._clock.monotonic()
            sweep.round(live)
            worked = any(turn.worked for turn in live)
            live = [turn for turn in live if not turn.failed]
            if self._clock.monotonic() >= self._deadline:
                return
            quiet = all(turn.quiet for turn in live)
            asked = 0 if worked else len(live)
            if self._quiet.note(self._number, quiet, asked):
                self.idle = bool(live) and quiet and not worked
                return
            ended = self._clock.monotonic()
            self._quiet.wait(self._number, quiet and asked > 0, PACE - (ended - began) if quiet and worked else 0.0)
            if all(turn.sweeps for turn in live):
                self.rested += self._clock.monotonic() - ended
        self._quiet.note(self._number, True, QUESTIONS)


class _IdleWait:
    """Polls quiet lanes for a short time: a poll takes milliseconds per lane, a new Spark task tens of milliseconds."""

    def __init__(self, clock: Clock, shares: int) -> None:
        self._clock = clock
        self._quiet = [False] * shares
        self._asked = [0] * shares
        self._pauses = [SHORTEST_PAUSE] * shares
        self._since: float | None = None
        self._over = False
        self._never = threading.Event()
        self._lock = threading.Lock()

    def note(self, share: int, quiet: bool, asked: int) -> bool:
        """Record the result of a share's round; return whether the lanes of all shares have been quiet for long enough.

        `asked`: the number of polled lanes, 0 if a lane had changes, which restarts the count. Once one share gets
        True, all shares get True, even after new changes: if the task continued for one share, the next task for the
        lanes of the other shares would be delayed.
        """
        now = self._clock.monotonic()
        with self._lock:
            self._quiet[share] = quiet
            self._asked[share] = self._asked[share] + asked if quiet and asked else 0
            found = all(self._quiet) and all(self._asked)
            self._since = (self._since if self._since is not None else now) if found else None
            if self._since is not None and (now - self._since >= LINGER or min(self._asked) >= QUESTIONS):
                self._over = True
            return self._over

    def wait(self, share: int, nothing_new: bool, pace: float = 0.0) -> None:
        """Wait before a share's next round: longer each time if its last round found no changes, else for `pace`."""
        if nothing_new or pace > 0:
            self._never.wait(self._pauses[share] if nothing_new else pace)
        self._pauses[share] = min(self._pauses[share] * 2, LONGEST_PAUSE) if nothing_new else SHORTEST_PAUSE


def peak_kib() -> int:
    """Return the peak resident memory of this process, in KiB on Linux."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run_copy(open_pair: OpenPair, task: CopyTask) -> CopyOutcome:
    with lend(open_pair, task.job, task.epoch, task.group, task.session) as lent:
        source, sink = lent.opened(task.job.channel.source_table, task.copying)
        return copy_chunks(task, source, sink, SystemClock(), probe, lent.pair.resolve)


def copy_chunks(
    spec: CopyTask,
    source: Source,
    sink: StepSink,
    clock: Clock,
    probe: Probe = nothing,
    resolve: Resolve | None = None,
) -> CopyOutcome:
    """Copy the chunks in order until the deadline; try at least one chunk."""
    deadline = clock.monotonic() + spec.seconds
    pace = Pace(spec.limit, spec.parts, spec.credit, clock.monotonic())

    def wait(rows: int, size: int) -> float:
        return pace.wait(rows, size, clock.monotonic())

    done: list[int] = []
    rows, refused, failed = 0, False, None
    try:
        plan = plan_of(spec.job.channel, source, resolve=resolve)
        for chunk in spec.chunks:
            copied = _copy_chunk(spec, chunk, source, sink, plan, wait, clock.utc(), probe)
            if copied is None:
                refused = True
                break
            done.append(chunk.number)
            rows += copied
            if clock.monotonic() >= deadline:
                break
    except Exception as error:  # a task never raises; see `_Turn.take`
        sink.abandon()
        failed = ErrorValues.of(error)
    return CopyOutcome(tuple(done), rows, refused, failed, peak_kib(), pace.spent)


def _copy_chunk(
    spec: CopyTask,
    chunk: Chunk,
    source: Source,
    sink: StepSink,
    plan: RowPlan,
    wait: Wait,
    now: datetime,
    probe: Probe,
) -> int | None:
    key = LaneKey(spec.job.source.name, spec.job.channel.source_table, spec.job.slot, "")

    def given(out: BinaryIO) -> BinaryIO:
        out = with_columns(out, plan, now, copying=True)
        return paced(out, wait) if spec.limit.limits else out

    def copy(into: Callable[[LaneKey, int, int, BinaryIO], int | None]) -> int | None:
        return copy_through(
            lambda out: source.copy_chunk(chunk, given(out)),
            lambda reader: into(key, spec.epoch, chunk.number, reader),
            sink.encoding,
        )

    try:
        copied = copy(sink.copy_chunk)
    except RowRefused as error:
        if not may_isolate(error, spec.job.sink_options, sink):
            raise
        sink.abandon()
        probe("before_isolated_chunk")
        try:
            copied = copy(sink.copy_chunk_isolating)
        except Exception as other:
            if hides(other, spec.job.sink_options):
                raise error from other
            raise
    if copied is not None:
        probe("before_chunk_commit")
        sink.finish_chunk()
        probe("after_chunk_commit")
    return copied
