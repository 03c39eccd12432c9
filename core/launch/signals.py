"""Waiting that a signal ends: a supervisor sleeps until its driver ends, it is asked to end, or time is up.

Next door: `core.launch.supervisor` is the only user.
"""

from __future__ import annotations

import os
import select
import signal
from types import FrameType


class Signals:
    """Turns SIGTERM, SIGINT and SIGCHLD into an early end of `wait`; for a process's main thread only."""

    def __init__(self) -> None:
        self.asked_to_end = False
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Signals:
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGCHLD, _nothing)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.close(self._reading)
        os.close(self._writing)

    def wait(self, seconds: float) -> None:
        """Until a signal comes or so many seconds are over."""
        readable, _, _ = select.select([self._reading], [], [], max(0.0, seconds))
        if readable:
            os.read(self._reading, 4096)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.asked_to_end = True


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler must be set for the signal to wake us."""
