"""The statements that a person may type at a source as the last resort; each kind of source has its own words."""

from __future__ import annotations

from typing import Protocol

from slotkeeper.core.domain.position import Position


class ManualSql(Protocol):
    """They go round every guard: no lease, no plan, no backup, no audit. Text only."""

    def status(self, table: str) -> str:
        """Every registered point of a table; names no slot."""

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        """Registers again on one DN what is registered there."""
