"""What a person has said about an alert or an error: seen, or silent until a time. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from slotkeeper.core.domain.elapsed import elapsed


@dataclass(frozen=True, slots=True)
class Ack:
    """Who said so, when and why; `until` is None for an acknowledgement, which holds as long as the alert does."""

    by: str
    at: datetime
    until: datetime | None = None
    reason: str = ""


def ack_in(acks: Mapping[str, Ack], keys: Iterable[str]) -> Ack | None:
    """The first acknowledgement under one of these keys."""
    return next((acks[key] for key in keys if key in acks), None)


def is_quiet(ack: Ack | None, now: datetime, since: datetime | None = None) -> bool:
    """Whether an alert with this acknowledgement needs nobody now; a clock that was set back ends a silence.

    `since` is when the alert began, where that is known: what began after somebody acknowledged it is another one.
    """
    if ack is None:
        return False
    if ack.until is None:
        return since is None or since <= ack.at
    return now < ack.until and elapsed(ack.at, now) is not None
