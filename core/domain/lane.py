"""The lanes of a job in the driver, and the assignment of due lanes to tasks. Pure.

Each lane is an immutable record that the driver's loop replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeVar

from slotkeeper.core.domain.elapsed import Curve
from slotkeeper.core.domain.position import Kept, Position, further
from slotkeeper.core.domain.progress import Activity, LaneKey, LaneState
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.tries import NO_HISTORY, History
from slotkeeper.core.domain.watch import Expected, trouble
from slotkeeper.core.errors import Trouble, TroubleName

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of a lane's work since its driver started, by the kind of work."""

    read: float = 0.0
    write: float = 0.0
    register: float = 0.0

    def more(self, read: float = 0.0, write: float = 0.0, register: float = 0.0) -> Spent:
        return Spent(self.read + read, self.write + write, self.register + register)


NOTHING_SPENT = Spent()


@dataclass(frozen=True, slots=True)
class Lane:
    """The state of one lane; times are monotonic seconds.

    `checked` is the last reported position up to which no row was found; `since` is when the lane became due;
    `ready_at` is the earliest time of a retry; `not_before` is the time from which no earlier call for the lane can
    still be in progress (requested retries also wait for it); `changes` and `repeats` are the values of its progress
    row, as last read; `alone` is set after a failure or an overrun; `task` is the number of its current task;
    `cancelled` counts its own cancelled tasks, minus one for each task that ended within the regular time (if above 0,
    one of its steps takes longer than that); `has_more` is set if rows were still arriving when its last task reached
    its deadline; `polled_at` is when the source last reported `latest`; `poll_by` is the latest time at which the table
    is polled next; `side` is the side that caused `error`, and `code` the SQLSTATE of the error, if any; `silent_since`
    is when its DN stopped responding during a task or a registration, and `silent` is the reason; `spent` contains the
    seconds of its work; `waited` is the longest time from becoming due to the first step of a task; `load` is the share
    of a pair of sessions that it needed in its last task; `state` is the state of the lane's channel; `label` is the
    lane's name in a job with several channels.
    """

    key: LaneKey
    shard: Shard
    position: Position
    registered: Kept
    expected: Expected
    width: int
    activity: Activity = Activity.IDLE
    latest: Position | None = None
    checked: Position | None = None
    changes: int = 0
    repeats: int = 0
    since: float = 0.0
    ready_at: float = 0.0
    not_before: float = 0.0
    failing_since: float = 0.0
    task: int = 0
    cancelled: int = 0
    alone: bool = False
    has_more: bool = False
    history: History = NO_HISTORY
    error: str = ""
    side: str = ""
    code: str = ""
    silent_since: float | None = None
    silent: str = ""
    kept_at: float = 0.0
    committed_at: float | None = None
    polled_at: float | None = None
    poll_by: float | None = None
    spent: Spent = NOTHING_SPENT
    waited: float = 0.0
    load: float = 1.0
    state: LaneState = LaneState.RUNNING
    label: str = ""

    @property
    def name(self) -> str:
        """The lane's name within its job: its DN, or its label."""
        return self.label or self.key.shard

    @property
    def unregistered(self) -> bool:
        """Whether the lane's position still has to be confirmed in the source."""
        return self.registered.at(self.position) != self.registered

    @property
    def nothing_waits(self) -> bool:
        """Whether all rows up to the source's newest reported position have been applied."""
        return self.latest is not None and self.checked is not None and self.checked >= self.latest

    @property
    def has_later(self) -> bool:
        """Whether the source has reported a position after the lane's position."""
        return self.latest is not None and self.latest > self.position

    @property
    def answered(self) -> Lane:
        """The lane with its errors cleared, because its DN has responded or one of its steps has succeeded."""
        if self.history == NO_HISTORY and not (self.error or self.side or self.code or self.silent):
            return self if self.silent_since is None else replace(self, silent_since=None)
        return replace(self, history=NO_HISTORY, error="", side="", code="", silent_since=None, silent="")

    @property
    def retry(self) -> str:
        """The retry as text, without the remaining seconds; it is shown until an attempt succeeds."""
        return f"retrying {self.history.failures}" if self.error and self.history.failures else ""


