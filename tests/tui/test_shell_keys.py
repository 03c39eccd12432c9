"""Functions of every screen: messages, questions, arming, interval, theme, mouse, leaving."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from textual.css.query import NoMatches
from textual.pilot import Pilot

from slotkeeper.console.actions.runner import Order
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.base_app import MESSAGE_SECONDS
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.write_mode import FORBIDDEN
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from tests.tui.filled import Filled, console, drive, driven, press, screen
from tests.tui.planted import plant


def first_row(made: Filled) -> str:
    return screen(made.app).splitlines()[0]


def place(made: Filled) -> str:
    """The line with the current location, or with the last message."""
    return screen(made.app).splitlines()[-2]


async def typed(pilot: Pilot[int], text: str) -> None:
    """Type a command after a colon and run it."""
    await press(pilot, "colon", *("space" if one == " " else one for one in text), "enter")


async def later(made: Filled, pilot: Pilot[int], **time: int) -> None:
    made.clock.at += timedelta(**time)
    made.app.tick()
    await pilot.pause()


@driven()
async def test_a_message_stays_until_the_next_key_and_leaves_no_timer_behind(made: Filled, pilot: Pilot[int]) -> None:
    made.app.say("something \x1b[31mhappened", Level.WARNING)
    await pilot.pause()
    assert "something \\x1b[31mhappened" in place(made)
    assert [one._interval for one in made.app._timers] == [MESSAGE_SECONDS]
    await press(pilot, "j")
    assert "something" not in screen(made.app) and place(made).strip() == "Overview"
    assert [one for one in made.app._timers if one._task and not (one._task.done() or one._task.cancelling())] == []


@driven()
async def test_a_message_is_gone_when_its_time_is_over(made: Filled, pilot: Pilot[int]) -> None:
    made.app.say("something")
    made.app._forget()
    await pilot.pause()
    assert place(made).strip() == "Overview"


@pytest.mark.parametrize(("key", "done"), [("y", True), ("n", False), ("enter", False), ("escape", False)])
@driven()
async def test_only_y_says_yes_to_a_question_and_other_keys_do_nothing_else(
    made: Filled, pilot: Pilot[int], key: str, done: bool
) -> None:
    answers: list[str] = []
    made.app.ask("really?", lambda: answers.append("yes"))
    await pilot.pause()
    assert "really?" in place(made) and "y confirms" in place(made)
    await press(pilot, key)
    assert answers == (["yes"] if done else [])
    assert len(made.app.screen_stack) == 1 and "really?" not in screen(made.app)


def reason(made: Filled) -> str | None:
    """The reason that the console is armed for; None while it is read-only."""
    return made.app.armed.reason if made.app.armed is not None else None


@driven()
async def test_a_reason_arms_for_ten_minutes_which_are_counted_down_even_while_paused(
    made: Filled, pilot: Pilot[int]
) -> None:
    assert " read-only " in first_row(made) and reason(made) is None
    await typed(pilot, "rw INC-2304")
    assert reason(made) == "INC-2304"
    assert " WRITE 10:00 " in first_row(made)
    await later(made, pilot, seconds=19)
    assert " WRITE 9:41 " in first_row(made)
    await press(pilot, "f")
    await later(made, pilot, minutes=1)
    assert " WRITE 8:41 " in first_row(made) and "paused 02:31:27Z" in first_row(made)
    for _ in range(8):
        await press(pilot, "j")
        await later(made, pilot, minutes=1)
    assert " WRITE 0:41 " in first_row(made)
    await later(made, pilot, seconds=41)
    assert reason(made) is None and " read-only " in first_row(made) and "the ten minutes have ended" in place(made)


@driven()
async def test_five_minutes_without_a_key_disarm(made: Filled, pilot: Pilot[int]) -> None:
    await typed(pilot, "rw INC-2304")
    await later(made, pilot, minutes=4)
    await press(pilot, "j")
    await later(made, pilot, minutes=4, seconds=59)
    assert reason(made) == "INC-2304"
    made.clock.at += timedelta(seconds=1)
    assert reason(made) is None  # at once, not at the next tick
    made.app.tick()
    await pilot.pause()
    assert " read-only " in first_row(made) and "no key pressed for five minutes" in place(made)


@driven()
async def test_a_short_reason_does_not_arm_and_ro_disarms(made: Filled, pilot: Pilot[int]) -> None:
    await typed(pilot, "rw x")
    assert made.app.armed is None and "at least 3 characters" in place(made)
    await typed(pilot, "rw INC-2304")
    await typed(pilot, "ro")
    assert made.app.armed is None and " read-only " in first_row(made) and "read-only again" in place(made)


def audited(made: Filled) -> list[tuple[str, str]]:
    """The audit's lines about the console, oldest first: the phase, and the reason or the outcome."""
    lines = Audit(StateFolder.open(made.app.services.folder)).read().lines
    return [(one.phase.value, one.outcome or one.reason) for one in reversed(lines) if one.action == "console arm"]


