"""The plan (dry run) of a reset: the move of each lane, the preconditions, and the context of a reset.

Planning never creates a slot: it lists the slot's points, and queries the status only if the slot exists on every DN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.audit import Actor, AuditLine
from slotkeeper.core.domain.consent import Consents
from slotkeeper.core.domain.locks import end_it, explain_lease, is_stranger
from slotkeeper.core.domain.position import NOTHING_KEPT, Kept, Position, Positions, further
from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.query_report import AFTER_A_MOVE, WHERE_TO_ACT
from slotkeeper.core.domain.reset import (
    COPIES,
    DONE,
    EVERY,
    TAKES_COPY,
    Backup,
    Check,
    Goal,
    LaneSeen,
    Move,
    ResetPlan,
    ResetStep,
    TargetKind,
    backup_from,
    named,
    plan_from,
    plan_text,
)
from slotkeeper.core.domain.reset_checks import (
    OLDER_STAY,
    LanePast,
    Pasts,
    changed_check,
    columns_check,
    emptied,
    leaves_older,
    moved_rows,
    nodes_check,
    past,
    restored,
    retained_check,
    rows_check,
    same_state,
    slot_check,
    table_check,
    through,
    time_check,
    undo_check,
    untouched_check,
    wanted,
)
from slotkeeper.core.domain.reset_files import BACKUPS, PLANS
from slotkeeper.core.domain.row_counts import CopyRows, RowCount
from slotkeeper.core.domain.slot import RegisteredPoint, Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import NO_COPY, RESNAPSHOT, JobSpec, start_at
from slotkeeper.core.domain.text import few
from slotkeeper.core.domain.ttl import in_words
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.driver import ResetStore, Target
from slotkeeper.core.ports.source import SourceTable

Probe = Callable[[str], None]
"""A function called at named points of a reset; only tests set one, which stops or kills the reset."""


class Files(Protocol):
    """The files of resets in the state folder: plans, backups, and markers of unfinished resets."""

    def save(self, kind: str, name: str, text: str) -> None: ...
    def load(self, kind: str, name: str) -> str | None: ...
    def remove(self, kind: str, name: str) -> None: ...
    def names(self, kind: str) -> list[str]: ...


def silent(point: str) -> None:
    """Do nothing; this is the probe used in production."""


def unseen(step: ResetStep, done: int, total: int) -> None:
    """Report no progress."""


@dataclass
class ResetContext:
    """The context of a reset; `positions` parses the source's positions.

    `at_rest` checks that the job, or the job's table that is being reset, is stopped. `report` receives a description
    of the reset and whether the job now awaits a copy; `void` receives the id of the reset, which invalidates older
    comparisons. `silence` ends other sessions in the source that register this channel, and returns False if that is
    not certain. `target` returns the target, which only a copy or changed columns concern. `copied_per_second` returns
    the rate of the job's last copy, given the number of rows in the target, or None if unknown. `apart` is true if
    positions of different shards cannot be compared, `alone` if the job has no other table. `progress` receives the
    next step, the lanes moved and all lanes. `approved` raises Refused if a required approval is missing.
    """

    job: JobSpec
    positions: Positions
    table: SourceTable
    resets: ResetStore
    files: Files
    actor: Actor
    audit: Callable[[AuditLine], object]
    at_rest: Callable[[], Check]
    report: Callable[[str, bool], object]
    void: Callable[[str], object]
    silence: Callable[[], bool]
    target: Callable[[], Target]
    clock: Clock
    pause: Callable[[float], None]
    new_id: Callable[[], str]
    consents: Consents
    alone: bool = True
    copied_per_second: Callable[[int | None], float | None] = lambda present: None
    steal: str = ""
    apart: bool = False
    probe: Probe = silent
    progress: Callable[[ResetStep, int, int], None] = unseen
    approved: Callable[[str, str], object] = lambda plan, what: None

    @property
    def what(self) -> str:
        return f"{self.job.source.name} {self.job.channel.source_table} slot {self.job.slot}"


def load_backup(ctx: ResetContext, name: str) -> Backup:
    """Return a backup by its id, from its file or else from the sink; raises Refused if it belongs to another slot."""
    text = ctx.files.load(BACKUPS, name)
    if text is None:
        entry = ctx.resets.reset(name)
        if entry is None:
            raise Refused(f"unknown backup {name!r}", "`slotkeeper slots history TABLE SLOT` lists them")
        text = entry.backup
    backup = backup_from(text, ctx.positions)
    job = ctx.job
    if (backup.source, backup.table, backup.slot) != (job.source.name, job.channel.source_table, job.slot):
        what = f"backup {name} belongs to {backup.source} {backup.table} slot {backup.slot}"
        raise Refused(what, "name a backup of this slot")
    return backup


MIB = 1_048_576
HIDDEN = "sessions that read the target are unknown: this sink does not list them"
VALID_SECONDS = 600.0
LEASE_TRIES = 10
Places = Mapping[str, Position]
"""Positions by DN."""
FRESH = LanePast()
"""The history of a lane without a known reset."""


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """The slot on all DNs at one time; `left` is in seconds until its TTL ends, `statuses` is empty if not queried."""

    identity: TableIdentity
    shards: tuple[Shard, ...]
    lanes: tuple[LaneSeen, ...]
    statuses: tuple[SlotStatus, ...]
    left: float | None
    others: tuple[str, ...] = ()
    """Other slots of the table, as far as the server lists them."""


def see(ctx: ResetContext) -> SlotSeen:
    """Return the row, points and retained range of every lane; raises Refused if the sink has no rows of the slot."""
    rows = ctx.resets.rows()
    if not rows or not ctx.job.binlog.binlog:
        raise Refused(f"the sink has no progress rows of {ctx.what}", "a reset requires progress rows")
    source, slot, inspector = ctx.table.source, ctx.table.slot, ctx.table.inspector
    identity, shards, listed = source.identify(), source.nodes(), slot.points() if slot is not None else None
    statuses = source.read_status(None) if _may_observe(ctx, rows, shards, listed) else []
    records = inspector.records()
    lanes = []
    for row in rows:
        name = row.key.shard
        status = next((one for one in statuses if one.shard.name == name), None)
        kept, retained = _kept(ctx, row, listed, status)
        found = records.get(name)
        latest = further(status.latest if status else None, found.latest if found else None)
        lanes.append(LaneSeen(row, kept, found.point if found else None, retained, latest))
    shown = {seen.row.key.shard for seen in lanes}
    mine = [one for one in listed or () if one.slot == ctx.job.slot and one.shard in shown]
    times = [one.registered_at for one in mine if one.registered_at is not None]
    now, ttl = inspector.clock() if times and len(times) == len(mine) else (0.0, None)
    left = None if ttl is None or ttl.seconds is None else min(times).timestamp() + ttl.seconds - now
    others = sorted({one.slot for one in listed or () if one.slot != ctx.job.slot})
    return SlotSeen(identity, tuple(shards), tuple(lanes), tuple(statuses), left, tuple(others))


def _may_observe(
    ctx: ResetContext, rows: list[ProgressRow], shards: list[Shard], listed: Sequence[RegisteredPoint] | None
) -> bool:
    if listed is None:
        return all(row.state is not LaneState.CREATING for row in rows)
    there = {(one.shard, one.checkpoint) for one in listed if one.slot == ctx.job.slot}
    return all((shard.name, flag) in there for shard in shards for flag in (False, True))


def _kept(
    ctx: ResetContext, row: ProgressRow, listed: Sequence[RegisteredPoint] | None, status: SlotStatus | None
) -> tuple[Kept, Position | None]:
    """Return the slot's points on the row's DN, and the lowest position of all slots on that DN."""
    here = [one for one in listed or () if one.shard == row.key.shard]
    mine = [one for one in here if one.slot == ctx.job.slot]
    kept = ctx.table.slot.kept_by(mine) if ctx.table.slot is not None else NOTHING_KEPT
    if status is not None:
        known = row.registered if row.registered is not None and not mine else kept
        kept = known.found(status.kept)
    if not ctx.table.words.retains:
        return kept, None
    places = [one.point for one in here if one.point is not None and one.point.pair[0]]
    places += [place for place in (kept.oldest, kept.furthest) if place is not None]
    return kept, min(places, default=None)


def make(ctx: ResetContext, goal: Goal) -> ResetPlan:
    """Return the plan of a reset: read the slot, decide the moves, count the changes, and check the preconditions."""
    seen = see(ctx)
    backup = load_backup(ctx, goal.backup) if goal.kind is TargetKind.BACKUP else None
    _refuse_senseless(ctx, goal, seen)
    resolved = _resolve(ctx, goal, seen) if goal.kind is TargetKind.TIME else {}
    pasts = _pasts(ctx, goal)
    moves = [_counted(ctx, move) for move in _moves(ctx, goal, seen, backup, resolved, pasts)]
    rows = count_rows(ctx, goal, seen)
    notes = _row_notes(ctx, rows, seen.identity) + _notes(ctx, goal, moves, resolved)
    archived = ctx.resets.quarantined_beyond([move.to for move in moves if move.back])
    if archived:
        rows_there = "1 row" if archived == 1 else f"{archived} rows"
        notes.append(f"{rows_there} in quarantine after the new points will be archived: the job reads them again")
    notes += _shape_notes(ctx, goal, seen)
    # note if RUNNING will not imply equal data, because this or an earlier reset skips changes that a lane had to
    # replay
    names = [move.seen.row.key.shard for move in moves]
    older = [name for name, move in zip(names, moves, strict=True) if leaves_older(pasts.now.get(name, FRESH), move)]
    if older:
        notes.append(f"{', '.join(older)}: {OLDER_STAY}; until a new snapshot, RUNNING does not mean equal data")
    others = f"other slots of {ctx.job.channel.source_table} keep their positions: {few(seen.others)}"
    notes += [others] if seen.others else []
    notes += [AFTER_A_MOVE] if all(lane.row.of_query for lane in seen.lanes) else []
    checks = _checks(ctx, goal, seen, moves, backup, pasts) + ([rows_check(rows)] if rows else [])
    made = ctx.clock.utc().timestamp()
    plan = ResetPlan(
        id="",
        dialect=ctx.job.source_kind,
        source=ctx.job.source.name,
        table=ctx.job.channel.source_table,
        slot=ctx.job.slot,
        job=ctx.job.name,
        goal=goal,
        fingerprint=seen.identity.text,
        epoch=seen.lanes[0].row.epoch,
        moves=tuple(moves),
        checks=tuple(checks),
        sql=tuple(_sql(ctx, goal, moves)),
        notes=tuple(notes),
        made=made,
        expires=made + VALID_SECONDS,
        rows=rows,
    )
    return named(plan)


@dataclass(frozen=True, slots=True)
class SlotPast:
    """The history of each lane according to the slot's resets, up to now and up to the restored backup."""

    now: Pasts
    then: Pasts


