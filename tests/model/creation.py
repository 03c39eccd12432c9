"""The creation model: slot, wait, plan, copy, wait, note, catch up (section 4.4 of the design).

Contents: transactions in flight while the slot is made (their earlier writes are not recorded and not yet visible), a
copy that is one snapshot per chunk, a `latest` that may lie below a commit the copy has seen, and restarts at any
moment. Not included: wipes, zombies and late calls (the stream model has them), rolled back transactions, chunks of
more than one key, transactions that have only read so far (they have no number: only a complete list shows them).

A key's content is the number of the transaction that wrote it last; a position (p, s) is held
as `2 * p + 1 + s`, so that it compares as a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .bounds import CreationBounds, Rules, Server
from .space import Space, explore, trace

Move = tuple[str, "Creation"]
CreationSpace = Space["Creation"]
BASE_POINT = 1


class Transaction(NamedTuple):
    """One transaction of the source: how many keys it wrote, which writes were recorded."""

    writes: int = 0
    recorded: int = 0
    # Its sync point, taken at commit, before it becomes visible.
    point: int = 0
    visible: bool = False


class Creation(NamedTuple):
    """The whole state. `at` is kept in the sink except for the parts that a restart loses (see `restarted`)."""

    source: tuple[Transaction, ...]
    target: tuple[int, ...]
    # registering, waiting, planning, copying, settling, streaming
    at: str = "registering"
    # The slot's points; 0 is "not registered". Recording needs `true`, the later of the two.
    false: int = 0
    true: int = 0
    # Mask of the transactions to wait for, once the list was read.
    awaited: int = 0
    listed: bool = False
    plan: int = 0
    chunks: int = 0
    position: int = 0
    noted: int = 0
    running: bool = False
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class CreationSetup:
    bounds: CreationBounds
    server: Server
    rules: Rules

    def first_state(self) -> Creation:
        idle = tuple(Transaction() for _ in self.bounds.programme)
        at = "registering" if self.rules.register_before_copy else "planning"
        return Creation(idle, (0,) * self.bounds.keys, at=at)


def latest(setup: CreationSetup, state: Creation) -> int:
    """The newest safe point, or (exclusive) the first that is not safe yet."""
    points = [transaction.point for transaction in state.source]
    unsafe = [t.point for t in state.source if t.point and not t.visible]
    first_unsafe = min(unsafe, default=max(*points, BASE_POINT) + 1)
    return first_unsafe if setup.server.exclusive else first_unsafe - 1


def still_open(state: Creation) -> int:
    """Mask of the transactions that have started (written something) and are not visible yet."""
    return sum(1 << number for number, t in enumerate(state.source) if t.writes and not t.visible)


def content(setup: CreationSetup, state: Creation, key: int, position: int | None) -> int:
    """The last writer of the key: among the visible transactions, or among those up to a position."""
    best_point, best = 0, 0
    for number, t in enumerate(state.source):
        if key not in setup.bounds.programme[number][: t.writes] or t.point <= best_point:
            continue
        if t.visible if position is None else 2 * t.point + 1 <= position:
            best_point, best = t.point, number + 1
    return best


def key_is_locked(setup: CreationSetup, state: Creation, me: int, key: int) -> bool:
    """A row that an open transaction has written waits for its end."""
    return any(
        number != me and not t.visible and key in setup.bounds.programme[number][: t.writes]
        for number, t in enumerate(state.source)
    )


def source_moves(setup: CreationSetup, state: Creation) -> Iterator[Move]:
    top = max(BASE_POINT, *(t.point for t in state.source))
    for number, t in enumerate(state.source):
        keys = setup.bounds.programme[number]
        name = f"T{number + 1}"
        if t.writes < len(keys):
            key = keys[t.writes]
            if key_is_locked(setup, state, number, key):
                continue
            recorded = t.recorded | (1 << t.writes if state.true else 0)
            label = f"{name} writes key {key}, {'' if state.true else 'not '}recorded"
            after = t._replace(writes=t.writes + 1, recorded=recorded)
        elif not t.point:
            label, after = f"{name} takes point {top + 1}", t._replace(point=top + 1)
        elif not t.visible:
            label, after = f"{name} becomes visible", t._replace(visible=True)
        else:
            continue
        source = (*state.source[:number], after, *state.source[number + 1 :])
        yield label, state._replace(source=source)


def register(setup: CreationSetup, state: Creation) -> Iterator[Move]:
    """Both points, one after the other; `true` takes the value that `false` was given."""
    if not state.false or state.true:
        point = latest(setup, state)
        again = state._replace(false=point, true=0) if not state.true else None
        if again is None:
            # A restart in "creating": the slot exists and continues to record.
            yield "registers again", state._replace(false=point, true=point, at="waiting")
        else:
            yield f"registers false={point}", again
        return
    yield f"registers true={state.false}", state._replace(true=state.false, at="waiting")


def wait(setup: CreationSetup, state: Creation, onward: Creation, needed: bool) -> Iterator[Move]:
    """Read the counter and list the open transactions; then wait until each of them has ended.

    A transaction that has written has a number, and holds back the snapshot's xmin, listed or not.
    """
    if not needed:
        yield "does not wait", onward
    elif not state.listed:
        numbered = still_open(state)
        awaited = numbered if setup.rules.wait_for_the_snapshots_xmin else numbered & ~setup.bounds.hidden
        yield f"waits for transactions {awaited:b}", state._replace(awaited=awaited, listed=True)
    elif not state.awaited & still_open(state):
        yield "every one of them has ended", onward._replace(awaited=0, listed=False)


def plan(setup: CreationSetup, state: Creation) -> Creation:
    """Chunks up to the largest existing key; the stream brings larger keys."""
    keys = [key for key in range(1, setup.bounds.keys + 1) if content(setup, state, key, None)]
    return state._replace(plan=max(keys, default=0) + 1)


def copy_moves(setup: CreationSetup, state: Creation) -> Iterator[Move]:
    """One chunk, one snapshot; a chunk is one key here."""
    missing = [key for key in range(1, state.plan) if not state.chunks >> key & 1]
    for key in missing:
        row = content(setup, state, key, None)
        target = (*state.target[: key - 1], row, *state.target[key:])
        copied = state._replace(target=target, chunks=state.chunks | 1 << key)
        yield f"copies key {key}", copied
    if not missing:
        yield "the copy is done", state._replace(at="settling")


def settle_moves(setup: CreationSetup, state: Creation) -> Iterator[Move]:
    """Wait once more, note latest, catch up from the points that were registered."""
    if not state.true:
        # Seeded fault: the slot is created only now.
        point = latest(setup, state)
        yield f"registers {point} after the copy", state._replace(false=point, true=point)
        return
    noted = latest(setup, state)
    onward = state._replace(at="streaming", noted=noted, position=2 * state.true)
    yield from wait(setup, state, onward, setup.rules.wait_before_noting)


def stream_step(setup: CreationSetup, state: Creation) -> Creation:
    """Check, read, check, commit in one move: the records in (position, latest] are applied."""
    up_to = latest(setup, state)
    target, reach = list(state.target), max(state.position, 2 * up_to)
    for number, t in sorted(enumerate(state.source), key=lambda pair: pair[1].point):
        if not t.visible or not state.position < 2 * t.point + 1 <= 2 * up_to + 1:
            continue
        reach = max(reach, 2 * t.point + 1)
        for place, key in enumerate(setup.bounds.programme[number]):
            if t.recorded >> place & 1:
                target[key - 1] = number + 1
    running = state.running or reach >= 2 * state.noted
    return state._replace(target=tuple(target), position=reach, running=running)


def job_moves(setup: CreationSetup, state: Creation) -> Iterator[Move]:
    rules = setup.rules
    if state.at == "registering":
        yield from register(setup, state)
    elif state.at == "waiting" and not rules.plan_after_wait and not state.plan:
        yield "plans before the wait", plan(setup, state)
    elif state.at == "waiting":
        onward = state._replace(at="copying" if state.plan else "planning")
        yield from wait(setup, state, onward, rules.wait_after_registering)
    elif state.at == "planning":
        yield "plans the chunks", plan(setup, state)._replace(at="copying")
    elif state.at == "copying":
        yield from copy_moves(setup, state)
    elif state.at == "settling":
        yield from settle_moves(setup, state)
    elif state.at == "streaming":
        yield "takes a step", stream_step(setup, state)


def restarted(state: Creation) -> Creation:
    """The known state after a kill: "creating" starts over, chunks and position stay."""
    creating = state.at in ("registering", "waiting", "planning")
    at = "registering" if creating else state.at
    planned = 0 if creating else state.plan
    return state._replace(at=at, plan=planned, awaited=0, listed=False, restarts=state.restarts + 1)


def successors(setup: CreationSetup) -> Callable[[Creation], list[Move]]:
    def moves(state: Creation) -> list[Move]:
        found = [*source_moves(setup, state), *job_moves(setup, state)]
        early = setup.rules.register_before_copy
        if state.restarts < setup.bounds.restarts and early:
            found.append(("is killed and started again", restarted(state)))
        return [(label, after) for label, after in found if after != state]

    return moves


def verdict_of(setup: CreationSetup) -> Callable[[Creation], str]:
    """The promise of RUNNING: the target equals the source at the row's position."""

    def verdict(state: Creation) -> str:
        if not state.running:
            return ""
        for key in range(1, setup.bounds.keys + 1):
            if state.target[key - 1] != content(setup, state, key, state.position):
                return f"RUNNING, and key {key} is not what the source had at the position"
        return ""

    return verdict


def is_goal(setup: CreationSetup, state: Creation) -> bool:
    top = max(t.point for t in state.source)
    return state.running and all(t.visible for t in state.source) and state.position >= 2 * top + 1


def show(state: Creation) -> str:
    points = ",".join(f"{t.point or '-'}{'v' if t.visible else ''}" for t in state.source)
    running = " RUNNING" if state.running else ""
    place = f"{state.position // 2}{'' if state.position % 2 else '-'}"
    return (
        f"{state.at} slot {state.false}/{state.true} points {points} "
        f"target {state.target} position {place} noted {state.noted}{running}"
    )


def run(bounds: CreationBounds, server: Server, rules: Rules) -> Space[Creation]:
    setup = CreationSetup(bounds, server, rules)
    name = f"{bounds.name}, {server.name}"
    return explore(name, setup.first_state(), successors(setup), verdict_of(setup))


def story(space: Space[Creation], setup: CreationSetup, number: int) -> str:
    return "\n".join(trace(space, number, successors(setup), show))
