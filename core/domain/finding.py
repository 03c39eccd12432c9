"""Results of server and table checks: findings of `doctor`, and objections with the statements that resolve them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from slotkeeper.core.errors import Refused

CLOCK_SECONDS = 2.0
"""Difference in seconds between two hosts' clocks above which ages computed from both clocks are misleading."""


class Level(Enum):
    """The level of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check."""

    place: str
    """The object that was checked."""
    level: Level
    """The level of the finding."""
    text: str
    """A description of the result."""
    unreachable: bool = False
    """Whether a server did not respond."""


def clock_apart(clock: float, before: float, after: float) -> float:
    """Return the minimum number of seconds by which a server's clock is ahead of this host's (negative: behind).

    The arguments are in seconds since 1970; `before` and `after` are this host's times around the query. A difference
    of up to half of the query's duration counts as 0, because it cannot be measured.

    >>> clock_apart(190.0, 99.0, 101.0), clock_apart(90.0, 99.0, 101.0), clock_apart(100.5, 99.0, 101.0)
    (89.0, -9.0, 0.0)
    """
    offset, doubt = clock - (before + after) / 2, max(0.0, after - before) / 2
    return max(0.0, offset - doubt) if offset > 0 else min(0.0, offset + doubt)


def clock_finding(place: str, clock: float, before: float, after: float) -> Finding:
    """Return the finding for a server's clock compared with this host's clock halfway through the query."""
    offset, doubt = clock - (before + after) / 2, (after - before) / 2
    text = f"clock {offset:+.3f} s from this host's (+/- {doubt:.3f} s)"
    return Finding(place, Level.WARN if abs(offset) > CLOCK_SECONDS + doubt else Level.OK, text)


@dataclass(frozen=True, slots=True)
class Objection:
    """A problem with an object, described in `what`; `cure` is the statement, or else the action, that resolves it."""

    what: str
    cure: str

    @property
    def text(self) -> str:
        return f"{self.what}; fix: {self.cure}"


INHERITED = "has child tables, whose rows are read as its own and can have the same keys"
"""The objection to an unpartitioned table with child tables, in the source or in the sink."""


def refuse(found: Sequence[Objection], where: str) -> None:
    if found:
        more = f" (and {len(found) - 1} more: `slotkeeper doctor`)" if len(found) > 1 else ""
        raise Refused(f"{found[0].what}{more}", found[0].cure, where=where)
