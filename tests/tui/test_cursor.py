"""Whatever happens to the rows, the cursor stays on its row, and a key acts on the row that was shown."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.monitor.snapshot import Level
from tests.tui.filled import Filled, console, drive
from tests.tui.things import Things, thing, things

KEYS = [f"k{number}" for number in range(30)]


class Walk:
    """Random events on a table; `quarantined` is the key of the row on which the user placed the cursor."""

    def __init__(self, made: Filled, pilot: Pilot[int], shown: Things, chance: random.Random) -> None:
        self.made, self.pilot, self.shown, self.chance = made, pilot, shown, chance
        self.quarantined = self.seen()

    def seen(self) -> str | None:
        """The name that is shown in the cursor's row."""
        table = self.shown.table
        return table.words(table.cursor_row)[1].strip() if table.show_cursor else None

    async def update(self) -> None:
        """Add, remove and change rows."""
        keys = [key for key in KEYS if self.chance.random() < self.chance.choice((1.0, 0.8, 0.1))]
        self.chance.shuffle(keys)
        lags = (None, 1, 2, 3)
        levels = (Level.CRITICAL, Level.FINE)
        self.shown.given = [thing(key, self.chance.choice(lags), self.chance.choice(levels)) for key in keys]
        self.made.clock.at += timedelta(seconds=self.chance.choice((0, 1, 5)))
        self.shown.redraw()

    async def filter(self) -> None:
        """Set another filter, or none."""
        self.shown.wanted = self.chance.choice(("", "", "1", "!2", "k0"))
        self.shown.rearranged()

    async def order(self) -> None:
        """Sort, reverse the order, show only faults, or widen."""
        await self.pilot.press(self.chance.choice("sSZw"))

    async def move(self) -> None:
        """Move the cursor, or mark a row, which moves it too."""
        await self.pilot.press(self.chance.choice(("j", "k", "g", "G", "space", "pagedown")))
        self.quarantined = self.shown.table.cursor_key
        if self.shown.table.row_count == 0:
            self.quarantined = None

    async def act(self) -> None:
        """Check that Enter acts on the row under the cursor, and `a` on the marked rows, otherwise on that row."""
        seen, marked, before = self.seen(), self.shown.marked, len(self.shown.opened_keys)
        await self.pilot.press("a", "enter")
        await self.pilot.pause()
        assert self.shown.opened_keys[before:] == ([seen] if seen else [])
        meant = marked or ([seen] if seen else [])
        assert (self.shown.acted.pop() if meant else []) == meant
        assert self.shown.acted == []

    async def unmark(self) -> None:
        """Remove all marks."""
        await self.pilot.press("u")
        assert self.shown.marked == []

    def check(self) -> None:
        keys = self.shown.table.keys()
        if self.quarantined is None and keys and self.shown.table.show_cursor:
            self.quarantined = self.shown.table.cursor_key
        assert self.shown.table.cursor_key == (self.quarantined if self.quarantined in keys else None)
        assert self.seen() == self.shown.table.cursor_key
        assert sorted(keys) == sorted(row.key for row in self.shown.listed())


@pytest.mark.parametrize("steps", [300, pytest.param(1_000, marks=pytest.mark.chaos)])
def test_the_cursor_and_what_a_key_hits_survive_random_changes(steps: int, tmp_path: Path) -> None:
    seed = int(os.environ.get("SLOTKEEPER_SEED", random.randrange(2**32)))
    print("SLOTKEEPER_SEED", seed)
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        walk = Walk(made, pilot, await things(made, pilot), random.Random(seed))
        often: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (walk.update, 76),
            (walk.filter, 10),
            (walk.order, 4),
            (walk.move, 4),
            (walk.act, 3),
            (walk.unmark, 1),
        ]
        for _ in range(steps):
            step = walk.chance.choices([one for one, _ in often], [weight for _, weight in often])[0]
            await step()
            walk.check()

    drive(made, do)