def test_the_audit_has_each_arming_with_its_reason_and_how_it_ended(tmp_path: Path) -> None:
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        await typed(pilot, "rw x")
        await typed(pilot, "ro")
        assert audited(made) == []
        for text in ("rw INC-1", "rw INC-2", "ro", "rw INC-3"):
            await typed(pilot, text)
        await later(made, pilot, minutes=5)
        await typed(pilot, "rw INC-4")
        await press(pilot, "q", "y")

    drive(made, do)
    assert audited(made) == [
        ("intent", "INC-1"),
        ("outcome", "armed again"),
        ("intent", "INC-2"),
        ("outcome", "read-only again, requested"),
        ("intent", "INC-3"),
        ("outcome", "read-only again: no key pressed for five minutes"),
        ("intent", "INC-4"),
        ("outcome", "the console was closed"),
    ]
    assert not Audit(StateFolder.open(made.app.services.folder)).chain().broken


@driven()
async def test_an_audit_that_cannot_be_written_is_reported_when_the_console_is_armed(
    made: Filled, pilot: Pilot[int]
) -> None:
    file = Audit(StateFolder.open(made.app.services.folder)).file
    file.unlink()
    file.mkdir()
    await typed(pilot, "rw INC-1")
    assert reason(made) == "INC-1" and "armed for ten minutes; not audited: " in place(made)


def test_a_console_that_is_read_only_cannot_be_armed(tmp_path: Path) -> None:
    made = console(tmp_path)
    made.app.read_only = True

    async def do(pilot: Pilot[int]) -> None:
        await typed(pilot, "rw INC-2304")
        assert made.app.armed is None and FORBIDDEN[:60] in place(made)

    drive(made, do)


@driven()
async def test_plus_and_minus_change_how_often_the_store_is_read_and_when_values_are_stale(
    made: Filled, pilot: Pilot[int]
) -> None:
    seen = []
    for key in ("plus", "plus", "plus", "plus", "minus", "minus", "minus", "minus", "minus"):
        await press(pilot, key)
        seen.append(made.feed.every)
    assert seen == [5, 10, 30, 30, 10, 5, 2, 1, 1]
    assert "* 1s" in first_row(made) and "polling every 1 s" in place(made)
    await typed(pilot, "refresh 10")
    assert "* 10s" in first_row(made) and made.feed.every == 10
    await press(pilot, "r")
    await later(made, pilot, seconds=29)
    assert "STALE" not in first_row(made)
    await later(made, pilot, seconds=3)
    assert "STALE" in first_row(made)


