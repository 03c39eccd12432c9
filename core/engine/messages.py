"""Messages between the driver and a task: frozen, picklable values without secrets or connections."""

from __future__ import annotations

from dataclasses import dataclass

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.watch import Expected
from slotkeeper.core.errors import ErrorValues
from slotkeeper.core.ports.source import Chunk


@dataclass(frozen=True, slots=True)
class LaneTask:
    """A lane of a task: a source table on a DN. The position is not sent: the task reads it from the progress row."""

    table: str
    shard: Shard
    expected: Expected
    width: int


@dataclass(frozen=True, slots=True)
class StreamTask:
    """Lanes that one task processes in turn for at most `seconds`, `parallel` of them at once.

    `group` names the tables that stream together: a worker retains sessions per group. `session` is the unique name of
    the task's store sessions, "" if none is needed.
    """

    job: JobSpec
    epoch: int
    lanes: tuple[LaneTask, ...]
    seconds: float
    parallel: int = 1
    group: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class LaneOutcome:
    """A task's result for one lane.

    `position`: the last known committed position, None if none was read. `latest`: the newest position in the last
    status. `changes` and `repeats`: the counts in the lane's progress row, including earlier tasks (0: not read).
    `rows`: the rows of this task. `waited`: seconds from the task's start to the lane's first turn, None if it had no
    turn.
    """

    table: str
    shard: Shard
    position: Position | None = None
    steps: int = 0
    rows: int = 0
    changes: int = 0
    repeats: int = 0
    latest: Position | None = None
    read_seconds: float = 0.0
    write_seconds: float = 0.0
    error: ErrorValues | None = None
    waited: float | None = None


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """A task's outcomes by lane; `idle`: the task ended because all lanes were quiet, not at its deadline.

    `peak_kib`: the worker's peak resident memory, in KiB (0: unknown). `seconds`: the task's duration on the worker.
    """

    lanes: tuple[LaneOutcome, ...]
    peak_kib: int = 0
    idle: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Chunks of one channel that one task copies, each in its own transaction; `job` contains only that channel.

    `session`: see `StreamTask`.
    """

    job: JobSpec
    epoch: int
    chunks: tuple[Chunk, ...]
    copying: str
    seconds: float
    group: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class CopyOutcome:
    """Numbers of finished chunks, and copied rows; `refused`: a chunk was not free (another run has taken over)."""

    done: tuple[int, ...]
    rows: int
    refused: bool = False
    error: ErrorValues | None = None
    peak_kib: int = 0
