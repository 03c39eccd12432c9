"""SQLite as a kind of source whose server keeps one position for the stream of all tables."""

from __future__ import annotations

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.ports.kinds import SourceKind
from tests.support.sqlite_pair.binlog import KEPT_POSITIONS
from tests.support.sqlite_pair.keeping.traits import TRAITS
from tests.support.sqlite_pair.kind import SqliteConnection, SqliteSourceKind


class KeepingKind(SqliteSourceKind):
    """A kind whose one stream is acknowledged as one."""

    positions: Positions = KEPT_POSITIONS
    traits = TRAITS

    def connect(self, login: Login, polls: bool = False) -> SqliteConnection:
        return SqliteConnection(login, keeps=True)


KIND: SourceKind = KeepingKind()
