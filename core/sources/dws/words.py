"""Texts about DWS slots, in the terms of the DWS manual, and the SQL that a user can run as a last resort.

This module contains only text. The SQL bypasses every safeguard: no lease, no plan, no backup, no audit.
"""

from __future__ import annotations

from slotkeeper.core.domain.position import Position
from slotkeeper.core.ports.source import DdlWords, SlotCalls, SlotWords
from slotkeeper.core.sources import pg_base
from slotkeeper.core.sources.dws.position import POSITIONS
from slotkeeper.core.sqltext import dotted, literal

TIMEOUT = "binlog_consume_timeout"
"""The setting that limits how long maintenance waits for readers."""

WORDS = SlotWords(
    no_list="this kernel cannot list slots (9.1.0.223 or newer can): only configured slots are shown, without points",
    no_count="this kernel cannot count unread rows of this table (9.1.0.223 or newer can)",
    no_drop="this kernel cannot drop a slot (9.1.0.223 or newer can)",
    no_after="this kernel cannot show the current points",
    no_drained="this kernel does not report whether all records have been read",
    no_ttl="cannot read binlog_ttl from the table's options: time left unknown",
    no_timeout=f"the server does not report {TIMEOUT} (documented default: 3600 s)",
    own_times="this kernel reports no registration times: times marked `ours` come from the sink's progress rows",
    lapses="DWS clears the slot unless a job confirms it within binlog_ttl",
    moved="both points of every DN move to the newest sync point",
    ages="the table has binlog timestamps: DWS deletes each record once it is older than the TTL, read or not",
    head=f"binlog_ttl {{ttl}}, {TIMEOUT} {{timeout}}",
    ttl="binlog_ttl",
    short="DWS did not set the full-sync point",
    identity="columns, key and oid",
    marks=POSITIONS.marks,
    calls=SlotCalls(
        create=tuple(f"SELECT * FROM pgxc_get_binlog_sync_point({{}}, {flag}, 0)" for flag in ("false", "true")),
        register="SELECT * FROM pgxc_register_full_sync_point({})",
        drop="SELECT pgxc_binlog_clear_target_slot({})",
        drops="pgxc_binlog_clear_target_slot",
    ),
    ddl=DdlWords(
        waits={
            "vacuum full": "it waits up to {limit}, under a lock that blocks DML on the whole table, then fails",
            "scale out": "scaling waits up to {limit}, then fails for this table",
        },
        limit=f"{TIMEOUT} (3600 s by default)",
        limit_of=f"{{seconds}} s ({TIMEOUT})",
        clears="ADD/DROP COLUMN, SET TYPE and TRUNCATE clear increments and points",
        lost_by="ADD/DROP COLUMN, SET TYPE, TRUNCATE: each clears this slot",
        note="DWS documents VACUUM FULL inconsistently: in 8.3.0 it clears increments and points; in newer versions it"
        " waits until they are read; list the slots afterwards",
        blocked="VACUUM FULL of the table, scale-out",
    ),
)


grants = pg_base.grants
UNKNOWN = "?"


def status(table: str) -> str:
    """Return SQL that lists every registered point of a table; it names no slot, so it creates none.

    >>> status("ods.orders")
    "SELECT * FROM pgxc_get_binlog_slots('ods.orders', 0);"
    """
    return f"SELECT * FROM pgxc_get_binlog_slots({literal(dotted(table))}, 0);"


def register(
    table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
) -> str:
    """Return SQL that registers a DN's points again: the points do not move, and the TTL restarts.

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
