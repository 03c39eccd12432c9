"""The first screen if there is no configuration: an introduction, and three ways to continue."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget

from slotkeeper.console.cli.first_config import write_new
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.base import Frame, Line
from slotkeeper.console.tui.terminal import START_DEMO, START_INIT
from slotkeeper.core.config.load import default_path
from slotkeeper.core.domain.text import safe
from slotkeeper.core.ownership import make_folder

EXAMPLE = "config.example.toml"
WORDS = (
    "Slotkeeper keeps copies of a warehouse's tables up to date.",
    "A job copies a table once, then applies each change of its binlog.",
    "If the source has dropped changes, the job stops and reports it.",
    "No configuration exists yet.",
    "  d  try everything on this host, without a warehouse",
    "  n  your first job: a few questions, then it starts",
    "  w  write a commented configuration to start from",
)


class WelcomeScreen(Frame):
    """Seven lines of text with three choices."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "demo", "run the demo", id="demo"),
        Binding("n", "init", "your first job", id="init"),
        Binding("w", "write", "write a configuration", id="write"),
    ]
    its_place = "Welcome"
    keys_shown: ClassVar[tuple[str, ...]] = ("demo", "init", "write", "back", "help", "quit")

    def __init__(self) -> None:
        super().__init__()
        self._message: tuple[Level, str] = (Level.FINE, "")

    def body(self) -> Iterator[Widget]:
        yield Line("body")

    def draw(self) -> None:
        words = Text("\n" + "\n".join(WORDS) + "\n\n", end="")
        self.say("body", words.append(self.paragraph([self._message], 8)))

    def action_demo(self) -> None:
        self.app.exit(START_DEMO)

    def action_init(self) -> None:
        self.app.exit(START_INIT)

    def action_write(self) -> None:
        self._message = self._written(default_path(os.environ))
        self.redraw()

    def _written(self, path: Path) -> tuple[Level, str]:
        try:
            make_folder(path.parent)
            write_new(path, (files("slotkeeper.console") / EXAMPLE).read_text("utf-8"))
        except FileExistsError:
            return Level.WARNING, f"Not written: the file already exists: {safe(path, 300)}"
        except OSError as error:
            return Level.WARNING, f"Not written: {safe(error, 300)}"
        return Level.FINE, f"Written: {safe(path, 300)}. Set source and sink in it, then run: `slotkeeper doctor`"