def _pasts(ctx: ResetContext, goal: Goal) -> SlotPast:
    """Read the sink's resets in the order of their epochs; a reset to a snapshot does not need them.

    Resets before a reset that this version cannot parse are ignored.
    """
    done = [] if goal.kind is TargetKind.SNAPSHOT else [one for one in ctx.resets.history() if one.step == DONE]
    plans: list[tuple[str, ResetPlan]] = []
    for entry in reversed(done):
        try:
            plans.append((entry.id, plan_from(entry.plan, ctx.positions)))
        except Refused:
            plans.clear()
    plans.sort(key=lambda one: one[1].epoch)
    ids = [id for id, _ in plans]
    moves = [plan.moves for _, plan in plans]
    return SlotPast(past(moves), past(moves[: ids.index(goal.backup)] if goal.backup in ids else []))


def count_rows(ctx: ResetContext, goal: Goal, seen: SlotSeen) -> CopyRows | None:
    """Count the rows in the source and in the target for a reset to a snapshot; return None for any other reset."""
    if goal.kind is not TargetKind.SNAPSHOT:
        return None
    same = {lane.row.fingerprint for lane in seen.lanes} == {seen.identity.text}
    cleared = same and all(lane.lost for lane in seen.lanes) and any(lane.kept.marks for lane in seen.lanes)
    way = goal.on_existing or ctx.job.on_existing
    return CopyRows(ctx.table.inspector.count_rows(), ctx.target().count_rows(seen.identity), way, cleared)


