"""What a worker asks of a sink: stage the changes of a step, and commit them with the progress row under its fence.

All calls block; each raises an error of `core.errors` and nothing else. Next door: `core.sinks.postgres` implements it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Protocol

from core.domain.position import Position
from core.domain.progress import LaneKey, ProgressRow


@dataclass(frozen=True, slots=True)
class Top:
    """The pairs that order what was staged: the highest first number, and the highest second at the range's last one.

    None where there is none.
    """

    first: int | None
    second: int | None


class StepSink(Protocol):
    """One sink transaction after another for a worker: stage, then commit under the fence."""

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        """The lane's progress row as it is committed now."""

    def stage(self, reader: BinaryIO) -> int:
        """Begin a transaction and fill the staging table from COPY text; returns the rows staged."""

    def stage_isolating(self, reader: BinaryIO) -> int:
        """As `stage`; `commit` then holds in quarantine what the target refuses, and applies the rest."""

    def top(self, up_to: Position) -> Top:
        """What the staging table holds at its end."""

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        """Fenced progress row first, then the net effect, then COMMIT; False where the fence was not hit."""

    def copy_chunk(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        """Take the planned chunk and fill the target in one open transaction; None where it is not ours to take."""

    def copy_chunk_isolating(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        """As `copy_chunk`; what the target refuses is held in quarantine."""

    def finish_chunk(self) -> None:
        """Commit the chunk that `copy_chunk` left open."""

    def rest(self) -> None:
        """Between two tasks: roll back whatever is open, and end a session that has been used for long enough."""

    def abandon(self) -> None:
        """Roll back whatever is open."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class BatchWriter(Protocol):
    """Writes batches into one target, each in its own transaction; one that is written again changes nothing."""

    def write(self, text: bytes, rows: int) -> None:
        """The net effect of a batch per key; `text` is COPY text as `Source.copy_changes` writes it."""
