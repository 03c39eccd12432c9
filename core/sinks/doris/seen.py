"""What a Doris tells of its targets to a check: partitions' ids, columns, and a bounded count of rows.

Doris, "SHOW PARTITIONS": a table without partitions has one, of its own name. TRUNCATE puts new partitions in the place
of the old ones and keeps the table's id (apache/doris #66255, InternalCatalog.truncateTableInternal), so do INSERT
OVERWRITE and REPLACE PARTITION; a table that is made anew, or takes another's name, brings its own. Loads,
compaction and changed columns keep them. The table's own id is shown to nobody but an administrator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import PARTS, TargetSeen, image_of
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import AccessRefused, Refused, SlotkeeperError
from slotkeeper.core.ports.sink import Asked
from slotkeeper.core.sinks.doris import shape
from slotkeeper.core.sinks.doris.shape import quoted

LATE_SECONDS = 60.0
"""For so long a committed load may not be seen yet (Doris, "Stream Load": Publish Timeout)."""


class DorisSight:
    """Implements `slotkeeper.core.ports.sink.TargetSight`."""

    late = LATE_SECONDS

    def __init__(self, queries: MysqlQueries) -> None:
        self._queries = queries

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
        if since is not None and since.oid and (not ids or not since.snapshot or ids & _known(since)):
            oid = since.oid  # one of the recorded partitions is here, or nothing tells
        parts = {
            "columns": [(one.name, one.type, one.nullable) for one in table.columns],
            "indexes": table.key,
            "storage": (table.model, table.signed, table.sequence, table.mapped),
        }
        kept = ",".join(map(str, sorted(ids))) or (since.snapshot if since is not None else "")
        hashes = {part: _hash(parts[part]) if part in parts else "" for part in PARTS}
        return TargetSeen(0, oid, "", hashes, "", rows, 0, kept)

    def refusal(self, job: JobSpec, identity: TableIdentity) -> Refused | None:
        """Why a start would refuse the target now."""
        try:
            table = shape.read(self._queries, job.channel.target)
            refuse(list(shape.objections(table, image_of(job.channel, identity))), "sink")
        except Refused as refused:
            return refused
        return None

    def sever(self) -> None:
        """Cut the session off, from any thread."""
        self._queries.sever()


def partitions(queries: MysqlQueries, target: str) -> frozenset[int]:
    """The ids of a table's partitions; none where this login is not told ("SHOW PARTITIONS": the SHOW permission)."""
    try:
        return frozenset(int(row[0]) for row in queries.rows(f"SHOW PARTITIONS FROM {quoted(target)}"))
    except AccessRefused:
        return frozenset()


def _known(since: TargetSeen) -> frozenset[int]:
    return frozenset(map(int, since.snapshot.split(",")))


def _hash(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