def _row_notes(ctx: ResetContext, rows: CopyRows | None, identity: TableIdentity) -> list[str]:
    if rows is None:
        return []
    found = [rows.sentence]
    if rows.replaces:
        size = ctx.target().size(identity) if rows.target.number is not None else None
        large, disk = "size unknown", "additional space for the new rows"
        if size is not None:
            large, disk = f"{size / MIB:,.1f} MiB", f"about {size / MIB:,.1f} MiB more"
        target = f"{rows.target.text} rows of {ctx.job.channel.place} ({large})"
        if ctx.job.channel.constant is None:
            found.append(f"replaces {target} when the copy is complete")
            found.append(f"readers see the old rows until the copy is complete; until then the sink needs {disk}")
            found += ["rows that the source lacks are retained and marked as deleted"] * bool(ctx.job.channel.marks)
        else:
            found.append(f"deletes only {target} when the copy starts; readers miss them until it is complete")
        now = ctx.target().readers()
        found.append(f"current users of the target: {now}; later users are unknown" if now else HIDDEN)
    rate, number = ctx.copied_per_second(rows.target.number), rows.source.number
    takes = "time unknown: no earlier copy was measured"
    if rate and number is not None:
        takes = f"about {in_words(number / rate)}"
    found.append(f"{COPIES}{rows.source.text} rows, {takes}")
    if rows.truncated:
        ddl = ctx.table.words.ddl
        also = f"; the slot has no point left on any DN, and {ddl.clears}" if rows.cleared and ddl else ""
        found.append(f"TRUNCATE at the source is likely: it has far fewer rows{also}")
    if rows.way == "merge" and rows.target != RowCount(0):
        found.append("merge: rows that the source no longer has remain in the target")
    return found


