"""Peeks at the rows of a source's binlog, outside any job: queries and their results. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import TableIdentity

ROWS = 200
"""The default number of rows in a peek."""

MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One row of a binlog; values are text as sent by the server, None for NULL (or a value not in an old image)."""

    position: Position
    kind: str
    time_us: int | None
    values: tuple[str | None, ...]

    @property
    def key(self) -> str:
        """An identifier that is unique among all rows of the DN; several rows can share a position."""
        first, second = self.position.pair
        return f"{first}/{second}"


@dataclass(frozen=True, slots=True)
class Filter:
    """A selection of rows by event type and by key values as written by the server; empty fields select all rows."""

    kinds: tuple[str, ...] = ()
    key: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Range:
    """At most `most` rows after a position (None: the last rows) up to another one; `late` checks a time limit."""

    after: Position | None
    up_to: Position | None
    most: int
    late: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Searched:
    """The rows found, the position that the search reached (None: no row), and whether the whole range was searched.

    `stopped` is the position at which a search exceeded its time limit.
    """

    rows: tuple[ChangeRow, ...]
    reached: Position | None
    whole: bool
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A requested peek at the rows of a DN after a position, or at its newest rows if `after` is None.

    `slot` and `time` are alternative ways to specify the start; if `dn` is empty, the DN with the slot's oldest
    position is used.
    """

    dn: str = ""
    after: Position | None = None
    slot: str = ""
    time: str = ""
    up_to: Position | None = None
    filter: Filter = field(default_factory=Filter)
    most: int = ROWS


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one DN, in the order of the stream.

    `begun` is the position after which rows were requested (None: the newest rows), `searched` is the position up to
    which all rows were searched, and `on` is the position at which the next peek continues. `whole` is whether the
    range was searched to its end; `notes` describe deviations from the request.
    """

    source: str
    table: str
    shard: str
    shards: tuple[str, ...]
    identity: TableIdentity
    rows: tuple[ChangeRow, ...]
    begun: Position | None
    searched: Position | None
    latest: Position | None
    on: Position | None
    whole: bool
    masked: bool = False
    notes: tuple[str, ...] = ()
