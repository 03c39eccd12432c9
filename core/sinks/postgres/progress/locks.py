"""Slotkeeper's advisory locks in a sink: lock numbers, taking and releasing a lock, and lock holders.

Any login can take a lock with any number (PostgreSQL, "Advisory Lock Functions": no privilege is required), so none of
these locks is a fence.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone

from slotkeeper.core.domain.locks import LockOwner
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.spec import parts_of
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.session import SinkSession

_CONCEALED = "<insufficient privilege>"


def lock_number(text: str) -> int:
    """Return a 63-bit number for an advisory lock."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def lease_lock(key: LaneKey) -> int:
    return lock_number(_place(key))


def rows_lock(schema: str, key: LaneKey) -> int:
    """Return the number of the lock by which a target's holder identifies the progress rows that fence its steps."""
    return lock_number(f"slotkeeper rows/{schema}/{_place(key)}")


def target_lock(target: str) -> int:
    """Return the number of a target's lock in one database; `target` is `schema.table` exactly as written.

    The lock of a part of a target (`ChannelSpec.place`) has its own number; its holder also shares the target's lock.
    """
    return lock_number(f"slotkeeper target/{target}")


def _place(key: LaneKey) -> str:
    return "/".join((key.source, key.source_table, key.slot))


def try_lock(cursor: pg.Cursor, number: int) -> bool:
    """Take the lock for this session if it is free; return whether it was taken."""
    cursor.execute("SELECT pg_try_advisory_lock(%s)", (number,))
    found = cursor.fetchone()
    return bool(found and found[0])


def try_target(cursor: pg.Cursor, target: str, shares: bool) -> bool:
    """Take the lock of a target, or of a part; `shares`: this session already shares the lock of the part's target.

    A shared lock conflicts only with the lock of the whole target (PostgreSQL, "Advisory Locks"; DWS, "Advisory Lock
    Functions"), so any number of parts can be locked, or the whole target once.
    """
    whole, column = parts_of(target)
    if column and not shares:
        cursor.execute("SELECT pg_try_advisory_lock_shared(%s)", (target_lock(whole),))
        if cursor.fetchone() != (True,):
            return False
    if try_lock(cursor, target_lock(target)):
        return True
    if column and not shares:
        unshare(cursor, target)
    return False


def unshare(cursor: pg.Cursor, target: str) -> None:
    """Release one share of the lock of a part's target; this session must hold one."""
    cursor.execute("SELECT pg_advisory_unlock_shared(%s)", (target_lock(parts_of(target)[0]),))


def target_owners(session: SinkSession, cursor: pg.Cursor, target: str, rows: int) -> list[LockOwner]:
    """Return the other sessions whose lock conflicts with that of a target or a part."""
    whole, column = parts_of(target)
    found = owners(session, cursor, target_lock(target), rows)
    return found or (owners(session, cursor, target_lock(whole), rows, mode="ExclusiveLock") if column else [])


def unlock(cursor: pg.Cursor, number: int) -> None:
    """Release the lock completely, even if this session has taken it several times; do nothing if it is not held.

    PostgreSQL, "Advisory Locks": a lock must be released as many times as it was acquired. Unlocking a lock that is not
    held causes a warning, so pg_locks is queried first (objid and classid are the halves of a 64-bit key, objsubid is
    1).
    """
    own = (
        "SELECT pg_advisory_unlock(%(number)s) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        " AND granted AND classid::bigint << 32 | objid::bigint = %(number)s AND objsubid = 1"
    )
    cursor.execute(own, {"number": number})
    while cursor.fetchone():
        cursor.execute(own, {"number": number})


def owners(session: SinkSession, cursor: pg.Cursor, lock: int, rows: int, mode: str = "") -> list[LockOwner]:
    """Return the other sessions that hold `lock`, those that also hold `rows` first; empty if none are visible.

    `mode`: only those that hold it in this mode of pg_locks.
    """
    found = session.run(cursor, "lock_owners", {"lock": lock, "rows": rows, "mode": mode}).fetchall()
    return [_owner(*row) for row in found]


def _owner(
    pid: int | None,
    user: str | None,
    application: str | None,
    since: float | None,
    seconds: float | None,
    statement: str | None,
    rows: bool,
) -> LockOwner:
    concealed = statement is None or statement == _CONCEALED
    at = None if since is None else datetime.fromtimestamp(since, timezone.utc)
    return LockOwner(pid, user, application, at, seconds, None if concealed else statement, bool(rows))
