"""Starts a job: takes leases, raises the epoch, does the three-way comparison and creates slots (design 4.1, 4.4, 4.5).

All channels of the job complete each phase together, under one epoch; `slotkeeper.core.domain.start` judges states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from slotkeeper.core.domain.consent import REPLACE, Consent
from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.shape import columns_text
from slotkeeper.core.domain.slot import Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import NO_COPY, StartKind, start_at
from slotkeeper.core.domain.start import (
    NodeChange,
    StartAction,
    StartDecision,
    by_record,
    compare,
    is_first,
    left_unread,
    node_change,
    owes_copy,
)
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.watch import Turn, no_point, trouble
from slotkeeper.core.engine.driver import first_start, lease, switch
from slotkeeper.core.engine.driver.context import JobContext, about, pause, wait_for_open_transactions
from slotkeeper.core.engine.driver.failure import refuse, with_others
from slotkeeper.core.engine.driver.first_start import EVERYWHERE, channel_hash, create_slot, first_rows
from slotkeeper.core.engine.driver.follow import know_columns
from slotkeeper.core.engine.driver.registration import KeepAlive, Kept
from slotkeeper.core.engine.driver.reshape import refuse_outdated
from slotkeeper.core.errors import AwaitsCopy, Busy, Defect, Refused, Trouble, TroubleName
from slotkeeper.core.ports.driver import StartStore
from slotkeeper.core.ports.source import LOST_ANSWER_WAIT, Source

T = TypeVar("T")

LEASE_WAIT = 30.0
OLDER_STATUSES, OLDER_PAUSE = 3, 5.0
REPLACING = ("shadow", "refill")
"""The mode of a copy that replaces the target's rows."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A channel's completed start: table, epoch, rows; `copying`: the mode of its copy, "" without a copy.

    `part`: the job's context, narrowed to the channel.
    """

    part: JobContext
    identity: TableIdentity
    epoch: int
    rows: tuple[ProgressRow, ...]
    state: LaneState
    copying: str = ""


def begin(ctx: JobContext) -> tuple[Begun, ...]:
    """Take the leases, raise the epoch, compare, and create the slots of new channels.

    Creates nothing before all channels are admitted, and no slot before all channels are compared.
    """
    parts = ctx.parts
    stores = [part.sessions.store() for part in parts]
    for store in stores:
        store.create_tables()
    # take one lease per channel, because another job may hold one of them, and the lock on each target; `--take-over`
    # skips only the lease on this job's own rows, never the lock on another job's target
    end = ctx.clock.monotonic() + LEASE_WAIT
    for part in parts:
        with about(ctx, part):
            lease.take_lease(ctx, part, end)
            lease.take_target(ctx, part)
    for part, store in zip(parts, stores, strict=True):
        with about(ctx, part):
            _refuse_open_reset(part, store)
    switch.prefer_known(ctx, [row for store in stores for row in store.rows()])
    openings = [_Opening(part) for part in parts]
    _refuse_shared(ctx, openings)
    _for_each(ctx, openings, _Opening.admit)
    _for_each(ctx, openings, _Opening.make_target)
    _for_each(ctx, [one for one in openings if one.first], _Opening.insert_rows)
    epoch = stores[0].raise_epoch([part.job.channel.source_table for part in parts])
    for part, store in zip(parts, stores, strict=True):
        if store.passes:  # without the lease, a reset may have started meanwhile, and its rows have this epoch now
            with about(ctx, part):
                _refuse_open_reset(part, store)
    ctx.probe("after_first_rows")
    _end_old_sessions(ctx, epoch)
    switch.report(ctx, _for_each(ctx, openings, lambda one: one.follow(epoch)))
    try:
        # compare first: a lost slot takes precedence over a target without the columns that DDL added in the source
        begun_before = {one.store for one in openings if not one.unregistered}
        _for_each(ctx, openings, lambda one: one.compare(epoch, bool(begun_before - {one.store})))
    except Trouble:
        for one in openings:
            if one.unregistered:
                one.store.forget_creating(epoch)
        raise
    _for_each(ctx, openings, _Opening.refuse_unread)
    _for_each(ctx, openings, lambda one: one.adopt(epoch))
    _for_each(ctx, openings, _Opening.admit_again)
    copying = any(one.copying for one in openings)
    begun = _for_each(ctx, openings, lambda one: one.complete(epoch, copying))
    # wait once, for all new channels, for the transactions that were open when recording started
    new = [one for one in begun if one.state is LaneState.CREATING and ctx.job.binlog.binlog]
    if new:
        keep = KeepAlive(ctx, (Kept(one.part, one.epoch, one.rows) for one in begun))
        wait_for_open_transactions(ctx, new[0].part.sessions.source("start"), keep.wait_and_renew)
    return tuple(begun)


def _refuse_shared(ctx: JobContext, openings: list[_Opening]) -> None:
    """Raise Refused if the start moves a slot whose position all channels share: it would move for all of them."""
    at = ctx.job.start
    if len(openings) == 1 or not ctx.sessions.shares_position or start_at(at).copies:
        return
    if any(one.first or one.unregistered for one in openings):
        what = f'start = "{at}" would move the only position, which all channels of the job share'
        raise Refused(
            what, 'set start = "initial", which copies first; or create one job per channel, each with its own slot'
        )


def _for_each(ctx: JobContext, openings: list[_Opening], act: Callable[[_Opening], T]) -> list[T]:
    found = []
    for one in openings:
        with about(ctx, one.part):
            found.append(act(one))
    return found


class _Opening:
    """The start of one channel, divided into phases."""

    def __init__(self, part: JobContext) -> None:
        self.part = part
        self.store = part.sessions.store()
        self.first = not self.store.rows()
        self._at = start_at(part.job.start)
        self._rows: list[ProgressRow] = []
        self._schedule: list[SlotStatus] = []
        self._action: StartAction | None = None
        self._made = False
        self._change: NodeChange | None = None

    def admit(self) -> None:
        """Raise Refused for a channel that the job cannot replicate; creates nothing."""
        source, target = self.part.sessions.source("start"), self.part.sessions.target()
        if self.first:
            source.admit()
        else:
            know_columns(self.part)
            source = self.part.sessions.source("start")
        self.identity = source.identify()
        if not self.first:
            # checked before the epoch is raised, because a reset's undo assumes that a start with a later epoch has
            # copied
            unconsented = self._unconsented()
            if unconsented and not target.takes_copy(self.identity):
                raise unconsented
            return
        there = target.admit(self.identity)
        if self._at.kind is not StartKind.INITIAL:
            first_start.check_start(self.part, self._at)
        elif there:
            target.copying()

    def _unconsented(self) -> AwaitsCopy | None:
        """Return an error if a copy after a reset would replace rows without a stored consent for that reset."""
        ordered, part = self.store.ordered(), self.part
        job, consents = part.job, part.consents
        replaces = (ordered.way or job.on_existing) == REPLACE
        if not ordered.plan or not replaces or (consents is not None and consents.given(ordered.plan)):
            return None
        table, rows = job.channel.source_table, f"the rows of {job.channel.place}"
        asked = Consent(ordered.plan, job.name, table, job.slot, rows, part.alone)
        if consents is not None and all(one.plan != ordered.plan for one in consents.known()):
            consents.keep(asked)
        return asked.missing

    def make_target(self) -> None:
        """Create the target of a new channel if the configuration allows it."""
        if self.first:
            self.part.sessions.target().ready(self.identity, makes=True)

    def insert_rows(self) -> None:
        """Insert the progress rows of a new channel, which reserve its target among the jobs of the schema."""
        self.store.insert(first_rows(self.part, self.identity))

    def follow(self, epoch: int) -> str:
        """Continue at another server with the same history; return how it differs, "" if it is the same server."""
        if self.first or not self.part.job.binlog.binlog:
            return ""
        found = switch.follow(self.part, epoch)
        if found:
            self.identity = self.part.sessions.source("start").identify()
        return found

    def compare(self, epoch: int, others_begun: bool) -> None:
        """Do the three-way comparison; raises a problem that a user must resolve.

        `others_begun`: a start has registered positions for another channel of the job.
        """
        rows = self.store.rows()
        binlog, now = self.part.job.binlog.binlog, self.identity
        # after a rename of a key column, the comparison below raises the more specific error
        known = [row for row in rows if not binlog or row.fingerprint == now.text]
        wanted = channel_hash(self.part, now)
        if any(row.channel != wanted and row.state is not LaneState.CREATING for row in known):
            what = "the channel's target, mapping or key differs from the progress rows"
            raise Refused(what, "restore them, or take a new snapshot with another slot")
        if binlog:
            found = _compare_rows(self.part, rows, self.identity.text, others_begun)
            self._action, self._schedule, self._change = found
            self._refuse_without_copy(rows)
            refuse_outdated(self.part, rows, now)
        self._rows = rows

    def _refuse_without_copy(self, rows: list[ProgressRow]) -> None:
        """Raise Refused if the rows require a copy but `start` makes none: changes in between would be skipped."""
        job, keeps = self.part.job, self.part.sessions.keeps_positions
        if self._action is StartAction.CREATE and not self._at.copies and any(owes_copy(row, keeps) for row in rows):
            what = f'{job.channel.source_table} needs a copy, but start = "{job.start}" makes none'
            raise Refused(what, NO_COPY, where="sink")

    @property
    def unregistered(self) -> bool:
        """Whether the channel has no registered position yet, not even from an earlier attempt of this start."""
        return all(is_first(row) for row in self.store.rows())

    def refuse_unread(self) -> None:
        """Raise TOPOLOGY CHANGED if the changed DN set cannot be accepted."""
        if self._change is not None:
            _refuse_unread(self.part.sessions.admin("start").source, self._rows, self._schedule, self._change)

    def adopt(self, epoch: int) -> None:
        """Write a changed DN set to the progress rows, or only the number of DNs if the rows lack it."""
        creating = all(row.state is LaneState.CREATING for row in self._rows)
        if self._change is not None:
            _adopt_nodes(self.part, self.store, self._rows, self._schedule, self._change, epoch)
        elif self._action is not None and not creating and self.store.known_dns() is None:
            self.store.adopt({}, [], epoch, len(self._rows))
        self._rows = self.store.rows()

    def admit_again(self) -> None:
        """Repeat the admission of the first start; a missing target is created only for a complete copy."""
        if self.first:
            return
        self.part.sessions.source("start").admit()
        if self._action in (StartAction.COPY, StartAction.STREAM):  # a new slot does not need older records
            first_start.refuse_aged(self.part, self.store)
        whole = self._action is None or self._rows[0].state is LaneState.CREATING
        self._made = self.part.sessions.target().ready(self.identity, makes=whole)

    @property
    def copying(self) -> bool:
        """Whether the channel still needs a copy or has an incomplete copy."""
        return self._rows[0].state in (LaneState.CREATING, LaneState.COPYING)

    def complete(self, epoch: int, copying: bool) -> Begun:
        """Return the completed start; create the slot of a new channel. `copying`: a channel of the job is copying."""
        target, rows, state = self.part.sessions.target(), self._rows, self._rows[0].state
        known = self.identity.known
        if self._action is StartAction.COPY and known:
            noted = self.store.noted_columns(self.identity.text) or ()
            # the rows after the copy's start were written with the columns that the table had then
            if all(one.native for one in noted) and noted and columns_text(noted) != columns_text(known):
                raise trouble(TroubleName.SCHEMA_CHANGED, "the table's columns changed during its copy")
        self.store.note_columns(
            self.identity.text, known or self.identity.columns, renews=self._action is StartAction.CREATE
        )
        begun = Begun(self.part, self.identity, epoch, tuple(_update_points(rows, self._schedule)), state)
        if self._action is None:
            return _begin_copy_only(begun, self.store, copying, self._made)
        if self._action is StartAction.CREATE and self._at.kind is not StartKind.INITIAL:
            first = {row.key.shard: row for row in first_rows(self.part, self.identity)}
            first_start.start_without_copy(self.part, self.store, first, epoch, self._at)
            return replace(begun, rows=tuple(self.store.rows()), state=LaneState.RUNNING)
        if self._action is StartAction.CREATE:
            rows = create_slot(self.part, self.store, self.identity, epoch)
            now = self.part.sessions.source("start").identify() if known else self.identity
            if (now.text, columns_text(now.known)) != (self.identity.text, columns_text(known)):
                raise Busy("the table's columns changed while the job started", where="source")
            way = target.copying(self.store.ordered().way)
            unconsented = self._unconsented() if way in REPLACING else None
            if unconsented:
                raise unconsented
            return replace(begun, rows=tuple(rows), state=LaneState.CREATING, copying=way)
        way = self.store.way_of_copy() if self._action is StartAction.COPY else ""
        refused = target.half_done(way) if self._action is StartAction.COPY else None
        if refused is not None:
            raise refused
        return replace(begun, copying=way)


def _update_points(rows: list[ProgressRow], statuses: list[SlotStatus]) -> list[ProgressRow]:
    """Return the rows with the slot's current points: if an answer was lost, a row can have older points."""
    kept = {status.shard.node_id: status.kept for status in statuses}
    found = []
    for row in rows:
        there = kept.get(row.node_id)
        if row.registered is None or there is None or there.missing:
            found.append(row)
        else:
            found.append(replace(row, registered=row.registered.found(there)))
    return found


