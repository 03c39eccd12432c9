"""The xmin of a record is queried only once, because an idle lane is re-registered at one point for hours."""

from __future__ import annotations

from typing import Any, cast

from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.source import DwsSlotAdmin

ONE, TWO = Shard("dn_1", 1), Shard("dn_2", 2)


class Told:
    """A session that returns the xmin of records, and records the queries."""

    oriented = ""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.records = {7: 70, 8: 80}

    def rows(self, name: str, parameters: dict[str, Any]) -> list[tuple[int, int]]:
        self.asked.append((parameters["node"], parameters["point"]))
        later = sorted(point for point in self.records if point >= parameters["point"])
        return [(point, self.records[point]) for point in later[:1]]


def test_it_is_asked_once_for_each_record_and_dn() -> None:
    told = Told()
    admin = DwsSlotAdmin(cast("DwsSession", told), "ods.t", "s", BinlogOptions(binlog=True))
    assert [admin.xmin_at(ONE, 7) for _ in range(3)] == [70] * 3
    assert [admin.xmin_at(TWO, 7), admin.xmin_at(ONE, 8), admin.xmin_at(ONE, 8)] == [70, 80, 80]
    assert told.asked == [(1, 7), (2, 7), (1, 8)]


def test_what_was_not_told_is_asked_again() -> None:
    told = Told()
    admin = DwsSlotAdmin(cast("DwsSession", told), "ods.t", "s", BinlogOptions(binlog=True))
    assert [admin.xmin_at(ONE, 6), admin.xmin_at(ONE, 6)] == [None, None], "a later record's would be newer"
    assert len(told.asked) == 2
