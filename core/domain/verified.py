"""What a comparison of source and target found, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.ttl import in_words

APART = "equal apart from quarantine"
"""The verdict where every key but those that are held in quarantine is equal."""

VOID = "void"
"""In place of a verdict: a reset or a copy makes the target anew, or leaves it without changes, so older ones say
nothing."""
_COPY = "copy of "


@dataclass(frozen=True, slots=True)
class Verified:
    """One comparison: `verdict` is equal, equal apart from quarantine, different, unsettled, or void.

    `differences` counts the keys that are missing, extra or have other values. A void one was no comparison: `at` is
    when older ones ended, `by_whom` the reset or the copy that ended them.
    """

    job: str
    at: datetime
    verdict: str
    differences: int
    unsettled: int
    quarantined: int
    rows_source: int
    rows_sink: int
    seconds: float
    by_whom: str

    @property
    def is_void(self) -> bool:
        """Whether it stands for a reset or a copy that ended older comparisons."""
        return self.verdict == VOID

    @classmethod
    def void(cls, job: str, at: datetime, reset: str) -> Verified:
        """What stands over older comparisons of a job from a reset on."""
        return cls._of_none(job, at, f"reset {reset}")

    @classmethod
    def copied(cls, job: str, at: datetime, target: str) -> Verified:
        """What stands over them from the begin of a copy on."""
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
