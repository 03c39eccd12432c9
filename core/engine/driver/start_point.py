"""The slot of a new job that begins without a copy: at the newest point, at a time, or at a point per DN.

Every way ends with progress rows in state running whose positions lie where both points are registered. A start that
is broken off is in state creating and begins anew. Next door: `start.py` calls this, and makes slots for a copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from core.domain.position import Position
from core.domain.progress import LaneState, ProgressRow, Registered
from core.domain.slot import SlotStatus
from core.domain.starting import StartAt, StartKind
from core.domain.turn import Turn
from core.domain.watch import trouble
from core.engine.driver.context import JobContext
from core.engine.driver.open_transactions import wait_for_open_transactions
from core.errors import Busy, Refused, SlotkeeperError, TroubleName
from core.ports.progress import Store
from core.ports.source import Retention, SlotAdmin


@dataclass(frozen=True, slots=True)
class Begin:
    """Where one lane begins: `point` itself is read, nothing before it; the xmin is never newer than it."""

    status: SlotStatus
    point: int
    xmin: int


def check(ctx: JobContext, at: StartAt) -> None:
    """Refuse by name what cannot be started at, before anything is made; no slot is touched."""
    starter = ctx.sessions.starter()
    if at.kind is StartKind.TIME:
        assert at.at is not None
        _check_time(ctx, starter, at.at)
    if at.kind is StartKind.POINTS:
        _check_points(ctx, starter, dict(at.points))


def refuse_aged(ctx: JobContext, store: Store) -> None:
    """SLOT LOST where a table with binlog timestamps was left alone for longer than its records live.

    DWS: with enable_binlog_timestamp a record older than binlog_ttl is deleted, and the slot's points do not tell.
    """
    age = store.registered_age()
    ttl = ctx.sessions.starter().record_ttl() if age is not None else None
    if age is not None and ttl is not None and age >= ttl:
        what = f"nobody registered for {age:.0f} s, and records of this table are deleted after {ttl} s, read or not"
        raise trouble(TroubleName.SLOT_LOST, what)


def begin_at(ctx: JobContext, store: Store, rows: dict[str, ProgressRow], epoch: int, at: StartAt) -> None:
    """Move the slot to where the job begins and write the rows; `rows` is one row of state creating by DN."""
    starter = ctx.sessions.starter()
    if at.kind is StartKind.LATEST:
        # the server chooses the points: rows that tell that they may be ours come before them
        store.replace_creating([replace(r, epoch=epoch, registered=Registered(0, 0, 0)) for r in rows.values()], epoch)
        ctx.probe("before_first_registration")
        begins = _latest(ctx, starter)
    elif at.kind is StartKind.TIME:
        assert at.at is not None
        begins = _at_time(ctx, starter, at.at)
    else:
        begins = _at_points(ctx, starter, dict(at.points))
    made = [
        replace(
            rows[one.status.shard.name],
            node_id=one.status.shard.node_id,
            epoch=epoch,
            position=Position(one.point),
            registered=intended(one.status, one.xmin),
        )
        for one in begins
    ]
    store.replace_creating(made, epoch)
    ctx.probe("before_first_registration")
    for one in begins:
        _register(ctx, store, starter, one, epoch)
    ctx.probe("after_first_registration")
    store.set_state(Turn(epoch, len(made), (LaneState.CREATING,), LaneState.RUNNING))


def intended(status: SlotStatus, xmin: int) -> Registered:
    """What a row says before its lane's first registration: the slot's points as they are, so that a start that is
    broken off is known as begun, and its points as its own."""
    return Registered(status.points.live or 0, status.points.durable or 0, xmin)


def polls_everywhere(admin: SlotAdmin, ctx: JobContext) -> list[SlotStatus]:
    """The status of every DN of the cluster; where the source does not create a slot when asked, registering 0 creates
    it (a lower bound only), also on DNs that an earlier try has not reached."""
    statuses = admin.read_status(None)
    without = set(ctx.sessions.source("start").nodes()) - {status.shard for status in statuses}
    if not without:
        return statuses
    for shard in sorted(without):
        for checkpoint in (False, True):
            admin.register(shard, 0, checkpoint, 0)
    statuses = admin.read_status(None)
    if not statuses:
        raise Refused(f"the source gives no sync point for slot {ctx.job.slot}", "see doctor", where="source")
    left = ", ".join(shard.name for shard in sorted(without - {status.shard for status in statuses}))
    if left:
        raise Busy(f"{left}: the first registration reached no node", where="source")
    return statuses


def _latest(ctx: JobContext, starter: Retention) -> list[Begin]:
    """DWS: pgxc_register_full_sync_point "to update the sync points" where the full data came by another way.

    It is called twice: recording begins with the first call, and a transaction that was open then may have written
    rows that are not recorded; once all such have ended, the second call moves beyond them.
    """
    starter.register_full_sync()
    wait_for_open_transactions(ctx, ctx.sessions.source("start"))
    starter.register_full_sync()
    statuses = starter.read_status(None)
    moved = {
        status.shard for status in statuses if not status.points.missing and status.points.live == status.points.durable
    }
    short = ", ".join(sorted(shard.name for shard in set(starter.nodes()) - moved))
    if short:
        raise Busy(f"{short}: the full-sync point did not take", where="source")
    return [Begin(status, status.points.live or 0, status.xmin) for status in statuses]


def _check_time(ctx: JobContext, starter: Retention, at: datetime) -> None:
    age, ttl = starter.seconds() - at.timestamp(), starter.ttl()
    if age < 0:
        raise Refused(f"start time {at} lies in the future by the source's clock", 'start = "latest" begins now')
    if ttl is not None and age >= ttl:
        what = f"start time {at} is older than binlog_ttl ({ttl} s): records of that time are deleted"
        raise Refused(what, f'choose a later time, or start = "initial" ({ctx.job.channel.source_table} as a whole)')
    starter.at_time(at.isoformat())  # refuses a table without binlog timestamps
    if all(one.point is None for one in starter.records().values()):
        what = "the binlog holds no record at all: whether anything changed since then cannot be told"
        raise Refused(what, 'start = "latest" begins now, start = "initial" with a copy')


def _at_time(ctx: JobContext, starter: Retention, at: datetime) -> list[Begin]:
    """Every DN from the smallest point on that any DN holds of that time, and never beyond the newest safe point.

    The statuses come first: what is at or below their newest point shows in the search, and what does not show yet,
    because its commit is under way, lies beyond it.
    """
    _check_time(ctx, starter, at)
    statuses = polls_everywhere(starter, ctx)
    found = starter.since(at.isoformat()).values()
    first = min([*(point for point in found if point is not None), *(status.latest for status in statuses)])
    records = starter.records(first)
    xmins = {name: record.xmin for name, record in records.items() if record.xmin is not None}
    return [Begin(status, first, min(status.xmin, xmins.get(status.shard.name, status.xmin))) for status in statuses]


def _xmin(starter: Retention, status: SlotStatus, point: int | None) -> int:
    """The xmin of the DN's first record that is wanted; where there is none yet, the status's own."""
    found = starter.xmin_at(status.shard, point) if point is not None else None
    return status.xmin if found is None else min(found, status.xmin)


def _check_points(ctx: JobContext, starter: Retention, points: dict[str, int]) -> None:
    """Refuse names that are no DNs, and points after which something may be deleted already."""
    names = {shard.name for shard in starter.nodes()}
    if names != points.keys():
        wrong = ", ".join(sorted(names ^ points.keys()))
        raise Refused(f"start names other DNs than the cluster has ({wrong})", f"name {', '.join(sorted(names))}")
    registered = _blocked_from(starter)
    records = starter.records()
    for name, point in points.items():
        newest, oldest = records[name].latest, records[name].point
        if newest is not None and point > newest:
            raise Refused(f"{name}: point {point} lies beyond the newest one, {newest}", "choose a smaller point")
        kept = min((one for one in (registered.get(name), oldest) if one is not None), default=None)
        if kept is None or point < kept:
            what = f"{name}: whether every change from point {point} on is still there cannot be told"
            raise Refused(what, f"choose a point from {kept if kept is not None else newest} on")


def _blocked_from(starter: Retention) -> dict[str, int]:
    """By DN, the point from which on some slot keeps every record; nothing where slots cannot be listed."""
    try:
        listed = starter.points() or ()
    except SlotkeeperError:
        return {}
    registered: dict[tuple[str, str], list[int]] = {}
    for one in listed:
        if one.point:
            registered.setdefault((one.shard, one.slot), []).append(one.point)
    found: dict[str, int] = {}
    for (shard, _), both in registered.items():
        found[shard] = min(found.get(shard, both[0]), *both)
    return found


def _at_points(ctx: JobContext, starter: Retention, points: dict[str, int]) -> list[Begin]:
    _check_points(ctx, starter, points)
    statuses = polls_everywhere(starter, ctx)
    found = {shard: record.point for shard, record in starter.records().items()}
    return [
        Begin(status, points[status.shard.name], _xmin(starter, status, found.get(status.shard.name)))
        for status in statuses
    ]


def _register(ctx: JobContext, store: Store, starter: Retention, one: Begin, epoch: int) -> None:
    with store.registration(ctx.job.lane_key(one.status.shard.name), epoch) as lock:
        for checkpoint in (False, True):
            if starter.register(one.status.shard, one.point, checkpoint, one.xmin) != 1:
                raise Busy(f"{one.status.shard.name}: the first registration reached no node", where="source")
            ctx.probe("in_first_registration")
        lock.record(Registered(one.point, one.point, one.xmin))
