"""A task: read the row, check, read, check again, commit; each is a separate move.

Contents: sections 4.1 and 4.2 (steps 1 to 5) of the design. Not included: staging as a stream, time limits, bad rows. A
commit whose answer is lost and one that ends its task leave the same state: the driver has learned nothing and the row
knows.
"""

from __future__ import annotations

from collections.abc import Iterator

from .source import events_between, latest, polled_at
from .state import (
    HIDDEN,
    LEADS,
    LOST,
    SINK_OLDER,
    SLOT_LOST,
    SLOT_MOVED,
    SUPERSEDED,
    TWICE,
    Agent,
    Position,
    Role,
    Setup,
    State,
    agent_of,
    rest,
    trouble,
    with_agent,
)

Moves = Iterator[tuple[str, State]]


def judge(setup: Setup, state: State, agent: Agent, position: Position) -> str:
    """The result of a check: nothing, or the name of an error."""
    lane = state.lane
    if lane.false <= 0 or lane.true <= 0:
        return SLOT_LOST
    if not (agent.false >> lane.false & 1 and agent.true >> lane.true & 1):
        return SLOT_MOVED
    if setup.rules.compare_row_with_points and max(lane.false, lane.true) > position[0]:
        return SINK_OLDER
    return ""


def status(setup: Setup, state: State, role: Role, position: Position) -> tuple[State, str]:
    """Check both points; on success the seen points become the expected ones."""
    agent = agent_of(state, role)
    name = judge(setup, state, agent, position)
    state = state._replace(lane=polled_at(state.lane))
    if name:
        return trouble(state, role, name), name
    if state.lane.wiped and agent.epoch == state.row.epoch:
        state = state._replace(wrong=state.wrong or HIDDEN)
    seen = agent._replace(false=1 << state.lane.false, true=1 << state.lane.true)
    return with_agent(state, role, seen), ""


def begin(setup: Setup, state: State, role: Role) -> State:
    """A worker reads `after` from the row; the driver has sent it the epoch only."""
    agent = agent_of(state, role)
    if not setup.rules.progress_row:
        after = agent.after if agent.after[0] else (state.lane.true, 0)
        return with_agent(state, role, agent._replace(at="begun", after=after))
    if state.row.epoch != agent.epoch:
        name = SUPERSEDED if state.row.epoch > agent.epoch else SINK_OLDER
        return trouble(state, role, name)
    return with_agent(state, role, agent._replace(at="begun", after=state.row.position))


def first_status(setup: Setup, state: State, role: Role) -> State:
    state, name = status(setup, state, role, agent_of(state, role).after)
    if name:
        return state
    newest = latest(setup, state.lane)
    return with_agent(state, role, agent_of(state, role)._replace(at="looked", latest=newest))


def read(setup: Setup, state: State, role: Role) -> State:
    """Choose the range and stage it. The task ends if nothing is new."""
    agent = agent_of(state, role)
    after, rules = agent.after, setup.rules
    up_to = min(agent.latest, after[0] + setup.bounds.width)
    if up_to < after[0]:
        return finish(setup, state, role)
    staged = events_between(state.lane, after, up_to, rules.reread_boundary)
    seen = bool(staged >> up_to & 1) or not rules.reread_boundary
    reach = max(after, (up_to, 0 if seen else -1))
    if reach == after:
        return finish(setup, state, role)
    at = "staged" if rules.recheck else "sure"
    return with_agent(state, role, agent._replace(at=at, latest=0, staged=staged, reach=reach))


def recheck(setup: Setup, state: State, role: Role) -> State:
    """The points must be unchanged, or the read range may be the gap that a wipe left."""
    state, name = status(setup, state, role, agent_of(state, role).after)
    if name:
        return state
    newest = latest(setup, state.lane)
    return with_agent(state, role, agent_of(state, role)._replace(at="sure", latest=newest))


