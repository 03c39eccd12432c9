"""Carries a plan out: lease, backup, intent, mark, epoch, rows, points, a recheck, outcome; each step is written
down before the next, so that a crash is finished or rolled back by `resume.py`.

The rows go first and the points follow, as in a running job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slotkeeper.core.domain.audit import AuditLine, Phase
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.reset import (
    BEGUN,
    DONE,
    GOING_BACK,
    ROLLED_BACK,
    WRITTEN,
    Check,
    ResetEntry,
    ResetPlan,
    Swap,
    plan_from,
)
from slotkeeper.core.domain.reset_checks import time_check, what_moved
from slotkeeper.core.domain.reset_files import MARKS, PLANS
from slotkeeper.core.domain.row_counts import CopyRows
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import Busy, ErrorKind, Refused, SlotkeeperError, Trouble
from slotkeeper.core.ports.source import LOST_ANSWER_WAIT
from slotkeeper.core.redaction import masked
from slotkeeper.core.slots.reset import plan as planning
from slotkeeper.core.slots.reset import points
from slotkeeper.core.slots.reset.backup import back_up
from slotkeeper.core.slots.reset.context import ResetContext

PASSING = frozenset(
    {
        ErrorKind.TRANSIENT,
        ErrorKind.CONTENTION,
        ErrorKind.ACCESS,
        ErrorKind.LOGIN,
        ErrorKind.OVERSIZE,
        ErrorKind.SUPERSEDED,
    }
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


def execute(ctx: ResetContext, order: ResetOrder) -> Result:
    """Carry out exactly this plan, or refuse and say why; what fails later is rolled back or left for `--resume`."""
    plan = _typed(ctx, order)
    _gate(ctx)
    seen = planning.see(ctx)
    moved = what_moved(plan, seen.identity.text, seen.lanes, seen.shards)
    if moved:
        raise Refused(f"plan {plan.id} is stale, this moved: {'; '.join(moved)}", "make a new one: without --execute")
    left = time_check(seen.left)
    rows = planning.count_rows(ctx, plan.goal, seen)
    outgrown = rows.outgrown(plan.rows) if rows and plan.rows else ""
    if outgrown:
        raise Refused(f"plan {plan.id} is stale: {outgrown}", "make a new one: without --execute")
    refuse([*plan.failed, left] if any(move.points for move in plan.moves) else plan.failed)
    entry = back_up(ctx, plan, seen.identity, masked(order.reason))
    asked = {m.seen.row.key.shard: _asked(m.seen.row, m.to) for m in plan.moves}
    say(ctx, entry, Phase.INTENT, result=asked | _counts(rows))
    ctx.probe("after_intent")
    ctx.files.save(MARKS, entry.id, entry.mark.text)
    ctx.probe("after_mark")
    ctx.resets.step(entry.id, BEGUN)
    ctx.probe("after_begun")
    return _carry_out(ctx, replace(entry, step=BEGUN), plan)


def _typed(ctx: ResetContext, order: ResetOrder) -> ResetPlan:
    """The plan that was typed, where everything typed beside it is right."""
    if not order.reason.strip():
        raise Refused("a reset needs a reason", 'add --reason "why", it is kept with the backup')
    if order.confirm != ctx.job.slot:
        raise Refused(f"the slot's name was not typed: {order.confirm!r}", f"add --confirm {ctx.job.slot}")
    text = ctx.files.load(PLANS, order.plan)
    if text is None:
        raise Refused(f"there is no plan {order.plan!r} here", "make one: the same command without --execute")
    plan = plan_from(text, ctx.positions)
    job = ctx.job
    if (plan.source, plan.table, plan.slot) != (job.source.name, job.channel.source_table, job.slot):
        raise Refused(f"plan {plan.id} is of {plan.source} {plan.table} slot {plan.slot}", "not of this slot")
    now = ctx.clock.utc().timestamp()
    if now > plan.expires:
        raise Refused(f"plan {plan.id} has expired", "make a new one: without --execute")
    if elapsed(plan.made, now) is None:
        what = f"plan {plan.id} was made at a time that this host's clock has not reached: it was set back"
        raise Refused(what, "make a new one: without --execute")
    if (order.rows or 0) != plan.at_stake:
        typed = "nothing" if order.rows is None else str(order.rows)
        right = f"add --rows {plan.at_stake}" if plan.at_stake else "leave --rows out"
        raise Refused(f"{plan.stake}, typed was {typed}", right)
    return plan


def _gate(ctx: ResetContext) -> None:
    """What has to hold at this moment, the lease last: it is taken by asking."""
    refuse([ctx.at_rest()])
    refuse([planning.lease_check(ctx)])
    refuse([planning.open_reset_check(ctx), planning.writable_check(ctx)])


def refuse(checks: list[Check] | tuple[Check, ...]) -> None:
    """Raise Refused for the first precondition that does not hold."""
    for check in checks:
        if check.ok is False:
            raise Refused(f"precondition '{check.name}' does not hold: {check.sentence}")


def _carry_out(ctx: ResetContext, entry: ResetEntry, plan: ResetPlan) -> Result:
    """What an older epoch did between the status and the new epoch is in the rows by now: then nothing is written."""
    before, after = [move.seen.row for move in plan.moves], [move.to for move in plan.moves]
    try:
        epoch = take_over(ctx, entry)
        swap = Swap(before, after, on_existing=plan.goal.on_existing or None)
        moved = ctx.resets.write(entry.id, WRITTEN, swap, epoch, undone=plan.goal.backup)
    except SlotkeeperError as error:
        if not isinstance(error, Trouble):
            raise _still_open(entry, error) from error
        return end(ctx, entry, Result(entry.id, ROLLED_BACK, f"nothing is changed: {_said(error)}"))
    if moved:
        stale = f"nothing is changed: plan {plan.id} is stale, this moved: {'; '.join(moved)}"
        return end(ctx, entry, Result(entry.id, ROLLED_BACK, stale))
    ctx.probe("after_rows")
    return finish(ctx, entry, plan, epoch)


def take_over(ctx: ResetContext, entry: ResetEntry) -> int:
    """Raise the epoch and silence what older sessions may still send; returns the epoch."""
    epoch = ctx.resets.raise_epoch()
    ctx.resets.note_epoch(entry.id, epoch)
    ctx.probe("after_epoch")
    if not ctx.silence():
        end = ctx.clock.monotonic() + LOST_ANSWER_WAIT
        while ctx.clock.monotonic() < end:
            ctx.pause(0.5)
    ctx.probe("after_silence")
    return epoch


def finish(ctx: ResetContext, entry: ResetEntry, plan: ResetPlan, epoch: int) -> Result:
    """Register, read the status again, compare, recount; the rows are written already."""
    try:
        points.register(ctx, plan, epoch, points.Way.THERE)
        seen = points.compare(ctx, plan, epoch, points.Way.THERE)
        ctx.probe("after_compare")
        points.recount(ctx, plan)
    except SlotkeeperError as error:
        if error.kind in PASSING:
            ctx.resets.step(entry.id, WRITTEN, str(error))
            raise _still_open(entry, error) from error
        return go_back(ctx, entry, plan, epoch, error)
    return end(ctx, entry, Result(entry.id, DONE, f"reset to {entry.target}", seen))


def go_back(ctx: ResetContext, entry: ResetEntry, plan: ResetPlan, epoch: int, error: SlotkeeperError) -> Result:
    """Put the rows back as the backup has them, because finishing would never succeed.

    A row that is not as the reset wrote it is somebody else's, or lost: it is left, and named.
    """
    before, after = [move.seen.row for move in plan.moves], [move.to for move in plan.moves]
    try:
        swap = Swap(after, before, partly=True)
        why = _said(error)
        left = ctx.resets.write(entry.id, GOING_BACK, swap, epoch, plan.goal.backup, entry.id, why)
    except SlotkeeperError as problem:
        raise _still_open(entry, problem) from problem
    if left:
        why = f"{why}; left as it is: {'; '.join(left)}"
        ctx.resets.step(entry.id, GOING_BACK, why)
    ctx.probe("after_going_back")
    return restore(ctx, entry, plan, epoch, why)


def restore(ctx: ResetContext, entry: ResetEntry, plan: ResetPlan, epoch: int, why: str) -> Result:
    """The points follow the rows that were put back.

    Where they never will (the slot, the table or a row is gone, or somebody else's), the reset is over all the same:
    the next start compares rows and points and names what it finds. An error of no known kind is tried once more.
    """
    waits = PASSING if entry.step == GOING_BACK else PASSING | {ErrorKind.UNKNOWN}
    try:
        points.register(ctx, plan, epoch, points.Way.BACK)
        seen = points.compare(ctx, plan, epoch, points.Way.BACK)
    except SlotkeeperError as error:
        if error.kind in waits:
            ctx.resets.step(entry.id, GOING_BACK, why)
            raise _still_open(entry, error) from error
        also = "" if str(error) in why else f"; on the way back: {_said(error)}"
        return end(ctx, entry, Result(entry.id, ROLLED_BACK, f"{why}{also}; {NAMED_NEXT}"))
    return end(ctx, entry, Result(entry.id, ROLLED_BACK, f"nothing is changed: {why}", seen))


def end(ctx: ResetContext, entry: ResetEntry, result: Result) -> Result:
    """Write down how it ended: audit, sink, job, and the mark goes last."""
    say(ctx, entry, Phase.OUTCOME, outcome=f"{result.outcome}: {result.sentence}", result=result.lanes)
    ctx.probe("after_outcome")
    ctx.resets.step(entry.id, result.outcome, result.sentence)
    ctx.probe("after_done")
    if result.outcome == DONE:
        tell_job(ctx, entry, result.sentence)
    ctx.probe("after_reported")
    ctx.files.remove(MARKS, entry.id)
    return result


def tell_job(ctx: ResetContext, entry: ResetEntry, sentence: str) -> None:
    """The job is told that its slot was reset, and where that voids them its comparisons are."""
    if plan_from(entry.plan, ctx.positions).voids:
        ctx.void(entry.id)
    ctx.report(f"reset {entry.id}: {sentence}")


def say(
    ctx: ResetContext,
    entry: ResetEntry,
    phase: Phase,
    action: str = "slots reset",
    outcome: str = "",
    result: Mapping[str, str] | None = None,
) -> None:
    """One line of the audit; where it cannot be written, nothing further is done."""
    line = AuditLine(
        at=ctx.clock.utc(),
        actor=ctx.actor,
        action=action,
        action_id=entry.id,
        phase=phase,
        what=ctx.what,
        reason=entry.reason,
        plan=entry.plan_id,
        outcome=outcome,
        result=result or {},
    )
    ctx.audit(line)


def _said(error: SlotkeeperError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def _asked(now: object, to: object) -> str:
    def said(row: object) -> str:
        position = getattr(row, "position", None)
        return position.text if position else "none"

    return f"{said(now)} -> {said(to)}"


def _counts(rows: CopyRows | None) -> dict[str, str]:
    return {"rows at the source": rows.source.text, "rows in the target": rows.target.text} if rows else {}


def _still_open(entry: ResetEntry, error: SlotkeeperError) -> Busy:
    hint = f"the job does not start until then: `slotkeeper slots reset --resume {typed(entry.table, entry.slot)}`"
    return Busy(f"reset {entry.id} is unfinished: {error}", hint, error.code, error.where)
