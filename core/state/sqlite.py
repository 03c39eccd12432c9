"""The state store: data about the jobs of this host, shared by consoles, supervisors and drivers.

The store is one SQLite file in WAL mode; every change is one short transaction that takes the write lock first, so that
processes do not overwrite each other's changes. The sink's progress rows, not the store, are authoritative for
positions.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.job import WITH_PROCESS, JobEvent, JobState, WantedState, transition
from slotkeeper.core.domain.report import Identity, JobReport, JobStatus
from slotkeeper.core.domain.text import safe as visible
from slotkeeper.core.errors import Refused
from slotkeeper.core.state import schema
from slotkeeper.core.state.faults import StateError, translated
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.rows import (
    ErrorRow,
    EventRow,
    RunRow,
    error_from,
    event_from,
    identity_text,
    job_from,
    report_text,
    run_from,
    values_of,
)

_Value = TypeVar("_Value")
FILE_NAME = "state.sqlite3"
BUSY_SECONDS = 10.0
READING_SECONDS = 3.0
"""Seconds that a read-only command waits for a lock, so that it ends within 10 s although another process holds it."""
KEPT_EVENTS = 1_000
KEPT_ERRORS = 200
KEPT_RUNS = 100

_JOBS = "SELECT j.*, r.report, r.reported_at FROM jobs j LEFT JOIN reports r ON r.job = j.name"


class Store:
    """The state store; several threads can share one object, and several processes can share one file."""

    def __init__(self, folder: StateFolder, connection: sqlite3.Connection, clock: Clock) -> None:
        self.folder = folder
        self.file = folder.path / FILE_NAME
        self._file_connection = connection
        self._view: sqlite3.Connection | None = None
        self._seen: int | None = -1
        """SQLite's data version of the file when `_view` was copied; None once the file itself is read."""
        self._clock = clock
        self._one_at_a_time = threading.RLock()

    @classmethod
    def open(
        cls, folder: Path, group: str = "", clock: Clock | None = None, migrates: bool = False, reads_only: bool = False
    ) -> Store:
        """Open the store of a folder, created if missing; raises StateError if the folder or the file cannot be used.

        If `migrates` is true, a file with an older version is migrated, and a copy of the file is retained; otherwise
        the file is only read. If `reads_only` is true, the store waits for other processes' locks only for
        `READING_SECONDS`.
        """
        checked = StateFolder.open(folder, group)
        seconds = READING_SECONDS if reads_only else BUSY_SECONDS
        connection = schema.connect(checked, checked.path / FILE_NAME, seconds, migrates)
        return cls(checked, connection, clock or SystemClock())

    @classmethod
    def existing(cls, folder: Path) -> Store:
        """Open the existing store of a folder, creating nothing; raises StateError if it is missing, or like `open`."""
        checked = StateFolder.existing(folder)
        if checked is None or not (checked.path / FILE_NAME).exists():
            what = f"state folder {folder}" if checked is None else f"state file {checked.path / FILE_NAME}"
            hint = "the first `slotkeeper jobs start` creates it; --state-dir DIR names another folder"
            raise StateError(f"{what} does not exist: no job is known", hint)
        return cls.open(folder, reads_only=True)

    @classmethod
    def looked_at(cls, folder: Path) -> Store:
        """Open a folder's store for a read-only command, or an empty in-memory store if missing; create no files."""
        checked = StateFolder.looked_at(folder)
        if (checked.path / FILE_NAME).exists():
            return cls.open(folder, reads_only=True)
        return cls(checked, schema.empty(checked.path / FILE_NAME), SystemClock())

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        with self._one_at_a_time:
            if self._view is not None:
                self._view.close()
            self._file_connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Jobs

    def register_job(self, job: str, config: str) -> None:
        """Add a job as STOPPED and never started, or record the configuration file with which it is now started."""
        self.folder.log(job)
        with self.write() as sql:
            sql.execute(
                "INSERT INTO jobs (name, state, wanted, config, reason, changed_at) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET config = excluded.config",
                (job, JobState.STOPPED.value, WantedState.STOP.value, config, "never started", self.now()),
            )

    def job(self, name: str) -> JobStatus | None:
        found = self.values(f"a job {visible(name, 80)!r}", job_from, f"{_JOBS} WHERE j.name = ?", name)
        return found[0] if found else None

    def jobs(self) -> list[JobStatus]:
        return self.values("a job", job_from, f"{_JOBS} ORDER BY j.name")

    def set_wanted(self, job: str, wanted: WantedState) -> None:
        with self.write() as sql:
            self._known(sql, job)
            sql.execute("UPDATE jobs SET wanted = ? WHERE name = ?", (wanted.value, job))

    def wanted(self, job: str) -> WantedState:
        return self._of_job(job, lambda row: WantedState(row["wanted"]), "SELECT wanted FROM jobs WHERE name = ?")

    def state(self, job: str) -> JobState:
        """Return the state of the job without its report, for callers that read it several times per second."""
        return self._of_job(job, lambda row: JobState(row["state"]), "SELECT state FROM jobs WHERE name = ?")

    def set_state(self, job: str, state: JobState, reason: str = "", trouble: str = "", safe: str = "") -> None:
        """Write a state as given; a CANCELLED job is not changed."""
        with self.write() as sql:
            if self._known(sql, job) is not JobState.CANCELLED:
                self._put_state(sql, job, state, reason, trouble, safe)

    def apply(self, job: str, event: JobEvent, reason: str = "", trouble: str = "", safe: str = "") -> JobState:
        """Read the state, apply the event, and write the new state in one transaction, so that no event is lost."""
        with self.write() as sql:
            after = transition(self._known(sql, job), event)
            self._put_state(sql, job, after, reason, trouble, safe)
            return after

    def put_report(self, report: JobReport) -> bool:
        """Store a driver's newest report and state; if the job has a newer run or has ended, return False instead.

        A report never changes the state of a job that its supervisor has recorded as STOPPED or FAILED.
        """
        with self.write() as sql:
            state = self._known(sql, report.job)
            open_run = sql.execute(
                "SELECT 1 FROM jobs j JOIN runs r ON r.run = j.run"
                " WHERE j.name = ? AND j.run = ? AND r.ended_at IS NULL",
                (report.job, report.run),
            ).fetchone()
            if open_run is None or state not in WITH_PROCESS:
                return False
            self._put_state(sql, report.job, JobState(report.state), report.reason, report.trouble, report.safe)
            sql.execute(
                "INSERT INTO reports (job, report, reported_at) VALUES (?, ?, ?) ON CONFLICT (job) DO UPDATE"
                " SET report = excluded.report, reported_at = excluded.reported_at",
                (report.job, report_text(report), self.now()),
            )
            return True

    # Runs

    def begin_run(self, job: str, run: str, launch: str = "", unasked: bool = False) -> bool:
        """Record a new run, state PENDING and desired state RUN in one transaction; raise Refused if the job is active.

        `unasked` means that no user requested this start by name: nothing is started, and False is returned, if the
        desired state is stop or pause.
        """
        with self.write() as sql:
            wanted = sql.execute("SELECT wanted FROM jobs WHERE name = ?", (job,)).fetchone()
            if unasked and wanted is not None and wanted[0] != WantedState.RUN.value:
                return False
            after = transition(self._known(sql, job), JobEvent.START)
            self._put_state(sql, job, after, "", "", "")
            sql.execute("UPDATE jobs SET run = ?, wanted = ? WHERE name = ?", (run, WantedState.RUN.value, job))
            sql.execute(
                "INSERT INTO runs (run, job, launch, started_at) VALUES (?, ?, ?, ?)", (run, job, launch, self.now())
            )
            sql.execute(
                "DELETE FROM runs WHERE job = ? AND rowid <= (SELECT rowid FROM runs WHERE job = ?"
                " ORDER BY rowid DESC LIMIT 1 OFFSET ?)",
                (job, job, KEPT_RUNS),
            )
        return True

    def end_run(self, run: str, exit_code: int | None, outcome: str) -> None:
        """Record the end of a run unless an end is already recorded."""
        self._execute(
            "UPDATE runs SET ended_at = ?, exit_code = coalesce(?, exit_code), outcome = ?"
            " WHERE run = ? AND ended_at IS NULL",
            self.now(), exit_code, visible(outcome), run,
        )  # fmt: skip

    def set_supervisor(self, run: str, identity: Identity) -> None:
        self._execute("UPDATE runs SET supervisor = ? WHERE run = ?", identity_text(identity), run)

    def set_driver(self, run: str, identity: Identity) -> None:
        """Record this run's driver; called by the process that started the driver and by the driver itself."""
        self._execute(
            "UPDATE runs SET driver = ?1, exit_code = CASE WHEN driver = ?1 THEN exit_code END WHERE run = ?2",
            identity_text(identity), run,
        )  # fmt: skip

    def note_exit(self, run: str, code: int) -> None:
        """Record the exit code of a driver, for a supervisor that is not the driver's parent process."""
        self._execute("UPDATE runs SET exit_code = ? WHERE run = ?", code, run)

    def run(self, run: str) -> RunRow | None:
        found = self.values("a run", run_from, "SELECT * FROM runs WHERE run = ?", run)
        return found[0] if found else None

    def runs(self, job: str) -> list[RunRow]:
        """Return a job's runs, newest first."""
        return self.values("a run", run_from, "SELECT * FROM runs WHERE job = ? ORDER BY rowid DESC", job)

    # Errors and events

    def record_error(self, job: str, side: str, code: str, message: str) -> None:
        """Record one occurrence of an error; unsafe bytes in the message are escaped before it is stored."""
        shown = visible(message)
        import hashlib  # loads OpenSSL, which reading a store does not need

        signature = hashlib.sha256(f"{side}\x1f{code}\x1f{re.sub(r'[0-9]+', '#', shown)}".encode()).hexdigest()[:16]
        now = self.now()
        with self.write() as sql:
            sql.execute(
                "INSERT INTO errors (job, signature, count, first_at, last_at, side, code, message)"
                " VALUES (?, ?, 1, ?, ?, ?, ?, ?) ON CONFLICT (job, signature) DO UPDATE"
                " SET count = count + 1, last_at = excluded.last_at, message = excluded.message",
                (job, signature, now, now, visible(side), visible(code), shown),
            )
            sql.execute(
                "DELETE FROM errors WHERE job = ? AND signature NOT IN"
                " (SELECT signature FROM errors WHERE job = ? ORDER BY last_at DESC, rowid DESC LIMIT ?)",
                (job, job, KEPT_ERRORS),
            )

    def errors(self, job: str) -> list[ErrorRow]:
        """Return a job's errors, most recent first."""
        wanted = "SELECT * FROM errors WHERE job = ? ORDER BY last_at DESC, rowid DESC"
        return self.values("an error", error_from, wanted, job)

    def record_event(self, job: str, event: str, text: str = "") -> None:
        """Record an event; only the newest thousand are retained."""
        with self.write() as sql:
            sql.execute(
                "INSERT INTO events (job, at, event, text) VALUES (?, ?, ?, ?)",
                (job, self.now(), visible(event, 80), visible(text)),
            )
            sql.execute(
                "DELETE FROM events WHERE job = ? AND id <= (SELECT id FROM events WHERE job = ?"
                " ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (job, job, KEPT_EVENTS),
            )

    def events(self, job: str, limit: int = 100) -> list[EventRow]:
        """Return a job's newest events, newest first."""
        wanted = "SELECT * FROM events WHERE job = ? ORDER BY id DESC LIMIT ?"
        return self.values("an event", event_from, wanted, job, limit)

    # Internals, also for the modules `frames`, `observed` and `steering`, whose tables are in the same file

    def now(self) -> float:
        """Return the current time of this host in the format of the columns."""
        return self._clock.utc().timestamp()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run one short transaction that holds the write lock; it is rolled back if an exception is raised."""
        with self._one_at_a_time, translated(self.file):
            if self._current() is self._view:
                raise schema.refusal(self._file_connection, self.file)
            sql = self._file_connection
            sql.execute("BEGIN IMMEDIATE")
            try:
                yield sql
                sql.execute("COMMIT")
            except BaseException:
                if sql.in_transaction:
                    sql.execute("ROLLBACK")
                raise

    def _execute(self, statement: str, *values: object) -> None:
        with self.write() as sql:
            sql.execute(statement, values)

    def read(self, statement: str, *values: object) -> list[sqlite3.Row]:
        with self._one_at_a_time, translated(self.file):
            return self._current().execute(statement, values).fetchall()

    def _current(self) -> sqlite3.Connection:
        """Return the database to read: the file, or an in-memory copy as long as the file has an older version.

        The copy is renewed when the file has changed (SQLite, PRAGMA data_version), for example by a migration.
        """
        if self._seen is None:
            return self._file_connection
        (changed,) = self._file_connection.execute("PRAGMA data_version").fetchone()
        if changed != self._seen:
            if self._view is not None:
                self._view.close()
                self._view = None
            if schema.older(self._file_connection, self.file):
                self._view = schema.view_of(self._file_connection, self.file)
            self._seen = changed if self._view is not None else None
        return self._view or self._file_connection

    def values(self, what: str, make: Callable[[sqlite3.Row], _Value], statement: str, *values: object) -> list[_Value]:
        """Return the rows of a statement as values; raises StateError with `what` if a row is invalid."""
        return values_of(self.file, what, make, self.read(statement, *values))

    def _of_job(self, job: str, make: Callable[[sqlite3.Row], _Value], statement: str) -> _Value:
        found = self.values(f"a job {visible(job, 80)!r}", make, statement, job)
        if not found:
            raise _unknown(job)
        return found[0]

    def _known(self, sql: sqlite3.Connection, job: str) -> JobState:
        rows = sql.execute("SELECT state FROM jobs WHERE name = ?", (job,)).fetchall()
        if not rows:
            raise _unknown(job)
        return values_of(self.file, f"a job {visible(job, 80)!r}", lambda row: JobState(row["state"]), rows)[0]

    def _put_state(
        self, sql: sqlite3.Connection, job: str, state: JobState, reason: str, trouble: str, safe: str
    ) -> None:
        sql.execute(
            "UPDATE jobs SET changed_at = CASE WHEN state = ?1 THEN changed_at ELSE ?5 END,"
            " state = ?1, reason = ?2, trouble = ?3, safe = ?4 WHERE name = ?6",
            (state.value, visible(reason), visible(trouble, 80), visible(safe), self.now(), job),
        )


def _unknown(job: str) -> Refused:
    return Refused(f"unknown job {visible(job, 80)!r}", "`slotkeeper jobs list` lists the jobs")


__all__ = ["FILE_NAME", "StateError", "Store"]