def fence(setup: Setup, state: State, agent: Agent) -> str:
    """The result of the compare-and-swap: no error, another agent's commit ("ours"), an error."""
    row = state.row
    if not setup.rules.progress_row:
        return ""
    if row.epoch != agent.epoch:
        return SUPERSEDED if row.epoch > agent.epoch else SINK_OLDER
    if not setup.rules.compare_position or row.position == agent.after:
        return ""
    return "ours" if row.position > agent.after else SINK_OLDER


def applied(setup: Setup, state: State, agent: Agent) -> State:
    """The rows and the progress row, in one transaction; the oracle counts and judges."""
    counts = list(state.counts)
    wrong = ""
    for number, point in enumerate(setup.events):
        counts[number] += agent.staged >> point & 1
        if counts[number] > 1:
            wrong = TWICE
        if not counts[number] and (point, 0) <= agent.reach:
            wrong = LOST
    row = state.row._replace(position=agent.reach)
    return state._replace(row=row, counts=tuple(counts), wrong=wrong or state.wrong)


def commit(setup: Setup, state: State, role: Role) -> Moves:
    agent = agent_of(state, role)
    found = fence(setup, state, agent)
    if found == "ours":
        yield "drops what it read: the row is beyond", finish(setup, state, role)
        return
    if found:
        yield f"finds {found} at commit", trouble(state, role, found)
        return
    done = applied(setup, state, agent)
    agent = agent._replace(after=agent.reach, staged=0)
    ended = finish(setup, with_agent(done, role, agent), role)
    yield "commits; the task ends, or its answer is lost", ended
    if setup.rules.recheck:
        # The second check serves as the next step's check.
        onward = agent._replace(at="looked", reach=(0, 0))
        yield "commits and continues", with_agent(done, role, onward)


def finish(setup: Setup, state: State, role: Role) -> State:
    if role == "copy":
        return state._replace(copy=None)
    idle = rest(agent_of(state, role), keep_position=not setup.rules.progress_row)
    return with_agent(state, role, idle)


def acknowledge(setup: Setup, state: State, role: Role) -> State:
    """Seeded fault: both points are registered and checked before the sink has committed."""
    state, name = status(setup, state, role, agent_of(state, role).after)
    if name:
        return state
    agent = agent_of(state, role)
    point = agent.reach[0]
    kept = state.lane.kept & ~((1 << point) - 1)
    lane = state.lane._replace(false=point, true=point, kept=kept)
    mask = 1 << point
    agent = agent._replace(at="acked", false=mask, true=mask)
    wrong = state.wrong or LEADS
    return with_agent(state, role, agent)._replace(lane=lane, wrong=wrong)


def whole_task(setup: Setup, state: State, role: Role) -> Moves:
    """Row, check, read, check, commit as one move, for spaces that are about registration."""
    state = begin(setup, state, role)
    steps = {"begun": first_status, "looked": read, "staged": recheck}
    agent = state.now if role == "now" else state.old
    while agent is not None and agent.at in steps:
        state = steps[agent.at](setup, state, role)
        agent = state.now if role == "now" else state.old
    if agent is not None and agent.at == "sure":
        state = next(commit(setup, state, role))[1]
    yield "takes a whole task", state


def task_moves(setup: Setup, state: State, role: Role) -> Moves:
    """The next move of the agent's task, and the loss of its task."""
    agent, rules = agent_of(state, role), setup.rules
    if agent.at == "idle":
        if not setup.bounds.whole_tasks:
            yield "begins a task: reads the row", begin(setup, state, role)
        elif not state.row.locked:
            yield from whole_task(setup, state, role)
    elif agent.at == "begun":
        yield "looks", first_status(setup, state, role)
    elif agent.at == "looked":
        yield "reads a range", read(setup, state, role)
    elif agent.at == "staged":
        yield "looks again", recheck(setup, state, role)
    elif agent.at == "sure" and not rules.commit_before_register:
        yield "registers before committing", acknowledge(setup, state, role)
    elif agent.at in ("sure", "acked") and not (state.row.locked and rules.progress_row):
        yield from commit(setup, state, role)
    if agent.at in ("begun", "looked", "staged", "sure", "acked"):
        yield "loses its task", finish(setup, state, role)
