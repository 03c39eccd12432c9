"""The state of the stream model: one lane, its progress row, and the agents that work on it.

Contents: the records that make up a state, and the setup (bounds, server, rules) that is the same for all states of one
exploration. Not included: rows and keys. An event is a number and "applied" is a count, because another test covers the
net effect per key.

Sets of points are bit masks: the explorer hashes millions of states.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from .bounds import Bounds, Rules, Server

# (sync point, sequence): sequence 0 is the one event of a point, -1 is "none of it applied".
Position = tuple[int, int]
# A registration under way: checkpoint flag, point, and whether a driver's coordinator shows its session.
Call = tuple[bool, int, bool]
Role = Literal["now", "old", "copy"]

# A slot's point: ABSENT after a wipe, UNREGISTERED after a check of an absent slot.
ABSENT = -1
UNREGISTERED = 0
# Points of the model start here; 0 means "never registered" on the real server.
BASE: Position = (1, -1)
NOWHERE: Position = (0, 0)

SLOT_LOST = "SLOT LOST"
SLOT_MOVED = "SLOT MOVED"
SUPERSEDED = "SUPERSEDED"
SINK_OLDER = "SINK OLDER"

# The possible violations. Loss and repeats at the sink take precedence over the others, which occur before them.
LOST = "the row passes an event that was never applied"
TWICE = "an event is applied twice"
HIDDEN = "a look passes over a wiped slot"
LEADS = "the slot leads the progress row"
ALARM = "a trouble is named without a cause"


class Lane(NamedTuple):
    """The source's side: committed points, retained records, the slot's two points."""

    visible: int
    kept: int
    false: int
    true: int
    # Ground truth, hidden from every agent: the slot was wiped at least once.
    wiped: bool


class Row(NamedTuple):
    """The progress row. `locked` is a registrar's FOR UPDATE."""

    epoch: int
    position: Position
    locked: bool


class Agent(NamedTuple):
    """A driver of one epoch together with the task it has out; or a task left to itself.

    A driver never registers a lane that is in a task, so both are one thread of moves.
    """

    epoch: int
    # start, idle, begun, looked, staged, sure, acked, ready, between, cleared, unsure,
    # stopped, dead
    at: str
    after: Position = NOWHERE
    latest: int = 0
    staged: int = 0
    reach: Position = NOWHERE
    # The driver's expectation of the slot's points, as masks: two bits if an answer was lost.
    false: int = 0
    true: int = 0
    # The point being registered, and whether the row's lock is (still) held.
    registers: int = 0
    holds: bool = False


class State(NamedTuple):
    """The whole state. `counts` has how often each event was applied: the oracle."""

    lane: Lane
    row: Row
    counts: tuple[int, ...]
    now: Agent
    old: Agent | None = None
    copy: Agent | None = None
    # Calls still under way to the source.
    late: tuple[Call, ...] = ()
    stopped: str = ""
    fallen: bool = False
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Setup:
    """One exploration: bounds, server and rules, with the masks that follow from them."""

    bounds: Bounds
    server: Server
    rules: Rules
    last: int = field(init=False)
    events: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        last = BASE[0] + self.bounds.points
        points = range(BASE[0] + 1, last + 1)
        object.__setattr__(self, "last", last)
        events = tuple(point for point in points if point not in self.bounds.foreign)
        object.__setattr__(self, "events", events)

    def first_state(self) -> State:
        base = BASE[0]
        driver = Agent(1, "idle", false=1 << base, true=1 << base)
        lane = Lane(visible=0, kept=0, false=base, true=base, wiped=False)
        return State(lane, Row(1, BASE, locked=False), (0,) * len(self.events), driver)


def agent_of(state: State, role: Role) -> Agent:
    agent = state.now if role == "now" else state.old if role == "old" else state.copy
    assert agent is not None
    return agent


def with_agent(state: State, role: Role, agent: Agent | None) -> State:
    if role == "now":
        assert agent is not None
        return state._replace(now=agent)
    if role == "old":
        return state._replace(old=agent)
    return state._replace(copy=agent)


def next_epoch(setup: Setup, state: State) -> int:
    """The epoch that a start would take; above the bound there is none."""
    highest = state.row.epoch
    if setup.rules.epochs_never_repeat:
        workers = (state.now, state.old, state.copy)
        highest = max(highest, *(agent.epoch for agent in workers if agent is not None))
    return highest + 1


def rest(agent: Agent, *, keep_position: bool = False) -> Agent:
    """Return to idle. Fields without a meaning there are cleared, so that equal states are equal."""
    after = agent.after if keep_position else NOWHERE
    return Agent(agent.epoch, "idle", after=after, false=agent.false, true=agent.true)


def gone(state: State, role: Role, at: str = "dead") -> State:
    """The agent makes no more steps; a lock that it held is released with its session."""
    agent = agent_of(state, role)
    if agent.holds:
        state = state._replace(row=state.row._replace(locked=False))
    if role != "now":
        return with_agent(state, role, None)
    return state._replace(now=Agent(agent.epoch, at))


def trouble(state: State, role: Role, name: str) -> State:
    """An agent reports an error. Only the newest driver's report stops the job.

    A copy's outcome is dropped by the driver that assigned its lane again. An agent that finds a higher epoch in the
    row is SUPERSEDED, whatever else it has seen.
    """
    agent = agent_of(state, role)
    if role != "now":
        return gone(state, role)
    state = gone(state, role, "stopped")._replace(stopped=name)
    cause = state.lane.wiped or state.fallen or agent.epoch < state.row.epoch
    return state if cause else state._replace(wrong=state.wrong or ALARM)
