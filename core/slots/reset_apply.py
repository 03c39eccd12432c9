"""Executes the plan of a reset in recorded steps, and finishes or rolls back the reset after a crash.

The steps are lease, backup, intent, marker, epoch, rows, points, recheck, and outcome. Each step is recorded before the
next one starts; `resume` finishes a reset that a crash interrupted, or rolls it back if nothing was written yet. Rows
are written before points, as in a running job, where each registration locks the lane's row. Lanes that move back are
registered first, so that nothing has changed yet if the server rejects such a move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from slotkeeper.core.domain.audit import AuditLine, Phase
from slotkeeper.core.domain.consent import Consent, Ordered
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.position import Kept
from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.reset import (
    BACKED_UP,
    BEGUN,
    DONE,
    GOING_BACK,
    NEVER_BEGUN,
    ROLLED_BACK,
    WRITTEN,
    Backup,
    Check,
    Goal,
    Move,
    OpenReset,
    ResetEntry,
    ResetPlan,
    ResetStep,
    SavedLane,
    Swap,
    TargetKind,
    backup_text,
    plan_from,
    plan_text,
)
from slotkeeper.core.domain.reset_checks import retained_check, table_check, time_check, what_moved
from slotkeeper.core.domain.reset_files import BACKUPS, MARKS, PLANS
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.text import many, typed
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.errors import Busy, ErrorKind, Refused, SlotkeeperError, Superseded, Trouble, TroubleName
from slotkeeper.core.ports.source import LOST_ANSWER_WAIT
from slotkeeper.core.redaction import masked
from slotkeeper.core.slots import reset_plan
from slotkeeper.core.slots.reset_plan import ResetContext

REFUSED_BACK = "this server does not move a point back; use --to snapshot instead"


class Way(Enum):
    """The direction of a reset: forward to the planned state, or back to the previous state."""

    THERE = "there"
    BACK = "back"


def register(ctx: ResetContext, plan: ResetPlan, epoch: int, way: Way) -> None:
    """Register every lane that the plan moves; a temporary failure of one lane does not stop the other lanes.

    During a rollback, no failure stops the other lanes: every lane that can be restored is restored.
    """
    late: list[SlotkeeperError] = []
    never: list[SlotkeeperError] = []
    for done, move in enumerate(sorted(plan.moves, key=lambda one: (not one.back, one.seen.row.key))):
        ctx.progress(ResetStep.SLOT, done, len(plan.moves))
        if _points(move, way) is None:
            continue
        try:
            _register(ctx, move, epoch, way)
        except SlotkeeperError as error:
            passes = error.kind in (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
            if not passes and way is Way.THERE:
                raise
            (late if passes else never).append(error)
    if late:
        words = "; ".join(dict.fromkeys(str(error) for error in late))
        raise Busy(f"{len(late)} of {len(plan.moves)} DNs are not registered: {words}", code=late[0].code)
    if never:
        raise never[0]


def _points(move: Move, way: Way) -> Kept | None:
    if move.points is None or way is Way.THERE:
        return move.points
    return None if move.seen.lost else move.seen.kept


def _row(move: Move, way: Way) -> ProgressRow:
    return move.to if way is Way.THERE else move.seen.row


def _register(ctx: ResetContext, move: Move, epoch: int, way: Way) -> None:
    points, row, place = _points(move, way), _row(move, way), move.seen.row.key.shard
    assert points is not None and move.points is not None
    there, back = move.points, move.seen.kept
    ours = {there, back} | there.on_the_way(back) | back.on_the_way(there)
    slot = ctx.table.slot
    with ctx.table.pinned(), ctx.resets.registration(row.key, epoch) as lock:
        if lock.row.position != row.position:
            raise Refused(f"{place}: the row is not at the position that this reset set")
        shard = move.seen.shard
        first = next(status for status in ctx.table.source.read_status(shard) if status.shard == shard)
        if first.kept != points:
            if first.kept.missing and not move.seen.lost:
                raise trouble(TroubleName.SLOT_LOST, f"{place}: the slot disappeared during the reset")
            if not move.seen.lost and first.kept not in ours:
                raise trouble(TroubleName.SLOT_MOVED, f"{place}: another session moved the slot during the reset")
            if slot is not None:
                slot.put(shard, points, ctx.probe, first, move.seen.lost)
        if row.registered is not None:
            lock.record(row.registered, "")


def compare(ctx: ResetContext, plan: ResetPlan, epoch: int, way: Way) -> dict[str, str]:
    """Read every DN and row again; return the observed state by DN. Raises Refused if it is not the requested state."""
    rows = {row.key: row for row in ctx.resets.rows()}
    asking = any(_points(move, way) for move in plan.moves)
    statuses = {status.shard.name: status for status in ctx.table.source.read_status(None)} if asking else {}
    found: dict[str, str] = {}
    for move in plan.moves:
        row, points, place = _row(move, way), _points(move, way), move.seen.row.key.shard
        now = rows.get(row.key)
        if now is None:
            raise trouble(TroubleName.PROGRESS_LOST, f"the progress row of {place} no longer exists in the sink")
        if now.epoch != epoch:
            raise Superseded(f"{place}: another run has taken over (epoch {now.epoch}; this reset has epoch {epoch})")
        if (now.position, now.state) != (row.position, row.state):
            raise Refused(f"{place}: the row is not at the position that this reset set")
        text = f"is at {row.position.text}, {row.state.value}" if row.position else "awaits its copy"
        if points is not None:
            seen = statuses[place].kept if place in statuses else None
            if seen is None or seen.missing:
                raise trouble(TroubleName.SLOT_LOST, f"{place}: the slot disappeared during the reset")
            if seen != points:
                raise Refused(f"{place}: requested {points.shown}, observed {seen.shown}", REFUSED_BACK)
            text += f"; requested {points.shown}, observed {seen.shown}"
        found[place] = text
    return found


def recount(ctx: ResetContext, plan: ResetPlan) -> None:
    """Raise Refused if fewer changes remain than the plan counted, because some were purged in the meantime."""
    for move in plan.moves:
        if not move.back or not move.read_again.whole or move.before is None or move.to.position is None:
            continue
        now = ctx.table.inspector.count(move.seen.shard, move.to.position, move.before)
        if now.whole and now.total < move.read_again.total:
            sentence = f"{move.seen.row.key.shard}: {now.total} of {move.read_again.total} changes remain"
            raise Refused(f"{sentence}: they were purged meanwhile", "plan again, or use --to snapshot")


PASSING = frozenset({
    ErrorKind.TRANSIENT, ErrorKind.CONTENTION, ErrorKind.ACCESS,
    ErrorKind.LOGIN, ErrorKind.OVERSIZE, ErrorKind.SUPERSEDED,
})  # fmt: skip
"""Failures after which the reset waits for `--resume`; after any other failure it is rolled back."""


NAMED_NEXT = "everything that could be restored was restored; the next start of the job names the rest"


def back_up(ctx: ResetContext, plan: ResetPlan, identity: TableIdentity, reason: str) -> ResetEntry:
    """Write the backup to a file, flush the file, then write the backup to the sink; both have the reset's own id."""
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
        id=reset, job=plan.job, source=plan.source, table=plan.table, slot=plan.slot, target=plan.goal.text,
        plan_id=plan.id, step=BACKED_UP, who=who, reason=reason, plan=plan_text(plan), backup=text,
    )  # fmt: skip
    ctx.resets.make_table()
    ctx.resets.insert_reset(entry)
    ctx.probe("after_backup_row")
    return entry


