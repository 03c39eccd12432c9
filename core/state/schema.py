"""Open the store's file: create it if missing, and migrate it if requested; otherwise leave it unchanged.

A new file has this version's schema. `migrations/` has a numbered file per schema version. A migration file that has
been merged is never changed; a test compares its checksum. Store files written before this rule was introduced are
recognized by their tables (`earlier/`).
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from slotkeeper.core.domain.text import safe
from slotkeeper.core.state.faults import WAY_OUT, StateError, cannot_read, cannot_write, translated
from slotkeeper.core.state.folder import StateFolder, flushed, planted

APPLICATION_ID = 0x534C4B52
"""Marks the file as Slotkeeper's ("SLKR"), so that another program's database is never migrated."""

LOG_BYTES = 16 << 20
"""Size in bytes to which SQLite truncates its log after a checkpoint (pragma.html, journal_size_limit)."""

KEPT_COPIES = 3
"""Number of copies of the file that are retained, one for each version that was migrated; older copies are deleted."""


def migrations() -> list[str]:
    """Return the statements of each schema version, version 1 first."""
    return [file.read_text(encoding="utf-8") for file in sorted(_folder().glob("*.sql"))]


def connect(folder: StateFolder, file: Path, busy_seconds: float, migrates: bool = False) -> sqlite3.Connection:
    """Connect to the file; raises StateError if it cannot be used.

    A missing file is created. A file with an older version is migrated only if `migrates` is true.
    """
    _refuse_planted(file)
    if not file.exists():
        # only if the file is missing: closing any descriptor of it releases the locks of this process's other
        # connections
        os.close(folder.append(file))
    with translated(file):
        connection = sqlite3.connect(file, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        with translated(file):
            _prepare(folder, file, connection, busy_seconds, migrates)
    except BaseException:
        connection.close()
        raise
    return connection


def older(connection: sqlite3.Connection, file: Path) -> bool:
    """Return whether the file has an older schema version; raises StateError if it has a newer version."""
    with translated(file):
        return bool(_pending(connection, _version(connection, file)))


def empty(file: Path) -> sqlite3.Connection:
    """Return an in-memory database with the content of a new file."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    _migrate(connection, file, lambda version: None)
    return connection


def view_of(connection: sqlite3.Connection, file: Path) -> sqlite3.Connection:
    """Return a copy of an older file in memory, migrated to this version's schema; the file is not written."""
    view = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with translated(file):
        view.row_factory = sqlite3.Row
        connection.backup(view)
        _migrate(view, file, lambda version: None)
    return view


def refusal(connection: sqlite3.Connection, file: Path) -> StateError:
    return StateError(
        f"state file {file} was written by an older slotkeeper (schema {_version(connection, file)},"
        f" this version has {len(migrations())}) and can only be read here",
        "`slotkeeper jobs start JOB` migrates it and stores a copy; stop the jobs of the older version first",
    )


def _folder() -> Path:
    return Path(__file__).with_name("migrations")


def _refuse_planted(file: Path) -> None:
    """Raise StateError if the file, its log or its index is a link or a FIFO.

    SQLite creates the log and its index with the file's mode, whatever the umask (`findCreateFileMode`, os_unix.c).
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
            raise planted(path)


def _prepare(
    folder: StateFolder, file: Path, connection: sqlite3.Connection, busy_seconds: float, migrates: bool
) -> None:
    connection.row_factory = sqlite3.Row
    found = _version(connection, file)
    if found == 0 or (migrates and _pending(connection, found)):
        # Without the lock, two processes that switch a new file to WAL at the same time would get SQLITE_BUSY without
        # waiting.
        def before(version: int) -> None:
            if version:  # a new file needs neither of these two steps
                _refuse_running(folder, file)
                _keep_copy(folder, file, version)

        with folder.locked("state", "schema", busy_seconds):
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            _migrate(connection, file, before)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
    connection.execute("PRAGMA foreign_keys = ON")


def _version(connection: sqlite3.Connection, file: Path) -> int:
    # one statement, so that all three values are from the same time, because another process may be creating the file
    version, owner, filled = connection.execute(
        "SELECT v.user_version, a.application_id, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_user_version v, pragma_application_id a"
    ).fetchone()
    known = len(migrations())
    if filled and owner != APPLICATION_ID:
        raise StateError(f"state file {file} is another program's database", "set [state] dir to another folder")
    if version > known:
        raise StateError(
            f"state file {file} was written by a newer slotkeeper (schema {version}, this version supports {known})",
            f"use that newer slotkeeper, or another state folder; {WAY_OUT}",
        )
    return int(version)


def _pending(connection: sqlite3.Connection, found: int) -> list[tuple[int, str]]:
    """Return the schema versions that the file lacks, with their statements, in order.

    Before version 5, one version number had different tables in different releases; such a file first gets version 1.
    """
    steps = list(enumerate(migrations(), 1))
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    renamed = connection.execute("SELECT 1 FROM pragma_table_info('jobs') WHERE name = 'wanted'").fetchone()
    regular = renamed and ("frames" if found == 1 else "tables_wanted") in names
    if not found or regular:
        return steps[found:]
    earlier = [_folder() / "earlier" / name for name in ("wanted.sql", "unnumbered.sql")[bool(renamed) :]]
    return [(1, "".join(file.read_text(encoding="utf-8") for file in earlier)), *steps[1:]]


def _migrate(connection: sqlite3.Connection, file: Path, before: Callable[[int], None]) -> None:
    """Apply each missing version and record its number in one transaction; create a new file in one transaction.

    A process that opens a new file at the same time finds it either empty or complete, never with an older version.
    `before` is called with the version found, before the first change and with the write lock held.
    """
    untouched = True
    while True:
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = _version(connection, file)
            pending = _pending(connection, found)
            if pending and untouched:
                before(found)
                untouched = False
            for version, script in pending[:1] if found else pending:
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if len(pending) < 2 or not found:
            return


def _refuse_running(folder: StateFolder, file: Path) -> None:
    """Raise StateError while a supervisor holds its lock, because its driver writes the tables of the older version."""
    running = sorted(
        path.name.removesuffix(".supervisor")
        for path in (folder.path / "locks").glob("*.supervisor")
        if folder.is_locked(path.name.removesuffix(".supervisor"), "supervisor")
    )
    if running:
        raise StateError(
            f"state file {file} was written by an older slotkeeper, which still runs job {safe(running[0], 80)}",
            f"`slotkeeper jobs stop {safe(running[0], 80)}`, then repeat this command, which stores a copy"
            " and migrates the file",
        )


def _keep_copy(folder: StateFolder, file: Path, version: int) -> None:
    """Copy the current file to a file whose name contains the version; only the newest copies are retained."""
    kept = file.with_name(f"{file.name}.version-{version}")
    new = kept.with_name(f"{kept.name}.new")
    folder.remove(new)
    os.close(folder.append(new))
    with closing(sqlite3.connect(file)) as living, closing(sqlite3.connect(new)) as copy:
        living.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    try:
        new.replace(kept)
        flushed(folder.path)
    except OSError as error:
        raise cannot_write(kept, error) from error
    copies = [one for one in file.parent.glob(f"{file.name}.version-*") if re.fullmatch(r".*-\d+", one.name)]
    for one in sorted(copies, key=lambda one: one.stat().st_mtime)[:-KEPT_COPIES]:
        with suppress(StateError):
            folder.remove(one)


def _statements(script: str) -> list[str]:
    """Return the statements of a script, one by one, because `executescript` would commit the open transaction."""
    found, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found
