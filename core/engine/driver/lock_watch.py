"""Which sessions of a job wait for a lock at its sink, asked beside the job every two seconds; told, and nothing else.

A step that waits for a lock says nothing until its limit, and a target that somebody has locked looks like a slow one
until then. Nothing is decided by it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.errors import classed
from slotkeeper.core.ports.sink import LockReader

EVERY = 2.0
"""Seconds between two questions: with the two that an answer may take it is below the five promised."""
LEAST = 1.0
"""Seconds that a wait has lasted before it is told: steps that wait for each other for a moment are at work. A server
where somebody waits for less is asked again after so long, so that a wait is told two seconds after it began."""


@dataclass(frozen=True, slots=True)
class LocksAt:
    """A server that may have locks of the job: what asks it, and what ends a question that hangs."""

    reader: LockReader
    sever: Callable[[], None]


@dataclass(slots=True)
class _Answer:
    waits: tuple[LockWait, ...] = ()
    untold: str = ""


class LockWatch:
    """Asks each server in a thread of its own, from `start` to `stop`; `tell` gets the waits of all, and why not.

    `tell` is called where there are waits or the answer is another one than before, from one thread at a time. A server
    that does not answer has told nothing new: what it said last stays.
    """

    def __init__(
        self, servers: Sequence[LocksAt], clock: Clock, tell: Callable[[tuple[LockWait, ...], str], None]
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._lock = threading.Lock()
        self._said: tuple[tuple[LockWait, ...], str] = ((), "")
        self._servers = [(one, _Answer()) for one in servers]
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask_on, args=each, name="slotkeeper-locks", daemon=True)
            for each in self._servers
        ]

    def start(self) -> None:
        """Begin asking."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask and tell no more; waits for nobody."""
        with self._lock:
            self._done.set()
        for server, _ in self._servers:
            server.sever()

    def _ask_on(self, server: LocksAt, answer: _Answer) -> None:
        while not self._done.is_set():
            waits, untold, pause = answer.waits, "", EVERY
            try:
                now = self._clock.utc().timestamp()
                seen = server.reader.read(now)
                waits = tuple(one for one in seen if now - one.since >= LEAST)
                pause = EVERY if len(waits) == len(seen) else min(EVERY, LEAST)
            except Exception as raised:  # the top of a thread: a watch that ends says nothing of it
                untold = str(classed(raised))
            with self._lock:
                answer.waits, answer.untold = waits, untold
                self._said_anew()
            self._done.wait(pause)

    def _said_anew(self) -> None:
        waits = tuple(wait for _, answer in self._servers for wait in answer.waits)
        untold = "; ".join(answer.untold for _, answer in self._servers if answer.untold)
        if not self._done.is_set() and (waits or (waits, untold) != self._said):
            self._tell(waits, untold)
        self._said = (waits, untold)
