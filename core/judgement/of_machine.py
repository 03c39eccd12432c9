"""What is wrong with this machine, our files on it, and the configuration. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault, Party, Severity
from slotkeeper.core.domain.remedy import OR, by_hand, start
from slotkeeper.core.domain.text import many, safe, typed
from slotkeeper.core.judgement.facts import Facts
from slotkeeper.core.judgement.limits import MIB

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
    """Who evaluates alerts and does not end: nobody else can, and what fires is told to nobody."""
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
    do = by_hand("free some space there", "nothing: running jobs go on; slotkeeper jobs stop JOB still ends one")
    effect = "nothing new is recorded of jobs, and none can be started"
    if machine.full:
        yield Fault("disk_full", Party.MACHINE, HERE, Severity.CRITICAL, safe(machine.full, 300), effect, do)
    elif machine.free is not None and machine.free < facts.limits.disk_free:
        yield Fault(
            "disk_nearly_full", Party.MACHINE, HERE, Severity.WARNING,
            f"{machine.free / MIB:,.0f} MiB are left for {safe(machine.folder, 120)}", f"when it is full, {effect}", do,
            value=f"{machine.free // MIB} MiB", limit=f"{facts.limits.disk_free // MIB} MiB",
        )  # fmt: skip
