"""The target of a job over a session: for a start, for a copy, and for the check of targets.

A replacing copy writes to a shadow table, which finally replaces the target in one statement (Doris, "REPLACE"). That
statement and the progress rows are on two servers, so a start does not continue if the target was replaced but the
replacement was not recorded.

Doris, "SHOW PARTITIONS": a table without partitions has one partition with the table's name. TRUNCATE replaces the
partitions with new ones and keeps the table's id (apache/doris #66255, InternalCatalog.truncateTableInternal), as do
INSERT OVERWRITE and REPLACE PARTITION; a recreated table, or a table that was renamed to the target's name, has its own
partitions. Loads, compaction and changed columns keep the partitions. Doris shows the table's own id to administrators
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotkeeper.core.domain.finding import Objection, refuse
from slotkeeper.core.domain.logged_change import Loss, counting
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.shape import Reshape, changes
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import PARTS, TargetSeen, image_of
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import AccessRefused, Busy, Refused
from slotkeeper.core.ports.driver import NO_DEFAULTS, CopyStore
from slotkeeper.core.ports.sink import Asked
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.beside import ABSENT, BesideSight, BesideTarget, hash_of
from slotkeeper.core.sinks.doris import shape
from slotkeeper.core.sinks.doris.encode import backquoted
from slotkeeper.core.sinks.doris.shape import quoted

LATE_SECONDS = 60.0
"""Seconds for which a committed load can be invisible (Doris, "Stream Load": Publish Timeout)."""


class DorisSight(BesideSight[MysqlQueries]):
    """Implements `slotkeeper.core.ports.sink.TargetSight`."""

    late = LATE_SECONDS

    def seen(self, asked: Asked) -> TargetSeen:
        target, since = asked.job.channel.target, asked.since
        try:
            table = shape.read(self.session, target)
        except Refused:
            return ABSENT
        limited = f"SELECT count(*) FROM (SELECT 1 FROM {part_of(asked.job)} LIMIT {asked.most}) l"
        rows = int(self.session.rows(limited)[0][0])
        ids = partitions(self.session, target)
        oid = min(ids, default=1)
        known = map(int, since.snapshot.split(",")) if since is not None and since.snapshot else ()
        if since is not None and since.oid and (not ids or not since.snapshot or not ids.isdisjoint(known)):
            oid = since.oid  # a recorded partition still exists, or no change is visible
        parts = dict.fromkeys(PARTS, "") | {
            "columns": hash_of([(one.name, one.type, one.nullable) for one in table.columns]),
            "indexes": hash_of(table.key),
            "storage": hash_of((table.model, table.signed, table.sequence, table.mapped)),
        }
        kept = ",".join(map(str, sorted(ids))) or (since.snapshot if since is not None else "")
        return TargetSeen(0, oid, "", parts, "", rows, 0, kept)

    def objections(self, job: JobSpec, identity: TableIdentity) -> list[Objection]:
        return list(shape.objections(shape.read(self.session, job.channel.target), image_of(job.channel, identity)))


def part_of(job: JobSpec) -> str:
    """Return the rows that a job's channel writes, for FROM: the target, or the part with its constant."""
    one = job.channel.constant
    return quoted(job.channel.target) + (f" WHERE {shape.condition(one)}" if one is not None else "")


def partitions(queries: MysqlQueries, target: str) -> frozenset[int]:
    """Return a table's partition ids; none if this login cannot see them ("SHOW PARTITIONS": the SHOW permission)."""
    try:
        return frozenset(int(row[0]) for row in queries.rows(f"SHOW PARTITIONS FROM {quoted(target)}"))
    except AccessRefused:
        return frozenset()


_IN_PROGRESS = ("PENDING", "WAITING_TXN", "RUNNING")
"""States of a change of columns (Doris, "SHOW ALTER TABLE"); a light one is FINISHED at once."""
SHADOW = "shadow"
"""The mode of a copy into a shadow table."""


