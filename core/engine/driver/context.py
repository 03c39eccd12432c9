"""What the driver's part of the engine asks of its surroundings; `core.wiring.worker` provides it.

Next door: `core.ports` has what one source or sink session can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from core.clock import Clock, SystemClock
from core.domain.job import JobEvent, Wish
from core.domain.lag import Curve
from core.domain.progress import LaneKey, LaneState, ProgressRow
from core.domain.slot import Shard, TableIdentity
from core.domain.spec import JobSpec
from core.domain.turn import Turn
from core.engine.driver.lane_io import Sessions
from core.engine.driver.lanes import Lane
from core.engine.local_runner import TaskRunner
from core.engine.worker.step import Probe, nothing
from core.errors import Refused, SlotkeeperError
from core.ports import Chunk, ChunkCounts, Rows, SlotAdmin


class Store(Rows, Protocol):
    """The progress rows and chunks of the job, for its driver."""

    def create_tables(self) -> None: ...
    def take_lease(self) -> bool: ...
    def take_target(self, target: str) -> bool: ...
    def leased(self, asks: bool = True) -> bool: ...
    def writer(self, target: str) -> str: ...
    def holder(self) -> str: ...
    def open_reset(self) -> str: ...
    def rows(self) -> list[ProgressRow]: ...
    def insert(self, rows: list[ProgressRow]) -> None: ...
    def replace_creating(self, rows: list[ProgressRow], epoch: int) -> None: ...
    def forget_creating(self, epoch: int) -> None: ...
    def known_dns(self) -> int | None: ...
    def adopt(self, renamed: Mapping[str, str], come: list[ProgressRow], epoch: int, dns: int) -> None: ...
    def raise_epoch(self, tables: Sequence[str]) -> int: ...
    def end_others(self) -> None: ...
    def set_state(self, turn: Turn, noted_end: dict[str, int] | None = None) -> None: ...
    def way_of_copy(self) -> str: ...
    def cancel(self) -> None: ...
    def sever(self) -> None: ...
    def chunks_left(self) -> list[Chunk]: ...
    def chunk_counts(self) -> ChunkCounts: ...
    def registered_age(self) -> float | None: ...


class PointSeen(Protocol):
    """A registered point of some slot of the table."""

    @property
    def shard(self) -> str: ...
    @property
    def slot(self) -> str: ...
    @property
    def point(self) -> int | None: ...


class Record(Protocol):
    """The first record of a DN at or after a point, and the DN's newest point; None where there is none."""

    @property
    def latest(self) -> int | None: ...
    @property
    def point(self) -> int | None: ...
    @property
    def xmin(self) -> int | None: ...


class Starter(SlotAdmin, Protocol):
    """What a start without a copy asks of the source beside looks and registrations."""

    def nodes(self) -> list[Shard]: ...
    def register_full_sync(self) -> str: ...
    def at_time(self, at: str) -> dict[str, int | None]: ...
    def since(self, at: str) -> dict[str, int | None]: ...
    def records(self, point: int = 0, shard: Shard | None = None) -> Mapping[str, Record]: ...
    def points(self) -> Sequence[PointSeen] | None: ...
    def seconds(self) -> float: ...
    def ttl(self) -> int | None: ...
    def record_ttl(self) -> int | None: ...


class Target(Protocol):
    """The target table as a start sees it."""

    def admit(self, identity: TableIdentity) -> bool:
        """Refuse by name what cannot hold the source, or cannot be made; makes nothing. Whether the table is there."""

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        """Make it on request where `makes`, and refuse by name what cannot hold the source; whether it was made."""

    def copying(self) -> str:
        """How chunks go in: direct, shadow or merge; raises Refused where rows are there and nothing says how."""

    def half_done(self, way: str) -> Refused | None:
        """Why a half-done copy whose chunks go in by `way` cannot go on; None where it can."""

    def begin_copy(self, store: Store, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        """Record the plan and the way, make ready for it and turn the lanes, in one transaction."""

    def end_copy(self, store: Store, turn: Turn, noted: dict[str, int], copying: str) -> None:
        """Exchange a shadow and turn the lanes, in one transaction; may take long where there is a shadow."""


class DriverSessions(Sessions, Protocol):
    """The driver's sessions; `begin` names those opened from then on after the epoch.

    What is about one table is asked of the sessions for its channel.
    """

    def of(self, table: str) -> DriverSessions:
        """The sessions for the channel of a source table: those of one name are one session for all channels."""

    def store(self) -> Store:
        """The start's own sink session, which holds the lease."""

    def ending(self) -> Store:
        """The channel's rows over a session of their own, for the end of a copy; whoever asks closes it."""

    def target(self) -> Target:
        """The target, over the start's sink session."""

    def starter(self) -> Starter:
        """A registering session of a start without a copy."""

    def begin(self, epoch: int) -> bool:
        """Name sessions after the epoch and end those of earlier ones; False where it is not certain."""

    def close(self) -> None:
        """End all sessions."""


class Narrator(Protocol):
    """Hears what the job does and tells the state store."""

    def event(self, event: JobEvent, reason: str = "") -> None:
        """Something happened to the job's state."""

    def lanes(self, lanes: dict[str, Lane], state: LaneState, epoch: int, registrations: int) -> None:
        """How the lanes stand."""

    def copy(self, counts: ChunkCounts, epoch: int) -> None:
        """How far the copy is."""

    def held(self, rows: int) -> None:
        """How many rows the job holds in quarantine."""

    def retrying(self, text: str) -> None:
        """A passing trouble outside the lanes: "retrying n, next in s: why", or nothing when it is over."""


KEEPALIVE = 30.0
"""Seconds after which an idle lane registers the same point again: far below a quarter of the default TTL (6 h)."""


@dataclass
class Surroundings:
    """Everything that a job's driver is given.

    `pause` waits for at most so many seconds, less where a wish comes in. `curves` are what was latest when, by lane:
    the one thing that outlives a pause.
    """

    job: JobSpec
    sessions: DriverSessions
    runner: TaskRunner
    narrator: Narrator
    wish: Callable[[], Wish]
    pause: Callable[[float], None]
    clock: Clock = field(default_factory=SystemClock)
    probe: Probe = nothing
    keepalive: float = KEEPALIVE
    take_over: bool = False
    until_caught_up: bool = False
    curves: dict[str, Curve] = field(default_factory=dict)

    def of(self, table: str) -> Surroundings:
        """The same for one channel of the job, by its source table."""
        return replace(self, job=self.job.of(table), sessions=self.sessions.of(table))

    @property
    def parts(self) -> tuple[Surroundings, ...]:
        """The same once per channel."""
        return tuple(self.of(channel.source_table) for channel in self.job.channels)


@contextmanager
def about(all_: Surroundings, part: Surroundings) -> Iterator[None]:
    """Errors of the block name the channel's source table where the job has several."""
    try:
        yield
    except SlotkeeperError as error:
        placed(all_.job, part.job.channel.source_table, error)
        raise


def placed(job: JobSpec, table: str, error: SlotkeeperError) -> SlotkeeperError:
    """The error, which names its source table where the job has several."""
    if len(job.channels) > 1 and table not in error.message:
        error.message = f"{table}: {error.message}"
    return error


def lane_key(job: JobSpec, shard: str) -> LaneKey:
    """The key of a lane's progress row."""
    return LaneKey(job.source.name, job.channel.source_table, job.slot, shard)
