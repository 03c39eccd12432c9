"""Observations of slots and targets, made by any process, shared by all processes, and stored with their time.

For a slot, the last observation applies; earlier observations are kept for a day as history, one row per minute. For a
target, the observation is the result of `slotkeeper verify`; a target is reported as equal only together with the time
of the comparison.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from slotkeeper.core.domain.elapsed import AHEAD_SECONDS
from slotkeeper.core.domain.row_counts import VOID, Verified
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.judgement.facts import SlotSeen
from slotkeeper.core.state.rows import moment
from slotkeeper.core.state.sqlite import Store

KEPT_SECONDS = 7 * 86_400.0
"""Seconds after which a slot that no process has seen is deleted, because no configured job uses it any more."""
PAST_SECONDS = 86_400.0
PAST_EVERY = 60.0
"""Seconds between two rows of history; a row is also added if a slot appears or disappears."""
_COLUMNS = "source, source_table, slot, job, at, there, expires_at, ttl, unread, shard"


def put(store: Store, found: Iterable[SlotSeen], knows_all: bool = True) -> None:
    """Store observations of slots; they never replace newer observations, unless this host's clock was set back.

    `found` contains all slots of each of its tables; a stored slot of such a table that belongs to no job and is
    missing from `found` no longer exists. `knows_all` means that the observer knows which slots belong to which jobs. A
    driver knows only the configuration with which its run was started, so a slot that it cannot assign to a job keeps
    its stored owner.
    """
    ahead = store.now() + AHEAD_SECONDS
    rows = [
        (
            one.source, one.table, one.slot, one.job, one.at.timestamp(),
            None if one.exists is None else int(one.exists),
            None if one.expires_at is None else one.expires_at.timestamp(), one.ttl, one.unread, one.shard,
            knows_all, ahead,
        )
        for one in found
    ]  # fmt: skip
    if not rows:
        return
    with store.write() as sql:
        sql.executemany(
            "INSERT INTO slots_seen (source, source_table, slot, job, at, there, expires_at, ttl, unread, shard)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source, source_table, slot) DO UPDATE SET"
            " job = CASE WHEN excluded.job <> '' OR ? THEN excluded.job ELSE job END,"
            " at = excluded.at, there = excluded.there, expires_at = excluded.expires_at,"
            " ttl = excluded.ttl, unread = coalesce(excluded.unread, unread), shard = excluded.shard"
            " WHERE excluded.at >= at OR at > ?",
            rows,
        )
        _forget_gone(sql, rows)
        _put_past(sql, rows)


def _forget_gone(sql: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Delete slots without a job that are missing from the table's status, and slots not seen for a long time."""
    there: dict[tuple[str, str, float], list[str]] = {}
    for source, table, slot, _, at, *_ in rows:
        there.setdefault((source, table, at), []).append(slot)
    for (source, table, at), slots in there.items():
        sql.execute(
            "DELETE FROM slots_seen WHERE source = ? AND source_table = ? AND at < ? AND job = ''"
            " AND slot NOT IN (SELECT value FROM json_each(?))",
            (source, table, at, json.dumps(slots)),
        )
    newest = max(row[4] for row in rows)
    sql.execute("DELETE FROM slots_seen WHERE at < ?", (newest - KEPT_SECONDS,))


def _put_past(sql: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add rows of history if enough time has passed, or if a slot appeared or disappeared."""
    added = sql.executemany(
        f"INSERT OR IGNORE INTO slots_past ({_COLUMNS}) SELECT {_COLUMNS} FROM slots_seen AS s"
        " WHERE source = ?1 AND source_table = ?2 AND slot = ?3 AND NOT EXISTS (SELECT 1 FROM slots_past AS p"
        " WHERE p.source = ?1 AND p.source_table = ?2 AND p.slot = ?3 AND p.at > s.at - ?4 AND p.there IS s.there)",
        [(*row[:3], PAST_EVERY) for row in rows],
    )
    if added.rowcount:
        sql.execute("DELETE FROM slots_past WHERE at < ?", (max(row[4] for row in rows) - PAST_SECONDS,))


def forget(folder: Path, table: str, slot: str) -> None:
    """Delete the observation of a slot that has just changed; the next query records the new one. Never raises."""
    with suppress(SlotkeeperError), Store.open(folder) as store, store.write() as sql:
        sql.execute("DELETE FROM slots_seen WHERE source_table = ? AND slot = ?", (table, slot))


def all_seen(store: Store) -> tuple[SlotSeen, ...]:
    found = store.values("a slot", _seen, "SELECT * FROM slots_seen ORDER BY source, source_table, slot")
    return tuple(found)


def seen_until(store: Store, at: datetime) -> tuple[SlotSeen, ...]:
    """Return the last observation of each slot up to a time."""
    wanted = (
        "SELECT * FROM slots_past JOIN (SELECT source, source_table, slot, max(at) AS at FROM slots_past WHERE at <= ?"
        " GROUP BY source, source_table, slot) USING (source, source_table, slot, at)"
        " ORDER BY source, source_table, slot"
    )
    return tuple(store.values("a slot", _seen, wanted, at.timestamp()))


def _seen(row: sqlite3.Row) -> SlotSeen:
    at = moment(row["at"])
    assert at is not None
    there = None if row["there"] is None else bool(row["there"])
    return SlotSeen(
        row["source"], row["source_table"], row["slot"], row["job"], at, there, moment(row["expires_at"]), row["ttl"],
        row["unread"], row["shard"],
    )  # fmt: skip


KEPT = 50


def record(store: Store, found: Verified) -> bool:
    """Store the result of a comparison; only the newest fifty results of a job are retained.

    Returns False and stores nothing if a reset happened during the comparison, because rows were read before the reset.
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
    """Return the last comparison of each job; with `until`, the last comparison up to that time."""
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
