"""The screens Errors and Alerts: their contents and their keys."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from slotkeeper.console.tui.widgets.live_table import LiveTable
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.state.alerts import AckFile
from slotkeeper.core.state.folder import StateFolder
from tests.tui.filled import Filled, begin, console, driven, flowing, lane, press, screen


def _acks(made: Filled) -> dict[str, str]:
    return {key: ack.by for key, ack in AckFile(StateFolder.open(made.app.services.folder)).read().items()}


@driven()
async def test_errors_say_what_became_of_them_and_what_is_known(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "4")
    shown = screen(made.app)
    assert "Errors 1   1 kind, 1 occurrence" in shown
    assert "fatal" in shown and "slotkeeper verify stock_rt" in shown


@driven()
async def test_enter_on_an_error_opens_its_job_and_escape_comes_back(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "4", "enter")
    assert getattr(made.app.screen, "job", "") == "stock_rt"
    await press(pilot, "escape")
    assert "Errors 1" in screen(made.app)


@driven()
async def test_an_error_is_acknowledged_for_every_console_and_taken_back(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "4", "x")
    assert len(_acks(made)) == 1
    assert "acked" in screen(made.app)
    await press(pilot, "u")
    assert _acks(made) == {}
    assert "acked" not in screen(made.app)


@driven()
async def test_alerts_fire_worst_first_and_enter_opens_the_thing(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "6", "r")
    shown = screen(made.app).splitlines()
    assert [line.split()[3] for line in shown if line[2:].startswith(("\u2716 crit", "\u25b2 warn"))][:3] == [
        "job_failed",
        "slot_ttl",
        "dn_fails",
    ]
    await press(pilot, "enter")
    assert getattr(made.app.screen, "job", "") == "stock_rt"
    await press(pilot, "escape", "j", "enter")
    assert "orders_slot" in getattr(made.app.screen, "key", "")


@driven()
async def test_an_alert_that_is_acknowledged_or_silent_counts_no_more(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "6", "r")
    assert "4 firing, 0 acknowledged, 0 silenced" in screen(made.app)
    await press(pilot, "x")
    assert "3 firing, 1 acknowledged, 0 silenced" in screen(made.app)
    await press(pilot, "u", "n")
    assert "3 firing, 0 acknowledged, 1 silenced" in screen(made.app)
    assert "silent 1h00m" in screen(made.app)


@driven()
async def test_what_became_of_a_chosen_alert_that_ended_is_said(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "6", "r")
    made.store.register_job("stock_rt", "/etc/c.toml")
    made.store.set_state("stock_rt", JobState.STOPPED)
    await press(pilot, "r")
    assert "the selected alert has ended; j or k selects another" in screen(made.app)
    await press(pilot, "j")
    assert "has ended" not in screen(made.app)


@driven()
async def test_printed_commands_name_the_configuration_that_was_typed(made: Filled, pilot: Pilot[int]) -> None:
    made.app.services.config = "/srv/my etl/c.toml"
    await press(pilot, "4")
    assert "slotkeeper --config '/srv/my etl/c.toml' verify stock_rt" in flowing(screen(made.app))


def _several_errors(folder: Path) -> Filled:
    """A job that has recovered has the newest error, one that has FAILED an older one."""
    made = console(folder)
    begin(made.store, "healed_rt", lane("dn_1", 88_512_330))
    made.store.record_error("healed_rt", "sink", "40P01", "deadlock detected")
    return made


@driven(_several_errors)
async def test_the_worst_error_is_chosen_at_once_and_a_row_stays_chosen(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "4")
    table = made.app.screen.query_one(LiveTable)
    assert table.row_count == 2 and "fatal" in " ".join(table.words(0)) and table.cursor_row == 0
    chosen = table.cursor_key
    for key in ("Z", "Z", "slash", "S", "escape", "escape"):
        await press(pilot, key)
        assert table.cursor_key == chosen is not None, key
    assert "no row is selected" not in screen(made.app) and "SLOT LOST" in screen(made.app)


@driven()
async def test_the_panel_tells_the_fault_of_the_verdict_if_no_job_has_it(made: Filled, pilot: Pilot[int]) -> None:
    with (made.app.services.folder / "audit.jsonl").open("a") as audit:
        audit.write("no line of an audit\n")
    await press(pilot, "1", "r")
    for _ in made.app.shown.local.faults:
        await press(pilot, "z")
        panel = screen(made.app).partition("\u2570")[2]
        if "of the audit cannot" in panel:
            break
    assert "Problem  this host: 1 line of the audit cannot be read" in panel
    await press(pilot, "y")
    assert "slotkeeper audit verify" in made.app.clipboard
    await press(pilot, "j")
    assert "of the audit cannot" not in screen(made.app).partition("\u2570")[2]
