"""Combines the reports of a job's table groups into the job's reports, and its lanes' errors into conditions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.job import JobEvent, JobState, TableReport
from slotkeeper.core.domain.lane import Activity, Lane
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.report import Condition, merged, server_of
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.engine.driver.context import Narrator
from slotkeeper.core.engine.driver.explain import act_of
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


class Telling:
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
            if group.leads or (not self._leads and event is JobEvent.CAUGHT_UP):
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
            running = all(lane.state is LaneState.RUNNING for lane in living)
            merged = dict(item for one in (*self._resting.values(), *self._lanes.values()) for item in one.items())
            least = LaneState.RUNNING if running else LaneState.CATCHING_UP
            self._narrator.lanes(merged, least, self._epoch, sum(self._registrations.values()))

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
        self, telling: Telling, tables: Collection[str], leads: bool, begun: Callable[[], None] | None = None
    ) -> None:
        self._telling, self._begun = telling, begun
        self.tables = tuple(tables)
        self.leads = leads
        self.streams = False
        """Whether the group's loop has started."""

    def event(self, event: JobEvent, reason: str = "") -> None:
        self._telling.event(self, event, reason)

    def lanes(self, lanes: dict[str, Lane], state: LaneState, epoch: int, registrations: int) -> None:
        self.streams = True
        self._has_begun()
        self._telling.lanes(self, lanes, state, epoch, registrations)

    def copy(self, counts: ChunkCounts, epoch: int) -> None:
        self._has_begun()
        self._telling.copy(counts, epoch)

    def _has_begun(self) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            begun()

    def quarantined(self, rows: int, newest: str = "") -> None:
        self._telling.quarantined(self, rows, newest)

    def stored(self, states: Mapping[str, LaneState]) -> None:
        self._telling.stored(self, states)

    def waits(self, tables: Collection[str], text: str) -> None:
        for table in tables:
            self._telling.waits(table, text)

    def table(self, report: TableReport) -> None:
        """Do nothing: `Telling` reports tables itself."""

    def retrying(self, text: str, by: SlotkeeperError | Party | None = None) -> None:
        if self.leads:
            self._telling.retrying(self, text, by)
            return
        said = text.removeprefix(f"{self.tables[0]}: ")
        self._telling.waits(self.tables[0], said)
        self._telling.retrying(self, f"{self.tables[0]}: {said}" if text else "", by)


_LINE = ("08", "57P", "28")
"""SQLSTATE classes of connection and login errors: connection exception, operator intervention, authorization."""


def of_lanes(lanes: Iterable[Lane], now: float, utc: float, names: Mapping[str, str]) -> tuple[Condition, ...]:
    """Return the conditions of a job's lanes: the server or DN that causes an error, and the time of its start; pure.

    Source sessions connect to a coordinator, so a broken session is attributed to the source. An error that names one
    DN or concerns only some DNs is attributed to the DN, as is a broken session if only that DN was silent at the time.
    `now` is monotonic, `utc` the same time in seconds since 1970. `names` maps "source" and "sink" to the names of the
    job's source and sink, for errors that do not name their server.
    """
    living = [lane for lane in lanes if lane.activity is not Activity.STOPPED]
    troubled = [lane for lane in living if lane.error or lane.silent_since is not None]
    several = len({lane.shard.name for lane in living}) > 1
    return merged(_condition(lane, len(living), several, utc - now, names) for lane in troubled)


def _condition(lane: Lane, of: int, several: bool, apart: float, names: Mapping[str, str]) -> Condition:
    began = [at for at in (lane.failing_since if lane.error else None, lane.silent_since) if at is not None]
    party, name, cause = _blamed(lane, several, names)
    for known in (lane.name, lane.shard.name, lane.key.source_table):
        cause = cause.removeprefix(f"{known}: ")
    code = lane.code if lane.error and party is not Party.PROCESS else ""
    began_at = min(began) + apart
    return Condition(party.value, name, cause, began_at, (lane.name,), of, lane.history.failures, code)


def _blamed(lane: Lane, several: bool, names: Mapping[str, str]) -> tuple[Party, str, str]:
    """Return the party at fault, its name and its error; `several`: the lanes are on more than one DN."""
    said, called, cause = server_of(lane.error) if lane.error else ("source", "", lane.silent)
    side = said or lane.side
    if lane.silent_since is not None and not side:  # a step was abandoned: the lane's error does not name the cause
        side, cause = "source", lane.silent
    named = lane.shard.name in lane.error.removeprefix(f"{lane.name}: ")
    # in this case the connection to the server has failed, not a DN
    of_line = bool(lane.error) and not named and lane.code.startswith(_LINE)
    if side == "source" and several and (lane.silent_since is not None or not of_line):
        return Party.DN, lane.shard.name, cause
    party = {"source": Party.SOURCE, "sink": Party.SINK}.get(side, Party.PROCESS)
    return party, called or names.get(side, "Spark" if side == "spark" else "this job's driver"), cause
