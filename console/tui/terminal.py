"""What surrounds the console: settings that Textual reads when it is imported, signals, and a terminal that is gone.

Imported before Textual.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable, Mapping

from slotkeeper.core.config import handover

POLL_SECONDS = 5.0
START_DEMO = 64
START_INIT = 65
"""The console ends with these where the demo, or the questions for a first job, are to start in its terminal."""
_BECOMES = {START_DEMO: ("demo",), START_INIT: ("init", "--open")}
_SETTINGS = {"TEXTUAL_ANIMATIONS": "none", "TEXTUAL_FPS": "30", "TEXTUAL_SMOOTH_SCROLL": "0"}
_HANGUP = 129

for _name, _value in _SETTINGS.items():
    os.environ.setdefault(_name, _value)


def end_on_signals(leave: Callable[[], object]) -> None:
    """What ends a program leaves the console in order, so that the terminal is put back; Ctrl-C is a key here."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, leave)


def end_without_terminal() -> None:
    """End at once where the terminal has closed without a signal: Textual would spin for ever."""
    try:
        termios.tcgetattr(sys.__stdin__.fileno() if sys.__stdin__ else 0)
    except (termios.error, OSError, ValueError):
        os._exit(_HANGUP)


def followed(code: int, env: Mapping[str, str]) -> int:
    """The exit code; where something else was asked for, this process becomes that."""
    if code in _BECOMES:
        words = [sys.executable, "-P", "-m", "slotkeeper.console", *_BECOMES[code]]
        os.execve(sys.executable, words, handover.environment(env))  # noqa: S606  no shell, our own interpreter
    return code
