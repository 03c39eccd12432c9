"""Decides whether the source's newest position shows that idle tables have no new changes. Pure.

If nothing is committed on a cluster, polling each of its tables shows nothing. A job relies on that only where a poll
of one table shows commits on other tables (`slotkeeper.core.domain.traits.Newest`). For DWS, no page states this
("Hybrid Data Warehouse Functions", pgxc_get_binlog_sync_point: `latest_sync_point` is "the current latest
synchronization point"), so the gate observes it: it is open until a poll has confirmed it, and for a while after polls
have refuted it. A wrong observation delays a poll to the table's longest pause; it never skips a poll.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from slotkeeper.core.domain.position import Order, Position
from slotkeeper.core.domain.traits import Newest

STRIKES = 3
"""Number of polls that refute the rule without a confirmation in between. A single poll proves nothing: while
transactions commit, a server can report a newest position slightly before one that it reported to another session."""
DISTRUST = 600.0
"""Seconds for which the gate is not used after a refutation."""


@dataclass(frozen=True, slots=True)
class _Newest:
    """A shard's newest position: the table whose poll showed it first, and the time of the answer."""

    position: Position
    table: str
    at: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """A table's last poll. `moves`: the gate's count at that time. `plain`: neither it nor a later task found rows."""

    latest: Mapping[str, Position]
    moves: int
    plain: bool


class Gate:
    """Compares the newest positions in the polls of all tables. Times are monotonic seconds."""

    def __init__(self, newest: Newest) -> None:
        self._kind = newest
        self._confirmed = newest is Newest.COMMON
        self._since = -math.inf
        """The time from which the gate can be used."""
        self._strikes = 0
        self.moves = 0
        """How often a poll has shown a later newest position than all polls before it."""
        self._newest: dict[str, _Newest] = {}
        self._tables: dict[str, _Seen] = {}

    def trusted(self, now: float) -> bool:
        """Whether a table without a move needs no poll before its longest pause."""
        return self._confirmed and now >= self._since

    def moved(self, table: str) -> bool:
        """Whether the newest position has advanced since the table's last poll, as far as known."""
        seen = self._tables.get(table)
        return seen is None or seen.moves < self.moves

    def clean(self, table: str, moves: int) -> None:
        """Record that a table had no new rows when the gate had counted that number of `moves`."""
        seen = self._tables.get(table)
        if seen is not None and seen.moves < moves:
            self._tables[table] = replace(seen, moves=moves)

    def busy(self, table: str) -> None:
        """Record that rows of a table were applied, so that its next position is not ascribed to other tables."""
        seen = self._tables.get(table)
        if seen is not None and seen.plain:
            self._tables[table] = replace(seen, plain=False)

    def drop(self, table: str) -> None:
        self._tables.pop(table, None)

    def see(self, table: str, latest: Mapping[str, Position], rows: bool | None, sent: float, now: float) -> None:
        """Record the newest positions by shard in a poll of a table, which was sent at `sent` and has just ended.

        `rows`: whether rows wait in the table; None if that is unknown for any of its lanes. A poll of some of the
        table's shards is recorded with `see_part`.
        """
        if self._kind is Newest.OWN or now < self._since:
            return
        before = self._tables.get(table)
        if rows is False and before is not None and before.plain and self._confirms(table, before.latest, latest, sent):
            self._confirmed, self._strikes = True, 0
        if any(known.at <= sent and _is_behind(latest, shard, known) for shard, known in self._newest.items()):
            self._strikes += 1
            if self._strikes >= STRIKES:
                self._confirmed, self._since, self._strikes = self._kind is Newest.COMMON, now + DISTRUST, 0
                self._newest.clear()
                self._tables.clear()
                return
        behind = any(_is_behind(latest, shard, known) for shard, known in self._newest.items())
        self._advance(table, latest, now)
        self._tables[table] = _Seen(latest, self.moves - behind, rows is False)

    def see_part(self, table: str, latest: Mapping[str, Position], now: float) -> None:
        """Record the newest positions of some shards in a poll of a table; the table then counts as not polled."""
        if self._kind is not Newest.OWN and now >= self._since:
            self._advance(table, latest, now)
            self.drop(table)

    def _advance(self, table: str, latest: Mapping[str, Position], now: float) -> None:
        known = {shard: one.position for shard, one in self._newest.items()}
        ahead = [
            shard for shard, place in latest.items() if shard not in known or place.order(known[shard]) is Order.AFTER
        ]
        self.moves += any(shard in known for shard in ahead)
        for shard in ahead:
            self._newest[shard] = _Newest(latest[shard], table, now)

    def _confirms(
        self, table: str, before: Mapping[str, Position], latest: Mapping[str, Position], sent: float
    ) -> bool:
        """Whether a table without rows of its own has reached a position that another table's poll had shown first."""
        return any(
            known.table != table
            and known.at <= sent
            and shard in before
            and before[shard].order(known.position) is Order.BEFORE
            and not _is_behind(latest, shard, known)
            for shard, known in self._newest.items()
            if shard in latest
        )


def _is_behind(latest: Mapping[str, Position], shard: str, known: _Newest) -> bool:
    place = latest.get(shard)
    return place is not None and place.order(known.position) in (Order.BEFORE, Order.UNKNOWN)
