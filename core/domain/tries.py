"""Failures since the last success, and retries that a user requests before they are due. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slotkeeper.core.domain.text import many


@dataclass(frozen=True, slots=True)
class History:
    """Failures since the last success, counted by `after`; a success resets the history to `NO_HISTORY`.

    `elapsed` is the seconds since the first failure, on a monotonic clock; the caller sets it before each use.
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
"""The history after a success."""


@dataclass(frozen=True, slots=True)
class TryAsked:
    """A requested retry: `number` increases with every request; `table` is its source table, "" for all."""

    number: int
    table: str = ""


@dataclass(frozen=True, slots=True)
class TryAnswer:
    """The outcome of a request for one source table, or for the whole job with "".

    `tried` are lanes, or a start or a copy, whose next retry was due later and is made immediately; `polled` are lanes
    whose source is polled immediately; `busy` are running lanes; `refused` maps a lane to the reason why it still
    waits.
    """

    table: str = ""
    tried: tuple[str, ...] = ()
    polled: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the request caused a retry or a poll."""
        return bool(self.tried or self.polled)


class Tries(Protocol):
    """The store of one job's retry requests and of their outcomes."""

    def last(self) -> int:
        """Return the number of the last request; 0 without requests."""

    def since(self, number: int) -> Sequence[TryAsked]:
        """Return the requests with a higher number; must be cheap, because every loop iteration calls this method."""

    def answer(self, number: int, answers: Iterable[TryAnswer]) -> None:
        """Record the outcome of a request."""


class Requests:
    """The requests made since this object was created, each returned once; without `tries`, there are none."""

    def __init__(self, tries: Tries | None = None) -> None:
        self._tries = tries
        self._seen = tries.last() if tries is not None else 0

    @property
    def possible(self) -> bool:
        return self._tries is not None

    def new(self) -> Sequence[TryAsked]:
        """Return the requests that were not returned before, oldest first."""
        found = self._tries.since(self._seen) if self._tries is not None else ()
        self._seen = max((one.number for one in found), default=self._seen)
        return found

    def answer(self, asked: TryAsked, answers: Iterable[TryAnswer]) -> None:
        """Record the outcome of one request."""
        if self._tries is not None:
            self._tries.answer(asked.number, answers)


def in_words(answers: Iterable[TryAnswer]) -> str:
    """Describe the outcome of a request in one line.

    >>> in_words([TryAnswer("ods.a", ("dn_1",), ("dn_2", "dn_3"), (), {"dn_4": "its login was refused"})])
    'tried now: dn_1; polled now: 2 lanes; dn_4: its login was refused'
    >>> in_words([TryAnswer(busy=("dn_1",))])
    'no lane waits: 1 lane is in progress'
    """
    known = list(answers)
    tried = [name for one in known for name in one.tried]
    polled, busy = sum(len(one.polled) for one in known), sum(len(one.busy) for one in known)
    refused = [f"{name}: {why}" for one in known for name, why in one.refused.items()]
    said = [f"tried now: {', '.join(tried)}"] if tried else []
    said += [f"polled now: {many(polled, 'lane')}"] if polled else []
    if not said and not refused:
        return f"no lane waits: {many(busy, 'lane')} {'is' if busy == 1 else 'are'} in progress"
    return "; ".join(said + refused)
