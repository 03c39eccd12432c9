"""Looks at a Hologres for commands and screens that show things: shards, newest LSNs, TTL; there are
no slots to list.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import RegisteredPoint, TableAnswer, UnreadRows
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.source import SlotCalls
from slotkeeper.core.sources.hologres import catalog
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.hologres.words import WORDS


class HoloViewer:
    """Implements `slotkeeper.core.ports.source.SlotViewer` and `SlotPoller`."""

    calls = SlotCalls((), "", "", "")
    words = WORDS

    def __init__(self, session: HoloSession) -> None:
        self.session = session

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        """None: nothing is kept."""
        return None

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        """None: nothing is counted."""
        return None

    def latest(self, table: str) -> dict[str, Position | None] | None:
        """The newest record by shard."""
        found: dict[str, Position | None] = {}
        for shard in catalog.read_table(self.session, table).shards:
            record = catalog.newest(self.session, table, shard)
            found[shard.name] = record.applied if record else None
        return found

    def nodes(self, table: str) -> dict[str, int]:
        """The shards: id by name."""
        return {shard.name: shard.node_id for shard in catalog.read_table(self.session, table).shards}

    def consumed(self, table: str, node: int = 0) -> bool | None:
        """The server does not tell."""
        return None

    def ttl(self, table: str) -> Ttl | None:
        """binlog.ttl; None where there is no such table."""
        try:
            state = catalog.read_table(self.session, table)
        except SlotkeeperError as error:
            if not catalog.gone(error):
                raise
            return None
        return Ttl(state.ttl, "binlog.ttl" not in state.properties, by_record=True)

    def consume_timeout(self) -> int | None:
        """Nothing waits for readers."""
        return None

    def may_drop(self) -> bool | None:
        """There is nothing to drop."""
        return None

    def now(self) -> datetime:
        return datetime.fromtimestamp(float(self.session.rows("clock")[0][0]), timezone.utc)

    def read_table(self, table: str) -> TableAnswer | None:
        """The clock and the TTL."""
        return TableAnswer(self.now(), self.ttl(table), None, None)

    def close(self) -> None:
        self.session.close()
