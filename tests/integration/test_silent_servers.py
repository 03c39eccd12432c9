"""Commands before servers that hang, trickle or lie: each ends in its time with one line, and at Ctrl-C at once.

Next door: `tests/support/fake_server.py` has the servers; `tests/unit/drivers/test_deadline.py` the calls themselves.
"""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from console.__main__ import main
from core.services import sessions
from tests.support.fake_server import Mode
from tests.support.silent_place import LOGIN_SECONDS, SECRET, Place, opened

STATEMENT_SECONDS, SINK_SECONDS = 4, 7
"""The limit of a status (2 s) and of a look at a sink (5 s), with our grace."""
STARTING = 10.0
"""What an interpreter on a busy machine may take to start, beside the limit; a hang is longer."""
UNREACHABLE, INTERRUPTED = 5, 130

DOCTOR, LIST, SHOW, PEEK, VERIFY = (
    ("doctor",),
    ("slots", "list"),
    ("slots", "show", "ods.orders", "orders_slot"),
    ("slots", "peek", "ods.orders"),
    ("verify", "orders_rt"),
)


def ended(command: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code, and what it told; one that hangs is killed."""
    try:
        out, err = command.communicate(timeout=40)
    except subprocess.TimeoutExpired:
        command.kill()
        out, err = command.communicate()
    return command.returncode, out, err


QUICK = [
    (Mode.MUTE, LIST, LOGIN_SECONDS),
    (Mode.HANG, LIST, STATEMENT_SECONDS),
]
SILENT = {
    Mode.MUTE: LOGIN_SECONDS,
    Mode.HANG_AT_LOGIN: LOGIN_SECONDS,
    Mode.TLS_HANG: LOGIN_SECONDS,
    Mode.HANG: STATEMENT_SECONDS,
    Mode.TRICKLE: STATEMENT_SECONDS,
    Mode.FLOOD: STATEMENT_SECONDS,
}
REST = [
    pytest.param(mode, words, seconds + (SINK_SECONDS if words is DOCTOR else 0), marks=pytest.mark.chaos)
    for mode, seconds in SILENT.items()
    for words in (DOCTOR, LIST, SHOW, PEEK, VERIFY)
    if not any(known[:2] == (mode, words) for known in QUICK)
]


@pytest.mark.parametrize(("mode", "words", "seconds"), [*QUICK, *REST])
def test_a_command_before_a_silent_server_ends_in_its_time_and_names_it(
    mode: Mode, words: tuple[str, ...], seconds: int, tmp_path: Path
) -> None:
    with opened(mode, tmp_path) as place:
        began = time.monotonic()
        _, out, err = ended(place.begin(words))
        took = time.monotonic() - began
    lines = [line for line in (out + err).splitlines() if "does not answer within" in line]
    assert len([line for line in lines if "source dws1 (127.0.0.1:" in line]) == 1, out + err
    assert "Traceback" not in err
    assert SECRET not in out + err + place.files()
    assert took < seconds + STARTING


def code_of(place: Place, words: tuple[str, ...]) -> tuple[int, str]:
    """A command's exit code, and all that it told."""
    code, out, err = ended(place.begin(words))
    return code, out + err


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (Mode.ECHO, DOCTOR),
        (Mode.GARBAGE, LIST),
        (Mode.NO_TLS, LIST),
        pytest.param(Mode.CLEARTEXT, VERIFY, marks=pytest.mark.chaos),
        pytest.param(Mode.ECHO, VERIFY, marks=pytest.mark.chaos),
        pytest.param(Mode.ECHO, LIST, marks=pytest.mark.chaos),
        pytest.param(Mode.GARBAGE, DOCTOR, marks=pytest.mark.chaos),
    ],
)
def test_what_a_false_server_says_is_told_without_a_secret(mode: Mode, words: tuple[str, ...], tmp_path: Path) -> None:
    with opened(mode, tmp_path) as place:
        code, told = code_of(place, words)
    assert code and "source dws1 (127.0.0.1:" in told
    assert "Traceback" not in told and "defect" not in told
    assert SECRET not in told + place.files()


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (Mode.MUTE, DOCTOR),
        (Mode.HANG, VERIFY),
        (Mode.TRICKLE, LIST),
        *(pytest.param(Mode.HANG, words, marks=pytest.mark.chaos) for words in (DOCTOR, LIST, SHOW, PEEK)),
        *(pytest.param(Mode.FLOOD, words, marks=pytest.mark.chaos) for words in (LIST, VERIFY)),
    ],
)
def test_ctrl_c_ends_a_command_that_waits_for_a_server(mode: Mode, words: tuple[str, ...], tmp_path: Path) -> None:
    with opened(mode, tmp_path) as place:
        command = place.begin(words)
        assert place.source.asked.wait(60)
        began = time.monotonic()
        command.send_signal(signal.SIGINT)
        code, _, err = ended(command)
        assert time.monotonic() - began < 1
    assert code == INTERRUPTED, err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [("errors", "list", "orders_rt"), VERIFY])
def test_a_command_does_not_wait_the_minutes_of_a_step_for_a_store(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sessions, "STORE_LIMIT_MS", 500)
    with opened(Mode.HANG, tmp_path) as place:
        began = time.monotonic()
        assert main([*words, "--config", str(place.folder / "slotkeeper.toml")])
        took = time.monotonic() - began
    assert "does not answer within" in capsys.readouterr().err
    assert took < STATEMENT_SECONDS + STARTING
