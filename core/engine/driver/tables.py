"""Runs a job from start to end: its tables stream together, and a table that stopped separately restarts separately.

Tables that start together are the joint tables: one group in the caller's thread, with shared sessions, leases, epoch
and loop. A table that fails, or whose desired state differs from the job's, leaves the group. When it is restarted, it
forms a separate group with its own thread and epoch. So does a table that is paused separately, or that must be copied
while other tables stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.job import AS_THE_JOB, JobEvent, JobState, TableReport, TableWanted, WantedState
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.pending import APART
from slotkeeper.core.domain.progress import STREAMING, Activity, LaneState
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.engine.driver.context import JobContext, Narrator
from slotkeeper.core.engine.driver.failure import act_of
from slotkeeper.core.engine.driver.job import JobEnd, run_group
from slotkeeper.core.engine.driver.reshape import NAMES, PASSING
from slotkeeper.core.engine.tasks import Pooled, SharedRunner
from slotkeeper.core.errors import AwaitsCopy, Busy, ErrorKind, SlotkeeperError, Trouble, classed
from slotkeeper.core.ports.driver import ChunkCounts

READ_EVERY = 0.25
"""Seconds between two reads of the desired states of the tables."""
ASKED, ASK_AGAIN = 12, 5.0
"""Maximum number of queries to a sink about the tables that need a copy, and the seconds between two queries."""
END_WITHIN = 8.0
"""Maximum wait in seconds for separate tables to end, while each loop drains and closes its sessions."""


def run(ctx: JobContext) -> JobEnd:
    """Run the job until it has to stop or is finished; raises an error that a user must resolve."""
    ctx = replace(ctx, runner=Pooled(ctx.runner, ctx.job.binlog.connection_pool_size))
    several = len(ctx.job.channels) > 1 and not ctx.sessions.shares_position
    return Tables(ctx).run() if several else run_group(ctx)


@dataclass(slots=True)
class _Alone:
    """A separate table: `turn` is the number of its requested start; `thread` ends when the table ends."""

    turn: int
    narrator: GroupNarrator
    thread: threading.Thread | None = None


class Tables:
    """The tables of a job with several tables; implements `slotkeeper.core.engine.driver.context.Desk`."""

    def __init__(self, ctx: JobContext) -> None:
        self._ctx = replace(ctx, whole=ctx.job, asked=_keep_last(ctx.asked))
        self._lock = threading.RLock()
        self._runner = SharedRunner(ctx.runner)
        self._joint = JointNarrator(ctx.narrator, ctx.job)
        self._turns = {channel.source_table: 0 for channel in ctx.job.channels}
        """The `turn` of each table's last start."""
        self._alone: dict[str, _Alone] = {}
        self._errors: dict[str, SlotkeeperError] = {}
        self._leader: GroupNarrator | None = None
        """The narrator of the joint tables; its `tables` are those that still run together."""
        self._fatal: BaseException | None = None
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._watch_over, name="slotkeeper-tables", daemon=True)

    def run(self) -> JobEnd:
        """Run the joint tables in this thread and each separate table in its own thread, until all have ended."""
        together = self._sort_tables()
        try:
            ended = self._run_together(together) if together else JobEnd.EMPTY
            if ended is JobEnd.STOPPED and self._ctx.wanted() is WantedState.STOP:
                return ended
            return self._wait_for_rest(ended)
        finally:
            self._closing.set()
            with self._lock:
                threads = [one.thread for one in self._alone.values() if one.thread is not None]
            end = self._ctx.clock.monotonic() + END_WITHIN
            for thread in threads:
                thread.join(max(0.0, end - self._ctx.clock.monotonic()))

    # -- joint tables ------------------------------------------------------------------------------------------------

    def _sort_tables(self) -> list[str]:
        """Return the tables to start together; the other tables start separately or stay stopped."""
        asked = self._ctx.asked()
        wanted = {table: asked.get(table, AS_THE_JOB) for table in self._turns}
        self._turns = {table: one.turn for table, one in wanted.items()}
        for table, one in wanted.items():
            if one.wanted is WantedState.STOP:
                self._joint.rests(table, JobState.STOPPED, {})
        running = [table for table, one in wanted.items() if one.wanted is WantedState.RUN]
        copied = self._copied(running)
        self._apart = [table for table in running if copied and table not in copied]
        for table in self._apart:
            self._joint.waits(table, APART)
        self._apart += [table for table, one in wanted.items() if one.wanted is WantedState.PAUSE]
        return [table for table in running if table not in self._apart]

    def _copied(self, tables: Collection[str]) -> set[str]:
        """Return the tables that need no copy; none if the sink does not report them, or the job does not stream.

        A sink that is starting is queried several times: otherwise all tables would wait for the copy of one table.
        """
        if not self._ctx.job.binlog.binlog:
            return set()
        for left in range(ASKED, 0, -1):
            try:
                return {table for table in tables if self._streams(table)}
            except SlotkeeperError as error:
                if left == 1 or error.kind not in PASSING or self._ctx.wanted() is not WantedState.RUN:
                    break  # the tables' start will raise the same error
                said = f"cannot determine which tables need a copy, retrying in {ASK_AGAIN:.0f} s: {error.message}"
                self._ctx.narrator.retrying(said, error)
                self._ctx.pause(ASK_AGAIN)
        return set()

    def _streams(self, table: str) -> bool:
        store = self._ctx.of(table).sessions.store()
        store.create_tables()
        rows = store.rows()
        return bool(rows) and all(row.state in STREAMING for row in rows)

    def _run_together(self, tables: list[str]) -> JobEnd:
        channels = tuple(one for one in self._ctx.job.channels if one.source_table in tables)
        narrator = self._leader = GroupNarrator(self._joint, tables, leads=True, begun=self._watch_on)
        job = replace(self._ctx.job, channels=channels)
        ctx = replace(self._ctx, job=job, runner=self._runner, narrator=narrator, wanted=self._wanted, desk=self)
        try:
            return run_group(ctx)
        except SlotkeeperError as error:
            if not error.table or error.kind is ErrorKind.SUPERSEDED or error.where == "spark":
                raise
            with self._lock:
                for table in narrator.tables:
                    self._fail(table, error, {})
            if self._all_ended():
                raise
            ctx.sessions.close()  # release locks that a reset may need
            return JobEnd.EMPTY
        finally:
            self._joint.leader_ended()

    def _wanted(self) -> WantedState:
        if self._fatal is not None:
            raise self._fatal
        return WantedState.STOP if self._closing.is_set() else self._ctx.wanted()

    def find_leaving(self, tables: Collection[str]) -> Collection[str]:
        """Return the tables whose desired state is no longer RUN, or whose start was requested again."""
        if not self._watch.is_alive():
            return ()
        asked = self._ctx.asked()
        known = {table: asked.get(table, AS_THE_JOB) for table in tables}
        return [
            table for table, one in known.items() if one.wanted is not WantedState.RUN or one.turn != self._turns[table]
        ]

    def find_remaining(self, tables: Collection[str]) -> Collection[str]:
        return [table for table in tables if self._leader is not None and table in self._leader.tables]

    def receive_table(
        self, table: str, error: SlotkeeperError | None, lanes: Mapping[str, Lane], again: bool = False
    ) -> None:
        """Record that a table has left the joint group; `again`: start it separately at once."""
        with self._lock:
            if self._leader is not None:
                self._leader.tables = tuple(one for one in self._leader.tables if one != table)
            if error is None:
                self._joint.rests(table, JobState.STOPPED, lanes)
                return
            if again or (isinstance(error, Trouble) and error.name in NAMES):
                # the new start adapts to the changed table, or reports the required action
                self._start_alone(table, lanes)
                return
            self._fail(table, error, lanes)

    def _fail(self, table: str, error: SlotkeeperError, lanes: Mapping[str, Lane]) -> None:
        self._errors[table] = error
        self._joint.failed(table, error, lanes)

    # -- separate tables ---------------------------------------------------------------------------------------------

    def _watch_on(self) -> None:
        """Start watching single tables; called once the joint tables hold their leases and stream or copy."""
        if self._watch.ident is None and not self._closing.is_set():
            self._watch.start()

    def _watch_over(self) -> None:
        try:
            with self._lock:
                for table in self._apart:
                    self._start_alone(table)
                self._apart = []
            while not self._closing.wait(READ_EVERY):
                self._read_wanted()
        except Exception as error:
            self._fatal = classed(error)

    def _read_wanted(self) -> None:
        asked = self._ctx.asked()
        with self._lock:
            for table in self._joint.resting():
                one = asked.get(table, AS_THE_JOB)
                if one.wanted is WantedState.STOP or table in self._alone:
                    continue
                if one.turn != self._turns[table] or (one.wanted is WantedState.PAUSE and table not in self._errors):
                    self._start_alone(table)

    def _start_alone(self, table: str, lanes: Mapping[str, Lane] | None = None) -> None:
        if self._closing.is_set():
            return
        self._turns[table] = self._ctx.asked().get(table, AS_THE_JOB).turn
        self._errors.pop(table, None)
        one = _Alone(self._turns[table], GroupNarrator(self._joint, [table], leads=False))
        self._joint.starts(table, lanes)
        go = partial(self._run_alone, table, one)
        one.thread = threading.Thread(target=go, name=f"slotkeeper-{table}", daemon=True)
        self._alone[table] = one
        self._runner.beside = len(self._alone)
        one.thread.start()

    def _run_alone(self, table: str, one: _Alone) -> None:
        ctx = self._context(table, one)
        error: SlotkeeperError | None = None
        try:
            run_group(ctx)
        except SlotkeeperError as found:
            error = found
            error.table = error.table or table
        except BaseException as found:
            self._fatal = found
        finally:
            try:
                ctx.sessions.close()
            finally:
                self._ended(table, one, error)

    def _context(self, table: str, one: _Alone) -> JobContext:
        """Return the context in which a separate table runs."""
        job = self._ctx.job.of(table)

        def wanted() -> WantedState:
            whole = self._wanted()
            asked = self._ctx.asked().get(table, AS_THE_JOB)
            if whole is WantedState.STOP or asked.wanted is WantedState.STOP or asked.turn != one.turn:
                return WantedState.STOP
            # a table starts its loop before it pauses, because a paused loop keeps its slot alive
            pauses = asked.wanted is WantedState.PAUSE and one.narrator.streams
            return WantedState.PAUSE if pauses else whole

        def pause(seconds: float) -> None:
            end = self._ctx.clock.monotonic() + seconds
            while (left := end - self._ctx.clock.monotonic()) > 0 and wanted() is WantedState.RUN:
                self._ctx.pause(min(left, READ_EVERY))

        alone = replace(self._ctx, job=job, sessions=self._ctx.sessions.apart(job), runner=self._runner.apart(table))
        alone = replace(alone, narrator=one.narrator, wanted=wanted, pause=pause, curves={}, group=table)
        return replace(alone, take_over=False, established=True)

    def _ended(self, table: str, one: _Alone, error: SlotkeeperError | None) -> None:
        with self._lock:
            del self._alone[table]
            self._runner.beside = len(self._alone)
            lanes = self._joint.without(one.narrator)
            if error is None:
                self._joint.rests(table, JobState.STOPPED, lanes)
            elif error.kind is ErrorKind.SUPERSEDED or error.where == "spark":
                self._fatal = error
            else:
                self._fail(table, error, lanes)

    def _wait_for_rest(self, ended: JobEnd) -> JobEnd:
        """Wait for the separate tables; once no table is running, raise the error of the first failed table."""
        self._watch_on()
        while self._ctx.wanted() is not WantedState.STOP:
            if self._fatal is not None:
                raise self._fatal
            if self._all_ended():
                for error in self._errors.values():
                    raise error
                return JobEnd.STOPPED if ended is JobEnd.EMPTY else ended
            self._closing.wait(READ_EVERY)
        return JobEnd.STOPPED

    def _all_ended(self) -> bool:
        """Whether all tables have stopped and no user has requested a start since the last read."""
        if not self._goes_on():
            self._read_wanted()
        return not self._goes_on()

    def _goes_on(self) -> bool:
        with self._lock:
            return bool(self._alone or self._apart)


