"""Shared parts of sink kinds without progress rows: the session, the check of targets, and the target for a start.

A kind adds the parts that depend on its server: reading a table, objecting to it, and counting its rows.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.finding import Objection, refuse
from slotkeeper.core.domain.logged_change import Loss
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape, changes
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.target_seen import PARTS, TargetSeen, image_of
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.errors import Defect, Refused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.driver import NO_DEFAULTS, CopyStore, Followed, StartStore
from slotkeeper.core.ports.kinds import Probe, StoreSession
from slotkeeper.core.ports.sink import Asked, LabelSink, QueryTarget
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.seen_beside import SeenBeside

ABSENT = TargetSeen(0, 0, "", dict.fromkeys(PARTS, ""), "", 0, 0, "")
"""The state of a target that does not exist."""


def hash_of(part: object) -> str:
    """Return the hash of a part of a table, for a record."""
    return hashlib.sha256(repr(part).encode()).hexdigest()[:12]


class Line(Protocol):
    """A session of a database driver."""

    def sever(self) -> None: ...
    def close(self) -> None: ...


L = TypeVar("L", bound=Line)


class BesideSight(ABC, Generic[L]):
    """Implements `slotkeeper.core.ports.sink.TargetSight`."""

    late = 0.0

    def __init__(self, session: L) -> None:
        self.session = session
        self.sever = session.sever

    @abstractmethod
    def seen(self, asked: Asked) -> TargetSeen:
        """Return one target's current state; `ABSENT` if it does not exist."""

    @abstractmethod
    def objections(self, job: JobSpec, identity: TableIdentity) -> list[Objection]:
        """Return the objections to a channel's target; raises Refused if it does not exist."""

    def sight(self, asked: Sequence[Asked]) -> dict[str, TargetSeen | SlotkeeperError]:
        found: dict[str, TargetSeen | SlotkeeperError] = {}
        for target in asked:
            try:
                found[target.job.channel.source_table] = self.seen(target)
            except SlotkeeperError as error:
                found[target.job.channel.source_table] = error
        return found

    def refusal(self, job: JobSpec, identity: TableIdentity) -> Refused | None:
        try:
            refuse(self.objections(job, identity), "sink")
        except Refused as refused:
            return refused
        return None


class BesideTarget(ABC, Generic[L]):
    """The target table over a session; implements `slotkeeper.core.ports.driver.Target`."""

    def __init__(self, job: JobSpec, sight: BesideSight[L], store: CopyStore | None = None) -> None:
        self._job = job
        self._name = job.channel.target
        self._session = sight.session
        self._sight = sight
        self._store = store
        self._columns: tuple[str, ...] = ()

    @abstractmethod
    def _is_empty(self) -> bool: ...

    @abstractmethod
    def _count(self) -> int:
        """Count the target's rows; raises a SlotkeeperError if the count fails."""

    def admit(self, identity: TableIdentity) -> bool:
        self._check(identity)
        return True

    def _check(self, identity: TableIdentity) -> None:
        refuse(self._sight.objections(self._job, identity), "sink")
        self._columns = tuple(column.name for column in image_of(self._job.channel, identity).columns)

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        self._check(identity)
        if self._store is not None:
            self._seen(self._store).refuse_changed(self._job, self._columns)
        return False

    def _seen(self, store: CopyStore) -> SeenBeside:
        return SeenBeside(self._sight, store.target_records())

    def takes_copy(self, identity: TableIdentity) -> bool:
        return self._is_empty()

    def count_rows(self, identity: TableIdentity) -> RowCount:
        try:
            return RowCount(self._count())
        except Unreachable:
            raise
        except SlotkeeperError as error:
            return RowCount(None, why=error.message)

    def size(self, identity: TableIdentity) -> int | None:
        return None

    def readers(self) -> str | None:
        return None

    def half_done(self, way: str) -> Refused | None:
        """Return None: chunks are written by key, so a chunk that was started can be written again."""
        return None

    def begin_copy(self, store: CopyStore, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        self._seen(store).begin_copy(self._job, self._columns, copying)
        store.begin_copy(turn, chunks, copying)

    def end_copy(self, store: CopyStore, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        self._seen(store).refuse_changed_copy(self._job, self._columns)
        self._end_copy(store, turn, noted)

    def _end_copy(self, store: CopyStore, turn: Turn, noted: Mapping[str, Position]) -> None:
        self._seen(store).end_copy(self._job, self._columns)
        store.end_copy(turn, noted)

    def follow(self, store: StartStore, followed: Followed, probe: Callable[[str], None]) -> None:
        if followed.losses:
            followed.refuse_moved(self.affected(followed.losses)[0])
        self._apply(followed.statements)
        probe("after_follow_alter")
        store.follow(followed)

    def affected(self, losses: Sequence[Loss]) -> tuple[int, tuple[str, ...]]:
        raise Refused(f"target {self._name} is of a kind that is never altered", where="sink")

    def _apply(self, statements: Sequence[str]) -> None:
        """Alter the target by statements that may have run before; raises Busy until one has taken effect."""
        if statements:
            raise Defect(f"{self._name}: this kind of target is never altered")

    def reshape(
        self, identity: TableIdentity, old: Sequence[Column] | None, defaults: Mapping[str, str] = NO_DEFAULTS
    ) -> Reshape:
        """Return the changes that a user has to make to the target."""
        return Reshape(changes(old or (), identity.columns), before=tuple(self._sight.objections(self._job, identity)))

    def alterable(self, shape: Reshape) -> None:
        """Do nothing: this target is never altered."""

    def alter(self, shape: Reshape, empties: bool) -> Sequence[str]:
        self._apply(shape.statements)
        return shape.statements


class BesideConnection(Generic[L]):
    """One session; the common part of a `slotkeeper.core.ports.kinds.BatchSession`."""

    def __init__(self, session: L) -> None:
        self._session = session

    def locks(self, prefix: str) -> None:
        """Return None, because no query reports the lock waits of these sessions."""
        return

    def labelled(self, target: QueryTarget) -> LabelSink:
        what = f"{target.name}: this kind of sink cannot write a batch exactly once"
        raise Refused(what, "write to a sink of kind postgres, dws or doris, or use a job", where="sink")

    def sever(self) -> None:
        self._session.sever()

    def close(self) -> None:
        self._session.close()


class BesideKind:
    """A sink kind without progress rows; the common part of a `slotkeeper.core.ports.kinds.SinkKind`."""

    def condition(self, channel: ChannelSpec) -> str:
        raise Defect(f"a sink of kind {self.name} has no targets of several channels")

    name: str
    no_reset = ""
    probe: Callable[[Login], Probe] | None = None
    takes: tuple[Encoding, ...] = (Encoding.ROWS,)

    def connect(self, login: Login, progress_schema: str, positions: Positions | None = None) -> StoreSession:
        raise Defect(f"a sink of kind {self.name} cannot store progress rows")
