"""Checks over separate sessions whether the servers of a job answer, and which sessions wait for a lock.

The checks only report: retries, leases and fences depend on their own calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.report import Condition, server_of
from slotkeeper.core.domain.source_waits import SourceWait
from slotkeeper.core.errors import SlotkeeperError, Unreachable, classed

EVERY = 2.0
"""Seconds between two queries to a server: with 2 s for an answer, a wait is reported within the guaranteed 5 s."""
SAID_AFTER = 5.0
"""Seconds without an answer before a report: with `EVERY` and the reporter's interval, within the guaranteed 10 s."""
_TURN = 0.5


@dataclass(frozen=True, slots=True)
class Pinged:
    """A server to check: its name and address, a short query (`ask`), and the call that ends a hanging query (`sever`).

    `party` is a `slotkeeper.core.domain.fault.Party` value, `name` the server without its address ("source dws1"),
    `place` the server with its address ("source dws1 (h:8000)").
    """

    party: str
    name: str
    place: str
    ask: Callable[[], None]
    sever: Callable[[], None]


@dataclass(slots=True)
class Silence:
    """A server's silence. `since`: its start in monotonic seconds, None if there is none; `why`: its error, if any."""

    since: float | None = None
    why: str = ""
    utc: float = 0.0
    """The start of the silence, in seconds since 1970."""

    def said(self, place: str, now: float) -> str:
        """Return the report of the silence; "" while the server can still answer in time.

        >>> Silence(10.0).said("source dws1 (h:1)", 14.0), Silence(10.0).said("source dws1 (h:1)", 22.0)
        ('', 'source dws1 (h:1) does not answer (for 12 s)')
        """
        if self.since is None or (now - self.since < SAID_AFTER and not self.why):
            return ""
        return f"{self.why or f'{place} does not answer'} (for {now - self.since:.0f} s)"

    def condition(self, server: Pinged, now: float) -> Condition | None:
        """Return the silence as a `Condition`; None if there is nothing to report."""
        if self.since is None or not self.said(server.place, now):
            return None
        cause = server_of(self.why)[2] if self.why else "does not answer"
        return Condition(server.party, server.name, cause, self.utc)


class Pulse:
    """Queries each server in its own thread, from `start` to `stop`; `tell` receives the report, "" if there is none.

    A job's own call can be long (a copy, a large step), with a limit of minutes: only a short query shows within
    seconds that a server does not answer any session.

    `tell` is called from one thread, repeatedly while there is a report, and every few seconds otherwise, so that a
    driver in a long call still reports that it is running.
    """

    def __init__(
        self, servers: Sequence[Pinged], clock: Clock, tell: Callable[[str, tuple[Condition, ...]], None]
    ) -> None:
        self._clock, self._tell = clock, tell
        self._servers = [(one, Silence()) for one in servers]
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask_on, args=each, name="slotkeeper-pulse", daemon=True)
            for each in self._servers
        ]
        self._threads.append(threading.Thread(target=self._tell_on, name="slotkeeper-pulse", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the queries and the reports; waits only for the reporting thread."""
        self._done.set()
        for server, _ in self._servers:
            server.sever()
        self._threads[-1].join(2.0)

    def _ask_on(self, server: Pinged, silence: Silence) -> None:
        while not self._done.is_set():
            began = self._clock.monotonic()
            if silence.since is None:
                silence.since, silence.utc = began, self._clock.utc().timestamp()
            try:
                server.ask()
            except Unreachable as error:
                silence.why = "" if error.timed_out else error.message
            except SlotkeeperError:
                silence.since, silence.why = None, ""  # the server answered: the job's own calls report the rejection
            except Exception as raised:  # if the thread ended, the silence would be reported forever
                silence.why = classed(raised).message
            else:
                silence.since, silence.why = None, ""
            self._done.wait(EVERY)

    def _tell_on(self) -> None:
        said, beat_at = "", self._clock.monotonic()
        while not self._done.wait(_TURN):
            now = self._clock.monotonic()
            text = "; ".join(filter(None, (silence.said(server.place, now) for server, silence in self._servers)))
            if text or said or now - beat_at >= SAID_AFTER:
                found = (silence.condition(server, now) for server, silence in self._servers)
                self._tell(text, tuple(one for one in found if one is not None))
                beat_at = now
            said = text


LEAST = 1.0
"""Minimum duration of a reported wait, in seconds, because steps normally wait briefly for each other. A server with a
shorter wait is queried again after this time, so that the report comes 2 s after the wait's start."""


STAYS = 10.0
"""Seconds for which the waits of a silent server remain reported: after that, the silence itself is the problem, and it
is unknown whether the waits continue."""

Wait = TypeVar("Wait", bound=LockWait | SourceWait)


@dataclass(frozen=True, slots=True)
class LocksAt(Generic[Wait]):
    """A server that can hold locks of the job: a query for waits (`read`), and the call that ends a hanging query.

    `hidden` describes the information that the last answer lacked; "" if it was complete.
    """

    read: Callable[[float], Sequence[Wait]]
    sever: Callable[[], None]
    hidden: Callable[[], str] = str


@dataclass(slots=True)
class _Answer(Generic[Wait]):
    waits: tuple[Wait, ...] = ()
    untold: str = ""
    at: float = 0.0
    """The time of the server's last answer, in monotonic seconds."""


class LockWatch(Generic[Wait]):
    """Queries each server in its own thread, from `start` to `stop`; `tell` receives all waits and why any are unknown.

    A step that waits for a lock reports nothing until its limit; until then a locked target looks like a slow target.
    `tell` is called if there are waits or the answer has changed, from one thread at a time. The last answer of a
    silent server is retained for `STAYS` seconds.
    """

    def __init__(
        self, servers: Sequence[LocksAt[Wait]], clock: Clock, tell: Callable[[tuple[Wait, ...], str], None]
    ) -> None:
        self._clock, self._tell = clock, tell
        self._lock = threading.Lock()
        self._said: tuple[tuple[Wait, ...], str] = ((), "")
        self._servers = [(one, _Answer[Wait]()) for one in servers]
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask_on, args=each, name="slotkeeper-locks", daemon=True)
            for each in self._servers
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the queries and the reports; does not wait."""
        with self._lock:
            self._done.set()
        for server, _ in self._servers:
            server.sever()

    def _ask_on(self, server: LocksAt[Wait], answer: _Answer[Wait]) -> None:
        while not self._done.is_set():
            waits, untold, pause = answer.waits, "", EVERY
            try:
                now = self._clock.utc().timestamp()
                seen = server.read(now)
                waits = tuple(one for one in seen if now - one.since >= LEAST)
                untold = server.hidden()
                pause = EVERY if len(waits) == len(seen) else min(EVERY, LEAST)
                answer.at = self._clock.monotonic()
            except Exception as raised:  # the thread must not end, because its end would not be reported
                untold = str(classed(raised))
                if isinstance(raised, Unreachable) and self._clock.monotonic() - answer.at >= STAYS:
                    waits = ()
            with self._lock:
                answer.waits, answer.untold = waits, untold
                waiting = tuple(wait for _, one in self._servers for wait in one.waits)
                unread = "; ".join(one.untold for _, one in self._servers if one.untold)
                if not self._done.is_set() and (waiting or (waiting, unread) != self._said):
                    self._tell(waiting, unread)
                self._said = (waiting, unread)
            self._done.wait(pause)