@dataclass(frozen=True, slots=True)
class Result:
    """How a reset ended: `outcome` is DONE or ROLLED_BACK, `lanes` is the observed state per DN.

    `no_undo` is the reason why a completed reset cannot be undone; "" if nothing known prevents it.
    """

    reset: str
    outcome: str
    sentence: str
    lanes: Mapping[str, str] = field(default_factory=dict)
    no_undo: str = ""


@dataclass(frozen=True, slots=True)
class ResetOrder:
    """The values that a user typed to execute a plan."""

    plan: str
    reason: str
    confirm: str
    rows: int | None = None


def no_undo(plan: ResetPlan) -> str:
    """Return why an undo of a plan cannot pass its checks, at any time; "" if nothing known prevents it."""
    undo = Goal(TargetKind.BACKUP)
    if table_check(undo, plan.fingerprint, {move.seen.row.fingerprint for move in plan.moves}, "").ok is False:
        return "the table has changed"
    back = [replace(move, to=move.seen.row) for move in plan.moves]
    gone = [move for move in back if retained_check(undo, [move]).ok is False]
    if gone:
        return f"the slot was lost on {len(gone)} of {many(len(plan.moves), 'lane')}: no binlog holds the old positions"
    return ""


def execute(ctx: ResetContext, order: ResetOrder) -> Result:
    """Execute exactly this plan, or raise Refused; after a later failure, roll back or wait for `--resume`."""
    plan = _typed(ctx, order)
    # preconditions that must be met now; the lease check also takes the lease
    refuse([ctx.at_rest()])
    refuse([reset_plan.lease_check(ctx)])
    refuse([reset_plan.open_reset_check(ctx), reset_plan.writable_check(ctx)])
    seen = reset_plan.see(ctx)
    moved = what_moved(plan, seen.identity.text, seen.lanes, seen.shards)
    if moved:
        raise Refused(f"plan {plan.id} is stale; changed: {'; '.join(moved)}", "make a new plan: run without --execute")
    left = time_check(seen.left)
    rows = reset_plan.count_rows(ctx, plan.goal, seen)
    outgrown = rows.outgrown(plan.rows) if rows and plan.rows else ""
    if outgrown:
        raise Refused(f"plan {plan.id} is stale: {outgrown}", "make a new plan: run without --execute")
    refuse([*plan.failed, left] if any(move.points for move in plan.moves) else plan.failed)
    ctx.progress(ResetStep.BACKUP, 0, len(plan.moves))
    entry = back_up(ctx, plan, seen.identity, masked(order.reason))
    asked = {m.seen.row.key.shard: f"{_place_of(m.seen.row)} -> {_place_of(m.to)}" for m in plan.moves}
    counted = {"rows at the source": rows.source.text, "rows in the target": rows.target.text} if rows else {}
    say(ctx, entry, Phase.INTENT, result=asked | counted)
    ctx.probe("after_intent")
    if rows is not None and rows.replaces:
        # the plan shows the number of rows, so typing the name is consent to the copy that replaces them
        what = f"{rows.target.text} rows of {ctx.job.channel.place}"
        copy = Consent(plan.id, plan.job, plan.table, plan.slot, what, ctx.alone)
        now = ctx.clock.utc().timestamp()
        ctx.consents.keep(replace(copy, name=order.confirm, who=entry.who, reason=entry.reason, at=now))
    ctx.files.save(MARKS, entry.id, entry.mark.text)
    ctx.probe("after_mark")
    ctx.resets.step(entry.id, BEGUN)
    ctx.probe("after_begun")
    return _carry_out(ctx, replace(entry, step=BEGUN), plan)


