"""Read-only commands end in time and show the known facts if a server never answers or a file is locked."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import doctor
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.services import looking, slot_commands
from slotkeeper.core.state import sqlite
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.sqlite import Store
from tests.support.polling import config, job
from tests.support.proxy import Line, proxy

MOST = 10.0
"""Maximum seconds of a read-only command."""
TABLE = "ods.orders"
ASKING = {
    ("slots", "list"): 5,
    ("slots", "list", "--json"): 5,
    ("slots", "show", TABLE, "orders_rt"): 5,
    ("slots", "peek", TABLE): 5,
    ("slots", "preflight", TABLE): 5,
    ("errors", "list"): 5,
    ("errors", "show", "orders_rt", "1"): 5,
    ("audit", "verify"): 5,
    ("locks",): 5,
    ("doctor",): 5,
    ("doctor", "--json"): 5,
    ("jobs", "list"): 0,
    ("jobs", "show", "idle"): 5,
}
"""Commands that query a server, with their exit code if it never answers."""
HERE = {
    ("status",): 0,
    ("status", "--json"): 0,
    ("jobs", "list", "--json"): 0,
    ("jobs", "show", "orders_rt"): 0,
    ("jobs", "logs", "orders_rt"): 0,
    ("audit", "list"): 0,
    ("audit", "export"): 0,
    ("alerts", "list"): 0,
}
"""Commands that read the state folder."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A configuration whose source and sink accept connections and never answer; the state folder contains one job."""
    monkeypatch.setattr(doctor, "_ask_java", lambda: {"version": "21", "home": "/j", "origin": "PATH"})
    password = tmp_path / "password"
    password.touch(0o600)
    password.write_text("secret")
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        found = []
        for name in ("dws1", "mart"):
            silent = stack.enter_context(proxy(server.getsockname()[1]))
            silent.set(Line.BLACK_HOLE)
            ref = SecretRef("file", str(password))
            found.append(Endpoint(name, "127.0.0.1", silent.port, "postgres", "etl", ref))
        jobs = [job(name, name, TABLE, f"mart.{name}") for name in ("orders_rt", "idle")]
        path = config(tmp_path, found[0], found[1], *jobs)
        with Store.open(tmp_path / "state") as store:
            store.register_job("orders_rt", str(path))
            Audit(store.folder).append(intent("jobs start", "job orders_rt", "a test"))
            store.folder.subfolder("logs")
            store.folder.log("orders_rt").write_text("a line of its log\n")
        yield path


def ended(path: Path, *words: str) -> tuple[int, float]:
    """Return how a command ended, and after how many seconds."""
    begun = time.monotonic()
    code = main([*words, "--config", str(path)])
    return code, time.monotonic() - begun


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter limits, which the tests of one command after another share."""
    monkeypatch.setattr(looking, "SECONDS", 1.0)
    monkeypatch.setattr(doctor, "_WAIT", "1s")
    monkeypatch.setattr(slot_commands, "WITHIN", 0.5)
    monkeypatch.setattr(slot_commands, "OWN_SECONDS", 0.5)


@pytest.mark.parametrize("words", [*ASKING, *HERE], ids=" ".join)
def test_a_command_that_looks_ends_in_time_where_no_server_answers(
    place: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quick(monkeypatch)
    more = ("--wait", "1s") if words[0] == "doctor" else ()
    code, seconds = ended(place, *words, *more)
    said = capsys.readouterr()
    assert code == {**ASKING, **HERE}[words], (said.out, said.err)
    assert seconds < MOST
    if code:
        assert "does not answer" in said.out + said.err
    if words[0] == "doctor":
        assert "state folder" in said.out, "the known values of this host are shown"


@pytest.mark.chaos
@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_command_that_looks_ends_within_ten_seconds_by_its_own_limits(place: Path, words: tuple[str, ...]) -> None:
    code, seconds = ended(place, *words)
    assert (code, seconds < MOST) == (ASKING[words], True), seconds


LOCKS = (
    "import sqlite3, sys\n"
    "file = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    "file.execute('PRAGMA locking_mode = EXCLUSIVE')\n"
    "file.execute('BEGIN EXCLUSIVE')\n"
    "print('locked', flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.mark.parametrize("words", HERE, ids=" ".join)
def test_a_command_that_looks_ends_in_time_where_another_process_has_locked_the_state_file(
    place: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sqlite.READING_SECONDS <= 3.0
    monkeypatch.setattr(sqlite, "READING_SECONDS", 0.5)
    file = place.parent / "state" / sqlite.FILE_NAME
    command = [sys.executable, "-c", LOCKS, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdin and holder.stdout.readline() == "locked\n"
        code, seconds = ended(place, *words)
        holder.stdin.close()
    said = capsys.readouterr()
    assert seconds < 5.0, "less than the time for which a writing command waits"
    if words[0] == "audit":
        assert code == 0 and "a test" in said.out
    else:
        assert "is locked by another process" in said.err
    if words[:2] == ("jobs", "logs"):
        assert code == 0 and "a line of its log" in said.out, "the log is a separate file"


def test_an_answer_that_is_late_holds_up_no_other_and_is_reported() -> None:
    never = threading.Event()
    try:
        lanes = {"slow": [("a", lambda: 1), ("b", lambda: int(never.wait()))], "quick": [("c", lambda: 3)]}
        begun = time.monotonic()
        found = looking.asked(lanes, 0.5)
        assert time.monotonic() - begun < 5.0
        assert (found["a"], found["c"], str(found["b"])) == (1, 3, "slow does not answer within 0.5 s")
    finally:
        never.set()


def test_a_defect_in_a_question_is_raised_and_not_taken_for_silence() -> None:
    with pytest.raises(ZeroDivisionError):
        looking.asked({"one": [("a", lambda: 1 // 0)]}, 5.0)
