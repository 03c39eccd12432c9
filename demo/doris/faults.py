"""The faults of the stand-in. Each occurs once, in the order in which they were armed."""

from __future__ import annotations

import threading
from collections import deque
from enum import Enum


class Call(Enum):
    """A call at which a fault can occur."""

    LOAD = "load"
    TWO_PHASE = "second phase"
    STATE = "state of a label"


class Fault(Enum):
    """A fault that occurs at a call."""

    NONE = "no fault"
    LOST_BEFORE = "the connection is lost before the server processes the request"
    LOST_AFTER = "the server processes the request, but the connection is lost before the response"
    HANG = "no response until the server stops"
    HANG_MIDWAY = "the transaction starts and rows arrive, then no response until the server stops"
    TRICKLE = "the response arrives byte by byte and never ends"
    DEAD_BACKEND = "the FE names a backend that does not respond"
    NO_BACKEND = "the FE has no backend"
    TOO_MANY_VERSIONS = "a tablet has too many versions"
    PUBLISH_TIMEOUT = "committed, but not visible before Transactions.publish"
    CUT = "the server accepts half of the rows and reports that number"
    ELSEWHERE = "the FE names another host"
    PLAIN_BACKEND = "the FE names a backend without TLS"
    SLOW_FRONTEND = "the FE does not respond to a load until the server stops"


class Faults:
    """The planned faults, by call."""

    def __init__(self) -> None:
        self._coming: dict[Call, deque[Fault]] = {call: deque() for call in Call}
        self._lock = threading.Lock()
        self.ended = threading.Event()
        """Set when the server stops, so that hanging requests continue."""

    def plan(self, call: Call, *faults: Fault) -> None:
        """Plan these faults for the next calls of a kind."""
        with self._lock:
            self._coming[call].extend(faults)

    def give_back(self, call: Call, fault: Fault) -> None:
        """Plan this fault for the next call of a kind, ahead of all other planned faults."""
        with self._lock:
            self._coming[call].appendleft(fault)

    def next(self, call: Call) -> Fault:
        """Return the fault for this call."""
        with self._lock:
            return self._coming[call].popleft() if self._coming[call] else Fault.NONE

    def left(self) -> int:
        """Return the number of faults that have not occurred yet."""
        with self._lock:
            return sum(map(len, self._coming.values()))
