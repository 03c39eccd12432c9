"""The probe of a kind of source that has no questions: each call of it is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

from slotkeeper.core.domain.inspection import Answer
from slotkeeper.core.errors import Refused


class NoProbe:
    """Implements `slotkeeper.core.ports.kinds.Probe`; `what` and `hint` say why, and what to use instead."""

    asked = 0

    def __init__(self, what: str, hint: str) -> None:
        self._why = what, hint

    def plan(self, *_asked: object, **_named: object) -> NoReturn:
        raise Refused(*self._why, where="source")

    ask = plan

    def switches(self, answers: Iterable[Answer]) -> Mapping[str, bool | None]:
        return {}
