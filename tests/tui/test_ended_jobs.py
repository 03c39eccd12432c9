"""Facts about a job without a process are past, or last known with their age: on all screens and in all commands.

The job has every activity in progress when its process ends, in each possible way.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.job import JobState, TableReport
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.report import Condition, Identity
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.state.sqlite import Store
from tests.tui.filled import NOW, Filled, begin, console, drive, lane, lines, press
from tests.tui.recorded import live

JOB = "orders_rt"
WIDE = (200, 50)
SCREENS = {
    "overview": "1", "jobs": "2", "job": "2 enter", "graphs": "h", "log": "escape l", "slots": "3", "errors": "4",
    "alerts": "6", "audit": "7", "locks": "1 L",
}  # fmt: skip
PRESENT = re.compile(
    r"is (reading|running|copying|applying|retrying|starting|catching up|behind)\b"
    r"|(?<!was )\b(running|catching up|copying)"
    r"|\b(applying|registering|retrying|trying now|caught up|follows its source|waits?|reads|due now)\b"
    r"|\blives?\b|\bis alive\b|\d ?(rows|events|changes)?/s\b|\b(rows|events)/s [\d.]"
)
"""Words in the present tense about a job, its lanes and its figures."""
_ALLOWED = re.compile(
    r"(?:wanted|desired):? +running|last known[^|]*|no job reads|mean [\d.k]+ events/s"
    r"|blocked until read: .*|no session of a job waits for a lock"
)
"""Contexts in which they are allowed: the desired state, values marked as last known, means over a recorded time,
actions of others.
"""


def _elsewhere() -> Identity:
    mine = processes.of(os.getpid())
    return replace(mine, host="another", started="another boot")


def _dead() -> Identity:
    return replace(processes.of(os.getpid()), started="0/0/0")


def _ended(state: JobState, reason: str, trouble: str = "") -> Callable[[Store], None]:
    def end(store: Store) -> None:
        store.set_state(JOB, state, reason, trouble, "")
        store.end_run(f"run-{JOB}", 1, reason)

    return end


def _of(identity: Callable[[], Identity]) -> Callable[[Store], None]:
    def end(store: Store) -> None:
        store.set_supervisor(f"run-{JOB}", identity())
        store.set_driver(f"run-{JOB}", identity())

    return end


ENDS: dict[str, Callable[[Store], None]] = {
    "FAILED": _ended(JobState.FAILED, "the registered point of dn_1 is gone", "SLOT LOST"),
    "FAILED by its sink": _ended(JobState.FAILED, "sink mart (h:1/d as u): permission denied for table t"),
    "STOPPED": _ended(JobState.STOPPED, "stopped"),
    "CANCELLED": _ended(JobState.CANCELLED, "cancelled"),
    "FINISHED": _ended(JobState.FINISHED, ""),
    "DEAD": _of(_dead),
    "gone": lambda store: None,
    "elsewhere": _of(_elsewhere),
}


def in_the_middle(folder: Path, how: str) -> Filled:
    """A console whose one job of two tables was applying, copying, waiting and retrying when it ended."""
    made = console(folder, filled=False)
    since = (NOW - timedelta(minutes=2)).timestamp()
    tables = ("ods.orders", "ods.items")
    lanes = [
        lane("dn_1", 88_512_000, source_table=tables[0], target="mart.orders", label="ods.orders dn_1",
             activity="applying", read_s=1.0, write_s=4.0, register_s=0.2),
        lane("dn_2", 88_512_330, source_table=tables[0], target="mart.orders", label="ods.orders dn_2",
             activity="idle"),
        lane("dn_1", 88_100_000, source_table=tables[1], target="mart.items", label="ods.items dn_1",
             state="catching up", activity="waiting", retry="retrying 2, next in 4 s", error="a lock", side="sink"),
        lane("dn_2", 88_100_000, source_table=tables[1], target="mart.items", label="ods.items dn_2",
             state="catching up", activity="registering"),
    ]  # fmt: skip
    held = Condition("sink", "sink mart", "does not answer", since, ("ods.items dn_1",), 4, 2)
    wait = LockWait(4711, f"slotkeeper/{JOB}/w/1", "mart.items", "RowExclusiveLock", since, "INSERT")
    told = (
        TableReport(tables[0], "mart.orders", "RUNNING"),
        TableReport(tables[1], "mart.items", "CATCHING UP", reason="waits for a lock"),
    )
    more: dict[str, Any] = {"tables": told, "conditions": (held,), "lock_waits": (wait,), "reason": "sink mart waits"}
    begin(made.store, JOB, *lanes, living=False, **more)
    made.clock.at -= timedelta(minutes=1)
    live(made.store, made.clock, JOB, NOW, *lanes, **more)
    ENDS[how](made.store)
    made.clock.at = NOW + timedelta(seconds=10)
    return made


def _present(text: str) -> list[str]:
    """The lines of a text that state something in the present tense."""
    found = []
    for line in text.splitlines():
        left = _ALLOWED.sub("", line)
        if hit := PRESENT.search(left):
            found.append(f"{hit[0]!r} in {line.strip()!r}")
    return found


def _screens(made: Filled, size: tuple[int, int]) -> dict[str, str]:
    drawn: dict[str, str] = {}

    async def do(pilot: Pilot[int]) -> None:
        for name, keys in SCREENS.items():
            await press(pilot, *keys.split())
            drawn[name] = "\n".join(lines(made.app)[1:-1])

    drive(made, do, size)
    return drawn


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("size", [WIDE, (80, 24)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_no_screen_says_in_the_present_tense_what_a_job_without_a_process_does(
    size: tuple[int, int], how: str, tmp_path: Path
) -> None:
    found = {name: _present(text) for name, text in _screens(in_the_middle(tmp_path, how), size).items()}
    assert {name: hits for name, hits in found.items() if hits} == {}


def _said(folder: Path, *words: str) -> str:
    said = io.StringIO()
    with redirect_stdout(said):
        main(["--config", str(folder / "c.toml"), *words])
    return said.getvalue()


@pytest.fixture(params=ENDS)
def ended(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    in_the_middle(tmp_path, request.param).store.close()
    yield tmp_path


def test_no_command_says_in_the_present_tense_what_a_job_without_a_process_does(ended: Path) -> None:
    found = {
        words: _present(_said(ended, *words.split()))
        for words in ("status", "jobs list", f"jobs show {JOB}", "alerts list")
    }
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_values_of_a_job_without_a_process_are_marked_as_the_last_known(ended: Path) -> None:
    listed = json.loads(_said(ended, "jobs", "list", "--json"))
    shown = json.loads(_said(ended, "jobs", "show", JOB, "--json"))
    status = json.loads(_said(ended, "status", "--json"))
    for one in (shown, *(one for one in (*listed, *status["jobs"]) if one["job"] == JOB)):
        assert one["last_known"] is True and one["reported_at"] is not None
    assert shown["report"]["lanes"][0]["state"] == "running", "the last known values are kept"
    assert _present(json.dumps(status["faults"])) == []
