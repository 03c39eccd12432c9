"""What is asked of a sink about the rows that its targets refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.quarantine import QuarantineCount, QuarantineEntry, Refusal, Replayed, Wanted
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec


class ReplaysBeside(Protocol):
    """Replays of a slot's table into a sink beside the store that has its entries (ADR 50).

    A replay is a plan without width: its load is armed on every lane that the row may lie on, so that nothing else is
    planned there until it is resolved, by whoever finds it.
    """

    def waiting(self) -> Sequence[tuple[str, str]]:
        """(label, load) of replays that were armed and not resolved."""

    def arm(self, id: int, load: tuple[str, str], by: str, reason: str) -> bool:
        """Say that this (label, load) may be committed for an entry; False where a range is under way.

        Refused where the entry is not quarantined any more, and during a copy.
        """

    def resolve(self, label: str, applied: bool) -> None:
        """The replay is over: its entry is replayed, or stays."""

    def still_bad(self, id: int, refusal: Refusal) -> None:
        """It was refused once more, and why."""


class Quarantine(Protocol):
    """The quarantine of one sink, which all its jobs share; a sink that has none holds nothing."""

    def page(self, wanted: Wanted) -> Sequence[QuarantineEntry]:
        """Entries without their values, the newest first, at most `wanted.limit`."""

    def entry(self, id: int) -> QuarantineEntry | None:
        """One entry with its values; None where there is none."""

    def counts(self) -> Sequence[QuarantineCount]:
        """How many rows are quarantined for each slot's table; those with none are absent."""

    def values(self, key: LaneKey) -> Sequence[dict[str, str | None]]:
        """The quarantined rows of a slot's table, by target column; an old half has its key alone."""

    def ids(self, key: LaneKey) -> list[int]:
        """The quarantined entries of a slot's table, in the order in which they were read."""

    def replay(self, id: int, job: JobSpec, key: LaneKey, identity: TableIdentity, by: str, reason: str) -> Replayed:
        """Apply an entry to the target of the job's channel in one transaction; Refused during a copy."""

    def discard(self, id: int, key: LaneKey, by: str, reason: str) -> Replayed:
        """Give an entry up: the target stays without that row until its key changes again."""