def _refuse_senseless(ctx: ResetContext, goal: Goal, seen: SlotSeen) -> None:
    names = [lane.row.key.shard for lane in seen.lanes]
    unknown = sorted(({dn for dn, _ in goal.points} | set(goal.dns)) - {*names, EVERY})
    if unknown:
        raise Refused(f"unknown DN {', '.join(unknown)}", f"known: {', '.join(names)}")
    if goal.dns and goal.kind is TargetKind.SNAPSHOT:
        raise Refused("a snapshot copies the whole table", "remove --dn")
    if goal.on_existing == "replace" and ctx.job.sink_options.updates_only:
        what = f'write_mode = "{ctx.job.sink_options.write_mode}" only updates existing rows'
        raise Refused(f"{what}: a replacing copy would leave the target empty", "use --on-existing merge, or omit it")
    begun = all(lane.row.position is not None for lane in seen.lanes)
    if not begun and goal.kind not in (TargetKind.SNAPSHOT, TargetKind.BACKUP):
        raise Refused(f"the copy of {ctx.what} has not started: no position to move", "start the job")


def _resolve(ctx: ResetContext, goal: Goal, seen: SlotSeen) -> dict[str, Position]:
    """Return by DN the first position at or after a time.

    The position is the same for all DNs, and is at most the newest safe point seen before the search, because changes
    whose commit is in progress are not visible yet and are after that point. If positions of DNs cannot be compared,
    each DN has its own position and its own safe point.
    """
    moment = datetime.fromisoformat(goal.at)
    if moment.tzinfo is None:
        raise Refused(f"{goal.at} has no offset from UTC", "write it as 2026-01-31T08:30:00+01:00 or with Z")
    since = ctx.table.inspector.since(goal.at)
    points = [point for point in since.values() if point is not None]
    if not points:
        raise Refused(f"no DN has a change at or after {goal.at}", "for the newest point, use --to latest")
    newest = {lane.row.key.shard: lane.latest for lane in seen.lanes if lane.latest is not None}
    if ctx.apart:
        found = {name: point for name, point in since.items() if point is not None}
        return newest | {name: min(point, newest.get(name, point)) for name, point in found.items()}
    return dict.fromkeys([lane.row.key.shard for lane in seen.lanes], min([*points, *newest.values()]))


