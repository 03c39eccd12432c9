"""Register a full-sync point: move a slot to now on every DN, because the full data came by another way.

What the slot has not read is skipped, so its number has to be typed.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.ttl import TimeLeft
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import SlotVerbs, SlotViewer
from slotkeeper.core.slots.change import (
    Asked,
    ChangePlan,
    Done,
    SlotVerb,
    for_owner,
    per_shard,
    planned,
    seen,
    unread_rows,
    view_of,
)
from slotkeeper.core.slots.status.inspect import SlotOnShard, SlotView

FOREIGN = "whoever reads it goes on after the gap without being told"
ROWS_STAY = (
    "the next start of job {job} refuses (SLOT MOVED): its progress rows stay where they are; "
    "`slots reset --to latest` moves both"
)
NO_ROWS = "the next start of job {job} refuses (PROGRESS LOST): the slot has points, its sink no progress row"


def plan(viewer: SlotViewer, asked: Asked, left: TimeLeft | None = None) -> ChangePlan:
    """What registering would skip; raises Refused where there is no such slot."""
    before = view_of(seen(viewer, asked), asked.slot)
    if before.exists is False:
        raise Refused(
            f"{asked.source} {asked.table} has no slot {asked.slot!r}",
            f"`slots create {typed(asked.table, asked.slot)}`",
        )
    rows = before.unread
    effects = [viewer.words.moved, f"skipped for good: {unread_rows(rows)}"]
    return planned(
        asked,
        "register",
        before,
        rows,
        [*effects, *for_owner(asked.owner, FOREIGN, ROWS_STAY, NO_ROWS)],
        [viewer.calls.register],
    )


def register(
    admin: SlotVerbs, viewer: SlotViewer, plan: ChangePlan, asked: Asked, left: TimeLeft | None = None
) -> Done:
    """Move the slot and check: a DN counts as moved only where both points are seen at or past what was newest."""
    newest = viewer.latest(asked.table)
    names = sorted(viewer.nodes(asked.table))
    answered = admin.full_sync()
    after = view_of(seen(viewer, asked), asked.slot)
    if after.exists is None:
        return Done(f"sent; the server answered {answered}; {viewer.words.no_after}", {})
    moved = {one.shard for one in after.shards if _moved(one, newest)}
    missed = tuple(name for name in names if name not in moved)
    outcome = "registered on every DN" if not missed else f"not registered on {', '.join(missed)}"
    return Done(outcome, _as_values(after, names, missed), missed, after)


def _moved(one: SlotOnShard, newest: Mapping[str, Position | None] | None) -> bool:
    if one.live is None or one.live != one.durable or not one.live.pair[0]:
        return False
    least = (newest or {}).get(one.shard)
    return one.live >= least if least is not None else one.unread == 0


def _as_values(after: SlotView, names: list[str], missed: tuple[str, ...]) -> dict[str, str]:
    said = per_shard(after, names)
    return {name: f"not moved: {text}" if name in missed else f"observed {text}" for name, text in said.items()}


REGISTER = SlotVerb("register", "`slots reset --to latest` moves a job's own position", plan, register)
"""`slots register`."""
