"""Row counts of a table, the effect of a new copy on them, and the result of a comparison with the source. Pure.

A `count(*)` has a time limit, so the number may be a minimum; a table that cannot be queried has no number.
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
"""Time limit in milliseconds for counting all rows of source or target: planning must put little load on servers."""
FEW, FEW_LIMIT_MS = 100_000, 1_000
"""The row and time limits of a second, bounded count if the first count exceeds its time limit; both counts together
take at most five seconds."""
UNTOLD_CODES = ("42", "53", "54")
"""SQLSTATE classes (privilege, space, size) of a rejected count; planning continues without the count."""
LIKELY = 10
"""Divisor: a source with at most a tenth of its target's rows was more likely emptied than cleaned up."""
DRIFT = 100
"""Divisor: the loss may exceed the typed number by 1/100 of the target's rows, as the source can change meanwhile."""


@dataclass(frozen=True, slots=True)
class RowCount:
    """A table's row count (a minimum if `at_least`); `number` is None if the count failed for the reason `why`."""

    number: int | None
    at_least: bool = False
    why: str = ""

    @property
    def text(self) -> str:
        """The count as text.

        >>> RowCount(174).text, RowCount(100_000, at_least=True).text, RowCount(None, why="permission denied").text
        ('174', '>= 100000', 'unknown (permission denied)')
        """
        if self.number is None:
            return f"unknown ({self.why})" if self.why else "unknown"
        return f"{'>= ' if self.at_least else ''}{self.number}"


