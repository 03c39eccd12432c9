"""What a person may type at a Hologres as the last resort. Text only; nothing is kept there that could be moved."""

from __future__ import annotations

from slotkeeper.core.domain.position import Position
from slotkeeper.core.sqltext import dotted, literal


def status(table: str) -> str:
    """The newest record of a shard; makes nothing.

    >>> status("ods.orders")
    "SELECT * FROM hg_get_binlog_cursor('ods.orders', 'LATEST', 0); -- one for each shard"
    """
    return f"SELECT * FROM hg_get_binlog_cursor({literal(dotted(table))}, 'LATEST', 0); -- one for each shard"


def register(
    table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
) -> str:
    """There is nothing to register."""
    return "-- no slot of the server is used: nothing is registered there"
