"""Sessions on a source that wait for a slot or a job's session: VACUUM FULL, scale-out, DDL, other statements. Pure.

DWS, "Precautions for Binlog Tables": VACUUM FULL and scaling wait until all records are consumed, and fail after
binlog_consume_timeout. While it waits, VACUUM FULL holds a lock that blocks all DML on the table. DWS, "Lock
Management" (dws_04_0928): an AccessExclusiveLock waits for ddl_lock_timeout if that is above 0; all other locks wait
for lockwait_timeout. `slotkeeper.core.domain.locks` defines sessions, and the waits in a sink.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from slotkeeper.core.domain.field import Moment, MomentOrNone
from slotkeeper.core.domain.locks import (
    AGES_DIFFER,
    HIDDEN,
    PREFIX,
    SHORTENED,
    Blocker,
    ended_at,
    named_in_act,
    without_literals,
)
from slotkeeper.core.domain.remedy import OR, THEN
from slotkeeper.core.domain.text import many, safe, typed

VACUUM_FULL, SCALE_OUT, DDL, STATEMENT = "VACUUM FULL", "scale-out", "DDL", "a statement"
CRITICAL_AFTER = 30.0
"""Seconds after which a wait on the source is critical, because the source's writers also wait."""
_SHORT = 80
_HALF_A_DAY = 43_200.0
"""A wait of this many seconds or more is shown with the date on which it fails; MySQL waits for a year by default."""
_COMMENTS = re.compile(r"/\*.*?(?:\*/|\Z)|--[^\n]*", re.DOTALL)
_VACUUM = re.compile(r"VACUUM\s*(\(([^)]*)\)|(\w+\s+)*?FULL\b)", re.IGNORECASE)
_DDL = re.compile(r"(ALTER|DROP|TRUNCATE|CREATE|RENAME|REINDEX|CLUSTER|OPTIMIZE|COMMENT|GRANT|REVOKE)\b", re.IGNORECASE)
_REDISTRIBUTES = ("gs_redis", "gs_expand")
"""Application names of the programs that scale a cluster (DWS, "Server Tools")."""


@dataclass(frozen=True, slots=True)
class SlotBehind:
    """A slot with unread records."""

    slot: str
    """The name of the slot."""
    job: str = ""
    """The job that reads the slot; empty: no configured job."""
    shards: tuple[str, ...] = ()
    """The DNs with unread records; empty: unknown."""


@dataclass(frozen=True, slots=True)
class SourceWait:
    """A session on a source that waits for a slot or for sessions of jobs."""

    waiter: Blocker
    """The waiting session."""
    what: str
    """The kind of the statement: VACUUM FULL, scale-out, DDL, or any other statement."""
    table: str
    """The source table, as schema.table."""
    since: Moment
    """When the statement started, or when the session was first seen waiting."""
    slots: tuple[SlotBehind, ...] = ()
    """The slots that the session waits for."""
    sessions: tuple[Blocker, ...] = ()
    """The sessions of jobs that the session waits for."""
    behind: int | None = None
    """The number of sessions queued after this session; null: not visible to this login."""
    limit: str = ""
    """The server's time limit after which the statement fails; empty: unknown."""
    fails_at: MomentOrNone = None
    """When the statement fails because of that limit; null: unknown."""
    job: str = ""
    """The job that reads the table with the login of `sessions`, if the server hides the names of sessions."""
    ends: str = ""
    """The SQL statement that ends a session, with {} for the pid; empty: the statement for PostgreSQL and DWS."""

    @property
    def key(self) -> tuple[object, ...]:
        """A key that stays the same while the same statement waits for the same table."""
        return (self.table, self.waiter.pid, self.waiter.node, self.waiter.transaction or self.waiter.query)

    @property
    def jobs(self) -> tuple[str, ...]:
        named = [one.job for one in self.slots] + [one.job or self.job for one in self.sessions]
        return tuple(dict.fromkeys(filter(None, named)))


def kind_of(statement: str | None, application: str | None) -> str:
    """Classify a statement as VACUUM FULL, scale-out, DDL, or any other statement.

    >>> kind_of("VACUUM (FULL, ANALYZE) ods.orders", "gsql"), kind_of("vacuum verbose full a", "")
    ('VACUUM FULL', 'VACUUM FULL')
    >>> kind_of("/* x */ alter table a add b int", None), kind_of("INSERT INTO a", "gs_redis"), kind_of(None, None)
    ('DDL', 'scale-out', 'a statement')
    """
    if (application or "").startswith(_REDISTRIBUTES):
        return SCALE_OUT
    said = bare(statement)
    vacuum = _VACUUM.match(said)
    if vacuum is not None and (vacuum[2] is None or re.search(r"\bFULL\b", vacuum[2], re.IGNORECASE)):
        return VACUUM_FULL
    return DDL if _DDL.match(said) else STATEMENT


