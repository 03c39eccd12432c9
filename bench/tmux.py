"""A program in tmux with its own tmux server: sends keys, captures screens. The server has its own socket, and is
killed at the end of the block.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

SOON = 60.0
_NUMBERS = itertools.count()
"""Numbers the sockets: a server that is shutting down can still have its socket when the next one starts."""


class Tmux:
    """One session on its own tmux server, without the user's configuration."""

    def __init__(self, command: Sequence[str], size: tuple[int, int], env: Mapping[str, str]) -> None:
        self.size = size
        self._tmux = ["tmux", "-L", f"slotkeeper-{os.getpid()}-{next(_NUMBERS)}", "-f", "/dev/null"]
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("TMUX", "TEXTUAL", "NO_COLOR"))
        }
        width, height = map(str, size)
        subprocess.run(
            [*self._tmux, "new-session", "-d", "-x", width, "-y", height, *command],
            env={**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", **env},
            check=True,
        )
        self._run("set-option", "-g", "status", "off")
        self._run("resize-window", "-x", width, "-y", height)

    def __enter__(self) -> Tmux:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)

    def send(self, *keys: str) -> None:
        """Press keys, given by tmux's names for them."""
        self._run("send-keys", *keys)

    def text(self) -> str:
        """Return the text of the screen."""
        return self._run("capture-pane", "-p")

    def coloured(self) -> str:
        """Return the text of the screen with its colors."""
        return self._run("capture-pane", "-p", "-e", "-N")

    def shows(self, *texts: str, seconds: float = SOON) -> None:
        """Wait until all of these strings are shown."""
        self._wait(lambda shown: all(text in shown for text in texts), " and ".join(map(repr, texts)), seconds)

    def still(self, seconds: float = 10.0) -> None:
        """Wait until only the first row, which contains the clock, changes between two captures; return without error
        after `seconds`.
        """
        deadline, last = time.monotonic() + seconds, ""
        while time.monotonic() < deadline:
            body = self.text().partition("\n")[2]
            if body == last:
                return
            last = body
            time.sleep(0.25)

    def _wait(self, true: object, what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            shown = self.text()
            if true(shown):  # type: ignore[operator]
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:g} s: {what}; the screen:\n{shown}")
            time.sleep(0.1)

    def _run(self, *words: str) -> str:
        ran = subprocess.run([*self._tmux, *words], check=False, capture_output=True, text=True, encoding="utf-8")
        if ran.returncode:
            raise RuntimeError(f"tmux {words[0]}: {ran.stderr.strip() or 'the program has ended'}")
        return ran.stdout
