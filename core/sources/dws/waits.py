"""Find statements on DWS that wait for slots or for jobs' sessions, as far as the login can see them.

DWS, "Precautions for Binlog Tables": VACUUM FULL and scaling wait until all records of a table are consumed. The server
reports whether all are consumed (`pgxc_consumed_binlog_records`); unread records of slots are counted at most every few
seconds, and only during a wait. One quiet session sends short statements, each with a timeout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slotkeeper.core.domain.locks import HIDDEN, Blocker, Sight
from slotkeeper.core.domain.source_waits import SCALE_OUT, VACUUM_FULL, SlotBehind, SourceWait, about, kind_of, lasting
from slotkeeper.core.domain.text import whole
from slotkeeper.core.drivers.session import Book, Rows
from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.ports.source import WaitsAsked
from slotkeeper.core.sources.dws import sight
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.viewer import points_of, unread_of
from slotkeeper.core.sources.dws.words import TIMEOUT
from slotkeeper.core.sources.waits import EVERY, LIMIT_MS, Limit, Pair, behind, by_locks, session
from slotkeeper.core.sqltext import quoted

_SQL: Book = ("slotkeeper.core.sources.dws", "waits.sql")
COUNTED_EVERY = 5.0
"""Seconds between two counts of unread records, which read the binlog."""
READ_SECONDS = 2.0
"""Time limit in seconds for the queries of one reading, which starts with the least recently queried table: a scale-out
can wait for each of a thousand tables."""
_SCALES = {TIMEOUT: 1.0, "ddl_lock_timeout": 1e-3, "lockwait_timeout": 1e-3}
"""The unit of each timeout setting, in seconds."""


class DwsWaits:
    """Implements `slotkeeper.core.ports.source.SourceWaitReader`."""

    def __init__(self, session: DwsSession, user: str, asked: WaitsAsked) -> None:
        self._session, self._user, self._asked = session, user, asked
        self._before: tuple[SourceWait, ...] = ()
        self._sight, self._known_at = Sight(None, False, False), 0.0
        self._limits: dict[str, Limit] = {}
        self._counted: dict[str, tuple[float, tuple[SlotBehind, ...]]] = {}
        self._consumed_at: dict[str, float] = {}
        self.hidden = ""

    def read(self, now: float) -> Sequence[SourceWait]:
        if not 0.0 <= now - self._known_at < EVERY:
            self._sight, self._limits, self._known_at = sight.read(self._session), self._limits_of(), now
        rows = self._rows("across" if self._sight.across else "here")
        pairs, untold = self._pairs(now)
        lacks = "; ".join(filter(None, (self._sight.lacks, untold)))
        grant = sight.CURE.format(user=quoted(self._user))
        self.hidden = f"{HIDDEN}: {lacks}; `{grant}` makes them visible" if lacks else ""
        found = [*self._consumers(rows, None if untold else pairs, now), *by_locks(pairs, now, self._limit)]
        self._before = lasting(self._before, found)
        return self._before

    def _rows(self, name: str) -> Rows:
        return self._session.rows(name, {"tables": list(self._asked.tables)}, LIMIT_MS, _SQL)

    def _pairs(self, now: float) -> tuple[list[Pair], str]:
        """Return the pairs of waiting and blocking sessions, and the reason if they are unknown."""
        try:
            rows = self._rows("pairs")
        except Unreachable:
            raise
        except SlotkeeperError:
            return [], "cannot read pgxc_lock_conflicts"
        found = []
        for table, node, wanted, granted, lasts, *sessions in rows:
            waiter, holder = session(now, sessions[:7], node), session(now, sessions[7:], node)
            found.append(Pair(str(table), waiter, str(wanted), float(lasts), holder, str(granted)))
        return found, ""

    def _consumers(self, rows: Rows, pairs: Sequence[Pair] | None, now: float) -> Iterator[SourceWait]:
        """Return the statements that wait until a table's records are read, if the table has unread records."""
        seen = [(session(now, row[:7], row[8]), float(row[7] or 0.0), str(row[5] or "")) for row in rows]
        limit, end = self._limits.get(TIMEOUT), self._session.seconds() + READ_SECONDS
        for table, slots in sorted(self._asked.tables.items(), key=lambda one: self._consumed_at.get(one[0], 0.0)):
            waiting = [(one, lasts) for one, lasts, whole in seen if _may_wait(one, whole, table)]
            if waiting and self._session.seconds() >= end:  # a later reading queries the remaining tables
                yield from (one for one in self._before if one.table == table and not one.sessions)
                continue
            if not waiting or self._consumed(table) is not False:
                self._counted.pop(table, None)
                continue
            left = self._left(table, slots, now)
            for one, lasts in waiting:
                after = None
                if pairs is not None:
                    after = behind([pair for pair in pairs if pair.holder.is_session_of(one)])
                since = now - lasts
                yield SourceWait(
                    one, kind_of(one.statement, one.application), table, since, left, behind=after,
                    limit=limit.said if limit else "", fails_at=since + limit.seconds if limit else None,
                )  # fmt: skip

    def _consumed(self, table: str) -> bool | None:
        """Return whether all records are read, as the server reports; None if the server does not report this."""
        self._consumed_at[table] = self._session.seconds()
        try:
            rows = self._session.rows("consumed", {"table": table}, LIMIT_MS, _VIEWER)
        except Unreachable:
            raise
        except SlotkeeperError:
            return None
        return bool(rows[0][0])

    def _left(self, table: str, jobs: Mapping[str, str], now: float) -> tuple[SlotBehind, ...]:
        """Return the slots with unread records or, without counts, the slots with the lowest point on a DN."""
        at, known = self._counted.get(table, (0.0, ()))
        if 0.0 <= now - at < COUNTED_EVERY:
            return known
        shards: dict[str, set[str]] = {}
        try:
            for row in unread_of(self._session.rows("consume_progress", {"table": table}, LIMIT_MS)):
                if row.rows is None or row.rows > 0:
                    shards.setdefault(row.slot, set()).add(row.shard)
        except SlotkeeperError:
            shards = self._lowest(table)
        found = tuple(SlotBehind(slot, jobs.get(slot, ""), tuple(sorted(of))) for slot, of in sorted(shards.items()))
        self._counted[table] = (now, found)
        return found

    def _lowest(self, table: str) -> dict[str, set[str]]:
        shards: dict[str, set[str]] = {}
        try:
            points = [one for one in points_of(self._session.rows("slots", {"table": table}, LIMIT_MS)) if one.point]
        except SlotkeeperError:
            return {}
        for shard in {one.shard for one in points}:
            here = [(one.point, one.slot) for one in points if one.shard == shard and one.point is not None]
            lowest = min(point for point, _ in here)
            for point, slot in here:
                if point == lowest:
                    shards.setdefault(slot, set()).add(shard)
        return shards

    def _limits_of(self) -> dict[str, Limit]:
        found = {}
        for name, setting in self._rows("limits"):
            number = whole(setting)
            if number:
                seconds = number * _SCALES[str(name)]
                found[str(name)] = Limit(f"{name} {seconds:g} s", seconds)
        return found

    def _limit(self, mode: str) -> Limit | None:
        ddl = self._limits.get("ddl_lock_timeout") if mode == "AccessExclusiveLock" else None
        return ddl or self._limits.get("lockwait_timeout")


_VIEWER: Book = ("slotkeeper.core.sources.dws", "viewer.sql")


def _may_wait(one: Blocker, statement: str, table: str) -> bool:
    """Return whether a session runs a statement that waits for readers of this table.

    Scaling waits for every table with a binlog. `statement` is the complete statement, because the text shown for a
    session can be truncated within a long name.
    """
    kind = kind_of(statement, one.application)
    return kind == SCALE_OUT or (kind == VACUUM_FULL and about(statement, table))
