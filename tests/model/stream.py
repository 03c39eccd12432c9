"""The stream model: one lane from source to sink, with every agent that may touch it.

Contents: the moves of the world around the agents (commits, wipes, restarts, a sink that
falls back, calls that arrive late), the invariants, and the goal. README.md lists the parts that are not included.
"""

from __future__ import annotations

from collections.abc import Callable

from .bounds import Bounds, Rules, Server
from .registrar import registrar_moves
from .source import become_visible, land, may_become_visible, wipe
from .space import Space, explore, trace
from .state import ABSENT, BASE, Agent, Role, Row, Setup, State, next_epoch
from .task import Moves, task_moves

Question = Callable[[State], bool]
StreamSpace = Space[State]
ENDED = ("dead", "stopped")


def source_moves(setup: Setup, state: State) -> Moves:
    lane = state.lane
    for point in may_become_visible(setup, lane):
        yield f"source: {point} commits", state._replace(lane=become_visible(setup, lane, point))
    if lane.false != ABSENT or lane.true != ABSENT:
        yield "source: the slot is wiped", state._replace(lane=wipe(lane))
    for number, (checkpoint, point, _) in enumerate(state.late):
        left = state._replace(late=state.late[:number] + state.late[number + 1 :])
        word = str(checkpoint).lower()
        yield f"source: late {word}={point} lands", land(setup, left, checkpoint, point)
        yield f"source: late {word}={point} has ended unheard", left


def restart(state: State, epoch: int) -> State:
    """A start raises the epoch; an older driver continues as a zombie with its steps undone."""
    zombie = state.old if state.now.at in ("start", *ENDED) else state.now
    row = state.row._replace(epoch=epoch)
    return state._replace(row=row, now=Agent(epoch, "start"), old=zombie, stopped="")


def without_session(setup: Setup, agent: Agent | None) -> Agent | None:
    """Its sink sessions are lost: task and registration are over, its expectations stay."""
    if agent is None or agent.at in ("start", *ENDED):
        return agent
    mask = 1 << agent.registers if agent.registers else 0
    at = "unsure" if setup.rules.wait_on_new_session or agent.at == "unsure" else "idle"
    return Agent(agent.epoch, at, false=agent.false | mask, true=agent.true | mask)


def fall_back(setup: Setup, state: State) -> State:
    """A failover to a lagging copy or a restore: rows and progress row of the initial state.

    Every session at the sink ends with it, and so does a registrar's lock.
    """
    now = without_session(setup, state.now)
    assert now is not None
    return state._replace(
        row=Row(1, BASE, locked=False),
        counts=(0,) * len(state.counts),
        now=now,
        old=without_session(setup, state.old),
        copy=None,
        fallen=True,
    )


def sink_moves(setup: Setup, state: State) -> Moves:
    epoch = next_epoch(setup, state)
    if epoch <= setup.bounds.epochs and not state.row.locked:
        yield f"restart: the epoch is raised to {epoch}", restart(state, epoch)
    if setup.bounds.sink_falls_back and not state.fallen:
        yield "sink: falls back to the beginning", fall_back(setup, state)


def overrun_moves(setup: Setup, state: State) -> Moves:
    """A task past its deadline is left to itself and its lane assigned again."""
    busy = state.now.at in ("begun", "looked", "staged", "sure")
    if setup.bounds.copies and state.copy is None and busy:
        now = Agent(state.now.epoch, "idle", false=state.now.false, true=state.now.true)
        yield "now: overruns, its lane is assigned again", state._replace(copy=state.now, now=now)


def successors(setup: Setup) -> Callable[[State], list[tuple[str, State]]]:
    roles: tuple[Role, ...] = ("now", "old", "copy")

    def moves(state: State) -> list[tuple[str, State]]:
        found = [*source_moves(setup, state), *sink_moves(setup, state)]
        found += overrun_moves(setup, state)
        for role in roles:
            agent = getattr(state, role)
            if agent is None or agent.at in ENDED:
                continue
            found += [(f"{role}: {label}", s) for label, s in task_moves(setup, state, role)]
            if role != "copy":
                found += [(f"{role}: {label}", s) for label, s in registrar_moves(setup, state, role)]
        return [(label, after) for label, after in found if after != state]

    return moves


def verdict_of(kinds: frozenset[str]) -> Callable[[State], str]:
    """Stop at these kinds of violation only, or at any if none is named."""
    if not kinds:
        return lambda state: state.wrong
    return lambda state: state.wrong if state.wrong in kinds else ""


def is_goal(setup: Setup, state: State) -> bool:
    """Every event applied once, registered at both points, the driver running and quiet."""
    point = state.row.position[0]
    return (
        not state.stopped
        and state.counts == (1,) * len(state.counts)
        and point >= setup.last
        and state.lane.false == state.lane.true == point
        and state.now.at == "idle"
        and not state.lane.wiped
    )


def show(state: State) -> str:
    lane, row = state.lane, state.row
    kept = ",".join(str(p) for p in range(1, lane.kept.bit_length()) if lane.kept >> p & 1)
    points = "/".join("-" if value == ABSENT else str(value) for value in (lane.false, lane.true))
    lock = " locked" if row.locked else ""
    end = f" {state.stopped}" if state.stopped else ""
    end += f" WRONG: {state.wrong}" if state.wrong else ""
    place = f"{row.position[0]}/{row.position[1]}"
    return f"slot {points} kept {{{kept}}} row epoch {row.epoch} at {place}{lock} applied {state.counts}{end}"


def run(bounds: Bounds, server: Server, rules: Rules, kinds: frozenset[str] = frozenset()) -> Space[State]:
    setup = Setup(bounds, server, rules)
    name = f"{bounds.name}, {server.name}"
    return explore(name, setup.first_state(), successors(setup), verdict_of(kinds))


def story(space: Space[State], setup: Setup, number: int) -> str:
    return "\n".join(trace(space, number, successors(setup), show))
