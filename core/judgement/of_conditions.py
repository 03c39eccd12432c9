"""What a driver knows to be wrong, as faults: which server, DN or lock holds its lanes up, and since when. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault, Party, Severity
from slotkeeper.core.domain.lane import Activity
from slotkeeper.core.domain.locks import Locked, locked
from slotkeeper.core.domain.refusals import PASSWORDS, said
from slotkeeper.core.domain.remedy import PASSES, by_hand
from slotkeeper.core.domain.report import GIVEN_UP, Condition, JobReport, JobView, LaneReport, server_of
from slotkeeper.core.domain.text import many, safe, typed
from slotkeeper.core.judgement.facts import Facts

_RULES = {
    Party.SOURCE: "source_fails", Party.DN: "dn_fails", Party.SINK: "sink_fails", Party.LOCK: "lock_waits",
    Party.PROCESS: "driver_retries",
}  # fmt: skip
_IS_LOCK = re.compile(r"\block\b", re.IGNORECASE)
"""What a sink says where our own limit ended the waiting: "canceling statement due to lock timeout" and its like."""
_BY_LIMIT = re.compile(r"did not end in time|canceling statement due to", re.IGNORECASE)
"""What a step says that a limit of ours has ended, in the driver's words or the sink's."""
_DO = {
    Party.SOURCE: by_hand("have the source brought back by whoever runs it, or wait", PASSES),
    Party.DN: by_hand("have the DN brought back by whoever runs the cluster, or wait", f"{PASSES}; the others go on"),
    Party.SINK: by_hand("have the sink brought back by whoever runs it, or wait", PASSES),
    Party.LOCK: by_hand("have whoever holds it give it up, or wait", PASSES),
}
_LOGIN = by_hand("write the new password where the password reference reads it", PASSES)


def of_conditions(view: JobView, facts: Facts) -> Iterator[Fault]:
    """The conditions of its newest report, and who keeps its sessions out of what is locked."""
    report = view.report
    if report is None:
        return
    for lock in locked(report.lock_waits):
        yield _of_lock(lock, view, report, facts)
    for one in report.conditions:
        left = _beside_locks(one, report)
        if left is not None:
            yield _fault(left, view, facts, unread_meanwhile(report))


def _beside_locks(one: Condition, report: JobReport) -> Condition | None:
    """What is left of a condition without the lanes that fail by a lock that is told; None where nothing is.

    A server's condition stands for all its lanes, and one of them may fail for another reason.
    """
    if not report.lock_waits or one.party not in (Party.SINK.value, Party.PROCESS.value):
        return one
    lanes = [lane for lane in report.lanes if lane.name in one.lanes and lane.error]
    things = {wait.thing.removeprefix("a row of ") for wait in report.lock_waits}
    if not lanes:
        return None if _is_by_lock(one, report, things) else one
    left = [lane for lane in lanes if not _by_lock(lane, things)]
    if len(left) in (0, len(lanes)):
        return one if left else None
    cause = server_of(left[0].error.removeprefix(f"{left[0].name}: "))[2]
    return replace(one, cause=cause, lanes=tuple(lane.name for lane in left))


def _is_by_lock(one: Condition, report: JobReport, things: Collection[str]) -> bool:
    """Whether a lock that is told anyway made a condition of which no lane says more."""
    if one.party == Party.SINK.value:
        return bool(_IS_LOCK.search(one.cause))
    waiting = {lane.name for lane in report.lanes if lane.target in things}
    return GIVEN_UP in one.cause and set(one.lanes) <= waiting


def _by_lock(lane: LaneReport, things: Collection[str]) -> bool:
    """Whether a lane failed by a lock: in the sink's words, or by a limit of ours while its target is locked."""
    return bool(_IS_LOCK.search(lane.error) or (lane.target in things and _BY_LIMIT.search(lane.error)))


def _of_lock(lock: Locked, view: JobView, report: JobReport, facts: Facts) -> Fault:
    """A limit that a lock made us run into is that lock's, not the sink's."""
    living = [lane for lane in report.lanes if lane.activity != Activity.STOPPED.value]
    waiting = [lane for lane in living if lane.target == lock.thing]
    named = f"{len(waiting)} of {many(len(living), report.part)} {'waits' if len(waiting) == 1 else 'wait'}"
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
    refused = said(one.cause, PASSWORDS)
    do = _LOGIN if refused else _DO.get(party) or f"{PASSES}; `slotkeeper jobs logs {typed(view.name)}` says more"
    effect = one.effect_on(view.report.part if view.report else "DN") or f"the job waits, and {unread}"
    return Fault(
        _RULES[party], party, safe(one.name, 80), severity, safe(one.cause, 400), effect, do, since, view.name,
        thing=one.name, value=f"try {one.tries}" if one.tries else "", limit="",
    )  # fmt: skip


def unread_meanwhile(report: JobReport | None) -> str:
    """What becomes of what a job has not read while it does not read: by the clock of its slot, where it has one."""
    if report is not None and not report.keeps_positions:
        return "what it has not read may expire at the source"
    return "the TTL of its slot runs on"
