"""Record which consoles are currently armed to make changes, in one small file per console of a state folder.

The records are only informational; a command that changes an object takes that object's own lock. The audit retains
each arming with its reason and its end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from slotkeeper.core.domain.audit import Armed, AuditLine
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.state.audit import Audit, actor, intent, outcome
from slotkeeper.core.state.files import ResetFiles, names
from slotkeeper.core.state.folder import StateFolder

KIND = "console"
_PREFIX = "armed-"
ACTION = "console arm"


def note(folder: Path, reason: str, until: datetime) -> tuple[AuditLine | None, str]:
    """Record that this process is armed until the given time, and audit it.

    Return the audit line for `forget`, and the error as text if the audit cannot be written. A failed write blocks
    nothing, because each action writes its own lines.
    """
    mine = processes.of(os.getpid())
    values = {"who": actor().who, "reason": reason, "until": until.timestamp()}
    line = intent(ACTION, "console", reason, {"until": f"{until:%Y-%m-%d %H:%M:%S} UTC"})
    with suppress(SlotkeeperError, OSError):
        text = json.dumps({**values, "process": [mine.pid, mine.started, mine.session_id, mine.host]})
        ResetFiles(StateFolder.open(folder)).save(KIND, f"{_PREFIX}{mine.pid}", text)
    fault = _audited(folder, line)
    return (None if fault else line), fault


def forget(folder: Path, line: AuditLine | None, why: str) -> str:
    """Record that this process is no longer armed, and why; return the error as text if it cannot be audited."""
    with suppress(SlotkeeperError, OSError):
        ResetFiles(StateFolder.open(folder)).remove(KIND, f"{_PREFIX}{os.getpid()}")
    return _audited(folder, outcome(line, why, {})) if line is not None else ""


def _audited(folder: Path, line: AuditLine) -> str:
    try:
        Audit(StateFolder.open(folder)).append(line)
    except (SlotkeeperError, OSError) as error:
        return f"; not audited: {error}"
    return ""


def others(folder: StateFolder, now: datetime) -> tuple[Armed, ...]:
    """Return the other armed consoles: those running on this host, and unexpired ones of other hosts."""
    found = [(one, process) for one, process in _all(folder) if one.until > now and process.pid != os.getpid()]
    return tuple(one for one, process in found if processes.elsewhere(process) or processes.alive(process))


def _all(folder: StateFolder) -> Iterator[tuple[Armed, Identity]]:
    files = ResetFiles(folder)
    for name in names(folder.path, KIND):
        if name.startswith(_PREFIX):
            with suppress(SlotkeeperError, OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
                found = json.loads(files.load(KIND, name) or "")
                pid, started, session, host = found["process"]
                until = datetime.fromtimestamp(float(found["until"]), timezone.utc)
                process = Identity(int(pid), str(started), int(session), "", str(host))
                yield Armed(str(found["who"]), str(found["reason"]), until), process
