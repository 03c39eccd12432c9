"""The cursor stays on its row, whatever happens to the rows."""

from __future__ import annotations

import asyncio
import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.geometry import Region

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.theme import DARK
from slotkeeper.console.tui.widgets.live_table import LiveTable
from slotkeeper.console.views.rows import Column, Row

NARROW = (Column("mark", "", 1), Column("name", "NAME", 10), Column("value", "VALUE", 6, right=True))
WIDE = (*NARROW, Column("more", "MORE", 8))
STEPS = 200


class _OneTable(App[None]):
    def compose(self) -> ComposeResult:
        self.register_theme(DARK)
        self.theme = DARK.name
        yield LiveTable(id="table")


def _row(key: str, value: int) -> Row:
    level = Level.CRITICAL if value % 3 == 0 else Level.FINE
    return Row(key, level, {"mark": level.value, "name": key, "value": str(value), "more": str(value * 2)})


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_the_cursor_keeps_its_key_through_updates_sorts_and_filters(seed: int) -> None:
    chance = random.Random(seed)

    async def run() -> None:
        app = _OneTable()
        async with app.run_test(size=(40, 12)) as pilot:
            table = app.query_one(LiveTable)
            quarantined: str | None = None
            for step in range(STEPS):
                keys = [f"k{n}" for n in range(25) if chance.random() < chance.choice((1.0, 0.9, 0.2))]
                chance.shuffle(keys)
                rows = [_row(key, chance.randrange(6)) for key in keys]
                table.show(rows, chance.choice((NARROW, NARROW, NARROW, WIDE)))
                quarantined = quarantined or (keys[0] if keys else None)
                assert table.keys() == keys
                assert table.cursor_key == (quarantined if quarantined in keys else None)
                if table.cursor_key is not None:
                    assert table.keys()[table.cursor_row] == quarantined
                assert table.show_cursor is (table.cursor_key is not None)
                assert [table.words(place)[1].strip() for place in range(table.row_count)] == keys
                if step % 20 == 19:
                    await pilot.press(chance.choice("jkgG"))
                    if keys:
                        quarantined = table.cursor_key
                        assert quarantined in keys

    asyncio.run(run())


def test_only_cells_that_differ_are_drawn() -> None:
    async def run() -> None:
        app = _OneTable()
        async with app.run_test(size=(40, 12)) as pilot:
            table = app.query_one(LiveTable)
            table.show([_row(f"k{n}", 1) for n in range(8)], NARROW)
            await pilot.pause()
            drawn: list[object] = []
            real = table.refresh

            def counted(*regions: Region, **how: bool) -> LiveTable:
                drawn.append(regions)
                return real(*regions, **how)

            table.refresh = counted  # type: ignore[method-assign]  # counts what is drawn
            table.show([_row(f"k{n}", 2 if n == 3 else 1) for n in range(8)], NARROW)
            assert len(drawn) == 1
            drawn.clear()
            table.show([_row(f"k{n}", 2 if n == 3 else 1) for n in range(8)], NARROW)
            assert drawn == []

    asyncio.run(run())


def test_enter_opens_the_key_of_the_key_press_and_nothing_where_there_is_none() -> None:
    opened: list[str] = []

    class App2(_OneTable):
        def on_live_table_opened(self, message: LiveTable.Opened) -> None:
            opened.append(message.key)

    async def run() -> None:
        app = App2()
        async with app.run_test(size=(40, 12)) as pilot:
            table = app.query_one(LiveTable)
            table.focus()
            table.show([_row("a", 1), _row("b", 1)], NARROW)
            await pilot.press("j")
            table.show([_row("b", 1), _row("a", 1)], NARROW)
            await pilot.press("enter")
            table.show([_row("a", 1)], NARROW)
            await pilot.press("enter")
            await pilot.pause()

    asyncio.run(run())
    assert opened == ["b"]
