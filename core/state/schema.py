"""Opens the store's file and brings it to the schema of this version, one numbered file after the other.

Next door: `migrations/` holds the statements; `core.state.sqlite` uses the connection.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

from core.state.faults import PLANTED, WAY_OUT, StateError, cannot_read, translated
from core.state.folder import StateFolder

APPLICATION_ID = 0x534C4B52
"""Marks the file as ours ("SLKR"), so that another program's database is never migrated."""

LOG_BYTES = 16 << 20
"""What SQLite's log is cut back to after a checkpoint that found it longer (pragma.html, journal_size_limit)."""


def migrations() -> list[str]:
    """The statements of each schema version, version 1 first."""
    files = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
    return [file.read_text(encoding="utf-8") for file in files]


def connect(folder: StateFolder, file: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection to the file at this version's schema; StateError where that cannot be had."""
    _refuse_planted(file)
    if not file.exists():
        # never where it is there: closing any descriptor of it takes this process's other connections their locks
        os.close(folder.append(file))
    with translated(file):
        connection = sqlite3.connect(file, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        with translated(file):
            _prepare(folder, file, connection, busy_seconds)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_planted(file: Path) -> None:
    """Raise StateError where a link or a FIFO stands in place of the file, its log or its index.

    SQLite makes the latter two with the rights of the file under every umask (`findCreateFileMode` in its os_unix.c).
    """
    for suffix in ("", "-wal", "-shm"):
        path = file.with_name(file.name + suffix)
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise cannot_read(path, error) from error
        if not stat.S_ISREG(mode):
            raise StateError(f"{path} is a link or no regular file, which nothing of ours is", PLANTED)


def _prepare(folder: StateFolder, file: Path, connection: sqlite3.Connection, busy_seconds: float) -> None:
    connection.row_factory = sqlite3.Row
    steps = migrations()
    found = _version(connection, file, len(steps))
    if found < len(steps):
        # Two processes that switch a new file to WAL at once get SQLITE_BUSY without any waiting: hence the lock.
        with folder.locked("state", "schema", busy_seconds):
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            _migrate(connection, file, steps)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
    connection.execute("PRAGMA foreign_keys = ON")


def _version(connection: sqlite3.Connection, file: Path, known: int) -> int:
    # one statement, so that all three are of one moment: another process may be making the file right now
    version, owner, filled = connection.execute(
        "SELECT v.user_version, a.application_id, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_user_version v, pragma_application_id a"
    ).fetchone()
    if filled and owner != APPLICATION_ID:
        raise StateError(f"state file {file} is not ours: another program's database", "name another [state] dir")
    if version > known:
        raise StateError(
            f"state file {file} was written by a newer slotkeeper (schema {version}, this one knows {known})",
            f"use that newer slotkeeper, or another state folder; {WAY_OUT}",
        )
    return int(version)


def _migrate(connection: sqlite3.Connection, file: Path, steps: list[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = _version(connection, file, len(steps))
        for step in steps[found:]:
            for statement in _statements(step):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    """The statements of a script, one by one: `executescript` would commit what is open and so break the unit."""
    found, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found
