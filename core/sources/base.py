"""Shared parts of source kinds, for servers without stored positions."""

from __future__ import annotations

from collections.abc import Sequence

from slotkeeper.core.domain.slot import RegisteredPoint, UnreadRows
from slotkeeper.core.ports.source import SlotCalls


class NoSlotViewer:
    """`SlotViewer` for a server without slots, where no operation waits for readers."""

    calls = SlotCalls((), "", "", "")

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        return None

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        return None

    def consumed(self, table: str, node: int = 0) -> bool | None:
        return None

    def consume_timeout(self) -> int | None:
        return None

    def may_drop(self) -> bool | None:
        return None
