"""Without a command: the console on a terminal, help elsewhere; it leaves the terminal as it found it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.__main__ import main
from tests.unit.config.samples import VALID

ROOT = Path(__file__).parents[2]
SOON = 30.0
ALTERNATE_ON, ALTERNATE_OFF = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """The console as a process on a terminal of its own."""

    def __init__(self, folder: Path, *args: str) -> None:
        config = folder / "c.toml"
        config.write_text(VALID.replace("[state]", f'[state]\ndir = "{folder / "state"}"'), encoding="utf-8")
        self.master, slave = pty.openpty()
        environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
        command = [sys.executable, "-m", "console.__main__", "--config", str(config), *args]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.seen = b""

    def read_until(self, wanted: bytes) -> None:
        """Read what it writes until that comes."""
        deadline = time.monotonic() + SOON
        while wanted not in self.seen:
            assert time.monotonic() < deadline, self.seen[-2_000:]
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65_536)
                except OSError:
                    break
        assert wanted in self.seen, self.seen[-2_000:]

    def end(self) -> int:
        """Its exit code."""
        try:
            return self.process.wait(SOON)
        finally:
            self.process.kill()
            os.close(self.master)


@pytest.mark.parametrize("how", ["q", signal.SIGTERM, signal.SIGHUP], ids=str)
def test_the_console_opens_on_a_terminal_and_puts_it_back(how: str | signal.Signals, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.read_until(b"orders_rt")
    assert ALTERNATE_ON in terminal.seen
    if isinstance(how, str):
        os.write(terminal.master, how.encode())
    else:
        terminal.process.send_signal(how)
    terminal.read_until(ALTERNATE_OFF)
    assert terminal.end() == 0


def test_elsewhere_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Commands" in capsys.readouterr().out


def test_help_elsewhere_loads_no_screen() -> None:
    code = (
        "import sys; from console.__main__ import main; main([]);"
        " print('loaded', [m for m in ('textual', 'psycopg2') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.strip().endswith("loaded []"), ran.stderr
