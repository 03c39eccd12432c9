"""The model of a sink that shares no transaction with the progress row: decide, write, settle (ADR 23). Contents: one
lane with one event at each point, its row (position, decided range, repeats counted), a sink, a worker that may be
killed between any two of its moves, a driver that restarts, and one older worker that is still running: of an earlier
epoch, or a copy of the same one. Not included: wipes, registrations that are lost under way and fallbacks of the store
(`stream.py` has them), events at the boundary that show late, chunks of a copy.

A kill also represents a lost answer: the request was executed, and its sender has exited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from .space import Space, explore, trace

Move = tuple[str, "Parts"]
PartsSpace = Space["Parts"]
At = Literal["idle", "read", "prepared", "decided", "again", "counted", "written", "late"]
Role = Literal["now", "old"]

LOST = "the row passes an event that the sink has not"
UNCOUNTED = "the sink has an event more often than the row counts"
TWICE = "an event is applied twice although the sink kept its token"
UNEQUAL = "all is settled, and an older event stands over a newer one"


@dataclass(frozen=True, slots=True)
class PartsBounds:
    """One explored space; `keeps` and `by_order` are the kind of the sink."""

    name: str
    keeps: bool = False
    """A prepared range gets a token, and commits of one token count once."""
    forgets: bool = False
    """A token may be forgotten, prepared or committed: labels expire."""
    by_order: bool = False
    """All events are of one key, whole rows, and the sink's content is that of the last event by its order."""
    events: int = 2
    epochs: int = 3
    copies: int = 1
    """The number of workers of the same epoch that are left behind."""
    kills: int = 1
    """The number of kills of a worker whose task starts over in the same epoch; each may write a range once more."""


@dataclass(frozen=True, slots=True)
class PartsRules:
    """The rules of a sink in two parts; switching one off is a seeded fault."""

    # Nothing is written permanently before the row names the range.
    decide_before_write: bool = True
    # The position moves only after the write.
    write_before_settle: bool = True
    # A range is decided only if there is none.
    one_decision: bool = True
    # A range is decided only beyond the row's own position.
    decide_compares_position: bool = True
    # A range is decided under the row's epoch only.
    decide_compares_epoch: bool = True
    # A decided range is finished before anything is planned.
    finish_first: bool = True
    # The decided range is written again, to its very end.
    the_decided_range: bool = True
    # A repeat is counted before it is written, not at the settling.
    count_before_repeat: bool = True
    # A repeat is counted, and so written, only if the range is still the decided one, under the worker's epoch.
    count_compares: bool = True
    # Only settled positions are confirmed at the source.
    confirm_settled: bool = True
    # The sink lets no older row replace a newer one.
    later_wins: bool = True

    def without(self, *rules: str) -> PartsRules:
        return replace(self, **dict.fromkeys(rules, False))


ALL_PARTS_RULES = PartsRules()
NOTHING_KEPT = PartsBounds("keeps nothing")
TOKENS = PartsBounds("keeps tokens", keeps=True)
FORGOTTEN = PartsBounds("keeps tokens for a while", keeps=True, forgets=True, epochs=2, copies=0)
BY_KEY = PartsBounds("whole rows by key", by_order=True)
PARTS = (NOTHING_KEPT, TOKENS, FORGOTTEN, BY_KEY)

NONE = -1
"""No token."""


class Row(NamedTuple):
    """The progress row: up to `position` all is settled, up to `decided` (0: nothing) it is being written."""

    epoch: int = 1
    position: int = 0
    decided: int = 0
    token: int = NONE
    counted: tuple[int, ...] = ()


class Token(NamedTuple):
    """The prepared range of a token: (after, end], and the sink's state of it."""

    after: int
    end: int
    at: Literal["prepared", "committed", "gone"] = "prepared"


GONE = Token(0, 0, "gone")


class Worker(NamedTuple):
    """A task of an epoch with the range that it works on."""

    epoch: int = 1
    at: At = "idle"
    after: int = 0
    end: int = 0
    token: int = NONE
    repeats: bool = False
    """It writes a range that another worker may have written (only the fault that counts late asks for it)."""


class Parts(NamedTuple):
    """The whole state. `counts`: how often the sink has each event; `content`: its last one by the sink's order."""

    counts: tuple[int, ...]
    row: Row
    now: Worker | None = Worker()
    old: Worker | None = None
    tokens: tuple[Token, ...] = ()
    committed: int = 1
    registered: int = 0
    content: int = 0
    copies: int = 0
    kills: int = 0


@dataclass(frozen=True, slots=True)
class PartsSetup:
    bounds: PartsBounds
    rules: PartsRules

    def first_state(self) -> Parts:
        zero = (0,) * self.bounds.events
        return Parts(zero, Row(counted=zero))


def more(counts: tuple[int, ...], after: int, end: int) -> tuple[int, ...]:
    """The counts with one more of each event of (after, end]."""
    return tuple(count + (after < number <= end) for number, count in enumerate(counts, start=1))


