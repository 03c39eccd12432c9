"""`slotkeeper run` as a separate process, with a FAKE driver: codes, signals, refusals, its stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import run as command
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch.launch import Launch
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.warehouse import Warehouse
from tests.support import polling
from tests.support.jobs import FAST
from tests.support.mirror import MakeMirror
from tests.support.waiting import until
from tests.unit.config.samples import VALID

SOON = 60.0
FAKE = """
import argparse, os, signal, sys, time
from pathlib import Path
from slotkeeper.core.domain.job import JobEvent, WantedState
from slotkeeper.core.domain.report import JobReport
from slotkeeper.core.launch.identity import of
from slotkeeper.core.state.sqlite import Store

parser = argparse.ArgumentParser()
for name in ("--job", "--config", "--state-dir", "--run", "--do"):
    parser.add_argument(name, required=True)
for name in ("--foreground", "--until-caught-up", "--take-over"):
    parser.add_argument(name, action="store_true")
parser.add_argument("--wait-ms", type=int)
given = parser.parse_args()
print("arguments:", given.foreground, given.until_caught_up, given.take_over, given.wait_ms, flush=True)
asked = []
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: asked.append(True))
store = Store.open(Path(given.state_dir))
store.set_driver(given.run, of(os.getpid(), given.run))
if given.do.startswith("trouble"):
    store.apply(given.job, JobEvent.FAILED, "dn_1: gone", "SLOT LOST", "verify first")
if given.do.startswith("plain"):
    store.apply(given.job, JobEvent.FAILED, "the target is not empty", "", "empty it")
code = int(given.do.rpartition(":")[2] or 0)
while given.do == "wait:":
    store.put_report(JobReport(given.job, given.run, "RUNNING"))
    if asked or store.wanted(given.job) is WantedState.STOP:
        store.note_exit(given.run, 12)
        sys.exit(12)
    time.sleep(0.02)