class Lanes(dict[str, Lane]):
    """The lanes of a job by name, with indexes, so that a pass of the driver's loop does not visit every idle lane."""

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        super().__init__()
        self._by_activity: dict[Activity, dict[str, None]] = {activity: {} for activity in Activity}
        self._catching_up: set[str] = set()
        self._changed: dict[str, None] = {}
        self.update(lanes)

    def of(self, *activities: Activity) -> list[Lane]:
        return [self[name] for activity in activities for name in self._by_activity[activity]]

    @property
    def idle(self) -> Set[str]:
        return self._by_activity[Activity.IDLE].keys()

    @property
    def state(self) -> LaneState:
        return LaneState.CATCHING_UP if self._catching_up else LaneState.RUNNING

    def take_changed(self) -> list[Lane]:
        """Return the lanes that were set since the last call."""
        changed, self._changed = self._changed, {}
        return [self[name] for name in changed]

    def __setitem__(self, name: str, lane: Lane) -> None:
        before = self.get(name)
        if before is None or before.activity is not lane.activity:
            if before is not None:
                del self._by_activity[before.activity][name]
            self._by_activity[lane.activity][name] = None
        if lane.state is not LaneState.RUNNING:
            self._catching_up.add(name)
        elif self._catching_up:
            self._catching_up.discard(name)
        self._changed[name] = None
        super().__setitem__(name, lane)

    def update(self, lanes: Mapping[str, Lane]) -> None:  # type: ignore[override]
        for name, lane in lanes.items():
            self[name] = lane

    def pop(self, name: str) -> Lane:  # type: ignore[override]
        lane = super().pop(name)
        del self._by_activity[lane.activity][name]
        self._catching_up.discard(name)
        self._changed.pop(name, None)
        return lane


@dataclass(frozen=True, slots=True)
class Assignment:
    """A running task: its lanes, its deadline, and when it was assigned."""

    number: int
    lanes: tuple[str, ...]
    deadline: float
    alone: bool
    overrun: bool = False
    cancelled: bool = False
    assigned: float = 0.0

    @property
    def group(self) -> str:
        return f"task-{self.number}"

    def session(self, prefix: str) -> str:
        """Return the name of the task's sessions in the store; "" if there is no prefix.

        >>> Assignment(31, ("dn_1",), 3.0, False).session("slotkeeper/orders/7.3f9a2c.")
        'slotkeeper/orders/7.3f9a2c.1f'
        """
        return f"{prefix}{self.number:x}" if prefix else ""


def due(lane: Lane, now: float) -> Lane:
    return replace(lane, activity=Activity.DUE, since=now)


def read_to(lanes: Iterable[Lane]) -> Position:
    """Return the latest position up to which each of these lanes has found no row that it has not applied."""
    return min(further(lane.position, lane.checked) or lane.position for lane in lanes)