def _typed(ctx: ResetContext, order: ResetOrder) -> ResetPlan:
    """Return the plan with the typed id; raises Refused if another typed value is wrong."""
    if not order.reason.strip():
        raise Refused("a reset needs a reason", 'add --reason "why": it is stored with the backup')
    if order.confirm != ctx.job.slot:
        raise Refused(f"the typed name is not the slot's: {order.confirm!r}", f"add --confirm {ctx.job.slot}")
    text = ctx.files.load(PLANS, order.plan)
    if text is None:
        raise Refused(f"unknown plan {order.plan!r}", "make a plan: run the same command without --execute")
    plan = plan_from(text, ctx.positions)
    job = ctx.job
    if (plan.source, plan.table, plan.slot) != (job.source.name, job.channel.source_table, job.slot):
        raise Refused(f"plan {plan.id} is for {plan.source} {plan.table} slot {plan.slot}", "use a plan of this slot")
    now = ctx.clock.utc().timestamp()
    if now > plan.expires:
        raise Refused(f"plan {plan.id} has expired", "make a new plan: run without --execute")
    if elapsed(plan.made, now) is None:
        what = f"plan {plan.id} was made later than this host's clock shows: the clock was set back"
        raise Refused(what, "make a new plan: run without --execute")
    if (order.rows or 0) != plan.at_stake:
        typed = "nothing" if order.rows is None else str(order.rows)
        right = f"add --rows {plan.at_stake}" if plan.at_stake else "remove --rows"
        raise Refused(f"{plan.stake}, but {typed} was typed", right)
    if plan.at_stake or (plan.rows is not None and plan.rows.replaces):
        ctx.approved(plan.id, f"reset of {ctx.what} to {plan.goal.text} ({plan.stake})")
    return plan


def refuse(checks: list[Check] | tuple[Check, ...]) -> None:
    """Raise Refused for the first precondition that is not met."""
    for check in checks:
        if check.ok is False:
            raise Refused(f"precondition '{check.name}' is not met: {check.sentence}")


