"""`slotkeeper demo stop`: ends the demos of this user."""

from __future__ import annotations

import os

from slotkeeper.console.cli import diagnostics, output
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.demo import running

NONE = "no demo of this user is running"


def stop() -> None:
    """Stop your kept and killed demos, and delete their files."""
    found = running.notes(os.environ)
    failed = list[SlotkeeperError]()
    for read in found:
        try:
            note = read()
            exited = "" if note.lives else " (its process has exited)"
            diagnostics.note(f"stopping the demo in {note.folder}{exited}")
            running.end(note)
            output.line(f"stopped the demo in {note.folder}, its job and its two servers")
        except SlotkeeperError as error:  # continue with the other demos
            failed.append(error)
    if not found:
        output.line(NONE)
    for one in failed[:-1]:
        diagnostics.warn(diagnostics.with_hint(one))
    if failed:
        raise failed[-1]
