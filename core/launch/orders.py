"""Commands that a user of one host gives to the owner of a job: both sides.

At most once: an order is bound to its owner before its command starts, and is withdrawn if no host takes it. If the
owner's agent ends during the command, its next agent waits for the command's end, finishes or rolls back a reset that
was interrupted, and answers with what the audit shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config import handover
from slotkeeper.core.config.load import load_usable
from slotkeeper.core.config.model import Loaded, job_at
from slotkeeper.core.domain.audit import AuditLine, Phase
from slotkeeper.core.domain.placement import Order
from slotkeeper.core.domain.reset import ROLLED_BACK, plan_from
from slotkeeper.core.domain.reset_files import PLANS
from slotkeeper.core.domain.text import safe, typed
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError
from slotkeeper.core.launch.access import Access
from slotkeeper.core.launch.hosts import shared
from slotkeeper.core.launch.launch import PYTHON
from slotkeeper.core.ports.driver import Placements
from slotkeeper.core.redaction import masked
from slotkeeper.core.services.audit import audited
from slotkeeper.core.slots.change import Done
from slotkeeper.core.sources import registry
from slotkeeper.core.state.audit import Audit, actor, intent, outcome
from slotkeeper.core.state.files import ResetFiles, marks
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store

PROGRAM = (*PYTHON, "slotkeeper.console")
"""The command line of this program; tests replace it."""
TAKEN_WITHIN = 35.0
"""Seconds after which no host takes an order (`orders` in placement.sql): longer than a user's command waits."""
ANSWER_SECONDS = 600.0
"""The longest wait for a command that the owner has started: a reset can wait for locks and servers."""
PLANNED = ("reset", "undo")
"""The commands that execute a plan, which the order contains."""
CHILD = "SLOTKEEPER_ORDER"
"""The variable with the order's id in the environment of its command, which gives no order to another host."""
Leaves = Callable[[], bool]
"""Whether the agent ends."""
_LOCK, _RESET = "order", "reset"
_POLL = 0.5
_MOST_SAID, _MOST_LINES = 200_000, 2_000
_FAILED = 1
_AUDITED = "its audit shows the end: reasons with `order {}`"
_LEFT = "the agent ends; the next agent answers the command"
_NOT_BEGUN = "interrupted before its first change"
_UNKNOWN = "interrupted; `slotkeeper slots history TABLE SLOT` shows the state of the reset"


def carry_out(
    folder: StateFolder, loaded: Loaded, order: Order, again: bool, leaves: Leaves = lambda: False
) -> tuple[int, str]:
    """Run the command of an order; return its exit code and output. `again`: an earlier agent had taken the order.

    Raises Busy once `leaves` returns true; the command continues without the agent.
    """
    order.words()  # a command that this version cannot carry out is refused before anything else
    while (lock := folder.try_lock(order.job, _LOCK)) is None:  # the command of an earlier agent still runs
        if leaves():
            raise Busy(_LEFT)
        time.sleep(_POLL)
    try:
        if again:
            return _recovered(folder, loaded.path, order, lock.descriptor, leaves)
        if order.verb != "retry":
            _refuse(folder, load_usable(loaded.path, handover.environment()), order)
        if order.verb in PLANNED:
            ResetFiles(folder).save(PLANS, order.options["plan"], order.plan)
        if order.verb == "resume":
            return _resumed(folder, loaded.path, order, lock.descriptor, leaves)
        return _run(loaded.path, order, lock.descriptor, leaves)
    finally:
        lock.release()


def _refuse(folder: StateFolder, loaded: Loaded, order: Order) -> None:
    """Raise Refused for a reset that this host cannot make for another one, or whose slot is not that of its job."""
    if Access(loaded.access, folder.path, handover.environment(), str(loaded.path.absolute())).needs_approval(
        order.job
    ):
        raise Refused("second_account is set in [access]", "run the reset on this host")
    table, slot = order.options.get("table", ""), order.options.get("slot", "")
    if order.verb in PLANNED and order.job in loaded.jobs:
        plan = plan_from(order.plan, registry.positions(loaded.jobs[order.job].source_kind))
        if plan.id != order.options.get("plan"):
            raise Refused(f"the order has plan {plan.id}, which is not the plan of its command")
        table, slot = plan.table, plan.slot  # the command compares them with its arguments
    if job_at(loaded, table, slot) != order.job:
        raise Refused(f"{safe(table, 80)} slot {safe(slot, 80)} is not read by job {order.job} on this host")


def _run(config: Path, order: Order, lock: int, leaves: Leaves) -> tuple[int, str]:
    """Run the command in a session of its own, so that it survives the agent; it holds the lock until it ends."""
    words = order.words()
    at = words.index("--")
    words[at:at] = ["--config", str(config.absolute())]
    # files, because a pipe breaks when the agent ends
    with handover.passed() as given, TemporaryFile() as shown, TemporaryFile() as notes:
        command = subprocess.Popen(
            [*PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=shown, stderr=notes,
            env={**given.environment, CHILD: order.id}, pass_fds=(*given.descriptors, lock), start_new_session=True,
        )  # fmt: skip
        while True:
            with suppress(subprocess.TimeoutExpired):
                command.wait(_POLL)
                break
            if leaves():
                command.returncode = 0  # detached: the next agent finds its end
                raise Busy(_LEFT)
        return command.returncode, answer_of(*(_end_of(file) for file in (shown, notes)))


def _end_of(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_SAID))
    return file.read().decode(errors="replace")


