"""When a job that FAILED before may be called RUNNING again: once each lane has had an answer to its first step. Pure.

What ended it may end it again with its first step: who is told RUNNING before that is told FAILED a moment later.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.position import Position

WITHIN = 20.0
"""Seconds after which it is called RUNNING all the same: a first step that is long is no failure."""


class FirstAnswers:
    """The lanes that have not answered yet; `began` is when they were begun, in monotonic seconds."""

    def __init__(self, lanes: Mapping[str, Lane], began: float) -> None:
        self._began = began
        self._waiting: dict[str, Position] = {name: lane.position for name, lane in lanes.items()}

    def all_in(self, lanes: Mapping[str, Lane], now: float) -> bool:
        """Whether every lane that is still here has answered, or the time for that is over; true from then on."""
        if self._waiting and now - self._began >= WITHIN:
            self._waiting.clear()
        for name in [name for name, first in self._waiting.items() if _answered(lanes.get(name), first)]:
            del self._waiting[name]
        return not self._waiting


def _answered(lane: Lane | None, first: Position) -> bool:
    """Whether a lane has left, has moved, has nothing to read, or fails by something that is tried again."""
    return lane is None or bool(lane.error) or lane.nothing_waits or lane.position > first
