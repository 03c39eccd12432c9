"""Hologres with slots, whose positions the server stores, as in versions before 2.1: `dialect = "hologres_slot"`.

Everything except the slot is the same as in `slotkeeper.core.sources.hologres.kind`.
"""

from __future__ import annotations

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import BinlogOptions, TableAsked
from slotkeeper.core.ports.kinds import SourceKind
from slotkeeper.core.ports.source import SourceTable
from slotkeeper.core.sources.hologres.doctor import SlotDoctor
from slotkeeper.core.sources.hologres.kind import HoloConnection, HoloKind
from slotkeeper.core.sources.hologres.position import SLOT_POSITIONS
from slotkeeper.core.sources.hologres.slot.source import ConfirmLine, SlotInspector, SlotTable
from slotkeeper.core.sources.hologres.slot.traits import TRAITS
from slotkeeper.core.sources.hologres.words import SLOT_WORDS, SlotManualSql


class SlotConnection(HoloConnection):
    """A session, its streams, and the connection that confirms positions."""

    def __init__(self, login: Login) -> None:
        super().__init__(login)
        self.doctor = SlotDoctor(self.session, login)
        self.confirming = ConfirmLine(login)

    def table(self, asked: TableAsked) -> SourceTable:
        made = SlotTable(
            self.session, asked.table, asked.binlog, asked.channel, self.streams, asked.slot, self.confirming
        )
        return SourceTable(made, made, made, SLOT_WORDS)

    def inspector(self, options: BinlogOptions) -> SlotInspector:
        return SlotInspector(self.session)

    def sever(self) -> None:
        self.confirming.sever()
        super().sever()

    def close(self) -> None:
        self.confirming.close()
        super().close()


class SlotKind(HoloKind):
    """Hologres with a slot; implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual: ManualSql = SlotManualSql()
    positions: Positions = SLOT_POSITIONS
    traits = TRAITS
    words = SLOT_WORDS

    def connect(self, login: Login, polls: bool = False) -> SlotConnection:
        return SlotConnection(login)


KIND: SourceKind = SlotKind()