def _keep_last(asked: Callable[[], Mapping[str, TableWanted]]) -> Callable[[], Mapping[str, TableWanted]]:
    """Wrap `asked` to return the last known desired states while this host's store is busy or missing."""
    last: list[Mapping[str, TableWanted]] = [{}]

    def now() -> Mapping[str, TableWanted]:
        with suppress(Busy):
            last[0] = asked()
        return last[0]

    return now


_STATES = {
    JobEvent.BEGAN: JobState.PENDING,
    JobEvent.PAUSED: JobState.PAUSED,
    JobEvent.RESUMED: JobState.PENDING,
    JobEvent.FINISHED: JobState.FINISHED,
}
"""Table states by event, for events that affect every table of a group; other states come from the progress rows."""
_BY_ROWS = {
    LaneState.CREATING: JobState.SNAPSHOT,
    LaneState.COPYING: JobState.SNAPSHOT,
    LaneState.CATCHING_UP: JobState.CATCHING_UP,
    LaneState.RUNNING: JobState.RUNNING,
}


class JointNarrator:
    """Combines the reports of the groups; its methods can be called from any thread."""

    def __init__(self, narrator: Narrator, job: JobSpec) -> None:
        self._narrator = narrator
        self._job = job
        self._lock = threading.RLock()
        self._tables = {
            one.source_table: TableReport(one.source_table, one.target, JobState.PENDING.value) for one in job.channels
        }
        self._lanes: dict[GroupNarrator, dict[str, Lane]] = {}
        self._registrations: dict[GroupNarrator, int] = {}
        self._quarantined: dict[GroupNarrator, tuple[int, str]] = {}
        self._retrying: dict[GroupNarrator, tuple[str, SlotkeeperError | Party | None]] = {}
        self._resting: dict[str, dict[str, Lane]] = {}
        self._last: dict[str, Mapping[str, Lane]] = {}
        """The lanes of each table at the time when it left, used if its next start ends before it has lanes."""
        self._epoch, self._leads = 0, True

    def resting(self) -> list[str]:
        """Return the tables that are not running."""
        with self._lock:
            return [table for table, one in self._tables.items() if one.rests]

    def starts(self, table: str, lanes: Mapping[str, Lane] | None = None) -> None:
        """Record a separate start of a table; `lanes`: its last lanes if it has just left the joint tables."""
        with self._lock:
            if lanes or table in self._resting:
                self._last[table] = lanes or self._resting[table]
            self._resting.pop(table, None)
            self._say(table, JobState.PENDING)

    def rests(self, table: str, state: JobState, lanes: Mapping[str, Lane]) -> None:
        """Record that a table has stopped because its desired state requires it."""
        with self._lock:
            self._keep(table, lanes, "")
            self._say(table, state)

    def failed(self, table: str, error: SlotkeeperError, lanes: Mapping[str, Lane]) -> None:
        """Record that a table has stopped because of an error that a user must see."""
        name = error.name.value if isinstance(error, Trouble) else ""
        with self._lock:
            self._keep(table, lanes, error.message)
            state = JobState.AWAITS_COPY if isinstance(error, AwaitsCopy) else JobState.FAILED
            self._say(table, state, str(error), name, act_of(error, self._job))

    def without(self, group: GroupNarrator) -> dict[str, Lane]:
        """Remove an ended group; return its lanes as last reported."""
        with self._lock:
            self._quarantined.pop(group, None)
            if group in self._retrying:
                self.retrying(group, "")
            return dict(self._lanes.pop(group, {}))

    def leader_ended(self) -> None:
        """Record that the joint tables have ended: a separate table's report can now be the job's own state."""
        with self._lock:
            self._leads = False
            self._quarantined = {one: counted for one, counted in self._quarantined.items() if not one.leads}

    def _keep(self, table: str, lanes: Mapping[str, Lane], error: str) -> None:
        stopped = {
            name: replace(lane, activity=Activity.STOPPED, task=0, error=error or lane.error)
            for name, lane in (lanes or self._last.get(table, {})).items()
        }
        if stopped:
            self._resting[table] = stopped

    def _say(self, table: str, state: JobState, reason: str = "", trouble: str = "", safe: str = "") -> None:
        before = self._tables[table]
        said = replace(before, state=state.value, reason=reason, trouble=trouble, safe=safe)
        self._tables[table] = said
        if said != before or state is JobState.PENDING:
            self._narrator.table(said)

    # -- reports of the groups ---------------------------------------------------------------------------------------

    def event(self, group: GroupNarrator, event: JobEvent, reason: str) -> None:
        """Record an event of a group's tables; for the joint tables, it is also the job's event."""
        with self._lock:
            for table in group.tables:
                if event in _STATES and not self._tables[table].rests:
                    self._say(table, _STATES[event])
            always = event in (JobEvent.SWITCHED, JobEvent.RESHAPED)
            if group.leads or always or (not self._leads and event is JobEvent.CAUGHT_UP):
                self._narrator.event(event, reason)

    def stored(self, group: GroupNarrator, states: Mapping[str, LaneState]) -> None:
        """Report the states of a group's tables according to their progress rows."""
        with self._lock:
            for table, stored in states.items():
                if table in group.tables and not self._tables[table].rests:
                    ends = stored is LaneState.RUNNING and not self._job.binlog.binlog
                    self._say(table, JobState.FINISHED if ends else _BY_ROWS[stored])

    def lanes(
        self, group: GroupNarrator, lanes: dict[str, Lane], state: LaneState, epoch: int, registrations: int
    ) -> None:
        """Update the lanes of a group and report the lanes of all groups."""
        lanes = dict(lanes)  # a copy: the group's thread changes its lanes while other groups' threads read them
        with self._lock:
            self._lanes[group], self._registrations[group] = lanes, registrations
            self._epoch = max(self._epoch, epoch)
            if len(self._lanes) == 1 and not self._resting:
                self._narrator.lanes(lanes, state, epoch, registrations)
                return
            living = [lane for one in self._lanes.values() for lane in one.values()]
            merged = dict(item for one in (*self._resting.values(), *self._lanes.values()) for item in one.items())
            self._narrator.lanes(merged, least_state(living), self._epoch, sum(self._registrations.values()))

    def copy(self, counts: ChunkCounts, epoch: int) -> None:
        with self._lock:
            self._narrator.copy(counts, epoch)

    def quarantined(self, group: GroupNarrator, rows: int, newest: str) -> None:
        """Record a group's quarantined rows and report the job's total; the joint tables' count covers all tables."""
        with self._lock:
            self._quarantined[group] = rows, newest
            of_all = next((counted for one, counted in self._quarantined.items() if one.leads), None)
            every = sum(rows for rows, _ in self._quarantined.values())
            self._narrator.quarantined(*(of_all or (every, newest)))

    def retrying(self, group: GroupNarrator, text: str, by: SlotkeeperError | Party | None = None) -> None:
        """Report a group's temporary failure outside its lanes; "" reports its end, or another group's failure."""
        with self._lock:
            had = self._retrying.pop(group, None)
            if text:
                self._retrying[group] = text, by
            if text or had or not self._retrying:
                self._narrator.retrying(*next(reversed(self._retrying.values()), ("", None)))

    def waits(self, table: str, text: str) -> None:
        """Report a separate table's wait as its own reason; reports of other tables would replace the job's reason."""
        with self._lock:
            before = self._tables[table]
            if not before.rests and before.reason != text:
                self._say(table, JobState(before.state), text)


