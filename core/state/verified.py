"""What `slotkeeper verify` found, per job: a target is called equal only with the time of the comparison beside it."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timezone

from slotkeeper.core.domain.row_counts import VOID, Verified
from slotkeeper.core.domain.text import safe
from slotkeeper.core.state.sqlite import Store

KEPT = 50


def record(store: Store, found: Verified) -> bool:
    """Keep what a comparison found; the oldest beyond the newest fifty of a job are dropped.

    False, and nothing is kept, where a reset came while it was compared: what it read is of before.
    """
    with store.write() as sql:
        since = found.at.timestamp() - found.seconds
        void = "SELECT 1 FROM verifies WHERE job = ? AND verdict = ? AND at >= ?"
        if not found.is_void and sql.execute(void, (found.job, VOID, since)).fetchone():
            return False
        sql.execute(
            "INSERT INTO verifies (job, at, verdict, differences, unsettled, quarantined, rows_source, rows_sink,"
            " seconds, by_whom) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                found.job, found.at.timestamp(), found.verdict, found.differences, found.unsettled, found.quarantined,
                found.rows_source, found.rows_sink, found.seconds, safe(found.by_whom, 120),
            ),
        )  # fmt: skip
        sql.execute(
            "DELETE FROM verifies WHERE job = ?1 AND id <= (SELECT id FROM verifies WHERE job = ?1"
            " ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            (found.job, KEPT),
        )
    return True


def last(store: Store, until: datetime | None = None) -> dict[str, Verified]:
    """The last comparison of each job, or the last at a moment."""
    found = store.values(
        "a comparison",
        _found,
        "SELECT v.* FROM verifies v WHERE v.id IN (SELECT max(id) FROM verifies WHERE at <= ? GROUP BY job)",
        until.timestamp() if until else float("inf"),
    )
    return {one.job: one for one in found}


def _found(row: sqlite3.Row) -> Verified:
    values = {name: row[name] for name in row.keys() if name != "id"}  # noqa: SIM118 - a Row iterates over values
    return Verified(**{**values, "at": datetime.fromtimestamp(row["at"], timezone.utc)})
