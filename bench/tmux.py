"""A program in a tmux of its own server: keys in, pictures out. Ends with its server, by the socket
that only it has.
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
"""A server that was told to end may still have its socket when the next one begins."""


class Tmux:
    """One session on a server of its own, without anybody's configuration."""

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
        """Press keys by tmux's names for them."""
        self._run("send-keys", *keys)

    def text(self) -> str:
        """What is shown."""
        return self._run("capture-pane", "-p")

    def coloured(self) -> str:
        """What is shown, with its colours."""
        return self._run("capture-pane", "-p", "-e", "-N")

    def shows(self, *texts: str, seconds: float = SOON) -> None:
        """Wait until all of that is shown."""
        self._wait(lambda shown: all(text in shown for text in texts), " and ".join(map(repr, texts)), seconds)

    def still(self, seconds: float = 10.0) -> None:
        """Wait until nothing but the first row (its clock) changes any more between two looks, or give up waiting."""
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
