"""Graphs of lag and rate: from the recorded frames, now and in history, in braille and in ASCII, at every size."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.monitor.history import SeriesReader
from slotkeeper.console.monitor.series import WHOLE, Wanted
from tests.tui.filled import NOW, Filled, drive, driven, lines, press, screen
from tests.tui.planted import until
from tests.tui.test_history_mode import recorded

MINUTE = timedelta(minutes=1)
READ = "max 9m"


def just_ended(folder: Path, ascii_only: bool = False) -> Filled:
    """`recorded` at the time of its last frame."""
    made = recorded(folder)
    made.app.ascii_only = ascii_only
    made.clock.at = NOW + 10 * MINUTE
    return made


def test_the_lines_of_a_job_are_what_was_recorded_and_unknown_elsewhere(tmp_path: Path) -> None:
    made = just_ended(tmp_path)
    reader = SeriesReader(made.store.folder.path, made.clock)
    wanted = Wanted("orders_rt", NOW + 9 * MINUTE, timedelta(hours=1), 120)
    found = reader.read(wanted)
    whole, slow = found.lines[WHOLE], found.lines["dn_2"]
    assert found.every == 30.0 and found.points == 120
    assert whole.rates[-5:] == (500.0,) * 5 and slow.rates[-1] == 0.0
    assert whole.lags[-1] is not None and 510 <= whole.lags[-1] <= 540
    assert whole.lags[:90] == (None,) * 90 and found.lines["dn_1"].lags[-1] == 0.0
    assert reader.read(wanted) == found


def test_a_gap_in_the_recording_draws_no_line(tmp_path: Path) -> None:
    made = recorded(tmp_path)
    reader = SeriesReader(made.store.folder.path, made.clock)
    found = reader.read(Wanted("stock_rt", NOW + 5 * MINUTE, timedelta(minutes=10), 120))
    assert found.lines[WHOLE].rates[-1] is None and found.lines[WHOLE].lags[-1] is None
    assert any(rate == 500.0 for rate in found.lines[WHOLE].rates)


@driven(just_ended)
async def test_h_shows_lag_and_rate_with_figures_times_and_what_happened(made: Filled, pilot: Pilot[int]) -> None:
    await until(pilot, made.app, "orders_rt")
    made.app.open("graphs", "orders_rt", "2")
    shown = await until(pilot, made.app, READ)
    assert "lag " in shown and "rate" in shown and "events/s" in shown and "UTC" in shown
    assert "failed: gave up" in shown and "X" in shown
    assert any("\u2581" <= character <= "\u2588" for character in shown)


@driven(lambda folder: just_ended(folder, ascii_only=True))
async def test_the_ascii_form_has_a_scale_with_units_times_and_letters(made: Filled, pilot: Pilot[int]) -> None:
    made.app.open("graphs", "orders_rt", "2")
    assert (await until(pilot, made.app, READ, "last 10 min")).isascii()
    await press(pilot, "t")
    shown = await until(pilot, made.app, READ, "last 1 h")
    assert shown.isascii()
    assert "10m|" in shown and "#" in shown and "no record" in shown and "+02:30" in shown


@driven(just_ended)
async def test_t_goes_through_the_spans_and_the_cursor_chooses_the_dn(made: Filled, pilot: Pilot[int]) -> None:
    made.app.open("graphs", "orders_rt", "2", "dn_1")
    await until(pilot, made.app, "Lag and rate of dn_1", "last 10 min")
    await press(pilot, "t", "t")
    await until(pilot, made.app, "last 6 h")
    await press(pilot, "t", "t")
    shown = await until(pilot, made.app, "last 10 min")
    assert "Lag and rate of dn_1" in shown
    await press(pilot, "g")
    await until(pilot, made.app, "all DNs, maximum lag")


@driven(recorded)
async def test_in_history_the_graphs_end_at_the_moment_that_is_shown(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "colon", *"at", "space", *"02:35", "enter")
    await until(pilot, made.app, "HISTORY 02:35:00Z")
    made.app.open("graphs", "orders_rt", "2")
    shown = await until(pilot, made.app, "to 02:35:00 UTC", "max 3m")
    assert "gave up" not in shown  # that happened later


@pytest.mark.parametrize("ascii_only", [False, True], ids=["utf8", "ascii"])
@pytest.mark.parametrize("size", [(60, 15), (80, 24), (100, 30), (132, 43), (200, 60)], ids=str)
def test_graphs_fill_the_width_and_nothing_is_cut(size: tuple[int, int], ascii_only: bool, tmp_path: Path) -> None:
    made = just_ended(tmp_path, ascii_only)

    async def do(pilot: Pilot[int]) -> None:
        made.app.open("graphs", "orders_rt", "2")
        await until(pilot, made.app, "all DNs", *([READ] if size[1] >= 24 else []))
        shown = lines(made.app)
        assert len(shown) == size[1] and all(len(line) == size[0] for line in shown)
        assert not ascii_only or screen(made.app).isascii()
        if size[1] >= 24:
            axis = [line for line in shown if "  UTC " in line[:8]]
            assert len(axis) == 1 and len(axis[0].rstrip()) >= size[0] - 1
            assert sum("0|" in line or "0\u2502" in line for line in shown) >= 2

    drive(made, do, size)
