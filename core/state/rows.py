"""Values that the state store returns, and the format of these values in its columns.

SQLite enforces the columns' types (STRICT tables, https://www.sqlite.org/stricttables.html), but not states, times and
JSON; an invalid row raises a one-line error.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from slotkeeper.core import codec
from slotkeeper.core.domain.field import Positive
from slotkeeper.core.domain.report import Identity, JobReport, JobStatus
from slotkeeper.core.domain.text import safe
from slotkeeper.core.redaction import masked_json
from slotkeeper.core.state.faults import WAY_OUT, StateError

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of a job, across restarts of its driver; `exit_code` is what the last driver recorded or returned.

    `launch` contains the parameters with which the driver is started (JSON of `slotkeeper.core.launch.launch.Launch`),
    so that a supervisor that adopts a driver starts the next driver in the same way.
    """

    run: str
    job: str
    launch: str
    supervisor: Identity | None
    driver: Identity | None
    started_at: datetime
    ended_at: datetime | None
    exit_code: int | None
    outcome: str


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One kind of error; errors whose side, code and message are the same except for numbers are counted together."""

    job: str
    """The job's name."""
    signature: str
    """Hash of side, code and message without numbers; it is the same for all errors of one kind."""
    count: Positive
    """Number of occurrences."""
    first_at: datetime
    """Time of the first occurrence."""
    last_at: datetime
    """Time of the last occurrence."""
    side: str
    """Origin of the error: source, sink, spark, or empty."""
    code: str
    """The server's SQLSTATE, or Slotkeeper's own code if no server returned a code."""
    message: str
    """Message of the newest occurrence."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of a job."""

    id: int
    """Number of the event; later events have higher numbers."""
    at: datetime
    """Time of the event."""
    job: str
    """The job's name."""
    event: str
    """A name from a fixed list (`slotkeeper docs states`), or the requested action."""
    text: str
    """Details of the event, as text."""


def moment(seconds: float | None) -> datetime | None:
    """Convert a stored time to UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


def identity_text(identity: Identity | None) -> str | None:
    return None if identity is None else codec.text_of(identity)


def report_text(report: JobReport) -> str:
    return masked_json(codec.values_of(report))


def _record(kind: type[_Value], *of_json: str) -> Callable[[sqlite3.Row], _Value]:
    """Return a function that converts a row to a record of this kind; the columns in `of_json` contain JSON."""

    def made(row: sqlite3.Row) -> _Value:
        values = dict(row)
        for name in of_json:
            if values[name] is not None:
                values[name] = json.loads(values[name])
                if values[name] is None:
                    raise ValueError(f"{name} is null")
        return codec.record_of(kind, values)

    return made


job_from = _record(JobStatus, "report")
"""Converts a job's row joined with its report to the job's status, without the job's processes."""
run_from = _record(RunRow, "supervisor", "driver")
error_from = _record(ErrorRow)
event_from = _record(EventRow)


_IMPOSSIBLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, OSError, RecursionError)
"""Errors raised for an invalid value: an unknown state, a time outside the calendar, or JSON of another structure."""


def values_of(
    file: Path, what: str, make: Callable[[sqlite3.Row], _Value], rows: Iterable[sqlite3.Row]
) -> list[_Value]:
    """Return the values of these rows; raises StateError with the file and `what` if a row is invalid."""
    try:
        return [make(row) for row in rows]
    except _IMPOSSIBLE as error:
        text = safe(str(error), 120) or type(error).__name__
        raise StateError(f"state file {file} contains {what} that is invalid: {text}", WAY_OUT, cause=text) from error