store.note_exit(given.run, code)
sys.exit(code)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a configuration, its state folder and the fake driver."""
    (tmp_path / "c.toml").write_text(VALID.replace("[state]\n", f'[state]\ndir = "{tmp_path / "state"}"\n'), "utf-8")
    (tmp_path / "fake.py").write_text(FAKE, "utf-8")
    return tmp_path


def launch(place: Path, do: str) -> Launch:
    return Launch((sys.executable, str(place / "fake.py")), ("--do", do), replace(FAST, crashes=2, stop=3.0, grace=3.0))


def call(place: Path, monkeypatch: pytest.MonkeyPatch, do: str, *words: str) -> int:
    monkeypatch.setattr(command, "LAUNCH", launch(place, do))
    return main(["run", "orders_rt", *words, "--config", str(place / "c.toml")])


@pytest.fixture
def started(place: Path) -> Iterator[subprocess.Popen[str]]:
    """Start `slotkeeper run` in the foreground of its own process; return once its driver is running."""
    code = (
        "import sys; from slotkeeper.console.__main__ import main; from slotkeeper.console.commands import run;"
        "from slotkeeper.core.launch.launch import Launch;"
        f"run.LAUNCH = Launch.parse({launch(place, 'wait:').text!r});"
        f"sys.exit(main(['run', 'orders_rt', '--wait', '90s', '--config', {str(place / 'c.toml')!r}]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with Store.open(place / "state") as store:
        until(lambda: (row := store.job("orders_rt")) and row.state is JobState.RUNNING, SOON, "the job to run")
    yield process
    if process.poll() is None:
        process.terminate()
    process.wait(SOON)
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def test_who_ran_a_job_and_why_is_in_the_audit(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(place, monkeypatch, "exit:0", "--reason", "INC-7") == 0
    lines = reversed(Audit(StateFolder.open(place / "state")).read().lines)
    assert [(one.action, one.phase.value, one.reason, one.outcome, one.actor.uid) for one in lines] == [
        ("run", "intent", "INC-7", "", os.getuid()),
        ("run", "outcome", "INC-7", "STOPPED", os.getuid()),
    ]


@pytest.mark.parametrize(
    ("do", "code"),
    [("exit:0", 0), ("exit:12", 0), ("exit:2", 2), ("exit:10", 1), ("plain:10", 1), ("trouble:10", 3), ("exit:11", 3)],
)
def test_the_drivers_code_becomes_ours(place: Path, monkeypatch: pytest.MonkeyPatch, do: str, code: int) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert call(place, monkeypatch, do) == code
    assert signal.getsignal(signal.SIGINT) is before


def test_what_the_driver_says_and_why_it_failed_is_on_stderr(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(place, monkeypatch, "trouble:10", "--until-caught-up", "--take-over", "--wait", "2s") == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert "arguments: True True True 2000" in said.err
    assert "SLOT LOST: dn_1: gone" in said.err and "verify first" in said.err


def test_a_driver_that_keeps_crashing_is_held(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(place, monkeypatch, "crash:77") == 1
    with Store.open(place / "state") as store:
        assert observe(store, "orders_rt").state is JobState.FAILED


def test_a_job_that_is_not_configured_or_a_time_that_is_none_is_misuse(place: Path) -> None:
    assert main(["run", "order_rt", "--config", str(place / "c.toml")]) == 2
    assert main(["run", "orders_rt", "--wait", "soon", "--config", str(place / "c.toml")]) == 2


def test_a_running_job_is_refused_by_name_and_a_signal_ends_it_well(
    place: Path, started: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(place / "state") as store:
        driver = observe(store, "orders_rt").driver
    assert driver is not None
    assert call(place, monkeypatch, "exit:0") == 3
    assert f"pid {driver.pid}" in capsys.readouterr().err
    assert main(["status", "--json", "--exit-code", "--config", str(place / "c.toml")]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["severity"], job["state"], job["alive"]) == ("ok", "RUNNING", True)
    started.send_signal(signal.SIGTERM)
    out, err = started.communicate(timeout=SOON)
    assert (started.returncode, out) == (0, ""), err
    assert "arguments: True False False 90000" in err
    with Store.open(place / "state") as store:
        assert observe(store, "orders_rt").state is JobState.STOPPED


def test_another_shell_stops_a_foreground_run(place: Path, started: subprocess.Popen[str]) -> None:
    assert main(["jobs", "stop", "orders_rt", "--config", str(place / "c.toml")]) == 0
    started.communicate(timeout=SOON)
    assert started.returncode == 0


def run_until_caught_up(words: tuple[str, ...]) -> None:
    command = [
        sys.executable,
        "-m",
        "slotkeeper.console",
        "run",
        "orders_rt",
        "--until-caught-up",
        "--wait",
        "20s",
        *words,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


@pytest.mark.spark
def test_a_real_driver_copies_catches_up_and_ends(
    warehouse: Warehouse,
    make_mirror: MakeMirror,
    tmp_path: Path,
    spark_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(spark_cache))
    warehouse.create_table("ods.orders", "id bigint, note text", ("id",))
    mirror = make_mirror(warehouse, "ods.orders")
    mirror.source("INSERT INTO ods.orders SELECT g, 'row ' || g FROM generate_series(1, 500) g")
    job = polling.job("orders_rt", mirror.job.slot, "ods.orders", "mart.orders")
    words = ("--config", str(polling.config(tmp_path, mirror.job.source, mirror.job.sink, job)))
    run_until_caught_up(words)
    mirror.source("DELETE FROM ods.orders WHERE id <= 100")
    assert main(["verify", "orders_rt", *words]) == 4
    run_until_caught_up(words)
    assert main(["verify", "orders_rt", *words]) == 0
    assert main(["status", "--exit-code", *words]) == 1  # it is stopped, and its slot's TTL continues to run
    assert "400 rows in the source, 400 in the sink" in capsys.readouterr().out
