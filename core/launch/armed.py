"""Record which consoles are currently armed to make changes, in one small file per console of a state folder.

The records are only informational; a command that changes an object takes that object's own lock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from slotkeeper.core.domain.audit import Armed
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.state.audit import actor
from slotkeeper.core.state.files import ResetFiles, names
from slotkeeper.core.state.folder import StateFolder

KIND = "console"
_PREFIX = "armed-"


def note(folder: Path, reason: str, until: datetime) -> None:
    """Record that this process is armed until the given time; a failed write blocks nothing."""
    mine = processes.of(os.getpid())
    values = {"who": actor().who, "reason": reason, "until": until.timestamp()}
    with suppress(SlotkeeperError, OSError):
        text = json.dumps({**values, "process": [mine.pid, mine.started, mine.session_id, mine.host]})
        ResetFiles(StateFolder.open(folder)).save(KIND, f"{_PREFIX}{mine.pid}", text)


def forget(folder: Path) -> None:
    """Record that this process is no longer armed."""
    with suppress(SlotkeeperError, OSError):
        ResetFiles(StateFolder.open(folder)).remove(KIND, f"{_PREFIX}{os.getpid()}")


def others(folder: StateFolder, now: datetime) -> tuple[Armed, ...]:
    """Return the other armed consoles: those running on this host, and unexpired ones of other hosts."""
    found = [(one, process) for one, process in _all(folder) if one.until > now and process.pid != os.getpid()]
    return tuple(one for one, process in found if processes.elsewhere(process) or processes.alive(process))


def _all(folder: StateFolder) -> Iterator[tuple[Armed, Identity]]:
    files = ResetFiles(folder)
    for name in names(folder.path, KIND):
        if name.startswith(_PREFIX):
            with suppress(SlotkeeperError, OSError, ValueError, KeyError, TypeError):
                found = json.loads(files.load(KIND, name) or "")
                pid, started, session, host = found["process"]
                until = datetime.fromtimestamp(float(found["until"]), timezone.utc)
                process = Identity(int(pid), str(started), int(session), "", str(host))
                yield Armed(str(found["who"]), str(found["reason"]), until), process
