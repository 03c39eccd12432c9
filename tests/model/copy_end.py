"""The model of a copy's end: chunks, the turn to CATCHING UP and RUNNING, and a sink that falls back (section 4.4).

Contents: one lane, a copy into the target or into a shadow that is exchanged, a driver that remembers which
chunks are left and how far the lane is, steps fenced by the progress row, a sink that falls back once to any earlier
moment since the copy began, and restarts. Not included: the creation of the slot and its waits (`creation.py`), lost
answers, zombies and late registrations (`stream.py`), a fallback to before the copy began (rows in state creating).

A key's content is the number of the transaction that wrote it last, 0 where it was deleted or never written. Each
transaction commits in one move; its number is its sync point, and all of them are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from .space import Space, explore, trace

Move = tuple[str, "Copying"]
EndSpace = Space["Copying"]
RowState = Literal["copying", "catching up", "running"]

UNEQUAL = "RUNNING, and the target is not what the source had at the row's position"
HALF = "a step commits while chunks of the copy are missing"
SINK_OLDER = "SINK OLDER"


@dataclass(frozen=True, slots=True)
class EndBounds:
    """One explored space: what each transaction writes as (key, deletes), and whether a shadow is exchanged."""

    name: str
    shadow: bool
    programme: tuple[tuple[int, bool], ...] = ((0, False), (1, False), (0, True), (1, False))
    before: int = 1
    """The number of transactions that are committed when the copy starts."""
    keys: int = 2
    restarts: int = 2


@dataclass(frozen=True, slots=True)
class EndRules:
    """The rules of a copy's end; each switched off is one seeded fault."""

    # The turn to CATCHING UP finds every chunk done, in its own transaction.
    end_finds_all_chunks: bool = True
    # The fence of a step names the states in which it may commit.
    steps_name_states: bool = True
    # RUNNING is reached from CATCHING UP only, by compare-and-swap.
    running_from_catching_up: bool = True
    # The same statement finds the row's own position at or beyond its noted point.
    running_checks_the_row: bool = True

    def without(self, *rules: str) -> EndRules:
        return replace(self, **dict.fromkeys(rules, False))


ALL_END_RULES = EndRules()
DIRECT = EndBounds("copy into the target", shadow=False)
SHADOW = EndBounds("copy into a shadow", shadow=True)
ENDS = (DIRECT, SHADOW)


class Sink(NamedTuple):
    """The state that falls back together: the row, the chunks, the target and its shadow."""

    state: RowState
    # Everything up to this sync point is applied.
    position: int
    target: tuple[int, ...]
    shadow: tuple[int, ...]
    # Mask of the chunks done; a chunk is one key.
    done: int = 0
    noted: int = 0


class Copying(NamedTuple):
    """The whole state. The driver remembers `left`, `reached` and `noted`."""

    committed: int
    sink: Sink
    # The state of a standby of the sink: any earlier moment of it.
    standby: Sink
    # The slot's registered point: changes at or below it are purged.
    registered: int
    # copying, streaming, stopped
    at: str
    left: int
    reached: int
    noted: int = 0
    fallen: bool = False
    restarts: int = 0
    trouble: str = ""
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class EndSetup:
    bounds: EndBounds
    rules: EndRules

    @property
    def chunks(self) -> int:
        """The mask of all chunks."""
        return (1 << self.bounds.keys) - 1

    def first_state(self) -> Copying:
        nothing = (0,) * self.bounds.keys
        point = self.bounds.before
        sink = Sink("copying", point, nothing, nothing)
        return Copying(point, sink, sink, point, "copying", self.chunks, point)


def content(bounds: EndBounds, up_to: int) -> tuple[int, ...]:
    """The table once the first `up_to` transactions are applied."""
    return applied(bounds, (0,) * bounds.keys, 0, up_to)


def applied(bounds: EndBounds, rows: tuple[int, ...], after: int, up_to: int) -> tuple[int, ...]:
    """The rows with the transactions beyond `after` and up to `up_to` applied."""
    found = list(rows)
    for number in range(after, up_to):
        key, deletes = bounds.programme[number]
        found[key] = 0 if deletes else number + 1
    return tuple(found)


def world_moves(setup: EndSetup, state: Copying) -> Iterator[Move]:
    if state.committed < len(setup.bounds.programme):
        yield f"source: {state.committed + 1} commits", state._replace(committed=state.committed + 1)
    if not state.fallen:
        yield "sink: the standby is as the sink now", state._replace(standby=state.sink)
        yield "sink: falls back to its standby", state._replace(sink=state.standby, fallen=True)
    if state.restarts < setup.bounds.restarts:
        yield "is started again", restarted(setup, state)


def restarted(setup: EndSetup, state: Copying) -> Copying:
    """The comparison of a start: a slot ahead of the row is reported; otherwise the start resumes."""
    state = state._replace(restarts=state.restarts + 1, trouble="")
    sink = state.sink
    if state.registered > sink.position:
        return stopped(state)
    copying = sink.state == "copying"
    left = setup.chunks & ~sink.done if copying else 0
    at = "copying" if copying else "streaming"
    return state._replace(at=at, left=left, reached=sink.position, noted=sink.noted)


