"""Logins that a server refused: asked twice with one password, then hours apart, so that no account gets locked.

DWS, "Setting Account Security Policies": an account is locked after `failed_login_attempts` wrong passwords in a row
(default 10), for a day. A driver opens many sessions, and each would be one more. Next door: `pg.py` asks before it
connects; `core.domain.refused_login` has the words; `core.retry` ends a job after two refusals.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from core.clock import SystemClock
from core.domain.endpoint import Endpoint
from core.domain.refused_login import PASSWORDS, said

TRIES = 2
AGAIN_SECONDS = 6 * 3600.0
"""Two tries, then four a day: fewer than ten before the server forgets them."""

_Key = tuple[str, int, str, str]


class Refusals:
    """How often each login of this process was refused; shared by its threads."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or SystemClock().monotonic
        self._lock = threading.Lock()
        self._found: dict[_Key, tuple[int, float, str]] = {}

    def standing(self, endpoint: Endpoint, password: str) -> str:
        """What the server said, where this login is not to be asked again now; else nothing."""
        with self._lock:
            count, at, text = self._found.get(_key(endpoint, password), (0, 0.0, ""))
            return text if count >= TRIES and self._now() - at < AGAIN_SECONDS else ""

    def refused(self, endpoint: Endpoint, password: str, text: str) -> None:
        """Count a login that failed, where its password may be the cause."""
        if not said(text, PASSWORDS):
            return
        with self._lock:
            count = self._found.get(_key(endpoint, password), (0, 0.0, ""))[0]
            self._found[_key(endpoint, password)] = (count + 1, self._now(), text)

    def taken(self, endpoint: Endpoint, password: str) -> None:
        """A login that succeeded: the server counts anew, and so do we."""
        with self._lock:
            self._found.pop(_key(endpoint, password), None)


def _key(endpoint: Endpoint, password: str) -> _Key:
    return endpoint.host, endpoint.port, endpoint.user, hashlib.sha256(password.encode()).hexdigest()
