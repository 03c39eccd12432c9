"""What the state store gives back, as values, and how those values are written in its columns.

The columns' types are kept by SQLite (STRICT tables, https://www.sqlite.org/stricttables.html); states, times and JSON
are not: an invalid row ends in one clear line.
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
from slotkeeper.core.redaction import masked_values
from slotkeeper.core.state.faults import WAY_OUT, StateError

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of a job, across restarts of its driver; `exit_code` is what its last driver noted or returned.

    `launch` is how its driver is started (JSON of `slotkeeper.core.launch.launch.Launch`), so that a supervisor that
    adopts a driver starts the next one in the same way.
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
    """One kind of error: equal side, code and message, numbers apart, count as one."""

    job: str
    """The job's name."""
    signature: str
    """What is equal."""
    count: Positive
    """How often it was seen."""
    first_at: datetime
    """The first time."""
    last_at: datetime
    """The last time."""
    side: str
    """Whose it is: source, sink, spark, or empty."""
    code: str
    """The server's SQLSTATE, or Slotkeeper's own code where no server gave one."""
    message: str
    """The newest one's words."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something that happened to the job."""

    id: int
    """Its number; a later one has a higher."""
    at: datetime
    """When."""
    job: str
    """The job's name."""
    event: str
    """A word of a fixed list (`slotkeeper docs states`), or what was asked."""
    text: str
    """More of it, for people."""


def moment(seconds: float | None) -> datetime | None:
    """A stored time as UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


def identity_text(identity: Identity | None) -> str | None:
    """An identity as a column holds it."""
    return None if identity is None else codec.text_of(identity)


def report_text(report: JobReport) -> str:
    """A report as a column holds it."""
    return json.dumps(masked_values(codec.values_of(report)))


def _record(kind: type[_Value], *of_json: str) -> Callable[[sqlite3.Row], _Value]:
    """What makes a record of its row, in which these columns hold JSON."""

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
"""A job from its row joined with its report, without its processes."""
run_from = _record(RunRow, "supervisor", "driver")
error_from = _record(ErrorRow)
event_from = _record(EventRow)


_IMPOSSIBLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, OSError, RecursionError)
"""What making a value raises: of an unknown state, a time beyond the calendar, JSON of another shape."""


def values_of(
    file: Path, what: str, make: Callable[[sqlite3.Row], _Value], rows: Iterable[sqlite3.Row]
) -> list[_Value]:
    """The values of these rows; StateError, which names the file and `what`, where one of them cannot be."""
    try:
        return [make(row) for row in rows]
    except _IMPOSSIBLE as error:
        text = safe(str(error), 120) or type(error).__name__
        raise StateError(f"state file {file} holds {what} that is invalid: {text}", WAY_OUT, cause=text) from error
