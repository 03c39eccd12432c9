"""What can go wrong with the state store, told with the file's name and the way out.

Next door: `core.state.sqlite` runs its statements inside `translated`; `core.state.folder` refuses unsafe folders.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import Busy, Refused


class StateError(Refused):
    """The state folder or its file cannot be used; the message names it, the hint says the way out."""


WAY_OUT = (
    "no position is lost with it (that is the progress row in the sink): stop the jobs, move the file away "
    "with its -wal and -shm, and start the jobs again"
)
"""What to do about a state file that cannot be read."""


@contextmanager
def translated(file: Path) -> Iterator[None]:
    """Raise SQLite's errors as ours: Busy where waiting helps, StateError with the file's name otherwise."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "") or type(error).__name__
        text = str(error)
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise Busy(f"state file {file} is locked by another process", code=code, cause=text) from error
        if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")) or "malformed" in text:
            raise StateError(f"state file {file} is damaged: {text}", WAY_OUT, code, cause=text) from error
        if code.startswith("SQLITE_FULL"):
            raise StateError(f"no room to write state file {file}", "free disk space", code, cause=text) from error
        if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR", "SQLITE_AUTH")):
            hint = "check the folder's owner, rights and disk; WAL needs a local file system"
            raise StateError(f"state file {file} cannot be used: {text}", hint, code, cause=text) from error
        raise StateError(f"state file {file}: {text}", WAY_OUT, code, cause=text) from error
