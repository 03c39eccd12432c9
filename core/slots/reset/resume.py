"""Finishes a reset that a crash left behind, or rolls it back where nothing was written yet.

Next door: `apply.py` has the steps; the sink's row of the reset says how far it came.
"""

from __future__ import annotations

import json

from core.domain.audit import Phase
from core.domain.reset_entry import BACKED_UP, BEGUN, DONE, NEVER_BEGUN, ROLLED_BACK, WRITTEN, ResetEntry
from core.domain.reset_text import plan_from
from core.errors import Refused, Trouble, TroubleName
from core.slots.reset import apply, plan
from core.slots.reset.apply import Result
from core.slots.reset.context import RESETS, Bench


def resume(bench: Bench) -> Result:
    """Bring the slot's unfinished reset to its end; Refused where there is none, or the job is not at rest."""
    apply.refuse([bench.at_rest()])
    apply.refuse([plan.lease_check(bench)])
    entry = bench.resets.unfinished()
    if entry is None:
        return _forget(bench)
    apply.say(bench, entry, Phase.INTENT, "slots reset --resume")
    bench.files.save(RESETS, entry.id, apply.mark(entry))
    bench.probe("after_resume_intent")
    try:
        epoch = apply.take_over(bench)
    except Trouble as error:
        if error.name is not TroubleName.PROGRESS_LOST:
            raise
        return apply.end(bench, entry, Result(entry.id, ROLLED_BACK, f"{error} ({error.hint})"))
    entry = _again(bench, entry)
    made = plan_from(entry.plan)
    if entry.step == BEGUN:
        return apply.end(bench, entry, Result(entry.id, ROLLED_BACK, "nothing had been written"))
    if entry.step == WRITTEN:
        return apply.finish(bench, entry, made, epoch)
    return apply.restore(bench, entry, made, epoch, entry.outcome or "finishing it had failed")


def _again(bench: Bench, entry: ResetEntry) -> ResetEntry:
    """The reset as it stands behind the new epoch: a commit that was on its way has landed or never will."""
    return bench.resets.reset(entry.id) or entry


def _forget(bench: Bench) -> Result:
    """A mark without an open reset: the crash came before the first change, or after the last."""
    for name in bench.files.names(RESETS):
        found = json.loads(bench.files.load(RESETS, name) or "{}")
        if (found.get("table"), found.get("slot")) != (bench.job.channel.source_table, bench.job.slot):
            continue
        entry = bench.resets.reset(name)
        if entry is None:
            bench.files.remove(RESETS, name)
            return Result(name, ROLLED_BACK, "the sink knows nothing of it")
        if entry.step == BACKED_UP:
            return apply.end(bench, entry, Result(name, ROLLED_BACK, NEVER_BEGUN))
        if entry.step == DONE:
            bench.told(f"reset {name}: {entry.outcome}")
        bench.files.remove(RESETS, name)
        return Result(name, entry.step, entry.outcome)
    raise Refused(f"there is no unfinished reset of {bench.what}", "`slotkeeper slots history` lists what was done")
