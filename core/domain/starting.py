"""Where a new job starts, as written: a copy, the newest point, the oldest, a time, or a point per DN. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class StartKind(Enum):
    """What `start` says."""

    INITIAL = "initial"
    LATEST = "latest"
    EARLIEST = "earliest"
    TIME = "time"
    POINTS = "points"


@dataclass(frozen=True, slots=True)
class StartAt:
    """`at` is set for a time, `points` for points: (name of the DN, the place from which on it reads, as typed)."""

    kind: StartKind
    at: datetime | None = None
    points: tuple[tuple[str, str], ...] = ()

    @property
    def partial(self) -> bool:
        """Whether the target holds only what changed since: it cannot be compared with the source as a whole."""
        return self.kind in (StartKind.EARLIEST, StartKind.TIME, StartKind.POINTS)

    @property
    def copies(self) -> bool:
        """Whether the start makes a copy, which is what a snapshot needs."""
        return self.kind is StartKind.INITIAL


NO_COPY = 'set start = "initial" for the snapshot'
"""What to do where a copy is due and `start` makes none."""

EVERY_DN = "all"
"""The name that stands for every DN where points are given."""

_POINT = re.compile(r"([A-Za-z_][\w$]{0,62})=([0-9][0-9A-Za-z:./_-]{0,63})")
_RULE = (
    'must be "initial", "latest", "earliest", a time with its offset ("2024-11-14 15:48:40+08:00"), or points'
    ' ("dn_1=10516, ...", "all=10516")'
)


def start_at(text: str) -> StartAt:
    """What a text says; raises ValueError with the rule.

    >>> start_at("latest").kind, start_at("dn_1=10516, dn_2=10517").points
    (<StartKind.LATEST: 'latest'>, (('dn_1', '10516'), ('dn_2', '10517')))
    """
    if text in ("initial", "latest", "earliest"):
        return StartAt(StartKind(text))
    if "=" in text:
        return StartAt(StartKind.POINTS, points=_points(text))
    if not re.match(r"\d{4}-\d\d-\d\d[ T]", text):
        raise ValueError(_RULE)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a time that exists, such as 2024-11-14 15:48:40+08:00") from None
    if at.tzinfo is None:
        raise ValueError("must be a time with its offset, such as 2024-11-14 15:48:40+08:00")
    return StartAt(StartKind.TIME, at)


def _points(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for part in text.split(","):
        match = _POINT.fullmatch(part.strip())
        if match is None:
            raise ValueError('must name points as "dn_1=10516, dn_2=10517"')
        found.append((match[1], match[2]))
    if len({name for name, _ in found}) < len(found):
        raise ValueError("must name each DN once")
    return tuple(found)
