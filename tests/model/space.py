"""Breadth-first exploration of a model: every reachable state, once, with the shortest path to it. Contents: the
explorer, shortest traces, and the backward question "from which states can none of these be reached any more". Not
included: fairness. That a good state *can* be reached does not say that it *will* be.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
Move = tuple[str, S]


@dataclass(slots=True)
class Space(Generic[S]):
    """The result of an exploration. Edges are kept as two parallel arrays of state numbers."""

    name: str
    states: list[S] = field(default_factory=list)
    parents: array[int] = field(default_factory=lambda: array("l"))
    tails: array[int] = field(default_factory=lambda: array("l"))
    heads: array[int] = field(default_factory=lambda: array("l"))
    moves: int = 0
    # Number of the first state that breaks an invariant, and the invariant's sentence.
    broken: int | None = None
    verdict: str = ""

    def summary(self) -> str:
        end = f"VIOLATED: {self.verdict}" if self.broken is not None else "no violation"
        return f"{self.name}: {len(self.states):,} states, {self.moves:,} moves, {end}"

    def way_to(self, number: int) -> list[int]:
        way = [number]
        while self.parents[way[-1]] >= 0:
            way.append(self.parents[way[-1]])
        return way[::-1]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection: states have no cycles, and a search among a million takes a quarter of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@_no_collection()
def explore(
    name: str,
    start: S,
    successors: Callable[[S], Iterable[Move[S]]],
    verdict: Callable[[S], str],
) -> Space[S]:
    """Visit every reachable state; stop at the first that `verdict` has a sentence about."""
    space: Space[S] = Space(name, [start], array("l", [-1]))
    numbers = {start: 0}
    states, parents = space.states, space.parents
    tails, heads = space.tails, space.heads
    current = 0
    while current < len(states):
        for _, after in successors(states[current]):
            number = numbers.get(after)
            if number is None:
                number = numbers[after] = len(states)
                states.append(after)
                parents.append(current)
                sentence = verdict(after)
                if sentence:
                    space.broken, space.verdict = number, sentence
                    return space
            space.moves += 1
            tails.append(current)
            heads.append(number)
        current += 1
    return space


@_no_collection()
def cannot_reach(space: Space[S], good: Callable[[S], bool]) -> list[int]:
    """Numbers of the states from which no good state can be reached."""
    before: list[list[int]] = [[] for _ in space.states]
    for tail, head in zip(space.tails, space.heads, strict=True):
        before[head].append(tail)
    reached = bytearray(len(space.states))
    frontier = [number for number, state in enumerate(space.states) if good(state)]
    for number in frontier:
        reached[number] = 1
    while frontier:
        for number in before[frontier.pop()]:
            if not reached[number]:
                reached[number] = 1
                frontier.append(number)
    return [number for number, flag in enumerate(reached) if not flag]


def trace(
    space: Space[S],
    number: int,
    successors: Callable[[S], Iterable[Move[S]]],
    show: Callable[[S], str],
) -> list[str]:
    """The shortest way to a state, one line a move.

    Labels are found again from the successors: keeping them for every state would double the
    memory of an exploration for the sake of one trace.
    """
    way = space.way_to(number)
    lines = [f"  0. at the beginning  [{show(space.states[way[0]])}]"]
    for count, (tail, head) in enumerate(pairwise(way), start=1):
        goal = space.states[head]
        label = next(label for label, after in successors(space.states[tail]) if after == goal)
        lines.append(f"{count:3d}. {label}  [{show(goal)}]")
    return lines


def refuse_broken(space: Space[S], told: Callable[[int], object], good: Callable[[S], bool]) -> None:
    """Every invariant holds, and from every state a good one can be reached; `told` is the way to a state, in words."""
    print(f"\n{space.summary()}")
    assert space.broken is None, told(space.broken)
    assert cannot_reach(space, good) == []


def found(space: Space[S], told: Callable[[int], object]) -> tuple[str, int]:
    """The invariant that is broken, and the moves of the shortest way there."""
    assert space.broken is not None, space.summary()
    print(f"\n{space.summary()}\n{told(space.broken)}")
    return space.verdict, len(space.way_to(space.broken)) - 1