def written(setup: PartsSetup, state: Parts, after: int, end: int) -> Parts:
    """The rows of (after, end] go into the sink once more, and are visible."""
    if after >= end:
        return state
    newest = 0
    if setup.bounds.by_order:
        newest = max(state.content, end) if setup.rules.later_wins else end
    return state._replace(counts=more(state.counts, after, end), content=newest)


def with_token(state: Parts, number: int, at: Literal["committed", "gone"]) -> Parts:
    tokens = list(state.tokens)
    tokens[number] = tokens[number]._replace(at=at)
    return state._replace(tokens=tuple(tokens))


def put(state: Parts, role: Role, worker: Worker | None) -> Parts:
    return state._replace(now=worker) if role == "now" else state._replace(old=worker)


# -- a worker's moves -----------------------------------------------------------------------------------------------


def begin(setup: PartsSetup, state: Parts, role: Role, worker: Worker) -> Iterator[Move]:
    """Read the row; finish the decided range, if there is one, else read a range."""
    row, fresh = state.row, Worker(worker.epoch)
    if row.epoch != worker.epoch:
        yield "finds that it is superseded", put(state, role, None)
    elif row.decided and setup.rules.finish_first:
        end = row.decided if setup.rules.the_decided_range else state.committed
        onward = fresh._replace(after=row.position, end=end, token=row.token, repeats=True)
        yield "takes up what is decided", put(state, role, onward._replace(at="again"))
    elif state.committed > row.position:
        onward = fresh._replace(after=row.position, end=state.committed, at="read")
        yield f"reads up to {state.committed}", put(state, role, onward)


def prepare(setup: PartsSetup, state: Parts, role: Role, worker: Worker) -> Iterator[Move]:
    """Send the rows, invisible, if the sink has prepared writes; the fault writes them for good."""
    onward = worker._replace(at="prepared")
    if not setup.rules.decide_before_write:
        yield "writes before it decides", put(written(setup, state, worker.after, worker.end), role, onward)
    elif setup.bounds.keeps:
        made = state._replace(tokens=(*state.tokens, Token(worker.after, worker.end)))
        yield "prepares", put(made, role, onward._replace(token=len(state.tokens)))
    else:
        yield "has nothing to prepare", put(state, role, onward)


def decide(setup: PartsSetup, state: Parts, role: Role, worker: Worker) -> Iterator[Move]:
    """Compare-and-swap: epoch, position, nothing decided."""
    row, rules = state.row, setup.rules
    free = not row.decided or not rules.one_decision
    there = row.position == worker.after or not rules.decide_compares_position
    ours = row.epoch == worker.epoch or not rules.decide_compares_epoch
    if not ours or not free or not there:
        given_up = state if worker.token == NONE else with_token(state, worker.token, "gone")
        yield "may not decide", put(given_up, role, Worker(worker.epoch))
        return
    if not rules.write_before_settle:
        settled = state._replace(row=row._replace(position=max(row.position, worker.end)))
        yield "settles before it writes", put(settled, role, worker._replace(at="late"))
        return
    decided = state._replace(row=row._replace(decided=worker.end, token=worker.token))
    at: At = "decided" if rules.decide_before_write else "written"
    yield f"decides up to {worker.end}", put(decided, role, worker._replace(at=at))


def commit(setup: PartsSetup, state: Parts, role: Role, worker: Worker) -> Iterator[Move]:
    """Make the prepared rows visible, or write them; a range that the sink forgot is written again, and counted."""
    if worker.token == NONE:
        if worker.at == "again":
            yield from count(setup, state, role, worker)
        else:
            done = written(setup, state, worker.after, worker.end)
            yield "writes", put(done, role, worker._replace(at="written"))
        return
    token = state.tokens[worker.token]
    if token.at == "gone":
        yield from count(setup, state, role, worker)
        return
    done = state
    if token.at == "prepared":
        done = with_token(written(setup, state, token.after, token.end), worker.token, "committed")
    yield "commits its token", put(done, role, worker._replace(at="written"))


def count(setup: PartsSetup, state: Parts, role: Role, worker: Worker) -> Iterator[Move]:
    """Before a range is written again: count it in the row, if it is still the decided one."""
    row, rules = state.row, setup.rules
    if rules.count_compares and not _ours(row, worker):
        yield "may not write again", put(state, role, Worker(worker.epoch))
        return
    onward = worker._replace(at="counted", repeats=True)
    if rules.count_before_repeat:
        state = state._replace(row=row._replace(counted=more(row.counted, row.position, row.decided)))
    yield "counts a repeat", put(state, role, onward)


def _ours(row: Row, worker: Worker) -> bool:
    return row.epoch == worker.epoch and row.position == worker.after and bool(row.decided)


def settle(setup: PartsSetup, state: Parts, role: Role, worker: Worker) -> Iterator[Move]:
    """Compare-and-swap: epoch, position, and the decided range."""
    row, rules = state.row, setup.rules
    if not _ours(row, worker) or (row.decided != worker.end and rules.the_decided_range):
        yield "finds it settled", put(state, role, Worker(worker.epoch))
        return
    counted = row.counted
    if worker.repeats and not rules.count_before_repeat:
        counted = more(counted, row.position, row.decided)
    moved = row._replace(position=row.decided, decided=0, token=NONE, counted=counted)
    yield f"settles {row.decided}", put(state._replace(row=moved), role, Worker(worker.epoch))


