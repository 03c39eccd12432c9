"""Moves a slot's points to what a plan says, or back to what was, and compares what every DN then holds.

Each registration holds the lane's row, as a running job does. Lanes that go back are sent first: a server that refuses
that has then changed nothing. Next door: `apply.py` decides what a failure means.
"""

from __future__ import annotations

from enum import Enum

from core.domain.progress import ProgressRow, Registered
from core.domain.reset import Move, ResetPlan
from core.domain.slot import SlotStatus
from core.domain.watch import trouble
from core.errors import Busy, ErrorKind, Refused, SlotkeeperError, Superseded, TroubleName
from core.ports.source import register_point
from core.slots.reset.context import ResetContext

REFUSED_BACK = "this server does not move a point backwards; take --to snapshot instead"


class Way(Enum):
    """To what the plan says, or back to what was before."""

    THERE = "there"
    BACK = "back"


def register(ctx: ResetContext, plan: ResetPlan, epoch: int, way: Way) -> None:
    """Register every lane that the plan moves; one that fails for now does not keep the others from it.

    On the way back no failure does: what can be put back is.
    """
    late: list[SlotkeeperError] = []
    never: list[SlotkeeperError] = []
    for move in sorted(plan.moves, key=lambda one: (not one.back, one.seen.row.key)):
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


def _points(move: Move, way: Way) -> Registered | None:
    """(live, durable, xmin) to be sent for a lane; None where its points are left alone."""
    if move.points is None or way is Way.THERE:
        return move.points
    seen = move.seen
    if not seen.live or not seen.durable:
        return None
    known = seen.row.registered.xmin if seen.row.registered else 0
    return Registered(seen.live, seen.durable, seen.xmin or known)


def _row(move: Move, way: Way) -> ProgressRow:
    return move.to if way is Way.THERE else move.seen.row


def _register(ctx: ResetContext, move: Move, epoch: int, way: Way) -> None:
    points, row, place = _points(move, way), _row(move, way), move.seen.row.key.shard
    assert points is not None and move.points is not None
    ours = {(move.seen.live, move.seen.durable), (move.points.live, move.points.durable)}
    with ctx.retention.pinned(), ctx.resets.registration(row.key, epoch) as lock:
        if lock.row.position != row.position:
            raise Refused(f"{place}: the row is not where this reset put it")
        first = _read_status(ctx, move)
        if first.points.both != (points.live, points.durable):
            if first.points.missing and not move.seen.lost:
                raise trouble(TroubleName.SLOT_LOST, f"{place}: the slot went while it was reset")
            lives, durables = ({live for live, _ in ours}, {durable for _, durable in ours})
            if not move.seen.lost and (first.points.live not in lives or first.points.durable not in durables):
                raise trouble(TroubleName.SLOT_MOVED, f"{place}: somebody else moved the slot while it was reset")
            _both(ctx, move, points, first)
        if row.registered is not None:
            lock.record(row.registered)


def _both(ctx: ResetContext, move: Move, points: Registered, first: SlotStatus) -> None:
    place = move.seen.row.key.shard
    _send(ctx, move, points.live, False, points.xmin)
    ctx.probe("after_false")
    second = _read_status(ctx, move)
    if second.points.live != points.live:
        raise Refused(f"{place}: {points.live} was registered, {second.points.live} is there", REFUSED_BACK)
    if second.points.durable != first.points.durable and not (move.seen.lost and not second.points.durable):
        raise trouble(TroubleName.SLOT_LOST, f"{place}: the slot changed between its two points")
    _send(ctx, move, points.durable, True, points.xmin)
    ctx.probe("after_true")


def _send(ctx: ResetContext, move: Move, point: int, checkpoint: bool, xmin: int) -> None:
    try:
        register_point(ctx.retention, move.seen.shard, point, checkpoint, xmin)
    except SlotkeeperError as error:
        if error.kind is not ErrorKind.UNKNOWN:
            raise
        sentence = f"{move.seen.row.key.shard}: {error.message}"
        raise Refused(sentence, REFUSED_BACK, error.code, error.where) from error


def _read_status(ctx: ResetContext, move: Move) -> SlotStatus:
    return next(status for status in ctx.retention.read_status(move.seen.shard) if status.shard == move.seen.shard)


def compare(ctx: ResetContext, plan: ResetPlan, epoch: int, way: Way) -> dict[str, str]:
    """Read every DN and every row again; what is seen by DN, or Refused where it is not what was asked for."""
    rows = {row.key: row for row in ctx.resets.rows()}
    asking = any(_points(move, way) for move in plan.moves)
    statuses = {status.shard.name: status for status in ctx.retention.read_status(None)} if asking else {}
    found: dict[str, str] = {}
    for move in plan.moves:
        row, points, place = _row(move, way), _points(move, way), move.seen.row.key.shard
        now = rows.get(row.key)
        if now is None:
            raise trouble(TroubleName.PROGRESS_LOST, f"the progress row of {place} is gone from the sink")
        if now.epoch != epoch:
            raise Superseded(f"{place}: epoch {now.epoch} has taken over from our {epoch}")
        if (now.position, now.state) != (row.position, row.state):
            raise Refused(f"{place}: the row is not where this reset put it")
        text = f"row {row.position.text if row.position else 'none'} {row.state.value}"
        if points is not None:
            seen = statuses[place].points.both if place in statuses else (None, None)
            if not all(seen):
                raise trouble(TroubleName.SLOT_LOST, f"{place}: the slot went while it was reset")
            if seen != (points.live, points.durable):
                asked = f"{points.live}/{points.durable}"
                raise Refused(f"{place}: requested {asked}, observed {seen[0]}/{seen[1]}", REFUSED_BACK)
            text += f"; requested {points.live}/{points.durable}, observed {seen[0]}/{seen[1]}"
        found[place] = text
    return found


def recount(ctx: ResetContext, plan: ResetPlan) -> None:
    """Refused where fewer changes are left than the plan promised to apply again: they were purged in between."""
    for move in plan.moves:
        if not move.back or not move.read_again.whole or move.before is None or move.to.position is None:
            continue
        now = ctx.retention.count(move.seen.shard, move.to.position, move.before)
        if now.whole and now.total < move.read_again.total:
            sentence = f"{move.seen.row.key.shard}: {now.total} of {move.read_again.total} changes are left"
            raise Refused(f"{sentence}: they were purged in between", "plan again, or take --to snapshot")
