"""Queries of commands and screens for Hologres: shards, newest LSNs, the TTL, and a few records of a binlog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone

from slotkeeper.core.domain.inspection import ChangeRow, Filter, Range, Searched
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Shard, TableAnswer, TableIdentity
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.hologres import catalog
from slotkeeper.core.sources.hologres.changes import Left, Pages, Stretch
from slotkeeper.core.sources.hologres.position import HoloPosition, ours
from slotkeeper.core.sources.hologres.retention import HoloTable

READ_LIMIT_MS = 3_000
PAGE = 500
ALL = Left()


class HoloInspector(HoloTable):
    """A table, with the answers for commands and screens; implements `slotkeeper.core.ports.source.Inspector`.

    There are no slots to list.
    """

    unread = consumed = purge = None
    may_drop: Callable[[], bool] | None = None

    def read(self) -> TableAnswer:
        now = datetime.fromtimestamp(float(self.session.rows("clock")[0][0]), timezone.utc)
        try:
            state = self._read()
        except SlotkeeperError as error:
            if not catalog.gone(error):
                raise
            return TableAnswer(now, None, None, None)
        ttl = Ttl(state.ttl, "binlog.ttl" not in state.properties, by_record=True)
        return TableAnswer(now, ttl, None, None)

    def latest(self, shard: Shard | None = None) -> dict[str, Position | None]:
        shards = self.nodes() if shard is None else (shard,)
        found = {one.name: catalog.newest(self.session, self.table, one) for one in shards}
        return {name: record.applied if record else None for name, record in found.items()}

    def describe(self) -> TableIdentity:
        try:
            return self._read().identity
        except SlotkeeperError as error:
            if not catalog.gone(error):
                raise
            raise Refused(f"unknown table {self.table}", "check its name", error.code, "source") from error

    def rows(self, identity: TableIdentity, shard: Shard, what: Range, only: Filter) -> Searched:
        if what.after is None:
            return self._last_rows(identity, shard, what, only)
        low, high = _lsn(what.after), _lsn(what.up_to)
        found: list[ChangeRow] = []
        reached = low
        while low < high:
            to = self._end(Stretch(shard, low, high))
            if to is None:
                break
            for row in self._rows(identity, Stretch(shard, low, to), only):
                if len(found) >= what.most:
                    return Searched(tuple(found), found[-1].position, False)
                found.append(row)
            low = reached = to
            if low < high and what.late():
                return Searched(tuple(found), HoloPosition(reached), False, f"searched up to {reached}")
        return Searched(tuple(found), what.up_to, True)

    def _last_rows(self, identity: TableIdentity, shard: Shard, what: Range, only: Filter) -> Searched:
        low, high = 0, _lsn(what.up_to)
        found: list[ChangeRow] = []
        while low < high and len(found) < what.most:
            page = self._pages().newest(Stretch(shard, low, high), (), PAGE)
            if not page:
                break
            begin = page[0].lsn - 1 if len(page) == PAGE else low
            found[:0] = list(self._rows(identity, Stretch(shard, begin, page[-1].lsn), only))
            high = begin
            if low < high and len(found) < what.most and what.late():
                return Searched(tuple(found), what.up_to, False, f"searched back to {high + 1}")
        return Searched(tuple(found[-what.most :]), what.up_to, len(found) <= what.most)

    def _end(self, stretch: Stretch) -> int | None:
        """Return the LSN of the last record of the next page; a position typed by a user may not be a record's LSN."""
        pages = self._pages()
        found = pages.nth(stretch, PAGE)
        if found is not None:
            return found.lsn
        last = pages.newest(stretch, (), 1)
        return last[0].lsn if last else None

    def _pages(self) -> Pages:
        return Pages(self.session, self.table, PAGE, READ_LIMIT_MS)

    def _rows(self, identity: TableIdentity, stretch: Stretch, only: Filter) -> Iterator[ChangeRow]:
        names = [column.name for column in identity.columns]
        for one in self._pages().changes(stretch, identity.columns, ALL):
            values = dict(zip(names, one.values, strict=True))
            if only.kinds and one.kind not in only.kinds:
                continue
            if all(values[name] == text for name, text in only.key.items()):
                place = HoloPosition(one.point, one.us, one.us, image=one.sequence)
                yield ChangeRow(place, one.kind, one.us, one.values)


def _lsn(position: Position | None) -> int:
    return 0 if position is None else ours(position).lsn
