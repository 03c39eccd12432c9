"""Own commands by their keys, and contexts: confirmed first, disabled while read-only, hostile names made visible."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.actions.own import Context, Own
from slotkeeper.console.actions.record import Said
from slotkeeper.console.actions.runner import OWN
from slotkeeper.console.cli.context import NOTE, Invocation
from slotkeeper.console.tui import app, own
from slotkeeper.console.tui.screens.actions.base import Sheet
from slotkeeper.console.tui.screens.actions.menu import JobMenu
from slotkeeper.console.tui.screens.actions.own import OwnConfirm, OwnProgress
from slotkeeper.console.tui.screens.actions.progress import MOST_LINES, OutputScreen
from tests.tui.filled import Filled, console, drive, driven, press, screen
from tests.tui.planted import arm, plant, typed, until, until_asked

COMMANDS = """
[[command]]
name = "show"
key = "f5"
run = ["/usr/bin/printenv", "JOB", "a b"]
[[command]]
name = "pauses"
key = "p"
run = ["true"]
[contexts]
broken = {config = "/nowhere/c.toml"}
"""


def with_file(folder: Path, text: str = COMMANDS, mode: int = 0o600) -> Filled:
    made = console(folder)
    (folder / "config").mkdir(mode=0o700)
    file = made.app.services.own_file = folder / "config" / "console.toml"
    file.write_text(text)
    file.chmod(mode)
    return made


async def loaded(made: Filled, pilot: Pilot[int]) -> None:
    made.app.load_own()
    await until_asked(pilot, lambda: made.app.own is not None)


@driven(with_file)
async def test_a_key_asks_first_and_runs_the_list_for_the_row_only_while_armed(made: Filled, pilot: Pilot[int]) -> None:
    runs = plant(made)
    await loaded(made, pilot)
    assert "pauses: key p is already used (pause job); ignored" in screen(made.app)
    await press(pilot, "f5")
    shown = screen(made.app)
    assert isinstance(made.app.screen, OwnConfirm)
    assert "/usr/bin/printenv JOB 'a b'" in shown and "JOB     stock_rt" in shown
    await press(pilot, "y")
    assert "read-only: `:rw REASON`" in screen(made.app) and not runs.orders
    await press(pilot, "escape")
    await arm(pilot, made.app)
    await press(pilot, "f5", "y")
    (order,) = runs.orders
    assert order.program == OWN and order.shown == ("/usr/bin/printenv", "JOB", "a b") and order.key == "stock_rt"
    assert made.app.own is not None and (shown_one := made.app.own.command("show")) is not None
    assert order.words[2:6] == ("show", shown_one.mark, "INC-2304", "JOB=stock_rt") and order.words[-1] == "DN="
    assert isinstance(made.app.screen, OwnProgress)
    id = list(runs.actions)[-1]
    runs.outputs[id] = Said("first \x1b[31mred\x1b]0;title\x07\nsecond\n", "")
    shown = await until(pilot, made.app, "second")
    assert "\x1b" not in shown and "\\x1b[31mred" in shown
    await press(pilot, "c")
    assert runs.cancelled == [id]
    runs.end(id, 7, None)
    await until(pilot, made.app, "exit 7")


@driven(with_file)
async def test_it_can_be_typed_and_does_nothing_over_a_form_or_without_a_row(made: Filled, pilot: Pilot[int]) -> None:
    runs = plant(made)
    await loaded(made, pilot)
    await press(pilot, "7", "f5")
    assert "no row of a job or slot is selected" in screen(made.app)
    await press(pilot, "2", "space", "space", "f5")
    assert "select one row only" in screen(made.app)
    await press(pilot, "u", "a", "f5")
    assert isinstance(made.app.screen, JobMenu)
    await press(pilot, "escape", "colon")
    await typed(pilot, "own show")
    await press(pilot, "enter")
    assert isinstance(made.app.screen, OwnConfirm) and not runs.orders


@driven(lambda folder: with_file(folder, mode=0o644))
async def test_a_file_that_others_can_read_binds_no_key_and_says_so(made: Filled, pilot: Pilot[int]) -> None:
    await loaded(made, pilot)
    assert "is accessible to other users (mode 0644)" in screen(made.app)
    await press(pilot, "f5")
    assert not isinstance(made.app.screen, OwnConfirm)


@driven(with_file)
async def test_help_lists_own_commands(made: Filled, pilot: Pilot[int]) -> None:
    await loaded(made, pilot)
    await press(pilot, "question_mark")
    await typed(pilot, "printenv")
    assert "show: /usr/bin/printenv" in screen(made.app) and " f5 " in screen(made.app)
    await press(pilot, "enter")
    assert isinstance(made.app.screen, OwnConfirm)


@driven(with_file)
async def test_a_context_that_cannot_be_opened_is_said_and_nothing_is_left(made: Filled, pilot: Pilot[int]) -> None:
    await loaded(made, pilot)
    for name, said in {"broken": "cannot open context broken:", "nosuch": "unknown context nosuch"}.items():
        await press(pilot, "colon")
        await typed(pilot, f"context {name}")
        await press(pilot, "enter")
        assert said in screen(made.app) and made.app.next_context is None and made.app.is_running


def test_contexts_are_found_in_the_usual_places_and_those_of_the_file_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_file(tmp_path)
    config, shared, state = tmp_path / "config" / "slotkeeper", tmp_path / "etc", tmp_path / "state"
    for folder in (config, shared, state / "slotkeeper"):
        folder.mkdir(parents=True, mode=0o700)
    for file in (config / "config.toml", config / "prod.toml", config / "console.toml", config / "\x1b[31m.toml"):
        file.write_text("")
    (shared / "prod.toml").write_text("")
    (shared / "team.toml").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setattr(own, "SHARED", shared)
    assert {name: one.config for name, one in own.contexts(made.app).items()} == {
        "default": config / "config.toml", "prod": config / "prod.toml", "team": shared / "team.toml", "local": None,
    }  # fmt: skip
    made.app.own = Own(contexts=(Context("prod", Path("/mine.toml")),))
    assert own.contexts(made.app)["prod"].config == Path("/mine.toml")
    monkeypatch.setattr(own, "SHARED", tmp_path / "absent")
    (state / "slotkeeper").chmod(0o777)
    assert "is writable by other users" in own.fault_of(own.contexts(made.app)["local"])
    assert own.fault_of(Context("x", state_dir=tmp_path / "absent")).endswith("absent does not exist")
    assert own.fault_of(Context("x", config=tmp_path / "absent.toml"))


def test_another_context_is_opened_after_forms_are_closed_and_is_read_only(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    made = with_file(tmp_path, f'[contexts]\nlab = {{state_dir = "{other}"}}\n')
    plant(made)

    def chosen() -> Context | None:
        return made.app.next_context

    async def do(pilot: Pilot[int]) -> None:
        await loaded(made, pilot)
        await arm(pilot, made.app)
        await press(pilot, "a", "r")
        made.app.open_context("lab")
        assert not chosen() and own.OPEN_FORM in screen(made.app)
        await press(pilot, "escape", "escape")
        await press(pilot, "colon")
        await typed(pilot, "context lab")
        await press(pilot, "enter")
        assert chosen() and made.app.armed is None

    drive(made, do)
    assert chosen() == Context("lab", state_dir=other)


@driven(with_file)
async def test_the_output_of_a_program_that_wrote_hundreds_of_thousands_of_lines_shows_the_last_ones(
    made: Filled, pilot: Pilot[int]
) -> None:
    runs = plant(made)
    await loaded(made, pilot)
    await arm(pilot, made.app)
    await press(pilot, "f5", "y")
    id = list(runs.actions)[-1]
    runs.end(id, 0, None, "\n" * 3_000)
    runs.outputs[id] = Said("\n" * 300_000 + "last\n", "\n" * 3_000)
    made.app.push_screen(OutputScreen(id))
    shown = await until(pilot, made.app, "1,000 earlier lines", f"{id}.err")
    await press(pilot, "end")
    assert "stdout   last" in screen(made.app) and "298,001 earlier lines" not in shown
    sheet = made.app.screen.query_one(Sheet)
    assert len(sheet._lines) < 3 * MOST_LINES


def test_what_one_place_says_to_do_is_not_said_in_the_context_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str | None] = []

    def opened(shared: Invocation, state_dir: Path | None) -> tuple[int, Context | None]:
        said.append(shared.env.get(NOTE))
        return 0, Context("prod", Path("/prod.toml")) if len(said) == 1 else None

    monkeypatch.setattr(app, "_opened", opened)
    assert app.open_console(Invocation(env={NOTE: "Demo\nslotkeeper slots reset t s", "HOME": "/h"})) == 0
    assert said == ["Demo\nslotkeeper slots reset t s", None]