def names_by_table(lanes: Mapping[str, Lane]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name, lane in lanes.items():
        found.setdefault(lane.key.source_table, []).append(name)
    return {table: tuple(names) for table, names in found.items()}


def distribute(items: Sequence[Item], piles: int, table: Callable[[Item], str]) -> list[list[Item]]:
    """Distribute items to piles in turn; within a pile, the items of one table are adjacent.

    If there are at least two tables per pile, all items of a table are in the same pile, so that its lanes share
    queries and the prepared state of a session.

    >>> distribute(["a1", "b1", "a2", "b2"], 1, lambda item: item[0])
    [['a1', 'a2', 'b1', 'b2']]
    >>> distribute(["a1", "b1", "a2", "b2"], 2, lambda item: item[0])
    [['a1', 'b1'], ['a2', 'b2']]
    """
    tables: dict[str, list[Item]] = {}
    for item in items:
        tables.setdefault(table(item), []).append(item)
    distributed: list[list[Item]] = [[] for _ in range(piles)]
    units = list(tables.values()) if len(tables) >= 2 * piles else [[item] for own in tables.values() for item in own]
    for place, unit in enumerate(units):
        distributed[place % piles].extend(unit)
    return distributed


MOST_DOUBLINGS = 6
"""Maximum doublings of an overrun task's time limit; session timeouts end a hanging task within that limit."""


def times(cancelled: int) -> int:
    """Return the factor for a task's time limit after a number of cancelled tasks.

    Without the factor, a step that takes longer than its limit would be cancelled again and again. Such a step cannot
    be distinguished from a step that hangs, but each attempt gets about twice as much time.

    >>> [times(cancelled) for cancelled in (0, 1, 3, 99)]
    [1, 2, 8, 64]
    """
    return 1 << min(cancelled, MOST_DOUBLINGS)


FEWEST = 16
"""Number of lanes that a task gets if available, even if its share is smaller, as if it were the only task."""


LIGHT, FULL = 0.5, 0.8
"""The maximum load of a lane that can share a pair of sessions, and the maximum total load of the pair."""


def pairs_of(lanes: Iterable[Lane]) -> int:
    """Return the number of pairs of sessions that these lanes need by their load."""
    return ceil(sum(lane.load for lane in lanes) / FULL)


GATHER = 0.1
"""Maximum seconds for which such lanes wait for lanes that are being registered, so that all get a common task."""


def assign(
    lanes: Iterable[Lane],
    running: Iterable[Assignment],
    capacity: int,
    first: int,
    now: float,
    seconds: float,
    most: int = 1_000_000,
) -> list[Assignment]:
    """Assign due lanes to as many tasks as can start, starting with the lane that has waited longest.

    The number of tasks does not exceed the capacity. A lane that failed or overran gets a separate task, and such tasks
    leave at least one task slot to other lanes. An overrun task counts until it has ended. A task gets at most its
    share of the lanes and at most `most` lanes, because lanes that it cannot process in time would miss the next task.
    If all due lanes have a low load, they get as few tasks as their load allows; running tasks of such lanes and these
    tasks end at the same time, if possible.
    """
    known = {lane.name: lane for lane in lanes}
    waiting = sorted((lane for lane in known.values() if lane.activity is Activity.DUE), key=lambda lane: lane.since)
    busy = list(running)
    free = max(0, capacity - len(busy))
    suspects = max(0, max(1, capacity - 1) - sum(task.alone or task.overrun for task in busy))
    assigned: list[tuple[list[Lane], bool]] = []
    for lane in [lane for lane in waiting if lane.alone][: min(free, suspects)]:
        assigned.append(([lane], True))
    sound = [lane for lane in waiting if not lane.alone]
    share = max(FEWEST, min(most, -(-len(sound) // max(1, capacity))))
    piles = min(free - len(assigned), len(sound))
    light = {lane.name for lane in known.values() if lane.load <= LIGHT}
    if sound and light.issuperset(lane.name for lane in sound):
        few = max(-(-len(sound) // FEWEST), pairs_of(sound))
        others = any(known[name].activity is Activity.REGISTERING for name in light)
        gathers = others and now - sound[0].since < GATHER
        piles = 0 if gathers else min(piles, few)
        ends = (task.deadline for task in busy if light.issuperset(task.lanes))
        seconds = min(seconds, max(seconds / 3, min(ends, default=now + seconds) - now))
    if piles > 0:
        distributed = distribute(sound[: share * piles], piles, lambda lane: lane.key.source_table)
        assigned.extend((pile, False) for pile in distributed if pile)
    return [
        Assignment(first + n, tuple(lane.name for lane in pile), now + seconds, alone, assigned=now)
        for n, (pile, alone) in enumerate(assigned)
    ]


MARGIN = 60.0
"""Safety margin before the TTL in seconds, at most a tenth of the TTL: a change is read some time after the check."""


class RecordTtls:
    """The history of latest positions for each lane of a table whose records are deleted by age, even if unread.

    DWS: with enable_binlog_timestamp, a record is deleted when it is older than binlog_ttl, and the slot's points do
    not show the deletion. A lane that has applied everything up to P can have missed a record only if the source's
    latest position passed P more than binlog_ttl ago.

    `ttls` maps source tables to seconds. `curves` maps lanes to their histories; they are retained after this object is
    discarded, because a resumed job continues with them.
    """

    def __init__(self, ttls: Mapping[str, int], curves: dict[str, Curve]) -> None:
        self._ttls, self._curves = ttls, curves

    @property
    def any(self) -> bool:
        """Whether the records of any table are deleted by age."""
        return bool(self._ttls)

    def see(self, table: str, shard: str, latest: Position, now: float) -> None:
        """Record the latest position from the status of a table on a DN."""
        ttl = self._ttls.get(table)
        if ttl is not None:
            self._curves.setdefault(f"{table} {shard}", Curve(2.0 * ttl)).see(now, latest.pair[0])

    def late(self, lane: Lane, now: float) -> Trouble | None:
        """Return the error SLOT LOST if the lane's next record may already be deleted, else None."""
        table = lane.key.source_table
        ttl, curve = self._ttls.get(table), self._curves.get(f"{table} {lane.shard.name}")
        if ttl is None or curve is None:
            return None
        here = lane.position if lane.checked is None else max(lane.position, lane.checked)
        behind = curve.at_least(here.pair[0], now)
        if behind < ttl - min(MARGIN, ttl / 10):
            return None
        deletes = f"the source deletes records of this table after {ttl} s, even if unread"
        what = f"{lane.name} is {behind:.0f} s behind, and {deletes}"
        return trouble(TroubleName.SLOT_LOST, what)