class GroupNarrator:
    """The narrator of one group; implements `slotkeeper.core.engine.driver.context.Narrator`.

    `leads`: the group's events are the job's events. `begun` is called once the group's lanes exist or its copy starts.
    """

    def __init__(
        self, joint: JointNarrator, tables: Collection[str], leads: bool, begun: Callable[[], None] | None = None
    ) -> None:
        self._joint, self._begun = joint, begun
        self.tables = tuple(tables)
        self.leads = leads
        self.streams = False
        """Whether the group's loop has started."""

    def event(self, event: JobEvent, reason: str = "") -> None:
        self._joint.event(self, event, reason)

    def lanes(self, lanes: dict[str, Lane], state: LaneState, epoch: int, registrations: int) -> None:
        self.streams = True
        self._has_begun()
        self._joint.lanes(self, lanes, state, epoch, registrations)

    def copy(self, counts: ChunkCounts, epoch: int) -> None:
        self._has_begun()
        self._joint.copy(counts, epoch)

    def _has_begun(self) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            begun()

    def quarantined(self, rows: int, newest: str = "") -> None:
        self._joint.quarantined(self, rows, newest)

    def stored(self, states: Mapping[str, LaneState]) -> None:
        self._joint.stored(self, states)

    def waits(self, tables: Collection[str], text: str) -> None:
        for table in tables:
            self._joint.waits(table, text)

    def table(self, report: TableReport) -> None:
        """Do nothing: `JointNarrator` reports tables itself."""

    def retrying(self, text: str, by: SlotkeeperError | Party | None = None) -> None:
        if self.leads:
            self._joint.retrying(self, text, by)
            return
        said = text.removeprefix(f"{self.tables[0]}: ")
        self._joint.waits(self.tables[0], said)
        self._joint.retrying(self, f"{self.tables[0]}: {said}" if text else "", by)


def least_state(lanes: Iterable[Lane]) -> LaneState:
    """Return the state of the least advanced lanes."""
    running = all(lane.state is LaneState.RUNNING for lane in lanes)
    return LaneState.RUNNING if running else LaneState.CATCHING_UP
