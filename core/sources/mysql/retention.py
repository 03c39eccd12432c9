"""How far back a server's binlog reaches for one table, for starts without a copy and for resets.

Files are searched from the one in which a moment lies; what is older than the moment in it is passed over, by the time
at which each statement began at the source, in whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from slotkeeper.core.domain.position import NOTHING_KEPT, Kept, NothingKept, Position
from slotkeeper.core.domain.reset import Count
from slotkeeper.core.domain.row_counts import RowCount, count_within
from slotkeeper.core.domain.slot import FirstRecord, RegisteredPoint, Shard, SlotStatus
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.mysql import starts
from slotkeeper.core.sources.mysql.events import Action
from slotkeeper.core.sources.mysql.follow import Follower, there
from slotkeeper.core.sources.mysql.gtid import MariaState
from slotkeeper.core.sources.mysql.kept import POSITIONS
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, MysqlPosition, ours
from slotkeeper.core.sources.mysql.requirements import ServerFacts
from slotkeeper.core.sources.mysql.source import SHARD, MysqlSource
from slotkeeper.core.sources.mysql.statements import Statement
from slotkeeper.core.sources.mysql.transactions import End, Item, TableRows

_KINDS = {Action.INSERT: ("I",), Action.UPDATE: ("B", "U"), Action.DELETE: ("d",)}


def _begin_of(facts: ServerFacts, file: str, line: my.Session) -> MysqlPosition:
    return MysqlPosition(file, FIRST_OFFSET, starts.gtids_at(line, facts, file, FIRST_OFFSET))


class MysqlRetention(MysqlSource):
    """Implements `slotkeeper.core.ports.source.Retention`."""

    def points(self) -> Sequence[RegisteredPoint] | None:
        """None: the server lists no slots."""
        return None

    def place(self, text: str) -> Position:
        """A place as it is shown or stored, or GTIDs as the server shows them; raises ValueError where it is none."""
        try:
            return self.resolved(POSITIONS.place(text))
        except ValueError:
            if "-" not in text:
                raise
        return self._behind_gtids(text)

    def _behind_gtids(self, text: str) -> MysqlPosition:
        """Where in the files these GTIDs are done, and nothing beyond them. Raises Refused where no file has that."""
        facts = self.session.facts
        wanted = self.session.asking(lambda line: starts.behind(line, facts, text)).gtids
        if not isinstance(wanted, MariaState):
            raise Refused(f"{text!r}: only MariaDB tells where GTIDs lie in its files", "name a file's place: 3:1234")
        newest = self.newest()
        for file in reversed(self.session.asking(starts.binlog_files)):
            begin = self.session.asking(partial(_begin_of, facts, file.name))
            done = begin.gtids if isinstance(begin.gtids, MariaState) else MariaState({})
            if not wanted.covers(done):
                continue
            if done.covers(wanted):
                return begin
            for item in self._events_of(begin, newest):
                if isinstance(item, End) and item.position.gtids == wanted:
                    return item.position
            break
        raise Refused(f"{text!r}: no binlog that is still there has a place where just these are done")

    def kept_by(self, points: Sequence[RegisteredPoint]) -> NothingKept:
        """Nothing."""
        return NOTHING_KEPT

    def records(self, place: Position | None = None, shard: Shard | None = None) -> Mapping[str, FirstRecord]:
        """The place of the table's first event at or behind a place; without one, where the binlog begins."""
        newest = self.newest()
        if place is None:
            return {SHARD.name: FirstRecord(newest, self.begin(newest))}
        found = self._first_event(self._not_before(ours(place), newest), newest)
        return {SHARD.name: FirstRecord(newest, *found) if found else FirstRecord(newest, None)}

    def begin(self, newest: MysqlPosition) -> MysqlPosition:
        """The oldest place that is still there."""
        return self._first(newest) or newest

    def _not_before(self, place: MysqlPosition, newest: MysqlPosition) -> MysqlPosition:
        begin = self.begin(newest)
        place = self.resolved(place)
        return place if there(place, begin) else begin

    def _first_event(
        self, after: MysqlPosition, up_to: MysqlPosition, since: float = 0.0
    ) -> tuple[MysqlPosition, int] | None:
        """The place behind which the first event at or after a moment lies, and its time in microseconds."""
        last = after
        for item in self._events_of(after, up_to):
            if isinstance(item, End):
                last = item.position
            elif isinstance(item, TableRows) and item.rows.header.time >= since:
                return last, item.rows.header.time * 1_000_000
        return None

    def _events_of(self, after: MysqlPosition, up_to: MysqlPosition) -> Iterator[Item]:
        follower = Follower(lambda place: self._stream(place, "viewer"))
        try:
            yield from follower.read(after, up_to)
        finally:
            follower.close()

    def ended_items(self, after: MysqlPosition, up_to: MysqlPosition) -> Iterator[tuple[Item, MysqlPosition | None]]:
        """What lies in a range, and with what ends a transaction its end."""
        for item in self._events_of(after, up_to):
            ends = isinstance(item, End) or (isinstance(item, Statement) and item.ends)
            yield item, item.position if ends and not isinstance(item, TableRows) else None

    def at_time(self, at: str) -> dict[str, Position | None]:
        """The place of the table's first event at or after a time."""
        moment, newest = datetime.fromisoformat(at).timestamp(), self.newest()
        begin = self._begin_at(int(moment))
        found = self._first_event(begin, newest, moment)
        return {SHARD.name: found[0] if found else None}

    def _begin_at(self, moment: int) -> MysqlPosition:
        facts, replica = self.session.facts, self.session.replica(f"{self.slot}\x1f{self.table}\x1fviewer")
        return self.session.asking(lambda line: starts.at_moment(line, facts, self.session.connect, replica, moment))

    def since(self, at: str) -> dict[str, Position | None]:
        """The same: there is one stream."""
        return self.at_time(at)

    def count(self, shard: Shard, low: Position, high: Position) -> Count:
        """The changes beyond `low` and up to `high`, by kind."""
        counts: dict[str, int] = {}
        first: TableRows | None = None
        for item in self._events_of(self.resolved(ours(low)), self.resolved(ours(high))):
            if isinstance(item, TableRows):
                first = first or item
                changes = self._decoder(item.table).changes(item.rows)
                for kind in _KINDS[changes.action]:
                    counts[kind] = counts.get(kind, 0) + max(len(changes.before), len(changes.after))
        begin = f"{first.number}:{first.at}" if first else None
        return Count(tuple(sorted(counts.items())), True, begin, first.rows.header.time * 1_000_000 if first else None)

    def count_rows(self) -> RowCount:
        """The rows that a copy would find, within five seconds."""

        def ask(most: int | None, limit_ms: int) -> int | None:
            limit = "" if most is None else f" LIMIT {most}"
            statement = f"SELECT count(*) FROM (SELECT 1 FROM {self.seen.quoted}{limit}) c"
            try:
                return int(self.session.rows(statement, (), limit_ms / 1000)[0][0])
            except SlotkeeperError as error:
                if not error.timed_out:
                    raise
                return None

        return count_within(ask)

    def begin_at(self, status: SlotStatus, place: Position, record: FirstRecord | None) -> NothingKept:
        """Nothing."""
        return NOTHING_KEPT

    def kept_at(
        self, shard: Shard, place: Position, before: Kept, status: SlotStatus | None, back: bool
    ) -> NothingKept:
        """Nothing."""
        return NOTHING_KEPT

    def restore(self, shard: Shard, kept: Kept, first: SlotStatus, lost: bool, probe: Callable[[str], None]) -> None:
        """Nothing is told."""

    def registration_text(self, node: int, kept: Kept) -> list[str]:
        """No call."""
        return []

    def seconds(self) -> float:
        """The server's clock."""
        return float(self.session.rows("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])

    def ttl(self) -> int | None:
        """None: what goes is told by the files that are there."""
        return None

    def record_ttl(self) -> int | None:
        """None: the same."""
        return None
