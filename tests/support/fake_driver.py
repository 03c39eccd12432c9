"""A FAKE Spark driver for tests: it fulfills the driver's contract with its supervisor and does no work."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from types import FrameType

from slotkeeper.core.config import handover, secrets
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.job import AS_THE_JOB, JobState, TableReport, WantedState, said_of
from slotkeeper.core.domain.report import JobReport, LaneReport
from slotkeeper.core.domain.tries import Requests, TryAnswer
from slotkeeper.core.errors import Busy, SlotkeeperError
from slotkeeper.core.launch.identity import of
from slotkeeper.core.launch.supervisor import ensure_supervisor
from slotkeeper.core.state import steering
from slotkeeper.core.state.sqlite import StateError, Store
from slotkeeper.core.state.steering import StoredTries

_STATES = {WantedState.RUN: JobState.RUNNING, WantedState.PAUSE: JobState.PAUSED}
asked: list[int] = []


def _ask(number: int, frame: FrameType | None) -> None:
    asked.append(number)


def _append(path: str, pid: int) -> None:
    with Path(path).open("a", encoding="ascii") as file:
        file.write(f"{pid}\n")


def _start_child(config: str) -> None:
    """The counterpart of a real driver's JVM: a process in its own session that ignores SIGTERM."""
    code = "import signal as s, time; s.signal(s.SIGTERM, s.SIG_IGN); print('on', flush=True); time.sleep(600)"
    env = handover.environment()
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE, env=env)
    assert child.stdout is not None
    child.stdout.readline()
    _append(f"{config}.children", child.pid)


class Tables:
    """Reports the desired state of each table as reached immediately."""

    def __init__(self, names: list[str], fails: list[str]) -> None:
        self._fails = fails
        self._turns = dict.fromkeys(names, 0)
        self.now = {name: self._said(name, JobState.RUNNING) for name in names}

    def _said(self, name: str, state: JobState) -> TableReport:
        if name in self._fails:
            why = f"{name}: dn_1: the registered point is gone"
            return TableReport(name, name, "FAILED", why, "SLOT LOST", "reset its slot", time.time())
        return TableReport(name, name, state.value, since=time.time())

    def look(self, store: Store, job: str) -> tuple[TableReport, ...]:
        asked = steering.wanted(store, job)
        for name, before in self.now.items():
            one = asked.get(name, AS_THE_JOB)
            state = JobState.STOPPED if one.wanted is WantedState.STOP else _STATES[one.wanted]
            if one.turn != self._turns[name]:
                self._turns[name] = one.turn
                self._fails = [each for each in self._fails if each != name]
                self.now[name] = self._said(name, state)
            elif before.state not in (state.value, JobState.FAILED.value):
                self.now[name] = self._said(name, state)
        return tuple(self.now.values())


class Lanes:
    """Lanes that follow a source under continuous writes; the first does not advance while a file exists."""

    def __init__(self, names: list[str], holds: str) -> None:
        self._names = names
        self._holds = Path(holds)
        self._at = dict.fromkeys(names, 0)

    def now(self) -> tuple[LaneReport, ...]:
        latest = int(time.time() * 100)
        for name in self._names:
            if not (self._holds.is_file() and name == self._names[0]):
                self._at[name] = latest
        return tuple(
            LaneReport(
                name, number, "running", "idle", str(self._at[name]), str(latest), None, 0, 0.0, polled_age=0.0,
                at=self._at[name], latest_at=latest, behind=latest - self._at[name],
            )
            for number, name in enumerate(self._names)
        )  # fmt: skip


def _leave(store: Store, run: str, code: int) -> None:
    with suppress(Busy, StateError):
        store.note_exit(run, code)
    os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--job", "--config", "--state-dir", "--run"):
        parser.add_argument(name, required=True)
    parser.add_argument("--take-over", action="store_true")
    given = parser.parse_args()
    text = Path(given.config).read_text(encoding="utf-8")
    behaviour = json.loads(text) if text.startswith("{") else tomllib.loads(text)
    deaf = behaviour["do"] == "deaf"
    signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else _ask)
    store = Store.open(Path(given.state_dir))
    me = of(os.getpid(), given.run)
    store.set_driver(given.run, me)
    _append(f"{given.config}.started", me.pid)
    print("fake driver is here", flush=True)
    if behaviour.get("resolve"):
        secret = secrets.resolve(SecretRef("env", behaviour["resolve"]))
        with Path(f"{given.config}.resolved").open("a", encoding="ascii") as file:
            file.write(hashlib.sha256(secret.encode()).hexdigest() + "\n")
    if behaviour.get("child"):
        _start_child(given.config)
    if behaviour["do"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour["do"] == "exit":
        _leave(store, given.run, behaviour["code"])
    lanes = Lanes(behaviour.get("lanes", []), behaviour.get("holds", ""))
    several = Tables(behaviour.get("tables", []), behaviour.get("fails", []))
    requests = Requests(StoredTries(store, given.job))
    while True:
        wanted = store.wanted(given.job)
        if wanted is not WantedState.STOP:
            with suppress(Busy, StateError):  # like the real driver on a full disk
                told = several.look(store, given.job)
                pends = wanted is WantedState.RUN and Path(behaviour.get("pends", given.config + ".pends")).is_file()
                state = JobState.PENDING.value if pends else _STATES[wanted].value
                store.put_report(JobReport(given.job, given.run, state, said_of(told), lanes=lanes.now(), tables=told))
        for one in requests.new():
            names = [name for name in behaviour.get("tables", []) or ["ods.orders"] if one.table in ("", name)]
            requests.answer(one, [TryAnswer(name, polled=("dn_1",)) for name in names])
        if asked:
            _leave(store, given.run, 12)
        with suppress(SlotkeeperError):
            ensure_supervisor(store, given.job, given.run, me)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
