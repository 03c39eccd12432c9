"""Find all faults of jobs, slots and this host in one set of facts. Pure.

Screens, commands, exit codes and alerts show exactly these faults. The severity of a slot's TTL is the same wherever it
is shown: it depends on the remaining fraction of the TTL (`slotkeeper.core.domain.ttl`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from slotkeeper.core.domain.elapsed import elapsed, is_older
from slotkeeper.core.domain.fault import Fault, Party, Severity, coded, ranked
from slotkeeper.core.domain.job import JobState, slot_lost
from slotkeeper.core.domain.remedy import OR, THEN, start
from slotkeeper.core.domain.text import many, safe, typed
from slotkeeper.core.domain.ttl import CRITICAL_BELOW, WARN_BELOW, in_words, severity_of
from slotkeeper.core.domain.ttl import Severity as Part
from slotkeeper.core.judgement.facts import MIB, Facts, SlotSeen
from slotkeeper.core.judgement.host import by_host
from slotkeeper.core.judgement.of_job import EXPIRES, of_job

EXTERNAL_SECONDS = 600.0
"""How long an observation of a slot without a configured job counts as the slot's current state."""
_SEVERITIES = {Part.WARN: Severity.WARNING, Part.CRITICAL: Severity.CRITICAL}


def of_slot(seen: SlotSeen, now: datetime, state: JobState | None, lost: bool) -> Iterator[Fault]:
    """Yield a slot's faults; none for a slot without a TTL, or if no job reads it and its last observation is old.

    `state` is the state of its job; None if the slot has no job, or if the job never ran here. A slot that its job
    reports as `lost` has no TTL left: `job_failed` or `table_failed` reports it.
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
    start = f"`slotkeeper jobs start {typed(seen.job)}` reports SLOT LOST, or creates the slot if the job never ran"
    yield Fault(
        "slot_absent", Party.SLOT, _name(seen), Severity.CRITICAL, "the slot does not exist in the source",
        "the source retains no changes to the table for this job", start, None, seen.job, seen.table, seen.slot,
        "ABSENT",
    )  # fmt: skip


def _ttl(seen: SlotSeen, now: datetime, state: JobState | None) -> Iterator[Fault]:
    assert seen.expires_at is not None and seen.ttl is not None
    # never count from a time before the observation: a clock that was set back must not add time to a TTL
    left = max(0.0, (seen.expires_at - max(now, seen.at)).total_seconds())
    severity = _SEVERITIES.get(severity_of(left, int(seen.ttl)))
    if severity is None:
        return
    part = CRITICAL_BELOW if severity is Severity.CRITICAL else WARN_BELOW
    unread = "unread changes" if seen.unread is None else many(seen.unread, "unread change")
    where = f" on {safe(seen.shard, 40)}" if seen.shard else ""
    reads = "" if seen.job else "it belongs to no job here; "
    ends = f"expired{where}" if left == 0 else f"{in_words(left)} of its TTL of {in_words(seen.ttl)} left{where}"
    lost = f"expires at {seen.expires_at:%H:%M:%S}Z unless its consumer confirms a position; its {unread} would be lost"
    if left == 0:
        lost = f"expired at {seen.expires_at:%H:%M:%S}Z; its {unread} may be lost already"
    yield Fault(
        "slot_ttl", Party.SLOT, _name(seen), severity, reads + ends,
        lost, _renew(seen, state), None, seen.job,
        seen.table, seen.slot, "DUE" if left == 0 else in_words(left), f"< {in_words(seen.ttl * part)}",
        "" if seen.job else seen.source,
    )  # fmt: skip


def _renew(seen: SlotSeen, state: JobState | None) -> str:
    """Return the action that renews a slot, by its job's state; without a job, also the command to drop the slot."""
    job = typed(seen.job)
    if not seen.job:
        drop = f"`slotkeeper slots drop {typed(seen.table, seen.slot)} --source {typed(seen.source)}`"
        consumer = (
            f"Ask the owners of {safe(seen.table, 80)} which program is this slot's consumer, and start that program"
        )
        return f"{consumer}{OR}if no consumer needs the slot, run {drop}, which prints the command that drops it"
    if state is JobState.PAUSED:
        return f"`slotkeeper jobs resume {job}`: the next confirmation renews the TTL"
    if state is not None and state.has_process:
        return f"`slotkeeper jobs show {job}` shows what delays it; the next confirmation renews the TTL"
    return f"`slotkeeper jobs start {job}`: the next confirmation renews the TTL"


def _name(seen: SlotSeen) -> str:
    return f"slot {safe(seen.slot, 60)} of {safe(seen.table, 80)}"


HERE = "this host"
ALERTS_STUCK = "alerts_stuck"
STOPPED_SECONDS, HANGS_SECONDS = 10.0, 60.0
"""How long an evaluation can be stopped, or can run, before it is a fault; normally it takes milliseconds."""


