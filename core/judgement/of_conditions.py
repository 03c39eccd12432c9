"""What a driver knows to be wrong, as faults: which server, DN or lock holds its lanes up, and since when. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from core.domain.condition import Condition
from core.domain.elapsed import elapsed
from core.domain.fault import Fault, Party, Severity
from core.domain.job_view import JobView
from core.domain.report import JobReport
from core.domain.text import safe, typed
from core.judgement.facts import Facts

_RULES = {
    Party.SOURCE: "source_fails", Party.DN: "dn_fails", Party.SINK: "sink_fails", Party.LOCK: "lock_waits",
    Party.PROCESS: "driver_retries",
}  # fmt: skip
_DO = {
    Party.SOURCE: "bring it back, or wait: it is tried again, the position stays and nothing is skipped",
    Party.DN: "have the DN brought back, or wait: the others go on, and nothing of it is skipped",
    Party.SINK: "bring it back, or wait: it is tried again, the position stays and nothing is skipped",
    Party.LOCK: "wait for it, or have whoever holds it give it up",
}


def of_conditions(view: JobView, facts: Facts) -> Iterator[Fault]:
    """The conditions of its newest report."""
    report = view.report
    for one in report.conditions if report is not None else ():
        yield _fault(one, view, facts, "" if report is None else unread_meanwhile(report))


def _fault(one: Condition, view: JobView, facts: Facts, unread: str) -> Fault:
    party = Party(one.party)
    since = datetime.fromtimestamp(one.since, timezone.utc)
    lasts = elapsed(since, facts.now)
    severity = Severity.CRITICAL if lasts is not None and lasts >= facts.limits.stuck_critical else Severity.WARNING
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
