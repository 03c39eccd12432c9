"""The failures since the last success, and the tries that a person asks for before their time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slotkeeper.core.domain.text import many


@dataclass(frozen=True, slots=True)
class History:
    """Failures since the last success, counted by `after`; a success resets to `NO_HISTORY`.

    `elapsed` is the seconds since the first of them, on a monotonic clock: the caller's to set before it asks.
    """

    failures: int = 0
    source: int = 0
    sink: int = 0
    access: int = 0
    login: int = 0
    unknown: int = 0
    long: int = 0
    elapsed: float = 0.0


NO_HISTORY = History()
"""What a success leaves behind."""


@dataclass(frozen=True, slots=True)
class TryAsked:
    """`number` grows with every one that is asked for; `table` is the source table that it is of, "" for all."""

    number: int
    table: str = ""


@dataclass(frozen=True, slots=True)
class TryAnswer:
    """What was done for one source table, or for the whole job with "".

    `tried` are lanes, or a start or a copy, whose next try was due later and is made at once; `polled` are lanes whose
    source is asked at once whether something came; `busy` are lanes under way; `refused` says by lane why it waits on.
    """

    table: str = ""
    tried: tuple[str, ...] = ()
    polled: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether anything came of it."""
        return bool(self.tried or self.polled)


class Tries(Protocol):
    """What is asked for of one job, and where it is answered."""

    def last(self) -> int:
        """The number of the last one that was asked for; 0 without any."""

    def since(self, number: int) -> Sequence[TryAsked]:
        """Those after that number; cheap, it is asked in every turn."""

    def answer(self, number: int, answers: Iterable[TryAnswer]) -> None:
        """What was done about it."""


class Requests:
    """The requests since this was created, each once; None where none can be made."""

    def __init__(self, tries: Tries | None = None) -> None:
        self._tries = tries
        self._seen = tries.last() if tries is not None else 0

    @property
    def possible(self) -> bool:
        """Whether a retry can be requested."""
        return self._tries is not None

    def new(self) -> Sequence[TryAsked]:
        """Those that were not returned before, the oldest first."""
        found = self._tries.since(self._seen) if self._tries is not None else ()
        self._seen = max((one.number for one in found), default=self._seen)
        return found

    def answer(self, asked: TryAsked, answers: Iterable[TryAnswer]) -> None:
        """What was done about one."""
        if self._tries is not None:
            self._tries.answer(asked.number, answers)


def in_words(answers: Iterable[TryAnswer]) -> str:
    """What came of it, in one line.

    >>> in_words([TryAnswer("ods.a", ("dn_1",), ("dn_2", "dn_3"), (), {"dn_4": "its login was refused"})])
    'tried now: dn_1; polled now: 2 lanes; dn_4: its login was refused'
    >>> in_words([TryAnswer(busy=("dn_1",))])
    'nothing waits: 1 lane is under way'
    """
    known = list(answers)
    tried = [name for one in known for name in one.tried]
    polled, busy = sum(len(one.polled) for one in known), sum(len(one.busy) for one in known)
    refused = [f"{name}: {why}" for one in known for name, why in one.refused.items()]
    said = [f"tried now: {', '.join(tried)}"] if tried else []
    said += [f"polled now: {many(polled, 'lane')}"] if polled else []
    if not said and not refused:
        return f"nothing waits: {many(busy, 'lane')} {'is' if busy == 1 else 'are'} under way"
    return "; ".join(said + refused)
