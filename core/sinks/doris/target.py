"""The target as a start sees it: refused by name where it cannot be mirrored into, and the way in which a copy goes in.

Nothing is made or altered here: a Doris table has buckets, replicas and a model, which a person chooses. Next door:
`shape.py` has the rules; `kind.py` opens this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.domain.image import image_of
from core.domain.objection import Objection, refuse
from core.domain.position import Position
from core.domain.row_counts import RowCount
from core.domain.shape import Reshape, changes
from core.domain.slot import Column, TableIdentity
from core.domain.spec import JobSpec
from core.domain.turn import Turn
from core.drivers.mysql_queries import MysqlQueries
from core.errors import Refused, SlotkeeperError, Unreachable
from core.ports.progress import Store
from core.ports.source import Chunk
from core.sinks.doris import shape
from core.sinks.doris.shape import DorisTable, quoted


class DorisTarget:
    """The target table over a session; implements `core.ports.driver.Target`."""

    def __init__(self, job: JobSpec, queries: MysqlQueries) -> None:
        self._job = job
        self._queries = queries

    @property
    def _name(self) -> str:
        return self._job.channel.target

    def admit(self, identity: TableIdentity) -> bool:
        """Refuse by name what cannot hold the source."""
        self._checked(identity)
        return True

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        """The same; nothing is made."""
        self._checked(identity)
        return False

    def _checked(self, identity: TableIdentity) -> DorisTable:
        table, image = shape.read(self._queries, self._name), image_of(self._job.channel, identity)
        refuse(list(shape.objections(table, image)), "sink")
        return table

    def takes_copy(self, identity: TableIdentity) -> bool:
        """Whether it has no row."""
        return self._empty()

    def _empty(self) -> bool:
        return not self._queries.rows(f"SELECT 1 FROM {quoted(self._name)} LIMIT 1")

    def count_rows(self, identity: TableIdentity) -> RowCount:
        """The target's rows; unknown where it cannot be asked."""
        try:
            return RowCount(int(self._queries.rows(f"SELECT count(*) FROM {quoted(self._name)}")[0][0]))
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
            what = f'target {self._name} is not empty, and on_existing = "replace" is not built for a Doris'
            raise Refused(what, f"TRUNCATE TABLE {quoted(self._name)}, and start again", where="sink")
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
        store.begin_copy(turn, chunks, copying)

    def end_copy(self, store: Store, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        """Turn the lanes."""
        store.end_copy(turn, noted)

    def reshape(self, identity: TableIdentity, old: Sequence[Column] | None) -> Reshape:
        """What is to be changed at the target by a person."""
        table, image = shape.read(self._queries, self._name), image_of(self._job.channel, identity)
        cures = tuple(Objection(one.what, one.cure) for one in shape.objections(table, image))
        return Reshape(changes(old or (), identity.columns), before=cures)

    def alterable(self, shape: Reshape) -> None:
        """Nothing is altered."""

    def alter(self, shape: Reshape, empties: bool) -> Sequence[str]:
        """There is never a statement to run."""
        return ()
