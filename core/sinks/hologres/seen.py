"""What a Hologres tells of its targets to a check: the oid, columns with their numbers, and a bounded count of rows.

A table that is made anew, or takes another's name, has another oid in pg_class, and so has one that was resharded or
overwritten by hg_insert_overwrite. Whether TRUNCATE changes it is not said ("TRUNCATE": a DDL before V3.1, a DML
since); so an emptied table is known by having no row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import PARTS, TargetSeen, image_of
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Session
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.ports.sink import Asked
from slotkeeper.core.sinks.hologres import shape

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
LIMIT_MS = 10_000


class HologresSight:
    """Implements `slotkeeper.core.ports.sink.TargetSight`."""

    late = 0.0

    def __init__(self, session: Session) -> None:
        self._session = session

    def sight(self, asked: Sequence[Asked]) -> dict[str, TargetSeen | SlotkeeperError]:
        """What each target is now."""
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
        """Why a start would refuse the target now."""
        try:
            table = shape.read(self._session, job.channel.target)
            refuse(list(shape.objections(table, image_of(job.channel, identity), job.sink_options)), "sink")
        except Refused as refused:
            return refused
        return None

    def sever(self) -> None:
        """Cut the session off, from any thread."""
        self._session.sever()


def _hash(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
