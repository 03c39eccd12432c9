"""The backup before a reset: everything that it may change, in a file and in the sink, before anything changes."""

from __future__ import annotations

from slotkeeper.core.domain.reset import (
    BACKED_UP,
    Backup,
    ResetEntry,
    ResetPlan,
    SavedLane,
    backup_from,
    backup_text,
    plan_text,
)
from slotkeeper.core.domain.reset_files import BACKUPS
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.errors import Refused
from slotkeeper.core.slots.reset.context import ResetContext


def back_up(ctx: ResetContext, plan: ResetPlan, identity: TableIdentity, reason: str) -> ResetEntry:
    """Write the backup into a file that is flushed, then into the sink; the id is the reset's own."""
    reset = ctx.new_id()
    lanes = tuple(SavedLane(move.seen.row, move.seen.kept) for move in plan.moves)
    columns = tuple((column.name, column.type) for column in identity.columns)
    who, when = ctx.actor.text, ctx.clock.utc().isoformat(timespec="seconds")
    what = (plan.dialect, plan.source, plan.table, plan.slot, plan.job)
    backup = Backup(reset, *what, identity.text, columns, lanes, who, when, reason, plan.id)
    text = backup_text(backup)
    ctx.files.save(BACKUPS, reset, text)
    ctx.probe("after_backup_file")
    entry = ResetEntry(
        id=reset,
        job=plan.job,
        source=plan.source,
        table=plan.table,
        slot=plan.slot,
        target=plan.goal.text,
        plan_id=plan.id,
        step=BACKED_UP,
        who=who,
        reason=reason,
        plan=plan_text(plan),
        backup=text,
    )
    ctx.resets.make_table()
    ctx.resets.insert_reset(entry)
    ctx.probe("after_backup_row")
    return entry


def load_backup(ctx: ResetContext, name: str) -> Backup:
    """A backup by its id, from its file or else from the sink; Refused where it is none of this slot."""
    text = ctx.files.load(BACKUPS, name)
    if text is None:
        entry = ctx.resets.reset(name)
        if entry is None:
            raise Refused(f"there is no backup {name!r}", "`slotkeeper slots history TABLE SLOT` lists them")
        text = entry.backup
    backup = backup_from(text, ctx.positions)
    job = ctx.job
    if (backup.source, backup.table, backup.slot) != (job.source.name, job.channel.source_table, job.slot):
        raise Refused(f"backup {name} is of {backup.source} {backup.table} slot {backup.slot}", "not of this slot")
    return backup
