"""The target of a job over a session: for a start, for a copy, and for the check of targets.

This module creates and alters nothing: distribution, storage and table group of a Hologres table are the
administrator's choice. A recreated table, a table that was renamed to the target's name, and a table that was resharded
or overwritten by hg_insert_overwrite have another oid in pg_class. Whether TRUNCATE changes the oid is not documented
("TRUNCATE": a DDL before V3.1, a DML since), so an emptied table is recognized by its lack of rows.
"""

from __future__ import annotations

from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import PARTS, TargetSeen, image_of
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Rows, Session
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.sink import Asked
from slotkeeper.core.sinks.beside import ABSENT, BesideSight, BesideTarget, hash_of
from slotkeeper.core.sinks.hologres import shape
from slotkeeper.core.sqltext import dotted

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
LIMIT_MS = 10_000
COUNT_MS = 5_000
"""Time limit, in milliseconds, of a count for which a screen waits."""


class HologresSight(BesideSight[Session]):
    """Implements `slotkeeper.core.ports.sink.TargetSight`."""

    def seen(self, asked: Asked) -> TargetSeen:
        target = asked.job.channel.target
        try:
            table = shape.read(self.session, target)
        except Refused:
            return ABSENT
        limited = SQL("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {}) l")
        counted = limited.format(Identifier(*target.split(".", 1)), Literal(asked.most))
        rows = int(self.session.composed_rows(counted, None, LIMIT_MS)[0][0])
        parts = dict.fromkeys(PARTS, "") | {
            "columns": hash_of(table.columns),
            "indexes": hash_of((table.key, table.others)),
            "storage": hash_of(table.kind),
        }
        places = hash_of(sorted((it.name, it.number) for it in table.columns if it.name in asked.columns))
        return TargetSeen(0, table.oid, "", parts, places, rows, 0, "")

    def objections(self, job: JobSpec, identity: TableIdentity) -> list[Objection]:
        table = shape.read(self.session, job.channel.target)
        return list(shape.objections(table, image_of(job.channel, identity), job.sink_options))


class HologresTarget(BesideTarget[Session]):
    """The target table, which this module never creates or alters."""

    def _is_empty(self) -> bool:
        return not self._asked("SELECT 1 FROM {} LIMIT 1")

    def _count(self) -> int:
        return int(self._asked("SELECT count(*) FROM {}", COUNT_MS)[0][0])

    def _asked(self, statement: str, limit_ms: int | None = None) -> Rows:
        named = SQL(statement).format(Identifier(*self._name.split(".", 1)))
        return self._session.composed_rows(named, None, limit_ms)

    def copying(self, on_existing: str = "") -> str:
        wanted = on_existing or self._job.on_existing
        if wanted == "merge":
            return "merge"
        if self._is_empty():
            return "direct"
        if wanted == "replace":
            what = f'target {self._name} is not empty; on_existing = "replace" is not supported for Hologres'
            raise Refused(what, f"TRUNCATE TABLE {dotted(self._name)}, and start the job again", where="sink")
        raise Refused(
            f"target {self._name} is not empty",
            'set on_existing = "merge", or empty it; if this job ran before, its progress rows are lost',
            where="sink",
        )
