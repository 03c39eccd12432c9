"""The first start of a channel: its progress rows and its slot, before a copy or at a point without a copy.

A start without a copy begins at the newest point, at a time, or at a point per DN; its progress rows are then in state
running at the registered positions. After an interrupted start, the rows are in state creating, and the next run starts
over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from slotkeeper.core.domain.columns import added_text
from slotkeeper.core.domain.position import NOTHING_KEPT, Kept, Position, confirmable
from slotkeeper.core.domain.position import Kept as Registered
from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.slot import FirstRecord, Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import EVERY_DN, StartAt, StartKind
from slotkeeper.core.domain.watch import Turn, trouble
from slotkeeper.core.engine.driver.context import JobContext, record_ttls, slot_ttls, wait_for_open_transactions
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, TroubleName
from slotkeeper.core.ports.driver import StartStore
from slotkeeper.core.ports.source import Source, SourceTable

EVERYWHERE = Shard("*", 0)
"""The shard of the only lane of a job that only copies: such a job has no slot and no DN."""


def channel_hash(ctx: JobContext, identity: TableIdentity) -> str:
    """Return the hash of tables, mapping, filter and key; if it changes, existing progress rows are invalid."""
    channel = ctx.job.channel
    mapping = "\x1e".join("\x1d".join(pair) for pair in channel.columns) or "by name"
    row_filter = channel.where or "no filter"
    spelled = "\x1f".join((channel.source_table, channel.target, mapping, row_filter, *identity.key))
    if any(mark in name for name in identity.key for mark in "\x1d\x1e\x1f"):  # configured names never contain these
        spelled = json.dumps([channel.source_table, channel.target, channel.columns, row_filter, identity.key])
    if channel.constant is not None:
        spelled = f"{spelled}\x1f{channel.place}"
    if plan := added_text(channel):
        spelled = f"{spelled}\x1f{plan}"
    return hashlib.sha256(spelled.encode()).hexdigest()[:16]


def first_rows(ctx: JobContext, identity: TableIdentity) -> list[ProgressRow]:
    shards = ctx.sessions.source("start").nodes() if ctx.job.binlog.binlog else [EVERYWHERE]
    return [blank_row(ctx, identity, shard) for shard in shards]


def blank_row(ctx: JobContext, identity: TableIdentity, shard: Shard, epoch: int = 0) -> ProgressRow:
    """Return the progress row of a lane without a position or registration."""
    return ProgressRow(
        key=ctx.job.lane_key(shard.name),
        node_id=shard.node_id,
        target=f"{ctx.job.sink.database}.{ctx.job.channel.place}",
        position=None,
        epoch=epoch,
        changes=0,
        state=LaneState.CREATING,
        noted_start=None,
        noted_end=None,
        channel=channel_hash(ctx, identity),
        fingerprint=identity.text,
        registered=None,
    )


def create_slot(ctx: JobContext, store: StartStore, identity: TableIdentity, epoch: int) -> list[ProgressRow]:
    """Register the slot on every DN, which starts recording. The caller waits for transactions open at that time."""
    table = ctx.sessions.admin("start")
    statuses = poll_all_nodes(table.source, ctx)
    changes = {row.node_id: row.changes for row in store.rows()}
    rows = [
        replace(
            blank_row(ctx, identity, status.shard, epoch),
            changes=changes.get(status.shard.node_id, 0),
            position=status.latest.from_here,
            noted_start=status.latest,
            registered=status.kept.known,
        )
        for status in statuses
    ]
    store.replace_creating(rows, epoch)
    ctx.probe("before_first_registration")
    if table.slot is None:
        return store.rows()
    registered = {status.shard: _register_first(store, table, ctx, status, epoch) for status in statuses}
    found = {status.shard: status.kept for status in table.source.read_status(None)}
    ttls, now = record_ttls(slot_ttls(ctx), ctx.curves), ctx.clock.monotonic()
    for status in statuses:
        ttls.see(ctx.job.channel.source_table, status.shard.name, status.latest, now)
        if found.get(status.shard) != registered[status.shard]:
            raise Busy(f"{status.shard.name}: the source did not store the first registration", where="source")
    ctx.probe("after_first_registration")
    return store.rows()


def _register_first(
    store: StartStore, table: SourceTable, ctx: JobContext, status: SlotStatus, epoch: int
) -> Registered:
    """Register a lane's start; a shared position is registered no further than the position of any channel."""
    others = ctx.lanes_beside(status.shard) if status.kept.shared else ()
    with table.pinned(), store.registration(ctx.job.lane_key(status.shard.name), epoch, others) as lock:
        place = status.latest
        if others:
            place = confirmable(place, (row.position for row in lock.others), status.kept.furthest)
        kept = status.kept.at(place)
        table.own_slot.put(status.shard, kept, ctx.probe)
        lock.record(kept, "")
    return kept


@dataclass(frozen=True, slots=True)
class LaneStart:
    """The start of one lane; `place`: the first position that the lane reads; `kept`: its registration."""

    status: SlotStatus
    place: Position
    kept: Kept


