"""The console with servers that never answer: it stays responsive, reports them, shows no secret, and q exits at
once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.fake_server import Mode
from tests.support.silent_place import SECRET, opened
from tests.support.terminal import Terminal, console

LEFT_WITHIN = 2.0
"""Seconds from q to the process's end; a busy machine may need most of them to end an interpreter."""
SLOTS = "3"


def left(terminal: Terminal) -> float:
    """Seconds until the console has exited."""
    began = time.monotonic()
    terminal.send("q")
    assert terminal.gone() == 0
    return time.monotonic() - began


@pytest.mark.parametrize(
    "mode",
    [
        Mode.HANG,
        *(
            pytest.param(mode, marks=pytest.mark.chaos)
            for mode in (Mode.MUTE, Mode.HANG_AT_LOGIN, Mode.TRICKLE, Mode.FLOOD, Mode.TLS_HANG)
        ),
    ],
)
def test_the_console_says_that_a_source_does_not_answer_and_is_left_at_once(mode: Mode, tmp_path: Path) -> None:
    with opened(mode, tmp_path) as place, Terminal(console(place.folder / "slotkeeper.toml"), (120, 30)) as terminal:
        terminal.shows("Overview")
        terminal.send(SLOTS)
        assert place.source.asked.wait(60)
        terminal.send("?")
        terminal.shows("Help: Slots")  # it redraws while a source hangs
        terminal.send("\x1b[27u")
        terminal.shows("does not answer within")
        terminal.shows("no source has answered yet")
        assert left(terminal) < LEFT_WITHIN
        assert SECRET not in terminal.content.decode("utf-8", "replace") + place.files()


@pytest.mark.parametrize("mode", [Mode.HANG, pytest.param(Mode.MUTE, marks=pytest.mark.chaos)])
def test_the_console_is_left_while_a_question_is_on_its_way(mode: Mode, tmp_path: Path) -> None:
    with opened(mode, tmp_path) as place, Terminal(console(place.folder / "slotkeeper.toml"), (120, 30)) as terminal:
        terminal.shows("Overview")
        terminal.send(SLOTS)
        assert place.source.asked.wait(60)
        assert left(terminal) < LEFT_WITHIN


@pytest.mark.parametrize("mode", [Mode.ECHO, pytest.param(Mode.GARBAGE, marks=pytest.mark.chaos)])
def test_what_a_false_server_says_is_shown_without_a_secret(mode: Mode, tmp_path: Path) -> None:
    with opened(mode, tmp_path) as place, Terminal(console(place.folder / "slotkeeper.toml"), (120, 30)) as terminal:
        terminal.shows("Overview")
        terminal.send(SLOTS)
        terminal.shows("source dws1 (127.0.0.1:")
        assert left(terminal) < LEFT_WITHIN
        assert SECRET not in terminal.content.decode("utf-8", "replace") + place.files()