def _refuse_open_reset(ctx: JobContext, store: StartStore) -> None:
    """Raise Refused if a reset of the slot is unfinished: its rows and points belong to different plans."""
    reset = store.open_reset()
    if reset:
        place = typed(ctx.job.channel.source_table, ctx.job.slot)
        hint = f"`slotkeeper slots reset --resume {place}` finishes it or rolls it back"
        raise Refused(f"reset {reset} of slot {ctx.job.slot} is unfinished", hint, where="sink")


def _end_old_sessions(ctx: JobContext, epoch: int) -> None:
    """End the sessions of earlier epochs, or wait, so that no old call takes effect after the first status."""
    # a reset of another table may be in progress: this start must not end its session
    ours = [] if ctx.alone else [part.job.channel.source_table for part in ctx.parts]
    if ctx.sessions.begin(epoch, ours):
        return
    end = ctx.clock.monotonic() + LOST_ANSWER_WAIT
    while ctx.clock.monotonic() < end:
        pause(ctx, 0.5)


def _compare_rows(
    ctx: JobContext, rows: list[ProgressRow], fingerprint: str, others_begun: bool
) -> tuple[StartAction, list[SlotStatus], NodeChange | None]:
    """Return the common action for all lanes of a channel, the statuses, and a changed DN set; raises problems."""
    creating = all(row.state is LaneState.CREATING for row in rows)
    for attempt in range(OLDER_STATUSES):
        statuses = ctx.sessions.admin("start").source.read_status(None)
        if not statuses and not creating:
            raise no_point({Shard(row.key.shard, row.node_id) for row in rows}, rows[0].fingerprint, fingerprint)
        decisions = _decisions(ctx, rows, statuses, creating, others_begun)
        refused = [one for one in decisions if one.action is StartAction.REFUSE]
        older = [one for one in refused if one.trouble is TroubleName.SOURCE_OLDER]
        if refused and len(older) == len(refused) and attempt + 1 < OLDER_STATUSES:
            pause(ctx, OLDER_PAUSE)
            continue
        _refuse_first(refused, (TroubleName.PROGRESS_LOST,))
        change = None
        if not creating:
            _refuse_unanswered(ctx, statuses, rows, fingerprint)
            _refuse_first(refused, (TroubleName.SLOT_LOST,))
            change = _compare_nodes(ctx, rows, statuses)
        _refuse_first(refused, tuple(TroubleName))
        return decisions[0].action if decisions else StartAction.CREATE, statuses, change
    raise AssertionError("every round returns, raises or continues")


