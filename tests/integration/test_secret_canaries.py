"""Canary passwords are in no environment or argument of started processes, and still reach those that need them.

Real supervisors with FAKE drivers; `tests/spark/test_secret_canaries.py` has the product with its JVM and its workers.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from slotkeeper.console.actions.runner import Order, Runner
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config import handover, secrets
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.launch import identity as processes
from tests.architecture.checkout import ROOT
from tests.support.canaries import seen_in
from tests.support.jobs import SOON, Jobs
from tests.support.waiting import until

NAME, CANARY = "CANARY_PASSWORD", "cAnary-9f27-variable"
DIGEST = hashlib.sha256(CANARY.encode()).hexdigest()


@pytest.fixture(autouse=True)
def _canary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, CANARY)
    monkeypatch.setattr(handover, "_named", set[str]())
    handover.name({NAME})


def digests(jobs: Jobs) -> list[str]:
    """Return the passwords that each start of the fake driver resolved, as digests."""
    noted = jobs.folder / "orders.json.resolved"
    return noted.read_text(encoding="ascii").split() if noted.exists() else []


def test_neither_supervisor_nor_driver_nor_its_children_have_the_variable_and_the_driver_resolves_it(
    jobs: Jobs,
) -> None:
    view = jobs.start("orders", child=True, resolve=NAME)
    assert view.driver is not None and view.supervisor is not None
    found = {view.supervisor.pid, *processes.members(view.driver)}
    assert len(found) >= 3, "supervisor, driver and its child"
    assert {pid: seen_in(pid, CANARY) for pid in found} == dict.fromkeys(found, "")
    assert digests(jobs) == [DIGEST]


def test_it_outlives_the_supervisor_and_the_driver(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    first = jobs.start("orders", resolve=NAME).driver
    monkeypatch.delenv(NAME)  # the process that started the job has exited
    assert first is not None
    dead = jobs.kill_supervisor("orders")
    until(lambda: jobs.view_of_job("orders").supervisor_alive, SOON, "the driver starts another supervisor")
    second = jobs.view_of_job("orders").supervisor
    assert second is not None and second.pid != dead and not seen_in(second.pid, CANARY)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: len(digests(jobs)) == 2, SOON, "a second driver resolves it")
    assert digests(jobs) == [DIGEST, DIGEST]
    driver = jobs.view_of_job("orders").driver
    assert driver is not None and not seen_in(driver.pid, CANARY)


def test_a_restart_from_a_shell_with_a_new_value_passes_that_on_also_to_later_drivers(jobs: Jobs) -> None:
    jobs.start("orders", resolve=NAME)
    code = (
        "import sys; from dataclasses import replace; from pathlib import Path;"
        " from slotkeeper.core.config import handover;"
        "from slotkeeper.core.launch import control; from slotkeeper.core.launch.control import Patience;"
        "from slotkeeper.core.state.sqlite import Store;"
        "from tests.support.jobs import FAKE, SOON;"
        f"handover.name({{{NAME!r}}}); store = Store.open(Path(sys.argv[1])).__enter__();"
        "control.restart(store, 'orders', launch=FAKE, patience=Patience(SOON))"
    )
    shell = {**os.environ, NAME: "cAnary-9f27-another"}
    words = [sys.executable, "-c", code, str(jobs.store.folder.path)]
    subprocess.run(words, check=True, timeout=60, env=shell, cwd=ROOT)
    newer = hashlib.sha256(b"cAnary-9f27-another").hexdigest()
    until(lambda: digests(jobs) == [DIGEST, newer], SOON, "the new driver resolves the new value")
    driver = jobs.view_of_job("orders").driver
    assert driver is not None
    os.kill(driver.pid, signal.SIGKILL)
    until(lambda: digests(jobs) == [DIGEST, newer, newer], SOON, "the driver after a crash does, too")


def test_no_file_of_the_state_folder_holds_it(jobs: Jobs) -> None:
    jobs.start("orders", resolve=NAME)
    files = [path for path in jobs.folder.rglob("*") if path.is_file()]
    assert files and not [path for path in files if CANARY.encode() in path.read_bytes()]


def test_a_password_command_does_not_get_it(tmp_path: Path) -> None:
    code = f"import os; print(os.environ.get({NAME!r}, 'nothing'))"
    assert secrets.resolve(SecretRef("command", f'{sys.executable} -c "{code}"')) == "nothing"


def test_an_action_of_the_console_gets_it_by_another_way(tmp_path: Path) -> None:
    script = tmp_path / "command.py"
    script.write_text(
        "import hashlib, os, sys\n"
        "from pathlib import Path\n"
        "from slotkeeper.core.config.secrets import resolve\n"
        "from slotkeeper.core.domain.endpoint import SecretRef\n"
        f"said = hashlib.sha256(resolve(SecretRef('env', {NAME!r})).encode()).hexdigest()\n"
        "environment = Path('/proc/self/environ').read_bytes() + Path('/proc/self/cmdline').read_bytes()\n"
        f"print(said, {CANARY[:9]!r}.encode() in environment.replace(b'none', b''))\n",
        encoding="utf-8",
    )
    runner = Runner(tmp_path / "state", SystemClock(), (sys.executable, str(script)))
    id = runner.start(Order((), "look", "key"))
    until(lambda: (one := runner.find(id)) is not None and one.over, SOON, "it has ended")
    assert runner.said(id).out.split() == [DIGEST, "False"], runner.said(id).err


def test_a_process_that_has_a_secret_dumps_no_core() -> None:
    code = (
        "import resource\n"
        "from slotkeeper.core.config.secrets import resolve\n"
        "from slotkeeper.core.domain.endpoint import SecretRef\n"
        f"resolve(SecretRef('env', {NAME!r}))\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), open('/proc/self/coredump_filter').read().strip())\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout.split("\n")[0] == "(0, 0) 00000000", ran.stderr
    assert resource.RLIMIT_CORE is not None and psutil.pid_exists(os.getpid())
