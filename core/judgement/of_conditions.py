"""What a driver knows to be wrong, as faults: which server, DN or lock holds its lanes up, and since when. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone

from core.domain.condition import Condition
from core.domain.elapsed import elapsed
from core.domain.fault import Fault, Party, Severity
from core.domain.job_view import JobView
from core.domain.lane import Activity
from core.domain.lock_wait import Locked, locked
from core.domain.report import JobReport
from core.domain.text import many, safe, typed
from core.judgement.facts import Facts

_RULES = {
    Party.SOURCE: "source_fails", Party.DN: "dn_fails", Party.SINK: "sink_fails", Party.LOCK: "lock_waits",
    Party.PROCESS: "driver_retries",
}  # fmt: skip
_IS_LOCK = re.compile(r"\block\b", re.IGNORECASE)
"""What a sink says where our own limit ended the waiting: "canceling statement due to lock timeout" and its like."""
_DO = {
    Party.SOURCE: "bring it back, or wait: it is tried again, the position stays and nothing is skipped",
    Party.DN: "have the DN brought back, or wait: the others go on, and nothing of it is skipped",
    Party.SINK: "bring it back, or wait: it is tried again, the position stays and nothing is skipped",
    Party.LOCK: "wait for it, or have whoever holds it give it up",
}


def of_conditions(view: JobView, facts: Facts) -> Iterator[Fault]:
    """The conditions of its newest report, and who keeps its sessions out of what is locked."""
    report = view.report
    if report is None:
        return
    for lock in locked(report.lock_waits, facts.now.timestamp()):
        yield _of_lock(lock, view, report, facts)
    for one in report.conditions:
        if not (report.lock_waits and one.party == Party.SINK.value and _IS_LOCK.search(one.cause)):
            yield _fault(one, view, facts, unread_meanwhile(report))


def _of_lock(lock: Locked, view: JobView, report: JobReport, facts: Facts) -> Fault:
    """A limit that a lock made us run into is that lock's, not the sink's."""
    living = [lane for lane in report.lanes if lane.activity != Activity.STOPPED.value]
    waiting = [lane for lane in living if lane.target == lock.thing]
    named = f"{len(waiting)} of {many(len(living), 'DN')} {'waits' if len(waiting) == 1 else 'wait'}"
    effect = named if waiting else f"{many(lock.sessions, 'session')} of the job wait"
    since = datetime.fromtimestamp(lock.since, timezone.utc)
    return Fault(
        _RULES[Party.LOCK], Party.LOCK, "a lock at the sink", _severity(since, facts), safe(lock.cause, 600), effect,
        safe(lock.do, 600), since, view.name, thing=f"{lock.thing} {lock.pid}", value="-" if lock.pid is None else
        f"pid {lock.pid}",
    )  # fmt: skip


def _severity(since: datetime, facts: Facts) -> Severity:
    lasts = elapsed(since, facts.now)
    return Severity.CRITICAL if lasts is not None and lasts >= facts.limits.stuck_critical else Severity.WARNING


def _fault(one: Condition, view: JobView, facts: Facts, unread: str) -> Fault:
    party = Party(one.party)
    since = datetime.fromtimestamp(one.since, timezone.utc)
    severity = _severity(since, facts)
    do = _DO.get(party) or f"wait: it is tried again; `slotkeeper jobs logs {typed(view.name)}` says more"
    effect = one.effect or f"the job waits, and {unread}"
    return Fault(
        _RULES[party], party, safe(one.name, 80), severity, safe(one.cause, 400), effect, do, since, view.name,
        thing=one.name, value=f"try {one.tries}" if one.tries else "", limit="",
    )  # fmt: skip


def unread_meanwhile(report: JobReport | None) -> str:
    """What becomes of what a job has not read while it does not read: by the clock of its slot, where it has one."""
    if report is not None and not report.keeps_positions:
        return "what it has not read may expire at the source"
    return "the TTL of its slot runs on"
