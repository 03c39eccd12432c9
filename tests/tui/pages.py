"""Pages of binlog rows for tests: the history of one order, as in the design."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.inspection import Ask, ChangeRow, Page
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.sources.dws.position import DwsPosition, place

COLUMNS = (Column("order_id", "bigint"), Column("status", "text"), Column("amount", "numeric(10,2)"))
IDENTITY = TableIdentity(7, COLUMNS, ("order_id",), "db1")
SECOND = 1_795_228_261_113_000
NEW, PAID, LESS = ("4711", "NEW", "18.50"), ("4711", "PAID", "18.50"), ("4711", "PAID", "17.50")


def row(point: int, sequence: int, kind: str, *values: str | None) -> ChangeRow:
    return ChangeRow(DwsPosition(point, sequence), kind, SECOND + point % 100 * 1_000_000, values)


LIFE = (
    row(88_512_301, 2, "I", *NEW),
    row(88_512_305, 3, "B", *NEW),
    row(88_512_305, 4, "U", *PAID),
    row(88_512_310, 2, "I", "4712", "", None),
    row(88_512_318, 2, "B", *PAID),
    row(88_512_318, 3, "U", *LESS),
    row(88_512_329, 2, "d", "4711", None, None),
)


def page(*rows: ChangeRow, **more: object) -> Page:
    """A page of DN dn_1 of two."""
    found = Page(
        "dws1", "ods.orders", "dn_1", ("dn_1", "dn_2"), IDENTITY, rows or LIFE, DwsPosition(88_512_300),
        place(88_512_330), place(88_512_330), DwsPosition(88_512_330), True,
    )  # fmt: skip
    return replace(found, **more)  # type: ignore[arg-type]


@dataclass
class PlantedPeeker:
    """Returns the planted page or raises an error, and records the requests."""

    answer: Page | Exception = field(default_factory=page)
    asked: list[tuple[Ask, bool]] = field(default_factory=list)

    def __call__(self, loaded: Loaded, source: str, table: str, ask: Ask, unmask: bool) -> Page:
        self.asked.append((ask, unmask))
        if isinstance(self.answer, Exception):
            raise self.answer
        kept = [
            one
            for one in self.answer.rows
            if all(dict(zip(("order_id",), one.values, strict=False))[k] == v for k, v in ask.filter.key.items())
        ]
        return replace(
            self.answer, shard=ask.dn or self.answer.shard, rows=tuple(kept), masked=self.answer.masked and not unmask
        )
