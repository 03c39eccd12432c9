"""A console that may change something at this moment, as others are shown it. Values only.

Next door: `core.launch.armed` keeps them for all who share a state folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Armed:
    """Somebody at a console: who by the kernel, why, and until when at most."""

    who: str
    reason: str
    until: datetime
