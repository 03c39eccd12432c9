"""Runs one group of tables that stream together, from start and copy to streaming; retries failures between phases.

A job with one table is one group; `tables.py` manages the groups of a job with several tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from functools import partial

from slotkeeper.core.domain.job import JobEvent, WantedState
from slotkeeper.core.domain.lane import Lane, names_by_table
from slotkeeper.core.domain.pending import COPIES
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import STREAMING, LaneState, ProgressRow
from slotkeeper.core.domain.refusals import NO_RIGHT
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.start import compare
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.tries import NO_HISTORY, Requests
from slotkeeper.core.domain.watch import Turn, exactly
from slotkeeper.core.engine.driver import lease
from slotkeeper.core.engine.driver.again import CopyingAgain
from slotkeeper.core.engine.driver.context import (
    Interrupted,
    JobContext,
    StreamPlan,
    SwitchState,
    about,
    keepalive_of,
    record_ttls,
    slot_ttls,
    stay_paused,
)
from slotkeeper.core.engine.driver.copy import Snapshot, TaskSessions
from slotkeeper.core.engine.driver.failure import refuse, wait_after
from slotkeeper.core.engine.driver.follow import know_columns, with_columns
from slotkeeper.core.engine.driver.lease import Leases
from slotkeeper.core.engine.driver.loop import End, Loop
from slotkeeper.core.engine.driver.reshape import REFUSALS, is_resolvable, name_the_command, resolve_change
from slotkeeper.core.engine.driver.start import Begun, begin
from slotkeeper.core.engine.driver.switch import at_server, is_switch
from slotkeeper.core.errors import Busy, ConfigError, ErrorKind, SlotkeeperError, Trouble, Unreachable
from slotkeeper.core.ports.sink import Targets, Watched
from slotkeeper.core.retry import RetryRules

_OF_ALL = (
    *(ErrorKind.TRANSIENT, ErrorKind.CONTENTION, ErrorKind.ACCESS, ErrorKind.LOGIN),
    *(ErrorKind.CONFIG, ErrorKind.SUPERSEDED),
)
"""Kinds of start errors caused by the server, the configuration or another start, which affect every table."""


class JobEnd(Enum):
    """The reason why a job ended without a problem."""

    STOPPED = "stopped"
    EMPTY = "no table is left"
    FINISHED = "finished"
    CAUGHT_UP = "caught up"


_ENDS = {End.STOPPED: JobEnd.STOPPED, End.EMPTY: JobEnd.EMPTY, End.CAUGHT_UP: JobEnd.CAUGHT_UP}


def run_group(ctx: JobContext) -> JobEnd:
    """Run the tables until they have to stop or are finished; raises an error that a user must resolve.

    A table that cannot start or be copied leaves the group, and the others continue.
    """
    ctx = replace(ctx, requests=Requests(ctx.tries), switch=SwitchState())
    while True:
        try:
            ended = _run_once(ctx)
        except Interrupted:
            ended = None
        except SlotkeeperError as error:
            if not _resolve_error(ctx, error):
                raise
            ended = None
        if ended is not None:
            return ended
        if ctx.desk is not None:
            whole, channels = ctx.desk.find_channels()  # without the tables that left
            ctx.sessions.widen(whole)
            ctx = replace(ctx, job=replace(ctx.job, channels=channels), whole=whole)
        if ctx.wanted() is WantedState.STOP:
            return JobEnd.STOPPED
        stay_paused(ctx)
        if ctx.wanted() is WantedState.STOP:
            return JobEnd.STOPPED


def _resolve_error(ctx: JobContext, error: SlotkeeperError) -> bool:
    """Return whether to start again: with all tables once the error is resolved, or without the failed table."""
    if is_switch(ctx, error):
        return True
    of_one = ctx.of(error.table) if error.table and len(ctx.job.channels) > 1 else ctx
    name_the_command(of_one, error)
    if of_one is ctx or ctx.desk is None:
        return resolve_change(of_one, error)
    of_all = error.kind in _OF_ALL and error.code != NO_RIGHT
    if error.where == "spark" or of_all:
        return False
    # restart it separately: its locked or large target must not delay other tables
    again = is_resolvable(of_one, error)
    lease.give_back(of_one)
    ctx.desk.receive_table(error.table, error, {}, again)
    return True


def _run_once(ctx: JobContext) -> JobEnd | None:
    """Start, copy if due, and stream; return None if the job has to start again (after a pause or DN change)."""
    if not ctx.job.channels:
        return JobEnd.EMPTY
    ctx.narrator.event(JobEvent.BEGAN)
    streaming = _start_streaming(ctx)
    if streaming is None:
        return JobEnd.FINISHED
    return _ENDS.get(streaming.run())


def _start_streaming(ctx: JobContext) -> Streaming | None:
    """Start and copy; each retry, on which `slotkeeper.core.retry` decides, is a complete start under a new epoch."""
    history, since = NO_HISTORY, ctx.clock.monotonic()
    rules = replace(RetryRules.of(ctx.job), awaits_secret=ctx.established)
    while True:
        try:
            begun = _start_and_copy(ctx)
            ctx.established = True
            if not ctx.job.binlog.binlog:
                return None
            for one in begun:
                know_columns(one.part)
            reading = with_columns(at_server(ctx, begun[0].identity), {_table(one): one.identity for one in begun})
            return Streaming(reading, begun).read_statuses()
        except SlotkeeperError as error:
            if error.where == "spark" or (isinstance(error, ConfigError) and not ctx.established):
                raise
            waited = wait_after(ctx, "the start", error, history, since, rules)
            if waited is None:
                raise
            history = waited
            if ctx.wanted() is not WantedState.RUN:
                raise Interrupted from error


def _start_and_copy(ctx: JobContext) -> tuple[Begun, ...]:
    begun = begin(ctx)
    ctx.narrator.retrying("")
    copied = [_table(one) for one in begun if one.state in (LaneState.CREATING, LaneState.COPYING)]
    # a table that only streams is reported as RUNNING once it streams
    apply = ctx.job.binlog.binlog
    ctx.narrator.stored({_table(one): one.state for one in begun if not (apply and one.state is LaneState.RUNNING)})
    if copied:
        ctx.narrator.event(JobEvent.COPY_BEGAN)
        more = f" and {len(copied) - 1} more" if copied[1:] else ""
        waiting = [_table(one) for one in begun if apply and one.state in STREAMING]
        ctx.narrator.waits(waiting, f"{COPIES}{copied[0]}{more}")
        begun = tuple(replace(one, part=_reading(one)) for one in begun)
        begun = Snapshot(ctx, begun).run()
        ctx.narrator.event(JobEvent.COPY_DONE if ctx.job.binlog.binlog else JobEvent.FINISHED)
    elif any(one.state is LaneState.CATCHING_UP for one in begun):
        ctx.narrator.event(JobEvent.COPY_DONE)
    return begun


def _reading(begun: Begun) -> JobContext:
    return with_columns(at_server(begun.part, begun.identity), {_table(begun): begun.identity})


def _table(begun: Begun) -> str:
    return begun.part.job.channel.source_table


def lane_of(row: ProgressRow, width: int, now: float, label: str = "") -> Lane:
    """Return the lane of a progress row at a start; `label`: the lane's name if it differs from the DN's."""
    assert row.position is not None
    known, shard = row.registered, Shard(row.key.shard, row.node_id)
    assert known is not None
    return Lane(
        *(row.key, shard, row.position, known, exactly(known, row.fingerprint), width),
        changes=row.changes,
        repeats=row.repeats,
        kept_at=now,
        state=row.state,
        label=label,
    )


class Streaming:
    """Runs the loop of one start, and moves each channel from CATCHING UP to RUNNING."""

    def __init__(self, ctx: JobContext, begun: tuple[Begun, ...]) -> None:
        self._ctx, self._begun = ctx, begun
        self._epoch = begun[0].epoch
        self._noted: dict[str, Position | None] = {}
        self._behind: dict[str, Begun] = {}
        """Channels in state CATCHING UP, by source table."""
        self._names: dict[str, tuple[str, ...]] = {}
        ttls = slot_ttls(*(one.part for one in begun))
        self._record_ttls = record_ttls(ttls, ctx.curves)
        self._keepalives = {table: keepalive_of(ctx.keepalive, ttl) for table, ttl in ttls.items()}
        self._leases = Leases(ctx, self._epoch)
        self._since = 0.0
        self._watched: dict[str, Watched] = {}
        self._lanes: dict[str, Lane] = {}
        self._again = CopyingAgain({one.part.job.channel.source_table: one.part for one in begun}, self._epoch)
        self._first: FirstAnswers | None = None
        """The first answers that a previously FAILED job awaits before RUNNING; None once all have arrived."""

    def read_statuses(self) -> Streaming:
        """Read the first status of every channel; a failure here counts as a failed start, which is retried."""
        for one in self._begun:
            with about(self._ctx, one.part):
                self._read_status(one)
        return self

    def _read_status(self, begun: Begun) -> None:
        job, now = self._ctx.whole or self._ctx.job, self._ctx.clock.monotonic()
        own, record = begun.part.job, begun.part.sessions.store().target_record()
        mirrored = tuple(column.name for column in image_of(own.channel, begun.identity).columns)
        self._watched[own.channel.source_table] = Watched(own, begun.identity, mirrored, record)
        statuses = {status.shard.name: status for status in begun.part.sessions.admin("start").source.read_status(None)}
        for row in begun.rows:
            status = statuses.get(row.key.shard)
            if status is None:
                raise Busy(f"{row.key.shard} does not answer: the DN set may have changed", where="source")
            refuse(compare(row, status))
            name = job.lane_name(row.key.source_table, row.key.shard)
            label = name if job.several else ""
            lane = lane_of(row, job.binlog.binlog_sync_point_size, now, label)
            # the comparison succeeded, so later statuses must show the slot's current points
            known = lane.registered.found(status.kept)
            lane = replace(lane, expected=exactly(known, lane.expected.fingerprint), registered=known)
            self._lanes[name] = replace(lane, latest=status.latest, polled_at=now)
            self._noted[name] = row.noted_end

    def run(self) -> End:
        """Stream until the desired state changes; raises an error that a user must resolve."""
        ctx = self._ctx
        given = (ctx.sessions, ctx.runner, ctx.work.stream, ctx.clock, ctx.wanted)
        loop = Loop(self._plan(), self._lanes, *given, self._tick, ctx.probe)
        self._names = names_by_table(self._lanes)
        tables = {one.part.job.channel.source_table: one for one in self._begun}
        behind = {lane.key.source_table for lane in self._lanes.values() if lane.state is LaneState.CATCHING_UP}
        self._behind = {table: one for table, one in tables.items() if table in behind}
        self._report_start(loop)
        resumes = False
        try:
            ended = loop.run()
            if loop.lanes:  # report commits made while the loop ended
                ctx.narrator.lanes(loop.lanes, loop.lanes.state, self._epoch, loop.registrations)
            resumes = ended in (End.RESUMED, End.OTHER_NODES)
        except (Trouble, *REFUSALS):
            resumes = True  # the leases' session is needed to handle a changed table
            raise
        finally:
            self._again.stop()
            self._leases.end(waits=resumes or self._leases.leaving)  # the next start uses the leases' session
            if self._leases.leaving:
                self._leases.report_released()
        return ended

    def _plan(self) -> StreamPlan:
        ctx = self._ctx
        given_up = TaskSessions(ctx.sessions)
        lowest = {
            table: min(self._lanes[name].position for name in names)
            for table, names in names_by_table(self._lanes).items()
        }
        return StreamPlan(
            ctx.job,
            self._epoch,
            ctx.keepalive if ctx.sessions.keeps_positions else math.inf,
            ctx.until_caught_up,
            keep_lease=self._leases.keep,
            sever_lease=self._leases.sever,
            find_leaving=ctx.desk.find_leaving if ctx.desk is not None else None,
            release_table=self._release_table if ctx.desk is not None else None,
            regroups=ctx.desk.regroups if ctx.desk is not None else bool,
            whole=ctx.whole,
            group=ctx.group,
            record_ttls=self._record_ttls,
            requests=ctx.requests,
            targets=Targets(ctx.sessions.targets(), self._watched),
            task_prefix=given_up.prefix,
            end_task=given_up.end,
            follows_servers=ctx.parts[0].sessions.admin("start").failover is not None,
            retrying=ctx.narrator.retrying,
            altered=partial(ctx.narrator.event, JobEvent.RESHAPED),
            feed=ctx.sessions.feed(lowest),
            keepalives=self._keepalives,
            newest=ctx.sessions.newest,
            copied_again=partial(getattr, self._again, "tables"),
            delayed=self._again.delays.__setitem__,
        )

    def _report_start(self, loop: Loop) -> None:
        """Report RUNNING if no lane is catching up; after FAILED, only once the lanes' first steps succeed."""
        if loop.lanes.state is not LaneState.RUNNING:
            states = (LaneState.RUNNING, LaneState.CATCHING_UP)
            self._ctx.narrator.stored({table: states[table in self._behind] for table in self._names})
            return
        if self._ctx.failed_before:
            self._first = FirstAnswers(loop.lanes, self._ctx.clock.monotonic())
        else:
            self._report_running()

    def _report_running(self) -> None:
        self._ctx.narrator.stored(dict.fromkeys(self._names, LaneState.RUNNING))
        self._ctx.narrator.event(JobEvent.CAUGHT_UP)

    def _release_table(self, table: str, error: SlotkeeperError | None, lanes: Mapping[str, Lane]) -> None:
        self._behind.pop(table, None)
        self._names.pop(table, None)
        self._leases.release_table(table, error, lanes)

    def _tick(self, loop: Loop) -> None:
        if loop.paused:
            if not self._since:
                self._since = self._ctx.clock.monotonic()
                self._ctx.narrator.event(JobEvent.PAUSED)
        elif loop.lanes.state is LaneState.CATCHING_UP:
            self._catch_up(loop)
        elif self._first is not None and self._first.all_in(loop.lanes, self._ctx.clock.monotonic()):
            self._first = None
            self._report_running()
        if not loop.paused and loop.lanes.state is LaneState.RUNNING:
            self._again.check()
        self._ctx.narrator.shared_reader(self._ctx.sessions.feed_error())
        if loop.quarantined is not None:
            self._ctx.narrator.quarantined(*loop.quarantined)
        self._ctx.narrator.lanes(loop.lanes, loop.lanes.state, self._epoch, loop.registrations)

    def _catch_up(self, loop: Loop) -> None:
        """Set each channel to RUNNING once its lanes have reached their recorded ends, and the job after the last."""
        for table in list(self._behind):
            names = self._names[table]
            if not loop.lanes.keys() >= set(names):
                continue  # the table has left
            ends = {name: end for name in names if (end := self._noted[name]) is not None}
            if all(loop.lanes[name].position >= end for name, end in ends.items()):
                self._turn_to_running(table, loop)
        if loop.lanes.state is LaneState.RUNNING:
            self._ctx.narrator.event(JobEvent.CAUGHT_UP)

    def _turn_to_running(self, table: str, loop: Loop) -> None:
        # also allowed from RUNNING, because the answer to an earlier attempt may have been lost
        came_from, names = (LaneState.CATCHING_UP, LaneState.RUNNING), self._names[table]
        if not self._leases.lock.acquire(blocking=False):
            return  # the session is in use: the next turn of the loop retries
        part = self._behind[table].part
        try:
            with about(self._ctx, part):
                part.sessions.store().set_state(Turn(self._epoch, len(names), came_from, LaneState.RUNNING))
        except (Unreachable, Busy):
            return  # the sink may be restarting: the next turn retries
        finally:
            self._leases.lock.release()
        del self._behind[table]
        for name in names:
            loop.lanes[name] = replace(loop.lanes[name], state=LaneState.RUNNING)
        self._ctx.narrator.stored({table: LaneState.RUNNING})


WITHIN = 20.0
"""Seconds after which the job is reported as RUNNING without all answers: a long first step is not a failure."""


class FirstAnswers:
    """Tracks the lanes that have no first answer yet; `began`: the start of the lanes in monotonic seconds.

    A job that FAILED before is RUNNING again once each lane's first step has been answered. Otherwise, if that step
    fails with the same error, RUNNING would be reported shortly before FAILED.
    """

    def __init__(self, lanes: Mapping[str, Lane], began: float) -> None:
        self._began = began
        self._waiting: dict[str, Position] = {name: lane.position for name, lane in lanes.items()}

    def all_in(self, lanes: Mapping[str, Lane], now: float) -> bool:
        """Whether every remaining lane has answered, or `WITHIN` seconds have passed; stays true from then on."""
        if self._waiting and now - self._began >= WITHIN:
            self._waiting.clear()
        for name, first in list(self._waiting.items()):
            lane = lanes.get(name)
            # the lane has left, has an error that is retried, has nothing to read, or has moved
            if lane is None or lane.error or lane.nothing_waits or lane.position > first:
                del self._waiting[name]
        return not self._waiting
