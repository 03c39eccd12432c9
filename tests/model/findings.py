"""The questions about an exploration: is it sound, can it still arrive, what does a fault lead to?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from . import creation, stream
from .bounds import ALL_RULES, CREATION, Bounds, CreationBounds, Server
from .creation import CreationSetup
from .space import cannot_reach
from .state import HIDDEN, LEADS, LOST, TWICE, Setup

ANY: frozenset[str] = frozenset()
# A false alarm stops a job without need, but harms no row.
HARM = frozenset({LOST, TWICE, HIDDEN, LEADS})
WRONG_ROWS = frozenset({LOST, TWICE})


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one exploration: a violation with its shortest path, or none and the stuck states."""

    summary: str
    states: int
    verdict: str
    moves: int
    story: str
    # States without a path to the goal (or, after a wipe, to a named stop).
    stuck: int = 0

    def tell(self) -> Finding:
        print(f"\n{self.summary}")
        if self.verdict:
            print(f"{self.moves} moves:\n{self.story}")
        return self


@cache
def with_all_rules(bounds: Bounds, server: Server) -> Finding:
    """Explore with every rule on, and find the states without a path to the goal."""
    space = stream.run(bounds, server, ALL_RULES)
    setup = Setup(bounds, server, ALL_RULES)
    if space.broken is not None:
        return stream_violation(space, setup, space.broken)
    astray = [space.states[number] for number in cannot_reach(space, setup_goal(setup))]
    calm = [s for s in astray if not (s.stopped or s.lane.wiped or s.fallen)]
    silent = cannot_reach(space, lambda s: bool(s.stopped) or stream.is_goal(setup, s))
    return Finding(space.summary(), len(space.states), "", 0, "", len(calm) + len(silent))


def setup_goal(setup: Setup) -> stream.Question:
    return lambda state: stream.is_goal(setup, state)


def stream_violation(space: stream.StreamSpace, setup: Setup, broken: int) -> Finding:
    moves = len(space.way_to(broken)) - 1
    told = stream.story(space, setup, broken)
    return Finding(space.summary(), len(space.states), space.verdict, moves, told)


def without(rule: str | tuple[str, ...], bounds: Bounds, server: Server, kinds: frozenset[str] = ANY) -> Finding:
    """Switch a rule off (or several) and find the first of these kinds of violation."""
    rules = ALL_RULES.without(*((rule,) if isinstance(rule, str) else rule))
    space = stream.run(bounds, server, rules, kinds)
    if space.broken is None:
        return Finding(space.summary(), len(space.states), "", 0, "")
    return stream_violation(space, Setup(bounds, server, rules), space.broken)


@cache
def creation_with_all_rules(server: Server, bounds: CreationBounds = CREATION) -> Finding:
    space = creation.run(bounds, server, ALL_RULES)
    setup = CreationSetup(bounds, server, ALL_RULES)
    if space.broken is not None:
        return creation_violation(space, setup, space.broken)
    stuck = cannot_reach(space, lambda state: creation.is_goal(setup, state))
    return Finding(space.summary(), len(space.states), "", 0, "", len(stuck))


def creation_violation(space: creation.CreationSpace, setup: CreationSetup, broken: int) -> Finding:
    moves = len(space.way_to(broken)) - 1
    told = creation.story(space, setup, broken)
    return Finding(space.summary(), len(space.states), space.verdict, moves, told)


def creation_without(rule: str, server: Server, bounds: CreationBounds = CREATION) -> Finding:
    rules = ALL_RULES.without(rule)
    space = creation.run(bounds, server, rules)
    if space.broken is None:
        return Finding(space.summary(), len(space.states), "", 0, "")
    return creation_violation(space, CreationSetup(bounds, server, rules), space.broken)
