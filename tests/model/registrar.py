"""A registration: lock the row, check, `false`, check, `true`; and all its failures.

Contents: step 6 of section 4.2 and the first check of a start (section 4.5). Not included: xmin, several DNs: "too few
nodes" is, for one lane, a call that landed or did not.
"""

from __future__ import annotations

from .source import land, polled_at
from .state import (
    SINK_OLDER,
    SLOT_LOST,
    SLOT_MOVED,
    SUPERSEDED,
    Agent,
    Call,
    Role,
    Setup,
    State,
    agent_of,
    gone,
    next_epoch,
    rest,
    trouble,
    with_agent,
)
from .task import Moves, status


def quiet(setup: Setup, state: State) -> bool:
    """No call can be under way any more: its session was ended, or 15 s have passed."""
    if not setup.rules.wait_for_late_calls:
        return True
    everywhere = setup.rules.silence_of_all_coordinators
    return not any(everywhere or seen for _, _, seen in state.late)


def lock_and_poll(setup: Setup, state: State, role: Role) -> State:
    """Lock the row FOR UPDATE, check the epoch, check both points.

    One move: no other session can move the row meanwhile, and an event of the source between lock and check could
    equally have happened before the lock.
    """
    agent, row = agent_of(state, role), state.row
    if setup.rules.row_lock:
        if row.epoch != agent.epoch:
            return trouble(state, role, SUPERSEDED if row.epoch > agent.epoch else SINK_OLDER)
        state = state._replace(row=row._replace(locked=True))
        state = with_agent(state, role, agent._replace(holds=True))
    point = row.position[0] if setup.rules.progress_row else max(agent.after[0], 1)
    state, name = status(setup, state, role, row.position)
    if name:
        return state
    return with_agent(state, role, agent_of(state, role)._replace(at="ready", registers=point))


def check(state: State, role: Role) -> State:
    """`true` must still have its old value: a wipe since the check has removed it."""
    agent = agent_of(state, role)
    state = state._replace(lane=polled_at(state.lane))
    if state.lane.true <= 0:
        return trouble(state, role, SLOT_LOST)
    if not agent.true >> state.lane.true & 1:
        return trouble(state, role, SLOT_MOVED)
    return with_agent(state, role, agent._replace(at="cleared"))


def unlocked(state: State, agent: Agent) -> State:
    return state._replace(row=state.row._replace(locked=False)) if agent.holds else state


def answered(setup: Setup, state: State, role: Role, checkpoint: bool) -> State:
    """The call was executed and answered."""
    agent = agent_of(state, role)
    mask = 1 << agent.registers
    state = land(setup, state, checkpoint, agent.registers)
    if not checkpoint:
        at = "between" if setup.rules.check_between else "cleared"
        return with_agent(state, role, agent._replace(at=at, false=mask))
    if setup.rules.row_lock and not agent.holds:
        # Its own transaction at the sink is gone: it learns so when it ends it.
        return gone(state, role)
    idle = rest(agent, keep_position=not setup.rules.progress_row)._replace(true=mask)
    return with_agent(unlocked(state, agent), role, idle)


def unanswered(state: State, role: Role, checkpoint: bool) -> State:
    """No answer, or too few nodes: from now on the old or the new value is expected."""
    agent = agent_of(state, role)
    mask = 1 << agent.registers
    state = unlocked(state, agent)
    false = agent.false if checkpoint else agent.false | mask
    true = agent.true | mask if checkpoint else agent.true
    return with_agent(state, role, Agent(agent.epoch, "unsure", false=false, true=true))


def on_its_way(state: State, call: Call) -> State:
    """A call whose caller has exited."""
    return state._replace(late=tuple(sorted((*state.late, call))))


def send(setup: Setup, state: State, role: Role, checkpoint: bool) -> Moves:
    """Send one registration; every outcome it may have."""
    agent, word = agent_of(state, role), str(checkpoint).lower()
    yield f"registers {word}", answered(setup, state, role, checkpoint)
    if not setup.bounds.answers_lost:
        return
    late = len(state.late) < setup.bounds.late
    flying = on_its_way(state, (checkpoint, agent.registers, True)) if late else state
    if late and (role != "now" or next_epoch(setup, state) <= setup.bounds.epochs):
        yield f"is killed, {word} still on its way", gone(flying, role)
        if setup.bounds.second_coordinator:
            elsewhere = on_its_way(state, (checkpoint, agent.registers, False))
            yield f"is killed, {word} still on its way at another coordinator", gone(elsewhere, role)
    if setup.bounds.only_kills:
        return
    landed = land(setup, state, checkpoint, agent.registers)
    few = "answer lost or too few nodes"
    yield f"registers {word}: it lands, {few}", unanswered(landed, role, checkpoint)
    yield f"registers {word}: nothing lands, {few}", unanswered(state, role, checkpoint)
    if late:
        yield f"registers {word}: no answer, still on its way", unanswered(flying, role, checkpoint)


def settle(setup: Setup, state: State, role: Role) -> State:
    """After an unsure registration: check, expecting old or new."""
    state, name = status(setup, state, role, state.row.position)
    return state if name else with_agent(state, role, rest(agent_of(state, role)))


def start(setup: Setup, state: State) -> State:
    """The first check of a start: both points are there, neither ahead of the row."""
    lane = polled_at(state.lane)
    seen = state.now._replace(false=1 << max(lane.false, 0), true=1 << max(lane.true, 0))
    state = state._replace(lane=lane, now=seen)
    if max(lane.false, lane.true) > state.row.position[0] and min(lane.false, lane.true) > 0:
        return trouble(state, "now", SLOT_MOVED)
    state, name = status(setup, state, "now", state.row.position)
    return state if name else state._replace(now=rest(state.now))


def registrar_moves(setup: Setup, state: State, role: Role) -> Moves:
    agent, rules = agent_of(state, role), setup.rules
    if agent.at == "start" and quiet(setup, state):
        yield "takes its first look", start(setup, state)
    elif agent.at == "unsure" and quiet(setup, state):
        yield "looks, expecting old or new", settle(setup, state, role)
    elif agent.at == "idle" and not (rules.row_lock and state.row.locked):
        locks = "locks the row and looks" if rules.row_lock else "looks"
        yield f"begins to register: {locks}", lock_and_poll(setup, state, role)
    elif agent.at == "ready":
        yield from send(setup, state, role, checkpoint=False)
    elif agent.at == "between":
        yield "checks that true is as before", check(state, role)
    elif agent.at == "cleared":
        yield from send(setup, state, role, checkpoint=True)
    if agent.holds:
        if role != "now" or next_epoch(setup, state) <= setup.bounds.epochs:
            yield "is killed, its lock falls", gone(state, role)
        if not rules.silent_without_lock:
            stalled = with_agent(state, role, agent._replace(holds=False))
            yield "stalls, its lock falls and it has not noticed", unlocked(stalled, agent)
