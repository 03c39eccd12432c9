"""The workload's own record of its changes: a source table without binlog, written in the same transactions.

It is computed from the result of each statement, never from the binlog, so it is independent evidence: per DN, the sum
of its events must equal the recorded and the applied events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from slotkeeper.core.drivers import pg

_CREATE = """
CREATE SCHEMA IF NOT EXISTS ledger;
CREATE TABLE IF NOT EXISTS ledger.events (
    writer text NOT NULL, tx bigint NOT NULL, dn text NOT NULL,
    inserted bigint NOT NULL, updated bigint NOT NULL, deleted bigint NOT NULL, key_changed bigint NOT NULL,
    events bigint NOT NULL, PRIMARY KEY (writer, tx, dn))
"""

_TOTALS = """
SELECT dn, sum(inserted)::bigint, sum(updated)::bigint, sum(deleted)::bigint, sum(key_changed)::bigint
  FROM ledger.events WHERE dn <> '' GROUP BY dn ORDER BY dn
"""


@dataclass(frozen=True, slots=True)
class Events:
    """Rows changed on one DN, by kind; an update or a key change is two events: the row before and after."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    key_changed: int = 0

    @property
    def total(self) -> int:
        """Number of events that the binlog must have.

        >>> Events(inserted=1, updated=1, deleted=1, key_changed=1).total
        6
        """
        return self.inserted + self.deleted + 2 * (self.updated + self.key_changed)

    @property
    def rows(self) -> int:
        """Number of changed rows."""
        return self.inserted + self.updated + self.deleted + self.key_changed

    def __add__(self, other: Events) -> Events:
        return Events(
            self.inserted + other.inserted,
            self.updated + other.updated,
            self.deleted + other.deleted,
            self.key_changed + other.key_changed,
        )


Tally = dict[str, Events]
"""Events by DN name."""


def add(tally: Tally, more: Mapping[str, Events]) -> None:
    """Add `more` to `tally` in place.

    >>> t = {"dn1": Events(1)}; add(t, {"dn1": Events(1), "dn2": Events(0, 1)}); t["dn1"].total, t["dn2"].total
    (2, 2)
    """
    for dn, events in more.items():
        tally[dn] = tally.get(dn, Events()) + events


def create(connection: pg.Connection) -> None:
    """Create the ledger if it does not exist; commits."""
    with pg.transaction(connection) as cursor:
        cursor.execute(_CREATE)


def write(cursor: pg.Cursor, writer: str, tx: int, tally: Mapping[str, Events]) -> None:
    """Record a transaction inside itself; a transaction without changes gets a row too, so that its outcome
    can be queried.
    """
    for dn, e in sorted(tally.items()) or [("", Events())]:
        cursor.execute(
            "INSERT INTO ledger.events VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (writer, tx, dn, e.inserted, e.updated, e.deleted, e.key_changed, e.total),
        )


def ledger_totals(connection: pg.Connection) -> Tally:
    """Return all recorded events, per DN name; DNs without events are absent."""
    with pg.transaction(connection) as cursor:
        cursor.execute(_TOTALS)
        return {str(row[0]): Events(*row[1:]) for row in cursor.fetchall()}


def last_tx(connection: pg.Connection, writer: str) -> int:
    """Return the highest transaction number that `writer` ever committed, 0 if there is none."""
    with pg.transaction(connection) as cursor:
        cursor.execute("SELECT coalesce(max(tx), 0) FROM ledger.events WHERE writer = %s", (writer,))
        return int(cursor.fetchall()[0][0])


@dataclass(frozen=True, slots=True)
class Session:
    """A server session with its start time, so that a later session can check whether it is still open (pids are
    reused).
    """

    pid: int
    started: datetime


def session(connection: pg.Connection) -> Session:
    """Return the session of `connection`."""
    with pg.transaction(connection) as cursor:
        cursor.execute("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
        pid, started = cursor.fetchall()[0]
    return Session(pid, started)


def still_open(connection: pg.Connection, lost: Session) -> bool:
    """Whether the lost session is still open; asks the server to end it, so that its outcome becomes final."""
    with pg.transaction(connection) as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s",
            (lost.pid, lost.started),
        )
        return bool(cursor.fetchall())


def committed(connection: pg.Connection, writer: str, tx: int) -> bool:
    """Whether transaction `tx` of `writer` is in the ledger; final once its session has ended."""
    with pg.transaction(connection) as cursor:
        cursor.execute("SELECT 1 FROM ledger.events WHERE writer = %s AND tx = %s LIMIT 1", (writer, tx))
        return bool(cursor.fetchall())
