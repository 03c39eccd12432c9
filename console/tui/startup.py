"""Opens the console where there is a terminal; while it is loaded, the terminal is asked what it can draw.

Nothing of Textual is imported before it is certain that a screen can be drawn. `slotkeeper.console.__main__` comes here
without a command, past Typer, which costs a third of what the console takes to be seen.

The terminal is asked, as Vim does it, whether it draws our signs and lines one cell wide each; where it does not, only
ASCII is drawn. The question is asked before Textual is loaded and the answer read afterwards, so that waiting costs
nothing. A late answer is a position report, which Textual never takes for a key.
"""

from __future__ import annotations

import gc
import importlib
import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from slotkeeper.console.cli.context import Invocation

SCREEN = "slotkeeper.console.tui.app"
BEFORE_SCREEN = "slotkeeper.console.tui.terminal"
"""Sets what Textual reads from the environment when it is imported."""


def on_a_terminal() -> bool:
    """Whether a screen can be drawn here; Textual draws on stderr."""
    return not no_screen()


def no_screen() -> str:
    """Why no screen can be drawn here; empty where one can."""
    named = {"standard input": sys.stdin, "standard output": sys.stdout, "standard error": sys.stderr}
    for name, stream in named.items():
        if stream is None or not stream.isatty():
            return f"{name} is not a terminal"
    return "TERM is dumb or not set" if os.environ.get("TERM", "") in ("", "dumb") else ""


def open_console(shared: Invocation) -> int:
    """The console, until it is left; its exit code."""
    gc.disable()  # modules leave no garbage while they load, and looking for it takes a tenth of the start
    importlib.import_module(BEFORE_SCREEN)
    ascii_only = shared.ascii_only or ascii_wanted(shared.env)
    if ascii_only:
        screen = importlib.import_module(SCREEN)
    else:
        with asked(sys.stdin.fileno(), sys.stderr.fileno()) as question:
            screen = importlib.import_module(SCREEN)
            ascii_only = question is not None and question.wide()
    code: int = screen.open_console(replace(shared, ascii_only=ascii_only))
    return code


SECONDS = 0.3
PART_SECONDS = 0.5
"""Limit for the rest of an answer: Textual would take it for keys."""
SIGNS = "\u25cf\u25b2\u25d0\u2714\u2716\u2013\u2192\u00b7\u2500\u2588"
"""Of each kind that a terminal or its font may draw two cells wide: signs, dashes, arrows, lines and blocks."""
_QUESTION = f"\r{SIGNS}\x1b[6n\r\x1b[K".encode()
_ANSWER = re.compile(rb"\x1b\[\d+;(\d+)R")
_PART = re.compile(rb"\x1b(\[[\d;]*)?\Z")
_MOST_BYTES = 4_096
"""Bytes after which a terminal is taken to give no answer: more than a person types before one."""
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
_NARROW = len(SIGNS) + 1
"""The column behind them where each takes one cell, counted from 1."""


def ascii_wanted(env: Mapping[str, str]) -> bool:
    """Whether the environment alone says that nothing but ASCII can be drawn.

    >>> [ascii_wanted(env) for env in ({}, {"TERM": "linux"}, {"LANG": "zh_CN.GBK"}, {"LANG": "C.UTF-8"})]
    [False, True, True, False]
    """
    kind = env.get("LC_CTYPE", "")
    if kind in _COERCED and env.get("LANG"):
        kind = ""  # Python itself has set it, because the locale that was asked for is C or not installed
    locale = env.get("LC_ALL") or kind or env.get("LANG") or "utf-8"
    return env.get("TERM") == "linux" or "utf8" not in locale.casefold().replace("-", "")


class Question:
    """A question that was asked; `wide` reads the answer."""

    def __init__(self, keyboard: int, screen: int) -> None:
        self._keyboard = keyboard
        self._until = time.monotonic() + SECONDS
        os.write(screen, _QUESTION)

    def wide(self) -> bool:
        """Whether a sign takes two cells; a terminal that does not answer in time draws as most do."""
        seen = b""
        while len(seen) < _MOST_BYTES:
            left = PART_SECONDS if _PART.search(seen) else 0.0
            if not select.select([self._keyboard], [], [], max(left, self._until - time.monotonic()))[0]:
                break
            got = os.read(self._keyboard, 64)
            seen += got
            found = _ANSWER.search(seen)
            if found or not got:
                return found is not None and int(found[1]) > _NARROW
        return False


@contextmanager
def asked(keyboard: int, screen: int) -> Iterator[Question | None]:
    """Ask with the keyboard's echo off, and put the terminal back whatever happens; None where it cannot be asked."""
    try:
        before = termios.tcgetattr(keyboard)
    except termios.error:
        yield None
        return
    try:
        tty.setcbreak(keyboard, termios.TCSANOW)
        yield Question(keyboard, screen)
    finally:
        with suppress(termios.error):
            termios.tcsetattr(keyboard, termios.TCSANOW, before)
