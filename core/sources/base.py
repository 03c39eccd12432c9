"""Shared parts of source kinds, for servers without stored positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from slotkeeper.core.domain.position import NOTHING_KEPT, Kept, Position
from slotkeeper.core.domain.slot import (
    FirstRecord,
    RegisteredPoint,
    Shard,
    SlotStatus,
    UnreadRows,
)
from slotkeeper.core.ports.source import Confirmation, SlotCalls


class NoSlotAdmin:
    """`SlotAdmin` for a server that stores no positions, so no earlier registration can take effect late."""

    shown_as = ""
    cleared_for = 1

    def confirm(self, first: SlotStatus, asked: Confirmation) -> Kept:
        asked.check()
        return NOTHING_KEPT

    def register_first(self, shard: Shard, kept: Kept, probe: Callable[[str], None]) -> None:
        """Do nothing: the server stores no position."""

    def pinned(self) -> AbstractContextManager[None]:
        return nullcontext()

    def end_rivals(self) -> bool:
        return True

    def end_sessions(self, pattern: str) -> bool:
        return True


class NoSlotRetention:
    """`Retention` for a server without stored points."""

    def points(self) -> Sequence[RegisteredPoint] | None:
        return None

    def kept_by(self, points: Sequence[RegisteredPoint]) -> Kept:
        return NOTHING_KEPT

    def begin_at(self, status: SlotStatus, place: Position, record: FirstRecord | None) -> Kept:
        return NOTHING_KEPT

    def kept_at(self, shard: Shard, place: Position, before: Kept, status: SlotStatus | None, back: bool) -> Kept:
        return NOTHING_KEPT

    def restore(self, shard: Shard, kept: Kept, first: SlotStatus, lost: bool, probe: Callable[[str], None]) -> None:
        """Do nothing: the server stores no position."""

    def registration_text(self, node: int, kept: Kept) -> list[str]:
        return []

    def record_ttl(self) -> int | None:
        """Return None, because each status shows whether a lane's records are retained."""
        return None


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
