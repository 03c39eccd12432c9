"""What was seen last of each slot, by whichever process saw it: all of them tell the same of it then.

Next door: `core.judgement.facts` is the value; drivers, consoles and `slots list` write it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from core.errors import SlotkeeperError
from core.judgement.facts import SlotSeen
from core.state.rows import moment
from core.state.sqlite import Store

KEPT_SECONDS = 7 * 86_400.0
"""What nobody has seen for so long is dropped: no configured job has it any more."""


def put(store: Store, found: Iterable[SlotSeen]) -> None:
    """Keep what was seen; an older sight never replaces a newer one, but where this host's clock was set back."""
    rows = [
        (
            one.source, one.table, one.slot, one.job, one.at.timestamp(),
            None if one.exists is None else int(one.exists),
            None if one.expires_at is None else one.expires_at.timestamp(), one.ttl, one.unread, one.shard,
        )
        for one in found
    ]  # fmt: skip
    if not rows:
        return
    with store.write() as sql:
        sql.executemany(
            "INSERT INTO slots_seen (source, source_table, slot, job, at, there, expires_at, ttl, unread, shard)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source, source_table, slot) DO UPDATE SET"
            " job = excluded.job, at = excluded.at, there = excluded.there, expires_at = excluded.expires_at,"
            " ttl = excluded.ttl, unread = coalesce(excluded.unread, unread), shard = excluded.shard",
            rows,
        )
        sql.execute("DELETE FROM slots_seen WHERE at < ?", (max(row[4] for row in rows) - KEPT_SECONDS,))


def forget(folder: Path, table: str, slot: str) -> None:
    """Drop what was seen of a slot that has just been changed: the next look tells how it is now. Never raises."""
    with suppress(SlotkeeperError), Store.open(folder) as store, store.write() as sql:
        sql.execute("DELETE FROM slots_seen WHERE source_table = ? AND slot = ?", (table, slot))


def all_seen(store: Store) -> tuple[SlotSeen, ...]:
    """Every slot that is remembered."""
    found = store.values("a slot", _seen, "SELECT * FROM slots_seen ORDER BY source, source_table, slot")
    return tuple(found)


def _seen(row: sqlite3.Row) -> SlotSeen:
    at = moment(row["at"])
    assert at is not None
    there = None if row["there"] is None else bool(row["there"])
    return SlotSeen(
        row["source"], row["source_table"], row["slot"], row["job"], at, there, moment(row["expires_at"]), row["ttl"],
        row["unread"], row["shard"],
    )  # fmt: skip
