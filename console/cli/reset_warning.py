"""One line on stderr, before any command, for each reset that a crash left behind here.

Cheap: it lists one local folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from slotkeeper.console.cli import diagnostics
from slotkeeper.core.config.load import default_state_dir, load_usable
from slotkeeper.core.config.model import NoConfig
from slotkeeper.core.domain.reset_files import MARKS
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import SlotkeeperError


def tell(args: Sequence[str]) -> None:
    """Warn of every unfinished reset in the state folder that this command line means."""
    folder = _folder(args)
    if folder is None or not any((folder / MARKS).glob("*")):
        return
    from slotkeeper.core.state.files import marks  # loads what a reset is

    for mark in marks(folder):
        where = f"{mark.table} {mark.slot}"
        again = f"`slotkeeper slots reset --resume {typed(mark.table, mark.slot)}`"
        diagnostics.warn(f"reset {mark.id} of {where} is unfinished: {again}")


def _folder(args: Sequence[str]) -> Path | None:
    """The state folder as the command will find it; None where its configuration cannot be read: it says so itself."""
    given = option(args, "--state-dir")
    if given:
        return Path(given)
    config = option(args, "--config")
    try:
        return load_usable(Path(config) if config else None, dict(os.environ)).state_dir
    except NoConfig:
        return default_state_dir(os.environ)
    except (SlotkeeperError, OSError):
        return None


def option(args: Sequence[str], name: str) -> str:
    """What an option was given on a command line, before anybody has parsed it; "" where it was not."""
    for place, word in enumerate(args):
        if word == "--":
            break
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and place + 1 < len(args):
            return args[place + 1]
    return ""
