"""What a person has said about an alert or an error: seen, or silent until a time. Values only.

Next door: `core.state.acks` keeps them for everybody who shares a state folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.domain.elapsed import elapsed


@dataclass(frozen=True, slots=True)
class Ack:
    """Who said so and when; `until` is None for an acknowledgement, which holds as long as the alert's key does."""

    by: str
    at: datetime
    until: datetime | None = None


def is_quiet(ack: Ack | None, now: datetime) -> bool:
    """Whether an alert with this acknowledgement needs nobody now; a clock that was set back ends a silence."""
    if ack is None:
        return False
    return ack.until is None or (now < ack.until and elapsed(ack.at, now) is not None)
