"""A SQLite binlog under a switch: its server keeps one position for each slot, that of the stream of all tables.

It keeps what it was told last, and takes any place, back or ahead. Asking makes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.slot import FirstRecord, RegisteredPoint, Shard, SlotStatus
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.ports.source import Confirmation
from tests.support.sqlite_pair.position import KEPT_POSITIONS, OneKept, SqlitePosition, ours
from tests.support.sqlite_pair.source import SHARD, SqliteSession, SqliteSource, identity, latest, oldest

PUT = """
INSERT INTO binlog_slots VALUES (?, ?, ?, ?, ?) ON CONFLICT (slot) DO UPDATE
SET life = excluded.life, file = excluded.file, offset = excluded.offset, tx = excluded.tx
"""


class KeptSource(SqliteSource):
    """One table of a job's slot."""

    def __init__(
        self, session: SqliteSession, table: str, options: BinlogOptions, narrowed: bool = False, slot: str = ""
    ) -> None:
        super().__init__(session, table, options, narrowed)
        self._slot = slot

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        with self.session.reading() as connection:
            statement = "SELECT life, file, offset, tx FROM binlog_slots WHERE slot = ?"
            found = connection.execute(statement, (self._slot,)).fetchone()
            kept = OneKept(SqlitePosition(*found) if found else None)
            fingerprint = identity(connection, self.table).text
            return [SlotStatus(SHARD, kept, latest(connection), fingerprint, oldest(connection))]

    def _put(self, place: Position | None) -> OneKept:
        with self.session.writing() as connection:
            if place is None:
                connection.execute("DELETE FROM binlog_slots WHERE slot = ?", (self._slot,))
            else:
                here = ours(place)
                connection.execute(PUT, (self._slot, here.life, here.file, here.offset, here.tx))
        return OneKept(None if place is None else ours(place))

    def confirm(self, first: SlotStatus, asked: Confirmation) -> OneKept:  # type: ignore[override]
        asked.probe("before_confirm")
        asked.check()
        kept = self._put(asked.position)
        asked.probe("after_confirm")
        return kept

    def register_first(self, shard: Shard, kept: Kept, probe: Callable[[str], None]) -> None:
        self._put(kept.furthest)
        probe("after_first_confirm")

    def full_sync(self) -> str:
        with self.session.reading() as connection:
            newest = latest(connection)
        return self._put(newest).shown

    def clear(self) -> int:
        self._put(None)
        return 1

    def place(self, text: str) -> SqlitePosition:
        return KEPT_POSITIONS.position(text)

    def kept_by(self, points: Sequence[RegisteredPoint]) -> OneKept:  # type: ignore[override]
        return OneKept(None)

    def begin_at(self, status: SlotStatus, place: Position, record: FirstRecord | None) -> OneKept:  # type: ignore[override]
        return OneKept(ours(place))

    def kept_at(  # type: ignore[override]
        self, shard: Shard, place: Position, before: Kept, status: SlotStatus | None, back: bool
    ) -> OneKept:
        return OneKept(ours(place))

    def restore(self, shard: Shard, kept: Kept, first: SlotStatus, lost: bool, probe: Callable[[str], None]) -> None:
        self._put(kept.furthest)
