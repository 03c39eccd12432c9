"""The target of a job over a session: as a start sees it, how a copy goes in, and what a check of targets reads of it.

Nothing is made or altered here: distribution, storage and table group of a Hologres table are a person's choice.
A table that is made again, or takes another's name, has another oid in pg_class, and so has one that was resharded or
overwritten by hg_insert_overwrite. Whether TRUNCATE changes it is not documented ("TRUNCATE": a DDL before V3.1, a DML
since); so an emptied table is known by having no row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from slotkeeper.core.domain.finding import Objection, refuse
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape, changes
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import PARTS, TargetSeen, image_of
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Session
from slotkeeper.core.errors import Refused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.driver import Store
from slotkeeper.core.ports.sink import Asked
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.hologres import shape
from slotkeeper.core.sinks.hologres.shape import HologresTable
from slotkeeper.core.sinks.seen_beside import SeenBeside
from slotkeeper.core.sqltext import dotted

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
LIMIT_MS = 10_000


class HologresSight:
    """Implements `slotkeeper.core.ports.sink.TargetSight`."""

    late = 0.0

    def __init__(self, session: Session) -> None:
        self._session = session

    def sight(self, asked: Sequence[Asked]) -> dict[str, TargetSeen | SlotkeeperError]:
        found: dict[str, TargetSeen | SlotkeeperError] = {}
        for one in asked:
            try:
                found[one.job.channel.source_table] = self._seen(one)
            except SlotkeeperError as error:
                found[one.job.channel.source_table] = error
        return found

    def _seen(self, one: Asked) -> TargetSeen:
        target = one.job.channel.target
        try:
            table = shape.read(self._session, target)
        except Refused:
            return TargetSeen(0, 0, "", dict.fromkeys(PARTS, ""), "", 0, 0, "")
        limited = SQL("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {}) l")
        counted = limited.format(Identifier(*target.split(".", 1)), Literal(one.most))
        rows = int(self._session.composed_rows(counted, None, LIMIT_MS)[0][0])
        parts = {"columns": table.columns, "indexes": (table.key, table.others), "storage": table.kind}
        hashes = {part: _hash(parts[part]) if part in parts else "" for part in PARTS}
        places = _hash(sorted((it.name, it.number) for it in table.columns if it.name in one.columns))
        return TargetSeen(0, table.oid, "", hashes, places, rows, 0, "")

    def refusal(self, job: JobSpec, identity: TableIdentity) -> Refused | None:
        try:
            table = shape.read(self._session, job.channel.target)
            refuse(list(shape.objections(table, image_of(job.channel, identity), job.sink_options)), "sink")
        except Refused as refused:
            return refused
        return None

    def sever(self) -> None:
        self._session.sever()


def _hash(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


COUNT_MS = 5_000
"""For a count that somebody waits for."""


class HologresTarget:
    """The target table over a session; implements `slotkeeper.core.ports.driver.Target`."""

    def __init__(self, job: JobSpec, session: Session, store: Store | None = None) -> None:
        self._job = job
        self._session = session
        self._store = store
        self._columns: tuple[str, ...] = ()

    @property
    def _name(self) -> str:
        return self._job.channel.target

    @property
    def _spelled(self) -> pg.sql.Composable:
        return Identifier(*self._name.split(".", 1))

    def admit(self, identity: TableIdentity) -> bool:
        self._checked(identity)
        return True

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        """The same; nothing is made."""
        self._checked(identity)
        if self._store is not None:
            self._seen(self._store).refuse_changed(self._job, self._columns)
        return False

    def _seen(self, store: Store) -> SeenBeside:
        return SeenBeside(HologresSight(self._session), store.target_records())

    def _checked(self, identity: TableIdentity) -> HologresTable:
        table, image = shape.read(self._session, self._name), image_of(self._job.channel, identity)
        self._columns = tuple(column.name for column in image.columns)
        refuse(list(shape.objections(table, image, self._job.sink_options)), "sink")
        return table

    def takes_copy(self, identity: TableIdentity) -> bool:
        return self._empty()

    def _empty(self) -> bool:
        return not self._session.composed_rows(SQL("SELECT 1 FROM {} LIMIT 1").format(self._spelled), None)

    def count_rows(self, identity: TableIdentity) -> RowCount:
        try:
            counted = SQL("SELECT count(*) FROM {}").format(self._spelled)
            return RowCount(int(self._session.composed_rows(counted, None, COUNT_MS)[0][0]))
        except Unreachable:
            raise
        except SlotkeeperError as error:
            return RowCount(None, why=error.message)

    def copying(self, on_existing: str = "") -> str:
        wanted = on_existing or self._job.on_existing
        if wanted == "merge":
            return "merge"
        if self._empty():
            return "direct"
        if wanted == "replace":
            what = f'target {self._name} is not empty, and on_existing = "replace" is not built for a Hologres'
            raise Refused(what, f"TRUNCATE TABLE {dotted(self._name)}, and start again", where="sink")
        raise Refused(
            f"target {self._name} is not empty",
            'set on_existing = "merge", or empty it; if this job ran before, its progress rows are lost',
            where="sink",
        )

    def half_done(self, way: str) -> Refused | None:
        """Chunks are written by key, so one that was begun may be written again."""
        return None

    def begin_copy(self, store: Store, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        self._seen(store).begin_copy(self._job, self._columns, copying)
        store.begin_copy(turn, chunks, copying)

    def end_copy(self, store: Store, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        self._seen(store).refuse_changed_copy(self._job, self._columns)
        self._seen(store).end_copy(self._job, self._columns)
        store.end_copy(turn, noted)

    def reshape(self, identity: TableIdentity, old: Sequence[Column] | None) -> Reshape:
        """What is to be changed at the target by a person."""
        table, image = shape.read(self._session, self._name), image_of(self._job.channel, identity)
        found = shape.objections(table, image, self._job.sink_options)
        cures = tuple(Objection(one.what, one.cure) for one in found)
        return Reshape(changes(old or (), identity.columns), before=cures)

    def alterable(self, shape: Reshape) -> None:
        """Nothing is altered."""

    def alter(self, shape: Reshape, empties: bool) -> Sequence[str]:
        """There is never a statement to run."""
        return ()
