"""The topology model: one key that moves between DNs while the set of DNs changes (section 4.5 of the design).

Contents: two DNs and their lanes, a DN that is added, removed or renamed at any moment, rows that move with it, a
server that waits until every slot has consumed everything or does not, a job that is stopped and started, notices the
change late, and then decides. Not included: the parts of the stream model (checks, lost answers, zombies, a sink that
falls back): a change of the set ends the run, and a start decides about it under an epoch of its own.

The key's events are numbered by their points. "Applied" is the order in which the sink took them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from .space import Space, explore, trace

Change = Literal["added", "removed", "renamed"]
Move = tuple[str, "Cluster"]
TopologySpace = Space["Cluster"]

BASE = 1
A, C, B = 0, 1, 2
"""The DNs: A and C exist from the beginning, B is the added one."""
NAMES = "ACB"
NOWHERE = -1
TOPOLOGY = "TOPOLOGY CHANGED"
OLDER = "an older change to the key is applied behind a newer one"
TWICE = "a change is applied twice"
LOST = "a change will never be applied, and no error is reported"
ALARM = "TOPOLOGY CHANGED is named although nothing was left unread"


@dataclass(frozen=True, slots=True)
class Scaling:
    """One explored space: the change, the key's moves, the server's behaviour, and its number of transactions."""

    name: str
    change: Change
    home: int
    moves_to: int
    waits: bool = True
    # An added DN has the slot's points from the redistribution on; otherwise it records nothing until it is registered.
    gives_points: bool = True
    points: int = 4


@dataclass(frozen=True, slots=True)
class TopologyRules:
    """The rules of a start that meets another set of DNs; each switched off is one seeded fault."""

    # An added DN needs points of the slot: recording began there with them.
    needs_points: bool = True
    # Its lane starts at that very point.
    begins_at_point: bool = True
    # Nothing may be unread on the old DNs up to that point.
    nothing_unread: bool = True
    # The unread changes of a removed DN cannot be queried.
    refuses_gone: bool = True
    # A DN under another name is known by its id, and its lane keeps its position.
    knows_renamed: bool = True

    def without(self, rule: str) -> TopologyRules:
        return replace(self, **{rule: False})


ALL_TOPOLOGY_RULES = TopologyRules()

ADDED = Scaling("added, the key moves to the new DN", "added", A, B)
ADDED_OLD = Scaling("added, the key moves between old DNs", "added", A, C)
ADDED_SILENT = replace(ADDED, name="added, without points", gives_points=False)
ADDED_FORCED = replace(ADDED, name="added without waiting", waits=False)
REMOVED = Scaling("removed", "removed", C, A)
REMOVED_FORCED = replace(REMOVED, name="removed without waiting", waits=False)
RENAMED = Scaling("renamed", "renamed", C, C, waits=False)
SCALINGS = (ADDED, ADDED_OLD, ADDED_SILENT, ADDED_FORCED, REMOVED, REMOVED_FORCED, RENAMED)
# DWS documents otherwise: rows move between DNs past changes that a running job has not read.
UNSUPPORTED_SCALING = replace(ADDED_OLD, name="between old DNs without waiting", waits=False)


class Cluster(NamedTuple):
    """The whole state. `events` has, per point from 2 on, the DN that the key's change was written on."""

    events: tuple[int, ...] = ()
    # Events that no binlog holds, as a mask of points.
    unrecorded: int = 0
    # The redistribution's own point, 0 before it.
    changed: int = 0
    # Per DN: the slot's point (both are one here) and the lane's position; NOWHERE where there is none.
    slot: tuple[int, int, int] = (BASE, BASE, NOWHERE)
    rows: tuple[int, int, int] = (BASE, BASE, NOWHERE)
    # running, stopped, failed; `knows` once the new set was adopted.
    at: str = "running"
    knows: bool = False
    applied: tuple[int, ...] = ()
    named: bool = False
    wrong: str = ""


def latest(state: Cluster) -> int:
    return BASE + len(state.events)


def put(triple: tuple[int, int, int], place: int, value: int) -> tuple[int, int, int]:
    changed = [*triple]
    changed[place] = value
    return (changed[0], changed[1], changed[2])


def unread(state: Cluster, dn: int, up_to: int) -> list[int]:
    """The points of a DN's recorded events beyond its lane's position."""
    after = state.rows[dn]
    return [
        point
        for point, where in enumerate(state.events, start=BASE + 1)
        if where == dn and after < point <= up_to and not state.unrecorded >> point & 1
    ]


def consumed(state: Cluster) -> bool:
    """The server's own question before it moves rows: is every slot past the last record of every DN?"""
    return all(point <= state.slot[dn] for point, dn in enumerate(state.events, start=BASE + 1) if dn in (A, B, C))


def source_moves(scaling: Scaling, state: Cluster) -> Iterator[Move]:
    top = latest(state) + 1
    if len(state.events) < scaling.points:
        home = scaling.moves_to if state.changed else scaling.home
        silent = home == B and state.slot[B] <= 0
        unrecorded = state.unrecorded | (1 << top if silent else 0)
        yield (
            f"source: {top} changes the key on {NAMES[home]}",
            state._replace(events=(*state.events, home), unrecorded=unrecorded),
        )
        if not state.changed and (consumed(state) or not scaling.waits):
            yield f"source: the DN is {scaling.change}, at {top}", redistributed(scaling, state, top)


