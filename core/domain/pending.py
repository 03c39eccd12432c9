"""The reason and duration of the PENDING state of a job or table. Pure."""

from __future__ import annotations

from datetime import datetime, timezone

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState, TableReport
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.ttl import in_words

COPIES = "waits for the copy of "
APART = "starts once the job's already copied tables are streaming"
"""The reason shown for a table that must be copied while other tables stream."""
ITS_LANES = "waits for its first positions in the source and the sink"


def waits_for(view: JobStatus) -> str:
    """Describe what a PENDING job waits for, based on its driver's report if there is one."""
    report = view.report if view.reported else None
    if view.driver is None or not view.driver_alive:
        return "waits for its driver's process"
    if report is None:
        return "waits for the first report of its driver, which starts Spark"
    return view.reason or report.reason or ITS_LANES


def pending_tables(view: JobStatus) -> list[TableReport]:
    if view.state is JobState.PENDING:
        return []
    return [one for one in view.living_tables if one.state == JobState.PENDING.value]


def waits_for_others(table: TableReport) -> bool:
    """Return whether a table waits for other tables of its job (which can take hours) rather than for a server."""
    return table.reason.startswith((COPIES, APART))


def since_of(table: TableReport) -> datetime | None:
    """Return the time at which a table entered its state; None if not recorded."""
    return None if table.since is None else datetime.fromtimestamp(table.since, timezone.utc)


def so_far(since: datetime | None, now: datetime) -> str:
    """Describe the time for which a job or table has been PENDING.

    >>> so_far(datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 12)), so_far(None, datetime(2026, 1, 1))
    ('PENDING for 12s', 'PENDING')
    """
    past = None if since is None else elapsed(since, now)
    return "PENDING" if past is None else f"PENDING for {in_words(past)}"


def said_pending(view: JobStatus, now: datetime) -> str:
    """Describe the duration and reason of the PENDING state of a job or its tables; "" if nothing is PENDING."""
    if view.state is JobState.PENDING:
        return f"{so_far(view.changed_at, now)}, {waits_for(view)}"
    return "; ".join(
        f"{one.source_table} {so_far(since_of(one), now)}, {one.reason or ITS_LANES}" for one in pending_tables(view)
    )
