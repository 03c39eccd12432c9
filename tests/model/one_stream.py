"""The model of one position that a server keeps for the stream of two channels (`slotkeeper.core.domain.position`).

Contents: both rows, the server's position and the purged part, one registration under way, the requested position of a
lane that was read a while ago, a driver that is killed with its call still under way and the next start, and a sink
that falls back once. Not included: everything about one channel alone (`stream.py`, `registrar.py`), so that waits for
calls of killed drivers are assumed, and a start sends nothing before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from .space import Space, explore, trace

LOST = "a channel's events are purged before its row has passed them, and no status tells"
EVENTS = 3


@dataclass(frozen=True, slots=True)
class StreamRules:
    """The rules; each switched off is one seeded fault."""

    # The least of all channels' rows is confirmed, not the own one.
    least: bool = True
    # The server's position is never moved back.
    never_back: bool = True


class Stream(NamedTuple):
    """The rows, the driver's memory of them, the server, the call under way, the backup of the sink."""

    rows: tuple[int, int] = (0, 0)
    known: tuple[int, int] = (0, 0)
    """The position that a lane asks to confirm, as the driver knew it at that time."""
    kept: int = 0
    purged: int = 0
    sending: int = -1
    """The index of a call that is under way."""
    locked: bool = False
    saved: tuple[int, int] = (0, 0)
    fell_back: bool = False
    ended: bool = False
    """A status has reported an error: the job is stopped."""


def successors(rules: StreamRules, at: Stream) -> Iterator[tuple[str, Stream]]:
    """Every next move."""
    if at.purged < at.kept:
        yield "the server purges what is confirmed", at._replace(purged=at.kept)
    if at.sending >= 0:
        yield "the call lands", at._replace(kept=at.sending, sending=-1, locked=False)
    if at.locked:
        yield "the driver is killed, its call is on its way", at._replace(locked=False)
    if at.ended:
        return
    if any(at.kept > row for row in at.rows):
        yield "a status shows the server ahead of a row", at._replace(ended=True)
    if not at.fell_back and at.saved != at.rows:
        yield "the sink is saved", at._replace(saved=at.rows)
    if not at.fell_back and at.saved != at.rows and at.sending < 0:
        yield "the sink falls back", at._replace(rows=at.saved, known=at.saved, fell_back=True, locked=False)
    for lane in (0, 1):
        yield from _of(rules, at, lane)


def _of(rules: StreamRules, at: Stream, lane: int) -> Iterator[tuple[str, Stream]]:
    row, name = at.rows[lane], "AB"[lane]
    if row < EVENTS and at.kept <= row:
        yield f"{name} commits a step", at._replace(rows=_with(at.rows, lane, row + 1))
    if at.known[lane] < row:
        yield f"the driver hears where {name} is", at._replace(known=_with(at.known, lane, row))
    if at.sending < 0 and not at.locked and all(at.kept <= one for one in at.rows):
        place = min(at.known[lane], at.rows[1 - lane]) if rules.least else at.known[lane]
        place = max(place, at.kept) if rules.never_back else place
        if place != at.kept:
            yield f"{name} is registered at {place}", at._replace(sending=place, locked=True)


def _with(pair: tuple[int, int], lane: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if lane == 0 else (pair[0], value)


def verdict(at: Stream) -> str:
    """The violation in a state, or nothing; a position ahead of the rows reveals a sink that fell back."""
    hidden = any(row < at.purged and (at.kept <= row or not at.fell_back) for row in at.rows)
    return LOST if hidden else ""


def run(rules: StreamRules) -> Space[Stream]:
    """Every state that can be reached."""
    return explore(f"one stream, {rules}", Stream(), lambda at: successors(rules, at), verdict)


def story(space: Space[Stream], rules: StreamRules, number: int) -> str:
    """The shortest way to a state."""
    return "\n".join(trace(space, number, lambda at: successors(rules, at), str))


def without(rule: str) -> StreamRules:
    """All rules but one."""
    return replace(StreamRules(), **{rule: False})
