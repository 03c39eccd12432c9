"""A started action as values and as text: its user, command, processes, progress and result. Pure.

Damaged text is treated as if there were no record.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from slotkeeper.console.actions.commands import shell_text
from slotkeeper.core import codec
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.report import Identity

TO_BEGIN = timedelta(seconds=60)
"""The time within which a child process must record that it is running."""
ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
"""The format of an id: a timestamp and a random suffix."""


class Stage(Enum):
    """The progress of an action. The values are shown to users."""

    BEGINNING = "beginning"
    RUNNING = "running"
    ENDED = "ended"
    GONE = "no process"


@dataclass(frozen=True, slots=True)
class Record:
    """One action: `argv` is as typed (without secrets), `key` is its object, `listed` is false for a dry run.

    `child` waits for the command and records its end; `command` is the command's process.
    """

    id: str
    argv: tuple[str, ...]
    what: str
    key: str
    by: str
    listed: bool
    started_at: datetime
    child: Identity | None = None
    command: Identity | None = None
    ended_at: datetime | None = None
    code: int | None = None
    own: bool = False
    """Whether this is one of the user's own commands, so that `argv` is its argument list, not a Slotkeeper command."""

    @property
    def text(self) -> str:
        """The command line as a user would type it."""
        return shlex.join(self.argv) if self.own else shell_text(self.argv)


@dataclass(frozen=True, slots=True)
class Action:
    """A record, and its current stage."""

    record: Record
    stage: Stage

    @property
    def over(self) -> bool:
        """Whether the action has reached a final stage."""
        return self.stage in (Stage.ENDED, Stage.GONE)


@dataclass(frozen=True, slots=True)
class Said:
    """The output of a command on stdout and on stderr."""

    out: str = ""
    err: str = ""


def stage_of(record: Record, alive: Callable[[Identity | None], bool], now: datetime) -> Stage:
    """Return the stage of an action, based on its record and on whether its processes are running."""
    if record.ended_at is not None:
        return Stage.ENDED
    if alive(record.child) or alive(record.command):
        return Stage.RUNNING
    if record.child is None and record.command is None:
        past = elapsed(record.started_at, now)
        return Stage.BEGINNING if past is not None and past < TO_BEGIN.total_seconds() else Stage.GONE
    return Stage.GONE


def record_text(record: Record) -> str:
    """Return a record as JSON; times are UTC."""
    return codec.text_of(record)


def record_from(text: str) -> Record | None:
    """Parse a record; return None if the text is damaged."""
    try:
        record = codec.record_from(Record, text)
        codec.aware(record.started_at, record.ended_at)
    except ValueError:
        return None
    return record if ID.fullmatch(record.id) else None