def stopped(state: Copying, trouble: str = SINK_OLDER) -> Copying:
    return state._replace(at="stopped", left=0, reached=0, noted=0, trouble=trouble)


def copy_moves(setup: EndSetup, state: Copying) -> Iterator[Move]:
    sink = state.sink
    for key in range(setup.bounds.keys):
        if not state.left >> key & 1:
            continue
        left = state.left & ~(1 << key)
        if sink.done >> key & 1 or sink.state != "copying":
            yield f"chunk {key} is not there to be taken", state._replace(left=left)
            continue
        row = content(setup.bounds, state.committed)[key]
        rows = sink.shadow if setup.bounds.shadow else sink.target
        rows = (*rows[:key], row, *rows[key + 1 :])
        copied = sink._replace(done=sink.done | 1 << key)
        copied = copied._replace(shadow=rows) if setup.bounds.shadow else copied._replace(target=rows)
        yield f"copies chunk {key}", state._replace(left=left, sink=copied)
    if not state.left:
        yield "ends the copy", ended(setup, state)


def ended(setup: EndSetup, state: Copying) -> Copying:
    """Every chunk is done as far as the driver knows: exchange, note the newest point, turn to CATCHING UP."""
    sink, rules = state.sink, setup.rules
    if rules.end_finds_all_chunks and (sink.state != "copying" or sink.done != setup.chunks):
        return stopped(state)
    target = sink.shadow if setup.bounds.shadow else sink.target
    sink = sink._replace(state="catching up", target=target, noted=state.committed)
    return state._replace(at="streaming", sink=sink, reached=sink.position, noted=state.committed)


def step(setup: EndSetup, state: Copying) -> Copying:
    """Check, read, check, commit in one move; from the row's own position, up to the newest point."""
    sink = state.sink
    if state.registered > sink.position:
        return stopped(state)
    if setup.rules.steps_name_states and sink.state == "copying":
        return stopped(state)
    if state.committed == sink.position:
        return state._replace(reached=sink.position)
    target = applied(setup.bounds, sink.target, sink.position, state.committed)
    wrong = HALF if sink.done != setup.chunks else state.wrong
    sink = sink._replace(target=target, position=state.committed)
    return state._replace(sink=sink, reached=state.committed, wrong=wrong)


def to_running(setup: EndSetup, state: Copying) -> Copying:
    """The lane has passed its noted point, as far as the driver knows."""
    sink = state.sink
    if setup.rules.running_from_catching_up and sink.state != "catching up":
        return stopped(state)
    if setup.rules.running_checks_the_row and sink.position < sink.noted:
        return stopped(state)
    sink = sink._replace(state="running")
    equal = sink.target == content(setup.bounds, sink.position)
    return state._replace(sink=sink, wrong=state.wrong or ("" if equal else UNEQUAL))


def stream_moves(setup: EndSetup, state: Copying) -> Iterator[Move]:
    yield "takes a step", step(setup, state)
    if state.reached >= state.noted and state.sink.state != "running":
        yield "turns to RUNNING", to_running(setup, state)
    if state.sink.position > state.registered:
        yield "registers", state._replace(registered=state.sink.position)


def successors(setup: EndSetup) -> Callable[[Copying], list[Move]]:
    def moves(state: Copying) -> list[Move]:
        found = [*world_moves(setup, state)]
        if state.at == "copying":
            found += copy_moves(setup, state)
        elif state.at == "streaming":
            found += stream_moves(setup, state)
        return [(label, after) for label, after in found if after != state]

    return moves


def is_goal(setup: EndSetup, state: Copying) -> bool:
    """RUNNING with everything applied and registered; or stopped by name, after a fallback only."""
    point = len(setup.bounds.programme)
    if state.at == "stopped":
        return state.fallen
    return state.sink.state == "running" and state.sink.position == state.registered == point


def show(state: Copying) -> str:
    sink = state.sink
    end = f" {state.trouble}" if state.trouble else ""
    end += f" WRONG: {state.wrong}" if state.wrong else ""
    return (
        f"{state.at}, row {sink.state} at {sink.position} done {sink.done:b} target {sink.target} "
        f"slot {state.registered} committed {state.committed}{end}"
    )


def run(bounds: EndBounds, rules: EndRules, kinds: frozenset[str] = frozenset()) -> EndSpace:
    """Explore; stop at these kinds of violation only, or at any if none is named."""
    setup = EndSetup(bounds, rules)

    def verdict(state: Copying) -> str:
        return state.wrong if not kinds or state.wrong in kinds else ""

    return explore(bounds.name, setup.first_state(), successors(setup), verdict)


def story(space: EndSpace, setup: EndSetup, number: int) -> str:
    return "\n".join(trace(space, number, successors(setup), show))