def _decisions(
    ctx: JobContext, rows: list[ProgressRow], statuses: list[SlotStatus], creating: bool, others_begun: bool
) -> list[StartDecision]:
    """Return one decision per DN with a row; a DN without a row is new, and cannot have lost a row."""
    by_node = {row.node_id: row for row in rows}
    first = all(is_first(row) for row in rows)
    whole = not first and (creating or ctx.sessions.store().known_dns() == len(rows))
    return [
        _decision(ctx, by_node.get(status.shard.node_id), status, others_begun)
        for status in statuses
        if status.shard.node_id in by_node or not whole
    ]


def _decision(ctx: JobContext, row: ProgressRow | None, status: SlotStatus, others_begun: bool) -> StartDecision:
    decision = compare(row, status, others_begun)
    if row is None:
        return decision
    name = (ctx.whole or ctx.job).lane_name(row.key.source_table, row.key.shard)
    return by_record(decision, row, status, ctx.recorded.get(name))


def _refuse_first(refused: list[StartDecision], names: tuple[TroubleName, ...]) -> None:
    first = next((one for one in refused if one.trouble in names), None)
    if first is not None and first.trouble is TroubleName.SLOT_LOST:
        others = sum(one.trouble is TroubleName.SLOT_LOST for one in refused) - 1
        first = replace(first, sentence=with_others(first.sentence, others))
    refuse(first)


