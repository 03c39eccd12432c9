"""What happened to a job, as letters on an axis of time and as lines that say what each letter is. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

from slotkeeper.console.monitor.series import BEGAN, ENDED, Happened, JobSeries
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.text import safe

_E = JobEvent
LETTERS: dict[str, tuple[str, Level]] = {
    _E.FAILED.value: ("X", Level.CRITICAL),
    _E.CRASHED.value: ("x", Level.CRITICAL),
    _E.GONE.value: ("x", Level.CRITICAL),
    _E.SUPERSEDED.value: ("x", Level.CRITICAL),
    "table FAILED": ("X", Level.CRITICAL),
    _E.RESET.value: ("R", Level.WARNING),
    BEGAN: ("!", Level.WARNING),
    ENDED: ("=", Level.FINE),
    _E.PAUSED.value: ("p", Level.BUSY),
    _E.RESUMED.value: ("r", Level.BUSY),
    _E.STOPPED.value: ("o", Level.REST),
    _E.CANCELLED.value: ("o", Level.REST),
    _E.FINISHED.value: ("e", Level.REST),
    _E.START.value: ("s", Level.BUSY),
    _E.BEGAN.value: ("s", Level.BUSY),
    _E.COPY_BEGAN.value: ("c", Level.BUSY),
    _E.COPY_DONE.value: ("c", Level.BUSY),
    _E.CAUGHT_UP.value: ("u", Level.FINE),
}
"""The letter of an event and how grave it is, the gravest first: where several share a cell that one is shown."""
_ORDER = list(LETTERS)
_ROLES = {Level.CRITICAL: "crit", Level.WARNING: "warn", Level.BUSY: "busy", Level.REST: "rest", Level.FINE: ""}


def marks_row(series: JobSeries, columns: int) -> list[tuple[str, str]]:
    """A letter where something happened, as (text, role) parts; blank where nothing did."""
    cells: list[str] = [""] * columns
    length = series.points * series.every
    for one in _known(series.happened):
        place = int((one.at - series.begins) / length * columns) if length else columns
        if 0 <= place < columns and (not cells[place] or _grave(one.event) < _grave(cells[place])):
            cells[place] = one.event
    parts: list[tuple[str, str]] = []
    for event in cells:
        letter, role = (LETTERS[event][0], _ROLES[LETTERS[event][1]]) if event else (" ", "")
        if parts and parts[-1][1] == role:
            parts[-1] = parts[-1][0] + letter, role
        else:
            parts.append((letter, role))
    return parts


def mark_lines(happened: Iterable[Happened]) -> list[tuple[Level, str]]:
    """What happened, the newest first: when (UTC), its letter, and in words."""
    return [
        (
            LETTERS[one.event][1],
            f"{datetime.fromtimestamp(one.at, timezone.utc):%H:%M:%S}  {LETTERS[one.event][0]}  {one.event}"
            + (f": {safe(one.text, 200)}" if one.text else ""),
        )
        for one in reversed(list(_known(happened)))
    ]


def _grave(event: str) -> int:
    return _ORDER.index(event)


def _known(happened: Iterable[Happened]) -> list[Happened]:
    return [one for one in happened if one.event in LETTERS]
