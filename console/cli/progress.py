"""Says on stderr how far a command is, at a pace that a person and a log can take."""

from __future__ import annotations

from collections.abc import Callable

from slotkeeper.console.cli import diagnostics
from slotkeeper.console.views.how_far import HowFar, time_left
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.text import safe

FIRST, AGAIN, AT_LEAST = 1.0, 1.0, 20.0
"""Seconds before the first line, and between two: at once where another hundredth is done, else twenty."""
_MONOTONIC = SystemClock().monotonic


class Progress:
    """Of one thing whose `done` grows to `total`; the total may change on the way."""

    def __init__(self, what: str, unit: str, monotonic: Callable[[], float] = _MONOTONIC) -> None:
        self._what, self._unit, self._monotonic = safe(what, 200), unit, monotonic
        self._began = monotonic()
        self._said_at, self._said = self._began + FIRST - AGAIN, ""

    def at(self, done: int, total: int) -> None:
        """It is so far by now."""
        now = self._monotonic()
        share = f"{done / total:.2f}" if total else ""
        if now - self._said_at < (AGAIN if share != self._said else AT_LEAST):
            return
        self._said_at, self._said = now, share
        left = time_left(done, total, now - self._began)
        diagnostics.note(HowFar(self._what, min(done, total), total, self._unit, left).line)
