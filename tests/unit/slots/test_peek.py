"""The windows of a search in binlog rows: bounded, wider where rows are rare, narrower where the server is slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from slotkeeper.core.config.load import load_usable
from slotkeeper.core.domain.inspection import Ask, ChangeRow, Filter, Page, Range, Searched
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Column, FirstRecord, RegisteredPoint, Shard, TableAnswer, TableIdentity
from slotkeeper.core.errors import Refused, Unreachable
from slotkeeper.core.ports.source import SourceTable
from slotkeeper.core.services.binlog_rows import masks, peek
from slotkeeper.core.sources.dws.inspector import Window, Windows
from slotkeeper.core.sources.dws.position import DwsPosition, ours, place
from slotkeeper.core.sources.dws.words import WORDS

IDENTITY = TableIdentity(1, (Column("id", "int"),), ("id",), "db1")


@dataclass
class Reader:
    """A DN with one row at each of several points; a window wider than `slow` times out."""

    at: Sequence[int]
    slow: int = 10**12
    slots: Sequence[RegisteredPoint] = ()
    down: bool = False
    windows: list[Window] = field(default_factory=list)
    unread = consumed = may_drop = purge = None

    def describe(self) -> TableIdentity:
        return IDENTITY

    def nodes(self) -> list[Shard]:
        return [Shard("dn_1", -1), Shard("dn_2", -2)]

    def read(self) -> TableAnswer:
        return TableAnswer(datetime.min, None, None, self.slots)

    def latest(self, shard: Shard | None = None) -> dict[str, Position | None]:
        return {shard.name: DwsPosition(max(self.at, default=10), None) for shard in self.nodes()}

    def first_at_or_after(self, shard: Shard, point: int) -> int | None:
        here = self.at if shard.name == "dn_1" else ()
        return next((one for one in here if one >= point), None)

    def records(self, at: Position | None) -> dict[str, FirstRecord]:
        if self.down:
            raise Unreachable("dn_2 does not answer")
        point = 0 if at is None else ours(at).point
        firsts = {shard: place(self.first_at_or_after(shard, point)) for shard in self.nodes()}
        return {shard.name: FirstRecord(self.latest()[shard.name], first) for shard, first in firsts.items()}

    def rows(self, identity: TableIdentity, shard: Shard, what: Range, only: Filter) -> Searched:
        return Windows(cast(Any, self), identity, shard, what, only).search()

    def in_window(self, identity: TableIdentity, shard: Shard, what: Window, only: Filter) -> list[ChangeRow]:
        self.windows.append(what)
        if what.up_to - what.after.point > self.slow:
            raise Unreachable("statement timeout").after_limit()
        rows = [ChangeRow(DwsPosition(one, 2), "I", None, (str(one),)) for one in self.at]
        kept = [row for row in rows if what.after < row.position <= DwsPosition(what.up_to, None)]
        return kept[-what.most :] if what.newest else kept[: what.most]


def look(reader: Reader, ask: Ask, now: Ticking) -> Page:
    one = cast(Any, reader)
    return peek(SourceTable(one, None, one, WORDS), "s", "t", ask, now)


class Ticking:
    """A clock that advances with each call."""

    def __init__(self, step: float = 0.0) -> None:
        self.at, self.step = 0.0, step

    def __call__(self) -> float:
        self.at += self.step
        return self.at


def points(reader: Reader, ask: Ask, step: float = 0.0) -> list[int]:
    return [ours(row.position).point for row in look(reader, ask, Ticking(step)).rows]


def test_rows_far_apart_are_found_without_reading_what_lies_between() -> None:
    reader = Reader([10, 5_000_000, 9_000_000_000])
    assert points(reader, Ask("dn_1", DwsPosition(0))) == [10, 5_000_000, 9_000_000_000]
    assert len(reader.windows) == 3 and reader.windows[1].after == DwsPosition(5_000_000)


def test_the_newest_rows_are_found_backwards_from_the_latest_point() -> None:
    reader = Reader([10, 5_000_000, 9_000_000_000])
    assert points(reader, Ask("dn_1", most=2)) == [5_000_000, 9_000_000_000]
    assert points(reader, Ask("dn_1")) == [10, 5_000_000, 9_000_000_000]


def test_a_window_that_takes_too_long_is_tried_again_narrower() -> None:
    reader = Reader(range(1, 2_000), slow=100)
    page = look(reader, Ask("dn_1", DwsPosition(0), most=50), Ticking())
    assert len(page.rows) == 50 and page.on == DwsPosition(50, 2) and not page.whole
    reader = Reader([7], slow=-1)
    with pytest.raises(Unreachable):
        look(reader, Ask("dn_1", DwsPosition(0)), Ticking())


def test_a_look_ends_when_its_time_is_up_and_says_how_far_it_came() -> None:
    reader = Reader(range(1, 10**6, 100))
    page = look(reader, Ask("dn_1", DwsPosition(0), most=9_000), Ticking(3))
    assert page.rows and not page.whole and page.searched is not None and page.searched < DwsPosition(10**6)
    assert page.notes == (f"stopped after 5 s: searched up to {page.searched.shown}",)
    assert page.on in (page.searched.from_here, page.rows[-1].position)


def test_an_unnamed_dn_is_the_one_with_the_oldest_row_that_is_unread() -> None:
    at = [RegisteredPoint("dn_1", "s", flag, place(5), None, None) for flag in (False, True)]
    at += [RegisteredPoint("dn_2", "s", flag, place(3), None, None) for flag in (False, True)]
    assert look(Reader([9], slots=at), Ask(slot="s"), Ticking()).shard == "dn_1"
    assert look(Reader([9], slots=at, down=True), Ask(slot="s"), Ticking()).shard == "dn_2"


def test_a_range_without_a_row_is_searched_to_its_end() -> None:
    page = look(Reader([]), Ask("dn_1", DwsPosition(0), up_to=place(500)), Ticking())
    assert (page.rows, page.whole, page.searched) == ((), True, place(500))


def test_a_cluster_that_names_no_dn_is_refused() -> None:
    reader = Reader([])
    reader.nodes = list  # type: ignore[method-assign]
    with pytest.raises(Refused, match="lists no DN"):
        look(reader, Ask(), Ticking())


_SERVER = 'host = "db"\nport = 3306\nuser = "u"\npassword_env = "P"\n'
_CONFIG = (
    f'[sources.my]\ndialect = "mysql"\n{_SERVER}[sources.copy]\ndialect = "mysql"\n{_SERVER}'
    f'[sinks.pg]\nkind = "postgres"\ndatabase = "d"\n{_SERVER}[jobs.shop]\nsource = "my"\nsink = "pg"\n'
    '[[jobs.shop.channels]]\nfrom = "shop.customers"\ninto = "mart.customers"\ncompute.email = "md5(email)"\n'
)


@pytest.mark.parametrize(
    ("source", "table", "old", "new", "masked"),
    [
        ("my", "shop.customers", "", "", True),
        ("my", "shop.orders", "", "", False),
        ("copy", "shop.Customers", "", "", True),
        ("my", "shop.customers", "md5(email)", "'none'", False),
        ("my", "shop.customers", "[[jobs", "[jobs.shop.sink_options]\nno_such_key = 1\n[[jobs", True),
        ("copy", "shop.orders", "[[jobs", "[jobs.shop.sink_options]\nno_such_key = 1\n[[jobs", True),
        ("my", "shop.customers", 'customers"\ninto = "mart.customers', '*"\ninto = "mart.{table}', True),
        ("my", "crm.customers", 'customers"\ninto = "mart.customers', '*"\ninto = "mart.{table}', False),
    ],
)
def test_a_table_is_masked_if_any_job_could_compute_its_columns(
    source: str, table: str, old: str, new: str, masked: bool
) -> None:
    text = _CONFIG.replace(old, new) if old else _CONFIG
    loaded = load_usable(Path("c.toml"), {"P": "x"}, text=text)
    assert bool(loaded.refused) == ("no_such_key" in text)
    assert masks(loaded, source, table) is masked
