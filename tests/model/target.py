"""Every interleaving of commits, checks, registrations and an action on the target; confirmed positions precede it.

A check reads when it begins and passes when it ends; the driver notes the committed position before it begins. With
`late` it notes the position when the check ends instead, with `eager` it registers what is committed: both lose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

COMMITS = 4


@dataclass(frozen=True, slots=True)
class Watching:
    """`acted` is the position at which the target was changed, None before; `noted` is of the check under way."""

    committed: int = 0
    proven: int = 0
    registered: int = 0
    acted: int | None = None
    noted: int | None = None
    reading: bool | None = None
    """Whether the check under way has read a good target; None before it has read."""
    failed: bool = False
    crashes: int = 0


def moves(state: Watching, late: bool = False, eager: bool = False) -> Iterator[Watching]:
    """Every state that one move leads to."""
    if state.acted is None:
        yield replace(state, acted=state.committed)
    if state.failed:
        return
    if state.committed < COMMITS:
        yield replace(state, committed=state.committed + 1)
    if state.noted is None:
        yield replace(state, noted=state.committed, reading=None)
    elif state.reading is None:
        yield replace(state, reading=state.acted is None)
    elif state.reading:
        yield replace(state, proven=state.committed if late else state.noted, noted=None)
    else:
        yield replace(state, failed=True)
    wanted = state.committed if eager else state.proven
    if wanted > state.registered:
        yield replace(state, registered=wanted)
    if state.crashes < 1:  # the next start checks before it streams; that check proves the positions committed before
        good = state.acted is None
        again = replace(state, noted=None, reading=None, crashes=state.crashes + 1)
        yield replace(again, proven=state.committed) if good else replace(again, failed=True)


def explore(late: bool = False, eager: bool = False) -> tuple[int, list[Watching]]:
    """The number of states, and those in which a position is confirmed that was committed after the act."""
    seen, found = {Watching()}, [Watching()]
    while found:
        for state in moves(found.pop(), late, eager):
            if state not in seen:
                seen.add(state)
                found.append(state)
    lost = [state for state in seen if state.acted is not None and state.registered > state.acted]
    return len(seen), lost
