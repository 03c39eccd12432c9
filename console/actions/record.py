"""What was set going, as values and as text: who asked for what, which process, how far it is, how it ended. Pure.

A damaged text is none.
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
"""How long a child may take until it has written down that it is there."""
ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
"""What an id looks like: the time, and a random end."""


class Stage(Enum):
    """The progress of an action; the values are what people see."""

    BEGINNING = "beginning"
    RUNNING = "running"
    ENDED = "ended"
    GONE = "no process"


@dataclass(frozen=True, slots=True)
class Record:
    """One action: `argv` as typed (without secrets), `key` the thing it acts on, `listed` false for a dry run.

    `child` waits for the command and writes down its end; `command` is the command itself.
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
    """Whether it is an own command: `argv` is the whole argument list, and not a command of Slotkeeper."""

    @property
    def text(self) -> str:
        """What was run, as a person types it."""
        return shlex.join(self.argv) if self.own else shell_text(self.argv)


@dataclass(frozen=True, slots=True)
class Action:
    """A record, and how far it is as seen now."""

    record: Record
    stage: Stage

    @property
    def over(self) -> bool:
        """Whether it can no longer change."""
        return self.stage in (Stage.ENDED, Stage.GONE)


@dataclass(frozen=True, slots=True)
class Said:
    """What a command wrote to stdout and to stderr."""

    out: str = ""
    err: str = ""


def stage_of(record: Record, alive: Callable[[Identity | None], bool], now: datetime) -> Stage:
    """The stage of an action, from its record and from whether its processes are running."""
    if record.ended_at is not None:
        return Stage.ENDED
    if alive(record.child) or alive(record.command):
        return Stage.RUNNING
    if record.child is None and record.command is None:
        past = elapsed(record.started_at, now)
        return Stage.BEGINNING if past is not None and past < TO_BEGIN.total_seconds() else Stage.GONE
    return Stage.GONE


def record_text(record: Record) -> str:
    """A record as JSON; times are UTC."""
    return codec.text_of(record)


def record_from(text: str) -> Record | None:
    """The record of a text; None where it is damaged."""
    try:
        record = codec.record_from(Record, text)
        codec.aware(record.started_at, record.ended_at)
    except ValueError:
        return None
    return record if ID.fullmatch(record.id) else None
