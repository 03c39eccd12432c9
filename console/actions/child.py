"""Runs one command for the console, in a session of its own, and writes down how it ended.

`python -m console.actions.child FOLDER ID WORD...`: the console may be killed, or its line may drop, meanwhile.
Next door: `console.actions.runner` starts it, `console.actions.store` keeps what it writes.
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

from console.actions.record import Record
from console.actions.store import Records
from core.clock import SystemClock
from core.config import handover
from core.domain.job_view import Identity
from core.errors import SlotkeeperError
from core.launch import identity as processes
from core.state.folder import StateFolder

NOT_STARTED = 127


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    folder, id, *words = sys.argv[1:] if argv is None else argv
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the command inherits it
    records = Records(StateFolder.open(Path(folder)))
    record = records.load(id)
    if record is None:
        return NOT_STARTED
    return carry(records, record, words)


def carry(records: Records, record: Record, words: Sequence[str]) -> int:
    """Begin, wait, write down the end; a record that cannot be written any more does not keep the command from it."""
    out, err = records.stream(record.id, "out"), records.stream(record.id, "err")
    begun = replace(record, child=_identity(os.getpid()))
    try:
        with handover.passed() as given:
            child = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=given.environment,
                pass_fds=given.descriptors,
            )
        begun = replace(begun, command=_identity(child.pid))
        _note(records, begun)
        code = child.wait()
    except OSError as error:
        os.write(err, f"slotkeeper: the command cannot be started: {error.strerror}\n".encode())
        code = NOT_STARTED
    finally:
        os.close(out)
        os.close(err)
    _note(records, replace(begun, ended_at=SystemClock().utc(), code=code))
    return code


def _note(records: Records, record: Record) -> None:
    with suppress(SlotkeeperError):
        records.save(record)


def _identity(pid: int) -> Identity | None:
    with suppress(ProcessLookupError):
        return processes.of(pid)
    return None


if __name__ == "__main__":
    sys.exit(main())
