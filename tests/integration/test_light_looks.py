"""The console over a source with foreign slots: they do not change, and the load on the source is small."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from slotkeeper.console.monitor.poller import Collector, SlotPoller
from slotkeeper.console.monitor.store_reader import Reader
from slotkeeper.console.tui.app import ConsoleApp, place_of
from slotkeeper.console.tui.services import Services
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.services import binlog_rows
from slotkeeper.core.sources.dws.words import WORDS
from slotkeeper.demo.warehouse import Warehouse
from tests.support.polling import config, job
from tests.support.standin import Surface, run, slot_points

TABLES = ("ods.orders", "ods.lines")
LOGGED = re.compile(r"^(\S+ \S+) UTC \[\d+\] (\w+)@(\w+) (\S*) LOG:  statement: (.*)$", re.MULTILINE)


@dataclass
class Place:
    """A warehouse that logs every statement, two tables with foreign slots, and a configured job that never ran."""

    warehouse: Warehouse
    loaded: Loaded
    began: int

    def slots(self) -> list[tuple[Any, ...]]:
        return slot_points(self.warehouse)

    def statements(self, program: str = "slotkeeper") -> list[tuple[float, str]]:
        """The statements of Slotkeeper's sessions and their times, from the server's own log."""
        text = self.warehouse.server.log_file.read_bytes()[self.began :].decode("utf-8", "replace")
        return [
            (datetime.fromisoformat(at).timestamp(), words)
            for at, _, database, name, words in LOGGED.findall(text)
            if database == self.warehouse.database
            and name.startswith(program)
            and not name.startswith("slotkeeper/embedded")
        ]


@pytest.fixture
def place(warehouse: Warehouse, tmp_path: Path) -> Iterator[Place]:
    surface = Surface(warehouse)
    for table in TABLES:
        warehouse.create_table(table, "id bigint, note text", ("id",))
        surface.start(table, "elsewhere")
        run(warehouse, f"INSERT INTO {table} SELECT g, 'x' FROM generate_series(1, 20) g")
    surface.close()
    source = replace(warehouse.endpoint(), name="dws1")
    sink = replace(warehouse.endpoint(), name="mart", database="postgres")  # so that the log distinguishes the two
    jobs = [job(f"job{n}", f"ours{n}", table, f"mart.t{n}") for n, table in enumerate(TABLES)]
    path = config(tmp_path, source, sink, *jobs)
    run(warehouse, f"ALTER DATABASE {warehouse.database} SET log_statement = 'all'")
    began = warehouse.server.log_file.stat().st_size
    yield Place(warehouse, load(path, {}), began)


async def _until(pilot: Pilot[int], condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, f"not within 120 s: {what}"
        await pilot.pause(0.05)


def test_every_screen_leaves_the_slots_alone_and_asks_at_most_one_thing_in_two_seconds(place: Place) -> None:
    before = place.slots()
    assert {row[1] for row in before} == {"elsewhere"}
    clock = SystemClock()
    loaded = place.loaded
    feed = Collector(Reader(loaded, loaded.state_dir, clock), SlotPoller(loaded, clock))
    app = ConsoleApp(Services(feed, clock, loaded, loaded.state_dir), place_of(loaded), live=False)

    async def do() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            for key in "1234567":
                await pilot.press(key)
                await pilot.pause()
            await pilot.press("3")
            await _until(pilot, lambda: len(app.shown.tables) == 2, "both tables are seen")
            for keys in (("enter",), ("h",), ("escape",), ("escape",), *((key,) for key in "1234567"), ("3",)):
                await pilot.press(*keys)
                await pilot.pause()
            counted = lambda: all(one.counted_at for one in app.shown.tables.values())  # noqa: E731
            await _until(pilot, counted, "unread rows are counted")

    asyncio.run(do())
    sent = place.statements()
    assert len(sent) >= 4 and all(words.startswith("SELECT") for _, words in sent)
    assert min(b - a for (a, _), (b, _) in itertools.pairwise(sent)) >= 1.95
    assert place.slots() == before
    unread = {table.slots.slots[0].unread for table in app.shown.tables.values() if table.slots}
    assert unread == {20}


def test_a_watch_sends_one_statement_a_turn_and_none_at_login(place: Place) -> None:
    slot_poller = binlog_rows.slot_poller(place.loaded, "dws1", SystemClock())
    turns = [slot_poller.turn() for _ in range(4)]
    slot_poller.close()
    assert [turn.error for turn in turns] == [None] * 4
    assert [turn.table for turn in turns] == [*sorted(TABLES), *sorted(TABLES)]
    seen = turns[-1].seen
    assert seen is not None and {slot.name: slot.unread for slot in seen.slots.slots} == {
        "elsewhere": 20,
        "ours0": None,
    }
    assert len(place.statements("slotkeeper-console/dws1")) == 4
    assert len(place.statements()) == 4


def test_an_older_kernel_is_asked_one_thing_at_a_time_too_and_what_it_cannot_tell_is_said(place: Place) -> None:
    run(
        place.warehouse,
        "DROP FUNCTION pg_catalog.pgxc_get_binlog_slots(text, integer)",
        "DROP FUNCTION pg_catalog.pgxc_get_binlog_consume_progress(text, integer)",
        settings=("SET allow_system_table_mods = on",),
    )
    slot_poller = binlog_rows.slot_poller(place.loaded, "dws1", SystemClock())
    turns = [slot_poller.turn() for _ in range(5)]
    slot_poller.close()
    assert [turn.error for turn in turns] == [None] * 5
    seen = turns[-1].seen
    assert seen is not None and seen.slots.untold == (WORDS.no_list, WORDS.no_count)
    assert [slot.exists for slot in seen.slots.slots] == [None]
    assert len(place.statements("slotkeeper-console/dws1")) == 5


def test_a_server_that_takes_too_long_is_left_after_three_seconds(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotkeeper.core.sources.dws.session.POLL_LIMIT_MS", 200)
    slot_poller = binlog_rows.slot_poller(place.loaded, "dws1", SystemClock())
    place.warehouse.dn_hanging("dn_2")
    try:
        late = slot_poller.turn()
        assert late.error is not None and "statement timeout" in late.error.message and not late.everywhere
    finally:
        place.warehouse.dn_hanging(None)
    assert [slot_poller.turn().error for _ in range(3)] == [None] * 3  # over the existing session
    slot_poller.close()
