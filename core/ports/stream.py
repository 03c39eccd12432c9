"""What the batches of a Spark query ask of a sink: rows staged by many tasks, made the target's in one transaction.

A query is known by its id, which its checkpoint keeps; its batches have numbers that grow. The sink remembers, in the
transaction that writes the rows, which query writes a target and which batch was its last: that is the fence.
Of a query that reads a slot a store keeps an account, which only informs.
All calls block; each raises an error of `slotkeeper.core.errors` and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from slotkeeper.core.domain.query_report import QueryReport
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import SinkOptions


@dataclass(frozen=True, slots=True)
class QueryTarget:
    """A target and what is staged for it: `columns` in the order of the staged values, `key` their names in the key.

    A column of type text goes into a column of any type that reads its text. `ordered` rows are a changelog; others are
    upserts, of which a batch may have one for each key. `successor_of` is the id of a query that wrote the target
    before and that this one replaces.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    ordered: bool = True
    create_target: bool = False
    successor_of: str = ""
    options: SinkOptions = field(default_factory=SinkOptions)


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """A batch by its query's id and its number."""

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What one attempt of a task has staged: the token that no other attempt has, and its rows.

    `left_out` are rows of the task that have no effect and are not there.
    """

    token: int
    rows: int
    left_out: int = 0


class QuerySink(Protocol):
    """One session at a sink for a query's batches; not shared between threads."""

    def admit(self) -> str:
        """Make what is missing, refuse by name what cannot be written; the place where tasks stage."""

    def stage(self, place: str, query: str, token: int, lines: BinaryIO) -> int:
        """Stage CSV lines of (token, point, sequence, kind, columns) at `place`; the rows that the server took.

        They are durable and seen by no reader of the target. Refused where another query writes the target.
        """

    def commit(self, batch: QueryBatch, staged: Sequence[Staged]) -> bool:
        """Make what was staged the target's in one transaction; False where the batch is there already.

        An error says nothing of whether it took effect: the same call again does.
        """

    def discard(self) -> None:
        """Free what is staged where nobody can need it any more; undoes nothing, and fails in silence."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class QueryAccounts(Protocol):
    """A store's account of the query that reads one slot; nothing rests on it, and it may be missing."""

    def begin(self, epoch: int, anew: bool) -> None:
        """Make room for a query of this epoch, and the table where it is missing; nothing where a newer one is there.

        What was said before stays, unless it begins `anew`: a slot has one checkpoint, so it was said of this query.
        Raises what the store raises, as where the login may not create a table.
        """

    def write(self, report: QueryReport) -> bool:
        """Keep an account; False where the query's epoch is not the newest, or nothing was begun."""

    def read(self) -> QueryReport | None:
        """The newest account; None where there is none. Makes nothing."""

    def close(self) -> None:
        """End the session; safe to call twice."""
