"""What a job's driver asks beside: its sessions by name, the target table, a place for tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.progress import Rows, Store
from slotkeeper.core.ports.source import Chunk, Retention, SlotAdmin, Source
from slotkeeper.core.ports.target import TargetReader


class TaskRunner(Protocol):
    """Calls a function of an importable module with one plain value, somewhere else."""

    @property
    def capacity(self) -> int:
        """How many tasks can run at once."""

    @property
    def tasks_started(self) -> int:
        """How many tasks were ever started."""

    def submit(self, entry: Callable[[Any], Any], spec: object, group: str) -> Future[Any]:
        """Start a task: `entry(spec)`; `entry` is picklable, a function of a module or a partial of one."""

    def cancel(self, group: str) -> None:
        """Try to end the tasks of a group; a cancelled one may still commit, which the fence makes harmless."""

    def close(self) -> None:
        """End all tasks and whatever runs them; safe to call twice."""


class Target(Protocol):
    """The target table as a start sees it."""

    def admit(self, identity: TableIdentity) -> bool:
        """Refuse by name what cannot hold the source, or cannot be made; makes nothing. Whether the table is there."""

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        """Make it on request where `makes`, and refuse by name what cannot hold the source; whether it was made."""

    def takes_copy(self, identity: TableIdentity) -> bool:
        """Whether a copy can go in as it is: there is no such table yet, or it has no row."""

    def count_rows(self, identity: TableIdentity) -> RowCount:
        """The target's rows, within five seconds; unknown where it cannot be asked, none where it is not there."""

    def copying(self, on_existing: str = "") -> str:
        """How chunks go in: direct, shadow or merge; raises Refused where rows are there and nothing says how.

        `on_existing` is what a reset has said for this one copy; without it the job's counts.
        """

    def half_done(self, way: str) -> Refused | None:
        """Why a half-done copy whose chunks go in by `way` cannot go on; None where it can."""

    def begin_copy(self, store: Store, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        """Record the plan and the way, make ready for it and turn the lanes, in one transaction."""

    def reshape(self, identity: TableIdentity, old: Sequence[Column] | None) -> Reshape:
        """How it is brought in line with a source whose columns changed; alters nothing.

        `old` are the source's columns when it was last in line, None where that is not known.
        """

    def alterable(self, shape: Reshape) -> None:
        """Raise Busy where somebody else uses it so that it cannot be altered now; alters nothing."""

    def alter(self, shape: Reshape, empties: bool) -> Sequence[str]:
        """Carry that out, whole or not at all; returns the statements that were run.

        `empties`: a column whose old values become none of its new type may lose them.
        """

    def end_copy(self, store: Store, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        """Exchange a shadow and turn the lanes, in one transaction; may take long where there is a shadow."""


class Sessions(Protocol):
    """Sessions of the driver, taken by name and kept; a session that failed opens anew by itself."""

    def of(self, table: str) -> Sessions:
        """The sessions for the channel of a source table: those of one name are one session for all channels."""

    def source(self, name: str) -> Source:
        """The source session `name`."""

    def admin(self, name: str) -> SlotAdmin:
        """The registering session `name`."""

    def rows(self, name: str) -> Rows:
        """The sink session `name` for progress rows."""

    def log_in(self, where: str) -> None:
        """Open a session at the servers of a side ("" for both) and end it; raises what a server refuses it by."""


class TaskEnds(Protocol):
    """Ends what tasks that were given up still do at the store; `slotkeeper.core.engine.driver.task_ends` has threads
    for it.
    """

    def task_prefix(self) -> str:
        """What the names of tasks' sessions at the store begin with from here on; nobody else's ever do."""

    def end_tasks(self, names: Sequence[str]) -> int:
        """End the sessions at the store that go by these names, ours alone; how many were told to.

        Waits at most for a login and two seconds. An error of ours where the server does not answer or allow it.
        """


class DriverSessions(Sessions, TaskEnds, Protocol):
    """The driver's sessions; `begin` names those opened from then on after the epoch.

    What is about one table is asked of the sessions for its channel.
    """

    @property
    def keeps_positions(self) -> bool:
        """Whether the source keeps what is confirmed: else nothing is registered, nor kept alive."""

    @property
    def shares_position(self) -> bool:
        """Whether what it keeps is one position for all channels of the job."""

    @property
    def shards_apart(self) -> bool:
        """Whether places of one shard say nothing of another's."""

    @property
    def no_reset(self) -> str:
        """Why no slot of the job can be reset; empty where one can."""

    def of(self, table: str) -> DriverSessions:
        """The sessions for the channel of a source table: those of one name are one session for all channels."""

    def store(self) -> Store:
        """The start's own sink session, which holds the lease."""

    def ending(self) -> Store:
        """The channel's rows over a session of their own, for the end of a copy; whoever asks closes it."""

    def target(self) -> Target:
        """The target, over the start's sink session."""

    def targets(self) -> TargetReader | None:
        """Reads the job's targets while it streams; None of a sink that cannot tell."""

    def starter(self) -> Retention:
        """A registering session of a start without a copy."""

    def apart(self, job: JobSpec) -> DriverSessions:
        """Sessions of their own for some of the job's tables; whoever asks closes them."""

    def begin(self, epoch: int, tables: Collection[str] = ()) -> bool:
        """Name sessions after the epoch and end those of earlier ones; False where it is not certain.

        With `tables` those only that register them: the job's other tables may be streaming.
        """

    def close(self) -> None:
        """End all sessions."""
