"""The locks screen: who waits, who blocks, the action; unknown is not shown as calm; leaving closes the sessions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.tui.screens.jobs import JobScreen
from slotkeeper.console.tui.screens.locks import LocksScreen
from slotkeeper.core.domain.ending import moment
from slotkeeper.core.domain.locks import Blocker, LockWait
from slotkeeper.core.domain.source_waits import SourceWait
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.services.looking import LocksSeen
from tests.tui.filled import (
    LARGE,
    NOW,
    SMALL,
    Filled,
    PlantedLocks,
    begin,
    console,
    drive,
    driven,
    lines,
    on_screen,
    press,
    screen,
)
from tests.tui.planted import arm, plant, typed, until, until_asked
from tests.tui.test_goldens import like_its_golden

AT = NOW.timestamp()
PLACE = "mart (localhost:5432/mart as etl)"
EVE = Blocker(
    4711, "eve", "psql", "idle in transaction", AT - 58, "LOCK TABLE mart.orders IN EXCLUSIVE MODE", transaction="3/4"
)
BOB = Blocker(812, "bob", "dbt", "active", AT - 40, "ALTER TABLE mart.orders ADD COLUMN c int", waits=True)
HIDDEN = Blocker(99, "fin", "report", transaction="9/1")
WAITS = (
    LockWait(
        501, "slotkeeper/orders_rt/7", "mart.orders", "RowExclusiveLock", AT - 50, "MERGE INTO mart.orders", (EVE, BOB)
    ),
    LockWait(
        502,
        "slotkeeper/orders_rt/7",
        "mart.orders",
        "RowExclusiveLock",
        AT - 49,
        "MERGE INTO mart.orders",
        (EVE, BOB),
        False,
    ),
    LockWait(
        503,
        "slotkeeper/invoice_rt/2",
        "a row of mart.invoices",
        "ShareLock",
        AT - 12,
        "MERGE INTO mart.invoices",
        (HIDDEN,),
    ),
)
TOLD = LocksSeen("mart", PLACE, WAITS)
SILENT = LocksSeen("dwh", "dwh (h:8000)", error=Unreachable("sink dwh (h:8000): does not answer within 4 s"))


def locked(folder: Path) -> tuple[Filled, PlantedLocks]:
    made = console(folder)
    planted = made.app.services.locks = PlantedLocks(TOLD, SILENT)
    return made, planted


@pytest.mark.parametrize("size", [SMALL, LARGE, (60, 15)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_who_waits_and_who_is_in_front_looks_like_its_golden(size: tuple[int, int], tmp_path: Path) -> None:
    made, _ = locked(tmp_path)
    drawn: list[list[str]] = []

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "1", "L")
        await until(pilot, made.app, "4711")
        drawn.append(lines(made.app))

    drive(made, do, size)
    like_its_golden("locks", drawn[0], size)


@driven(locked)
async def test_the_panel_says_who_what_and_the_statement_that_ends_it(
    made: Filled, planted: PlantedLocks, pilot: Pilot[int]
) -> None:
    await press(pilot, "2", "L")
    await until(pilot, made.app, "4711")
    shown = on_screen(made.app, LocksScreen)
    _, said = shown.panel(shown.table.cursor_key)
    words = " ".join(text for _, text in said)
    assert (
        "mart.orders is locked by pid 4711, user eve, application psql, idle in transaction for 59 s: LOCK TABLE"
        in words
    )
    assert "SELECT pg_terminate_backend(4711)" in words and "pid 812, user bob, application dbt, active" in words
    await press(pilot, "G")
    _, said = shown.panel(shown.table.cursor_key)
    assert "its state and statement are hidden from this login" in " ".join(text for _, text in said)


@driven(locked)
async def test_a_sink_that_could_not_be_asked_is_unknown_and_not_calm(
    made: Filled, planted: PlantedLocks, pilot: Pilot[int]
) -> None:
    planted.answers = [SILENT]
    await press(pilot, "1", "L")
    await until(pilot, made.app, "does not answer within 4 s")
    assert "no session of a job waits for a lock:" not in screen(made.app)


@driven(locked)
async def test_it_ends_on_the_screen_with_the_next_answer_and_enter_opens_the_job(
    made: Filled, planted: PlantedLocks, pilot: Pilot[int]
) -> None:
    await press(pilot, "1", "L")
    await until(pilot, made.app, "4711")
    await press(pilot, "enter")
    assert on_screen(made.app, JobScreen).job == "orders_rt"
    await press(pilot, "escape")
    planted.answers = [replace(TOLD, waits=())]
    made.clock.at += timedelta(seconds=3)
    on_screen(made.app, LocksScreen).tick()
    await until(pilot, made.app, "no session of a job waits for a lock: sink mart")
    await press(pilot, "escape")
    assert planted.rested == 1, "its sessions end with the screen"


@driven(locked)
async def test_it_is_queried_again_after_two_seconds_and_not_while_paused(
    made: Filled, planted: PlantedLocks, pilot: Pilot[int]
) -> None:
    await press(pilot, "1", "L")
    await until(pilot, made.app, "4711")
    shown, asked = on_screen(made.app, LocksScreen), planted.asked
    shown.tick()
    assert planted.asked == asked
    await press(pilot, "f")
    made.clock.at += timedelta(seconds=30)
    shown.tick()
    await pilot.pause()
    assert planted.asked == asked
    await press(pilot, "f")
    shown.tick()
    await until(pilot, made.app, "4711")
    assert planted.asked == asked + 1


@driven(lambda folder: console(folder, filled=False))
async def test_without_a_configuration_the_reports_of_the_jobs_tell(made: Filled, pilot: Pilot[int]) -> None:
    begin(made.store, "orders_rt", lock_waits=WAITS[:1])
    made.app.services.loaded = None
    made.feed.now()
    await press(pilot, "1", "L")
    await until(pilot, made.app, "4711", "1 session of jobs waits: job orders_rt")


@pytest.mark.parametrize("locks", [WAITS[:1], ()], ids=["a lock", "none"])
def test_the_key_for_locks_is_shown_while_a_lock_is_at_fault(tmp_path: Path, locks: tuple[LockWait, ...]) -> None:
    made = console(tmp_path, filled=False)

    async def check(pilot: Pilot[int]) -> None:
        begin(made.store, "orders_rt", lock_waits=locks)
        made.feed.now()
        for keys in (("1",), ("2",), ("1", "enter")):
            await press(pilot, *keys)
            await until(pilot, made.app, "orders_rt")
            shown = next(line for line in lines(made.app) if " help " in line)
            assert ("L locks" in shown) is bool(locks), (keys, shown)

    drive(made, check)


BEGAN = AT - 3_600.25


def ending(folder: Path) -> tuple[Filled, PlantedLocks]:
    made, planted = locked(folder)
    front = replace(WAITS[0], blockers=(replace(EVE, began=BEGAN), BOB))
    planted.answers = [replace(TOLD, waits=(front, *WAITS[1:]))]
    return made, planted


@driven(ending)
async def test_a_session_in_front_is_ended_by_its_typed_pid_and_a_reason_and_by_the_moment_it_began(
    made: Filled, planted: PlantedLocks, pilot: Pilot[int]
) -> None:
    runs = plant(made)
    await press(pilot, "1", "L")
    await until(pilot, made.app, "4711")
    await press(pilot, "x")
    shown = await until(pilot, made.app, "END SESSION 4711 of sink mart")
    assert "uncommitted changes are lost" in " ".join(shown.split())
    await typed(pilot, "INC-7")
    await press(pilot, "enter")
    await typed(pilot, "4712")
    await press(pilot, "enter", "enter")
    assert not runs.orders
    await press(pilot, "escape")
    await arm(pilot, made.app)
    await press(pilot, "x")
    await until(pilot, made.app, "END SESSION 4711 of sink mart")
    await typed(pilot, "4712")
    await press(pilot, "enter", "enter")
    assert not runs.orders and "`4712` is not `4711`" in screen(made.app)
    await press(pilot, "shift+tab", "backspace")
    await typed(pilot, "1")
    await press(pilot, "enter", "enter")
    (order,) = runs.orders
    words = [one for one in order.words if not one.startswith("--config")]
    assert words[:3] == ["locks", "end", "--json"] and words[-1] == "4711"
    assert words[3:6] == [f"--began={moment(BEGAN)}", "--sink=mart", "--reason=INC-2304"]
    runs.end(list(runs.actions)[-1], 3, None, "slotkeeper: pid 4711 does not block a job's session\n  `look`\n")
    await until(pilot, made.app, "refused: pid 4711 does not block a job's session")


@driven(locked)
async def test_the_cursor_stays_on_its_blocker_when_the_sessions_that_wait_for_it_retry_with_other_pids(
    made: Filled, planted: PlantedLocks, pilot: Pilot[int]
) -> None:
    await press(pilot, "1", "L")
    await until(pilot, made.app, "4711")
    shown = on_screen(made.app, LocksScreen)
    for first, key, blocker in ((600, "G", HIDDEN), (700, "g", EVE)):
        await press(pilot, key)
        retried = tuple(replace(one, pid=first + place) for place, one in enumerate(WAITS))
        for answer in ((), retried[:1], retried):  # between two attempts, no session or only another one waits
            planted.answers = [replace(TOLD, waits=answer)]
            shown.renewed()
            await until_asked(pilot, lambda: shown.asked_at is None)
            await pilot.pause()
        wait = shown.wait(shown.table.cursor_key)
        assert isinstance(wait, LockWait) and wait.root == blocker
    planted.answers = [replace(TOLD, waits=WAITS[2:])]
    shown.renewed()
    await until_asked(pilot, lambda: shown.asked_at is None)
    await pilot.pause()
    assert shown.table.cursor_key is None, "an action on a blocker that has ended affects no other session"


DDL = SourceWait(
    Blocker(44, "root", "mysql", "Waiting", AT - 9, "ALTER TABLE shop.orders ADD c int", began=BEGAN),
    "DDL", "shop.orders", AT - 9, sessions=(Blocker(9, "etl"),), behind=2, ends="KILL {}", job="orders_rt",
)  # fmt: skip


@driven(locked)
async def test_at_a_mysql_the_ddl_that_sessions_wait_after_is_asked_about_at_its_source(
    made: Filled, planted: PlantedLocks, pilot: Pilot[int]
) -> None:
    runs = plant(made)
    planted.answers = [LocksSeen("shop", "shop (h:3306)", is_source=True, source_waits=(DDL,))]
    await arm(pilot, made.app)
    await press(pilot, "1", "L")
    await until(pilot, made.app, "shop.orders")
    await press(pilot, "x")
    await until(pilot, made.app, "END SESSION 44 of source shop")
    await typed(pilot, "44")
    await press(pilot, "enter", "enter")
    (order,) = runs.orders
    assert order.words[-4:] == (f"--began={moment(BEGAN)}", "--source=shop", "--reason=INC-2304", "44")
    await press(pilot, "escape")
    for wait, why in {
        replace(DDL, behind=0): "no session waits after it",
        replace(DDL, ends=""): "it waits for a job and blocks no session",
    }.items():
        planted.answers = [LocksSeen("shop", "shop (h:3306)", is_source=True, source_waits=(wait,))]
        on_screen(made.app, LocksScreen).renewed()
        await pilot.pause(0.1)
        await press(pilot, "g", "x")
        assert why in screen(made.app)


@driven(ending)
async def test_what_cannot_be_ended_from_here_says_why_and_asks_nothing(
    made: Filled, planted: PlantedLocks, pilot: Pilot[int]
) -> None:
    plant(made)
    await press(pilot, "1", "L")
    await until(pilot, made.app, "4711")
    for blocker, why in {
        replace(EVE, began=None): "its start time is hidden from this login",
        replace(EVE, began=BEGAN, user=""): "it is a server process",
        replace(EVE, began=BEGAN, pid=None, gid="left"): "it is a prepared transaction",
        replace(EVE, began=BEGAN, application="slotkeeper/x/1"): "its application name identifies a job's session",
        replace(EVE, began=BEGAN, query=5): "it can be ended only at its own coordinator",
    }.items():
        planted.answers = [replace(TOLD, waits=(replace(WAITS[0], blockers=(blocker,)),))]
        on_screen(made.app, LocksScreen).renewed()
        await until(pilot, made.app, "1 session")
        await press(pilot, "g", "x")
        assert f"cannot end it from here: {why}" in screen(made.app)
    planted.answers = [replace(TOLD, waits=(replace(WAITS[0], waits=False),))]
    on_screen(made.app, LocksScreen).renewed()
    await pilot.pause()
    await press(pilot, "x")
    assert "no session of a job waits for it now" in screen(made.app)
