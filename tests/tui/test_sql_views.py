"""The screen of SQL views: which view has a fault, since when, why, and what to do; a rebuild needs a confirmation."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.core.domain.views import ViewReport
from tests.tui.filled import LARGE, NOW, SMALL, Filled, begin, console, drive, flowing, lane, lines, press, screen
from tests.tui.planted import arm, plant, until
from tests.tui.test_goldens import like_its_golden

AT = NOW.timestamp()
VIEWS = (
    ViewReport(
        "dwd.orders_wide", "RUNNING", AT - 9_000, "", "recompute", 121_406, 214, AT - 1.4, AT, 90_441, 148, "equal",
        AT - 700,
    ),
    ViewReport("dws.sales", "RUNNING", AT - 9_000, "", "delta", 16, 0, AT, AT, 61_004, 9, "equal", AT - 700),
    ViewReport("dws.regions", "BUILDING", AT - 12, "", "recompute", 7, 90, AT - 20, AT, 4_100, 61),
    ViewReport(
        "dws.by_sku", "FAILED", AT - 240, 'its SELECT fails: 42703 column l.sku does not exist; correct its `sql`', "",
    ),
    ViewReport(
        "dws.by_day", "STALE", AT - 41, "a capture trigger on mart.orders is disabled", "delta", 31, 400, AT - 41, AT,
        4, 12, "2 different", AT - 3_900,
    ),
)  # fmt: skip
SIZES = [SMALL, LARGE, (160, 45), (60, 15)]


def with_views(folder: Path) -> Filled:
    made = console(folder, filled=False)
    begin(made.store, "orders_rt", lane("dn_1", 88_512_330), views=VIEWS)
    begin(made.store, "stock_rt", lane("dn_1", 88_120_441), living=False, views=VIEWS[1:2])
    made.clock.at += timedelta(seconds=1)
    return made


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_views_look_like_their_golden(size: tuple[int, int], tmp_path: Path) -> None:
    made = with_views(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "V")
        like_its_golden("views", lines(made.app), size)

    drive(made, do, size)


def test_the_worst_view_is_first_with_its_action_and_a_key_builds_it_again_after_a_confirmation(tmp_path: Path) -> None:
    made = with_views(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "V")
        shown = flowing(screen(made.app))
        assert "1 of 2 \u00b7 view dws.by_day: its last comparison with its SELECT: 2 different" in shown
        assert "Action rebuild [b]" in shown and "STALE for 42s: a capture trigger on mart.orders is" in shown
        await press(pilot, "b", "y")
        assert "read-only" in screen(made.app) and not runs.orders
        await arm(pilot, made.app)
        await press(pilot, "y")
        await until(pilot, made.app, "rebuild view")

    drive(made, do)
    (order,) = runs.orders
    assert order.words[-2:] == ("orders_rt", "dws.by_day") and "--reason=INC-2304" in order.words


def test_a_console_without_views_says_how_to_add_one(tmp_path: Path) -> None:
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "V")
        assert "[[jobs.X.views]]" in flowing(screen(made.app))

    drive(made, do)
