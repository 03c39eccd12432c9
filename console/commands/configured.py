"""Warnings about the configuration and the state folder of a command line: rejected jobs, unfinished resets.

This module does not load Typer, because `status` runs without it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from slotkeeper.console.cli import context, diagnostics
from slotkeeper.core.config.load import default_state_dir, load_state_dir
from slotkeeper.core.config.model import Loaded, NoConfig
from slotkeeper.core.config.secrets import unreadable
from slotkeeper.core.domain.reset_files import MARKS
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import SlotkeeperError


def refused(loaded: Loaded | None) -> dict[str, str]:
    """Return the jobs that the configuration rejects while others run, each with its error and hint."""
    return {name: diagnostics.with_hint(error) for name, error in (loaded.refused if loaded else {}).items()}


def tell_refused(loaded: Loaded | None) -> dict[str, str]:
    """Return the same jobs as `refused`, after writing a warning for each job to stderr."""
    found = refused(loaded)
    for name, sentence in found.items():
        diagnostics.warn(f"job {name} is rejected: {sentence}")
    return found


def tell_unreadable(loaded: Loaded | None) -> None:
    """Write a warning for each job with a password file that cannot be read."""
    for name, error in unreadable(loaded).items() if loaded else ():
        diagnostics.warn(f"job {name}: {diagnostics.with_hint(error)}")


def warn_of_resets(args: Sequence[str]) -> None:
    """Write a line to stderr for each reset that a crash left unfinished in the state folder of this command line.

    This is fast, because it only lists one local folder.
    """
    folder = _folder(args)
    if folder is None or not any((folder / MARKS).glob("*")):
        return
    from slotkeeper.core.state.files import marks

    for mark in marks(folder):
        where = f"{mark.table} {mark.slot}"
        again = f"`slotkeeper slots reset --resume {typed(mark.table, mark.slot)}`"
        diagnostics.warn(f"reset {mark.id} of {where} is unfinished: {again}")


def _folder(args: Sequence[str]) -> Path | None:
    """Return the command's state folder; None if its configuration is unreadable, as the command itself reports."""
    given = context.option(args, "--state-dir")
    if given:
        return Path(given)
    config = context.option(args, "--config")
    try:
        return load_state_dir(Path(config) if config else None, dict(os.environ))
    except NoConfig:
        return default_state_dir(os.environ)
    except (SlotkeeperError, OSError):
        return None
