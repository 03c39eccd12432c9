"""A runner for tests that starts no process: it records the commands, and returns the answers that a test planted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from textual.pilot import Pilot

from slotkeeper.console.actions.record import Action, Record, Said, Stage
from slotkeeper.console.actions.runner import Order, Runner
from slotkeeper.console.cli.output import json_text
from slotkeeper.console.commands.reset import plan_as_json
from slotkeeper.console.tui.app import ConsoleApp
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.reset import TAKES_COPY, Check, Count, Goal, LaneSeen, Move, ResetPlan, TargetKind
from slotkeeper.core.domain.reset_checks import emptied
from slotkeeper.core.domain.row_counts import CopyRows, RowCount
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, place
from tests.tui.filled import NOW, Filled, StillClock, screen

Answer = tuple[int, object, str]
"""Exit code, JSON for stdout, stderr."""


@dataclass
class Planted(Runner):
    """`answers` maps a command to its immediate answer; for None the command runs until `end`."""

    clock: StillClock
    answers: Callable[[Order], Answer | None] = lambda order: None
    orders: list[Order] = field(default_factory=list)
    actions: dict[str, Action] = field(default_factory=dict)
    outputs: dict[str, Said] = field(default_factory=dict)
    refuses: str = ""
    cancelled: list[str] = field(default_factory=list)

    @property
    def done(self) -> list[Order]:
        """The commands that were not dry runs."""
        return [one for one in self.orders if one.listed]

    def start(self, order: Order) -> str:
        if self.refuses:
            raise Refused(self.refuses)
        self.orders.append(order)
        id = f"20261121T023108-{len(self.orders):06x}"
        record = Record(id, order.words, order.what, order.key, "li.wei@host1", order.listed, self.clock.utc())
        self.actions[id] = Action(record, Stage.RUNNING)
        answer = self.answers(order)
        if answer is not None:
            self.end(id, *answer)
        return id

    def end(self, id: str, code: int, out: object, err: str = "", seconds: float = 6.2) -> None:
        record = self.actions[id].record
        ended = replace(record, ended_at=record.started_at + timedelta(seconds=seconds), code=code)
        self.actions[id] = Action(ended, Stage.ENDED)
        self.outputs[id] = Said(json.dumps(out) + "\n" if out is not None else "", err)

    def cancel(self, id: str) -> bool:
        self.cancelled.append(id)
        return True

    def find(self, id: str) -> Action | None:
        return self.actions.get(id)

    def said(self, id: str) -> Said:
        return self.outputs.get(id, Said())

    def recent(self) -> list[Action]:
        return [one for one in reversed(self.actions.values()) if one.record.listed]

    def running(self) -> list[Action]:
        return [one for one in self.recent() if not one.over]


def plant(made: Filled, answers: Callable[[Order], Answer | None] = lambda order: None) -> Planted:
    runs = Planted(made.clock, answers)
    made.app.services.actions = lambda folder, clock: runs
    return runs


async def until(pilot: Pilot[int], app: ConsoleApp, *words: str) -> str:
    """Wait until the screen shows these words, and return the screen."""
    async with asyncio.timeout(10):
        while not all(word in screen(app) for word in words):
            await pilot.pause(0.02)
    return screen(app)


async def until_asked(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Wait until the condition is true."""
    async with asyncio.timeout(10):
        while not condition():
            await pilot.pause(0.01)


async def typed(pilot: Pilot[int], text: str) -> int:
    """Type a text and return the number of keys."""
    for character in text:
        await pilot.press(_key(character))
    await pilot.pause()
    return len(text)


def _key(character: str) -> str:
    return {" ": "space", "-": "minus", "_": "underscore", ".": "full_stop"}.get(character, character)


def lane_move(dn: str, before: int, after: int, skipped: int = 0, again: int = 0) -> Move:

    def count(number: int) -> Count:
        return Count((("I", number),) if number else (), oldest=str(before) if number else None)

    key = LaneKey("dws1", "ods.orders", "orders_slot", dn)
    row = ProgressRow(
        key, 1, "mart.orders", DwsPosition(before, 3), 1, 0, LaneState.RUNNING, None, None, "c", "t", None
    )
    seen = LaneSeen(row, SyncPoints(before, before, 1), place(before), place(before), place(after))
    return Move(seen, replace(row, position=DwsPosition(after)), None, count(again), count(skipped))


def reset_plan(
    *moves: Move, slot: str = "orders_slot", kind: TargetKind = TargetKind.EARLIEST, **more: Any
) -> dict[str, Any]:
    """The plan of a reset, as the command line writes it."""
    return {**_written(_plan(moves, slot, Goal(kind))), **more}


def snapshot_plan(how: str, source: int, target: int, *notes: str) -> dict[str, Any]:
    """The plan of a snapshot of one DN with these numbers of rows in its source and target; `how` is the requested
    mode."""
    move = lane_move("dn_1", 88_120_441, 88_120_441)
    goal = Goal(TargetKind.SNAPSHOT, on_existing=how)
    rows = CopyRows(RowCount(source), RowCount(target), how or "refuse")
    fits = Check(TAKES_COPY, bool(how) or not target, f"on_existing = {how or 'refuse'}")
    plan = replace(_plan((replace(move, to=emptied(move.to, SyncPoints(0, 0))),), "order_slot", goal), rows=rows)
    return _written(replace(plan, checks=(*plan.checks, fits), notes=(rows.sentence, *notes)))


def _written(plan: ResetPlan) -> dict[str, Any]:
    return dict(json.loads(json_text(plan_as_json(plan))))


def _plan(moves: tuple[Move, ...], slot: str, goal: Goal) -> ResetPlan:
    made: datetime = NOW + timedelta(seconds=1)
    return ResetPlan(
        id="7f3a9c0d1e2f",
        dialect="dws",
        source="dws1",
        table="ods.orders",
        slot=slot,
        job="orders_rt",
        goal=goal,
        fingerprint="t",
        epoch=1,
        moves=moves,
        checks=(Check("job not running", True, "STOPPED, no running process"),),
        sql=("sink dn_1: UPDATE slotkeeper_progress ...", "source dn_1: SELECT pgxc_register_binlog_sync_point(..)"),
        notes=("the target shows older values until the job has caught up (state CATCHING UP)",),
        made=made.timestamp(),
        expires=made.timestamp() + 600,
    )


async def arm(pilot: Pilot[int], app: ConsoleApp, reason: str = "INC-2304") -> None:
    """Arm the console as `:rw` does."""
    app.arm(reason)
    await pilot.pause()
