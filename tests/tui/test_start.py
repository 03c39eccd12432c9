"""Without a command: the console on a terminal, the status otherwise; the terminal is restored afterwards."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
import tty
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual.pilot import Pilot

from slotkeeper.console.__main__ import main
from slotkeeper.console.tui import startup
from slotkeeper.console.tui import terminal as surroundings
from slotkeeper.console.tui.screens.jobs import OverviewScreen
from slotkeeper.console.tui.screens.welcome import WelcomeScreen
from slotkeeper.console.tui.terminal import POLL_SECONDS, START_DEMO
from slotkeeper.core.config.load import load
from slotkeeper.core.state.sqlite import Store
from tests.support.printed import bare
from tests.support.terminal import Terminal as drawn_by
from tests.support.terminal import console as console_at
from tests.support.waiting import until as until_true
from tests.tui.filled import console, drive, on_screen, press, screen
from tests.tui.planted import until
from tests.tui.terminal import ALTERNATE_OFF, ALTERNATE_ON, QUESTION, ROOT, Terminal, ignore_hangup
from tests.unit.config.samples import VALID


@pytest.mark.parametrize("how", ["q", signal.SIGTERM, signal.SIGHUP], ids=str)
def test_the_console_opens_on_a_terminal_and_puts_it_back(how: str | signal.Signals, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    before = termios.tcgetattr(terminal.master)
    terminal.read_until(b"orders_rt")
    assert ALTERNATE_ON in terminal.seen
    if isinstance(how, str):
        terminal.write(how.encode())
    else:
        terminal.process.send_signal(how)
    terminal.read_until(ALTERNATE_OFF)
    assert termios.tcgetattr(terminal.master)[:4] == before[:4]
    assert terminal.end() == 0


@pytest.mark.parametrize("hangup_ignored", [False, True], ids=["hangup", "hangup-ignored"])
def test_a_terminal_that_is_gone_ends_the_console(hangup_ignored: bool, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, before=ignore_hangup if hangup_ignored else None)
    terminal.read_until(b"orders_rt")
    terminal.hang_up()
    terminal.end(within=POLL_SECONDS + 1)  # raises if it still runs


@pytest.mark.parametrize(("args", "env"), [(["--mono"], {}), ([], {"NO_COLOR": "1"})], ids=["option", "NO_COLOR"])
def test_without_colours_none_is_sent_and_the_cursor_is_still_seen(
    args: list[str], env: dict[str, str], tmp_path: Path
) -> None:
    terminal = Terminal(tmp_path, *args, env=env)
    terminal.read_until(b"orders_rt")
    for key in (b"2", b"3", b"4", b"5", b"6", b"7", b"1"):
        terminal.press(key, b"[" + key)
    escape, help = b"\x1b", b"Enter runs the key on the screen below"
    for key, wanted in ((b":", b":slots"), (escape, b" help  "), (b"?", help), (escape, b"orders_rt")):
        terminal.press(key, wanted)
    terminal.press(b"q", ALTERNATE_OFF)
    assert terminal.colours() == set()
    assert b"\x1b[7m" in terminal.seen or b";7m" in terminal.seen or b"[7;" in terminal.seen
    assert terminal.end() == 0


def test_with_colours_some_are_sent(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.read_until(b"orders_rt")
    terminal.write(b"q")
    terminal.read_until(ALTERNATE_OFF)
    assert {b"38", b"48"} & terminal.colours()
    assert terminal.end() == 0


def test_a_terminal_of_sixteen_colours_shows_its_own_not_what_is_nearest_to_ours(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, env={"TERM": "xterm", "COLORTERM": ""})
    terminal.read_until(b"orders_rt")
    terminal.press(b"q", ALTERNATE_OFF)
    nearest = {f"{number}".encode() for number in (37, 40, *range(90, 98), *range(100, 108))}
    assert {b"35", b"36"} <= terminal.colours() and not terminal.colours() & nearest
    assert terminal.end() == 0


@pytest.mark.parametrize("ambiguous", [1, 2], ids=["narrow", "wide"])
def test_a_terminal_that_draws_signs_two_cells_wide_gets_ascii_and_no_column_moves(
    ambiguous: int, tmp_path: Path
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(VALID.replace("[state]", f'[state]\ndir = "{tmp_path / "state"}"'), encoding="utf-8")
    with drawn_by(console_at(config), (80, 24), {"LANG": "C.UTF-8"}, ambiguous=ambiguous) as terminal:
        terminal.shows("orders_rt", "STREAMING", "z next fault")
        for key, title in (("2", "WANTED"), ("4", "SIGNATURE"), ("1", "STREAMING")):
            terminal.send(key)
            terminal.shows(title)
        assert terminal.screen.text.isascii() is (ambiguous == 2)
        assert terminal.screen.foreign == [], "characters beyond the last column"
        edges = [line for line in terminal.screen.lines() if line[:1] in "|\u2502"]
        assert len(edges) > 9 and all(len(line) == 80 for line in edges), terminal.screen.text


def test_a_terminal_that_does_not_say_how_wide_it_draws_is_not_waited_for(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.read_until(b"orders_rt")
    assert QUESTION in terminal.seen and not terminal.seen.isascii()
    terminal.press(b"q", ALTERNATE_OFF)
    assert terminal.end() == 0


@pytest.mark.parametrize(
    ("args", "env"),
    [(["--ascii"], {}), ([], {"TERM": "linux"}), ([], {"LC_ALL": "C"}), ([], {"LANG": "zh_CN.GBK"})],
    ids=["option", "linux", "C", "GBK"],
)
def test_where_only_ascii_is_possible_no_query_is_sent(args: list[str], env: dict[str, str], tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, *args, env=env)
    terminal.read_until(b"orders_rt")
    terminal.write(b"q")
    terminal.read_until(ALTERNATE_OFF)
    assert QUESTION not in terminal.seen and terminal.seen.isascii()
    assert terminal.end() == 0


def test_an_answer_that_comes_late_is_not_taken_as_keys(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.read_until(b"Overview")
    terminal.read_until(b"orders_rt")
    terminal.press(b"\x1b[24;2R\x1b[7;3Rf", b"paused")
    assert not any(label in terminal.seen for label in (b"WANTED", b"SAID", b"TTL LEFT")), "columns of 2, 7 and 3"
    terminal.write(b"q")
    assert terminal.end() == 0


def test_what_is_typed_in_one_go_is_taken_in_its_order(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.read_until(b"orders_rt")
    terminal.press(b":rw no mpq\r", b" WRITE ")
    terminal.press(b"/zz\r", b"filter zz")
    terminal.press(b"?mouse", b"on or off")
    terminal.press(b"\x1b", b"filter zz")
    terminal.press(b"q", b"quit anyway?")
    terminal.press(b"y", ALTERNATE_OFF)
    assert terminal.end() == 0


def test_the_mouse_is_on_until_m_and_off_at_the_end(tmp_path: Path) -> None:
    modes = ("1000", "1002", "1006")
    on, off = ("".join(f"\x1b[?{mode}{end}" for mode in modes).encode() for end in "hl")
    terminal = Terminal(tmp_path)
    terminal.read_until(on)
    terminal.read_until(b"Shift+drag selects text")
    assert b"\x1b[?1003h" not in terminal.seen, "each movement of the mouse would cause traffic"
    terminal.press(b"m", off)
    terminal.read_until(b"mouse off")
    terminal.press(b"m", on)
    terminal.seen = b""
    terminal.write(b"q")
    terminal.read_until(ALTERNATE_OFF)
    assert off in terminal.seen and terminal.end() == 0


def test_a_click_opens_a_screen_chooses_a_row_and_presses_a_key(tmp_path: Path) -> None:
    def click(column: int, row: int) -> bytes:
        return f"\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m".encode()

    terminal = Terminal(tmp_path)
    terminal.read_until(b"Shift+drag selects text")
    since = len(terminal.seen)
    terminal.press(click(16, 2), b"WANTED")
    terminal.read_until(b"Jobs", since)
    assert b"Shift+drag" not in terminal.seen[since:], "shown until the mouse is used"
    terminal.press(click(3, 24), b"Help")
    terminal.press(b"\x1b[27u", b"WANTED")
    terminal.press(b"q", ALTERNATE_OFF)
    assert terminal.end() == 0


def test_without_a_configuration_the_console_offers_one_and_writes_it(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, configured=False)
    terminal.read_until(b"No configuration exists yet")
    terminal.press(b"w", b"doctor`")  # a row may end between the words, depending on the length of the path
    written = tmp_path / "slotkeeper" / "config.toml"
    assert written.stat().st_mode & 0o777 == 0o600
    assert written.read_bytes() == (ROOT / "config.example.toml").read_bytes()
    load(written, {"HOME": str(tmp_path)})
    written.write_text("mine", encoding="utf-8")
    terminal.press(b"w", b"the file already exists")
    assert written.read_text("utf-8") == "mine"
    terminal.press(b"q", ALTERNATE_OFF)
    assert terminal.end() == 0


def test_without_a_configuration_a_key_of_the_overview_leads_back_to_the_welcome_screen(tmp_path: Path) -> None:
    made = console(tmp_path, filled=False)
    made.app.services.loaded = None

    async def check(pilot: Pilot[int]) -> None:
        for key in ("escape", "W", "1", "W"):
            on_screen(made.app, WelcomeScreen if key in ("escape", "1") else OverviewScreen)
            await press(pilot, key)
        await until(pilot, made.app, "No configuration exists yet")
        await press(pilot, "escape")
        assert "? help  W welcome" in screen(made.app)
        await press(pilot, "question_mark")
        assert "welcome" in screen(made.app)

    drive(made, check)


def test_with_a_configuration_no_key_of_the_overview_leads_to_the_welcome_screen(tmp_path: Path) -> None:
    made = console(tmp_path, filled=False)

    async def check(pilot: Pilot[int]) -> None:
        await press(pilot, "W")
        on_screen(made.app, OverviewScreen)
        assert "welcome" not in screen(made.app)

    drive(made, check)


def test_d_on_the_welcome_screen_becomes_the_demo_in_the_same_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[tuple[str, list[str], str | None]] = []
    monkeypatch.setattr("os.execve", lambda path, words, env: became.append((path, words, env.get("HOME"))))
    surroundings.followed(START_DEMO, {"HOME": str(tmp_path)})
    assert became == [(sys.executable, [sys.executable, "-P", "-m", "slotkeeper.console", "demo"], str(tmp_path))]
    assert surroundings.followed(0, {}) == 0 and len(became) == 1


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No terminal, and a home without a configuration; the path that one would have."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("SLOTKEEPER_CONFIG", raising=False)
    return tmp_path / "slotkeeper" / "config.toml"


def test_without_a_terminal_it_prints_the_status_and_why_there_is_no_screen(
    elsewhere: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.toml"
    file.write_text(VALID.replace("[state]", f'[state]\ndir = "{tmp_path / "jobs"}"'), encoding="utf-8")
    words = ["--config", str(file)]
    with Store.open(load(file, {}).state_dir) as store:
        store.register_job("orders_rt", str(file))
    assert main([*words, "status"]) == 0
    status = capsys.readouterr()
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out == status.out and "orders_rt" in said.out
    (line,) = said.err.removeprefix(status.err).splitlines()
    assert bare(line).endswith("is not a terminal; showing `slotkeeper status`") and "no console: standard " in line


def test_without_a_terminal_and_a_configuration_it_prints_two_lines_and_ends_with_2(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([]) == 2
    said = capsys.readouterr()
    first, second = said.err.splitlines()
    assert said.out == "" and "no configuration, and no console: standard " in first
    assert "`slotkeeper init` writes one" in bare(second) and "slotkeeper demo" in second
    assert max(map(len, (first, bare(second)))) <= 80 and not elsewhere.exists()


@pytest.mark.parametrize("kind", ["dumb", ""], ids=["dumb", "not set"])
def test_a_dumb_terminal_gets_no_screen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, SimpleNamespace(isatty=lambda: True))
    monkeypatch.setenv("TERM", "xterm")
    assert startup.on_a_terminal()
    monkeypatch.setenv("TERM", kind)
    assert startup.no_screen() == "TERM is dumb or not set" and not startup.on_a_terminal()


def test_the_status_elsewhere_loads_no_screen() -> None:
    code = (
        "import sys; from slotkeeper.console.__main__ import main; main([]);"
        " print('loaded', [m for m in ('textual', 'psycopg2') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.strip().endswith("loaded []"), ran.stderr


class Keyboard:
    """A terminal that answers in pieces, each after the text before it was read."""

    def __init__(self, *pieces: bytes) -> None:
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self._pieces = pieces
        self.is_read = threading.Event()
        """Set once the other end reads: before that, text in transit cannot be told from text that was read."""
        self.question = startup.Question(self.slave, self.slave)
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        with suppress(OSError):
            for piece in self._pieces:
                os.write(self.master, piece)
                self.is_read.wait(30)
                until_true(lambda: _unread(self.slave) == 0, 30, "it to be read")

    def close(self) -> int:
        """The number of bytes left for the next reader."""
        left = _unread(self.slave)
        os.close(self.slave)
        os.close(self.master)
        self._thread.join(30)
        return left


def _unread(descriptor: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0\0\0\0"))[0])


@pytest.mark.parametrize("late", [b"\x1b", b"\x1b[", b"\x1b[24", b"\x1b[24;"])
def test_an_answer_of_which_only_a_part_is_there_in_time_leaves_no_keys_behind(
    late: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "SECONDS", 0.0)
    monkeypatch.setattr(startup, "PART_SECONDS", 30.0)
    keyboard = Keyboard(late, b"\x1b[24;11R".removeprefix(late))
    until_true(lambda: _unread(keyboard.slave) == len(late), 30, "a part of the answer")
    keyboard.is_read.set()
    assert keyboard.question.wide() is False
    assert keyboard.close() == 0


def test_a_terminal_that_writes_without_end_holds_up_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "SECONDS", 3_600.0)
    keyboard = Keyboard(*[b"j" * 512] * 1_000)
    keyboard.is_read.set()
    assert keyboard.question.wide() is False
    keyboard.close()
