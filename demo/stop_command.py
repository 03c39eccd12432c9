"""`slotkeeper demo stop`: end the demos of this user."""

from __future__ import annotations

import os

from slotkeeper.console.cli import diagnostics, output
from slotkeeper.demo import running

NONE = "no demo of yours is running"


def stop() -> None:
    """Stop your kept and killed demos, and delete their files."""
    found = running.notes(os.environ)
    for note in found:
        diagnostics.note(f"ending the demo in {note.folder}" + ("" if note.lives else ": its process has exited"))
        running.end(note)
        output.line(f"ended: the demo in {note.folder}, its job and its two servers")
    if not found:
        output.line(NONE)