class DorisTarget(BesideTarget[MysqlQueries]):
    """The target table, created on request; a replacing copy uses a shadow table."""

    def admit(self, identity: TableIdentity) -> bool:
        if self._job.channel.create_target and not self._is_there(self._name):
            refuse(list(shape.unmakeable(self._name, image_of(self._job.channel, identity))), "sink")
            return False
        return super().admit(identity)

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        made = False
        if not self._is_there(self._name):
            if not makes:
                raise Refused(f"target {self._name} does not exist: take a new snapshot", self._snapshot, where="sink")
            made = self._job.channel.create_target
        if made:
            image = image_of(self._job.channel, identity)
            refuse(list(shape.unmakeable(self._name, image)), "sink")
            self._session.rows(shape.statement(self._name, image))
        return super().ready(identity, makes) or made

    def _is_there(self, name: str) -> bool:
        database, _, table = name.partition(".")
        asked = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        return bool(self._session.rows(asked, (database, table)))

    @property
    def _snapshot(self) -> str:
        return f"`slotkeeper slots reset {typed(self._job.channel.source_table, self._job.slot)} --to snapshot`"

    def reshape(
        self, identity: TableIdentity, old: Sequence[Column] | None, defaults: Mapping[str, str] = NO_DEFAULTS
    ) -> Reshape:
        channel, found = self._job.channel, changes(old, identity.columns) if old is not None else ()
        table = shape.read(self._session, self._name)
        return shape.reshaped(table, image_of(channel, identity), found, bool(channel.columns), defaults)

    def alterable(self, shape: Reshape) -> None:
        """Raise Busy while an earlier ALTER is running: Doris runs one at a time for a table."""
        if shape.statements and self._altering():
            raise Busy(f"target {self._name} is being altered", where="sink")

    def affected(self, losses: Sequence[Loss]) -> tuple[int, tuple[str, ...]]:
        """Return rows and statements; Doris, "UPDATE": of a UNIQUE table, value columns can be updated."""
        there = shape.read(self._session, self._name)
        left = [one for one in losses if there.column(one.column) is not None]
        if not left:
            return 0, ()
        name = quoted(self._name)
        found = int(self._session.rows(counting(left, name, backquoted))[0][0])
        return found, tuple(one.update(name, backquoted) for one in left if found and one.value)

    def _altering(self) -> bool:
        database, _, table = self._name.partition(".")
        literal = table.replace("\\", "\\\\").replace('"', '\\"')
        last = "ORDER BY CreateTime DESC LIMIT 1"
        asked = f'SHOW ALTER TABLE COLUMN FROM {quoted(database)} WHERE TableName = "{literal}" {last}'
        return any(str(row.get("State", "")).upper() in _IN_PROGRESS for row in self._session.records(asked))

    def _apply(self, statements: Sequence[str]) -> None:
        for statement in statements:
            self._session.rows(statement)
            if self._altering():  # the driver tries again in a few seconds, and computes what is left
                raise Busy(f"target {self._name}: Doris carries out `{statement}`", where="sink")

    def takes_copy(self, identity: TableIdentity) -> bool:
        return not self._is_there(self._name) or self._is_empty()

    def _is_empty(self) -> bool:
        return not self._session.rows(f"SELECT 1 FROM {part_of(self._job)} LIMIT 1")

    def _count(self) -> int:
        if not self._is_there(self._name):
            return 0
        return int(self._session.rows(f"SELECT count(*) FROM {part_of(self._job)}")[0][0])

    def copying(self, on_existing: str = "") -> str:
        wanted = on_existing or self._job.on_existing
        if self._is_empty():
            return "direct"
        if wanted == "merge":
            # copied rows have the lowest sequence, so existing rows would silently take precedence over them
            if shape.read(self._session, self._name).sequence:
                what = f"{self._name} has rows and a sequence column: copied rows would not replace them"
                raise Refused(what, 'set on_existing = "replace", or empty it', where="sink")
            return "merge"
        one = self._job.channel.constant
        if wanted == "replace" and one is not None:
            # a DELETE is not fenced by the progress rows, which are on another server
            deletes = f"DELETE FROM {quoted(self._name)} WHERE {shape.condition(one)}"
            what = f"target {self._job.channel.place} is not empty, and the other tables' rows prevent an exchange"
            raise Refused(what, f'run {deletes}, or set on_existing = "merge"', where="sink")
        if wanted == "replace":
            return SHADOW
        raise Refused(
            f"target {self._job.channel.place} is not empty",
            'set on_existing = "replace" or "merge", or empty it; if this job ran before, its progress rows are lost',
            where="sink",
        )

    def half_done(self, way: str) -> Refused | None:
        """Return why an unfinished copy in mode `way` cannot continue; chunks can be written again, by key."""
        if not way:
            what = f"unknown mode of the unfinished copy into {self._name}"
        elif way == SHADOW and not self._is_there(shape.shadow_of(self._name)):
            what = f"the shadow table of {self._name} does not exist: it has replaced the target, or was dropped"
        else:
            return None
        return Refused(what, self._snapshot, where="sink")

    def begin_copy(self, store: CopyStore, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        """Record the plan and the mode; drop an earlier copy's shadow table, and create one for a replacing copy."""
        shadow = shape.shadow_of(self._name)
        if self._job.channel.constant is None and (copying == SHADOW or self._is_there(shadow)):
            self._session.rows(f"DROP TABLE IF EXISTS {quoted(shadow)} FORCE")
        if copying == SHADOW:
            self._session.rows(f"CREATE TABLE {quoted(shadow)} LIKE {quoted(self._name)}")
        super().begin_copy(store, turn, chunks, copying)

    def end_copy(self, store: CopyStore, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        """Replace the target with the shadow, then set the lanes' states; raises if a chunk is unfinished."""
        if copying != SHADOW:
            super().end_copy(store, turn, noted, copying)
            return
        if store.chunks_left():
            raise Refused(f"the copy into {self._name} is unfinished", self._snapshot, where="sink")
        shadow = quoted(shape.shadow_of(self._name)).partition(".")[2]
        target = quoted(self._name)
        self._session.rows(f"ALTER TABLE {target} REPLACE WITH TABLE {shadow} PROPERTIES ('swap' = 'false')")
        self._end_copy(store, turn, noted)
