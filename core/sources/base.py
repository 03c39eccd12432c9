"""Shared parts of source kinds, for servers without stored positions and for kinds without a probe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from slotkeeper.core.domain.inspection import Answer
from slotkeeper.core.domain.slot import (
    RegisteredPoint,
    UnreadRows,
)
from slotkeeper.core.errors import Refused
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
