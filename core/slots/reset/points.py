"""Moves a slot's points to what a plan says, or back to what was, and compares what every DN then holds.

Each registration holds the lane's row, as a running job does. Lanes that go back are sent first: a server that refuses
that has then changed nothing.
"""

from __future__ import annotations

from enum import Enum

from slotkeeper.core.domain.position import Kept
from slotkeeper.core.domain.progress import ProgressRow
from slotkeeper.core.domain.reset import Move, ResetPlan
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.errors import Busy, ErrorKind, Refused, SlotkeeperError, Superseded, TroubleName
from slotkeeper.core.slots.reset.context import ResetContext

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


def _points(move: Move, way: Way) -> Kept | None:
    """What is to be registered for a lane; None where what is kept is left alone."""
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
    with ctx.retention.pinned(), ctx.resets.registration(row.key, epoch) as lock:
        if lock.row.position != row.position:
            raise Refused(f"{place}: the row is not where this reset put it")
        first = next(status for status in ctx.retention.read_status(move.seen.shard) if status.shard == move.seen.shard)
        if first.kept != points:
            if first.kept.missing and not move.seen.lost:
                raise trouble(TroubleName.SLOT_LOST, f"{place}: the slot went while it was reset")
            if not move.seen.lost and first.kept not in ours:
                raise trouble(TroubleName.SLOT_MOVED, f"{place}: somebody else moved the slot while it was reset")
            ctx.retention.restore(move.seen.shard, points, first, move.seen.lost, ctx.probe)
        if row.registered is not None:
            lock.record(row.registered, "")


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
        text = f"stands at {row.position.text}, {row.state.value}" if row.position else "awaits its copy"
        if points is not None:
            seen = statuses[place].kept if place in statuses else None
            if seen is None or seen.missing:
                raise trouble(TroubleName.SLOT_LOST, f"{place}: the slot went while it was reset")
            if seen != points:
                raise Refused(f"{place}: requested {points.shown}, observed {seen.shown}", REFUSED_BACK)
            text += f"; requested {points.shown}, observed {seen.shown}"
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