def _moves(
    ctx: ResetContext, goal: Goal, seen: SlotSeen, backup: Backup | None, resolved: Places, pasts: SlotPast
) -> list[Move]:
    if goal.kind is TargetKind.SNAPSHOT:
        return [Move(lane, emptied(lane.row, lane.kept.blank)) for lane in seen.lanes]
    if backup is not None:
        return _restoring(goal, seen, backup, pasts)

    def read(text: str) -> Position:
        try:
            return ctx.table.inspector.place(text)
        except ValueError as error:
            raise Refused(str(error), "use the format of `slots show` and `slots peek`") from error

    positions = {lane.row.key.shard: wanted(goal, lane, read, resolved.get(lane.row.key.shard)) for lane in seen.lanes}
    moves = []
    for lane, row in zip(seen.lanes, moved_rows(seen.lanes, positions), strict=True):
        if row.position == lane.row.position:
            moves.append(Move(lane, row))
            continue
        assert row.position is not None
        known = [lane.kept] if lane.row.registered is None else [lane.kept, lane.row.registered]
        status = next((one for one in seen.statuses if one.shard.name == lane.row.key.shard), None)
        back = lane.row.position is not None and row.position < lane.row.position
        before = lane.kept.no_newer(known)
        slot = ctx.table.slot
        points = slot.kept_at(lane.shard, row.position, before, status, back) if slot is not None else NOTHING_KEPT
        moves.append(Move(lane, replace(row, registered=points), points))
    return moves


def _restoring(goal: Goal, seen: SlotSeen, backup: Backup, pasts: SlotPast) -> list[Move]:
    saved = {lane.row.key.shard: lane for lane in backup.lanes}
    moves = []
    for lane in seen.lanes:
        name = lane.row.key.shard
        then = saved.get(name)
        if then is None or not goal.covers(name):
            moves.append(Move(lane, lane.row))
            continue
        points = then.kept if not then.kept.missing and then.kept != lane.kept else None
        to_pass = through(pasts.now.get(name, FRESH), pasts.then.get(name, FRESH), lane.row, then.row)
        moves.append(Move(lane, restored(lane.row, then.row, to_pass), points))
    rows = same_state([move.to for move in moves])
    return [replace(move, to=row) for move, row in zip(moves, rows, strict=True)]


def _counted(ctx: ResetContext, move: Move) -> Move:
    old, new = move.before, move.to.position
    if old is None or new is None or old == new or move.seen.lost:
        return move
    if new < old:
        return replace(move, read_again=ctx.table.inspector.count(move.seen.shard, new, old))
    found = ctx.table.inspector.count(move.seen.shard, old, new)
    if move.seen.kept_from is not None and move.seen.kept_from > old:
        found = replace(found, whole=False)  # purged changes after the lane's position are also skipped
    return replace(move, skipped=found)


def _shape_notes(ctx: ResetContext, goal: Goal, seen: SlotSeen) -> list[str]:
    """Describe the columns of source and target if they changed or are copied, and the statements for the target."""
    then, channel = seen.lanes[0].row.fingerprint, ctx.job.channel
    if goal.kind is not TargetKind.SNAPSHOT and then == seen.identity.text:
        return []
    shape = ctx.target().reshape(seen.identity, ctx.resets.noted_columns(then))
    mapped = " (with the channel's column mapping)" if channel.columns else ""
    found = [f"source {channel.source_table}{mapped}: {', '.join(shape.source)}"]
    found.append(f"target {channel.target}: {', '.join(shape.target) or 'does not exist'}")
    found += [f"changed: {change.text}" for change in shape.found]
    by_itself = channel.on_schema_change == RESNAPSHOT and shape.by_itself
    what = "the next start runs" if by_itself else "run at the sink before the next start"
    return found + [f"{what}: {statement}" for statement in shape.typed]


