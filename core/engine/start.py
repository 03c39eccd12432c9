"""The start of a job: lease, epoch, the three-way comparison, and the creation of a slot (design 4.1, 4.4, 4.5).

Nothing here decides by itself what a state means: `core.domain.start` does. Next door: `nodes.py` adopts a changed set
of DNs, `snapshot.py` copies, `loop.py` streams, `job.py` puts the phases in order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from core.domain.position import Position
from core.domain.progress import LaneState, ProgressRow, Registered
from core.domain.slot import Look, Shard, TableIdentity
from core.domain.start import StartAction, StartDecision, compare
from core.domain.starting import StartKind, start_at
from core.domain.watch import no_point
from core.engine import nodes, starts
from core.engine.nodes import refuse
from core.engine.ports import Store, Surroundings, lane_key
from core.engine.quiet import pause, wait_for_open_transactions
from core.errors import Busy, Refused, TroubleName
from core.ports import SlotAdmin

LEASE_WAIT = 30.0
OLDER_LOOKS, OLDER_PAUSE = 3, 5.0
LOST_ANSWER_WAIT = 15.0
EVERYWHERE = Shard("*", 0)
"""The one lane of a job that only copies: it has no slot and no DN of its own."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A start that is through: which table, which epoch, which rows; `copying` where a copy has to be done."""

    identity: TableIdentity
    epoch: int
    rows: tuple[ProgressRow, ...]
    state: LaneState
    copying: str = ""


def begin(all_: Surroundings) -> Begun:
    """Take the lease, raise the epoch, compare, and create the slot of a new job."""
    store, target = all_.sessions.store(), all_.sessions.target()
    store.create_tables()
    _take_lease(all_, store)
    _refuse_open_reset(all_, store)
    first, source = not store.rows(), all_.sessions.source("start")
    if first:
        source.admit()
    identity = source.identify()
    at = start_at(all_.job.start)
    if first:
        target.ready(identity)
        if at.kind is StartKind.INITIAL:
            target.copying(begun=False)
        else:
            starts.check(all_, at)
        store.insert(_first_rows(all_, identity))
    epoch = store.raise_epoch()
    _silence_the_old(all_, epoch)
    rows = store.rows()
    _refuse_changed_channel(rows, channel_hash(all_, identity))
    # the comparison first: a lost slot outranks a target that lacks what DDL gave the source
    decided = _compared(all_, rows, epoch, first, identity.text) if all_.job.binlog.binlog else None
    rows = store.rows()  # a changed set of DNs may have been adopted
    if not first:
        all_.sessions.source("start").admit()
        if decided is not None:
            starts.refuse_aged(all_, store)
        target.ready(identity)
    if decided is None:
        return _begin_copy_only(all_, store, identity, epoch, rows)
    if decided is StartAction.CREATE and at.kind is not StartKind.INITIAL:
        starts.begin_at(all_, store, _rows_of_nodes(all_, identity), epoch, at)
        return Begun(identity, epoch, tuple(store.rows()), LaneState.RUNNING)
    if decided is StartAction.CREATE:
        rows = _create(all_, store, identity, epoch)
        return Begun(identity, epoch, tuple(rows), LaneState.CREATING, target.copying(begun=False))
    copying = target.copying(begun=True) if decided is StartAction.COPY else ""
    return Begun(identity, epoch, tuple(rows), rows[0].state, copying)


def channel_hash(all_: Surroundings, identity: TableIdentity) -> str:
    """What a change of which makes the old rows meaningless: mapping, filter and key."""
    channel = all_.job.channel
    mapping = "\x1e".join("\x1d".join(pair) for pair in channel.columns) or "by name"
    row_filter = channel.where or "no filter"
    spelled = "\x1f".join((channel.source_table, channel.target, mapping, row_filter, *identity.key))
    return hashlib.sha256(spelled.encode()).hexdigest()[:16]


def _take_lease(all_: Surroundings, store: Store) -> None:
    end = all_.clock.monotonic() + LEASE_WAIT
    while not store.take_lease():
        if all_.take_over:
            store.end_others()
        if all_.clock.monotonic() >= end:
            raise Refused(
                f"the lease of {all_.job.channel.source_table} slot {all_.job.slot} is held: {store.holder()}",
                "stop that job, or start with --take-over",
                where="sink",
            )
        pause(all_, 0.5)


def _refuse_open_reset(all_: Surroundings, store: Store) -> None:
    """A slot that is half moved is not followed: its rows and points are of two different plans."""
    reset = store.open_reset()
    if reset:
        place = f"{all_.job.channel.source_table} {all_.job.slot}"
        hint = f"slotkeeper slots reset --resume {place}"
        raise Refused(f"reset {reset} of slot {all_.job.slot} is unfinished", hint, where="sink")


def _silence_the_old(all_: Surroundings, epoch: int) -> None:
    """No call of an earlier epoch may land after our first look: ended, or waited out."""
    if all_.sessions.begin(epoch):
        return
    end = all_.clock.monotonic() + LOST_ANSWER_WAIT
    while all_.clock.monotonic() < end:
        pause(all_, 0.5)


def _first_rows(all_: Surroundings, identity: TableIdentity) -> list[ProgressRow]:
    shards = all_.sessions.source("start").nodes() if all_.job.binlog.binlog else [EVERYWHERE]
    return [_row(all_, identity, shard) for shard in shards]


def _rows_of_nodes(all_: Surroundings, identity: TableIdentity) -> dict[str, ProgressRow]:
    return {row.key.shard: row for row in _first_rows(all_, identity)}


