"""The console as a process on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.unit.config.samples import VALID

ROOT = Path(__file__).parents[2]
SOON = 120.0
ALTERNATE_ON, ALTERNATE_OFF = b"\x1b[?1049h", b"\x1b[?1049l"
QUESTION = b"\x1b[6n"
SGR = re.compile(rb"\x1b\[([0-9;:]*)m")


class Terminal:
    """The console on a pseudo terminal; without `configured` there is no configuration."""

    def __init__(
        self,
        folder: Path,
        *args: str,
        env: Mapping[str, str] | None = None,
        configured: bool = True,
        size: tuple[int, int] = (80, 24),
        before: Callable[[], object] | None = None,
    ) -> None:
        config = folder / "c.toml"
        config.write_text(VALID.replace("[state]", f'[state]\ndir = "{folder / "state"}"'), encoding="utf-8")
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        homes = {name: str(folder) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **homes, "LANG": "C.UTF-8"}
        environ = {
            name: value for name, value in environ.items() if name not in ("NO_COLOR", "TMUX", "LC_ALL", "LC_CTYPE")
        }
        options = ["--config", str(config)] if configured else []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "slotkeeper.console.__main__", *options, *args],
            cwd=ROOT,
            env={**environ, **(env or {})},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=before,  # noqa: PLW1509  sets a signal, in a test without threads
        )
        os.close(slave)
        self.seen = b""

    def write(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def read_until(self, wanted: bytes, since: int = 0) -> None:
        """Read the output until that text appears after the first `since` bytes."""
        deadline = time.monotonic() + SOON
        while wanted not in self.seen[since:] and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.master, 65_536)
                except OSError:
                    break
        if wanted not in self.seen[since:]:
            self.end(0)
            raise AssertionError(wanted, self.seen[since:][-2_000:])

    def press(self, keys: bytes, wanted: bytes) -> None:
        """Type keys, and read until the resulting text appears."""
        since = len(self.seen)
        self.write(keys)
        self.read_until(wanted, since)

    def hang_up(self) -> None:
        os.close(self.master)
        self.master = -1

    def colours(self) -> set[bytes]:
        """The colours in the output, as SGR parameters."""
        found: set[bytes] = set()
        for match in SGR.finditer(self.seen):
            found |= {one for one in match[1].split(b";") if re.fullmatch(rb"[349]\d|10\d", one)}
        return found

    def end(self, within: float = SOON) -> int:
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            if within:
                raise
            return -1
        finally:
            if self.master >= 0:
                os.close(self.master)


def ignore_hangup() -> None:
    """As `nohup` and some wrappers start programs."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
