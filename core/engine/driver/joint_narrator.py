"""Combines the reports of a job's groups of tables into the report of the job, and keeps each table's own state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.inventory import Skipped
from slotkeeper.core.domain.job import GONE, GONE_ACT, JobEvent, JobState, TableReport
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.progress import Activity, LaneState
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.engine.driver.context import Narrator
from slotkeeper.core.engine.driver.failure import act_of
from slotkeeper.core.errors import AwaitsCopy, SlotkeeperError, Trouble
from slotkeeper.core.ports.driver import ChunkCounts

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

    def joins(self, channel: ChannelSpec) -> None:
        """Record a table that the running job adds."""
        with self._lock:
            report = TableReport(channel.source_table, channel.target, JobState.PENDING.value)
            self._tables[channel.source_table] = report
            self._narrator.table(report)

    def gone(self, table: str) -> None:
        """Record that the source no longer lists a table, which therefore has no lanes."""
        with self._lock:
            self._resting.pop(table, None)
            self._last.pop(table, None)
            self._say(table, JobState.STOPPED, GONE, safe=GONE_ACT)

    def is_gone(self, table: str) -> bool:
        with self._lock:
            return self._tables[table].reason == GONE

    def runs(self, table: str) -> bool:
        with self._lock:
            return self._tables[table].state == JobState.RUNNING.value

    @property
    def any_gone(self) -> bool:
        """Whether the source no longer lists one of the tables."""
        with self._lock:
            return any(one.reason == GONE for one in self._tables.values())

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
            always = event in (JobEvent.SWITCHED, JobEvent.RESHAPED, JobEvent.COPIED_AGAIN)
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

    def shared_reader(self, error: SlotkeeperError | None) -> None:
        self._narrator.shared_reader(error)

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

    def shared_reader(self, error: SlotkeeperError | None) -> None:
        if self.leads:  # a table that runs separately has no shared reader
            self._joint.shared_reader(error)

    def table(self, report: TableReport) -> None:
        """Do nothing: `JointNarrator` reports tables itself."""

    def joined(self, channel: ChannelSpec) -> None:
        """Do nothing: no group adds tables."""

    def skipped(self, one: Skipped) -> None:
        """Do nothing, for the same reason."""

    def retrying(self, text: str, by: SlotkeeperError | Party | None = None) -> None:
        if self.leads:
            self._joint.retrying(self, text, by)
            return
        said = text.removeprefix(f"{self.tables[0]}: ")
        self._joint.waits(self.tables[0], said)
        self._joint.retrying(self, f"{self.tables[0]}: {said}" if text else "", by)


def least_state(lanes: Iterable[Lane]) -> LaneState:
    running = all(lane.state is LaneState.RUNNING for lane in lanes)
    return LaneState.RUNNING if running else LaneState.CATCHING_UP
