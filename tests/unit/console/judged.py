"""Jobs as the console shows them, judged from the given facts."""

from __future__ import annotations

from datetime import datetime

from slotkeeper.console.monitor.health import facts
from slotkeeper.console.monitor.snapshot import JobFacts, Local
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.judgement.facts import Facts, JobSeen, Machine, SlotSeen
from slotkeeper.core.judgement.judge import judge


def shown(*views: JobStatus, now: datetime, slots: tuple[SlotSeen, ...] = (), **more: object) -> Local:
    """These jobs with their faults; `limit` is their `quarantine_limit`, `more` are fields of `Machine`."""
    limit = more.pop("limit", None)
    seen = tuple(JobSeen(view, quarantine_limit=limit) for view in views)  # type: ignore[arg-type]
    resets = more.pop("resets", ())
    faults = judge(Facts(now, seen, slots, Machine(**more), resets=resets))  # type: ignore[arg-type]
    return Local(now, tuple(facts(view, faults, now) for view in views), faults=faults)


def stands(view: JobStatus, now: datetime) -> JobFacts:
    """Return the state of a job at that moment, from its own report only."""
    return facts(view, judge(Facts(now, (JobSeen(view),))), now)