def check_start(ctx: JobContext, at: StartAt) -> None:
    """Raise Refused for an impossible start, before anything is created; changes no slot."""
    starter = ctx.sessions.starter()
    if at.kind is StartKind.TIME:
        assert at.at is not None
        _check_time(ctx, starter, at.at)
    if at.kind is StartKind.POINTS:
        _check_points(ctx, starter, _parse_points(ctx, at))


def refuse_aged(ctx: JobContext, store: StartStore) -> None:
    """Raise SLOT LOST if a table with binlog timestamps was not read for longer than its records are retained.

    DWS: with enable_binlog_timestamp a record older than binlog_ttl is deleted, which the slot's points do not show.
    """
    age = store.registered_age()
    ttl = ctx.sessions.starter().record_ttl() if age is not None else None
    if age is not None and ttl is not None and age < 0:
        what = f"the sink's clock was set back by at least {-age:.0f} s since the slot's last registration"
        what += f", and the source deletes this table's records after {ttl} s: some may be missing"
        raise Refused(what, "correct the sink's clock, or take a new snapshot", where="sink")
    if age is not None and ttl is not None and age >= ttl:
        what = (
            f"no registration for {age:.0f} s, and the source deletes this table's records after {ttl} s,"
            " even if unread"
        )
        raise trouble(TroubleName.SLOT_LOST, what)


def start_without_copy(
    ctx: JobContext, store: StartStore, rows: dict[str, ProgressRow], epoch: int, at: StartAt
) -> None:
    """Move the slot to the job's start and write the progress rows; `rows`: the rows in state creating, by DN."""
    starter = ctx.sessions.starter()
    if at.kind is StartKind.LATEST:
        if starter.slot is not None:
            # the server chooses the points, so first write rows that mark the points as this job's
            blank = starter.slot.kept_by(()).blank
            store.replace_creating([replace(row, epoch=epoch, registered=blank) for row in rows.values()], epoch)
        ctx.probe("before_first_registration")
        begins = _start_at_newest(ctx, starter)
    elif at.kind is StartKind.TIME:
        assert at.at is not None
        begins = _start_at_time(ctx, starter, at.at)
    elif at.kind is StartKind.EARLIEST:
        # start each DN at its oldest remaining record, or at its newest position if it has no record
        statuses, records = poll_all_nodes(starter.source, ctx), starter.inspector.records()
        begins = _starts_at(starter, ((one, records[one.shard.name].point or one.latest) for one in statuses))
    else:
        points = _parse_points(ctx, at)
        _check_points(ctx, starter, points)
        statuses = poll_all_nodes(starter.source, ctx)
        begins = _starts_at(starter, ((one, points[one.shard.name]) for one in statuses), starter.inspector.records())
    made = [
        replace(
            rows[one.status.shard.name],
            node_id=one.status.shard.node_id,
            epoch=epoch,
            position=one.place.from_here,
            registered=one.status.kept.known,
        )
        for one in begins
    ]
    store.replace_creating(made, epoch)
    ctx.probe("before_first_registration")
    for one in begins:
        with starter.pinned(), store.registration(ctx.job.lane_key(one.status.shard.name), epoch) as lock:
            if starter.slot is not None:
                starter.slot.put(one.status.shard, one.kept, ctx.probe)
            lock.record(one.kept, "")
    ctx.probe("after_first_registration")
    store.set_state(Turn(epoch, len(made), (LaneState.CREATING,), LaneState.RUNNING))


def poll_all_nodes(source: Source, ctx: JobContext) -> list[SlotStatus]:
    """Return the status of every DN of the cluster; creates the slot if missing.

    A row records the slot's points before its lane's first registration, so that a later start recognizes an
    interrupted start and its points.
    """
    statuses = source.open_lanes()
    if not statuses:
        raise Refused(f"the source has no position for slot {ctx.job.slot}", "run `slotkeeper doctor`", where="source")
    without = set(ctx.sessions.source("start").nodes()) - {status.shard for status in statuses}
    left = ", ".join(shard.name for shard in sorted(without))
    if left:
        raise Busy(f"{left}: the first registration reached no node", where="source")
    return statuses


def _start_at_newest(ctx: JobContext, starter: SourceTable) -> list[LaneStart]:
    """Return the starts at the newest points, which the server registers.

    DWS: pgxc_register_full_sync_point is called "to update the sync points" after a full copy by other means. The start
    calls it twice. The first call starts recording, but a transaction that was open then can have unrecorded rows. Once
    all such transactions have ended, the second call moves past their rows. DWS, "Subscribing to Hybrid Data Warehouse
    Binlog": a TRUNCATE or DDL clears sync points. If it is executed between the two calls, the second call does not
    show it.
    """
    _move_to_newest(starter)
    begun = {status.shard for status in starter.source.read_status(None) if not status.kept.missing}
    wait_for_open_transactions(ctx, ctx.sessions.source("start"))
    for status in starter.source.read_status(None):
        if status.shard in begun and status.kept.missing:
            what = f"{status.shard.name}: the slot was created and now holds {status.kept.shown}"
            raise trouble(TroubleName.SLOT_LOST, f"{what}; the table was emptied or altered while the start waited")
    _move_to_newest(starter)
    statuses = starter.source.read_status(None)
    moved = {status.shard for status in statuses if status.kept.settled}
    short = ", ".join(sorted(shard.name for shard in set(starter.source.nodes()) - moved))
    if short:
        raise Busy(f"{short}: {starter.words.short}", where="source")
    places = [(status, status.kept.furthest or status.latest) for status in statuses]
    return [LaneStart(status, place, status.kept.at(place)) for status, place in places]