def of_machine(facts: Facts) -> Iterator[Fault]:
    """Yield faults of the state folder, its disk, the audit, unfinished resets and rejected configurations."""
    machine = facts.machine
    if machine.fault:
        yield Fault(
            "store_unreadable", Party.MACHINE, HERE, Severity.UNKNOWN, safe(machine.fault, 300),
            "jobs continue, but their state is unknown", "`slotkeeper doctor` checks the state folder",
        )  # fmt: skip
    yield from _disk(facts)
    if machine.damaged:
        yield Fault(
            "audit_damaged", Party.MACHINE, HERE, Severity.WARNING,
            f"{many(machine.damaged, 'line')} of the audit cannot be read", "the actors of these actions are unknown",
            f"`slotkeeper audit verify` names the lines{THEN}move the audit file to a folder where it stays readable",
            value=str(machine.damaged),
            limit="0",
        )  # fmt: skip
    if machine.command_fails:
        yield Fault(
            "alert_command_fails", Party.MACHINE, HERE, Severity.WARNING,
            f"the [alerts] command fails: {safe(machine.command_fails, 300)}",
            "it delivers no alerts; the supervisor retries automatically",
            "`slotkeeper alerts test` runs it once and shows its result", machine.command_fails_since,
        )  # fmt: skip
    yield from _stuck(facts)
    for reset in facts.resets:
        table, slot = safe(reset.table, 80), safe(reset.slot, 80)
        yield Fault(
            "reset_open", Party.PERSON, f"a reset of {table} slot {slot}", Severity.CRITICAL,
            f"reset {safe(reset.id, 60)} stopped between two steps",
            f"the job cannot be started; {EXPIRES}",
            f"`slotkeeper slots reset --resume {typed(reset.table)} {typed(reset.slot)}` finishes it or rolls it back",
            job=reset.job, table=reset.table, thing=reset.id,
        )  # fmt: skip
    for job, why in facts.refused.items():
        yield Fault(
            "job_refused", Party.PERSON, "the configuration", Severity.UNKNOWN, safe(why, 400),
            "the job cannot be started",
            f"`slotkeeper config check` names the errors{THEN}correct them{THEN}{start(job)}", job=job,
        )  # fmt: skip
    for job, what in facts.dead_queries.items():
        from slotkeeper.core.domain.query_report import WHERE_TO_START  # `status` has no such facts

        yield Fault(
            "query_dead", Party.PROCESS, f"the query of {safe(job, 60)}", Severity.WARNING, safe(what, 400),
            f"no process reads its slot; {EXPIRES}", WHERE_TO_START, job=job,
        )  # fmt: skip


def _stuck(facts: Facts) -> Iterator[Fault]:
    """Yield a fault if an evaluation of alerts does not end, because it blocks every other evaluation."""
    one = facts.machine.evaluator
    lasts = None if one is None else elapsed(one.since, facts.now)
    if one is None or lasts is None or lasts < (STOPPED_SECONDS if one.stopped else HANGS_SECONDS):
        return
    stopped = "is stopped by a signal (SIGSTOP) or a debugger"
    why = f"{one.name} {stopped if one.stopped else 'hangs'} while it {one.does}"
    continues = f"`kill -CONT {one.pid}` lets it continue"
    first = continues if one.stopped else f"Find out what pid {one.pid} waits for, for example a disk"
    yield Fault(
        "alerts_stuck", Party.MACHINE, HERE, Severity.WARNING, safe(why, 300),
        "alerts are not delivered; the console and `slotkeeper status` still show every problem",
        f"{first}{OR}`kill -KILL {one.pid}`: a driver restarts its supervisor", one.since,
        value=str(one.pid),
    )  # fmt: skip


def _disk(facts: Facts) -> Iterator[Fault]:
    machine = facts.machine
    do = "Free disk space there; running jobs continue, and slotkeeper jobs stop JOB still works"
    effect = "running jobs continue; their new states are not recorded, and no job can be started"
    if machine.full:
        yield Fault("disk_full", Party.MACHINE, HERE, Severity.CRITICAL, safe(machine.full, 300), effect, do)
    elif machine.free is not None and machine.free < facts.limits.disk_free:
        yield Fault(
            "disk_nearly_full", Party.MACHINE, HERE, Severity.WARNING,
            f"{machine.free / MIB:,.0f} MiB free for {safe(machine.folder, 120)}", f"once it is full, {effect}", do,
            value=f"{machine.free // MIB} MiB", limit=f"{facts.limits.disk_free // MIB} MiB",
        )  # fmt: skip


def judge(facts: Facts) -> tuple[Fault, ...]:
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
    """Whether a configured job's slot can have faults; it cannot once the job is CANCELLED or FINISHED.

    Before the job's first start (no `state`), a missing slot is not a fault.
    """
    if state is None:
        return slot.exists is not False
    return state not in (JobState.CANCELLED, JobState.FINISHED)
