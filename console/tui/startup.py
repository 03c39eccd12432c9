"""Opens the console where there is a terminal; while it is loaded, the terminal is asked what it can draw.

Nothing of Textual is imported before it is certain that a screen can be drawn. `slotkeeper.console.__main__` comes here
without a command, past Typer, which costs a third of what the console takes to be seen.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from dataclasses import replace

from slotkeeper.console.cli.context import Invocation
from slotkeeper.console.tui import terminal_probe

SCREEN = "slotkeeper.console.tui.launch"
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
    gc.disable()  # there is no garbage while modules are loaded, and looking for it takes a tenth of the start
    importlib.import_module(BEFORE_SCREEN)
    ascii_only = shared.ascii_only or terminal_probe.ascii_wanted(shared.env)
    if ascii_only:
        screen = importlib.import_module(SCREEN)
    else:
        with terminal_probe.asked(sys.stdin.fileno(), sys.stderr.fileno()) as question:
            screen = importlib.import_module(SCREEN)
            ascii_only = question is not None and question.wide()
    code: int = screen.open_console(replace(shared, ascii_only=ascii_only))
    return code
