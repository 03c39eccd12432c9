"""The one judgement: from everything that is known of jobs, slots and this host to everything that is wrong. Pure.

Screens, commands, exit codes and alerts show what comes out of here and nothing else. A slot's TTL has one severity
wherever it is shown: by the part of it that is left (`slotkeeper.core.domain.ttl`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from slotkeeper.core.domain.elapsed import elapsed, is_older
from slotkeeper.core.domain.fault import Fault, Party, Severity, coded, in_brief, ranked
from slotkeeper.core.domain.job import JobState, slot_lost
from slotkeeper.core.domain.remedy import BY_HAND, OR, by_hand, start
from slotkeeper.core.domain.text import many, safe, typed
from slotkeeper.core.domain.ttl import CRITICAL_BELOW, WARN_BELOW, in_words, severity_of
from slotkeeper.core.domain.ttl import Severity as Part
from slotkeeper.core.judgement.facts import MIB, Facts, SlotSeen
from slotkeeper.core.judgement.host import by_host
from slotkeeper.core.judgement.of_job import of_job

EXTERNAL_SECONDS = 600.0
"""So long what was seen of a slot of no configured job counts as its state."""
_SEVERITIES = {Part.WARN: Severity.WARNING, Part.CRITICAL: Severity.CRITICAL}


def of_slot(seen: SlotSeen, now: datetime, state: JobState | None, lost: bool) -> Iterator[Fault]:
    """Its faults; none where nothing of it can expire, nor of a stranger's that was not seen lately.

    `state` is its job's, None of no job or one that never ran here. Of a slot that its job calls `lost` no TTL is left,
    and `job_failed` or `table_failed` has it.
    """
    if not seen.job and is_older(seen.at, now, EXTERNAL_SECONDS):
        return
    if seen.exists is False:
        yield from _absent(seen)
    elif seen.expires_at is not None and seen.ttl and not lost:
        yield from _ttl(seen, now, state)


def _absent(seen: SlotSeen) -> Iterator[Fault]:
    if not seen.job:
        return
    start = f"`slotkeeper jobs start {typed(seen.job)}` names it SLOT LOST, or makes it where the job never ran"
    yield Fault(
        "slot_absent", Party.SLOT, _name(seen), Severity.CRITICAL, "it does not exist at the source",
        "changes of the table are not kept for this job", start, None, seen.job, seen.table, seen.slot, "ABSENT",
    )  # fmt: skip


def _ttl(seen: SlotSeen, now: datetime, state: JobState | None) -> Iterator[Fault]:
    assert seen.expires_at is not None and seen.ttl is not None
    # no more than when it was seen: a clock that was set back gives no slot any time
    left = max(0.0, (seen.expires_at - max(now, seen.at)).total_seconds())
    severity = _SEVERITIES.get(severity_of(left, int(seen.ttl)))
    if severity is None:
        return
    part = CRITICAL_BELOW if severity is Severity.CRITICAL else WARN_BELOW
    unread = "unread changes are" if seen.unread is None else f"{many(seen.unread, 'unread change')} are"
    where = f" on {safe(seen.shard, 40)}" if seen.shard else ""
    ends = "it has expired" if left == 0 else f"{in_brief(left)} of its TTL of {in_words(seen.ttl)} are left{where}"
    yield Fault(
        "slot_ttl", Party.SLOT, _name(seen), severity, ends,
        f"at {seen.expires_at:%H:%M:%S}Z it expires and {unread} lost to it", _renew(seen, state), None, seen.job,
        seen.table, seen.slot, "DUE" if left == 0 else in_words(left), f"< {in_words(seen.ttl * part)}",
        "" if seen.job else seen.source,
    )  # fmt: skip


def _renew(seen: SlotSeen, state: JobState | None) -> str:
    """What renews it, by the state of its job; of a slot of no job also what lets it go."""
    job = typed(seen.job)
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


HERE = "this machine"
ALERTS_STUCK = "alerts_stuck"
STOPPED_SECONDS, HANGS_SECONDS = 10.0, 60.0
"""What an evaluation takes is milliseconds: so long one that was stopped, or that runs, is no fault yet."""


def of_machine(facts: Facts) -> Iterator[Fault]:
    """The state folder, its disk, the audit, resets that were left behind, jobs whose configuration is refused."""
    machine = facts.machine
    if machine.fault:
        yield Fault(
            "store_unreadable", Party.MACHINE, HERE, Severity.UNKNOWN, safe(machine.fault, 300),
            "jobs go on, but how they stand cannot be told", "`slotkeeper doctor` checks the state folder",
        )  # fmt: skip
    yield from _disk(facts)
    if machine.damaged:
        yield Fault(
            "audit_damaged", Party.MACHINE, HERE, Severity.WARNING,
            f"{many(machine.damaged, 'line')} of the audit cannot be read", "who did these cannot be told",
            "`slotkeeper audit verify` names the lines; then by hand: move the audit file away, where it can be read",
            value=str(machine.damaged),
            limit="0",
        )  # fmt: skip
    if machine.command_fails:
        yield Fault(
            "alert_command_fails", Party.MACHINE, HERE, Severity.WARNING,
            f"the command of [alerts] fails: {safe(machine.command_fails, 300)}",
            "nobody is told by it what is wrong; it is tried again",
            "`slotkeeper alerts test` runs it once and says what it answered", machine.command_fails_since,
        )  # fmt: skip
    yield from _stuck(facts)
    for reset in facts.resets:
        table, slot = safe(reset.table, 80), safe(reset.slot, 80)
        yield Fault(
            "reset_open", Party.PERSON, f"a reset of {table} slot {slot}", Severity.CRITICAL,
            f"reset {safe(reset.id, 60)} was cut off between its steps",
            "the job cannot be started, and the TTL of its slot runs on",
            f"`slotkeeper slots reset --resume {typed(reset.table)} {typed(reset.slot)}` finishes it or rolls it back",
            job=reset.job, table=reset.table, thing=reset.id,
        )  # fmt: skip
    for job, why in facts.refused.items():
        yield Fault(
            "job_refused", Party.PERSON, "the configuration", Severity.UNKNOWN, safe(why, 400),
            "the job cannot be started",
            f"by hand: correct it, `slotkeeper config check` says what is wrong; then {start(job)}", job=job,
        )  # fmt: skip


def _stuck(facts: Facts) -> Iterator[Fault]:
    """Who evaluates alerts and does not end: no other process can, and no alert is sent."""
    one = facts.machine.evaluator
    lasts = None if one is None else elapsed(one.since, facts.now)
    if one is None or lasts is None or lasts < (STOPPED_SECONDS if one.stopped else HANGS_SECONDS):
        return
    stopped = "was stopped by a signal (SIGSTOP) or a debugger"
    why = f"{one.name} {stopped if one.stopped else 'does not go on'} while it {one.does}"
    wait_for = by_hand(f"find what pid {one.pid} waits for (a disk?)")
    goes_on = f"`kill -CONT {one.pid}` lets it go on" if one.stopped else wait_for
    yield Fault(
        "alerts_stuck", Party.MACHINE, HERE, Severity.WARNING, safe(why, 300),
        "of all else that is wrong nobody is told, but by screens and `status`",
        f"{goes_on}{OR}`kill -KILL {one.pid}`: a supervisor is started anew by its driver", one.since,
        value=str(one.pid),
    )  # fmt: skip


def _disk(facts: Facts) -> Iterator[Fault]:
    machine = facts.machine
    do = by_hand("free some space there", "nothing: running jobs continue; slotkeeper jobs stop JOB still ends one")
    effect = "running jobs continue; nothing new is recorded of them, and none can be started"
    if machine.full:
        yield Fault("disk_full", Party.MACHINE, HERE, Severity.CRITICAL, safe(machine.full, 300), effect, do)
    elif machine.free is not None and machine.free < facts.limits.disk_free:
        yield Fault(
            "disk_nearly_full", Party.MACHINE, HERE, Severity.WARNING,
            f"{machine.free / MIB:,.0f} MiB are left for {safe(machine.folder, 120)}", f"when it is full, {effect}", do,
            value=f"{machine.free // MIB} MiB", limit=f"{facts.limits.disk_free // MIB} MiB",
        )  # fmt: skip


def judge(facts: Facts) -> tuple[Fault, ...]:
    """All faults, in the order of `ranked`."""
    views = {job.view.name: job.view for job in facts.jobs}
    of_jobs = (by_host(of_job(job, facts), job, facts) for job in facts.jobs)
    of_slots: list[Iterator[Fault]] = []
    for seen in facts.slots:
        view = views.get(seen.job)
        state = view.state if view is not None else None
        tables = view.report.tables if view is not None and view.report is not None else ()
        lost = view is not None and slot_lost(state, view.trouble, view.reason, tables, seen.table)
        if not seen.job or counts(seen, state):
            of_slots.append(of_slot(seen, facts.now, state, lost))
    return ranked(map(coded, chain(of_machine(facts), *of_jobs, *of_slots)))


def counts(slot: SlotSeen, state: JobState | None) -> bool:
    """Whether the state of a configured job's slot counts: not once the job is over for good.

    Before its first start (no `state`) the slot need not be there.
    """
    if state is None:
        return slot.exists is not False
    return state not in (JobState.CANCELLED, JobState.FINISHED)
