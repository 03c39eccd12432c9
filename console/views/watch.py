"""The six lines of `slotkeeper watch`: state, wrong, do, how far behind, the copy, what happened last.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.views.jobs import part_in, what_is_safe, what_is_wrong, worst_dn
from slotkeeper.console.views.rows import age, beside, count
from slotkeeper.core.domain.text import safe
from slotkeeper.core.state.rows import EventRow

LINES = 6


def list_lines(job: JobFacts, events: Sequence[EventRow], now: datetime) -> list[tuple[Level, str]]:
    """Six lines, whatever is known."""
    state = job.state.value if job.state else "never started"
    seen = "nothing reported yet" if job.reported_at is None else f"report {age(job.reported_at, now)} old"
    glyph = "" if job.level is Level.FINE else f"{job.level.value} "
    return [
        (job.level, f"{glyph}{safe(job.name, 60)}  {state}   {now:%H:%M:%S} UTC   {seen}"),
        (job.level, f"wrong   {what_is_wrong(job)}"),
        (Level.FINE, f"do      {what_is_safe(job)}"),
        (Level.FINE, _behind(job)),
        (Level.FINE, _copied(job)),
        (Level.REST, _last(events)),
    ]


def _behind(job: JobFacts) -> str:
    report = job.report
    lanes = "?" if report is None or not report.lanes else str(len(report.lanes))
    applied = count(report.changes) if report else "?"
    unit = f" {report.unit}" if report and report.unit else ""
    return (
        f"behind  {count(job.behind)}{unit}, worst {part_in(job)} {worst_dn(job)} of {lanes}; events applied {applied}"
    )


def _copied(job: JobFacts) -> str:
    report = job.report
    if report is None or not report.chunks_total:
        return "copy    none in this run"
    rows = count(report.snapshot_rows)
    return f"copy    chunks {count(report.chunks_done)} of {count(report.chunks_total)}, rows {rows}"


def _last(events: Sequence[EventRow]) -> str:
    if not events:
        return "last    nothing happened yet"
    one = events[0]
    said = f": {text}" if (text := safe(beside(one.event, one.text), 200)) else ""
    return f"last    {one.at:%H:%M:%S} {safe(one.event, 40)}{said}"