def _refuse_unanswered(ctx: JobContext, statuses: list[SlotStatus], rows: list[ProgressRow], fingerprint: str) -> None:
    """Raise SLOT LOST if a DN of the job exists but has no point of the slot."""
    seen = {status.shard.node_id for status in statuses}
    silent = {row.node_id for row in rows} - seen
    lost = {shard for shard in ctx.sessions.source("start").nodes() if shard.node_id in silent} if silent else None
    if lost:
        raise no_point(lost, rows[0].fingerprint, fingerprint)


def _begin_copy_only(begun: Begun, store: StartStore, copying: bool, made: bool) -> Begun:
    """Start a channel with `binlog = false`: one full copy, which continues if it is unfinished.

    A finished copy restarts once the copies of all channels are finished. A copy that cannot continue or whose target
    was missing also restarts, because no stream depends on it.
    """
    target, way = begun.part.sessions.target(), store.way_of_copy()
    if any(row.key.shard != EVERYWHERE.name for row in begun.rows):
        what = "the progress rows belong to a streaming job: a copy without binlog would mark them as caught up"
        raise Refused(what, "set binlog = true, or choose another slot name for the copy", where="sink")
    if begun.state is LaneState.COPYING and not made and target.half_done(way) is None:
        return replace(begun, copying=way)
    if copying and begun.state is LaneState.RUNNING and not made:
        return begun
    before = (LaneState.CREATING, LaneState.COPYING, LaneState.RUNNING)
    store.set_state(Turn(begun.epoch, len(begun.rows), before, LaneState.CREATING))
    return replace(begun, state=LaneState.CREATING, copying=target.copying())


