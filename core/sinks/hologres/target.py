"""The target as a start sees it: refused by name where it cannot be mirrored into, and the way in which a copy goes in.

Nothing is made or altered here: distribution, storage and table group of a Hologres table are a person's choice. Next
door: `shape.py` has the rules; `kind.py` opens this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotkeeper.core.domain.finding import Objection, refuse
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape, changes
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Session
from slotkeeper.core.errors import Refused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.driver import Store
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.hologres import shape
from slotkeeper.core.sinks.hologres.seen import HologresSight
from slotkeeper.core.sinks.hologres.shape import HologresTable
from slotkeeper.core.sinks.seen_beside import SeenBeside
from slotkeeper.core.sqltext import dotted

SQL, Identifier = pg.sql.SQL, pg.sql.Identifier
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
        """Refuse by name what cannot hold the source."""
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
        """Whether it has no row."""
        return self._empty()

    def _empty(self) -> bool:
        return not self._session.composed_rows(SQL("SELECT 1 FROM {} LIMIT 1").format(self._spelled), None)

    def count_rows(self, identity: TableIdentity) -> RowCount:
        """The target's rows; unknown where it cannot be asked."""
        try:
            counted = SQL("SELECT count(*) FROM {}").format(self._spelled)
            return RowCount(int(self._session.composed_rows(counted, None, COUNT_MS)[0][0]))
        except Unreachable:
            raise
        except SlotkeeperError as error:
            return RowCount(None, why=error.message)

    def copying(self, on_existing: str = "") -> str:
        """How chunks go in."""
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
        """Record the plan and the way."""
        self._seen(store).begin_copy(self._job, self._columns, copying)
        store.begin_copy(turn, chunks, copying)

    def end_copy(self, store: Store, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        """Turn the lanes."""
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
