"""What was set going, as files of the state folder: written before anything begins, and again when it has ended.

A damaged file is passed over.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from slotkeeper.console.actions.record import ID, Record, Said, record_from, record_text
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.folder import StateFolder

KIND = "actions"
KEPT, KEPT_FOR, DRY_KEPT_FOR = 100, timedelta(days=7), timedelta(hours=1)
SHOWN_BYTES = 400_000
"""A plan of a hundred DNs fits; what is longer is cut."""


class Records:
    """The records of one state folder."""

    def __init__(self, folder: StateFolder) -> None:
        self.folder = folder
        self._files = ResetFiles(folder)

    def save(self, record: Record) -> None:
        """Write a record and flush it to the disk; raises StateError where that fails."""
        self._files.save(KIND, record.id, record_text(record))

    def load(self, id: str) -> Record | None:
        """A record; None where there is none or it is damaged."""
        text = self._files.load(KIND, id)
        return None if text is None else record_from(text)

    def ids(self) -> list[str]:
        """All ids, the newest first."""
        return sorted(filter(ID.fullmatch, self._files.names(KIND)), reverse=True)

    def stream(self, id: str, name: str) -> int:
        """A descriptor that appends to what an action says (`out` or `err`)."""
        return self.folder.append(self._said(id, name))

    def said(self, id: str) -> Said:
        """What an action has said so far; only the beginning of very much."""
        return Said(*(self._beginning(self._said(id, name)) for name in ("out", "err")))

    def remove(self, id: str) -> None:
        """Forget an action."""
        for name in ("out", "err"):
            self.folder.remove(self._said(id, name))
        self._files.remove(KIND, id)

    def _said(self, id: str, name: str) -> Path:
        return self.folder.path / KIND / f"{id}.{name}"

    def _beginning(self, path: Path) -> str:
        try:
            with os.fdopen(self.folder.open_to_read(path), "rb") as stream:
                return stream.read(SHOWN_BYTES).decode("utf-8", "backslashreplace")
        except (OSError, StateError):
            return ""
