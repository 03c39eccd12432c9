"""The target as a start sees it: made on request, refused by name where it cannot be mirrored into; how a copy goes in.

A copy that replaces goes into a table beside the target, which takes the target's place at its end in one statement
(Doris, "REPLACE"); that statement and the progress rows are of two servers, so a start that finds it done, and not
noted, refuses to go on.
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
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import Refused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.driver import Store
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.doris import making, shape
from slotkeeper.core.sinks.doris.seen import DorisSight
from slotkeeper.core.sinks.doris.shape import DorisTable, quoted
from slotkeeper.core.sinks.seen_beside import SeenBeside

SHADOW = "shadow"
"""The way of a copy that goes into a table beside the target."""


class DorisTarget:
    """The target table over a session; implements `slotkeeper.core.ports.driver.Target`."""

    def __init__(self, job: JobSpec, queries: MysqlQueries, store: Store | None = None) -> None:
        self._job = job
        self._queries = queries
        self._store = store
        self._columns: tuple[str, ...] = ()

    @property
    def _name(self) -> str:
        return self._job.channel.target

    def admit(self, identity: TableIdentity) -> bool:
        """Refuse by name what cannot hold the source, or cannot be made; makes nothing. Whether the table is there."""
        if self._job.channel.create_target and not self._there(self._name):
            refuse(list(making.unmakeable(self._name, image_of(self._job.channel, identity))), "sink")
            return False
        self._checked(identity)
        return True

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        """Make it on request where `makes`, and refuse by name what cannot hold the source; whether it was made."""
        there = self._there(self._name)
        if not makes and not there:
            raise Refused(f"target {self._name} is gone: take a new snapshot", self._snapshot, where="sink")
        made = makes and not there and self._job.channel.create_target
        if made:
            image = image_of(self._job.channel, identity)
            refuse(list(making.unmakeable(self._name, image)), "sink")
            self._queries.rows(making.statement(self._name, image))
        self._checked(identity)
        if self._store is not None:
            self._seen(self._store).refuse_changed(self._job, self._columns)
        return made

    def _seen(self, store: Store) -> SeenBeside:
        return SeenBeside(DorisSight(self._queries), store.target_records())

    def _there(self, name: str) -> bool:
        database, _, table = name.partition(".")
        asked = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        return bool(self._queries.rows(asked, (database, table)))

    @property
    def _snapshot(self) -> str:
        return f"`slotkeeper slots reset {typed(self._job.channel.source_table, self._job.slot)} --to snapshot`"

    def _checked(self, identity: TableIdentity) -> DorisTable:
        table, image = shape.read(self._queries, self._name), image_of(self._job.channel, identity)
        self._columns = tuple(column.name for column in image.columns)
        refuse(list(shape.objections(table, image)), "sink")
        return table

    def takes_copy(self, identity: TableIdentity) -> bool:
        """Whether a copy can go in as it is: there is no such table yet, or it has no row."""
        return not self._there(self._name) or self._empty()

    def _empty(self) -> bool:
        return not self._queries.rows(f"SELECT 1 FROM {quoted(self._name)} LIMIT 1")

    def count_rows(self, identity: TableIdentity) -> RowCount:
        """The target's rows, none where it is not there; unknown where it cannot be asked."""
        try:
            if not self._there(self._name):
                return RowCount(0)
            return RowCount(int(self._queries.rows(f"SELECT count(*) FROM {quoted(self._name)}")[0][0]))
        except Unreachable:
            raise
        except SlotkeeperError as error:
            return RowCount(None, why=error.message)

    def copying(self, on_existing: str = "") -> str:
        """How chunks go in."""
        wanted = on_existing or self._job.on_existing
        if self._empty():
            return "direct"
        if wanted == "merge":
            self._refuse_merge()
            return "merge"
        if wanted == "replace":
            return SHADOW
        raise Refused(
            f"target {self._name} is not empty",
            'set on_existing = "replace" or "merge", or empty it; if this job ran before, its progress rows are lost',
            where="sink",
        )

    def _refuse_merge(self) -> None:
        """Copied rows have the lowest order: those that are there would stand over them, without a word."""
        if shape.read(self._queries, self._name).sequence:
            what = f"{self._name} has rows and a sequence column: copied rows would not replace them"
            raise Refused(what, 'set on_existing = "replace", or empty it', where="sink")

    def half_done(self, way: str) -> Refused | None:
        """Why a half-done copy whose chunks go in by `way` cannot go on; a chunk may be written again, by key."""
        if not way:
            what = f"how the half-done copy into {self._name} goes in is not recorded: it is not guessed"
        elif way == SHADOW and not self._there(making.shadow_of(self._name)):
            what = f"the table beside {self._name} is gone: the copy in it has taken the target's place, or was dropped"
        else:
            return None
        return Refused(what, self._snapshot, where="sink")

    def begin_copy(self, store: Store, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        """Record the plan and the way; what an earlier copy left is dropped, and a replacing one gets its table."""
        shadow = making.shadow_of(self._name)
        if copying == SHADOW or self._there(shadow):
            self._queries.rows(f"DROP TABLE IF EXISTS {quoted(shadow)} FORCE")
        if copying == SHADOW:
            self._queries.rows(f"CREATE TABLE {quoted(shadow)} LIKE {quoted(self._name)}")
        self._seen(store).begin_copy(self._job, self._columns, copying)
        store.begin_copy(turn, chunks, copying)

    def end_copy(self, store: Store, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        """Put a replacing copy in the target's place, then turn the lanes; refuse where a chunk is not done."""
        if copying == SHADOW:
            if store.chunks_left():
                raise Refused(f"the copy into {self._name} is not done", self._snapshot, where="sink")
            shadow = quoted(making.shadow_of(self._name)).partition(".")[2]
            self._queries.rows(
                f"ALTER TABLE {quoted(self._name)} REPLACE WITH TABLE {shadow} PROPERTIES ('swap' = 'false')"
            )
        else:
            self._seen(store).refuse_changed_copy(self._job, self._columns)
        self._seen(store).end_copy(self._job, self._columns)
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
