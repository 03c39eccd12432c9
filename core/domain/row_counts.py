"""Row counts of a table, the effect of a new copy on them, and the result of a comparison with the source. Pure.

A `count(*)` has a time limit, so a number may be a minimum; a table that cannot be queried has none.
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
"""Time limit for counting all rows at one end: a plan does not justify more of a server's time."""
FEW, FEW_LIMIT_MS = 100_000, 1_000
"""The row and time limits of a second, bounded count after the first exceeded its limit; five seconds in total."""
UNTOLD_CODES = ("42", "53", "54")
"""SQLSTATE classes of a rejected count (privilege, space, size): a plan continues without the count."""
LIKELY = 10
"""A source with at most a tenth of its target's rows has more likely been emptied than cleaned up."""
DRIFT = 100
"""The source changes while a user reads a plan: the loss can exceed the typed number by 1/100 of the target's rows."""


@dataclass(frozen=True, slots=True)
class RowCount:
    """A table's row count: `number` is None if it could not be queried, for the reason `why`; `at_least`: a minimum."""

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
    """Count with `ask(most, limit_ms)`, which counts up to `most` rows (None: all); None at its time limit.

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
    """The row counts that a copy finds at both ends; `way` is how it treats the target's rows.

    `source` counts the rows that the channel's row filter accepts. `way` has the values of
    `slotkeeper.core.domain.spec.JobSpec.on_existing`. `cleared`: the slot has no point left on any DN although its
    table is the same, as after DDL or an expired TTL.
    """

    source: RowCount
    target: RowCount
    way: str
    cleared: bool = False

    @property
    def fate(self) -> Fate:
        """The certain effect on the target's number of rows; all values except STAYS need a user's consent."""
        source, target = self.source.number, self.target.number
        if self.way != "replace" or (target == 0 and not self.target.at_least):
            return Fate.STAYS  # merging removes nothing, and "refuse" copies only into an empty target
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
        """The minimum number of rows that the target loses; all counted rows if that is unknown."""
        target = self.target.number or 0
        match self.fate:
            case Fate.SHRINKS:
                return target - (self.source.number or 0)
            case Fate.UNTOLD:
                return target
        return 0

    @property
    def truncated(self) -> bool:
        """Whether a TRUNCATE at the source is likely: it has far fewer rows, or fewer rows and its slot is cleared."""
        source, target = self.source, self.target.number
        if source.number is None or source.at_least or target is None or source.number >= target:
            return False
        return self.cleared or source.number * LIKELY <= target

    @property
    def sentence(self) -> str:
        """Both counts, and the effect on the target.

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
        """Return why the typed number for a plan's counts does not cover these later counts; "" if it does.

        A few more rows are allowed: the source of a live table changes while a user reads its plan (`DRIFT`).
        """
        if self.fate is Fate.UNSEEN or (self.truncated and not typed.truncated and self.fate is not Fate.STAYS):
            return self.sentence
        drift = (self.target.number or 0) // DRIFT
        return self.sentence if self.at_stake > typed.at_stake + drift else ""


APART = "equal apart from quarantine"
"""The verdict if every key is equal except those in quarantine."""

VOID = "void"
"""Used in place of a verdict: a reset or a copy rebuilds the target or leaves out changes, so older verdicts are
void."""
VERDICTS = ("equal", APART, "different", "unsettled", VOID)
_COPY = "copy of "


@dataclass(frozen=True, slots=True)
class Verified:
    """The last comparison of source and target; a void record describes none."""

    job: str
    """The job's name."""
    at: datetime
    """When it ended; for a void record, when a reset or a copy voided older ones."""
    verdict: Annotated[str, VERDICTS]
    """The verdict of the comparison."""
    differences: int
    """Keys that are missing, extra or have different values."""
    unsettled: int
    """Keys that kept changing during the comparison."""
    quarantined: int
    """Keys that are in quarantine."""
    rows_source: int
    """Rows at the source."""
    rows_sink: int
    """Rows at the sink."""
    seconds: float
    """The duration, seconds."""
    by_whom: str
    """The user who compared, or the reset or copy that voided older comparisons."""

    @property
    def is_void(self) -> bool:
        """Whether this records a reset or a copy that voided older comparisons."""
        return self.verdict == VOID

    @classmethod
    def void(cls, job: str, at: datetime, reset: str) -> Verified:
        """Return the record that voids older comparisons of a job because of a reset."""
        return cls._of_none(job, at, f"reset {reset}")

    @classmethod
    def copied(cls, job: str, at: datetime, target: str) -> Verified:
        """Return the record that voids older comparisons of a job because of a copy, from its start on."""
        return cls._of_none(job, at, f"{_COPY}{target}")

    @classmethod
    def _of_none(cls, job: str, at: datetime, by_whom: str) -> Verified:
        return cls(job, at, VOID, 0, 0, 0, 0, 0, 0.0, by_whom)


def in_a_phrase(found: Verified | None, now: datetime) -> str:
    """Describe the verdict of the last comparison, and its age.

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
    """Describe the number of quarantined rows, which the target lacks.

    >>> rows_quarantined(1), rows_quarantined(3)
    ('1 row in quarantine', '3 rows in quarantine')
    """
    return f"{number} row{'' if number == 1 else 's'} in quarantine"
