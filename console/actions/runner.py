"""Start commands as detached child processes, and read the state of running and ended commands.

A child process runs in its own session and records its own end, so that neither a dropped connection nor the end of the
console affects it, and the next console shows it. Its record is a file in the state folder, written before the process
starts and again at its end. A damaged file is ignored. Commands run as argument lists, without a shell.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from slotkeeper.console.actions.record import ID, Action, Record, Said, Stage, record_from, record_text, stage_of
from slotkeeper.core.clock import Clock
from slotkeeper.core.config import handover
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.redaction import masked
from slotkeeper.core.state.audit import actor
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.folder import StateFolder

KIND = "actions"
KEPT, KEPT_FOR, DRY_KEPT_FOR = 100, timedelta(days=7), timedelta(hours=1)
SHOWN_BYTES = 400_000
"""The maximum output to show: enough for a plan with a hundred DNs. Longer output is truncated."""


class Records:
    """The records of one state folder."""

    def __init__(self, folder: StateFolder) -> None:
        self.folder = folder
        self._files = ResetFiles(folder)

    def save(self, record: Record) -> None:
        """Write a record and flush it to disk. Raises StateError if that fails."""
        self._files.save(KIND, record.id, record_text(record))

    def load(self, id: str) -> Record | None:
        """Return a record; None if it does not exist or is damaged."""
        text = self._files.load(KIND, id)
        return None if text is None else record_from(text)

    def ids(self) -> list[str]:
        """Return all ids, newest first."""
        return sorted(filter(ID.fullmatch, self._files.names(KIND)), reverse=True)

    def stream(self, id: str, name: str) -> int:
        """Return a descriptor that appends to the output of an action (`out` or `err`)."""
        return self.folder.append(self._said(id, name))

    def said(self, id: str) -> Said:
        """Return the output of an action so far, truncated after `SHOWN_BYTES`."""
        return Said(*(self._beginning(self._said(id, name)) for name in ("out", "err")))

    def remove(self, id: str) -> None:
        """Delete an action's record and output."""
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


# -P keeps the current folder out of the module search path, so a folder named `console` there is not imported.
PYTHON = (sys.executable, "-P", "-m")
COMMAND = (*PYTHON, "slotkeeper.console")
CHILD = (*PYTHON, "slotkeeper.console.actions.child")
OWN = (*PYTHON, "slotkeeper.console.actions.own_child")


@dataclass(frozen=True, slots=True)
class Order:
    """A command to start: `words` are the arguments after `slotkeeper`, `key` is the object it acts on.

    For a user's own command, `words` are the arguments after `program`, and `shown` is the argument list that is
    finally run.
    """

    words: tuple[str, ...]
    what: str
    key: str
    listed: bool = True
    program: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


class Runner:
    """Starts commands that use one state folder, and reads their results."""

    def __init__(self, folder: Path, clock: Clock, command: Sequence[str] = COMMAND) -> None:
        self._folder = folder
        self._clock = clock
        self._command = tuple(command)
        self._children: dict[str, int] = {}
        self._ended: dict[str, Action] = {}
        self._said: dict[str, Said] = {}

    def start(self, order: Order) -> str:
        """Write the record, start the command and return its id. Raises Refused while the same action is running."""
        records = Records(StateFolder.open(self._folder))
        for one in self.running() if order.listed else ():
            if one.record.what == order.what:
                raise Refused(f"{one.record.what} is already in progress, since {one.record.started_at:%H:%M:%S}Z")
        now, argv = self._clock.utc(), tuple(masked(word) for word in order.shown or order.words)
        id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
        record = Record(id, argv, order.what, order.key, actor().text, order.listed, now, own=bool(order.shown))
        records.save(record)
        words = [*CHILD, str(records.folder.path), record.id, *(order.program or self._command), *order.words]
        streams = [records.stream(record.id, name) for name in ("out", "err")]
        try:
            self._children[record.id] = _spawn(words, *streams)
        except (OSError, ValueError) as error:
            records.save(replace(record, ended_at=self._clock.utc(), code=-1))
            raise Refused(f"{order.what}: cannot start the command: {error}", "nothing was changed") from error
        finally:
            for stream in streams:
                os.close(stream)
        self._forget_old(records)
        return record.id

    def find(self, id: str) -> Action | None:
        """Return one action in its current state. Its record is read again after its processes have exited."""
        if id in self._ended:
            return self._ended[id]
        records = self._records()
        record = records.load(id) if records else None
        if records is None or record is None:
            return None
        self._reap()
        found = Action(record, self._stage(record))
        if found.stage is Stage.GONE:
            record = records.load(id) or record
            found = Action(record, self._stage(record))
        if found.stage is Stage.ENDED:
            self._ended[id] = found
        return found

    def said(self, id: str) -> Said:
        """Return the output of an action so far."""
        if id in self._said:
            return self._said[id]
        records = self._records()
        found = records.said(id) if records else Said()
        if id in self._ended:
            self._said[id] = found
        return found

    def cancel(self, id: str) -> bool:
        """Interrupt a command, as Ctrl-C does; return False if its process has exited or is not on this host."""
        found = self.find(id)
        command = found.record.command if found is not None and not found.over else None
        return command is not None and processes.interrupt(command)

    def recent(self) -> list[Action]:
        """Return the retained actions without dry runs, newest first."""
        records = self._records()
        found = [self.find(id) for id in (records.ids() if records else ())]
        return [one for one in found if one is not None and one.record.listed]

    def running(self) -> list[Action]:
        """Return the running actions, without dry runs."""
        return [one for one in self.recent() if not one.over]

    def _records(self) -> Records | None:
        return Records(StateFolder.open(self._folder)) if self._folder.exists() else None

    def _stage(self, record: Record) -> Stage:
        found = stage_of(record, processes.alive, self._clock.utc())
        if found is Stage.BEGINNING and self._children.get(record.id) == 0:
            return Stage.GONE  # the child process of this console exited without a record
        return found

    def _reap(self) -> None:
        for id, pid in self._children.items():
            if pid:
                try:
                    ended, _ = os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    ended = pid
                self._children[id] = 0 if ended else pid

    def _forget_old(self, records: Records) -> None:
        """Retain the last hundred actions for a week and dry runs for an hour. Running actions are always retained."""
        now, number = self._clock.utc(), 0
        for id in records.ids():
            one = self.find(id)
            if one is not None and (not one.over or id in self._children):
                number += one.record.listed
                continue
            kept_for = KEPT_FOR if one is not None and one.record.listed else DRY_KEPT_FOR
            number += one is not None and one.record.listed
            if one is None or number > KEPT or now - one.record.started_at > kept_for:
                with suppress(OSError):
                    records.remove(id)
                self._ended.pop(id, None)
                self._said.pop(id, None)


def _spawn(words: Sequence[str], out: int, err: int) -> int:
    """Start a detached child process in its own session, writing to these descriptors, and return its pid."""
    defaults = [signal.SIGPIPE, signal.SIGINT]  # a shell may have set SIGINT to be ignored, but `cancel` sends it
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, err, 2),
    ]
    with handover.passed() as given:
        return os.posix_spawn(
            words[0], list(words), given.environment, file_actions=files, setsid=True, setsigdef=defaults
        )
