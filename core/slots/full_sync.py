"""Register a full-sync point: move a slot to now on every DN, because the full data came by another way.

What the slot has not read is skipped, so its number has to be typed. Next door: `change` has the rule of consent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from core.domain.text import typed
from core.errors import Refused
from core.slots.change import SINK_SILENT, Asked, Done, Owner, Plan, VerbViewer, per_shard, seen, view_of
from core.slots.status.inspect import SlotOnShard, SlotView
from core.sqltext import dotted, literal


class FullSyncViewer(VerbViewer, Protocol):
    """What a session must answer for this."""

    def latest(self, table: str) -> Mapping[str, int | None] | None:
        """The newest sync point by DN, without a slot; None where the kernel cannot tell."""


class FullSync(Protocol):
    """A session that may move a slot to now."""

    def register_full_sync(self) -> str:
        """Call the server's function; what it answered, in words (its result is not documented)."""


def plan(viewer: FullSyncViewer, asked: Asked) -> Plan:
    """What registering would skip; raises Refused where there is no such slot."""
    before = view_of(seen(viewer, asked), asked.slot)
    if before.exists is False:
        raise Refused(
            f"{asked.source} {asked.table} has no slot {asked.slot!r}",
            f"`slots create {typed(asked.table, asked.slot)}`",
        )
    rows = before.unread
    count = "what it has not read (it cannot be counted here)" if rows is None else f"{rows} unread rows"
    effects = ["both points of every DN move to the newest sync point", f"skipped for good: {count}"]
    return Plan(
        verb="register",
        source=asked.source,
        table=asked.table,
        slot=asked.slot,
        owner=asked.owner,
        highest=asked.highest,
        before=before,
        rows=rows,
        effects=(*effects, *_for_owner(asked.owner)),
        sql=(f"SELECT * FROM pgxc_register_full_sync_point({literal(dotted(asked.table))}, {literal(asked.slot)})",),
    )


def register(admin: FullSync, viewer: FullSyncViewer, asked: Asked) -> Done:
    """Move the slot and look again: a DN counts as moved only where both points are seen at or past what was newest."""
    newest = viewer.latest(asked.table)
    names = sorted(viewer.nodes(asked.table))
    answered = admin.register_full_sync()
    after = view_of(seen(viewer, asked), asked.slot)
    if after.exists is None:
        return Done(f"sent; the server answered {answered}; this kernel cannot show where the points are now", {})
    moved = {one.shard for one in after.shards if _moved(one, newest)}
    missed = tuple(name for name in names if name not in moved)
    outcome = "registered on every DN" if not missed else f"not registered on {', '.join(missed)}"
    return Done(outcome, _told(after, names, missed), missed, after)


def _moved(one: SlotOnShard, newest: Mapping[str, int | None] | None) -> bool:
    if not one.live or one.live != one.durable:
        return False
    least = (newest or {}).get(one.shard)
    return one.live >= least if least is not None else one.unread == 0


def _told(after: SlotView, names: list[str], missed: tuple[str, ...]) -> dict[str, str]:
    said = per_shard(after, names)
    return {name: f"not moved: {text}" if name in missed else f"observed {text}" for name, text in said.items()}


def _for_owner(owner: Owner | None) -> tuple[str, ...]:
    if owner is None:
        return ("whoever reads it goes on after the gap without being told",)
    if owner.positions is None:
        return (SINK_SILENT.format(job=owner.job),)
    if owner.positions:
        return (
            f"the next start of job {owner.job} refuses (SLOT MOVED): its progress rows stay where they are; "
            "`slots reset --to latest` moves both",
        )
    return (
        f"the next start of job {owner.job} refuses (PROGRESS LOST): the slot has points, its sink no progress row",
    )
