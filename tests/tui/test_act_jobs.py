"""Actions on jobs: the number of keys, the questions, the observed results, and keys without effect."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from slotkeeper.console.actions.record import Said
from slotkeeper.console.actions.runner import Order
from slotkeeper.console.tui.app import ConsoleApp
from slotkeeper.console.tui.screens.actions.confirm import JobConfirm
from slotkeeper.console.tui.screens.actions.menu import JobMenu
from slotkeeper.console.tui.screens.actions.progress import ActionsScreen
from slotkeeper.console.tui.screens.jobs import OverviewScreen
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobReport
from tests.tui.filled import console, drive, on_screen, press, screen
from tests.tui.planted import arm, plant, typed, until


def words(order: Order) -> list[str]:
    return list(order.words[1:])


def retained(app: ConsoleApp, key: str) -> None:
    assert isinstance(app.screen, TableScreen)
    app.screen.table.move_to(key)


@pytest.mark.parametrize("first", [[], ["2"]])
def test_a_job_is_restarted_with_three_keys_from_its_row(first: list[str], tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await press(pilot, *first)
        retained(made.app, "orders_rt")
        await press(pilot, "a", "r", "y")
        assert [words(one) for one in runs.done] == [["jobs", "restart", "--json", "--reason=INC-2304", "orders_rt"]]
        assert runs.done[0].words[0] == f"--config={tmp_path / 'c.toml'}"

    drive(made, do)


KEYS: dict[str, object] = {key: {"count": 0, "keys": []} for key in ("extra", "different", "unsettled", "quarantined")}
FIGURES = {**KEYS, "rows_source": 2_952, "rows_sink": 2_950, "seconds": 1.25, "verdict": "different"}
MISSING = {"missing": {"count": 2, "keys": [["7", "\x1b[31m"], ["8", "b"]]}}


@pytest.mark.parametrize("several", [False, True], ids=["one table", "several"])
def test_a_job_is_verified_from_its_menu_without_being_armed(several: bool, tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)
    one = {**FIGURES, **MISSING, "job": "orders_rt", "equal": False, "job_runs": True}
    found = {**one, "channels": [{**FIGURES, **MISSING, "from": "ods.a", "into": "m.a"}]} if several else one

    async def do(pilot: Pilot[int]) -> None:
        retained(made.app, "orders_rt")
        await press(pilot, "a", "v")
        assert [words(one) for one in runs.done] == [["verify", "--json", "orders_rt"]]
        runs.end(list(runs.actions)[-1], 4, found)
        shown = await until(pilot, made.app, "2,952 rows in the source, 2,950 in the sink, 1.2 s")
        assert "different   at " in shown and "2 missing: (7, \\x1b[31m), (8, b)" in shown
        assert ("ods.a: 2,952 rows" in shown) is several

    drive(made, do)


@pytest.mark.parametrize(
    ("job", "key", "verb"),
    [
        ("orders_rt", "s", "stop"),
        ("orders_rt", "p", "pause"),
        ("orders_rt", "t", "retry"),
        ("paused_rt", "t", ""),
        ("orders_rt", "d", "drain"),
        ("paused_rt", "p", "resume"),
        ("second", "g", "start"),
        ("stock_rt", "s", ""),
        ("orders_rt", "g", ""),
        ("orders_rt", "c", ""),
        ("legacy_rt", "g", ""),
    ],
)
def test_each_letter_of_the_menu_does_its_verb_or_says_why_not(job: str, key: str, verb: str, tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)
    from tests.tui.filled import begin, lane

    begin(made.store, "paused_rt", lane("dn_1", 5), state="PAUSED")

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await press(pilot, "r")
        retained(made.app, job)
        await press(pilot, "a", key)
        if verb:
            await press(pilot, "y")
            assert [words(one)[1] for one in runs.done] == [verb] and words(runs.done[0])[-1] == job
        else:
            assert isinstance(made.app.screen, JobMenu) and not runs.orders
            assert f" {key}: " in screen(made.app).splitlines()[-2]

    drive(made, do)


@pytest.mark.parametrize(("job", "verb"), [("orders_rt", "pause"), ("paused_rt", "resume")])
def test_p_asks_before_it_pauses_or_resumes_the_job_of_the_row(job: str, verb: str, tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)
    from tests.tui.filled import begin, lane

    begin(made.store, "paused_rt", lane("dn_1", 5), state="PAUSED")

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "r")
        retained(made.app, job)
        await press(pilot, "p")
        assert isinstance(made.app.screen, JobConfirm) and not runs.orders and not made.app.paused
        shown = screen(made.app)
        assert f"{verb.upper()} JOB {job}" in shown and "f freezes the screen" in shown
        await press(pilot, "enter", "p")
        assert not runs.orders
        await press(pilot, "y")
        assert not runs.orders and "read-only: `:rw REASON`" in screen(made.app)
        await press(pilot, "escape")
        await arm(pilot, made.app)
        await press(pilot, "p", "y")
        assert [words(one)[1] for one in runs.done] == [verb] and words(runs.done[0])[-1] == job

    drive(made, do)


def test_p_where_no_job_is_chosen_does_nothing_and_names_f(tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "7", "p")
        assert "no job is selected: p pauses a job, f freezes the screen" in screen(made.app)
        await press(pilot, "1", "f")
        assert made.app.paused and "p pause job" in screen(made.app) and "f freeze" in screen(made.app)
        assert not runs.orders

    drive(made, do)


def test_a_read_only_console_rehearses_and_does_nothing(tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        retained(made.app, "orders_rt")
        await press(pilot, "a")
        assert ":rw REASON" in screen(made.app)
        await press(pilot, "r")
        assert "RESTART JOB orders_rt   PROD" in screen(made.app)
        await press(pilot, "y")
        assert "read-only: `:rw REASON` allows changes for ten minutes" in screen(made.app)
        assert isinstance(made.app.screen, JobConfirm) and not runs.orders

    drive(made, do)


def test_enter_cancels_and_never_confirms(tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        retained(made.app, "orders_rt")
        await press(pilot, "a", "r", "r")  # the letter that started the action does not confirm it
        assert isinstance(made.app.screen, JobConfirm)
        await press(pilot, "enter")
        on_screen(made.app, OverviewScreen)
        await press(pilot, "a", "r", "tab", "enter")
        assert "press y to confirm; Enter has no effect" in screen(made.app)
        assert not runs.orders
        await press(pilot, "y", "enter", "enter", "y")
        assert len(runs.orders) == 1

    drive(made, do)


def test_the_job_that_was_shown_at_the_key_press_is_acted_upon_though_rows_move(tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        retained(made.app, "orders_rt")
        await press(pilot, "a")
        made.store.set_state("ledger_full", JobState.FAILED, "broken", "SINK OLDER", "")
        made.app.action_renew()
        await press(pilot, "r")
        made.store.set_state("orders_rt", JobState.FAILED, "broken", "SINK OLDER", "")
        made.app.action_renew()
        await press(pilot, "y")
        assert [words(one)[-1] for one in runs.done] == ["orders_rt"]

    drive(made, do)


def test_requested_and_observed_are_shown_while_it_is_on_its_way_and_after(tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        retained(made.app, "orders_rt")
        await press(pilot, "a", "s", "y")
        assert "orders_rt: requested STOPPED, now RUNNING" in screen(made.app)
        runs.end(next(iter(runs.actions)), 0, {"job": "orders_rt", "state": "STOPPED"})
        shown = await until(pilot, made.app, "observed STOPPED")
        assert "orders_rt: requested STOPPED, observed STOPPED at 02:31:14Z, 6.2 s" in shown
        assert "orders_rt is now RUNNING" not in shown, "the store was read before the command ended"
        made.clock.at += timedelta(seconds=10)
        made.app.action_renew()
        await until(pilot, made.app, "orders_rt is now RUNNING")

    drive(made, do)


@pytest.mark.parametrize(
    ("code", "err", "expected"),
    [
        (
            1,
            "slotkeeper: orders_rt: RUNNING\nslotkeeper: job orders_rt: stop was requested, but it is RUNNING"
            "\n  the request remains; `slotkeeper jobs show orders_rt` shows when it takes effect\n",
            ["observed RUNNING after 30.0 s: not applied yet", "next: the request remains"],
        ),
        (
            3,
            "slotkeeper: job orders_rt was started on another host\n  check that host\n",
            ["refused", "another host", "check that"],
        ),
        (-9, "", ["observed RUNNING after 30.0 s"]),
    ],
)
def test_an_action_without_effect_is_reported_with_the_next_action(
    code: int, err: str, expected: list[str], tmp_path: Path
) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        retained(made.app, "orders_rt")
        await press(pilot, "a", "s", "y")
        runs.end(next(iter(runs.actions)), code, None, err, seconds=30)
        await until(pilot, made.app, *expected)
        assert "success" not in screen(made.app) and "done" not in screen(made.app)

    drive(made, do)


def test_leaving_ends_nothing_and_the_list_shows_it(tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        retained(made.app, "orders_rt")
        await press(pilot, "a", "r", "y", "escape")
        assert "the action continues; `:actions` shows it" in screen(made.app)
        made.app.open("actions")
        await until(pilot, made.app, "restart job orders_rt", "running")
        assert isinstance(made.app.screen, ActionsScreen)
        runs.end(next(iter(runs.actions)), 3, None, "slotkeeper: not now\n")
        made.app.action_renew()
        shown = await until(pilot, made.app, "refused: not now")
        assert "by       li.wei@host1" in shown and "--config=" in shown
        await press(pilot, "enter")
        assert "stderr   slotkeeper: not now" in screen(made.app) and "exit 3" in screen(made.app)
        await press(pilot, "escape", "escape")
        on_screen(made.app, OverviewScreen)
        await press(pilot, "a", "o")
        on_screen(made.app, ActionsScreen)

    drive(made, do)


def test_several_jobs_are_stopped_only_when_their_number_is_typed(tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        for job in ("orders_rt", "invoice_rt", "ledger_full"):
            retained(made.app, job)
            await press(pilot, "space")
        await press(pilot, "a", "r")
        assert "r: one job at a time; press u to unmark" in screen(made.app)
        await press(pilot, "s", "y")
        assert isinstance(made.app.screen, JobConfirm) and not runs.orders, (
            "`y` does not confirm an action on several jobs"
        )
        await press(pilot, "backspace", "2", "enter", "enter")
        assert "still required: number" in screen(made.app) and not runs.orders
        await press(pilot, "shift+tab", "backspace", "3", "enter", "enter")
        assert sorted(words(one)[-1] for one in runs.done) == ["invoice_rt", "ledger_full", "orders_rt"]
        assert {words(one)[1] for one in runs.done} == {"stop"}
        assert "invoice_rt: requested STOPPED" in screen(made.app) and "ledger_full: req" in screen(made.app)

    drive(made, do)


def test_cancelling_asks_for_a_reason_and_the_name_which_cannot_be_pasted(tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app, "no more")
        retained(made.app, "stock_rt")
        await press(pilot, "a", "c")
        made.app.screen.post_message(events.Paste("stock_rt"))
        await pilot.pause()
        assert "type the text: pasted text is not accepted" in screen(made.app)
        await typed(pilot, "stock")
        await press(pilot, "enter", "enter")
        assert "still required: name" in screen(made.app) and not runs.orders
        await press(pilot, "shift+tab", "end")
        await typed(pilot, "_rt")
        await press(pilot, "enter", "enter")
        expected = ["jobs", "cancel", "--json", "--reason=no more", "--confirm=stock_rt", "stock_rt"]
        assert [words(one) for one in runs.done] == [expected]

    drive(made, do)


def test_the_command_can_be_copied_as_a_person_would_type_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = console(tmp_path)
    plant(made)
    copied: list[str] = []
    monkeypatch.setattr(made.app, "copy_to_clipboard", copied.append)

    async def do(pilot: Pilot[int]) -> None:
        retained(made.app, "orders_rt")
        await press(pilot, "a", "s", "c")
        assert copied == ["slotkeeper jobs stop orders_rt"], "if the default configuration is used"
        made.app.services.config = str(tmp_path / "c.toml")
        await press(pilot, "c")
        assert copied[1] == f"slotkeeper --config={tmp_path / 'c.toml'} jobs stop orders_rt"

    drive(made, do)


def test_what_cannot_be_written_down_is_refused_with_its_reason(tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)
    runs.refuses = "the disk is full"

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        retained(made.app, "orders_rt")
        await press(pilot, "a", "r", "y")
        assert isinstance(made.app.screen, JobConfirm)
        assert "the disk is full" in screen(made.app)

    drive(made, do)


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (100, 30)])
def test_menus_and_confirmations_fit(size: tuple[int, int], tmp_path: Path) -> None:
    made = console(tmp_path, ascii_only=True)
    plant(made)

    async def do(pilot: Pilot[int]) -> None:
        retained(made.app, "orders_rt")
        await press(pilot, "a")
        for key, expected in (("r", "[ Cancel  Esc ]"), ("escape", " cancelled")):
            shown = screen(made.app)
            assert shown.isascii() and max(map(len, shown.splitlines())) <= size[0]
            await press(pilot, key)
            assert expected in screen(made.app)

    drive(made, do, size)


@pytest.mark.parametrize(("key", "unit"), [("v", "rows compared"), ("d", "rows drained")])
def test_what_takes_its_time_shows_a_bar_and_the_time_left_and_is_cancelled_by_a_key(
    key: str, unit: str, tmp_path: Path
) -> None:
    made = console(tmp_path, ascii_only=True)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        retained(made.app, "orders_rt")
        await press(pilot, "a", key)
        (id,) = runs.actions
        runs.outputs[id] = Said("", f"slotkeeper: orders_rt: 3,000 of 4,000 {unit}, 12s left\n")
        shown = await until(pilot, made.app, f"75 %  3,000 of 4,000 {unit}, 12s left", "c cancel")
        assert max(map(len, shown.splitlines())) <= 80
        await press(pilot, "c")
        assert runs.cancelled == [id] and "cancelling" in screen(made.app)
        runs.end(id, 130, None, "slotkeeper: interrupted\n")
        shown = await until(pilot, made.app, "cancelled")
        assert "c cancel" not in shown and "75 %" not in shown

    drive(made, do, (80, 24))


def test_what_changes_something_is_not_cancelled_by_a_key(tmp_path: Path) -> None:
    made = console(tmp_path)
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        retained(made.app, "orders_rt")
        await press(pilot, "a", "r", "y", "c")
        assert "c cancel" not in screen(made.app) and not runs.cancelled

    drive(made, do)


def test_a_job_that_copies_behind_its_restart_shows_how_far_its_copy_is(tmp_path: Path) -> None:
    made = console(tmp_path, ascii_only=True)
    plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        retained(made.app, "orders_rt")
        await press(pilot, "a", "r", "y")
        report = JobReport("orders_rt", "run-orders_rt", "SNAPSHOT", chunks_done=31, chunks_total=50)
        made.store.put_report(report)
        made.app.action_renew()
        await until(pilot, made.app, "[#######.....]  62 %  31 of 50 chunks copied")

    drive(made, do, (80, 24))
