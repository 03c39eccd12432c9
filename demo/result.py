"""The result of a demo as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from slotkeeper.core.domain.job import JobEvent

if TYPE_CHECKING:
    from slotkeeper.core.state.rows import EventRow

_WORDS = {
    "rows_source": ("rows in the source", ""),
    "rows_sink": ("rows in the sink", ""),
    "changes_written": ("changes written to the source", ""),
    "changes_applied": ("changes applied in the sink", ""),
    "changes_by_kind.insert": ("  rows inserted", ""),
    "changes_by_kind.update": ("  rows updated", ""),
    "changes_by_kind.delete": ("  rows deleted", ""),
    "changes_by_kind.key_change": ("  rows whose key changed", ""),
    "duplicates": ("applied more than once", ""),
    "missing": ("missing from the sink", ""),
    "different": ("rows that differ", ""),
    "dns": ("data nodes", ""),
    "snapshot_rows": ("rows in the snapshot", ""),
    "snapshot_rows_per_s": ("snapshot rate", "rows/s"),
    "stream_rows_per_s": ("apply rate", "changes/s"),
    "latency_ms.p50": ("commit to sink, p50", "ms"),
    "latency_ms.p99": ("commit to sink, p99", "ms"),
    "spark.start_s": ("time to start the job", "s"),
    "spark.tasks_started": ("Spark tasks started", ""),
    "duration_s": ("total duration", "s"),
    "seed": ("workload seed", ""),
    "source": ("source", ""),
    "sink": ("sink", ""),
    "sink_cannot_prove": ("not proven with this sink", ""),
    "incident": ("incident", ""),
    "t0": ("incident started", ""),
    "shown_at": ("detected at", ""),
    "shown_after_s": ("detected after", "s"),
    "signal": ("symptom", ""),
    "state": ("job state", ""),
    "why": ("reason", ""),
}
_OF_SCRIPTS = ("ok", "verified", "log")
"""Values that the sentence or a line on stderr already shows."""
_OUTCOMES = {
    "refused": ("the command was rejected, as expected", "the command was NOT rejected"),
    "cured": ("fixed as described in the runbook", "NOT fixed"),
}
_VIEW = ("equal to its SELECT", "NOT equal to its SELECT")


def sentence(found: Mapping[str, object]) -> str:
    """Return the verdict in one sentence; empty if the tables were not compared.

    >>> sentence({"verified": True, "rows_source": 1200, "rows_sink": 1200})
    'Both tables are equal: 1,200 rows, each change applied exactly once.'
    >>> sentence({"verified": False, "missing": 2, "duplicates": 0, "different": 1})
    'The tables are NOT equal: 2 missing, 0 applied more than once, 1 different.'
    """
    if "verified" not in found:
        return ""
    if found["verified"]:
        return f"Both tables are equal: {_shown(found['rows_source'])} rows, each change applied exactly once."
    views = found.get("views")
    wrong = [one["view"] for one in views if not one["equal"]] if isinstance(views, list) else []
    if wrong:
        return f"NOT equal to its SELECT: {', '.join(wrong)}."
    counts = [_shown(found.get(name)) for name in ("missing", "duplicates", "different")]
    return "The tables are NOT equal: {} missing, {} applied more than once, {} different.".format(*counts)


def rows(found: Mapping[str, object]) -> Iterator[tuple[str, str | datetime]]:
    """Yield the figures as (label, value with its unit).

    >>> list(rows({"verified": True, "latency_ms": {"p99": None}, "dns": 4, "cured": False, "why": ["a", "b"]}))
    [('commit to sink, p99', 'unknown'), ('data nodes', '4'), ('outcome', 'NOT fixed'), ('reason', 'a; b')]
    >>> list(rows({"state": "RUNNING", "why": None, "sink_cannot_prove": None}))
    [('job state', 'RUNNING')]
    """
    for name, value in found.items():
        if name in _OF_SCRIPTS or (name == "sink_cannot_prove" and not value):
            continue
        if name in _OUTCOMES:
            yield "outcome", _OUTCOMES[name][not value]
        elif name == "views" and isinstance(value, list):
            yield from ((f"view {one['view']}", _VIEW[not one["equal"]]) for one in value)
        elif isinstance(value, Mapping):
            yield from (_row(f"{name}.{inner}", one) for inner, one in value.items())
        elif name != "why" or (value and not ("verified" in found and isinstance(value, str))):
            yield _row(name, value)


def _row(name: str, value: object) -> tuple[str, str | datetime]:
    words, unit = _WORDS.get(name, (name.replace("_", " ").replace(".", " "), ""))
    if isinstance(value, datetime):
        return words, value
    shown = _shown(value)
    return words, f"{shown} {unit}" if unit and value is not None else shown


def _shown(value: object) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "-"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,.0f}" if value >= 100 else f"{value:,}"
    return str(getattr(value, "value", value))


def copy_rate(events: Iterable[EventRow], rows: int) -> float | None:
    """Return a copy's rows per second, measured between the job's events for its start and end; `events` are newest
    first.
    """
    at = {one.event: one.at for one in reversed(list(events))}
    began, done = at.get(JobEvent.COPY_BEGAN.value), at.get(JobEvent.COPY_DONE.value)
    if began is None or done is None or done <= began:
        return None
    return round(rows / (done - began).total_seconds(), 1)
