"""Carries a plan out: lease, backup, intent, mark, epoch, rows, points, a second look, outcome; each step is written
down before the next, so that a crash is finished or rolled back by `resume.py`.

The rows go first and the points follow, as in a running job. Next door: `plan.py` makes plans, `points.py` registers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from core.domain.audit import AuditLine, Phase
from core.domain.reset import Check, ResetPlan, Swap, time_check, what_moved
from core.domain.reset_entry import BEGUN, DONE, GOING_BACK, ROLLED_BACK, WRITTEN, ResetEntry
from core.domain.reset_text import plan_from
from core.domain.text import typed
from core.errors import Busy, ErrorKind, Refused, SlotkeeperError, Trouble
from core.ports.source import LOST_ANSWER_WAIT
from core.slots.reset import plan as planning
from core.slots.reset import points
from core.slots.reset.backup import back_up
from core.slots.reset.context import PLANS, RESETS, Bench

PASSING = frozenset(
    {ErrorKind.TRANSIENT, ErrorKind.CONTENTION, ErrorKind.ACCESS, ErrorKind.OVERSIZE, ErrorKind.SUPERSEDED}
)
"""Failures after which the reset stays as it is for `--resume`; after any other it is rolled back."""


NAMED_NEXT = "what could be put back is; the next start of the job names the rest"


@dataclass(frozen=True, slots=True)
class Result:
    """How a reset ended: `outcome` is DONE or ROLLED_BACK, `lanes` says per DN what was seen."""

    reset: str
    outcome: str
    sentence: str
    lanes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResetOrder:
    """What a person typed to have a plan carried out."""

    plan: str
    reason: str
    confirm: str
    rows: int | None = None


def execute(bench: Bench, order: ResetOrder) -> Result:
    """Carry out exactly this plan, or refuse and say why; what fails later is rolled back or left for `--resume`."""
    plan = _typed(bench, order)
    _gate(bench)
    seen = planning.see(bench)
    moved = what_moved(plan, seen.identity.text, seen.lanes, seen.shards)
    if moved:
        raise Refused(f"plan {plan.id} is stale, this moved: {'; '.join(moved)}", "make a new one: without --execute")
    left = time_check(seen.left)
    refuse([*plan.failed, left] if any(move.points for move in plan.moves) else plan.failed)
    entry = back_up(bench, plan, seen.identity, order.reason)
    say(bench, entry, Phase.INTENT, result={m.seen.row.key.shard: _asked(m.seen.row, m.to) for m in plan.moves})
    bench.probe("after_intent")
    bench.files.save(RESETS, entry.id, mark(entry))
    bench.probe("after_mark")
    bench.resets.step(entry.id, BEGUN)
    bench.probe("after_begun")
    return _carry_out(bench, replace(entry, step=BEGUN), plan)


def _typed(bench: Bench, order: ResetOrder) -> ResetPlan:
    """The plan that was typed, where everything typed beside it is right."""
    if not order.reason.strip():
        raise Refused("a reset needs a reason", 'add --reason "why", it is kept with the backup')
    if order.confirm != bench.job.slot:
        raise Refused(f"the slot's name was not typed: {order.confirm!r}", f"add --confirm {bench.job.slot}")
    text = bench.files.load(PLANS, order.plan)
    if text is None:
        raise Refused(f"there is no plan {order.plan!r} here", "make one: the same command without --execute")
    plan = plan_from(text)
    job = bench.job
    if (plan.source, plan.table, plan.slot) != (job.source.name, job.channel.source_table, job.slot):
        raise Refused(f"plan {plan.id} is of {plan.source} {plan.table} slot {plan.slot}", "not of this slot")
    if bench.clock.utc().timestamp() > plan.expires:
        raise Refused(f"plan {plan.id} has expired", "make a new one: without --execute")
    if (order.rows or 0) != plan.skipped:
        typed = "nothing" if order.rows is None else str(order.rows)
        raise Refused(f"{plan.skipped} changes would be skipped, typed was {typed}", f"add --rows {plan.skipped}")
    return plan


def _gate(bench: Bench) -> None:
    """What has to hold at this moment, the lease last: it is taken by asking."""
    refuse([bench.at_rest()])
    refuse([planning.lease_check(bench)])
    refuse([planning.unfinished_check(bench), planning.writable_check(bench)])


def refuse(checks: list[Check] | tuple[Check, ...]) -> None:
    """Raise Refused for the first precondition that does not hold."""
    for check in checks:
        if check.ok is False:
            raise Refused(f"precondition '{check.name}' does not hold: {check.sentence}")


def _carry_out(bench: Bench, entry: ResetEntry, plan: ResetPlan) -> Result:
    """What an older epoch did between the look and the new epoch is in the rows by now: then nothing is written."""
    before, after = [move.seen.row for move in plan.moves], [move.to for move in plan.moves]
    try:
        epoch = take_over(bench)
        moved = bench.resets.write(entry.id, WRITTEN, Swap(before, after), epoch, undone=plan.goal.backup)
    except SlotkeeperError as error:
        if not isinstance(error, Trouble):
            raise _unfinished(entry, error) from error
        return end(bench, entry, Result(entry.id, ROLLED_BACK, f"nothing is changed: {_said(error)}"))
    if moved:
        stale = f"nothing is changed: plan {plan.id} is stale, this moved: {'; '.join(moved)}"
        return end(bench, entry, Result(entry.id, ROLLED_BACK, stale))
    bench.probe("after_rows")
    return finish(bench, entry, plan, epoch)


def take_over(bench: Bench) -> int:
    """Raise the epoch and silence what older sessions may still send; returns the epoch."""
    epoch = bench.resets.raise_epoch()
    bench.probe("after_epoch")
    if not bench.silence():
        end = bench.clock.monotonic() + LOST_ANSWER_WAIT
        while bench.clock.monotonic() < end:
            bench.pause(0.5)
    bench.probe("after_silence")
    return epoch


def finish(bench: Bench, entry: ResetEntry, plan: ResetPlan, epoch: int) -> Result:
    """Register, look again, compare, recount; the rows are written already."""
    try:
        points.register(bench, plan, epoch, points.Way.THERE)
        seen = points.compare(bench, plan, epoch, points.Way.THERE)
        bench.probe("after_compare")
        points.recount(bench, plan)
    except SlotkeeperError as error:
        if error.kind in PASSING:
            bench.resets.step(entry.id, WRITTEN, str(error))
            raise _unfinished(entry, error) from error
        return go_back(bench, entry, plan, epoch, error)
    return end(bench, entry, Result(entry.id, DONE, f"reset to {entry.target}", seen))


def go_back(bench: Bench, entry: ResetEntry, plan: ResetPlan, epoch: int, error: SlotkeeperError) -> Result:
    """Put the rows back as the backup has them, because finishing would never succeed.

    A row that is not as the reset wrote it is somebody else's, or lost: it is left, and named.
    """
    before, after = [move.seen.row for move in plan.moves], [move.to for move in plan.moves]
    try:
        swap = Swap(after, before, partly=True)
        why = _said(error)
        left = bench.resets.write(entry.id, GOING_BACK, swap, epoch, plan.goal.backup, entry.id, why)
    except SlotkeeperError as problem:
        raise _unfinished(entry, problem) from problem
    if left:
        why = f"{why}; left as it is: {'; '.join(left)}"
        bench.resets.step(entry.id, GOING_BACK, why)
    bench.probe("after_going_back")
    return restore(bench, entry, plan, epoch, why)


def restore(bench: Bench, entry: ResetEntry, plan: ResetPlan, epoch: int, why: str) -> Result:
    """The points follow the rows that were put back.

    Where they never will (the slot, the table or a row is gone, or somebody else's), the reset is over all the same:
    the next start compares rows and points and names what it finds. An error of no known kind is tried once more.
    """
    waits = PASSING if entry.step == GOING_BACK else PASSING | {ErrorKind.UNKNOWN}
    try:
        points.register(bench, plan, epoch, points.Way.BACK)
        seen = points.compare(bench, plan, epoch, points.Way.BACK)
    except SlotkeeperError as error:
        if error.kind in waits:
            bench.resets.step(entry.id, GOING_BACK, why)
            raise _unfinished(entry, error) from error
        also = "" if str(error) in why else f"; on the way back: {_said(error)}"
        return end(bench, entry, Result(entry.id, ROLLED_BACK, f"{why}{also}; {NAMED_NEXT}"))
    return end(bench, entry, Result(entry.id, ROLLED_BACK, f"nothing is changed: {why}", seen))


def end(bench: Bench, entry: ResetEntry, result: Result) -> Result:
    """Write down how it ended: audit, sink, job, and the mark goes last."""
    say(bench, entry, Phase.OUTCOME, outcome=f"{result.outcome}: {result.sentence}", result=result.lanes)
    bench.probe("after_outcome")
    bench.resets.step(entry.id, result.outcome, result.sentence)
    bench.probe("after_done")
    if result.outcome == DONE:
        bench.told(f"reset {entry.id}: {result.sentence}")
    bench.probe("after_told")
    bench.files.remove(RESETS, entry.id)
    return result


def say(
    bench: Bench,
    entry: ResetEntry,
    phase: Phase,
    action: str = "slots reset",
    outcome: str = "",
    result: Mapping[str, str] | None = None,
) -> None:
    """One line of the audit; where it cannot be written, nothing further is done."""
    line = AuditLine(
        at=bench.clock.utc(),
        actor=bench.actor,
        action=action,
        action_id=entry.id,
        phase=phase,
        what=bench.what,
        reason=entry.reason,
        plan=entry.plan_id,
        outcome=outcome,
        result=result or {},
    )
    bench.audit(line)


def mark(entry: ResetEntry) -> str:
    """What every command shows of an unfinished reset."""
    return json.dumps(
        {"id": entry.id, "job": entry.job, "source": entry.source, "table": entry.table, "slot": entry.slot}
    )


def _said(error: SlotkeeperError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def _asked(now: object, to: object) -> str:
    def said(row: object) -> str:
        position = getattr(row, "position", None)
        return position.text if position else "none"

    return f"{said(now)} -> {said(to)}"


def _unfinished(entry: ResetEntry, error: SlotkeeperError) -> Busy:
    hint = f"the job does not start until then: slotkeeper slots reset --resume {typed(entry.table, entry.slot)}"
    return Busy(f"reset {entry.id} is unfinished: {error}", hint, error.code, error.where)
