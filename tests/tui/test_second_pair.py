"""Every screen over the second pair, as text: none of them mentions another kind of source."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.__main__ import main
from slotkeeper.console.actions.runner import Order
from slotkeeper.console.monitor.sink_pollers import SinkQuarantines
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.domain.job import JobEvent, JobState
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.services import slot_commands
from slotkeeper.core.spark.narrator import StoreNarrator
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.sqlite import Store
from tests.support.sqlite_pair.pair import MakePair, SecondPair
from tests.support.sqlite_pair.source import SqliteSession
from tests.tui.filled import NOW, SMALL, Filled, StillClock, drive, lines, over, press
from tests.tui.planted import Answer, arm, plant, typed, until
from tests.tui.test_goldens import like_its_golden

TABLE = "ods.items"
PLAN = "7f3a9c0d1e2f"
UNDONE_BY = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
SCREENS = {
    "overview": "1",
    "jobs": "2",
    "job": "1 enter",
    "log": "l",
    "describe": "escape d",
    "slots": "escape 3 r",
    "slot": "enter",
    "slot_history": "h",
    "errors": "escape 4",
    "binlog": "5",
    "binlog_rows": "enter",
    "alerts": "6",
    "audit": "7",
    "help": "question_mark",
}
WAITS = {"binlog_rows": "1:1:"}
FOREIGN = re.compile(
    r"sync point|commits|binlog_ttl|consume_timeout|kernel|xmin|ckpt|durable|vacuum|pgxc|both points|\bdws\b",
    re.IGNORECASE,
)
SPARED = frozenset({"help", "describe"})
"""The keys have one text for all sources, and the configuration has the vendor's names of parameters."""


class Standing(StillClock):
    """A clock whose readings do not advance."""

    ticks = 1_000.0

    def monotonic(self) -> float:
        return self.ticks


