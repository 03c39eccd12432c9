"""A lane of a MySQL source into a mirror in memory: the source's own code from start to step, and no sink."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.drivers.pipe import rows_of
from slotkeeper.core.sources.mysql.filters import Selection
from slotkeeper.core.sources.mysql.position import ours
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.source import SHARD, MysqlSource
from slotkeeper.core.sources.mysql.stream import there
from slotkeeper.demo.mariadb import SUPERUSER, MariaServer
from tests.support.maria import endpoint, password_of

Rows = dict[tuple[str | None, ...], tuple[str | None, ...]]


class Lane:
    """One table, its rows by key, and the position up to which they are applied."""

    def __init__(
        self, server: MariaServer, table: str, cascades_known: bool = False, user: str = SUPERUSER, slot: str = "lane"
    ) -> None:
        session = MysqlSession(Login(endpoint(server, user), password_of(server, user), "slotkeeper/lane"))
        selection = Selection(cascades_known=cascades_known)
        self.source = MysqlSource(session, table, slot, BinlogOptions(binlog=True), selection)
        self.rows: Rows = {}
        self.position: Position | None = None
        self.changes = 0
        """Images that the stream has given."""

    def start(self) -> Lane:
        """Admit the table and copy it."""
        self.source.admit()
        self.position = self.source.create_slot()[0].latest
        self.rows = self.copied()
        return self

    def resume(self, other: Lane) -> Lane:
        """Take over another lane's rows and position, as a restart does."""
        self.source.admit()
        self.rows, self.position, self.changes = other.rows, other.position, other.changes
        return self

    def copied(self) -> Rows:
        """The table's rows as a copy reads them now."""
        out = io.BytesIO()
        for chunk in self.source.plan_chunks(1_000):
            self.source.copy_chunk(chunk, out)
        out.seek(0)
        return {self._key(row): row for row in rows_of(out)}

    def _key(self, row: tuple[str | None, ...]) -> tuple[str | None, ...]:
        seen = self.source.seen
        return tuple(row[place] for place, image in enumerate(seen.images) if image.name in seen.identity.key)

    def catch_up(self) -> Lane:
        """Apply everything up to where the binlog ends now. Raises SlotkeeperError where the lane stops."""
        assert self.position is not None
        status = self.source.read_status(None)[0]
        while not there(ours(self.position), ours(status.latest)):
            end = self.source.next_range(self.position, status, 50)
            out = io.BytesIO()
            self.changes += self.source.copy_changes(SHARD, self.position, end, out)
            out.seek(0)
            for _, _, kind, *values in rows_of(out):
                row = tuple(values)
                if kind in ("I", "U"):
                    self.rows[self._key(row)] = row
                else:
                    self.rows.pop(self._key(row), None)
            self.position = end
        return self

    def close(self) -> None:
        self.source.close()


@contextmanager
def lane(
    server: MariaServer, table: str, cascades_known: bool = False, user: str = SUPERUSER, slot: str = "lane"
) -> Iterator[Lane]:
    """A lane that was started, for the block."""
    made = Lane(server, table, cascades_known, user, slot)
    try:
        yield made.start()
    finally:
        made.close()