def redistributed(scaling: Scaling, state: Cluster, point: int) -> Cluster:
    """The set changes and the rows move, as one transaction with its own point."""
    state = state._replace(events=(*state.events, NOWHERE), changed=point)
    if scaling.change == "added":
        return state._replace(slot=put(state.slot, B, point if scaling.gives_points else 0))
    if scaling.change == "removed":
        return state._replace(slot=put(state.slot, C, NOWHERE))
    return state


def reachable(scaling: Scaling, state: Cluster, dn: int) -> bool:
    """Whether a worker that asks for this DN, by its lane's name, gets an answer."""
    if state.rows[dn] == NOWHERE or state.slot[dn] == NOWHERE:
        return False
    return not (scaling.change == "renamed" and dn == C and state.changed and not state.knows)


def applied(state: Cluster, dn: int, up_to: int) -> Cluster:
    wrong = state.wrong
    order = [*state.applied]
    for point in unread(state, dn, up_to):
        if point in order:
            wrong = wrong or TWICE
        elif order and point < max(order):
            wrong = wrong or OLDER
        order.append(point)
    return state._replace(applied=tuple(order), rows=put(state.rows, dn, up_to), wrong=wrong)


def job_moves(scaling: Scaling, rules: TopologyRules, state: Cluster) -> Iterator[Move]:
    if state.at == "stopped":
        yield "job: starts", started(scaling, rules, state)
    if state.at != "running":
        return
    yield "job: stops", state._replace(at="stopped")
    if state.changed and not state.knows:
        yield "job: notices the change", started(scaling, rules, state)
    for dn in (A, C, B):
        if not reachable(scaling, state, dn):
            continue
        for up_to in range(state.rows[dn] + 1, latest(state) + 1):
            yield f"lane {NAMES[dn]}: takes a step up to {up_to}", applied(state, dn, up_to)
        if state.slot[dn] < state.rows[dn]:
            yield (
                f"lane {NAMES[dn]}: registers {state.rows[dn]}",
                state._replace(slot=put(state.slot, dn, state.rows[dn])),
            )


def started(scaling: Scaling, rules: TopologyRules, state: Cluster) -> Cluster:
    """A start: compares the rows with the existing DNs."""
    if not state.changed or state.knows:
        return state._replace(at="running")
    if scaling.change == "renamed":
        return renamed(rules, state)
    if scaling.change == "removed":
        return refused(state) if rules.refuses_gone else adopted(state._replace(rows=put(state.rows, C, NOWHERE)))
    return added(rules, state)


def renamed(rules: TopologyRules, state: Cluster) -> Cluster:
    if not rules.knows_renamed:
        state = state._replace(rows=put(state.rows, C, state.slot[C]))
    return adopted(state)


def added(rules: TopologyRules, state: Cluster) -> Cluster:
    point = state.slot[B]
    if point <= 0:
        if rules.needs_points:
            return refused(state)
        point = latest(state)
        state = state._replace(slot=put(state.slot, B, point))
    if rules.nothing_unread and any(unread(state, dn, point) for dn in (A, C)):
        return refused(state)
    begins = point if rules.begins_at_point else latest(state)
    return adopted(state._replace(rows=put(state.rows, B, begins)))


def adopted(state: Cluster) -> Cluster:
    return state._replace(at="running", knows=True)


def refused(state: Cluster) -> Cluster:
    return state._replace(at="failed", named=True)


def judged(scaling: Scaling, state: Cluster) -> str:
    """The violation: an order or a count of the sink, a silent loss, an error without a cause."""
    if state.wrong:
        return state.wrong
    if state.named and scaling.change == "added" and scaling.gives_points and scaling.waits:
        return ALARM
    if not state.knows:
        return ""
    for point, dn in enumerate(state.events, start=BASE + 1):
        if dn == NOWHERE or point in state.applied:
            continue
        if state.unrecorded >> point & 1 or state.rows[dn] == NOWHERE or point <= state.rows[dn]:
            return LOST
    return ""


def is_goal(scaling: Scaling, state: Cluster) -> bool:
    """Stopped by name, or everything applied and registered with the new set known."""
    if state.named:
        return True
    whole = len(state.applied) == sum(dn != NOWHERE for dn in state.events)
    return whole and len(state.events) == scaling.points and state.knows and consumed(state)


def successors(scaling: Scaling, rules: TopologyRules) -> Callable[[Cluster], list[Move]]:
    def moves(state: Cluster) -> list[Move]:
        found = [*source_moves(scaling, state), *job_moves(scaling, rules, state)]
        return [(label, after) for label, after in found if after != state]

    return moves


def show(state: Cluster) -> str:
    events = " ".join(
        f"{point}{NAMES[dn] if dn != NOWHERE else '!'}" for point, dn in enumerate(state.events, start=BASE + 1)
    )
    return f"{state.at} events [{events}] slot {state.slot} rows {state.rows} applied {state.applied}"


def run(scaling: Scaling, rules: TopologyRules) -> TopologySpace:
    return explore(scaling.name, Cluster(), successors(scaling, rules), lambda state: judged(scaling, state))


def story(space: TopologySpace, scaling: Scaling, rules: TopologyRules, number: int) -> str:
    return "\n".join(trace(space, number, successors(scaling, rules), show))
