"""How many rows a table has, as far as it was counted, and what a new copy leaves of a target's rows. Pure.

A `count(*)` has a limit of time, so a number may be the least that is there; a table that cannot be asked has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

COUNT_LIMIT_MS = 4_000
"""Of counting all rows at one end: a plan is not worth more of a server's time."""
FEW, FEW_LIMIT_MS = 100_000, 1_000
"""Where all could not be counted in time: so many at most are counted, in what is left of five seconds."""
UNTOLD_CODES = ("42", "53", "54")
"""Classes of SQLSTATE by which a server refuses to count (no right, no room, too large): a plan goes on without."""
LIKELY = 10
"""A source with a tenth of its target's rows has more likely been emptied than cleaned up."""
DRIFT = 100
"""A source goes on while a plan is read: up to one in so many of the target's rows more may go than were typed."""


@dataclass(frozen=True, slots=True)
class RowCount:
    """Rows of a table: `number` None where it could not be asked, `why` says why then; `at_least`: maybe more."""

    number: int | None
    at_least: bool = False
    why: str = ""

    @property
    def text(self) -> str:
        """In words.

        >>> RowCount(174).text, RowCount(100_000, at_least=True).text, RowCount(None, why="permission denied").text
        ('174', '>= 100000', 'unknown (permission denied)')
        """
        if self.number is None:
            return f"unknown ({self.why})" if self.why else "unknown"
        return f"{'>= ' if self.at_least else ''}{self.number}"


def count_within(ask: Callable[[int | None, int], int | None]) -> RowCount:
    """Count by asking: `ask(most, limit_ms)` counts at most so many rows (None: all), None where the time is over.

    >>> count_within(lambda most, limit_ms: None if most is None else most).text
    '>= 100000'
    """
    number = ask(None, COUNT_LIMIT_MS)
    if number is not None:
        return RowCount(number)
    number = ask(FEW, FEW_LIMIT_MS)
    if number is None:
        return RowCount(None, why=f"not counted within {(COUNT_LIMIT_MS + FEW_LIMIT_MS) // 1000} s")
    return RowCount(number, at_least=number >= FEW)


class Fate(Enum):
    """What a copy makes of the number of the target's rows."""

    STAYS = "stays"
    SHRINKS = "shrinks"
    UNTOLD = "untold"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class CopyRows:
    """The rows that a copy finds at both ends; `way` is what it does with those of the target.

    `source` counts what the channel's row filter accepts. `way` as `slotkeeper.core.domain.spec.JobSpec.on_existing`.
    `cleared`: the slot has no point left on any DN while its table is the same, which DDL and an expired TTL leave
    behind.
    """

    source: RowCount
    target: RowCount
    way: str
    cleared: bool = False

    @property
    def fate(self) -> Fate:
        """What is certain of the target's number of rows: anything but STAYS needs a person."""
        source, target = self.source.number, self.target.number
        if self.way != "replace" or (target == 0 and not self.target.at_least):
            return Fate.STAYS  # merging removes nothing, and "refuse" copies into an empty target only
        if not target:
            return Fate.UNSEEN
        if source is None:
            return Fate.UNTOLD
        if source >= target and not self.target.at_least:
            return Fate.STAYS
        return Fate.SHRINKS if source < target and not self.source.at_least else Fate.UNTOLD

    @property
    def at_stake(self) -> int:
        """Rows that the target loses, at least; all of it that were counted where that cannot be told."""
        target = self.target.number or 0
        match self.fate:
            case Fate.SHRINKS:
                return target - (self.source.number or 0)
            case Fate.UNTOLD:
                return target
        return 0

    @property
    def truncated(self) -> bool:
        """Whether a TRUNCATE at the source is likely: it has far fewer rows, or fewer and its slot is cleared."""
        source, target = self.source, self.target.number
        if source.number is None or source.at_least or target is None or source.number >= target:
            return False
        return self.cleared or source.number * LIKELY <= target

    @property
    def sentence(self) -> str:
        """Both counts, and what becomes of the target.

        >>> CopyRows(RowCount(174), RowCount(130_881), "replace").sentence
        'the target would shrink by 130707 rows: source 174, target 130881'
        """
        counts = f"source {self.source.text}, target {self.target.text}"
        match self.fate:
            case Fate.SHRINKS:
                least = "at least " if self.target.at_least else ""
                rows = f"{least}{self.at_stake} row{'' if self.at_stake == 1 else 's'}"
                return f"the target would shrink by {rows}: {counts}"
            case Fate.UNTOLD:
                return f"whether the target would shrink cannot be told: {counts}"
            case Fate.UNSEEN:
                return f"the target's rows were not counted, and would be replaced: {counts}"
        return f"rows: {counts}"

    def outgrown(self, typed: CopyRows) -> str:
        """Why what a person typed for the counts of a plan does not cover these, counted later; nothing where it does.

        A few rows more may go: the source of a live table moves while its plan is read (`DRIFT`).
        """
        if self.fate is Fate.UNSEEN or (self.truncated and not typed.truncated and self.fate is not Fate.STAYS):
            return self.sentence
        drift = (self.target.number or 0) // DRIFT
        return self.sentence if self.at_stake > typed.at_stake + drift else ""