def _carry_out(ctx: ResetContext, entry: ResetEntry, plan: ResetPlan) -> Result:
    """Raise the epoch and write the rows, unless an older epoch changed the rows after the plan read them."""
    before, after = [move.seen.row for move in plan.moves], [move.to for move in plan.moves]
    try:
        ctx.progress(ResetStep.SESSIONS, 0, len(plan.moves))
        epoch = take_over(ctx, entry)
        ctx.progress(ResetStep.ROWS, 0, len(plan.moves))
        swap = Swap(before, after, ordered=Ordered(plan.id, plan.goal.on_existing).text)
        moved = ctx.resets.write(entry.id, WRITTEN, swap, epoch, undone=plan.goal.backup)
    except SlotkeeperError as error:
        if not isinstance(error, Trouble):
            raise still_open(entry, error) from error
        return end(ctx, entry, Result(entry.id, ROLLED_BACK, f"nothing was changed: {_said(error)}"))
    if moved:
        stale = f"nothing was changed: plan {plan.id} is stale; changed: {'; '.join(moved)}"
        return end(ctx, entry, Result(entry.id, ROLLED_BACK, stale))
    ctx.probe("after_rows")
    return finish(ctx, entry, plan, epoch)


def take_over(ctx: ResetContext, entry: ResetEntry) -> int:
    """Raise the epoch and prevent late registrations by older sessions; return the new epoch."""
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
    """Register, read the status again, compare and recount; the rows are already written."""
    try:
        register(ctx, plan, epoch, Way.THERE)
        ctx.progress(ResetStep.CHECK, len(plan.moves), len(plan.moves))
        seen = compare(ctx, plan, epoch, Way.THERE)
        ctx.probe("after_compare")
        recount(ctx, plan)
    except SlotkeeperError as error:
        if error.kind in PASSING:
            ctx.resets.step(entry.id, WRITTEN, str(error))
            raise still_open(entry, error) from error
        return go_back(ctx, entry, plan, epoch, error)
    return end(ctx, entry, Result(entry.id, DONE, f"reset to {entry.target}", seen, no_undo(plan)))


def go_back(ctx: ResetContext, entry: ResetEntry, plan: ResetPlan, epoch: int, error: SlotkeeperError) -> Result:
    """Restore the rows from the backup, because finishing would never succeed.

    A row that no longer has the values that the reset wrote is not restored, because it was changed by another program
    or is missing; the outcome names the row.
    """
    before, after = [move.seen.row for move in plan.moves], [move.to for move in plan.moves]
    try:
        swap = Swap(after, before, partly=True, ordered=Ordered(plan.id).text)
        why = _said(error)
        left = ctx.resets.write(entry.id, GOING_BACK, swap, epoch, plan.goal.backup, entry.id, why)
    except SlotkeeperError as problem:
        raise still_open(entry, problem) from problem
    if left:
        why = f"{why}; not restored: {'; '.join(left)}"
        ctx.resets.step(entry.id, GOING_BACK, why)
    ctx.probe("after_going_back")
    return restore(ctx, entry, plan, epoch, why)


def restore(ctx: ResetContext, entry: ResetEntry, plan: ResetPlan, epoch: int, why: str) -> Result:
    """Move the points to the restored rows.

    If the points can never be moved (the slot, the table or a row is missing or belongs to another program), the reset
    still ends: the next start compares rows and points and reports differences. An error of unknown kind is retried
    once.
    """
    waits = PASSING if entry.step == GOING_BACK else PASSING | {ErrorKind.UNKNOWN}
    try:
        register(ctx, plan, epoch, Way.BACK)
        seen = compare(ctx, plan, epoch, Way.BACK)
    except SlotkeeperError as error:
        if error.kind in waits:
            ctx.resets.step(entry.id, GOING_BACK, why)
            raise still_open(entry, error) from error
        also = "" if str(error) in why else f"; during the rollback: {_said(error)}"
        return end(ctx, entry, Result(entry.id, ROLLED_BACK, f"{why}{also}; {NAMED_NEXT}"))
    return end(ctx, entry, Result(entry.id, ROLLED_BACK, f"nothing was changed: {why}", seen))


def end(ctx: ResetContext, entry: ResetEntry, result: Result) -> Result:
    """Record the outcome in the audit, in the sink and for the job; remove the marker last."""
    say(ctx, entry, Phase.OUTCOME, outcome=f"{result.outcome}: {result.sentence}", result=result.lanes)
    ctx.probe("after_outcome")
    ctx.resets.step(entry.id, result.outcome, result.sentence)
    ctx.probe("after_done")
    conclude(ctx, entry, result.outcome, result.sentence)
    ctx.probe("after_reported")
    ctx.files.remove(MARKS, entry.id)
    return result