@pytest.fixture
def streamed(make_pair: MakePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecondPair:
    monkeypatch.chdir(tmp_path)
    pair = make_pair(TABLE)
    pair.mirror.job = replace(pair.mirror.job, name="items_rt", slot="items_slot")
    pair.origin.clock = lambda: int(NOW.timestamp() * 1_000_000) - 30_000_000
    with pair.origin.transaction() as writing:
        for key in range(3):
            writing.put(TABLE, id=key, v=key)
    pair.mirror.start().wait_running()
    with pair.origin.transaction() as writing:
        writing.put(TABLE, id=1, v=11)
        writing.delete(TABLE, id=2)
    pair.wait_equal()
    pair.mirror.stop()
    return pair


@pytest.fixture
def made(streamed: SecondPair, tmp_path: Path) -> Filled:
    """A console over a job that has streamed, with the job's own report."""
    return _console(streamed, tmp_path)


def _console(
    pair: SecondPair,
    folder: Path,
    ended: SlotkeeperError | None = None,
    troubled: Callable[[Lane], Lane] | None = None,
) -> Filled:
    """A console over the job's report: the job ended with `ended`, or its lanes are `troubled`."""
    path = pair.config(folder)
    text = path.read_text("utf-8").replace(f"{folder}/", "")
    path.write_text(text, encoding="utf-8")
    loaded = load(Path(path.name), {})
    clock = Standing()
    store = Store.open(loaded.state_dir, clock=clock)
    job, heard = loaded.jobs["items_rt"], pair.mirror.heard
    store.register_job(job.name, path.name)
    store.begin_run(job.name, "run-1")
    store.set_supervisor("run-1", processes.of(os.getpid()))
    (row,) = pair.mirror.rows()
    assert heard.state is not None and row.position is not None
    lanes = {
        name: replace(
            lane,
            position=row.position,
            latest=row.position,
            changes=row.changes,
            activity=Activity.IDLE,
            committed_at=1_036.0,
            polled_at=1_039.0,
        )
        for name, lane in heard.now.items()
    }
    narrator = StoreNarrator(store, job, "run-1", clock, LocalRunner(4))
    for event in (JobEvent.BEGAN, JobEvent.COPY_BEGAN, JobEvent.COPY_DONE, JobEvent.CAUGHT_UP):
        narrator.event(event)
        clock.ticks += 10
    if troubled is not None:
        lanes = {name: troubled(lane) for name, lane in lanes.items()}
    narrator.lanes(lanes, heard.state, 3, 0)
    store.record_event(job.name, "trouble", "the file was locked")
    store.record_error(job.name, "source", "", "the file was locked")
    store.folder.log(job.name).write_text("02:28:01 the file was locked\n", encoding="utf-8")
    if ended is not None:
        store.set_state(job.name, JobState.STOPPED, "stopped")
        clock.at += timedelta(seconds=1)
        store.begin_run(job.name, "run-2")
        narrator = StoreNarrator(store, job, "run-2", clock, LocalRunner(4))
        narrator.event(JobEvent.BEGAN)
        narrator.failed(ended)
    actor = Actor("li.wei", "host1", 7, uid=1000)
    what = f"origin {TABLE} slot items_slot"
    line = AuditLine(NOW - timedelta(hours=1), actor, "slots reset", "a1", Phase.INTENT, what, "INC-1")
    audit = Audit(store.folder)
    audit.append(line)
    audit.append(replace(line, phase=Phase.OUTCOME, outcome="done: reset to point 1:1:4:0"))
    clock.at += timedelta(seconds=1)
    return over(loaded, store, clock, {("origin", TABLE): slot_commands.poll(loaded, "origin", TABLE)})


def _still(line: str) -> str:
    return re.sub(r"( +)\d+ ms (─+)", lambda took: f" 7 ms {'─' * (len(took[0]) - 6)}", line)


ACTIONS = {
    "quarantine": "",
    "stop": "escape 2 a s",
    "pause": "escape a p",
    "job_menu": "escape a",
    "slot_menu": "escape 3 r a",
    "reset_to": "r",
    "reset_point": "p",
}


def _alike(name: str, shown: list[str]) -> None:
    still = [UNDONE_BY.sub("20261121T023109-3adb84", line) for line in shown]
    like_its_golden(f"second_{name}", still, SMALL)
    assert not FOREIGN.findall("\n".join(still)), name


def test_what_can_be_done_looks_like_its_golden(made: Filled) -> None:
    drawn: dict[str, list[str]] = {}
    made.app.services.quarantines = SinkQuarantines()

    async def do(pilot: Pilot[int]) -> None:
        made.app.open("quarantine", "items_rt")
        await until(pilot, made.app, "no quarantine", "A all")
        while "querying the sink" in "\n".join(lines(made.app)):
            await pilot.pause(0.02)
        for name, keys in ACTIONS.items():
            await press(pilot, *keys.split())
            drawn[name] = [_still(line) for line in lines(made.app)]

    drive(made, do, SMALL)
    for name, shown in drawn.items():
        _alike(name, shown)


@dataclass
class Really:
    """Executes commands in this process; the plan always has the same name and age."""

    plan: str = ""

    def __call__(self, order: Order) -> Answer:
        out, err = io.StringIO(), io.StringIO()
        words = [word.replace(PLAN, self.plan or PLAN) for word in order.words]
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words)
        found = json.loads(out.getvalue().splitlines()[-1]) if out.getvalue() else None
        if found and "expires" in found:
            made, expires = NOW + timedelta(seconds=1), NOW + timedelta(seconds=601)
            self.plan = found["id"]
            found |= {"id": PLAN, "made": made.isoformat(), "expires": expires.isoformat()}
        return code, found, err.getvalue()


def test_a_reset_looks_like_its_goldens(made: Filled) -> None:
    drawn: dict[str, list[str]] = {}
    made.store.set_state("items_rt", JobState.STOPPED, "stopped")
    made.store.begin_run("items_rt", "run-2")
    made.store.set_state("items_rt", JobState.STOPPED, "stopped")
    plant(made, Really())

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app, "INC-1")
        await press(pilot, "3", "r", "a", "r", "e")
        await until(pilot, made.app, " LANE ", "10 of 10")
        drawn["reset_preview"] = lines(made.app)
        await press(pilot, "v")
        drawn["reset_words"] = lines(made.app)
        await press(pilot, "v", "enter")
        await typed(pilot, "items_slot")
        drawn["reset_typed"] = lines(made.app)
        await press(pilot, "enter", "enter")
        await until(pilot, made.app, "Undo     u")
        drawn["reset_done"] = lines(made.app)

    drive(made, do, SMALL)
    for name, shown in drawn.items():
        _alike(name, shown)


