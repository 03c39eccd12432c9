"""What a peek at binlog rows asks for and finds, as plain values.

Next door: `core.slots.status.binlog_rows` searches, `core.sources.dws.peek` reads, the console shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.domain.position import Position
from core.domain.slot import TableIdentity

ROWS = 200
"""How many rows a peek shows where nothing else is asked for."""

MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One row of a binlog; values are the server's own text, None is NULL (or absent in an old image)."""

    point: int
    sequence: int
    kind: str
    time_us: int | None
    values: tuple[str | None, ...]

    @property
    def position(self) -> Position:
        """Where it lies."""
        return Position(self.point, self.sequence)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows are wanted: event types, and key values as the server spells them; empty is all."""

    kinds: tuple[str, ...] = ()
    key: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Range:
    """Rows after a position up to a point, at most so many; the last ones of them where `newest`."""

    after: Position
    up_to: int
    most: int
    newest: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody wants to see: rows of a DN after a position, or its newest ones where `after` is None.

    `slot` and `time` are other ways to say where to begin; `dn` is empty for the one where the slot lies furthest back.
    """

    dn: str = ""
    after: Position | None = None
    slot: str = ""
    time: str = ""
    up_to: int | None = None
    filter: Filter = field(default_factory=Filter)
    most: int = ROWS


@dataclass(frozen=True, slots=True)
class Page:
    """What was found on one DN, in the order of the stream.

    `begun` is the position after which rows were asked for (None: the newest), `searched` the point up to which all
    was looked at, `on` where the next peek goes on. `whole` is whether the range was searched to its end; `notes` say
    what is not as asked for.
    """

    source: str
    table: str
    shard: str
    shards: tuple[str, ...]
    identity: TableIdentity
    rows: tuple[ChangeRow, ...]
    begun: Position | None
    searched: int
    latest: int | None
    on: Position
    whole: bool
    masked: bool = False
    notes: tuple[str, ...] = ()
