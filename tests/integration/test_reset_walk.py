"""The path of a reset, file by file: the page lists the modules that the key, the child and the command enter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime, timezone
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.__main__ import main
from slotkeeper.console.actions import child, runner
from slotkeeper.console.commands import reset
from slotkeeper.console.tui.screens.actions.menu import Menu, TargetForm
from slotkeeper.console.tui.screens.actions.preview import SlotConfirm, SlotPlan
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.warehouse import Warehouse
from tests.integration.test_walk import BESIDE, Walk, listed
from tests.support import polling
from tests.support.mirror import MakeMirror, Mirror, as_superuser, orders, written
from tests.tui.filled import Filled, StillClock, drive, over, polled, press, slot
from tests.tui.planted import arm, typed, until

MOST = 24
ROOTS = frozenset(
    one.__code__
    for one in (
        Menu.action_choose,
        TargetForm.action_choose,
        SlotPlan._ask,
        SlotPlan._poll,
        SlotConfirm.apply,
        child.main,
        reset.reset,
    )
)
"""The keys, the answer of the dry run, the button; the child process; the command."""
SHARED = {
    "core/codec.py": "values as text",
    "core/launch/access.py": "the right that each command needs",
    "core/state/placement.py": "the host of a job, which each action needs",
    "core/config/": "the configuration, which each command reads before it acts",
    "core/bounded.py": "a driver: local files",
    "core/ownership.py": "a driver: local files",
    "core/state/folder.py": "a driver: local files",
    "core/state/faults.py": "a driver: SQLite",
    "core/state/schema.py": "a driver: SQLite",
    "core/state/rows.py": "a driver: SQLite",
    "core/state/sqlite.py": "a driver: SQLite",
    "core/state/observed.py": "a driver: SQLite",
    "core/launch/identity.py": "a driver: this host's processes",
    "core/sources/registry.py": "opens a session; a change's walk starts with open ones",
    "core/sources/dws/kind.py": "opens a session",
    "core/sources/dws/session.py": "opens a session",
    "core/sinks/postgres/kind.py": "opens a session",
    "core/sinks/postgres/session.py": "opens a session",
    "core/sinks/postgres/own_tables.py": "makes a table before its first use, by any caller",
    "core/services/audit.py": "the audit of each command that changes something",
    "core/state/audit.py": "the audit",
    "core/sinks/postgres/progress/reports.py": "the audit's copy",
    "console/cli/": "options and output of each command",
    "console/tui/app.py": "the shell around each screen",
    "console/tui/base_app.py": "the shell",
    "console/tui/services.py": "the shell",
    "console/tui/write_mode.py": "the shell",
    "console/tui/keymap.py": "the shell",
    "console/tui/boxes.py": "the shell",
    "console/tui/theme.py": "the shell",
    "console/tui/screens/base.py": "the shell",
    "console/tui/widgets/": "the shell",
    "console/views/": "texts of rows that each screen has",
    "console/monitor/snapshot.py": "values: what is known now",
    "console/actions/record.py": "values: an action",
}
"""The modules that a reset shares with every other action, and the reason."""


class InProcess:
    """Replaces the command's process: runs it here, and sends its output to the child's output."""

    walk: Walk
    streams: tuple[int, int]

    def __init__(self, words: Sequence[str], **_: object) -> None:
        assert tuple(words[: len(runner.COMMAND)]) == runner.COMMAND
        self.pid = os.getpid()
        self._words = words[len(runner.COMMAND) :]

    def wait(self) -> int:
        with (
            self.walk.elsewhere(),
            os.fdopen(self.streams[0], "w", encoding="utf-8", closefd=False) as out,
            os.fdopen(self.streams[1], "w", encoding="utf-8", closefd=False) as err,
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            return main(self._words)


def spawned_here(patched: pytest.MonkeyPatch, walk: Walk) -> None:
    """Make the console run its children in this process, one after another."""

    def spawn(words: Sequence[str], out: int, err: int) -> int:
        InProcess.streams = out, err
        heard = signal.getsignal(signal.SIGHUP)
        try:
            with walk.elsewhere():
                child.main(words[len(runner.CHILD) :])
        finally:
            signal.signal(signal.SIGHUP, heard)
        return os.getpid()

    InProcess.walk = walk
    patched.setattr(runner, "_spawn", spawn)
    patched.setattr(subprocess, "Popen", InProcess)


def console_of(mirror: Mirror, folder: Path) -> Filled:
    """A console over the stopped job of a mirror, whose slot is listed."""
    job = mirror.job
    more = polling.job(job.name, job.slot, mirror.table, job.channel.target)
    config = polling.config(folder, job.source, job.sink, more)
    loaded, clock = load(config, {}), StillClock()
    clock.at = datetime.now(timezone.utc)
    store = Store.open(loaded.state_dir)
    store.register_job(job.name, str(config))
    store.set_state(job.name, JobState.STOPPED, "stopped")
    found = polled(mirror.table, slot(job.slot, 23, 5, job.name))
    return over(loaded, store, clock, {("dws1", mirror.table): found}, ascii_only=True)


def test_a_reset_walks_through_the_files_that_the_page_lists_and_no_other(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = as_superuser(orders(make_mirror, warehouse, seed, rows=100))
    mirror.start().wait_running()
    with written(mirror, seed, changes=20):
        pass
    mirror.wait_applied(mirror.booked())
    mirror.stop()
    made, walk = console_of(mirror, tmp_path), Walk(ROOTS, ("console", "core"))
    spawned_here(monkeypatch, walk)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app, "a test")
        await press(pilot, "3", "r", "g", "a")
        sys.setprofile(walk)
        walk.on = True
        await press(pilot, "r", "enter")
        made.clock.at = datetime.now(timezone.utc)
        await until(pilot, made.app, f"RESET SLOT {mirror.job.slot} to earliest", "valid")
        await press(pilot, "enter")
        await typed(pilot, mirror.job.slot)
        await press(pilot, "enter", "enter")
        walk.on = False
        sys.setprofile(None)
        made.clock.at = datetime.now(timezone.utc)
        await until(pilot, made.app, "done: reset to earliest")

    try:
        drive(made, do)
    finally:
        sys.setprofile(None)
    found = [file for file in walk.files if not file.startswith((*BESIDE, *SHARED))]
    print("\n".join(found), f"{len(found)} files, {len(walk.files)} with those beside", sep="\n")
    assert sorted(found) == sorted(listed("The walk of a reset"))
    assert len(found) <= MOST
