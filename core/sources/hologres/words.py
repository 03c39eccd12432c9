"""Texts for Hologres sources with and without slots, and the SQL that an operator runs as a last resort.

The module contains only text. `SLOT_WORDS` and `SlotManualSql` are for a server that stores the position of a slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.position import Position
from slotkeeper.core.ports.source import SlotCalls, SlotWords
from slotkeeper.core.sources import pg_base
from slotkeeper.core.sources.hologres.position import MARK, POSITIONS
from slotkeeper.core.sqltext import dotted, literal, quoted

WORDS = SlotWords(
    no_list="no job uses a server slot, by SQL or by stream: positions come from Slotkeeper's progress rows",
    no_count="the server does not count unread records",
    no_drop="no slot to drop: no job here has a slot on the server",
    own_times="the time of a position is the time up to which no other change existed, by the server's clock",
    ages="the server deletes records older than binlog.ttl, read or not",
    head="the server deletes records after {ttl}, read or not",
    ttl="binlog.ttl",
    part=POSITIONS.part,
    identity="table_id, columns and key",
    retains=False,
    no_expiry="slots have no TTL here; the server deletes records older than binlog.ttl, read or not",
)


SLOT_WORDS = replace(
    WORDS,
    no_list="",
    no_drop="this login cannot drop a slot",
    own_times="",
    moved="the slot moves to the newest record of every shard",
    short="the slot did not move to the newest record",
    ages="the server deletes records older than binlog.ttl, confirmed or not: a slot retains no records",
    marks=(MARK,),
    calls=SlotCalls(
        create=(
            "CREATE PUBLICATION ... FOR TABLE ...; -- if the table has none",
            "CALL hg_create_logical_replication_slot(<slot>, 'hgoutput', <publication>) -- {}",
        ),
        register="START_REPLICATION SLOT, flushed = the newest LSN of each shard -- {}",
        drop="CALL hg_drop_logical_replication_slot(<slot>) -- {}",
        drops="hg_drop_logical_replication_slot",
    ),
    there="the slot exists on every shard",
)


class HoloManualSql:
    """SQL that an operator runs on Hologres as a last resort; implements `slotkeeper.core.domain.remedy.ManualSql`."""

    grants = staticmethod(pg_base.grants)

    def status(self, table: str) -> str:
        """Return SQL that shows the newest record of a shard and creates nothing.

        >>> HoloManualSql().status("ods.orders")
        "SELECT * FROM hg_get_binlog_cursor('ods.orders', 'LATEST', 0); -- one query per shard"
        """
        return f"SELECT * FROM hg_get_binlog_cursor({literal(dotted(table))}, 'LATEST', 0); -- one query per shard"

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        return "-- no job uses a server slot: there is nothing to confirm"


class SlotManualSql:
    """SQL that an operator runs on Hologres for a slot; implements `slotkeeper.core.domain.remedy.ManualSql`."""

    def grants(self, endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
        """Return the grants that every job needs and the grants for slots.

        Slots need table ownership, CREATE for publications, and the replication role. Hologres, "Consume Binlog via
        JDBC": owner of the table, CREATE DATABASE, and the Replication Role.
        """
        to = quoted(endpoint.user)
        return [
            *pg_base.grants(endpoint, tables),
            *(f"ALTER TABLE {dotted(name)} OWNER TO {to};" for name in tables if not name.endswith(".*")),
            f"GRANT CREATE ON DATABASE {quoted(endpoint.database)} TO {to};",
            f"ALTER ROLE {to} REPLICATION; -- as a superuser; with SPM: CALL spm_grant('<db>_admin', ...)",
        ]

    def status(self, table: str) -> str:
        """Return SQL that shows the confirmed LSNs of every slot and creates nothing.

        >>> SlotManualSql().status("ods.orders")
        'SELECT * FROM hologres.hg_replication_progress; -- LSNs by slot and shard'
        """
        return "SELECT * FROM hologres.hg_replication_progress; -- LSNs by slot and shard"

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        """Return a comment instead of SQL: only the slot's reader moves the slot, over its stream."""
        to = live.shown if live is not None else "the newest LSN"
        return f"-- no SQL statement moves slot {literal(slot)}: its streaming client reports flushed = {to} ({shard})"
