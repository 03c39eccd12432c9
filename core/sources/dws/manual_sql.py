"""The raw SQL for a person who has to look at a slot or register it by hand. Text only: nothing is sent here.

It goes round every guard of ours: no lease, no plan, no backup, no audit.
"""

from __future__ import annotations

from slotkeeper.core.domain.position import Position
from slotkeeper.core.sqltext import dotted, literal

UNKNOWN = "?"


def status(table: str) -> str:
    """Every registered point of a table; no slot is named, so none is made.

    >>> status("ods.orders")
    "SELECT * FROM pgxc_get_binlog_slots('ods.orders', 0);"
    """
    return f"SELECT * FROM pgxc_get_binlog_slots({literal(dotted(table))}, 0);"


def register(
    table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
) -> str:
    """Registers on one DN what is registered there: no point moves, and its TTL begins anew.

    >>> from slotkeeper.core.sources.dws.position import DwsPosition
    >>> print(register("t", "s", "dn_1", DwsPosition(7), DwsPosition(5), None))
    SELECT pgxc_register_binlog_sync_point('t', 's', n.node_id, 7, false, ?),
           pgxc_register_binlog_sync_point('t', 's', n.node_id, 5, true, ?)
    FROM pgxc_node n WHERE n.node_name = 'dn_1';
    """
    known = [UNKNOWN if point is None else point.shown for point in (live, durable)]
    known.append(UNKNOWN if xmin is None else str(xmin))
    call = f"pgxc_register_binlog_sync_point({literal(dotted(table))}, {literal(slot)}, n.node_id, "
    return (
        f"SELECT {call}{known[0]}, false, {known[2]}),\n"
        f"       {call}{known[1]}, true, {known[2]})\n"
        f"FROM pgxc_node n WHERE n.node_name = {literal(shard)};"
    )
