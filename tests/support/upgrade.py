"""Data of earlier versions: the fixtures of `tests/fixtures/upgrade`, as files and tables."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import FILE_NAME

FIXTURES = Path(__file__).parents[1] / "fixtures" / "upgrade"
COMMITS = ("41bb8e69", "7f5457e0")
JOB = "orders_rt"


def state_folder(commit: str, path: Path) -> StateFolder:
    """A state folder with the file that a version of that commit wrote while its job was running."""
    folder = StateFolder.open(path)
    file = folder.path / FILE_NAME
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((FIXTURES / commit / "state.sql").read_text())
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    file.chmod(0o600)
    return folder


def sink_statements(commit: str) -> list[str]:
    """DDL and rows of Slotkeeper's tables in the sink, as created by the version of that commit."""
    return (FIXTURES / commit / "sink.sql").read_text().split(";\n")[:-1]


def statements_on_demand(commit: str) -> list[str]:
    """The tables that a version makes when it first needs them, by its own DDL, each with a row."""
    return (FIXTURES / commit / "made_on_demand.sql").read_text().split(";\n")[:-1]


def asked(file: Path, statement: str) -> list[tuple[object, ...]]:
    """Return the rows of a statement on a SQLite file."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(statement).fetchall()


def version(file: Path) -> int:
    return int(str(asked(file, "PRAGMA user_version")[0][0]))


def content(file: Path) -> str:
    with closing(sqlite3.connect(file)) as connection:
        return hashlib.sha256("\n".join([str(version(file)), *connection.iterdump()]).encode()).hexdigest()
