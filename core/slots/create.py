"""Create a slot: ask for its points on every DN, which makes it and starts recording. It stays unregistered (point 0).

A point of 0 is what a first `jobs start` expects; any other would look like somebody else's slot to it.
"""

from __future__ import annotations

from slotkeeper.core.domain.spec import slot_name
from slotkeeper.core.domain.ttl import TimeLeft
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import SlotVerbs, SlotViewer
from slotkeeper.core.slots.change import Asked, ChangePlan, Done, SlotVerb, per_shard, planned, seen, view_of


def plan(viewer: SlotViewer, asked: Asked, left: TimeLeft | None = None) -> ChangePlan:
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
            f"{viewer.words.no_list.partition(' (')[0]}: "
            f"whether {asked.slot!r} exists cannot be told, and asking would create it",
            "`jobs start` creates the slot of a job",
        )
    first = not any(one.exists for one in found.slots)
    effects = [
        "every change from now on is kept for it until it is read and registered",
        *filter(None, [viewer.words.lapses]),
    ]
    if first:
        effects.insert(0, "it is the first slot of the table: recording starts with it")
    if asked.owner is None:
        effects.append("no configured job reads it")
    return planned(asked, "create", before, 0, effects, viewer.calls.create)


def create(admin: SlotVerbs, viewer: SlotViewer, plan: ChangePlan, asked: Asked, left: TimeLeft | None = None) -> Done:
    """Make the slot and read the status again."""
    nodes = admin.nodes()
    admin.create_slot()
    after = view_of(seen(viewer, asked), asked.slot)
    complete = {one.shard for one in after.shards if one.live is not None and one.durable is not None}
    missed = tuple(sorted(shard.name for shard in nodes if shard.name not in complete))
    outcome = "created on every DN" if not missed else f"not created on {', '.join(missed)}"
    return Done(outcome, per_shard(after, [shard.name for shard in nodes]), missed, after)


CREATE = SlotVerb("create", "`jobs start` reads it without one", plan, create)
"""`slots create`."""
