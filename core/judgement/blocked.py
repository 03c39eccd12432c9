"""Report source sessions that wait for a job: a warning, then critical after 30 s because writers wait as well. Pure.

A job that is reading lets a waiting VACUUM FULL proceed within seconds, so a longer wait needs an action.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault, Party, Severity
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.source_waits import CRITICAL_AFTER, SourceWait, cause, effect, to_do
from slotkeeper.core.domain.text import safe
from slotkeeper.core.judgement.facts import Facts


def blocked(view: JobStatus, facts: Facts, unread: str) -> Iterator[Fault]:
    """Yield one fault per table that has waiting sessions, for the session that has waited longest.

    `unread`: what happens to changes that the job does not read.
    """
    waits = view.report.source_waits if view.report is not None else ()
    for table in dict.fromkeys(one.table for one in waits):
        yield _fault(min((one for one in waits if one.table == table), key=lambda one: one.since), view, facts, unread)


def _fault(wait: SourceWait, view: JobStatus, facts: Facts, unread: str) -> Fault:
    since = datetime.fromtimestamp(wait.since, timezone.utc)
    lasts = elapsed(since, facts.now)
    severity = Severity.CRITICAL if lasts is not None and lasts >= CRITICAL_AFTER else Severity.WARNING
    paused = view.state is JobState.PAUSED
    loses = f"; the paused job applies nothing, and {unread}" if paused else ""
    return Fault(
        "source_blocked", Party.LOCK, "a wait in the source", severity, safe(cause(wait, None), 600),
        effect(wait) + loses, safe(to_do(wait, {view.name: paused}), 600), since, view.name, wait.table,
        f"{wait.table} {wait.waiter.pid}", "hidden" if wait.behind is None else str(wait.behind),
    )  # fmt: skip
