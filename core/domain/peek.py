"""What a peek at binlog rows asks for and finds, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import TableIdentity

ROWS = 200
"""How many rows a peek shows where nothing else is asked for."""

MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One row of a binlog; values are the server's own text, None is NULL (or absent in an old image)."""

    position: Position
    kind: str
    time_us: int | None
    values: tuple[str | None, ...]

    @property
    def key(self) -> str:
        """What tells it from every other row of its DN: several may end at one position."""
        first, second = self.position.pair
        return f"{first}/{second}"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows are wanted: event types, and key values as the server spells them; empty is all."""

    kinds: tuple[str, ...] = ()
    key: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Range:
    """Rows after a position (None: from the first on) up to a place, at most so many; `late` says that time is up."""

    after: Position | None
    up_to: Position | None
    most: int
    late: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Searched:
    """Rows that were found, how far was searched (None: nothing was), and whether that is all that was asked for.

    `stopped` says where a search that ran out of time stood.
    """

    rows: tuple[ChangeRow, ...]
    reached: Position | None
    whole: bool
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody wants to see: rows of a DN after a position, or its newest ones where `after` is None.

    `slot` and `time` are other ways to say where to begin; `dn` is empty for the one where the slot lies furthest back.
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
    """What was found on one DN, in the order of the stream.

    `begun` is the position after which rows were asked for (None: the newest), `searched` the place up to which all
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
    searched: Position | None
    latest: Position | None
    on: Position | None
    whole: bool
    masked: bool = False
    notes: tuple[str, ...] = ()
