"""Read shards, newest LSNs and the TTL from Hologres for commands and screens; there are no slots to list."""

from __future__ import annotations

from datetime import datetime, timezone

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import TableAnswer
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.base import NoSlotViewer
from slotkeeper.core.sources.hologres import catalog
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.hologres.words import WORDS


class HoloViewer(NoSlotViewer):
    """Implements `slotkeeper.core.ports.source.SlotViewer` and `SlotPoller`."""

    words = WORDS

    def __init__(self, session: HoloSession) -> None:
        self.session = session

    def latest(self, table: str) -> dict[str, Position | None] | None:
        found: dict[str, Position | None] = {}
        for shard in catalog.read_table(self.session, table).shards:
            record = catalog.newest(self.session, table, shard)
            found[shard.name] = record.applied if record else None
        return found

    def nodes(self, table: str) -> dict[str, int]:
        return {shard.name: shard.node_id for shard in catalog.read_table(self.session, table).shards}

    def ttl(self, table: str) -> Ttl | None:
        """Return binlog.ttl in seconds; None if the table does not exist."""
        try:
            state = catalog.read_table(self.session, table)
        except SlotkeeperError as error:
            if not catalog.gone(error):
                raise
            return None
        return Ttl(state.ttl, "binlog.ttl" not in state.properties, by_record=True)

    def now(self) -> datetime:
        return datetime.fromtimestamp(float(self.session.rows("clock")[0][0]), timezone.utc)

    def read_table(self, table: str) -> TableAnswer | None:
        return TableAnswer(self.now(), self.ttl(table), None, None)

    def close(self) -> None:
        self.session.close()
