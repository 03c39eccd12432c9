"""A state folder's data about jobs that several hosts share: its id, the last rows, and unreported stops."""

from __future__ import annotations

import uuid
from contextlib import suppress

from slotkeeper.core import codec
from slotkeeper.core.domain.placement import Known
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.folder import StateFolder

_FOLDER, _ROWS, _ID = "hosts", "rows", "id"
_STOPS = "stops"
"""The folder of the jobs that a user stopped here before the other hosts could be informed, one file per job."""


def known(folder: StateFolder) -> Known | None:
    """Return the rows as last read; None if this folder shares no jobs, or if the file cannot be read."""
    with suppress(StateError, ValueError):
        text = ResetFiles(folder).load(_FOLDER, _ROWS)
        return None if text is None else codec.record_from(Known, text)
    return None


def keep(folder: StateFolder, rows: Known) -> None:
    """Store the rows; raises StateError on failure."""
    ResetFiles(folder).save(_FOLDER, _ROWS, codec.text_of(rows))


def forget(folder: StateFolder) -> None:
    """Remove the rows, because the configuration no longer shares jobs."""
    ResetFiles(folder).remove(_FOLDER, _ROWS)


def own_id(folder: StateFolder) -> str:
    """Return the id of this folder, which names the owner of a job; created once. Raises StateError, Busy."""
    files = ResetFiles(folder)
    found = files.load(_FOLDER, _ID)
    if found is None:
        with folder.locked("hosts", "id", 5.0):
            found = files.load(_FOLDER, _ID)
            if found is None:
                found = uuid.uuid4().hex
                files.save(_FOLDER, _ID, found)
    return found


def note_stop(folder: StateFolder, job: str) -> None:
    """Record that a user stops the job here; its agent reports it to the other hosts before it can start again."""
    ResetFiles(folder).save(_STOPS, job, "{}")


def forget_stop(folder: StateFolder, job: str) -> None:
    ResetFiles(folder).remove(_STOPS, job)


def stops(folder: StateFolder) -> frozenset[str]:
    """Return the jobs with a recorded stop."""
    return frozenset(ResetFiles(folder).names(_STOPS))
