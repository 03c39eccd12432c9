"""End one session that blocks a job's session, after a check, with audit lines before and after.

The session is identified by its pid and its start time, in the statement that checks whether it still blocks: a session
that no longer blocks, or another session that now has its pid, is not ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import cast

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain import ending
from slotkeeper.core.domain.ending import InFront
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import StoreSession
from slotkeeper.core.ports.sink import SessionEnder
from slotkeeper.core.services.audit import CopiedAudit, Tell, audited, silent
from slotkeeper.core.services.looking import askers
from slotkeeper.core.slots.change import Done
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.folder import StateFolder

ACTION = "locks end"
GONE_SECONDS = 5.0
"""Seconds to wait for the session's end, because a busy session does not check for signals continuously."""
_POLL = 0.1
_SINK = "sink "
"""Prefix of a sink's name among servers; only a sink's session has a copy of the audit."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The session to end, its server ("sink mart"), and the reason; `began` is None if the user did not specify it."""

    server: str
    pid: int
    began: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The session whose end was requested, the outcome, and whether the session is gone."""

    found: InFront
    outcome: str
    gone: bool


def server_of(loaded: Loaded, sink: str, source: str) -> str:
    """Return the named server, or the only sink if none is named; raises Refused."""
    known = sorted(askers(loaded))
    sinks = [one for one in known if one.startswith(_SINK)]
    if not sink and not source and len(sinks) == 1:
        return sinks[0]
    named = f"source {source}" if source else f"sink {sink}"
    if named not in known or (sink and source):
        said = f"no {safe(named, 60)} in this configuration" if sink or source else "there are several sinks"
        raise Refused(f"{said}: {ending.NOTHING}", f"--sink or --source: {', '.join(safe(one, 60) for one in known)}")
    return named


def end(loaded: Loaded, asked: Asked, now: Callable[[], float], tell: Tell = silent) -> Ended:
    """End the session. Raises Refused, without ending a session, if that is not allowed."""
    if not asked.reason.strip():
        raise Refused(f"ending pid {asked.pid} needs a reason: {ending.NOTHING}", "--reason TEXT")
    session, reader = askers(loaded)[asked.server]()
    with closing(session):
        if not isinstance(reader, SessionEnder):
            what = (
                "it does not report locks"
                if asked.server.startswith(_SINK)
                else "its sessions wait for jobs, but no job waits for them"
            )
            hint = "`slotkeeper locks` shows how to end the wait"
            raise Refused(f"{safe(asked.server, 60)}: {what}: {ending.NOTHING}", hint)
        found = ending.refuse(reader.in_front(asked.pid, now()), asked.pid, asked.began, safe(asked.server, 80))
        store = cast(StoreSession, session) if asked.server.startswith(_SINK) else None
        audit = CopiedAudit(StateFolder.open(loaded.state_dir), store, tell)
        return _ended(audit, asked, reader, found, now)


def _ended(audit: Audit, asked: Asked, reader: SessionEnder, found: InFront, now: Callable[[], float]) -> Ended:
    one = found.blocker
    began = one.began or 0.0
    gone: list[bool] = []

    def act() -> Done:
        sent = ending.refuse(reader.in_front(asked.pid, now(), began), asked.pid, began, safe(asked.server, 80)).sent
        if not sent:
            raise Refused(f"the server did not signal pid {asked.pid}: {ending.NOTHING}", ending.who_can(found))
        until = time.monotonic() + GONE_SECONDS
        while (there := reader.is_there(asked.pid, began)) and time.monotonic() < until:
            time.sleep(_POLL)
        gone.append(not there)
        said = "it has ended" if not there else f"it still exists {GONE_SECONDS:g} s after the request"
        return Done(said, {"pid": str(asked.pid)})

    shown = {
        "user": one.user or "", "application": one.application or "", "began": ending.moment(began),
        "doing": one.doing(now()), "by": found.right,
    }  # fmt: skip
    line = intent(ACTION, f"{asked.server} session {asked.pid}", asked.reason, shown)
    done = audited(audit, line, act, catches=BaseException)
    return Ended(found, done.outcome, gone[0])
