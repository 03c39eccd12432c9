"""A connection that stops at a point of the product's protocol, by the statements that cross it.

The product has no test code for this, so that the same points exist for tasks in Spark's workers, in threads and in
commands.
"""

from __future__ import annotations

import re
import socket
import threading
from dataclasses import dataclass, field
from re import Pattern
from weakref import WeakKeyDictionary

from tests.support.proxy import Wire

_NAME = re.compile(rb"application_name\x00([^\x00]*)")
_ENDS = re.compile(rb"\b(?:COMMIT|ROLLBACK)\b")
_TAIL = 400
"""Bytes of the earlier piece that are searched again, because a statement can be cut in two."""
LONGEST = 120.0
"""Seconds after which a stopped connection continues although no test has released it."""


@dataclass(frozen=True, slots=True)
class Point:
    """The first `then` after a `first` in one transaction of a session whose name matches; `answer`: the server has
    executed it, and the client has not received the answer."""

    side: str
    first: Pattern[bytes]
    then: Pattern[bytes] = re.compile(rb"\bCOMMIT\b")
    name: Pattern[bytes] = re.compile(rb"")
    answer: bool = False


@dataclass(slots=True)
class _Session:
    name: bytes = b""
    tail: bytes = b""
    begun: bool = False
    answering: bool = False


@dataclass
class Stop:
    """A connection that has stopped, or will: `reached` is set then; `release` lets it continue, or breaks it."""

    point: Point
    reached: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)
    _delivered: bool = True

    def release(self, delivered: bool = True) -> None:
        """Pass on what has been retained, or lose it and reset the connection."""
        self._delivered = delivered
        self._released.set()

    def wait(self) -> bool:
        self.reached.set()
        self._released.wait(LONGEST)
        return self._delivered


class Gate(Wire):
    """A connection of the job; `stop_at` names the next point at which one session stops."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._stop: Stop | None = None
        self._sessions: WeakKeyDictionary[socket.socket, _Session] = WeakKeyDictionary()

    def stop_at(self, point: Point) -> Stop:
        self._stop = Stop(point)
        return self._stop

    def pass_all(self) -> None:
        """Stop nowhere from now on."""
        stop, self._stop = self._stop, None
        if stop is not None:
            stop.release()

    def _passes(self, one: socket.socket, other: socket.socket, data: bytes, sent: bool) -> bool:
        client = one if sent else other
        session = self._sessions.setdefault(client, _Session())
        stop = self._stop
        if not sent:
            if stop is not None and session.answering:
                session.answering = False
                return self._stopped(stop)
            return True
        named = _NAME.search(data)
        if named is not None:
            session.name = named[1]
        if stop is None or stop.reached.is_set() or not stop.point.name.search(session.name):
            session.begun, session.tail = False, b""
            return True
        text = session.tail + data
        session.tail = text[-_TAIL:]
        at = 0
        if not session.begun:
            found = stop.point.first.search(text)
            if found is None:
                return True
            session.begun, at = True, found.start()
        if not stop.point.then.search(text, at):
            session.begun = session.begun and not _ENDS.search(text, at)
            return True
        session.begun, session.tail = False, b""
        if stop.point.answer:
            session.answering = True
            return True
        return self._stopped(stop)

    def _stopped(self, stop: Stop) -> bool:
        if stop.reached.is_set():  # another session was first
            return True
        return stop.wait()