def worker_moves(setup: PartsSetup, state: Parts, role: Role) -> Iterator[Move]:
    worker = state.now if role == "now" else state.old
    if worker is None:
        return
    if worker.at == "idle":
        yield from begin(setup, state, role, worker)
    elif worker.at == "read":
        yield from prepare(setup, state, role, worker)
    elif worker.at == "prepared":
        yield from decide(setup, state, role, worker)
    elif worker.at in ("decided", "again"):
        yield from commit(setup, state, role, worker)
    elif worker.at == "counted":
        # the source keeps events that were not confirmed; confirmed ones may be purged
        done = written(setup, state, max(worker.after, state.registered), worker.end)
        yield "writes again", put(done, role, worker._replace(at="written"))
    elif worker.at == "written":
        yield from settle(setup, state, role, worker)
    elif worker.at == "late":
        yield "writes", put(written(setup, state, worker.after, worker.end), role, Worker(worker.epoch))
    if state.kills < setup.bounds.kills:
        yield "is killed", put(state, role, None)._replace(kills=state.kills + 1)


# -- the world ------------------------------------------------------------------------------------------------------


def world_moves(setup: PartsSetup, state: Parts) -> Iterator[Move]:
    bounds, row = setup.bounds, state.row
    if state.committed < bounds.events:
        yield f"source: {state.committed + 1} commits", state._replace(committed=state.committed + 1)
    reached = row.position if setup.rules.confirm_settled else max(row.position, row.decided)
    if reached > state.registered:
        yield f"source: confirmed up to {reached}, and purges", state._replace(registered=reached)
    if bounds.forgets:
        for number, token in enumerate(state.tokens):
            if token.at != "gone":
                yield f"sink: forgets token {number}", with_token(state, number, "gone")
    if row.epoch < bounds.epochs:
        raised = state._replace(row=row._replace(epoch=row.epoch + 1), now=Worker(row.epoch + 1))
        yield "driver: another start", raised
        if state.now is not None and state.old is None:
            yield "driver: another start, the worker lives on", raised._replace(old=state.now)
    if state.now is None:
        yield "driver: another task", state._replace(now=Worker(row.epoch))
    elif state.old is None and state.copies < bounds.copies:
        copied = state._replace(old=state.now, now=Worker(row.epoch), copies=state.copies + 1)
        yield "driver: another task, the worker lives on", copied


def judged(setup: PartsSetup, state: Parts) -> str:
    """The violation in a state, if any."""
    row = state.row
    if 0 in state.counts[: row.position]:
        return LOST
    if any(count - 1 > counted for count, counted in zip(state.counts, row.counted, strict=True)):
        return UNCOUNTED
    bounds = setup.bounds
    if bounds.keeps and not bounds.forgets and max(state.counts) > 1:
        return TWICE
    if bounds.by_order and is_goal(setup, state) and state.content != bounds.events:
        return UNEQUAL
    return ""


def successors(setup: PartsSetup) -> Callable[[Parts], list[Move]]:
    def moves(state: Parts) -> list[Move]:
        found = list(world_moves(setup, state))
        for role in ("now", "old"):
            found += [(f"{role}: {label}", after) for label, after in worker_moves(setup, state, role)]
        return [(label, forgotten(after)) for label, after in found if after != state]

    return moves


def forgotten(state: Parts) -> Parts:
    """Without tokens that have no further effect: neither the row nor a worker has them."""
    if not state.tokens:
        return state
    asked = {one.token for one in (state.row, state.now, state.old) if one is not None}
    kept = [one if number in asked else GONE for number, one in enumerate(state.tokens)]
    while kept and kept[-1] is GONE and len(kept) - 1 not in asked:
        kept.pop()
    return state._replace(tokens=tuple(one if one.at != "gone" else GONE for one in kept))


def is_goal(setup: PartsSetup, state: Parts) -> bool:
    """Everything is settled, and no worker has anything to write."""
    quiet = all(one is None or one.at == "idle" for one in (state.now, state.old))
    return state.row.position == setup.bounds.events and not state.row.decided and quiet


def show(state: Parts) -> str:
    row = state.row
    decided = f" decided {row.decided}" if row.decided else ""
    token = f" token {row.token}" if row.token != NONE else ""
    return f"row {row.position}{decided}{token} epoch {row.epoch} counted {row.counted}, sink {state.counts}"


def run(bounds: PartsBounds, rules: PartsRules, kinds: frozenset[str] = frozenset()) -> PartsSpace:
    """Explore; stop at these kinds of violation only, or at any if none is named."""
    setup = PartsSetup(bounds, rules)

    def verdict(state: Parts) -> str:
        wrong = judged(setup, state)
        return wrong if not kinds or wrong in kinds else ""

    return explore(bounds.name, setup.first_state(), successors(setup), verdict)


def story(space: PartsSpace, setup: PartsSetup, number: int) -> str:
    return "\n".join(trace(space, number, successors(setup), show))
