"""The lanes of a job as the driver knows them, and how due lanes are dealt to tasks. Pure.

Each lane is a frozen record; the loop replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from slotkeeper.core.domain.attempts import NO_HISTORY, History
from slotkeeper.core.domain.kept import Kept
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey, LaneState
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.watch import Expected


class Activity(Enum):
    """What a lane is doing right now; the values are shown."""

    IDLE = "idle"
    DUE = "due"
    APPLYING = "applying"
    REGISTERING = "registering"
    WAITING = "waiting"
    STOPPED = "stopped"
    """Its table has ended alone."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of a lane's work since its driver began, by the side that was waited for."""

    read: float = 0.0
    write: float = 0.0
    register: float = 0.0

    def more(self, read: float = 0.0, write: float = 0.0, register: float = 0.0) -> Spent:
        """The sums with these added."""
        return Spent(self.read + read, self.write + write, self.register + register)


NOTHING_SPENT = Spent()


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane: times are monotonic seconds.

    `checked` is the newest latest up to which no row was found; `since` when the lane became due; `ready_at` when it
    may be tried again; `not_before` when no call of it can be on its way any more, whoever asks for a try; `changes`
    and `repeats` are those of its progress row, as it was last read; `alone` after a failure or an overrun; `task` the
    number of the task that it is in; `cancelled` counts its own tasks that were, less one for each that ended in the
    time that every task has: a step of it takes longer; `has_more` where rows still came when its last task reached its
    deadline;
    `polled_at` when the source last told `latest`; `poll_by` asks for the table's next round no later than that;
    `side` whose trouble `error` is and `code` its SQLSTATE, if any; `silent_since` is
    since when its DN answers no question while a task or a registration is under way, `silent` why; `spent` the
    seconds of its work; `waited` is the longest time from due to the first step of a task; `state` is how far the
    lane's channel is; `label` is what the lane is called in a job of several channels.
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
    state: LaneState = LaneState.RUNNING
    label: str = ""

    @property
    def name(self) -> str:
        """What the lane is called within its job: its DN, or its label."""
        return self.label or self.key.shard

    @property
    def unregistered(self) -> bool:
        """Whether its position is not what the source was told last."""
        return self.registered.at(self.position) != self.registered

    @property
    def nothing_waits(self) -> bool:
        """Whether no row was found up to the newest place that the source has told."""
        return self.latest is not None and self.checked is not None and self.checked >= self.latest

    @property
    def has_later(self) -> bool:
        """Whether the source has told of something beyond its position."""
        return self.latest is not None and self.latest > self.position

    @property
    def answered(self) -> Lane:
        """The same with nothing wrong: its DN has answered, or a step of it has succeeded."""
        return replace(self, history=NO_HISTORY, error="", side="", code="", silent_since=None, silent="")

    @property
    def retry(self) -> str:
        """The retry in words, without the seconds left; it stands until one has succeeded."""
        return f"retrying {self.history.failures}" if self.error and self.history.failures else ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task under way: which lanes, when it ought to end, and when it was dealt."""

    number: int
    lanes: tuple[str, ...]
    deadline: float
    alone: bool
    overrun: bool = False
    cancelled: bool = False
    assigned: float = 0.0

    @property
    def group(self) -> str:
        """The name under which its task can be cancelled."""
        return f"task-{self.number}"

    def session(self, prefix: str) -> str:
        """What its sessions at the store go by; "" without a prefix.

        >>> Assignment(31, ("dn_1",), 3.0, False).session("slotkeeper/orders/7.3f9a2c.")
        'slotkeeper/orders/7.3f9a2c.1f'
        """
        return f"{prefix}{self.number:x}" if prefix else ""


def due(lane: Lane, now: float) -> Lane:
    """The lane, due from now on."""
    return replace(lane, activity=Activity.DUE, since=now)


def names_by_table(lanes: Mapping[str, Lane]) -> dict[str, tuple[str, ...]]:
    """The names of lanes by their source table."""
    found: dict[str, list[str]] = {}
    for name, lane in lanes.items():
        found.setdefault(lane.key.source_table, []).append(name)
    return {table: tuple(names) for table, names in found.items()}


MOST_DOUBLINGS = 6
"""An overrun task gets 64 times its time at most: beyond that the limits of its own sessions have ended what hangs."""


def times(cancelled: int) -> int:
    """How many times as long as the first one an overrun task is given, after so many that were cancelled.

    A step that takes longer than one is given would be cancelled again and again: it cannot be told from one that
    hangs, but each try finds out about twice as much.

    >>> [times(cancelled) for cancelled in (0, 1, 3, 99)]
    [1, 2, 8, 64]
    """
    return 1 << min(cancelled, MOST_DOUBLINGS)


FEWEST = 16
"""So many lanes a task may have wherever as many are due: as if no other task could run."""


def assign(
    lanes: Iterable[Lane],
    running: Iterable[Assignment],
    capacity: int,
    first: int,
    now: float,
    seconds: float,
    most: int = 1_000_000,
) -> list[Assignment]:
    """Assign due lanes to as many tasks as may begin, the lane that has waited longest first.

    No more tasks than the capacity; a lane that failed or overran gets one of its own, and such lanes take at most all
    of the capacity but one. An overrun task counts until it has ended. A task gets no more than its share of many
    lanes, and no more than `most`: what it cannot reach in time would miss the next task.
    """
    waiting = sorted((lane for lane in lanes if lane.activity is Activity.DUE), key=lambda lane: lane.since)
    busy = list(running)
    free = max(0, capacity - len(busy))
    suspects = max(0, max(1, capacity - 1) - sum(task.alone or task.overrun for task in busy))
    assigned: list[tuple[list[Lane], bool]] = []
    for lane in [lane for lane in waiting if lane.alone][: min(free, suspects)]:
        assigned.append(([lane], True))
    sound = [lane for lane in waiting if not lane.alone]
    piles: list[list[Lane]] = [[] for _ in range(min(free - len(assigned), len(sound)))]
    share = max(FEWEST, min(most, -(-len(sound) // max(1, capacity))))
    for place, lane in enumerate(sound[: share * len(piles)]):
        piles[place % len(piles)].append(lane)
    assigned.extend((pile, False) for pile in piles)
    return [
        Assignment(first + n, tuple(lane.name for lane in pile), now + seconds, alone, assigned=now)
        for n, (pile, alone) in enumerate(assigned)
    ]