def conclude(ctx: ResetContext, entry: ResetEntry, outcome: str, sentence: str) -> None:
    """Drop the consents that no longer apply; record a completed reset for the job, whose comparisons it can void.

    An undo cancels the copy of an earlier reset, and each snapshot has its own consent.
    """
    ctx.consents.drop(entry.table, entry.plan_id if outcome == DONE else "")
    if outcome != DONE:
        return
    plan = plan_from(entry.plan, ctx.positions)
    if plan.voids:
        ctx.void(entry.id)
    ctx.report(f"reset {entry.id}: {sentence}", any(move.to.state is LaneState.CREATING for move in plan.moves))


def say(
    ctx: ResetContext,
    entry: ResetEntry,
    phase: Phase,
    action: str = "slots reset",
    outcome: str = "",
    result: Mapping[str, str] | None = None,
) -> None:
    """Write one audit line; if writing fails, the reset does not continue."""
    line = AuditLine(
        at=ctx.clock.utc(), actor=ctx.actor, action=action, action_id=entry.id, phase=phase, what=ctx.what,
        reason=entry.reason, plan=entry.plan_id, outcome=outcome, result=result or {},
    )  # fmt: skip
    ctx.audit(line)


def _place_of(row: ProgressRow) -> str:
    return row.position.text if row.position else "none"


def _said(error: SlotkeeperError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


class LeftOpen(Busy):
    """A reset that waits for `--resume`; its `__cause__` is the error that interrupted it."""


def still_open(entry: ResetEntry | OpenReset, error: SlotkeeperError) -> LeftOpen:
    """Return the error to raise from `error`: it names the reset and the command that finishes it."""
    hint = (
        f"the job cannot start until it is finished: `slotkeeper slots reset --resume {typed(entry.table, entry.slot)}`"
    )
    return LeftOpen(f"reset {entry.id} is unfinished: {error}", hint, error.code, error.where)


def resume(ctx: ResetContext) -> Result:
    """Finish the slot's unfinished reset; raises Refused if there is none or the job is not stopped."""
    refuse([ctx.at_rest()])
    refuse([reset_plan.lease_check(ctx)])
    entry = ctx.resets.open_entry()
    if entry is None:
        return _forget(ctx)
    say(ctx, entry, Phase.INTENT, "slots reset --resume")
    ctx.files.save(MARKS, entry.id, entry.mark.text)
    ctx.probe("after_resume_intent")
    try:
        epoch = take_over(ctx, entry)
    except Trouble as error:
        if error.name is not TroubleName.PROGRESS_LOST:
            raise
        return end(ctx, entry, Result(entry.id, ROLLED_BACK, f"{error} ({error.hint})"))
    # read the reset again under the new epoch: a commit that was in progress has either taken effect by now or never
    # will
    entry = ctx.resets.reset(entry.id) or entry
    made = plan_from(entry.plan, ctx.positions)
    if entry.step == BEGUN:
        return end(ctx, entry, Result(entry.id, ROLLED_BACK, "nothing had been written"))
    if entry.step == WRITTEN:
        return finish(ctx, entry, made, epoch)
    return restore(ctx, entry, made, epoch, entry.outcome or "it could not be finished")


def _forget(ctx: ResetContext) -> Result:
    """Handle markers without an open reset: the crash occurred before the first change or after the last change.

    If there are several, only the newest completed reset determines the state of the job.
    """
    newest = next((one.id for one in ctx.resets.history() if one.step == DONE), "")
    result: Result | None = None
    for name in ctx.files.names(MARKS):
        found = OpenReset.parse(name, ctx.files.load(MARKS, name) or "")
        if (found.table, found.slot) != (ctx.job.channel.source_table, ctx.job.slot):
            continue
        entry = ctx.resets.reset(name)
        if entry is None:
            ctx.files.remove(MARKS, name)
            result = result or Result(name, ROLLED_BACK, "the sink has no record of it")
        elif entry.step == BACKED_UP:
            ended = end(ctx, entry, Result(name, ROLLED_BACK, NEVER_BEGUN))
            result = result or ended
        elif name == newest:
            conclude(ctx, entry, DONE, entry.outcome)
            ctx.files.remove(MARKS, name)
            result = Result(name, DONE, entry.outcome, no_undo=no_undo(plan_from(entry.plan, ctx.positions)))
        else:
            ctx.files.remove(MARKS, name)
            result = result or Result(name, entry.step, entry.outcome)
    if result is not None:
        return result
    raise Refused(f"no unfinished reset of {ctx.what}", "`slotkeeper slots history` lists the finished resets")
