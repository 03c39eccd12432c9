"""The model of a slot that a server keeps as a mark, without retaining records for it (a Hologres before 2.1; ADR 59).

Contents: the progress row, the slot that follows it, a confirmation under way, a driver that is killed with it and the
next start, keepalives, and a stranger who moves the slot once. Not included: records that expire by their age, which
the row's position detects without any slot, and the row's own fence (`stream.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from .space import Space, explore, trace

SKIPPED = "events are passed that were never applied, and no error is reported"
AHEAD = "the slot is ahead of the row, and no stranger has moved it"
FALSE_ALARM = "the job stops because of a slot that only we have moved"
EVENTS = 3
FOREIGN = EVENTS + 1
"""A keepalive's LSN: it belongs to no record."""


@dataclass(frozen=True, slots=True)
class SlotRules:
    """The rules; each switched off is one seeded fault."""

    # A job resumes from its row, not from the slot's position.
    from_row: bool = True
    # A start compares the slot with the row.
    compares: bool = True
    # Only committed positions are confirmed.
    committed: bool = True
    # A keepalive is answered with no position as flushed.
    own_answers: bool = True
    # A start waits until no call of a killed driver can arrive any more.
    waits: bool = True
    # A position that was sent without an answer is expected beside the earlier one.
    widened: bool = True


class Slot(NamedTuple):
    """The row, the server's slot, the driver's expectation of it, and the confirmation under way."""

    row: int = 0
    slot: int = 0
    registered: int = 0
    """The value stored in the row."""
    expected: frozenset[int] = frozenset({0})
    cursor: int = 0
    """The next event is read after this position."""
    sending: int = -1
    """Under way: it arrives, or is lost with its connection."""
    mine: bool = False
    """Whether the running driver has sent it."""
    alive: bool = True
    strange: bool = False
    """A stranger has moved the slot."""
    ended: bool = False
    """The job has stopped, and reports that the slot was moved."""
    skipped: bool = False


def successors(rules: SlotRules, at: Slot) -> Iterator[tuple[str, Slot]]:
    """Every next move."""
    if at.sending >= 0:
        yield "the confirmation lands", at._replace(slot=at.sending, sending=-1)
        yield "its line breaks before", at._replace(sending=-1)
    if not at.strange:
        for place in range(EVENTS + 1):
            if place != at.slot:
                yield f"a stranger moves the slot to {place}", at._replace(slot=place, strange=True)
    if at.ended:
        return
    if at.alive:
        yield from _living(rules, at)
        yield "the driver is killed", at._replace(alive=False, mine=False)
    elif at.sending < 0 or not rules.waits:
        yield "a start", _started(rules, at)


def _living(rules: SlotRules, at: Slot) -> Iterator[tuple[str, Slot]]:
    if not rules.own_answers and at.slot != FOREIGN:
        yield "a keepalive's LSN is answered as flushed", at._replace(slot=FOREIGN)
    if at.mine and at.sending < 0 and at.slot in at.expected:
        seen = at._replace(expected=frozenset({at.slot}), registered=at.slot, mine=False)
        yield "the server shows what it holds", seen
    if at.slot not in at.expected:
        yield "a status shows the slot elsewhere", at._replace(ended=True)
        return
    if at.cursor < EVENTS:
        skipped = at.skipped or at.cursor > at.row
        yield "a step commits", at._replace(row=max(at.row, at.cursor + 1), cursor=at.cursor + 1, skipped=skipped)
    goal = at.row if rules.committed else min(EVENTS, at.row + 1)
    if at.sending < 0 and not at.mine and goal > at.slot:
        known = at.expected | {goal} if rules.widened else frozenset({goal})
        yield f"{goal} is confirmed", at._replace(sending=goal, mine=True, expected=known)


def _started(rules: SlotRules, at: Slot) -> Slot:
    if rules.compares and (at.slot > at.row or at.slot < at.registered):
        return at._replace(ended=True)
    cursor = at.row if rules.from_row else at.slot
    return at._replace(alive=True, expected=frozenset({at.slot}), registered=at.slot, cursor=cursor)


def verdict(at: Slot) -> str:
    """The violation in a state, or nothing."""
    if at.skipped:
        return SKIPPED
    if at.strange:
        return ""
    if at.slot > at.row:
        return AHEAD
    return FALSE_ALARM if at.ended else ""


def run(rules: SlotRules) -> Space[Slot]:
    """Every state that can be reached."""
    return explore(f"a slot that follows, {rules}", Slot(), lambda at: successors(rules, at), verdict)


def story(space: Space[Slot], rules: SlotRules, number: int) -> str:
    """The shortest way to a state."""
    return "\n".join(trace(space, number, lambda at: successors(rules, at), str))


def without(*rules: str) -> SlotRules:
    """All rules but these."""
    return replace(SlotRules(), **dict.fromkeys(rules, False))