def count_within(ask: Callable[[int | None, int], int | None]) -> RowCount:
    """Count rows with `ask(most, limit_ms)`, which counts up to `most` rows (None: all), or returns None on a timeout.

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
    """The effect of a copy on the number of the target's rows."""

    STAYS = "stays"
    SHRINKS = "shrinks"
    UNTOLD = "untold"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class CopyRows:
    """The row counts of source and target before a copy; `way` states how it treats the target's rows.

    `source` counts the rows that the channel's row filter accepts. `way` has the values of
    `slotkeeper.core.domain.spec.JobSpec.on_existing`. `cleared`: the slot has no point on any DN although its table is
    the same, for example after DDL or an expired TTL.
    """

    source: RowCount
    target: RowCount
    way: str
    cleared: bool = False

    @property
    def fate(self) -> Fate:
        """The certain effect on the target's number of rows; every effect except STAYS needs a user's consent."""
        source, target = self.source.number, self.target.number
        if self.way != "replace" or (target == 0 and not self.target.at_least):
            return Fate.STAYS  # "merge" removes no rows, and "refuse" copies only into an empty target
        if not target:
            return Fate.UNSEEN
        if source is None:
            return Fate.UNTOLD
        if source >= target and not self.target.at_least:
            return Fate.STAYS
        return Fate.SHRINKS if source < target and not self.source.at_least else Fate.UNTOLD

    @property
    def replaces(self) -> bool:
        """Whether the copy replaces existing rows, as far as known."""
        return self.way == "replace" and (self.target.number != 0 or self.target.at_least)

    @property
    def at_stake(self) -> int:
        """The minimum number of rows that the target loses; the number of all counted rows if the loss is unknown."""
        target = self.target.number or 0
        match self.fate:
            case Fate.SHRINKS:
                return target - (self.source.number or 0)
            case Fate.UNTOLD:
                return target
        return 0

    @property
    def truncated(self) -> bool:
        """Whether the source was probably truncated: it has far fewer rows, or it has fewer rows and a cleared slot."""
        source, target = self.source, self.target.number
        if source.number is None or source.at_least or target is None or source.number >= target:
            return False
        return self.cleared or source.number * LIKELY <= target

    @property
    def sentence(self) -> str:
        """A description of both counts and of the effect on the target.

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
                return f"cannot determine whether the target would shrink: {counts}"
            case Fate.UNSEEN:
                return f"the target's rows were not counted and would be replaced: {counts}"
        return f"rows: {counts}"

    def outgrown(self, typed: CopyRows) -> str:
        """Return the reason why the number typed for a plan is too low for these later counts; "" if it is sufficient.

        A few more rows are allowed (`DRIFT`), because a table in use changes while a user reads the plan.
        """
        if self.fate is Fate.UNSEEN or (self.truncated and not typed.truncated and self.fate is not Fate.STAYS):
            return self.sentence
        drift = (self.target.number or 0) // DRIFT
        return self.sentence if self.at_stake > typed.at_stake + drift else ""


APART = "equal apart from quarantine"
"""The verdict if all keys are equal except keys in quarantine."""

VOID = "void"
"""The value in place of a verdict after a reset or a copy, which makes older verdicts invalid because it rebuilds the
target or skips changes."""
VERDICTS = ("equal", APART, "different", "unsettled", VOID)
_COPY = "copy of "


@dataclass(frozen=True, slots=True)
class Verified:
    """The last comparison of source and target, or a void record, which does not describe a comparison."""

    job: str
    """The job's name."""
    at: datetime
    """When the comparison ended; for a void record, when a reset or a copy made older comparisons invalid."""
    verdict: Annotated[str, VERDICTS]
    """The verdict of the comparison."""
    differences: int
    """Number of keys that are missing, extra, or have different values."""
    unsettled: int
    """Number of keys that kept changing during the comparison."""
    quarantined: int
    """Number of keys that are in quarantine."""
    rows_source: int
    """Number of rows in the source."""
    rows_sink: int
    """Number of rows in the sink."""
    seconds: float
    """The duration in seconds."""
    by_whom: str
    """The user who ran the comparison, or the reset or copy that made older comparisons invalid."""

    @property
    def is_void(self) -> bool:
        """Whether this records a reset or a copy that made older comparisons invalid."""
        return self.verdict == VOID

    @classmethod
    def void(cls, job: str, at: datetime, reset: str) -> Verified:
        """Return the record that invalidates earlier comparisons of a job because of a reset."""
        return cls._of_none(job, at, f"reset {reset}")

    @classmethod
    def copied(cls, job: str, at: datetime, target: str) -> Verified:
        """Return the record that invalidates earlier comparisons of a job from the moment a copy starts."""
        return cls._of_none(job, at, f"{_COPY}{target}")

    @classmethod
    def _of_none(cls, job: str, at: datetime, by_whom: str) -> Verified:
        return cls(job, at, VOID, 0, 0, 0, 0, 0, 0.0, by_whom)


def in_a_phrase(found: Verified | None, now: datetime) -> str:
    """Describe the verdict and the age of the last comparison.

    >>> in_a_phrase(None, datetime(2026, 1, 1))
    'never verified'
    """
    if found is None:
        return "never verified"
    past = elapsed(found.at, now)
    ago = f"at {found.at:%Y-%m-%dT%H:%M:%SZ}, ahead of this host's clock" if past is None else f"{in_words(past)} ago"
    apart = f" ({found.quarantined} in quarantine)" if found.quarantined else ""
    match found.verdict:
        case "equal":
            return f"verified equal {ago}"
        case _ if found.verdict == APART:
            return f"verified equal{apart} {ago}"
        case _ if found.is_void:
            since = "copy started" if found.by_whom.startswith(_COPY) else "reset"
            return f"not verified since the {since} {ago}"
        case "different":
            return f"DIFFERENT: {found.differences} {'key' if found.differences == 1 else 'keys'}{apart}, {ago}"
        case _:
            return f"not settled: {found.unsettled} keys kept changing, {ago}"


def rows_quarantined(number: int) -> str:
    """Describe the number of quarantined rows, which are missing in the target.

    >>> rows_quarantined(1), rows_quarantined(3)
    ('1 row in quarantine', '3 rows in quarantine')
    """
    return f"{number} row{'' if number == 1 else 's'} in quarantine"