def _compare_nodes(ctx: JobContext, rows: list[ProgressRow], statuses: list[SlotStatus]) -> NodeChange | None:
    """Return new and renamed DNs to accept, if any; raises TOPOLOGY CHANGED if a user has to decide."""
    nodes = ctx.sessions.source("start").nodes()
    found = node_change(rows, statuses, nodes, ctx.job.binlog.need_redistribution)
    if isinstance(found, StartDecision):
        refuse(found)
        return None
    return found


def _adopt_nodes(
    ctx: JobContext,
    store: StartStore,
    rows: list[ProgressRow],
    statuses: list[SlotStatus],
    change: NodeChange,
    epoch: int,
) -> None:
    come = [_row_of(ctx, rows, status, epoch) for status in change.come]
    renamed = {row.key.shard: shard.name for row, shard in change.renamed}
    store.adopt(renamed, come, epoch, len(rows) + len(come))
    ctx.probe("after_adoption")


def _refuse_unread(source: Source, rows: list[ProgressRow], statuses: list[SlotStatus], change: NodeChange) -> None:
    """Raise TOPOLOGY CHANGED unless it is certain that the old DNs have no unread records.

    A key's changes stay in order only if all changes before the key's move to a new DN have been applied.
    """
    positions = {row.node_id: row.position for row in rows}
    unread, begins = [], change.begins
    for status in statuses:
        position = positions.get(status.shard.node_id)
        if begins is None or position is None or position >= begins:
            continue
        if status.latest < begins:
            newest = status.latest.shown
            raise Busy(f"{status.shard.name} is at {newest}, but the new DNs start at {begins.shown}", where="source")
        if source.has_changes(status.shard, position, begins):
            unread.append(status.shard)
    if unread:
        refuse(left_unread(change, unread))


def _row_of(ctx: JobContext, rows: list[ProgressRow], status: SlotStatus, epoch: int) -> ProgressRow:
    """Return the progress row of a new DN: it starts at the server's point and has the same state as the other rows."""
    begins = status.kept.furthest
    if begins is None:
        raise Defect(f"{status.shard.name} was adopted without a point of the slot")
    noted_end = begins if rows[0].noted_end is not None else None
    registered = status.kept.no_newer(row.registered for row in rows if row.registered)
    made = replace(
        rows[0], key=ctx.job.lane_key(status.shard.name), node_id=status.shard.node_id, epoch=epoch, changes=0
    )
    return replace(made, position=begins.from_here, noted_start=begins, noted_end=noted_end, registered=registered)
