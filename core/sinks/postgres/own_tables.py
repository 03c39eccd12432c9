"""Creates and migrates Slotkeeper's tables in the sink: applies numbered files in order and records the last number.

`migrations/<group>/NNN_name.sql` contains the statement `apply`, and `apply_dws` if DWS needs a different one. A
released file never changes; a test compares its checksum. A file can be applied twice (`ADD COLUMN IF NOT EXISTS`), and
jobs of the previous version continue to work, because an added column is nullable or has a default. Older tables
without a recorded number are recognized by their columns (`migrations/progress/earlier.sql`).
"""

from __future__ import annotations

import re
from pathlib import Path

from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import TablesVersion
from slotkeeper.core.sinks.postgres.progress import locks
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sqltext import quoted, statements

_SQL: Book = ("slotkeeper.core.sinks.postgres", "own_tables.sql")
_VERSIONS = "slotkeeper_versions"
_ADDS = re.compile(r"ALTER TABLE \{schema\}\.(\w+)\s+ADD COLUMN IF NOT EXISTS (\w+)")
"""The columns that a migration adds; if they exist, the migration does nothing."""
TABLES = {
    "progress": ("slotkeeper_progress", "slotkeeper_chunks", "slotkeeper_columns"),
    "quarantine": ("slotkeeper_quarantine",),
    "resets": ("slotkeeper_resets",),
    "audit": ("slotkeeper_audit",),
    "queries": ("slotkeeper_queries",),
    "streams": ("slotkeeper_streams",),
    "views": ("slotkeeper_views", "slotkeeper_view_marks"),
    "hosts": ("slotkeeper_jobs", "slotkeeper_hosts", "slotkeeper_orders"),
}
"""The tables of each group, created and migrated together. The first table's columns identify an older version."""


def migrations(group: str) -> list[Book]:
    """Return the migration files of a group in the order of their versions."""
    folder = Path(__file__).with_name("migrations") / group
    return [
        ("slotkeeper.core.sinks.postgres", f"migrations/{group}/{file.name}")
        for file in sorted(folder.glob("[0-9]*.sql"))
    ]


def prepare(session: SinkSession, cursor: pg.Cursor, group: str) -> None:
    """Create or migrate a group's tables in the open transaction; raises Refused if a newer version migrated them."""
    if _found(session, cursor, group)[0] == len(migrations(group)):
        return
    # two jobs can start at the same time, and concurrent CREATE TABLE IF NOT EXISTS can collide in the catalog
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", (locks.lock_number("slotkeeper tables"),))
    found, there = _found(session, cursor, group)
    if not found and there:
        _recognise(session, cursor, group, there)
        found = 1
    for book in migrations(group)[found:]:
        if _wanted(session, cursor, book):
            _apply(session, cursor, book, "apply")
    _record(session, cursor, group)


def versions(session: SinkSession, cursor: pg.Cursor) -> list[TablesVersion]:
    """Return the recorded version of each group that has a table, newer ones included; 0 if none is recorded."""
    every = [name for names in TABLES.values() for name in names]
    asked = {"schema": session.schema.string, "tables": [*every, _VERSIONS]}
    there = {name for (name,) in session.run(cursor, "there", asked, _SQL).fetchall()}
    recorded: dict[str, int] = {}
    if _VERSIONS in there:
        recorded = dict(session.run(cursor, "versions", {}, _SQL).fetchall())
    return [
        TablesVersion(group, recorded.get(group, 0), len(migrations(group)))
        for group, names in TABLES.items()
        if group in recorded or there.intersection(names)
    ]


def refuse_newer(session: SinkSession, cursor: pg.Cursor, group: str) -> None:
    """Raise Refused before a write to tables that a newer version migrated."""
    _found(session, cursor, group)


