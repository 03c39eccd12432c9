"""What the state store gives back, as values, and how those values are written in its columns.

The columns' types are kept by SQLite (STRICT tables, https://www.sqlite.org/stricttables.html); states, times and JSON
are not: a row that cannot be a value of ours ends in one clear line.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from slotkeeper.core.domain.job import JobState, TableReport, WantedState
from slotkeeper.core.domain.locks import Blocker, LockWait
from slotkeeper.core.domain.report import Condition, Identity, JobReport, LaneReport
from slotkeeper.core.domain.text import safe
from slotkeeper.core.redaction import masked_values
from slotkeeper.core.state.faults import WAY_OUT, StateError

_Row = TypeVar("_Row", JobReport, LaneReport, TableReport, Condition, LockWait, Blocker, Identity)
_KINDS = (JobReport, LaneReport, TableReport, Condition, LockWait, Blocker, Identity)
_FIELDS: dict[type, set[str]] = {kind: {each.name for each in fields(kind)} for kind in _KINDS}


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job as the store knows it; `run` is its newest run or "" where it was never started."""

    name: str
    state: JobState
    wanted: WantedState
    config: str
    reason: str
    trouble: str
    safe: str
    run: str
    changed_at: datetime
    report: JobReport | None
    reported_at: datetime | None


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
    """One kind of error of a job: equal side, code and message (numbers apart) count as one."""

    job: str
    signature: str
    count: int
    first_at: datetime
    last_at: datetime
    side: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something that happened to a job; `event` is a key of a fixed list, `text` is for people."""

    id: int
    at: datetime
    job: str
    event: str
    text: str


def moment(seconds: float | None) -> datetime | None:
    """A stored time as UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


def identity_text(identity: Identity | None) -> str | None:
    """An identity as a column holds it."""
    return None if identity is None else json.dumps(asdict(identity))


def report_text(report: JobReport) -> str:
    """A report as a column holds it."""
    return json.dumps(masked_values(asdict(report)))


def report_from(text: str) -> JobReport:
    """A report from its column; keys that this version does not know are left out."""
    found = json.loads(text)
    lanes = tuple(_known(LaneReport, lane) for lane in found.pop("lanes", ()))
    tables = tuple(_known(TableReport, table) for table in found.pop("tables", ()))
    conditions = tuple(
        _known(Condition, {**condition, "lanes": tuple(condition["lanes"])})
        for condition in found.pop("conditions", ())
    )
    waits = tuple(lock_wait_from(wait) for wait in found.pop("lock_waits", ()))
    made = {"lanes": lanes, "tables": tables, "conditions": conditions, "lock_waits": waits}
    return _known(JobReport, {**found, **made})


def lock_wait_from(found: dict[str, Any]) -> LockWait:
    """A wait from what `asdict` made of it; keys that this version does not know are left out."""
    blockers = tuple(_known(Blocker, blocker) for blocker in found.pop("blockers", ()))
    return _known(LockWait, {**found, "blockers": blockers})


def job_from(row: sqlite3.Row) -> JobRow:
    """A job from its row joined with its report."""
    states = {"state": JobState(row["state"]), "wanted": WantedState(row["wanted"])}
    times = {"changed_at": _required(row["changed_at"]), "reported_at": moment(row["reported_at"])}
    report = None if row["report"] is None else report_from(row["report"])
    return JobRow(**{**dict(row), **states, **times, "report": report})


def run_from(row: sqlite3.Row) -> RunRow:
    """A run from its row."""
    processes = {"supervisor": _identity(row["supervisor"]), "driver": _identity(row["driver"])}
    times = {"started_at": _required(row["started_at"]), "ended_at": moment(row["ended_at"])}
    return RunRow(**{**dict(row), **processes, **times})


def error_from(row: sqlite3.Row) -> ErrorRow:
    """An error from its row."""
    times = {"first_at": _required(row["first_at"]), "last_at": _required(row["last_at"])}
    return ErrorRow(**{**dict(row), **times})


def event_from(row: sqlite3.Row) -> EventRow:
    """An event from its row."""
    return EventRow(**{**dict(row), "at": _required(row["at"])})


def _required(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def _identity(text: str | None) -> Identity | None:
    return None if text is None else _known(Identity, json.loads(text))


def _known(kind: type[_Row], found: dict[str, Any]) -> _Row:
    if not isinstance(found, dict):
        raise ValueError(f"a {kind.__name__} is {type(found).__name__}")
    names = _FIELDS[kind]
    return checked(kind(**(found if found.keys() <= names else {name: found[name] for name in found.keys() & names})))


_Value = TypeVar("_Value")
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
        raise StateError(f"state file {file} holds {what} that cannot be: {text}", WAY_OUT, cause=text) from error


def checked(value: _Value) -> _Value:
    """The value itself, each of whose fields is of the type that it is written with; ValueError where one is not."""
    for name, kinds in kinds_of(cast(Hashable, type(value))):
        found = getattr(value, name)
        if not isinstance(found, kinds):
            raise ValueError(f"{name} is {found!r}")
    return value


@cache
def kinds_of(kind: Hashable) -> tuple[tuple[str, tuple[type, ...]], ...]:
    """The fields of a dataclass with the classes that each may be of; none where it is no dataclass."""
    if not hasattr(kind, "__dataclass_fields__"):
        return ()
    return tuple((name, _classes(hint)) for name, hint in get_type_hints(cast(type, kind)).items())


def _classes(hint: Any) -> tuple[type, ...]:
    """
    >>> _classes(float | None), _classes(tuple[int, ...])
    ((<class 'float'>, <class 'int'>, <class 'NoneType'>), (<class 'tuple'>,))
    """
    if isinstance(hint, UnionType):
        return tuple(one for part in get_args(hint) for one in _classes(part))
    if hint is float:
        return float, int
    return (get_origin(hint) or hint,)