def _move_to_newest(starter: SourceTable) -> None:
    if starter.slot is not None:
        starter.slot.full_sync()


def _starts_at(
    starter: SourceTable,
    places: Iterable[tuple[SlotStatus, Position]],
    records: Mapping[str, FirstRecord] | None = None,
) -> list[LaneStart]:
    found = records or {}
    slot = starter.slot
    return [
        LaneStart(
            one, place, slot.begin_at(one, place, found.get(one.shard.name)) if slot is not None else NOTHING_KEPT
        )
        for one, place in places
    ]


def _check_time(ctx: JobContext, starter: SourceTable, at: datetime) -> None:
    now, found = starter.inspector.clock()
    age, ttl = now - at.timestamp(), found.seconds if found is not None else None
    if age < 0:
        raise Refused(f"start time {at} is in the future by the source's clock", 'set start = "latest" to start now')
    if ttl is not None and age >= ttl:
        what = f"start time {at} is older than {starter.words.ttl} ({ttl} s): its records are deleted"
        raise Refused(what, f'choose a later time, or start = "initial" (a copy of {ctx.job.channel.source_table})')
    starter.inspector.since(at.isoformat(), lowest=False)  # raises Refused for a table without binlog timestamps
    if all(one.point is None for one in starter.inspector.records().values()):
        what = "the binlog has no record: changes since that time are unknown"
        raise Refused(what, 'set start = "latest" to start now, or start = "initial" to start with a copy')


def _start_at_time(ctx: JobContext, starter: SourceTable, at: datetime) -> list[LaneStart]:
    """Start every DN at the smallest point found for that time on any DN, but never after the newest safe point.

    The statuses are read first: the search finds all records up to their newest points, and the invisible records of a
    running commit are after these points.
    """
    _check_time(ctx, starter, at)
    statuses = poll_all_nodes(starter.source, ctx)
    since = starter.inspector.since(at.isoformat())
    if ctx.sessions.shards_apart:
        return _starts_at(starter, ((one, since.get(one.shard.name) or one.latest) for one in statuses))
    found = since.values()
    first = min([*(point for point in found if point is not None), *(status.latest for status in statuses)])
    return _starts_at(starter, ((one, first) for one in statuses), starter.inspector.records(first))


def _parse_points(ctx: JobContext, at: StartAt) -> dict[str, Position]:
    found = {}
    every = [shard.name for shard in ctx.sessions.starter().source.nodes()]
    for name, text in ((each, text) for one, text in at.points for each in (every if one == EVERY_DN else [one])):
        try:
            found[name] = ctx.sessions.starter().inspector.place(text).from_here
        except ValueError as error:
            raise Refused(f"{name}: {error}", "write a position as `slots show` and `slots peek` print it") from error
    return found


def _check_points(ctx: JobContext, starter: SourceTable, points: dict[str, Position]) -> None:
    """Raise Refused for unknown DNs, and for points whose later records may already be deleted."""
    names = {shard.name for shard in starter.source.nodes()}
    if names != points.keys():
        wrong = ", ".join(sorted(names ^ points.keys()))
        raise Refused(f"start and the cluster have different DNs ({wrong})", f"name {', '.join(sorted(names))}")
    registered = retained_from(starter)
    records = starter.inspector.records()
    for name, point in points.items():
        newest, oldest = records[name].latest, records[name].point
        if newest is not None and point > newest:
            beyond = f"{name}: point {point.shown} is after the newest one, {newest.shown}"
            raise Refused(beyond, "choose an earlier point")
        kept = min((one for one in (registered.get(name), oldest) if one is not None), default=None)
        if kept is None or point < kept:
            what = f"{name}: unknown whether the source retains every change from point {point.shown} on"
            least = kept if kept is not None else newest
            raise Refused(what, f"choose {least.shown if least else 'the newest point'} or a later point")


def retained_from(starter: SourceTable) -> dict[str, Position]:
    """Return, by DN, the position from which a slot retains every record; empty if no such slots are listed."""
    if not starter.words.retains:
        return {}
    try:
        listed = starter.points() or ()
    except SlotkeeperError:
        return {}
    registered: dict[tuple[str, str], list[Position]] = {}
    for one in listed:
        if one.point is not None and one.point.pair[0]:
            registered.setdefault((one.shard, one.slot), []).append(one.point)
    found: dict[str, Position] = {}
    for (shard, _), both in registered.items():
        found[shard] = min(found.get(shard, both[0]), *both)
    return found
