"""What is wrong with a slot: its TTL, and whether it is there. Pure.

A slot's TTL has one severity wherever it is shown: by the part of it that is left (`slotkeeper.core.domain.ttl`).
"""

from __future__ import annotations

from collections.abc import Iterator

from slotkeeper.core.domain.elapsed import is_older
from slotkeeper.core.domain.fault import Fault, Party, Severity, in_brief
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.remedy import BY_HAND, OR
from slotkeeper.core.domain.text import many, safe, typed
from slotkeeper.core.domain.ttl import CRITICAL_BELOW, WARN_BELOW, in_words, severity_of
from slotkeeper.core.domain.ttl import Severity as Part
from slotkeeper.core.judgement.facts import Facts, SlotSeen

EXTERNAL_SECONDS = 600.0
"""So long what was seen of a slot of no configured job is taken for how it stands."""
_SEVERITIES = {Part.WARN: Severity.WARNING, Part.CRITICAL: Severity.CRITICAL}


def of_slot(seen: SlotSeen, facts: Facts) -> Iterator[Fault]:
    """Its faults; none where nothing of it can expire, nor of somebody else's that nobody has seen lately."""
    if not seen.job and is_older(seen.at, facts.now, EXTERNAL_SECONDS):
        return
    if seen.exists is False:
        yield from _absent(seen)
    elif seen.expires_at is not None and seen.ttl:
        yield from _ttl(seen, facts)


def _absent(seen: SlotSeen) -> Iterator[Fault]:
    if not seen.job:
        return
    start = f"`slotkeeper jobs start {typed(seen.job)}` names it SLOT LOST, or makes it where the job never ran"
    yield Fault(
        "slot_absent", Party.SLOT, _name(seen), Severity.CRITICAL, "it does not exist at the source",
        "changes of the table are not kept for this job", start, None, seen.job, seen.table, seen.slot, "ABSENT",
    )  # fmt: skip


def _ttl(seen: SlotSeen, facts: Facts) -> Iterator[Fault]:
    assert seen.expires_at is not None and seen.ttl is not None
    # no more than when it was seen: a clock that was set back gives no slot any time
    left = max(0.0, (seen.expires_at - max(facts.now, seen.at)).total_seconds())
    severity = _SEVERITIES.get(severity_of(left, int(seen.ttl)))
    if severity is None:
        return
    part = CRITICAL_BELOW if severity is Severity.CRITICAL else WARN_BELOW
    unread = "unread changes are" if seen.unread is None else f"{many(seen.unread, 'unread change')} are"
    where = f" on {safe(seen.shard, 40)}" if seen.shard else ""
    ends = "it has expired" if left == 0 else f"{in_brief(left)} of its TTL of {in_words(seen.ttl)} are left{where}"
    yield Fault(
        "slot_ttl", Party.SLOT, _name(seen), severity, ends,
        f"at {seen.expires_at:%H:%M:%S}Z it expires and {unread} lost to it", _renew(seen, facts), None, seen.job,
        seen.table, seen.slot, "DUE" if left == 0 else in_words(left), f"< {in_words(seen.ttl * part)}",
        "" if seen.job else seen.source,
    )  # fmt: skip


def _renew(seen: SlotSeen, facts: Facts) -> str:
    """What renews it, by how its job stands; of a slot that is no job's also what lets it go."""
    job = typed(seen.job)
    state = next((one.view.state for one in facts.jobs if one.view.name == seen.job), None)
    if not seen.job:
        drop = f"`slotkeeper slots drop {typed(seen.table, seen.slot)} --source {typed(seen.source)}`"
        consumer = "find its consumer, which is no job of this configuration, and start it"
        return f"{BY_HAND}{consumer}{OR}where nobody reads it any more {drop} prints the line that lets it go"
    if state is JobState.PAUSED:
        return f"`slotkeeper jobs resume {job}`: reading and registering renews it"
    if state is not None and state.has_process:
        return f"`slotkeeper jobs show {job}` says what holds it up; reading and registering renews it"
    return f"`slotkeeper jobs start {job}`: reading and registering renews it"


def _name(seen: SlotSeen) -> str:
    return f"slot {safe(seen.slot, 60)} of {safe(seen.table, 80)}"
