"""The environment of the console: settings that Textual reads when it is imported, signals, and a closed terminal.

This module is imported before Textual.
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
"""Exit codes of the console after which the demo, or the setup of a first job, starts in its terminal."""
_BECOMES = {START_DEMO: ("demo",), START_INIT: ("init", "--open")}
_SETTINGS = {"TEXTUAL_ANIMATIONS": "none", "TEXTUAL_FPS": "30", "TEXTUAL_SMOOTH_SCROLL": "0"}
_HANGUP = 129

for _name, _value in _SETTINGS.items():
    os.environ.setdefault(_name, _value)


def end_on_signals(leave: Callable[[], object]) -> None:
    """Close the console on signals that end a program, so that the terminal is restored. Ctrl+C is a key here."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, leave)


def end_without_terminal() -> None:
    """Exit immediately if the terminal was closed without a signal, because Textual would loop forever."""
    try:
        termios.tcgetattr(sys.__stdin__.fileno() if sys.__stdin__ else 0)
    except (termios.error, OSError, ValueError):
        os._exit(_HANGUP)


def followed(code: int, env: Mapping[str, str]) -> int:
    """Return the exit code, or replace this process with the program that the code requests."""
    if code in _BECOMES:
        words = [sys.executable, "-P", "-m", "slotkeeper.console", *_BECOMES[code]]
        os.execve(sys.executable, words, handover.environment(env))  # noqa: S606  no shell, the current interpreter
    return code