def _notes(ctx: ResetContext, goal: Goal, moves: list[Move], resolved: Places) -> list[str]:
    found = []
    if goal.kind is TargetKind.TIME:
        moment = datetime.fromisoformat(goal.at)
        here = f"{moment.astimezone():%Y-%m-%d %H:%M:%S %z} local"
        utc = f"{moment.replace(tzinfo=None) - (moment.utcoffset() or timedelta(0)):%Y-%m-%d %H:%M:%S} UTC"
        each = {name: place.shown for name, place in sorted(resolved.items())}
        apart = ", ".join(f"{name} {place}" for name, place in each.items())
        found.append(f"time: {here}, {utc}, {ctx.positions.name} {apart if ctx.apart else next(iter(each.values()))}")
        same = "every DN starts just before the smallest point that a DN returned"
        found.append("each DN starts just before its own first record at or after that time" if ctx.apart else same)
    skips = any(move.skips for move in moves)
    if skips and goal.kind is TargetKind.BACKUP:
        found.append("correct only if the target already has the skipped changes, as after a reset to an earlier point")
    elif skips:
        found.append("skipped changes never reach the target: it differs from the source until a new snapshot")
    if any(move.back for move in moves):
        found.append("the target shows older values until the job has caught up (state CATCHING UP)")
        if any(move.seen.kept.marks for move in moves):
            found.append(
                "if the server refuses to move the position back, nothing changes; reset to a snapshot instead"
            )
    if goal.kind is TargetKind.SNAPSHOT and any(move.seen.kept.marks for move in moves):
        keeps = "" if any(move.seen.lost for move in moves) else "; the slot keeps its points until then"
        found.append(f"the next start registers and copies the whole table{keeps}")
    elif goal.kind is TargetKind.SNAPSHOT:
        found.append("the next start copies the whole table")
    if goal.kind is TargetKind.BACKUP:
        found.append(
            "not undone: rows written to the target since then remain; changes after the backup are applied again"
        )
    return found


def _checks(
    ctx: ResetContext, goal: Goal, seen: SlotSeen, moves: list[Move], backup: Backup | None, pasts: SlotPast
) -> list[Check]:
    rows = [lane.row for lane in seen.lanes]
    # check whether the requested time is within the TTL, because tables with timestamps retain every record that long
    now, ttl = ctx.table.inspector.clock() if goal.kind is TargetKind.TIME else (0.0, None)
    seconds = ttl.seconds if ttl is not None else None
    within = None if seconds is None else datetime.fromisoformat(goal.at).timestamp() > now - seconds
    expiry = time_check(seen.left)
    if goal.kind is TargetKind.SNAPSHOT:
        expiry = Check("time to TTL", True, "not needed")
    elif not ctx.table.words.retains or not any(lane.kept.marks for lane in seen.lanes):
        expiry = Check("time to TTL", True, ctx.table.words.no_expiry)
    known = {row.fingerprint for row in rows} | ({backup.fingerprint} if backup else set())
    found = [
        ctx.at_rest(),
        lease_check(ctx),
        open_reset_check(ctx),
        table_check(goal, seen.identity.text, known, ctx.table.words.identity),
        nodes_check(goal, [lane.row for lane in backup.lanes] if backup else rows, seen.shards, ctx.table.words.part),
        slot_check(goal, seen.lanes, ctx.table.words.there, ctx.table.words.part),
        retained_check(goal, moves, within, ctx.table.words.part),
        changed_check(goal, ctx.job.channel.target, ctx.resets.target_changed()),
        writable_check(ctx),
        expiry,
        *columns_check(moves),
    ]
    if goal.kind is TargetKind.SNAPSHOT:
        how, copies = f'start = "{ctx.job.start}"', start_at(ctx.job.start).copies
        found.append(Check("start makes a copy", copies, how if copies else f"{how} makes no copy: {NO_COPY}"))
        found.append(_copy_check(ctx, goal, seen.identity))
    if backup is not None:
        then = {lane.row.key.shard: lane.row for lane in backup.lanes}
        found.append(undo_check(moves, then, pasts.now, pasts.then))
        ended = ((plan_from(text, ctx.positions), raised) for text, raised in ctx.resets.ended())
        found.append(untouched_check(moves, rows[0].epoch, ended))
    return found


