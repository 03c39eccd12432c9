"""However the console ends, the terminal is restored if possible, and a running job is not affected."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator

import pytest

from bench.console_fill import Writer
from slotkeeper.core.state.sqlite import Store
from tests.support.terminal import Screen, Terminal, console
from tests.support.waiting import until

JOB = "orders_01_rt"
PUT_BACK = dict.fromkeys(("1049", "1004", "2004", "1000", "1002", "1006"), False) | {"25": True, "7": True}
"""The previous screen is back, with its cursor; mouse and focus reports are off; lines wrap."""
WATCH = 60.0
ESCAPE = "\x1b[27u"
BELL = "\x07"
"""Textual's answer to a key without a meaning on the current screen."""


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    """Jobs that a running process reports for, several times a second."""
    with Writer.start(tmp_path_factory.mktemp("jobs") / "fill", 2, 4, every=0.2) as started:
        yield started


def _progress(writer: Writer) -> int:
    with Store.open(writer.config.parent / "state") as store:
        job = store.job(JOB)
        assert job is not None and job.report is not None
        return job.report.registrations


def _advances(writer: Writer) -> bool:
    """Whether the job's report advances, from the same process."""
    now = _progress(writer)
    until(lambda: _progress(writer) > now, WATCH, "the job to advance")
    return writer.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_the_console_and_puts_the_terminal_back(number: signal.Signals, writer: Writer) -> None:
    with Terminal(console(writer.config)) as terminal:
        terminal.shows("Overview", JOB)
        seconds = terminal.end(number)
        assert terminal.process.returncode == 0
        assert terminal.screen.modes == PUT_BACK
        assert terminal.screen.foreign == []
        assert seconds < WATCH
    assert _advances(writer)


def test_a_defect_puts_the_terminal_back_with_every_mode_of_the_mouse(writer: Writer) -> None:
    broken = (
        "import sys; from slotkeeper.console.tui.screens.help import HelpScreen; HelpScreen.draw = lambda self: 1/0"
    )
    runs = "from slotkeeper.console.__main__ import main; sys.exit(main(sys.argv[1:]))"
    with Terminal([sys.executable, "-c", f"{broken}; {runs}", *console(writer.config)[3:]]) as terminal:
        terminal.shows("Overview", JOB)
        terminal.until(lambda: terminal.screen.modes.get("1002", False), "the mouse to be on")
        terminal.send("?")
        assert terminal.gone() != 0
        assert terminal.screen.modes == PUT_BACK


def test_a_signal_while_something_lies_over_the_screen_puts_it_back_too(writer: Writer) -> None:
    with Terminal(console(writer.config)) as terminal:
        terminal.shows("Overview", JOB)
        terminal.send("?")
        terminal.shows("Help: ")
        terminal.end()
        assert terminal.screen.modes == PUT_BACK


def test_a_closed_terminal_ends_the_console(writer: Writer) -> None:
    with Terminal(console(writer.config)) as terminal:
        terminal.shows("Overview", JOB)
        terminal.hang_up()
        terminal.process.wait(WATCH)
    assert _advances(writer)


def test_a_lost_terminal_ends_the_console_where_hangups_are_ignored(writer: Writer) -> None:
    ignoring = [
        sys.executable,
        "-c",
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])",
        *console(writer.config),
    ]
    with Terminal(ignoring) as terminal:
        terminal.shows("Overview", JOB)
        terminal.hang_up()
        terminal.process.wait(WATCH)
    assert _advances(writer)


def test_killing_the_console_leaves_the_job_and_the_next_console_as_they_were(writer: Writer) -> None:
    with Terminal(console(writer.config)) as terminal:
        terminal.shows("Overview", JOB)
        os.kill(terminal.process.pid, signal.SIGKILL)
        assert terminal.gone() == -signal.SIGKILL
    assert _advances(writer)
    with Terminal(console(writer.config)) as terminal:
        terminal.shows("Overview", JOB)
        terminal.send("2")
        terminal.shows("[2 Jobs]", JOB)
        terminal.end()


def test_the_console_starts_nothing_by_itself(writer: Writer) -> None:
    with Terminal(console(writer.config)) as terminal:
        terminal.shows("Overview", JOB)
        for key in "2345671":
            terminal.send(key)
            terminal.shows(f"[{key} ")
        assert terminal.children() == []
        terminal.end()