def test_every_screen_looks_like_its_golden(made: Filled) -> None:
    drawn: dict[str, list[str]] = {}

    async def do(pilot: Pilot[int]) -> None:
        for name, keys in SCREENS.items():
            await press(pilot, *keys.split())
            if name in WAITS:
                await until(pilot, made.app, WAITS[name])
            drawn[name] = [_still(line) for line in lines(made.app)]

    drive(made, do, SMALL)
    for name, shown in drawn.items():
        like_its_golden(f"second_{name}", shown, SMALL)
        if name not in SPARED:
            assert not FOREIGN.findall("\n".join(shown)), name


FAULTS = {"job": "1 enter", "alerts": "escape 6", "errors": "4", "overview": "1"}


def _ended(pair: SecondPair, folder: Path) -> Filled:
    heard = pair.mirror.heard
    pair.mirror.start()
    error = pair.mirror.wait_error()
    pair.mirror.heard = heard
    assert isinstance(error, SlotkeeperError)
    return _console(pair, folder, ended=error)


def _lost(pair: SecondPair, folder: Path) -> Filled:
    with pair.origin.transaction() as writing:
        writing.put(TABLE, id=7, v=7)
    pair.origin.rotate()
    pair.origin.purge()
    return _ended(pair, folder)


def _differ(pair: SecondPair, folder: Path) -> Filled:
    pair.origin.rebuild()
    return _ended(pair, folder)


def _dead(pair: SecondPair, folder: Path) -> Filled:
    made = _console(pair, folder)
    gone = replace(processes.of(os.getpid()), started="0")
    made.store.set_supervisor("run-1", gone)
    return made


def _retrying(pair: SecondPair, folder: Path) -> Filled:
    with pytest.raises(Unreachable) as said, SqliteSession(str(folder / "away" / "origin.db")).reading():
        pass

    def tried(lane: Lane) -> Lane:
        waits = replace(lane, activity=Activity.WAITING, error=str(said.value), side="source", ready_at=1_044.0)
        waits = replace(waits, failing_since=960.0)
        return replace(waits, history=replace(lane.history, failures=2))

    return _console(pair, folder, troubled=tried)


def _stopped(pair: SecondPair, folder: Path) -> Filled:
    made = _console(pair, folder)
    made.store.set_state("items_rt", JobState.STOPPED, "stopped")
    return made


TROUBLED = {"lost": _lost, "differ": _differ, "dead": _dead, "retrying": _retrying, "stopped": _stopped}
NO_SLOT = re.compile(r"\bTTL\b|\bpoints?\b", re.IGNORECASE)


@pytest.mark.parametrize("name", TROUBLED)
def test_a_job_in_trouble_looks_like_its_goldens(name: str, streamed: SecondPair, tmp_path: Path) -> None:
    made, drawn = TROUBLED[name](streamed, tmp_path), {}

    async def do(pilot: Pilot[int]) -> None:
        for screen, keys in FAULTS.items():
            await press(pilot, *keys.split())
            drawn[screen] = lines(made.app)

    drive(made, do, SMALL)
    for screen, shown in drawn.items():
        _alike(f"{name}_{screen}", shown)
        assert not NO_SLOT.findall("\n".join(shown)), screen


VERBS = {
    "pause": (JobState.RUNNING, "p", JobState.PAUSED, "pause"),
    "resume": (JobState.PAUSED, "p", JobState.RUNNING, "resume"),
    "stop": (JobState.RUNNING, "s", JobState.STOPPED, "stop"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_done_to_a_job_looks_like_its_goldens(verb: str, made: Filled) -> None:
    before, key, after, word = VERBS[verb]
    drawn: dict[str, list[str]] = {}
    made.store.set_state("items_rt", before, "")
    runs = plant(made)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app, "INC-1")
        await press(pilot, "2", "a", key)
        drawn["preview"] = lines(made.app)
        await press(pilot, "y")
        drawn["under_way"] = lines(made.app)
        made.store.set_state("items_rt", after, word)
        runs.end(next(iter(runs.actions)), 0, {"job": "items_rt", "state": after.value})
        await until(pilot, made.app, f"observed {after.value}")
        async with asyncio.timeout(10):  # the store may have been read before the action's end was recorded
            while any(f"items_rt is {before.value} now" in line for line in lines(made.app)):
                await pilot.pause(0.02)
        drawn["done"] = lines(made.app)

    drive(made, do, SMALL)
    for name, shown in drawn.items():
        _alike(f"{verb}_{name}", [_still(line) for line in shown])
        assert not NO_SLOT.findall("\n".join(shown)), name