def _row(all_: Surroundings, identity: TableIdentity, shard: Shard, epoch: int = 0) -> ProgressRow:
    return ProgressRow(
        key=lane_key(all_.job, shard.name),
        node_id=shard.node_id,
        target=f"{all_.job.sink.database}.{all_.job.channel.target}",
        position=None,
        epoch=epoch,
        changes=0,
        state=LaneState.CREATING,
        noted_start=None,
        noted_end=None,
        channel=channel_hash(all_, identity),
        incarnation=identity.text,
        registered=None,
    )


def _refuse_changed_channel(rows: list[ProgressRow], wanted: str) -> None:
    if any(row.channel != wanted and row.state is not LaneState.CREATING for row in rows):
        raise Refused(
            "the channel's target, mapping or key is not the one that the progress rows were made for",
            "set it back, or take a new snapshot under another slot",
        )


def _compared(all_: Surroundings, rows: list[ProgressRow], epoch: int, first: bool, incarnation: str) -> StartAction:
    """The one action for all lanes; raises the trouble that a person has to resolve, adopts what needs none."""
    creating = all(row.state is LaneState.CREATING for row in rows)
    for attempt in range(OLDER_LOOKS):
        looks = all_.sessions.admin("start").look(None)
        if not looks and not creating:
            raise no_point({Shard(row.key.shard, row.node_id) for row in rows}, rows[0].incarnation, incarnation)
        decisions = _decisions(all_, rows, looks, first, creating)
        refused = [one for one in decisions if one.action is StartAction.REFUSE]
        older = [one for one in refused if one.trouble is TroubleName.SOURCE_OLDER]
        if refused and len(older) == len(refused) and attempt + 1 < OLDER_LOOKS:
            pause(all_, OLDER_PAUSE)
            continue
        if refused and first:
            all_.sessions.store().forget_creating(epoch)
        _refuse_first(refused, (TroubleName.PROGRESS_LOST,))
        change = None
        if not creating:
            _refuse_unanswered(all_, looks, rows, incarnation)
            _refuse_first(refused, (TroubleName.SLOT_LOST,))
            change = nodes.compared(all_, rows, looks)
        _refuse_first(refused, tuple(TroubleName))
        if change is not None:
            nodes.adopt(all_, all_.sessions.store(), rows, looks, change, epoch)
        elif not creating and all_.sessions.store().known_dns() is None:
            all_.sessions.store().adopt({}, [], epoch, len(rows))
        return decisions[0].action if decisions else StartAction.CREATE
    raise AssertionError("every round returns, raises or goes on")


def _decisions(
    all_: Surroundings, rows: list[ProgressRow], looks: list[Look], first: bool, creating: bool
) -> list[StartDecision]:
    """One decision per DN that has a row; a DN without one is new, where no row can have been lost."""
    by_node = {row.node_id: row for row in rows}
    whole = not first and (creating or all_.sessions.store().known_dns() == len(rows))
    return [
        compare(by_node.get(look.shard.node_id), look, first)
        for look in looks
        if look.shard.node_id in by_node or not whole
    ]


def _refuse_first(refused: list[StartDecision], names: tuple[TroubleName, ...]) -> None:
    refuse(next((one for one in refused if one.trouble in names), None))


def _refuse_unanswered(all_: Surroundings, looks: list[Look], rows: list[ProgressRow], incarnation: str) -> None:
    """SLOT LOST where a DN of ours is there but holds no point of the slot."""
    seen = {look.shard.node_id for look in looks}
    silent = {row.node_id for row in rows} - seen
    lost = {shard for shard in all_.sessions.source("start").nodes() if shard.node_id in silent} if silent else None
    if lost:
        raise no_point(lost, rows[0].incarnation, incarnation)


def _create(all_: Surroundings, store: Store, identity: TableIdentity, epoch: int) -> list[ProgressRow]:
    """Register both points everywhere (recording starts), then wait for transactions that were open then."""
    admin = all_.sessions.admin("start")
    looks = starts.looks_everywhere(admin, all_)
    rows = [
        replace(
            _row(all_, identity, look.shard, epoch),
            position=Position(look.latest),
            noted_start=look.latest,
            registered=Registered(0, 0, look.xmin),
        )
        for look in looks
    ]
    store.replace_creating(rows, epoch)
    for look in looks:
        _register_first(store, admin, all_, look, epoch)
    found = {look.shard: look.points.both for look in admin.look(None)}
    for look in looks:
        if found.get(look.shard) != (look.latest, look.latest):
            raise Busy(f"{look.shard.name}: the first registration did not take", where="source")
    all_.probe("after_first_registration")
    wait_for_open_transactions(all_, all_.sessions.source("start"))
    return store.rows()


def _register_first(store: Store, admin: SlotAdmin, all_: Surroundings, look: Look, epoch: int) -> None:
    with store.registration(lane_key(all_.job, look.shard.name), epoch) as lock:
        for checkpoint in (False, True):
            if admin.register(look.shard, look.latest, checkpoint, look.xmin) != 1:
                raise Busy(f"{look.shard.name}: the first registration reached no node", where="source")
        lock.record(Registered(look.latest, look.latest, look.xmin))


def _begin_copy_only(
    all_: Surroundings, store: Store, identity: TableIdentity, epoch: int, rows: list[ProgressRow]
) -> Begun:
    """`binlog = false`: one full copy; a half-done one goes on, a finished one begins again."""
    target = all_.sessions.target()
    if rows[0].state is LaneState.COPYING:
        return Begun(identity, epoch, tuple(rows), LaneState.COPYING, target.copying(begun=True))
    store.set_state(epoch, LaneState.CREATING)
    return Begun(identity, epoch, tuple(rows), LaneState.CREATING, target.copying(begun=False))