def bare(statement: str | None) -> str:
    """Return a statement without comments and leading blanks, because some clients prepend a comment with their name.

    >>> bare("/* ApplicationName=DBeaver */ VACUUM -- all of it"), bare("/* cut off")
    ('VACUUM  ', '')
    """
    return _COMMENTS.sub(" ", statement or "").lstrip()


def about(statement: str | None, table: str) -> bool:
    """Return whether a VACUUM FULL affects a table, because the statement names that table or no table.

    >>> about('VACUUM FULL "ods"."orders"', "ods.orders"), about("VACUUM FULL", "ods.orders")
    (True, True)
    >>> about("VACUUM FULL ods.orders_old", "ods.orders"), about("VACUUM FULL mart.orders", "ods.orders")
    (False, False)
    """
    said = bare(statement)
    vacuum = _VACUUM.match(said)
    rest = said[vacuum.end() :] if vacuum is not None else said
    rest = re.sub(r"^\s*((FREEZE|VERBOSE|ANALYZE|COMPACT)\b\s*)*", "", rest, flags=re.IGNORECASE).rstrip("; \t\n")
    if not rest:
        return True
    return names(rest, table) or names(rest, table.rpartition(".")[2])


def names(statement: str | None, table: str) -> bool:
    """Return whether a statement names a table, with or without its schema.

    >>> names("ALTER TABLE `ods`.`orders` ADD b int", "ods.orders"), names("ALTER TABLE mart.orders", "orders")
    (True, False)
    >>> names("INSERT INTO orders_old", "orders"), names(None, "orders")
    (False, False)
    """
    parts = [rf'["`]?{re.escape(part)}["`]?' for part in table.split(".")]
    pattern = r"\s*\.\s*".join(parts)
    return bool(re.search(rf'(?<![\w."`]){pattern}(?![\w"`.])', bare(statement), re.IGNORECASE))


def lasting(before: Iterable[SourceWait], seen: Iterable[SourceWait]) -> tuple[SourceWait, ...]:
    """Return the current waits, each with the time of its first observation; measured start times vary with latency.

    >>> first = SourceWait(Blocker(7), DDL, "ods.orders", 10.0)
    >>> [one.since for one in lasting([first], [replace(first, since=10.4), replace(first, table="x", since=11.0)])]
    [10.0, 11.0]
    """
    began = {one.key: one.since for one in before}
    found = []
    for one in seen:
        since = began.get(one.key, one.since)
        kept = one.since if since > one.since + AGES_DIFFER else since
        found.append(replace(one, since=kept))
    return tuple(sorted(found, key=lambda one: (one.since, one.table, one.waiter.pid or 0)))


def cause(wait: SourceWait, now: float | None) -> str:
    """Describe a wait in one sentence: the session, the object of the wait, and (unless `now` is None) the duration.

    >>> eve = Blocker(4711, "eve", "gsql", "active", 42.0, "VACUUM FULL ods.orders")
    >>> cause(SourceWait(eve, VACUUM_FULL, "ods.orders", 90.0, (SlotBehind("s", "orders"),), behind=3), 100.0)
    'VACUUM FULL on ods.orders (pid 4711, user eve, application gsql) waits for slot s (job orders) for 10 s: \
VACUUM FULL ods.o...'
    """
    lasts = "" if now is None else f" for {max(0.0, now - wait.since):.0f} s"
    said = f"{wait.what} on {safe(wait.table, _SHORT)} ({wait.waiter.name}) waits for {waited_for(wait)}{lasts}"
    statement = HIDDEN if wait.waiter.statement is None else without_literals(wait.waiter.statement) or "none"
    return f"{said}: {statement}"


def waited_for(wait: SourceWait) -> str:
    """Describe the slots and sessions that the session waits for.

    >>> waited_for(SourceWait(Blocker(7), DDL, "a.b", 0.0, sessions=(Blocker(9, "etl", "slotkeeper/orders/1.x"),)))
    'pid 9, user etl, job orders (slotkeeper/orders/1.x)'
    """
    parts = [
        f"slot {safe(one.slot, _SHORT)} ({f'job {safe(one.job, _SHORT)}' if one.job else 'no configured job'})"
        + (f" on {safe(', '.join(one.shards[:3]), _SHORT)}" if one.shards else "")
        for one in wait.slots[:3]
    ]
    parts += [one.name for one in wait.sessions[:3]]
    more = max(0, len(wait.slots) - 3) + max(0, len(wait.sessions) - 3)
    return " and ".join(parts or ["unread records of a slot whose name is hidden"]) + (
        f" and {more} more" if more else ""
    )


