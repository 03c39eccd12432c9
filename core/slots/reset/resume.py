"""Finishes a reset that a crash left behind, or rolls it back where nothing was written yet."""

from __future__ import annotations

from slotkeeper.core.domain.audit import Phase
from slotkeeper.core.domain.reset import (
    BACKED_UP,
    BEGUN,
    DONE,
    NEVER_BEGUN,
    ROLLED_BACK,
    WRITTEN,
    OpenReset,
    ResetEntry,
    plan_from,
)
from slotkeeper.core.domain.reset_files import MARKS
from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.core.slots.reset import apply, plan
from slotkeeper.core.slots.reset.apply import Result
from slotkeeper.core.slots.reset.context import ResetContext


def resume(ctx: ResetContext) -> Result:
    """Bring the slot's unfinished reset to its end; Refused where there is none, or the job is not at rest."""
    apply.refuse([ctx.at_rest()])
    apply.refuse([plan.lease_check(ctx)])
    entry = ctx.resets.open_entry()
    if entry is None:
        return _forget(ctx)
    apply.say(ctx, entry, Phase.INTENT, "slots reset --resume")
    ctx.files.save(MARKS, entry.id, entry.mark.text)
    ctx.probe("after_resume_intent")
    try:
        epoch = apply.take_over(ctx, entry)
    except Trouble as error:
        if error.name is not TroubleName.PROGRESS_LOST:
            raise
        return apply.end(ctx, entry, Result(entry.id, ROLLED_BACK, f"{error} ({error.hint})"))
    entry = _again(ctx, entry)
    made = plan_from(entry.plan, ctx.positions)
    if entry.step == BEGUN:
        return apply.end(ctx, entry, Result(entry.id, ROLLED_BACK, "nothing had been written"))
    if entry.step == WRITTEN:
        return apply.finish(ctx, entry, made, epoch)
    return apply.restore(ctx, entry, made, epoch, entry.outcome or "finishing it had failed")


def _again(ctx: ResetContext, entry: ResetEntry) -> ResetEntry:
    """The reset as it stands behind the new epoch: a commit that was on its way has landed or never will."""
    return ctx.resets.reset(entry.id) or entry


def _forget(ctx: ResetContext) -> Result:
    """A mark without an open reset: the crash came before the first change, or after the last."""
    for name in ctx.files.names(MARKS):
        found = OpenReset.parse(name, ctx.files.load(MARKS, name) or "")
        if (found.table, found.slot) != (ctx.job.channel.source_table, ctx.job.slot):
            continue
        entry = ctx.resets.reset(name)
        if entry is None:
            ctx.files.remove(MARKS, name)
            return Result(name, ROLLED_BACK, "the sink knows nothing of it")
        if entry.step == BACKED_UP:
            return apply.end(ctx, entry, Result(name, ROLLED_BACK, NEVER_BEGUN))
        if entry.step == DONE:
            apply.tell_job(ctx, entry, entry.outcome)
        ctx.files.remove(MARKS, name)
        return Result(name, entry.step, entry.outcome)
    raise Refused(f"there is no unfinished reset of {ctx.what}", "`slotkeeper slots history` lists what was done")
