"""Ending one session that is in front of a job's: looked at right before, in the audit before and after.

It is ended by its pid and by the moment at which it began, in the statement that asks whether it is in front: a session
that has let go, or another one that has got its pid, is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain import ending
from slotkeeper.core.domain.ending import InFront
from slotkeeper.core.domain.locks import PREFIX
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.sink import LockReader
from slotkeeper.core.services.audit import CopiedAudit, Tell, audited, silent
from slotkeeper.core.services.looking import lock_sinks
from slotkeeper.core.slots.change import Done
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.folder import StateFolder

ACTION = "locks end"
GONE_SECONDS = 5.0
"""So long its end is waited for: a session that is at work looks for signals at its next pause."""
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Asked:
    """Which session of which sink, and why; `began` is None where it was not typed."""

    sink: str
    pid: int
    began: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The session that was told to end, what was seen then, and whether it is gone."""

    found: InFront
    outcome: str
    gone: bool


def sink_of(loaded: Loaded, name: str) -> str:
    """The sink that is meant: the only one where none is named; raises Refused."""
    known = sorted(lock_sinks(loaded))
    if not name and len(known) == 1:
        return known[0]
    if name not in known:
        said = f"no sink {safe(name, 60)!r} in this configuration" if name else "there are several sinks"
        raise Refused(f"{said}: {ending.NOTHING}", f"--sink, one of {', '.join(safe(one, 60) for one in known)}")
    return name


def end(loaded: Loaded, asked: Asked, now: Callable[[], float], tell: Tell = silent) -> Ended:
    """End it; raises Refused where it may not be, and then nothing was ended."""
    if not asked.reason.strip():
        raise Refused(f"ending pid {asked.pid} needs a reason: {ending.NOTHING}", "--reason TEXT")
    with closing(lock_sinks(loaded)[asked.sink]()) as session:
        reader = session.locks(PREFIX)
        if reader is None:
            raise Refused(f"sink {safe(asked.sink, 60)} tells of no locks: {ending.NOTHING}", "ask its administrator")
        found = ending.refuse(reader.in_front(asked.pid, now()), asked.pid, asked.began, asked.sink)
        return _ended(CopiedAudit(StateFolder.open(loaded.state_dir), session, tell), asked, reader, found, now)


def _ended(audit: Audit, asked: Asked, reader: LockReader, found: InFront, now: Callable[[], float]) -> Ended:
    one = found.blocker
    began = one.began or 0.0
    gone: list[bool] = []

    def act() -> Done:
        sent = ending.refuse(reader.in_front(asked.pid, now(), began), asked.pid, began, asked.sink).sent
        if not sent:
            raise Refused(f"the server sent pid {asked.pid} no signal: {ending.NOTHING}", ending.who_can(found))
        until = time.monotonic() + GONE_SECONDS
        while (there := reader.is_there(asked.pid, began)) and time.monotonic() < until:
            time.sleep(_POLL)
        gone.append(not there)
        said = "it has ended" if not there else f"it was told to end and is still there after {GONE_SECONDS:g} s"
        return Done(said, {"pid": str(asked.pid)})

    shown = {
        "user": one.user or "", "application": one.application or "", "began": ending.moment(began),
        "doing": one.doing(now()), "by": found.right,
    }  # fmt: skip
    line = intent(ACTION, f"sink {asked.sink} session {asked.pid}", asked.reason, shown)
    done = audited(audit, line, act, catches=BaseException)
    return Ended(found, done.outcome, gone[0])
