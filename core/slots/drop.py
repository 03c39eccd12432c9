"""Drop a slot, or where the kernel cannot: say honestly that it is abandoned, and when its TTL clears it."""

from __future__ import annotations

from slotkeeper.core.domain.ttl import TimeLeft, in_words
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

ROWS_LEFT = "the next start of job {job} refuses (SLOT LOST); a new snapshot is the way out"
NO_ROWS = "job {job} has no progress row: its next start makes the slot anew"


def plan(viewer: SlotViewer, asked: Asked, left: TimeLeft | None) -> ChangePlan:
    """Who would lose what; raises Refused where there is no such slot or we may not."""
    found = seen(viewer, asked)
    before = view_of(found, asked.slot)
    if before.exists is False:
        raise Refused(f"{asked.source} {asked.table} has no slot {asked.slot!r}")
    allowed = viewer.may_drop()
    if allowed is False:
        raise Refused(
            f"this user may not execute {viewer.calls.drops}", "ask for EXECUTE on it, or let the slot's TTL end"
        )
    rows = before.unread
    who = f"job {asked.owner.job}" if asked.owner else "whoever reads it (no job of this configuration)"
    effects = [f"{who} loses {unread_rows(rows)}", *for_owner(asked.owner, "", ROWS_LEFT, NO_ROWS)]
    others = [one.name for one in found.slots if one.exists and one.name != asked.slot]
    if found.untold:
        effects.append("what other slots the table has is not known")
    elif others:
        effects.append(f"other slots lose nothing: {', '.join(others)}")
    else:
        effects.append("it is the table's last slot: changes are no longer recorded")
    if allowed is None:
        effects.append(f"abandon: {viewer.words.no_drop}; {expiry(left)}")
    calls = [viewer.calls.drop] if allowed else []
    return planned(asked, "drop" if allowed else "abandon", before, rows, effects, calls)


def drop(admin: SlotVerbs, viewer: SlotViewer, plan: ChangePlan, asked: Asked, left: TimeLeft | None) -> Done:
    """Clear the slot and read the status again; a DN where a point is still seen was missed.

    Where the kernel cannot, nothing is sent, and it is said when the slot goes by itself.
    """
    if not plan.sql:
        after = view_of(seen(viewer, asked), asked.slot)
        return Done(f"abandoned; nothing was sent; {expiry(left)}", per_shard(after), (), after)
    names = sorted(viewer.nodes(asked.table))
    count = admin.clear()
    after = view_of(seen(viewer, asked), asked.slot)
    if after.exists is None:
        return Done(f"sent; the server says {count} points cleared; {viewer.words.no_after}", {})
    still = per_shard(after)
    missed = tuple(sorted(still))
    result = {name: f"still there: {still[name]}" if name in still else "gone" for name in sorted({*names, *still})}
    outcome = f"dropped; {count} points cleared" if not missed else f"still there on {', '.join(missed)}"
    return Done(outcome, result, missed, after)


def expiry(left: TimeLeft | None) -> str:
    """When the TTL clears a slot that nobody registers, in words."""
    if left is None:
        return "it expires by its TTL; when is not known"
    at = f"{left.expires_at:%Y-%m-%dT%H:%M:%SZ}"
    return f"it expires by its TTL at {at} (in {in_words(left.seconds)}) if nobody registers until then"


DROP = SlotVerb("drop", "nothing is held back for a job that is stopped", plan, drop)
"""`slots drop`."""
