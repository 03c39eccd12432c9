"""Drop a slot, or where the kernel cannot: say honestly that it is abandoned, and when its TTL clears it.

Next door: `change` has the rule of consent, `hold` the time left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from core.domain.ttl import Left, in_words
from core.errors import Refused
from core.slots.change import SINK_SILENT, Asked, Done, Owner, Plan, VerbViewer, per_shard, seen, view_of
from core.sqltext import dotted, literal

CLEARS = "pgxc_binlog_clear_target_slot"


class DropViewer(VerbViewer, Protocol):
    """What a session must answer for this."""

    def functions(self) -> Mapping[str, bool]:
        """The binlog functions that are there, and whether we may call them."""


class Dropper(Protocol):
    """A session that may clear a slot."""

    def clear(self) -> int:
        """Clear the slot on all DNs; returns how many points the server says it cleared."""


def plan(viewer: DropViewer, asked: Asked, left: Left | None) -> Plan:
    """Who would lose what; raises Refused where there is no such slot or we may not."""
    found = seen(viewer, asked)
    before = view_of(found, asked.slot)
    if before.exists is False:
        raise Refused(f"{asked.source} {asked.table} has no slot {asked.slot!r}")
    allowed = viewer.functions().get(CLEARS)
    if allowed is False:
        raise Refused(f"this user may not execute {CLEARS}", "ask for EXECUTE on it, or let the slot's TTL end")
    rows = before.unread
    who = f"job {asked.owner.job}" if asked.owner else "whoever reads it (no job of this configuration)"
    count = "what it has not read (it cannot be counted here)" if rows is None else f"{rows} unread rows"
    effects = [f"{who} loses {count}", *_for_owner(asked.owner)]
    others = [one.name for one in found.slots if one.exists and one.name != asked.slot]
    if found.untold:
        effects.append("what other slots the table has is not known")
    elif others:
        effects.append(f"other slots lose nothing: {', '.join(others)}")
    else:
        effects.append("it is the table's last slot: changes are no longer recorded")
    if allowed is None:
        effects.append(f"abandon: this kernel cannot drop a slot (9.1.0.223 or newer can); {cleared(left)}")
    return Plan(
        verb="drop" if allowed else "abandon",
        source=asked.source,
        table=asked.table,
        slot=asked.slot,
        owner=asked.owner,
        highest=asked.highest,
        before=before,
        rows=rows,
        effects=tuple(effects),
        sql=(f"SELECT {CLEARS}({literal(dotted(asked.table))}, {literal(asked.slot)})",) if allowed else (),
    )


def drop(admin: Dropper, viewer: VerbViewer, asked: Asked) -> Done:
    """Clear the slot and look again; a DN where a point is still seen was missed."""
    names = sorted(viewer.nodes(asked.table))
    count = admin.clear()
    after = view_of(seen(viewer, asked), asked.slot)
    if after.exists is None:
        return Done(f"sent; the server says {count} points cleared; this kernel cannot show what is left", {})
    left = per_shard(after)
    missed = tuple(sorted(left))
    result = {name: f"still there: {left[name]}" if name in left else "gone" for name in sorted({*names, *left})}
    outcome = f"dropped; {count} points cleared" if not missed else f"still there on {', '.join(missed)}"
    return Done(outcome, result, missed, after)


def abandon(viewer: VerbViewer, asked: Asked, left: Left | None) -> Done:
    """Send nothing, and say when the slot goes by itself."""
    after = view_of(seen(viewer, asked), asked.slot)
    return Done(f"abandoned; nothing was sent; {cleared(left)}", per_shard(after), (), after)


def cleared(left: Left | None) -> str:
    """When the TTL clears a slot that nobody registers, in words."""
    if left is None:
        return "it is cleared by its TTL; when is not known"
    at = f"{left.cleared_at:%Y-%m-%dT%H:%M:%SZ}"
    return f"it is cleared by its TTL at {at} (in {in_words(left.seconds)}) if nobody registers until then"


def _for_owner(owner: Owner | None) -> tuple[str, ...]:
    if owner is None:
        return ()
    if owner.positions is None:
        return (SINK_SILENT.format(job=owner.job),)
    if owner.positions:
        return (f"the next start of job {owner.job} refuses (SLOT LOST); a new snapshot is the way out",)
    return (f"job {owner.job} has no progress row: its next start makes the slot anew",)
