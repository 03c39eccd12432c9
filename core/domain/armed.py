"""A console that may change something at this moment, as others are shown it. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Armed:
    """Somebody at a console: who by the kernel, why, and until when at most."""

    who: str
    reason: str
    until: datetime
