"""What a check finds at a server or a table: findings of `doctor`, objections with the statement that resolves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from slotkeeper.core.errors import Refused

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
    """One thing that was looked at."""

    place: str
    """What was looked at."""
    level: Level
    """How it counts."""
    text: str
    """In words."""
    unreachable: bool = False
    """Whether it is a server that did not answer."""


def clock_apart(clock: float, before: float, after: float) -> float:
    """Return by how many seconds a server's clock is at least ahead of this host's (below 0: behind); times since 1970.

    What the question itself took is doubt, and counts for equal clocks.

    >>> clock_apart(190.0, 99.0, 101.0), clock_apart(90.0, 99.0, 101.0), clock_apart(100.5, 99.0, 101.0)
    (89.0, -9.0, 0.0)
    """
    offset, doubt = clock - (before + after) / 2, max(0.0, after - before) / 2
    return max(0.0, offset - doubt) if offset > 0 else min(0.0, offset + doubt)


def clock_finding(place: str, clock: float, before: float, after: float) -> Finding:
    """A server's clock against ours at the middle of the question; certain only to half of its duration."""
    offset, doubt = clock - (before + after) / 2, (after - before) / 2
    text = f"clock {offset:+.3f} s from here (to within {doubt:.3f} s)"
    return Finding(place, Level.WARN if abs(offset) > CLOCK_SECONDS + doubt else Level.OK, text)


@dataclass(frozen=True, slots=True)
class Objection:
    """`what` is a sentence that names the object; `cure` is a statement, or an act where no statement does it."""

    what: str
    cure: str

    @property
    def text(self) -> str:
        """Both, on one line."""
        return f"{self.what}; cure: {self.cure}"


INHERITED = "has child tables: their rows are read as its own, and can have its keys"
"""What is said of a table that is not partitioned and has children all the same, at either end."""


def refuse(found: Sequence[Objection], where: str) -> None:
    """Raise Refused with the first objection; nothing where there is none."""
    if found:
        more = f" (and {len(found) - 1} more: `slotkeeper doctor`)" if len(found) > 1 else ""
        raise Refused(f"{found[0].what}{more}", found[0].cure, where=where)