def _found(session: SinkSession, cursor: pg.Cursor, group: str) -> tuple[int, set[str]]:
    """Return the recorded number (0 if none is recorded or a table is missing), and the group's tables that exist."""
    asked = {"schema": session.schema.string, "tables": [*TABLES[group], _VERSIONS]}
    there = {name for (name,) in session.run(cursor, "there", asked, _SQL).fetchall()}
    recorded = _VERSIONS in there and session.run(cursor, "version", {"group": group}, _SQL).fetchone()
    version, known = int(recorded[0]) if recorded else 0, len(migrations(group))
    if version > known:
        raise Refused(
            f"the {group} tables in schema {session.schema.string} belong to a newer slotkeeper"
            f" (version {version}, supported here: {known})",
            "start the job with that newer slotkeeper, or name another progress_schema",
            where="sink",
        )
    there.discard(_VERSIONS)
    return (version if there.issuperset(TABLES[group]) else 0), there


def _recognise(session: SinkSession, cursor: pg.Cursor, group: str, there: set[str]) -> None:
    """Migrate tables without a recorded number to version 1, and create the missing tables."""
    table = TABLES[group][0]
    folder = Path(__file__).with_name("migrations") / group
    earlier: Book = ("slotkeeper.core.sinks.postgres", f"migrations/{group}/earlier.sql")
    if len(there) < len(TABLES[group]):
        _apply(session, cursor, migrations(group)[0], "apply")
    for column in statements(*earlier) if table in there and (folder / "earlier.sql").exists() else ():
        if _has_column(session, cursor, table, column):
            continue
        if column == "fingerprint":
            _refuse_running(session, cursor)
        _apply(session, cursor, earlier, column)


def _has_column(session: SinkSession, cursor: pg.Cursor, table: str, column: str) -> bool:
    asked = {"schema": session.schema.string, "table": table, "column": column}
    return session.run(cursor, "has_column", asked, _SQL).fetchone() is not None


def _wanted(session: SinkSession, cursor: pg.Cursor, book: Book) -> bool:
    """Return whether to apply a file; raises Refused if a table that another login owns lacks columns."""
    text = statements(*book)[session.of_dialect("apply", book)]
    for table, column in _ADDS.findall(text):
        asked = {"schema": session.schema.string, "table": table}
        (owned, owner, login) = session.run(cursor, "owner", asked, _SQL).fetchall()[0]
        if owned:
            return True
        if not _has_column(session, cursor, table, column):
            statement = " ".join(text.format(schema=quoted(session.schema.string)).split())
            raise Refused(
                f"table {session.schema.string}.{table} lacks the column {column}, and {login} does not own it",
                f"as its owner {owner} run `{statement}`; then start the job again",
                where="sink",
            )
    return not _ADDS.search(text)


def _refuse_running(session: SinkSession, cursor: pg.Cursor) -> None:
    """Raise Refused if a running job of an older version writes to columns that are about to be renamed."""
    for job, source, table, slot in session.run(cursor, "places", {}, _SQL).fetchall():
        if locks.owners(session, cursor, locks.lease_lock(LaneKey(source, table, slot, "")), 0):
            raise Refused(
                f"job {safe(job, 80)} runs with an older slotkeeper on the progress tables in schema"
                f" {session.schema.string}, which need a migration first",
                f"run `slotkeeper jobs stop {safe(job, 80)}` on its host, then start this job again",
                where="sink",
            )


def _apply(session: SinkSession, cursor: pg.Cursor, book: Book, name: str) -> None:
    session.run(cursor, session.of_dialect(name, book), {}, book)


def _record(session: SinkSession, cursor: pg.Cursor, group: str) -> None:
    """Record the newest number. A login without the privilege records nothing; the next call compares the columns."""
    schema, version = session.schema.string, len(migrations(group))
    if not session.run(cursor, "there", {"schema": schema, "tables": [_VERSIONS]}, _SQL).fetchone():
        if session.run(cursor, "may_create", {"schema": schema}, _SQL).fetchone() == (False,):
            return
        session.run(cursor, session.of_dialect("create", _SQL), {}, _SQL)
    elif session.run(cursor, "may_record", {}, _SQL).fetchone() == (False,):
        return
    session.run(cursor, "forget", {"group": group}, _SQL)
    session.run(cursor, "record", {"group": group, "version": version}, _SQL)
