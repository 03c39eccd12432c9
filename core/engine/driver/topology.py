"""The set of DNs: whether it is that of the progress rows, and a start's adoption of another one (design 4.5).

Next door: `core.domain.topology` decides; `start.py` comes here once every lane has passed its own comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from core.domain.position import Position
from core.domain.progress import ProgressRow, Registered
from core.domain.slot import Shard, SlotStatus
from core.domain.start import StartDecision
from core.domain.topology import NodeChange, left_unread, node_change
from core.engine.driver.context import JobContext
from core.errors import Busy, TopologyTrouble, Trouble, TroubleName
from core.ports.progress import Store
from core.ports.source import SlotAdmin, Source


def refuse(decision: StartDecision | None) -> None:
    """Raise the trouble that a decision names; nothing where there is none."""
    if decision is None or decision.trouble is None:
        return
    kind = TopologyTrouble if decision.trouble is TroubleName.TOPOLOGY_CHANGED else Trouble
    raise kind(decision.sentence, decision.safe, name=decision.trouble)


def changed(source: Source, ours: Iterable[Shard]) -> str:
    """The DNs by name that came or went since `ours`, or nothing; one that only answers when asked is there, too."""
    known, there = set(ours), set(source.nodes())
    if known - there:
        there |= {status.shard for status in source.read_status(None)}
    return ", ".join(sorted(shard.name for shard in known ^ there))


def compared(ctx: JobContext, rows: list[ProgressRow], statuses: list[SlotStatus]) -> NodeChange | None:
    """What has to be adopted, or nothing; raises TOPOLOGY CHANGED where a person has to decide."""
    nodes = ctx.sessions.source("start").nodes()
    found = node_change(rows, statuses, nodes, ctx.job.binlog.need_redistribution)
    if isinstance(found, StartDecision):
        refuse(found)
        return None
    return found


def adopt(
    ctx: JobContext,
    store: Store,
    rows: list[ProgressRow],
    statuses: list[SlotStatus],
    change: NodeChange,
    epoch: int,
) -> None:
    """Write the new set into the progress rows; `refuse_unread` comes first."""
    come = [_row_of(ctx, rows, status, epoch) for status in change.come]
    renamed = {row.key.shard: shard.name for row, shard in change.renamed}
    store.adopt(renamed, come, epoch, len(rows) + len(come))
    ctx.probe("after_adoption")


def refuse_unread(admin: SlotAdmin, rows: list[ProgressRow], statuses: list[SlotStatus], change: NodeChange) -> None:
    """TOPOLOGY CHANGED unless it is certain that nothing older is left unread on the old DNs.

    A key's changes after the move lie wholly behind its earlier ones only where those were all applied.
    """
    positions = {row.node_id: row.position for row in rows}
    unread = []
    for status in statuses:
        position = positions.get(status.shard.node_id)
        if position is None or position.point >= change.point:
            continue
        if status.latest < change.point:
            raise Busy(
                f"{status.shard.name} is at {status.latest}, the new DNs begin at {change.point}", where="source"
            )
        if admin.has_changes(status.shard, position, change.point):
            unread.append(status.shard)
    if unread:
        refuse(left_unread(change, unread))


def _row_of(ctx: JobContext, rows: list[ProgressRow], status: SlotStatus, epoch: int) -> ProgressRow:
    """The row of a new DN: it begins at the point that the server gave it, as caught up as the others."""
    point = status.points.live or 0
    # an xmin that belongs to that point is not told; one that is older holds back more than is needed, never less
    xmin = min((row.registered.xmin for row in rows if row.registered), default=0)
    return replace(
        rows[0],
        key=ctx.job.lane_key(status.shard.name),
        node_id=status.shard.node_id,
        position=Position(point),
        epoch=epoch,
        changes=0,
        noted_start=point,
        noted_end=point if rows[0].noted_end is not None else None,
        registered=Registered(point, point, xmin),
    )
