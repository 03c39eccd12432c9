"""Logins that a server refused: asked twice with one password, then hours apart, so that no account gets locked.

A refused password is first compared with what its reference says by then: another one is tried at once.

DWS, "Setting Account Security Policies": an account is locked after `failed_login_attempts` wrong passwords in a row
(default 10), for a day. A driver opens many sessions, and each would be one more.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.endpoint import Endpoint, Secret, secret_of
from slotkeeper.core.domain.refusals import PASSWORDS, said

TRIES = 2
AGAIN_SECONDS = 6 * 3600.0
"""Two tries, then four a day: fewer than ten before the server forgets them."""

RECENT_SECONDS = 10.0
RECENT_AT_ONCE = 6
"""So many logins may be under way at once where one has just succeeded: fewer than ten, should the password change."""

MOST = 256
"""Passwords that are remembered at most, as hashes; short-lived tokens would be more and more."""

_Key = tuple[str, int, str, str]
T = TypeVar("T")


@dataclass(slots=True)
class _Found:
    """What is known of a login: refusals in a row, the last one's moment and text, and the last success."""

    count: int = 0
    at: float = 0.0
    text: str = ""
    taken_at: float | None = None
    under_way: int = 0


class Refusals:
    """How often each login of this process was refused; shared by its threads."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or SystemClock().monotonic
        self._ended = threading.Condition()
        self._found: dict[_Key, _Found] = {}

    @contextmanager
    def turn(self, endpoint: Endpoint, password: str, seconds: float) -> Iterator[str]:
        """Wait for a turn to log in, held for the block; gives what the server said where it is not to be asked.

        Sessions that log in at once would all be refused before one refusal is counted. Nobody waits longer than
        `seconds`, in which any login ends: a server that was silent so long did not refuse either.
        """
        with self._ended:
            found = self._found_of(endpoint, password)
            self._ended.wait_for(lambda: self._standing(found) or found.under_way < self._at_once(found), seconds)
            standing = self._standing(found)
            found.under_way += 1
        try:
            yield standing
        finally:
            with self._ended:
                found.under_way -= 1
                self._ended.notify_all()

    def refused(self, endpoint: Endpoint, password: str, text: str) -> None:
        """Count a login that failed, where its password may be the cause; any failure ends what a success allowed."""
        with self._ended:
            found = self._found_of(endpoint, password)
            found.taken_at = None
            if said(text, PASSWORDS):
                found.count, found.at, found.text = found.count + 1, self._now(), text

    def taken(self, endpoint: Endpoint, password: str) -> None:
        """A login that succeeded: the server counts anew, and so do we."""
        with self._ended:
            found = self._found_of(endpoint, password)
            found.count, found.text, found.taken_at = 0, "", self._now()

    def forget(self, endpoint: Endpoint, password: str, but: int = 0) -> None:
        """Refusals are not held against this password, `but` so many: the server may not have had it yet."""
        with self._ended:
            found = self._found_of(endpoint, password)
            found.count = min(found.count, but)

    def _found_of(self, endpoint: Endpoint, password: str) -> _Found:
        """What is known of a password, which counts as the newest from here on; the oldest are forgotten."""
        key = _key(endpoint, password)
        found = self._found[key] = self._found.pop(key) if key in self._found else _Found()
        if len(self._found) > MOST:
            for old in [each for each, one in self._found.items() if not one.under_way and one is not found][:1]:
                del self._found[old]
        return found

    def _standing(self, found: _Found) -> str:
        return found.text if found.count >= TRIES and self._now() - found.at < AGAIN_SECONDS else ""

    def _at_once(self, found: _Found) -> int:
        if found.taken_at is not None and self._now() - found.taken_at < RECENT_SECONDS:
            return RECENT_AT_ONCE
        return max(1, TRIES - found.count)


def by_newest(endpoint: Endpoint, password: Secret | str, known: Refusals, attempt: Callable[[str], T]) -> T:
    """Log in by `attempt` with what the secret says now; where that is refused, once more with another password.

    That is what the reference says by then, or else the one that was accepted last: a reference may be ahead of its
    server. Where the older one is accepted, the refused one was early, and its refusals are forgotten.
    """
    secret = secret_of(password)
    plain = secret.now()
    try:
        found = attempt(plain)
    except Exception as error:
        if not said(str(error), PASSWORDS):
            raise
        secret.refused(plain)
        newer = secret.now()
        other = newer if newer != plain else secret.accepted()
        if other in ("", plain):
            raise
        try:
            found = attempt(other)
        except Exception as again:
            if newer == plain and said(str(again), PASSWORDS) and "not asked again" not in str(again):
                known.forget(endpoint, plain, 1)  # the server may have changed between the two
            raise
        if newer == plain:
            known.forget(endpoint, plain)
        plain = other
    secret.taken(plain)
    return found


def _key(endpoint: Endpoint, password: str) -> _Key:
    return endpoint.host, endpoint.port, endpoint.user, hashlib.sha256(password.encode()).hexdigest()
