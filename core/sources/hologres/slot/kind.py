"""Hologres with slots, whose positions the server stores, as in versions before 2.1: `dialect = "hologres_slot"`.

Everything except the slot is the same as in `slotkeeper.core.sources.hologres.kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import BinlogOptions, JobSpec
from slotkeeper.core.ports.kinds import SourceAsked, SourceKind
from slotkeeper.core.sources.hologres import doctor
from slotkeeper.core.sources.hologres.kind import HoloConnection, HoloKind
from slotkeeper.core.sources.hologres.position import SLOT_POSITIONS
from slotkeeper.core.sources.hologres.slot.source import ConfirmLine, SlotInspector, SlotRetention, SlotSource
from slotkeeper.core.sources.hologres.slot.traits import TRAITS
from slotkeeper.core.sources.hologres.words import SLOT_WORDS, SlotManualSql
from slotkeeper.core.sqltext import dotted, quoted


class SlotConnection(HoloConnection):
    """A session, its streams, and the connection that confirms positions."""

    def __init__(self, login: Login) -> None:
        super().__init__(login)
        self.confirming = ConfirmLine(login)

    def source(self, job: JobSpec, points_proven: bool = False) -> SlotSource:
        table = job.channel.source_table
        return SlotSource(self.session, table, job.binlog, job.channel, self.streams, job.slot, self.confirming)

    def retention(self, job: JobSpec) -> SlotRetention:
        table = job.channel.source_table
        return SlotRetention(self.session, table, job.binlog, job.channel, self.streams, job.slot, self.confirming)

    def verbs(self, table: str, slot: str, options: BinlogOptions) -> SlotSource:
        return SlotSource(self.session, table, options, None, self.streams, slot, self.confirming)

    def inspector(self, options: BinlogOptions) -> SlotInspector:
        return SlotInspector(self.session)

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        return doctor.findings(self.session, asked, utc, by_slot=True)

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

    def grants(self, endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
        """Return the grants that every job needs and the grants for slots.

        Slots need table ownership, CREATE for publications, and the replication role. Hologres, "Consume Binlog via
        JDBC": owner of the table, CREATE DATABASE, and the Replication Role.
        """
        to = quoted(endpoint.user)
        return [
            *super().grants(endpoint, tables),
            *(f"ALTER TABLE {dotted(name)} OWNER TO {to};" for name in tables),
            f"GRANT CREATE ON DATABASE {quoted(endpoint.database)} TO {to};",
            f"ALTER ROLE {to} REPLICATION; -- as a superuser; with SPM: CALL spm_grant('<db>_admin', ...)",
        ]


KIND: SourceKind = SlotKind()
