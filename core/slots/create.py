"""Create a slot: ask for its points on every DN, which makes it and starts recording. It stays unregistered (point 0).

A point of 0 is what a first `jobs start` expects; any other would look like somebody else's slot to it.
Next door: `change` has the rule of consent; `core.engine.driver.start` does the same for a job's first start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from core.domain.slot import Shard, SlotStatus, slot_name
from core.errors import Refused
from core.slots.change import Asked, Done, Plan, VerbViewer, per_shard, seen, view_of
from core.sqltext import dotted, literal


class Creator(Protocol):
    """A session that may ask for a slot that does not exist, and register."""

    def nodes(self) -> list[Shard]:
        """The cluster's DNs."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """Both points on all DNs; makes the slot (DWS)."""

    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int:
        """Register one point on one DN; returns the number of nodes registered."""


def plan(viewer: VerbViewer, asked: Asked) -> Plan:
    """What creating would do; raises Refused where the slot is there or its name is none."""
    try:
        slot_name(asked.slot)
    except ValueError as error:
        raise Refused(str(error)) from error
    found = seen(viewer, asked)
    before = view_of(found, asked.slot)
    if before.exists:
        raise Refused(f"{asked.source} {asked.table} has a slot {asked.slot!r} already", "`slots show` tells of it")
    if before.exists is None:
        raise Refused(
            f"this kernel cannot list slots: whether {asked.slot!r} exists cannot be told, and asking would create it",
            "`jobs start` creates the slot of a job",
        )
    first = not any(one.exists for one in found.slots)
    effects = [
        "every change from now on is kept for it until it is read and registered",
        "if nobody registers within binlog_ttl, it is cleared again",
    ]
    if first:
        effects.insert(0, "it is the first slot of the table: recording starts with it")
    if asked.owner is None:
        effects.append("no configured job reads it")
    names = f"{literal(dotted(asked.table))}, {literal(asked.slot)}"
    return Plan(
        verb="create",
        source=asked.source,
        table=asked.table,
        slot=asked.slot,
        owner=asked.owner,
        highest=asked.highest,
        before=before,
        rows=0,
        effects=tuple(effects),
        sql=tuple(f"SELECT * FROM pgxc_get_binlog_sync_point({names}, {flag}, 0)" for flag in ("false", "true")),
    )


def create(admin: Creator, viewer: VerbViewer, asked: Asked) -> Done:
    """Make the slot and look again."""
    nodes = admin.nodes()
    for shard in _without(nodes, admin.read_status(None)):
        # a server that makes no slot when asked: registering 0 makes it
        for checkpoint in (False, True):
            admin.register(shard, 0, checkpoint, 0)
    after = view_of(seen(viewer, asked), asked.slot)
    complete = {one.shard for one in after.shards if one.live is not None and one.durable is not None}
    missed = tuple(sorted(shard.name for shard in nodes if shard.name not in complete))
    outcome = "created on every DN" if not missed else f"not created on {', '.join(missed)}"
    return Done(outcome, per_shard(after, [shard.name for shard in nodes]), missed, after)


def _without(nodes: Sequence[Shard], statuses: Sequence[SlotStatus]) -> list[Shard]:
    return sorted(set(nodes) - {status.shard for status in statuses})