def test_a_size_that_changes_is_drawn_at_once(writer: Writer) -> None:
    with Terminal(console(writer.config)) as terminal:
        terminal.shows("Overview", JOB)
        terminal.resize((58, 14))
        terminal.until(lambda: "60x15" in terminal.screen.text, "the sentence for a small terminal")
        terminal.resize((100, 30))
        terminal.shows("Overview", JOB)
        terminal.end()
        assert terminal.process.returncode == 0


@pytest.mark.parametrize("how", ["NO_COLOR", "--mono"])
def test_without_colour_no_colour_is_sent_and_states_have_a_sign(how: str, writer: Writer) -> None:
    words, env = (["--mono"], {}) if how == "--mono" else ([], {how: "1"})
    with Terminal(console(writer.config, *words), env=env) as terminal:
        terminal.shows("Overview", JOB)
        for key in "2345671":
            terminal.send(key)
            terminal.shows(f"[{key} ")
        terminal.end()
        assert terminal.screen.coloured == 0
        assert terminal.screen.foreign == []


def test_a_key_that_leaves_a_screen_typed_twice_leaves_it_once(writer: Writer) -> None:
    with Terminal(console(writer.config)) as terminal:
        terminal.shows("Overview", JOB)
        for burst in (
            "?\r\r",
            "?down\r\r",
            f"?{ESCAPE}{ESCAPE}",
            "2\r\r",
            f"2\r{ESCAPE}{ESCAPE}",
            ":\r\r",
            f":{ESCAPE}{ESCAPE}",
        ):
            terminal.send(burst)
            terminal.quiet(0.3)
            assert terminal.process.poll() is None, (burst, terminal.screen.text)
            terminal.send(ESCAPE)
            terminal.quiet(0.1)
        terminal.send("1")
        terminal.shows("[1 Overview]")
        terminal.end()
        assert terminal.process.returncode == 0, terminal.screen.text


def test_keys_typed_faster_than_screens_open_break_nothing(writer: Writer, seed: int) -> None:
    chance = random.Random(seed)
    keys = [*"1234567jkgGzspp?/[]eldbwEoxun+-<>", "\r", "\r", ESCAPE, ESCAPE, "\t", "\x1b[6~"]
    with Terminal(console(writer.config)) as terminal:
        terminal.shows("Overview", JOB)
        for _ in range(40):
            typed = chance.choices(keys, k=12)
            terminal.send("".join(typed))
            terminal.quiet(0.05)
            assert terminal.process.poll() is None, (typed, terminal.screen.text)
        terminal.end()
        assert terminal.process.returncode == 0, terminal.screen.text
        assert set(terminal.screen.foreign) <= {BELL}


@pytest.mark.parametrize(
    "content",
    [
        b"\x1b]0;title\x07",
        b"\x1b]52;c;aGFjaw==\x07",
        b"\x1bPq#0\x1b\\",
        b"\x1b[5m",
        b"\x1b[99;1H",
        b"\x1b[2J",
        b"\x1bc",
        b"\x07",
        b"\x00",
        "\x9b31m".encode(),
        "\u202e".encode(),
        b"\xff",
        b"\x1b[?1000x",
    ],
)
def test_what_the_console_never_sends_is_noticed(content: bytes) -> None:
    screen = Screen(20, 4)
    for one in (b"\x1b[?1049h\x1b[1;31mred\x1b[0m\x1b[2;1H", content[:2], content[2:], b"end"):
        screen.feed(one)
    assert screen.foreign
    assert "red" in screen.lines()[0]


def test_what_the_console_sends_is_not() -> None:
    screen = Screen(20, 4)
    screen.feed(b"\x1b[?1049h\x1b[?25l\x1b]22;default\x07\x1b[1;1H\x1b[38;5;73;48;5;233m[1 Overview]\x1b[0m\r\n")
    screen.feed("\x1b[2;1H\u8ba2\u5355 \u2500".encode())
    assert screen.foreign == []
    assert screen.lines()[:2] == ["[1 Overview]", "\u8ba2\u5355 \u2500"]
    assert screen.coloured == 2
