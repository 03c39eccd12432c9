"""What is asked of a sink about the rows that its targets refused.

Next door: `core.sinks.postgres.quarantine` keeps them; `core.services.quarantine` asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from core.domain.progress import LaneKey
from core.domain.quarantine import QuarantineCount, QuarantineEntry, Replayed, Wanted
from core.domain.slot import TableIdentity
from core.domain.spec import JobSpec


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
