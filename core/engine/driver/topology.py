"""Compares the source's DNs with the DNs of the progress rows, and accepts a changed DN set (design 4.5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slotkeeper.core.domain.progress import ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.start import NodeChange, StartDecision, left_unread, node_change
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.errors import Busy, Defect, TopologyTrouble, Trouble, TroubleName
from slotkeeper.core.ports.driver import Store
from slotkeeper.core.ports.source import Source


def refuse(decision: StartDecision | None) -> None:
    """Raise the Trouble of a decision, if any."""
    if decision is None or decision.trouble is None:
        return
    kind = TopologyTrouble if decision.trouble is TroubleName.TOPOLOGY_CHANGED else Trouble
    raise kind(decision.sentence, decision.safe, name=decision.trouble)


def changed(source: Source, ours: Iterable[Shard]) -> str:
    """Return the names of DNs added to or removed from `ours`; a DN that answers only direct calls still exists."""
    known, there = set(ours), set(source.nodes())
    if known - there:
        there |= {status.shard for status in source.read_status(None)}
    return ", ".join(sorted(shard.name for shard in known ^ there))


def compared(ctx: JobContext, rows: list[ProgressRow], statuses: list[SlotStatus]) -> NodeChange | None:
    """Return new and renamed DNs to accept, if any; raises TOPOLOGY CHANGED if a user has to decide."""
    nodes = ctx.sessions.source("start").nodes()
    found = node_change(rows, statuses, nodes, ctx.job.binlog.need_redistribution)
    if isinstance(found, StartDecision):
        refuse(found)
        return None
    return found


def adopt(
    ctx: JobContext, store: Store, rows: list[ProgressRow], statuses: list[SlotStatus], change: NodeChange, epoch: int
) -> None:
    """Write the new DN set into the progress rows; call `refuse_unread` first."""
    come = [_row_of(ctx, rows, status, epoch) for status in change.come]
    renamed = {row.key.shard: shard.name for row, shard in change.renamed}
    store.adopt(renamed, come, epoch, len(rows) + len(come))
    ctx.probe("after_adoption")


def refuse_unread(source: Source, rows: list[ProgressRow], statuses: list[SlotStatus], change: NodeChange) -> None:
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