def effect(wait: SourceWait) -> str:
    """Describe how many sessions are queued after the waiting session, and when its statement fails.

    >>> effect(SourceWait(Blocker(7), DDL, "a.b", 0.0, behind=0, limit="lockwait_timeout 1200 s", fails_at=1200.0))
    'no session waits after it; fails at 00:20:00Z (lockwait_timeout 1200 s)'
    >>> effect(SourceWait(Blocker(7), DDL, "a.b", 0.0, limit="lock_wait_timeout 31536000 s", fails_at=31_536_000.0))
    'sessions after it: hidden; fails at 1971-01-01 00:00:00Z (lock_wait_timeout 31536000 s)'
    """
    if wait.behind is None:
        after = "sessions after it: hidden"
    elif wait.behind:
        after = f"{many(wait.behind, 'session')} {'waits' if wait.behind == 1 else 'wait'} after it"
    else:
        after = "no session waits after it"
    if wait.fails_at is None:
        return after
    at = datetime.fromtimestamp(wait.fails_at, timezone.utc)
    day = f"{at:%Y-%m-%d} " if wait.fails_at - wait.since >= _HALF_A_DAY else ""
    return f"{after}; fails at {day}{at:%H:%M:%S}Z ({wait.limit})"


def to_do(wait: SourceWait, paused: Mapping[str, bool] | None = None) -> str:
    """Return the action that ends the wait; `paused` states for each job of known state whether it is paused.

    >>> orders = SourceWait(Blocker(7, "eve", "gsql"), VACUUM_FULL, "a.b", 0.0, (SlotBehind("s", "orders"),))
    >>> to_do(orders, {"orders": True})
    '`slotkeeper jobs resume orders`; then `slotkeeper jobs drain orders` waits until all is read; \
or as an administrator of the source, cancel the VACUUM FULL: `SELECT pg_terminate_backend(7)`'
    """
    acts = [_read(one, (paused or {}).get(one.job)) for one in wait.slots]
    acts += [_end(one, wait.ends, wait.job) for one in wait.sessions]
    acts = list(dict.fromkeys(acts)) or [f"`slotkeeper slots preflight {typed(wait.table)}`"]
    cancels = f"cancel the {wait.what}" if wait.what != STATEMENT else "end the waiting session"
    kill = f"`{wait.ends.format(wait.waiter.pid)}`" if wait.ends else ended_at(wait.waiter)
    return f"{THEN.join(acts)}{OR}as an administrator of the source, {cancels}: {kill}"


def _read(one: SlotBehind, paused: bool | None) -> str:
    if not one.job:
        slot = named_in_act(safe(one.slot, _SHORT))
        return f"Find the program that reads slot {slot} (no configured job does), and start it"
    job = typed(one.job)
    drain = f"`slotkeeper jobs drain {job}` waits until all is read"
    if paused is False:
        return drain
    return f"`slotkeeper jobs resume {job}`{'' if paused else ' if it is paused'}{THEN}{drain}"


def _end(one: Blocker, ends: str, follows: str) -> str:
    kill, job = f"`{ends.format(one.pid)}`" if ends else ended_at(one), one.job or follows
    if not job:
        return f"Ask its user to end {named_in_act(one.name)}{OR}as an administrator of the source, end it: {kill}"
    pause = f"`slotkeeper jobs pause {typed(job)}`"
    if SHORTENED.fullmatch(job):
        full = f"`slotkeeper jobs list` shows the full name of the job whose sessions are named {typed(job)}"
        pause = f"{full}{THEN}pause that job"
    return f"{pause}{OR}as an administrator of the source, end its session: {kill}"


def of_job(waits: Iterable[SourceWait], *names: str) -> tuple[SourceWait, ...]:
    """Return the waits for a job with one of these names, and the waits for slots that no configured job reads."""
    return tuple(one for one in waits if not one.jobs or not set(names).isdisjoint(one.jobs))


def is_ours(application: str | None) -> bool:
    """Return whether an application name identifies a session of a Slotkeeper job."""
    return (application or "").startswith(PREFIX)


_LEVELS = (
    "AccessShareLock",
    "RowShareLock",
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
)
"""The table locks, from the weakest to the strongest."""
_FIRST = {"AccessShareLock": 7, "RowShareLock": 6, "RowExclusiveLock": 4}
"""For each lock, the index in `_LEVELS` of the weakest lock that conflicts with it, if that is not the lock itself."""


def conflicts(one: str, other: str) -> bool:
    """Return whether two table locks conflict; an unrecognized lock conflicts with all. PostgreSQL, "Explicit Locking".

    >>> conflicts("AccessShareLock", "ExclusiveLock"), conflicts("AccessShareLock", "AccessExclusiveLock")
    (False, True)
    >>> conflicts("ShareLock", "ShareLock"), conflicts("ShareUpdateExclusiveLock", "ShareUpdateExclusiveLock")
    (False, True)
    """
    if one not in _LEVELS or other not in _LEVELS:
        return True
    low, high = sorted((one, other), key=_LEVELS.index)
    return low != high or low != "ShareLock" if low not in _FIRST else _LEVELS.index(high) >= _FIRST[low]