def lease_check(ctx: ResetContext) -> Check:
    """Check that this command can take the lease; if `steal` names the holder, end the holder's session."""
    if _taken(ctx):
        return Check("lease", True, "taken")
    if ctx.steal and ctx.steal == ctx.resets.lease_id():
        ctx.resets.end_holder()
        if _taken(ctx):
            return Check("lease", True, "taken; the session of its previous holder was ended")
    wrong = f"; --steal {ctx.steal} does not match its id" if ctx.steal else ""
    owners, job = ctx.resets.lease_owners(), ctx.job
    what = explain_lease(f"{job.channel.source_table} slot {job.slot}", owners, ctx.resets.holder())
    cure = f"; {end_it(owners)}" if is_stranger(owners) else ""
    rows = [] if cure else ctx.resets.rows()
    if rows and all(row.of_query for row in rows):
        cure = f"; it is a DataFrame query: {WHERE_TO_ACT}"
    return Check("lease", False, f"{what}{wrong}{cure}")


def _taken(ctx: ResetContext) -> bool:
    """Try to take the lease for one second: a session that has just ended can hold it a moment longer."""
    for _ in range(LEASE_TRIES):
        if ctx.resets.take_lease():
            return True
        ctx.pause(0.1)
    return False


def open_reset_check(ctx: ResetContext) -> Check:
    open_ = ctx.resets.open_entry()
    if open_ is None:
        return Check("no open reset", True, "none is unfinished")
    return Check("no open reset", False, f"reset {open_.id} is unfinished ({open_.step}): slots reset --resume")


def writable_check(ctx: ResetContext) -> Check:
    """Check that this login can change the progress rows."""
    if ctx.resets.writable():
        return Check("sink writable", True, "progress rows can be changed")
    return Check("sink writable", False, "this login cannot change the progress rows, or the sink is read-only")


def _copy_check(ctx: ResetContext, goal: Goal, identity: TableIdentity) -> Check:
    name, how = TAKES_COPY, goal.on_existing or ctx.job.on_existing
    if how in ("replace", "merge"):
        once = " (this copy only)" if goal.on_existing else ""
        return Check(name, True, f'on_existing = "{how}"{once}')
    if ctx.target().takes_copy(identity):
        return Check(name, True, "the target is empty")
    return Check(name, False, "the target has rows: add --on-existing replace or merge, or set on_existing")


def _sql(ctx: ResetContext, goal: Goal, moves: list[Move]) -> list[str]:
    lines = []
    for move in moves:
        name = move.seen.row.key.shard
        if move.to != move.seen.row:
            text = move.to.position.text if move.to.position else ""
            state = move.to.state.value
            how = f", copying = 'next {goal.on_existing}'" if goal.on_existing else ""
            lines.append(f"sink {name}: UPDATE slotkeeper_progress SET position = '{text}', state = '{state}'{how} ...")
        if move.points:
            calls = move.points.calls(ctx.job.channel.source_table, ctx.job.slot, move.seen.row.node_id)
            lines += [f"source {name}: {call}" for call in calls]
    return lines


def keep(ctx: ResetContext, plan: ResetPlan) -> None:
    """Store the plan for `--execute`."""
    ctx.files.save(PLANS, plan.id, plan_text(plan))