@driven()
async def test_T_goes_through_the_themes_and_the_cursor_stays(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "j")
    before, worn = screen(made.app).splitlines()[:-2], []
    for _ in range(5):
        await press(pilot, "T")
        worn.append(made.app.theme)
        assert screen(made.app).splitlines()[:-2] == before
    assert worn == [f"slotkeeper-{name}" for name in ("light", "contrast", "ansi", "mono", "dark")]
    await typed(pilot, "theme light")
    assert made.app.theme == "slotkeeper-light"
    await typed(pilot, "theme pink")
    assert made.app.theme == "slotkeeper-light" and "one of dark, light, contrast, ansi, mono" in place(made)


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_severity_of_the_row_under_the_cursor_keeps_its_colour(width: int, tmp_path: Path) -> None:
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        for theme in ("slotkeeper-dark", "slotkeeper-light", "slotkeeper-contrast", "slotkeeper-ansi"):
            made.app.wear(theme)
            await pilot.pause()
            row = made.app.screen.query_one("#table").region.y + 1
            strip = made.app.screen._compositor.render_strips()[row]
            glyph = next(one for one in strip if one.text.startswith("\u2716"))
            name = next(one for one in strip if "st" in one.text)
            assert glyph.style is not None and name.style is not None
            assert glyph.style.color != name.style.color and glyph.style.bgcolor == name.style.bgcolor

    drive(made, do, (width, 24))


@driven()
async def test_m_says_where_there_is_no_mouse(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "m")
    assert "does not support the mouse" in place(made)


@driven()
async def test_q_leaves_at_once_where_nothing_would_be_lost(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "q")
    assert not made.app.is_running


@pytest.mark.parametrize("key", ["q", "ctrl+q"])
def test_q_asks_where_something_runs_or_is_armed(key: str, tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        id = made.app.services.runs.start(Order(("jobs", "restart", "orders_rt"), "restart of orders_rt", "orders_rt"))
        await press(pilot, key)
        assert "restart of orders_rt: quit anyway?" in place(made)
        await press(pilot, "q")
        assert made.app.is_running and "leave?" not in screen(made.app)
        runs.end(id, 0, {})
        await typed(pilot, "rw INC-2304")
        await press(pilot, key)
        assert "changes are armed" in place(made)
        await press(pilot, "y")
        assert not made.app.is_running

    drive(made, do)


@driven()
async def test_ctrl_c_never_quits_and_says_what_does(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "ctrl+c", "ctrl+c")
    assert made.app.is_running and "q quits, y copies" in place(made)


def test_a_selection_is_copied_where_y_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        made.app.screen.query_one("#crumb").text_select_all()
        await pilot.pause()
        await press(pilot, "ctrl+c")
        await made.app.workers.wait_for_complete()
        await pilot.pause()
        assert (made.app.services.folder / "clip.txt").read_text("utf-8").strip() == "Overview"
        assert "copied" in place(made)

    drive(made, do)


def test_a_screen_that_is_closed_while_it_opens_causes_no_error(tmp_path: Path) -> None:
    """The screen gets no widgets, receives its mount event anyway, and finds none of them."""
    made = console(tmp_path)

    async def while_it_runs(pilot: Pilot[int]) -> None:
        with pytest.raises(NoMatches):
            made.app.screen.query_one("#nowhere")

    drive(made, while_it_runs)
    made.app._handle_exception(NoMatches("No nodes match Input"))  # Textual does so while the console is closing
    assert made.app.defect is None
    made.app._handle_exception(ValueError("else"))
    assert isinstance(made.app.defect, ValueError)


@pytest.mark.parametrize(("critical", "role"), [(True, "crit"), (False, "warn")])
def test_the_counts_of_the_tabs_have_the_colour_of_the_worst(critical: bool, role: str, tmp_path: Path) -> None:
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        frame = made.app.screen
        assert isinstance(frame, Frame)
        made.app.counts, made.app.critical = {"6": 4, "4": 1}, {"job_failed"} if critical else set()
        tabs = frame._tabs()
        styles = [(tabs.plain[span.start : span.end], str(span.style)) for span in tabs.spans]
        badges = [style for (label, _), (_, style) in pairwise(styles) if label in ("Alerts", "Errors")]
        assert badges == [str(frame.style("warn-word")), str(frame.style(f"{role}-word"))]
        assert str(frame.style("crit")) != str(frame.style("warn")) != str(frame.style("dim"))

    drive(made, do)
