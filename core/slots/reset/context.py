"""Everything that a reset is given: the source, the sink's rows and resets, the local files, who asks
and why it may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.audit import Actor, AuditLine
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.reset import Check
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.ports.driver import ResetStore
from slotkeeper.core.ports.source import Retention

Probe = Callable[[str], None]
"""Called at named points of a reset; does nothing in production, stops or kills it in tests."""


class Files(Protocol):
    """The state folder's part: plans, backups, and the marks of unfinished resets."""

    def save(self, kind: str, name: str, text: str) -> None: ...
    def load(self, kind: str, name: str) -> str | None: ...
    def remove(self, kind: str, name: str) -> None: ...
    def names(self, kind: str) -> list[str]: ...


def silent(point: str) -> None:
    """The probe of production."""


@dataclass
class ResetContext:
    """Everything that a reset is given; `positions` reads the source's texts.

    `at_rest` says whether the job, or this table of it, is; `report` hears that it was reset, `void` after which reset
    (its id) older comparisons say nothing any more. `silence` ends the other sessions at the source that register this
    channel, False where it is not certain; `can_copy` says whether the target is empty or absent, `count_target` counts
    it, `shape` says how it is brought in line with the source, whose columns were those behind a fingerprint. `apart`:
    places of one shard say nothing of another's.
    """

    job: JobSpec
    positions: Positions
    retention: Retention
    resets: ResetStore
    files: Files
    actor: Actor
    audit: Callable[[AuditLine], object]
    at_rest: Callable[[], Check]
    report: Callable[[str], None]
    void: Callable[[str], object]
    silence: Callable[[], bool]
    can_copy: Callable[[TableIdentity], bool]
    shape: Callable[[TableIdentity, str], Reshape]
    count_target: Callable[[TableIdentity], RowCount]
    clock: Clock
    pause: Callable[[float], None]
    new_id: Callable[[], str]
    steal: str = ""
    apart: bool = False
    probe: Probe = silent

    @property
    def what(self) -> str:
        """The slot in words."""
        return f"{self.job.source.name} {self.job.channel.source_table} slot {self.job.slot}"
