"""How many rows a table has, what a new copy leaves of them, and what a comparison with the source found. Pure.

A `count(*)` has a limit of time, so a number may be the least that is there; a table that cannot be asked has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.ttl import in_words

COUNT_LIMIT_MS = 4_000
"""Of counting all rows at one end: a plan is not worth more of a server's time."""
FEW, FEW_LIMIT_MS = 100_000, 1_000
"""The limit of a second, bounded count after the first ran out of time, in the rest of five seconds."""
UNTOLD_CODES = ("42", "53", "54")
"""SQLSTATE classes of a rejected count (privilege, space, size): a plan continues without the count."""
LIKELY = 10
"""A source with a tenth of its target's rows has more likely been emptied than cleaned up."""
DRIFT = 100
"""The source changes while a plan is read: the loss can exceed the typed number by 1/100 of the target's rows."""


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
    """Count by asking: `ask(most, limit_ms)` counts at most `most` rows (None: all); None where the time is over.

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
    def replaces(self) -> bool:
        """Whether the copy replaces rows that are there, as far as is known."""
        return self.way == "replace" and (self.target.number != 0 or self.target.at_least)

    @property
    def at_stake(self) -> int:
        """The least rows that the target loses; all counted rows where that is unknown."""
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
                return f"whether the target would shrink is unknown: {counts}"
            case Fate.UNSEEN:
                return f"the target's rows were not counted and would be replaced: {counts}"
        return f"rows: {counts}"

    def outgrown(self, typed: CopyRows) -> str:
        """Why what a person typed for the counts of a plan does not cover these, counted later; nothing where it does.

        A few rows more may go: the source of a live table moves while its plan is read (`DRIFT`).
        """
        if self.fate is Fate.UNSEEN or (self.truncated and not typed.truncated and self.fate is not Fate.STAYS):
            return self.sentence
        drift = (self.target.number or 0) // DRIFT
        return self.sentence if self.at_stake > typed.at_stake + drift else ""


APART = "equal apart from quarantine"
"""The verdict where every key but those that are held in quarantine is equal."""

VOID = "void"
"""In place of a verdict: a reset or a copy rebuilds the target, or leaves it without changes, so older ones say
nothing."""
VERDICTS = ("equal", APART, "different", "unsettled", VOID)
_COPY = "copy of "


@dataclass(frozen=True, slots=True)
class Verified:
    """The last comparison of source and target; a void one was none."""

    job: str
    """The job's name."""
    at: datetime
    """When it ended; of a void one, when a reset ended older ones."""
    verdict: Annotated[str, VERDICTS]
    """What it found."""
    differences: int
    """Keys that are missing, extra or have other values."""
    unsettled: int
    """Keys that kept changing while they were compared."""
    quarantined: int
    """Keys that are held in quarantine."""
    rows_source: int
    """Rows at the source."""
    rows_sink: int
    """Rows at the sink."""
    seconds: float
    """How long it took, seconds."""
    by_whom: str
    """Who compared, or the reset or copy that ended older ones."""

    @property
    def is_void(self) -> bool:
        """Whether it records a reset or a copy that voided older comparisons."""
        return self.verdict == VOID

    @classmethod
    def void(cls, job: str, at: datetime, reset: str) -> Verified:
        """The record that voids older comparisons of a job from a reset on."""
        return cls._of_none(job, at, f"reset {reset}")

    @classmethod
    def copied(cls, job: str, at: datetime, target: str) -> Verified:
        """The record that voids them from the start of a copy on."""
        return cls._of_none(job, at, f"{_COPY}{target}")

    @classmethod
    def _of_none(cls, job: str, at: datetime, by_whom: str) -> Verified:
        return cls(job, at, VOID, 0, 0, 0, 0, 0, 0.0, by_whom)


def in_a_phrase(found: Verified | None, now: datetime) -> str:
    """What the last comparison said, and when.

    >>> in_a_phrase(None, datetime(2026, 1, 1))
    'never verified'
    """
    if found is None:
        return "never verified"
    past = elapsed(found.at, now)
    ago = f"at {found.at:%Y-%m-%dT%H:%M:%SZ}, ahead of this clock" if past is None else f"{in_words(past)} ago"
    apart = f" ({found.quarantined} in quarantine)" if found.quarantined else ""
    match found.verdict:
        case "equal":
            return f"verified equal {ago}"
        case _ if found.verdict == APART:
            return f"verified equal{apart} {ago}"
        case _ if found.is_void:
            since = "copy began" if found.by_whom.startswith(_COPY) else "reset"
            return f"not verified since the {since} {ago}"
        case "different":
            return f"DIFFERENT: {found.differences} {'key' if found.differences == 1 else 'keys'}{apart}, {ago}"
        case _:
            return f"not settled: {found.unsettled} keys kept changing, {ago}"


def rows_quarantined(number: int) -> str:
    """How many rows a target lacks.

    >>> rows_quarantined(1), rows_quarantined(3)
    ('1 row in quarantine', '3 rows in quarantine')
    """
    return f"{number} row{'' if number == 1 else 's'} in quarantine"
