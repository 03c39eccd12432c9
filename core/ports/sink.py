"""What a worker asks of a sink: stage the changes of a step, and commit them with the progress row under its fence.

A sink that keeps its progress rows does so in one transaction (`StepSink`). One that cannot is asked for two parts
(`BatchSink`), between which a store beside it decides (`slotkeeper.core.ports.progress.Decisions`); of both
`slotkeeper.core.engine.worker.two_part` makes a `StepSink` (ADR 23).
All calls block; each raises an error of `slotkeeper.core.errors` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO, Protocol, runtime_checkable

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey, ProgressRow
from slotkeeper.core.domain.quarantine import Refusal
from slotkeeper.core.domain.traits import Encoding


@dataclass(frozen=True, slots=True)
class Top:
    """The pairs that order what was staged: the highest first number, and the highest second at the range's last one.

    None where there is none.
    """

    first: int | None
    second: int | None


class StepSink(Protocol):
    """One sink transaction after another for a worker: stage, then commit under the fence."""

    encoding: Encoding
    """How it reads a batch: what a source writes otherwise is converted on the way, once
    (`slotkeeper.core.drivers.row_pipe`).
    """

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        """The lane's progress row as it is committed now."""

    def stage(self, reader: BinaryIO) -> int:
        """Begin a transaction and fill the staging table from a batch in its encoding; returns the rows staged."""

    def stage_isolating(self, reader: BinaryIO) -> int:
        """As `stage`; `commit` then holds in quarantine what the target refuses, and applies the rest."""

    def top(self, up_to: Position) -> Top:
        """What the staging table holds at its end."""

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        """Fenced progress row first, then the net effect, then COMMIT; False where the fence was not hit."""

    def finish(self, key: LaneKey, epoch: int, row: ProgressRow, read_again: Callable[[], int]) -> None:
        """Finish what `row` says is decided; Refused by a sink that decides nothing beside its transaction.

        `read_again` stages exactly the rows beyond the row's position as `stage` does, and a few beyond the decided
        end where the source cannot tell; it is called only where the sink kept nothing.
        """

    def copy_chunk(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        """Take the planned chunk and fill the target in one open transaction; None where it is not ours to take."""

    def copy_chunk_isolating(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        """As `copy_chunk`; what the target refuses is held in quarantine."""

    def finish_chunk(self) -> None:
        """Commit the chunk that `copy_chunk` left open."""

    def rest(self, session: str = "") -> None:
        """Between two tasks: roll back whatever is open, and end a session that has been used for long enough.

        The one at the store goes by the name `session` from here on, as far as its server allows it; "" leaves it.
        """

    def abandon(self) -> None:
        """Roll back whatever is open."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class BatchWriter(Protocol):
    """Writes batches into one target, each in its own transaction; one that is written again changes nothing."""

    def write(self, text: bytes, rows: int) -> None:
        """The net effect of a batch per key; `text` is COPY text as `Source.copy_changes` writes it."""


Fields = tuple[str | None, ...]
"""A row of `Encoding.ROWS`: of a step point, sequence, type and the columns, of a chunk the columns; None is NULL."""


@dataclass(frozen=True, slots=True)
class Batch:
    """`count` rows for a sink beside its store: those of a lane's range, or of a chunk (then `key` names no shard).

    `label` says which they are in words; after a reset the same words may be of other rows. `rows` can be gone through
    again and again, in the order in which the source gave them.
    """

    key: LaneKey
    label: str
    count: int
    rows: Callable[[], Iterator[Fields]]


class Outcome(Enum):
    """What became of a load that was to be committed."""

    COMMITTED = "it is seen, or will be; now or at an earlier time"
    ABORTED = "it is certain never to be seen"
    UNKNOWN = "the server knows it no more: it may be seen"


@runtime_checkable
class LabelSink(Protocol):
    """A sink with labels and two-phase commit, beside a store that plans under them (ADR 41); one session.

    A label is of letters, digits, `_`, `-` and `:`, at most 128 characters; a load's number has no blank.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns, in the order in which rows have them."""

    @property
    def key(self) -> tuple[int, ...]:
        """Places of the key among them."""

    def label(self, batch: Batch) -> str:
        """A label that no batch ever had, for a plan of this one; nothing is sent."""

    def send(self, batch: Batch, label: str) -> str:
        """Send the rows to be seen later, all of them; the number of the load.

        Empty where what has the label is committed already. A load of it that may be anything is aborted first.
        """

    def commit(self, label: str, load: str) -> Outcome:
        """Make a load seen; the same load again changes nothing."""

    def abort(self, load: str) -> None:
        """Give up a load that nobody may commit; fails in silence, for the server ends it in time."""

    def clear(self, label: str) -> None:
        """Give up whatever is pre-committed under a label of a plan that is withdrawn; fails in silence likewise."""

    def write_chunk(self, batch: Batch) -> None:
        """The rows of a chunk in one go, seen at once."""

    def trial(self, rows: Callable[[], Iterator[Fields]], count: int, chunk: bool) -> int:
        """How many of these rows, one of each key, the target refuses now; nothing of them is ever seen."""

    def refusal(self, row: Fields, chunk: bool) -> Refusal | None:
        """Why the target refuses this row now; None where it does not. Nothing of it is ever seen."""

    def rest(self) -> None:
        """Between two tasks."""

    def abandon(self) -> None:
        """Give up whatever is under way; what was sent stays."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class BatchSink(Protocol):
    """A sink that shares no transaction with its progress rows; one session, not shared between threads."""

    def prepare(self, batch: Batch) -> str:
        """Hand the rows over so that nobody sees them, and get a token, at most 200 characters.

        Empty where the server keeps nothing unseen: then nothing was sent. It refuses what it can refuse here: once a
        range is decided, it is written or a person is asked.
        """

    def commit(self, token: str) -> bool:
        """Make what was prepared seen; the same token again changes nothing. False where the server forgot the token.

        Such a one may have been committed before it was forgotten, so its rows are written again, and counted.
        """

    def discard(self, token: str) -> None:
        """Give up what was prepared and is certain not to be decided."""

    def write(self, batch: Batch) -> None:
        """Write the rows in one go, seen at once; it may be a repeat, and may be cut off anywhere."""

    def write_chunk(self, batch: Batch) -> None:
        """The same for a chunk of a copy, whose rows are older than those of any range."""

    def rest(self) -> None:
        """Between two tasks: roll back whatever is open, and end a session that has been used for long enough."""

    def abandon(self) -> None:
        """Roll back whatever is open; what was prepared stays."""

    def close(self) -> None:
        """End the session; safe to call twice."""
