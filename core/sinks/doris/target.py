"""The target of a job over a session: as a start sees it, how a copy goes in, and what a check of targets reads of it.

A copy that replaces goes into a table beside the target, which takes the target's place at its end in one statement
(Doris, "REPLACE"); that statement and the progress rows are of two servers, so a start that finds it done, and not
noted, refuses to continue.
Doris, "SHOW PARTITIONS": a table without partitions has one, of its own name. TRUNCATE puts new partitions in the place
of the old ones and keeps the table's id (apache/doris #66255, InternalCatalog.truncateTableInternal), so do INSERT
OVERWRITE and REPLACE PARTITION; a table that is made again, or takes another's name, brings its own. Loads,
compaction and changed columns keep them. Doris shows the table's own id to administrators only.
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
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import AccessRefused, Refused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.driver import Store
from slotkeeper.core.ports.sink import Asked
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.doris import shape
from slotkeeper.core.sinks.doris.shape import DorisTable, quoted
from slotkeeper.core.sinks.seen_beside import SeenBeside

LATE_SECONDS = 60.0
"""For so long a committed load may not be seen yet (Doris, "Stream Load": Publish Timeout)."""


class DorisSight:
    """Implements `slotkeeper.core.ports.sink.TargetSight`."""

    late = LATE_SECONDS

    def __init__(self, queries: MysqlQueries) -> None:
        self._queries = queries

    def sight(self, asked: Sequence[Asked]) -> dict[str, TargetSeen | SlotkeeperError]:
        found: dict[str, TargetSeen | SlotkeeperError] = {}
        for one in asked:
            try:
                found[one.job.channel.source_table] = self._seen(one)
            except SlotkeeperError as error:
                found[one.job.channel.source_table] = error
        return found

    def _seen(self, one: Asked) -> TargetSeen:
        target, since = one.job.channel.target, one.since
        try:
            table = shape.read(self._queries, target)
        except Refused:
            return TargetSeen(0, 0, "", dict.fromkeys(PARTS, ""), "", 0, 0, "")
        limited = f"SELECT count(*) FROM (SELECT 1 FROM {quoted(target)} LIMIT {one.most}) l"
        rows = int(self._queries.rows(limited)[0][0])
        ids, oid = partitions(self._queries, target), 1
        if ids:
            oid = min(ids)
        known = map(int, since.snapshot.split(",")) if since is not None and since.snapshot else ()
        if since is not None and since.oid and (not ids or not since.snapshot or not ids.isdisjoint(known)):
            oid = since.oid  # one of the recorded partitions is here, or nothing tells
        parts = {
            "columns": [(one.name, one.type, one.nullable) for one in table.columns],
            "indexes": table.key,
            "storage": (table.model, table.signed, table.sequence, table.mapped),
        }
        kept = ",".join(map(str, sorted(ids))) or (since.snapshot if since is not None else "")
        hashes = {
            part: hashlib.sha256(repr(parts[part]).encode()).hexdigest()[:12] if part in parts else "" for part in PARTS
        }
        return TargetSeen(0, oid, "", hashes, "", rows, 0, kept)

    def refusal(self, job: JobSpec, identity: TableIdentity) -> Refused | None:
        try:
            table = shape.read(self._queries, job.channel.target)
            refuse(list(shape.objections(table, image_of(job.channel, identity))), "sink")
        except Refused as refused:
            return refused
        return None

    def sever(self) -> None:
        self._queries.sever()


def partitions(queries: MysqlQueries, target: str) -> frozenset[int]:
    """The ids of a table's partitions; none where this login is not told ("SHOW PARTITIONS": the SHOW permission)."""
    try:
        return frozenset(int(row[0]) for row in queries.rows(f"SHOW PARTITIONS FROM {quoted(target)}"))
    except AccessRefused:
        return frozenset()


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
        if self._job.channel.create_target and not self._there(self._name):
            refuse(list(shape.unmakeable(self._name, image_of(self._job.channel, identity))), "sink")
            return False
        self._checked(identity)
        return True

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        there = self._there(self._name)
        if not makes and not there:
            raise Refused(f"target {self._name} is gone: take a new snapshot", self._snapshot, where="sink")
        made = makes and not there and self._job.channel.create_target
        if made:
            image = image_of(self._job.channel, identity)
            refuse(list(shape.unmakeable(self._name, image)), "sink")
            self._queries.rows(shape.statement(self._name, image))
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
        return not self._there(self._name) or self._empty()

    def _empty(self) -> bool:
        return not self._queries.rows(f"SELECT 1 FROM {quoted(self._name)} LIMIT 1")

    def count_rows(self, identity: TableIdentity) -> RowCount:
        try:
            if not self._there(self._name):
                return RowCount(0)
            return RowCount(int(self._queries.rows(f"SELECT count(*) FROM {quoted(self._name)}")[0][0]))
        except Unreachable:
            raise
        except SlotkeeperError as error:
            return RowCount(None, why=error.message)

    def copying(self, on_existing: str = "") -> str:
        wanted = on_existing or self._job.on_existing
        if self._empty():
            return "direct"
        if wanted == "merge":
            # copied rows have the lowest order: those that are there would stand over them, without a word
            if shape.read(self._queries, self._name).sequence:
                what = f"{self._name} has rows and a sequence column: copied rows would not replace them"
                raise Refused(what, 'set on_existing = "replace", or empty it', where="sink")
            return "merge"
        if wanted == "replace":
            return SHADOW
        raise Refused(
            f"target {self._name} is not empty",
            'set on_existing = "replace" or "merge", or empty it; if this job ran before, its progress rows are lost',
            where="sink",
        )

    def half_done(self, way: str) -> Refused | None:
        """Why a half-done copy whose chunks go in by `way` cannot go on; a chunk may be written again, by key."""
        if not way:
            what = f"how the half-done copy into {self._name} goes in is not recorded: it is not guessed"
        elif way == SHADOW and not self._there(shape.shadow_of(self._name)):
            what = f"the table beside {self._name} is gone: the copy in it has taken the target's place, or was dropped"
        else:
            return None
        return Refused(what, self._snapshot, where="sink")

    def begin_copy(self, store: Store, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        """Record the plan and the way; what an earlier copy left is dropped, and a replacing one gets its table."""
        shadow = shape.shadow_of(self._name)
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
            shadow = quoted(shape.shadow_of(self._name)).partition(".")[2]
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