def answer_of(shown: str, notes: str) -> str:
    """Return a command's output and notes (stderr) as one text; a form feed, which neither has, separates them."""
    return f"{shown}\f{notes}" if notes else shown


def _resumed(folder: StateFolder, config: Path, order: Order, lock: int, leaves: Leaves) -> tuple[int, str]:
    """Resume a reset, audited with its id, because the command's own lines have the reason of the reset's start."""
    place = (order.job, order.options.get("table"), order.options.get("slot"))
    found = [mark.id for mark in marks(folder.path) if (mark.job, mark.table, mark.slot) == place]
    line = intent("slots reset --resume", f"job {order.job}", order.mark, {_RESET: found[0] if found else ""})
    Audit(folder).append(line)
    code, said = _run(config, order, lock, leaves)
    Audit(folder).append(outcome(line, f"{'failed' if code else 'done'}: exit code {code}: {_first(said)}", {}))
    return code, said


def _recovered(folder: StateFolder, config: Path, order: Order, lock: int, leaves: Leaves) -> tuple[int, str]:
    """Return what became of a command whose agent ended; the reset that it left open is finished or rolled back."""
    lines = Audit(folder).read(_MOST_LINES).lines
    ours = [one for one in lines if f"order {order.id})" in one.reason]  # a secret in the rest of the mark is masked
    if not ours:
        return refused("nothing was done: the owner's agent ended before it started the command")
    if not (ended := _outcomes(ours)):
        resets = {ours[-1].action_id, ours[-1].result.get(_RESET)}
        for mark in (one for one in marks(folder.path) if one.id in resets):
            resuming = replace(order, verb="resume", options={**order.options, "table": mark.table, "slot": mark.slot})
            return _run(config, resuming, lock, leaves)
        ended = [one for one in _outcomes(lines) if one.action_id in resets and one.at >= ours[-1].at]
        said = ended[0].outcome if ended else _UNKNOWN if order.verb == "resume" else _NOT_BEGUN
        ended = [outcome(ours[-1], said, {})]
        Audit(folder).append(ended[0])
    said = ended[0].outcome
    fine = not said.startswith(("failed", "interrupted", "refused", ROLLED_BACK))
    shown = json.dumps({"order": order.id, "outcome": said}) if order.options.get("json") else said
    return 0 if fine else _FAILED, f"{shown}\n"


def _first(said: str) -> str:
    """Return the first line of an answer; a form feed also ends a line."""
    return safe(next(filter(None, said.splitlines()), ""), 200)


def refused(why: str) -> tuple[int, str]:
    """Return the answer to an order that is not carried out."""
    return _FAILED, answer_of("", f"slotkeeper: {safe(why, 300)}\n")


def _outcomes(lines: Iterable[AuditLine]) -> list[AuditLine]:
    return [one for one in lines if one.phase is Phase.OUTCOME]


def ordered(
    loaded: Loaded, store: Store, action: str, order: Order, host: str, seconds: float, wait: float = ANSWER_SECONDS
) -> Order:
    """Give an order to the owner of its job, audited here too; return it with the answer.

    Raises Busy if no host takes it within `seconds`, after which none can, or if its command does not end in time.
    """
    assert loaded.hosts is not None
    order = replace(order, asked_by=f"{actor().text} of host {loaded.hosts.name}", asked_why=masked(order.asked_why))
    answers: list[Order] = []

    def act() -> Done:
        answers.append(_answered(loaded, store, order, host, seconds, wait))
        first = _first(answers[0].said)
        return Done(f"host {host} answers: exit code {answers[0].code}: {first}", {"order": order.id})

    line = intent(action, f"job {order.job} on host {host}", order.asked_why, {"order": order.id})
    audited(Audit(store.folder), line, act, catches=BaseException)
    return answers[0]


def _answered(loaded: Loaded, store: Store, order: Order, host: str, seconds: float, wait: float) -> Order:
    with closing(shared(loaded, store)) as found:
        table = found.table(found.key_of(order.job))
        table.create()
        row = found.row(order.job)
        if row is None or not row.owner or row.owner == found.owner:
            raise Refused(f"job {order.job} has moved to another host meanwhile", "repeat the command")
        begun, taken, given = time.monotonic(), False, None
        try:
            table.order(order)
            given = SystemClock().utc()
            while (now := table.ordered(order)) is not None and now.code is None:
                taken = bool(now.taken_by)
                if time.monotonic() > begun + (wait if taken else seconds):
                    taken = taken or not table.withdraw(order)
                    break
                time.sleep(_POLL)
        except BaseException as error:
            if _may_run(table, order) and isinstance(error, SlotkeeperError):
                last = (given or SystemClock().utc()) + timedelta(seconds=TAKEN_WITHIN)
                what = f"host {host} may still carry out the command until {last:%H:%M:%S} UTC, order {order.id}"
                raise Busy(f"{what}: {error.message}", _AUDITED.format(order.id)) from error
            raise
    if now is not None and now.code is not None:
        return now
    if not taken:
        raise Busy(
            f"host {host} has not taken the command within {seconds:g} s; nothing was done", "repeat the command"
        )
    do = f"{_AUDITED.format(order.id)}; `slotkeeper jobs show {typed(order.job)}` there"
    raise Busy(f"host {host} has carried out the command for {wait:g} s and has not answered", do)


def _may_run(table: Placements, order: Order) -> bool:
    """Withdraw an order; return whether a host may carry it out nevertheless."""
    with suppress(SlotkeeperError):
        return not table.withdraw(order) and table.ordered(order) is not None
    return True
