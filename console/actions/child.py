"""Run one command for the console in its own session, and record how it ended.

`python -m slotkeeper.console.actions.child FOLDER ID WORD...`: the command survives if the console is killed or its
connection drops. The stdout and stderr of this process are the files that store the command's output. The command is
started before anything else is imported, because a user is waiting for its result.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from slotkeeper.core.config import handover

if TYPE_CHECKING:
    from slotkeeper.core.domain.report import Identity

NOT_STARTED = 127


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code, even if its record cannot be read or written."""
    folder, id, *words = sys.argv[1:] if argv is None else argv
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the command inherits this
    try:
        with handover.passed() as given:
            child = subprocess.Popen(
                list(words), stdin=subprocess.DEVNULL, env=given.environment, pass_fds=given.descriptors
            )
    except OSError as error:
        sys.stderr.write(f"slotkeeper: cannot start the command: {error.strerror}\n")
        sys.stderr.flush()
        _note(folder, id, None, NOT_STARTED)
        return NOT_STARTED
    _note(folder, id, child.pid)
    code = child.wait()
    _note(folder, id, child.pid, code)
    return code


def _note(folder: str, id: str, pid: int | None, code: int | None = None) -> None:
    """Record the processes of this child and its command; at the end, record the time and the exit code."""
    from slotkeeper.console.actions.runner import Records
    from slotkeeper.core.clock import SystemClock
    from slotkeeper.core.errors import SlotkeeperError
    from slotkeeper.core.state.folder import StateFolder

    with suppress(SlotkeeperError):
        records = Records(StateFolder.open(Path(folder)))
        record = records.load(id)
        if record is None:
            return
        if code is None:
            command = _identity(pid) if pid is not None else None
            records.save(replace(record, child=_identity(os.getpid()), command=command))
        else:
            records.save(replace(record, ended_at=SystemClock().utc(), code=code))


def _identity(pid: int) -> Identity | None:
    from slotkeeper.core.launch import identity as processes

    with suppress(ProcessLookupError):
        return processes.of(pid)
    return None


if __name__ == "__main__":
    sys.exit(main())
