"""Commands with servers that hang, trickle or lie: each ends within its limit with one line, and at once at Ctrl-C."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.services import looking
from tests.support.fake_server import Mode
from tests.support.silent_place import LOGIN_SECONDS, SECRET, Place, bare_interrupt, ended, opened
from tests.support.waiting import until

STATEMENT_SECONDS = 4
"""The limit of a status check (2 s), plus the product's grace period."""
STARTING = 10.0
"""The time that an interpreter on a busy host may take to start, beyond the limit; a hang takes longer."""
BARE = 4
"""Ctrl-C can take a second plus this multiple of the time that an interpreter with the same modules takes."""
INTERRUPTED = 130

DOCTOR, LIST, VERIFY = ("doctor",), ("slots", "list"), ("verify", "orders_rt")
QUICK = [
    (Mode.MUTE, LIST, LOGIN_SECONDS),
    (Mode.HANG, LIST, STATEMENT_SECONDS),
]


@pytest.mark.parametrize(("mode", "words", "seconds"), QUICK)
def test_a_command_before_a_silent_server_ends_in_its_time_and_names_it(
    mode: Mode, words: tuple[str, ...], seconds: int, tmp_path: Path
) -> None:
    with opened(mode, tmp_path) as place:
        began = time.monotonic()
        _, out, err = ended(place.begin(words))
        took = time.monotonic() - began
        ended(place.begin(("--version",)))
        usual = time.monotonic() - began - took
    lines = [line for line in (out + err).splitlines() if "does not answer within" in line]
    assert len([line for line in lines if "source dws1 (127.0.0.1:" in line]) == 1, out + err
    assert "Traceback" not in err
    assert SECRET not in out + err + place.files()
    assert took < seconds + STARTING + 2 * usual


def code_of(place: Place, words: tuple[str, ...]) -> tuple[int, str]:
    """Return a command's exit code, and its output."""
    code, out, err = ended(place.begin(words))
    return code, out + err


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (Mode.ECHO, DOCTOR),
        (Mode.GARBAGE, LIST),
        (Mode.NO_TLS, LIST),
    ],
)
def test_what_a_false_server_says_is_reported_without_a_secret(
    mode: Mode, words: tuple[str, ...], tmp_path: Path
) -> None:
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
        (Mode.MUTE, ("locks",)),
        (Mode.HANG, ("slots", "register", "ods.orders", "orders_slot")),
    ],
)
def test_ctrl_c_ends_a_command_that_waits_for_a_server(mode: Mode, words: tuple[str, ...], tmp_path: Path) -> None:
    with opened(mode, tmp_path) as place:
        command = place.begin(words)
        until(lambda: place.source.asked.is_set() or place.sink.asked.is_set(), 60, "a server to be asked")
        began = time.monotonic()
        command.send_signal(signal.SIGINT)
        code, _, err = ended(command)
        assert time.monotonic() - began < 1 + BARE * bare_interrupt()
    assert code == INTERRUPTED, err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [("errors", "list", "orders_rt"), VERIFY])
def test_a_command_does_not_wait_the_minutes_of_a_step_for_a_store(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(looking, "STORE_LIMIT_MS", 500)
    with opened(Mode.HANG, tmp_path) as place:
        began = time.monotonic()
        assert main([*words, "--config", str(place.folder / "slotkeeper.toml")])
        took = time.monotonic() - began
    assert "does not answer within" in capsys.readouterr().err
    assert took < STATEMENT_SECONDS + STARTING
