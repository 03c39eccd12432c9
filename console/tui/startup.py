"""Open the console if there is a terminal. While modules load, the terminal is queried for its character widths.

Textual is imported only if a screen can be drawn. If no command is given, `slotkeeper.console.__main__` calls this
module directly to avoid importing Typer, which takes a third of the time until the console is visible.

The query, which Vim also uses, determines whether the terminal draws each of the console's symbols and lines one cell
wide; if not, only ASCII is drawn. The query is sent before Textual is imported and its answer is read afterwards, so
that waiting costs no time. A late answer is a cursor position report, which Textual never interprets as a key.
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
"""The module that sets environment variables, which Textual reads when it is imported."""


def on_a_terminal() -> bool:
    """Return whether a screen can be drawn here; Textual draws on stderr."""
    return not no_screen()


def no_screen() -> str:
    """Return the reason why no screen can be drawn here; empty if a screen can be drawn."""
    named = {"standard input": sys.stdin, "standard output": sys.stdout, "standard error": sys.stderr}
    for name, stream in named.items():
        if stream is None or not stream.isatty():
            return f"{name} is not a terminal"
    return "TERM is dumb or not set" if os.environ.get("TERM", "") in ("", "dumb") else ""


def open_console(shared: Invocation) -> int:
    """Run the console until it is closed, and return its exit code."""
    gc.disable()  # importing modules creates no garbage, and collecting it takes a tenth of the startup time
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
"""Time limit for the rest of a partial answer, which Textual would interpret as keys."""
SIGNS = "\u25cf\u25b2\u25d0\u2714\u2716\u2013\u2192\u00b7\u2500\u2588"
"""One of each kind of character that some terminals draw two cells wide: symbols, dashes, arrows, lines, blocks."""
_QUESTION = f"\r{SIGNS}\x1b[6n\r\x1b[K".encode()
_ANSWER = re.compile(rb"\x1b\[\d+;(\d+)R")
_PART = re.compile(rb"\x1b(\[[\d;]*)?\Z")
_MOST_BYTES = 4_096
"""The number of bytes read without an answer, more than a user types, after which no answer is expected."""
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
_NARROW = len(SIGNS) + 1
"""The column after the symbols if each takes one cell, counted from 1."""


def ascii_wanted(env: Mapping[str, str]) -> bool:
    """Return whether the environment shows that only ASCII can be drawn.

    >>> [ascii_wanted(env) for env in ({}, {"TERM": "linux"}, {"LANG": "zh_CN.GBK"}, {"LANG": "C.UTF-8"})]
    [False, True, True, False]
    """
    kind = env.get("LC_CTYPE", "")
    if kind in _COERCED and env.get("LANG"):
        kind = ""  # Python itself set it, because the requested locale is C or not installed
    locale = env.get("LC_ALL") or kind or env.get("LANG") or "utf-8"
    return env.get("TERM") == "linux" or "utf8" not in locale.casefold().replace("-", "")


class Question:
    """A query that was sent; `wide` reads the answer."""

    def __init__(self, keyboard: int, screen: int) -> None:
        self._keyboard = keyboard
        self._until = time.monotonic() + SECONDS
        os.write(screen, _QUESTION)

    def wide(self) -> bool:
        """Return whether a symbol takes two cells; False, as on most terminals, if there is no answer in time."""
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
    """Send the query with echo off, and always restore the terminal. Yield None if the terminal cannot be queried."""
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
