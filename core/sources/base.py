"""Shared parts of source kinds, for servers without stored positions and for kinds without a probe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

from slotkeeper.core.domain.inspection import Answer
from slotkeeper.core.domain.position import NOTHING_KEPT, Kept, Position
from slotkeeper.core.domain.slot import FirstRecord, RegisteredPoint, Shard, SlotStatus
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import Confirmation


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


class NoProbe:
    """Implements `slotkeeper.core.ports.kinds.Probe` by refusing; `what` is the reason, `hint` the alternative."""

    asked = 0

    def __init__(self, what: str, hint: str) -> None:
        self._why = what, hint

    def plan(self, *_asked: object, **_named: object) -> NoReturn:
        raise Refused(*self._why, where="source")

    ask = plan

    def switches(self, answers: Iterable[Answer]) -> Mapping[str, bool | None]:
        return {}
