"""The faults of the stand-in, each once, in the order of their arming."""

from __future__ import annotations

import threading
from collections import deque
from enum import Enum


class Call(Enum):
    """A call at which something can go wrong."""

    LOAD = "load"
    TWO_PHASE = "second phase"
    STATE = "state of a label"


class Fault(Enum):
    """What goes wrong at it."""

    NONE = "nothing"
    LOST_BEFORE = "the connection breaks before the server acts"
    LOST_AFTER = "the server acts, and the connection breaks before the answer"
    HANG = "no answer comes until the server ends"
    HANG_MIDWAY = "the transaction has started and rows arrive, then no answer comes until the server ends"
    TRICKLE = "the answer comes byte by byte and never ends"
    DEAD_BACKEND = "the FE names a backend that does not answer"
    NO_BACKEND = "the FE has no backend"
    TOO_MANY_VERSIONS = "a tablet has too many versions"
    PUBLISH_TIMEOUT = "committed, and not visible before Transactions.publish"
    CUT = "the server accepts half of the rows, and reports it"
    ELSEWHERE = "the FE names another host"
    PLAIN_BACKEND = "the FE names a backend without TLS"
    SLOW_FRONTEND = "the FE never answers a load, until the server ends"


class Faults:
    """The faults to come, by call."""

    def __init__(self) -> None:
        self._coming: dict[Call, deque[Fault]] = {call: deque() for call in Call}
        self._lock = threading.Lock()
        self.ended = threading.Event()
        """Set when the server ends: hanging requests then continue."""

    def plan(self, call: Call, *faults: Fault) -> None:
        """The next calls of a kind go wrong so."""
        with self._lock:
            self._coming[call].extend(faults)

    def give_back(self, call: Call, fault: Fault) -> None:
        """The next call of a kind goes wrong so, before all that were planned."""
        with self._lock:
            self._coming[call].appendleft(fault)

    def next(self, call: Call) -> Fault:
        """What goes wrong at this one."""
        with self._lock:
            return self._coming[call].popleft() if self._coming[call] else Fault.NONE

    def left(self) -> int:
        """How many have not happened."""
        with self._lock:
            return sum(map(len, self._coming.values()))
