"""What `doctor` finds at a server: plain values, made by each kind of server for itself.

Next door: `core.services.doctor` asks, `console.commands.doctor` shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

CLOCK_SECONDS = 2.0
"""A clock further away than this makes ages between machines misleading."""


class Level(Enum):
    """How a finding counts."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `unreachable` tells a server that did not answer from one that answers no."""

    place: str
    level: Level
    text: str
    unreachable: bool = False


def clock_finding(place: str, clock: float, before: float, after: float) -> Finding:
    """A server's clock against ours at the middle of the question; certain only to half of its duration."""
    offset, doubt = clock - (before + after) / 2, (after - before) / 2
    text = f"clock {offset:+.3f} s from here (to within {doubt:.3f} s)"
    return Finding(place, Level.WARN if abs(offset) > CLOCK_SECONDS + doubt else Level.OK, text)
