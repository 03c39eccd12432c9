"""When a server purges the binlog files that a slot still needs, for `slots show` and `slots list`."""

from __future__ import annotations

from slotkeeper.core.slots.status import TableRetained


def lines(slot: str, table: TableRetained) -> list[str]:
    """A sentence each; none where the source does not purge by age."""
    return [*table.purges[slot].lines()] if slot in table.purges else []


def as_json(slot: str, table: TableRetained) -> dict[str, object] | None:
    """The same for `--json`; None where the source does not purge by age."""
    one = table.purges.get(slot)
    if one is None:
        return None
    return {
        "after_seconds": one.seconds,
        "setting": one.setting,
        "oldest_file": one.oldest,
        "needed_file": one.needed or None,
        "needed_is_there": one.there if one.needed else None,
        "purged_from": one.from_at,
        "seconds_left": one.left,
        "gtids": one.gtids or None,
    }
