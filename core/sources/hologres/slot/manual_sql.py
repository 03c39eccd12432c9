"""What a person may type at a Hologres about a slot as the last resort. Text only."""

from __future__ import annotations

from slotkeeper.core.domain.position import Position
from slotkeeper.core.sqltext import literal


def status(table: str) -> str:
    """What is confirmed for every slot; makes nothing.

    >>> status("ods.orders")
    'SELECT * FROM hologres.hg_replication_progress; -- LSNs by slot and shard'
    """
    return "SELECT * FROM hologres.hg_replication_progress; -- LSNs by slot and shard"


def register(
    table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
) -> str:
    """A slot is moved by whoever reads by it, over a stream: there is no statement for that."""
    to = live.shown if live is not None else "the newest LSN"
    return f"-- no statement moves slot {literal(slot)}: whoever streams by it says flushed = {to} ({shard})"
