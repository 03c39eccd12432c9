"""The model of a Spark query's writer: tasks stage under tokens, and a batch is one transaction behind a fence.

Contents: one query with its checkpoint (the range of each batch, and the finished batches: both survive a driver); a
driver that may be lost at any moment and keeps running beside the next one, so that its transaction may still be open;
a second query with a checkpoint of its own; a sink that crashes, which empties the staging table; the clearing of
staged rows, and Spark's abort, at any moment. Not included: several tasks in a batch (their tokens are one here), a
checkpoint that is restored from a backup, a sink that falls back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from .space import Space, explore, trace

Move = tuple[str, "Writing"]
WritingSpace = Space["Writing"]
At = Literal["idle", "staged", "fenced", "counted", "written", "done", "gone"]
Role = Literal["now", "old", "other"]

LOST = "a batch is done, and an event of it is not in the target"
TWICE = "an event is in the target twice"
MIXED = "two queries have written one target"
INSIDE = ("fenced", "counted", "written")
"""A state with an open transaction: it has the fence's row."""


@dataclass(frozen=True, slots=True)
class WritingBounds:
    """One explored space."""

    name: str
    events: int = 2
    losses: int = 2
    """The number of times that the driver is lost and restarted."""
    crashes: int = 1
    other: bool = False
    """Whether a second query has the same target."""


@dataclass(frozen=True, slots=True)
class WritingRules:
    """The rules of the writer; each switched off is one seeded fault."""

    # A batch that the fence has is not written again.
    fence: bool = True
    # The fence moves in the transaction that writes the rows.
    one_transaction: bool = True
    # The fence has the query's id: another query is refused.
    query_in_fence: bool = True
    # Each attempt stages under its own token, and a batch reads the tokens that its driver names.
    tokens: bool = True
    # Staged rows are counted in the transaction before they are used.
    count: bool = True
    # Staged rows are cleared only where no transaction has counted them.
    clear_waits: bool = True
    # An abort removes no staged rows.
    abort_keeps: bool = True
    # An abort does not take the fence back.
    abort_keeps_fence: bool = True

    def without(self, *rules: str) -> WritingRules:
        return replace(self, **dict.fromkeys(rules, False))


ALL_WRITING_RULES = WritingRules()
ALONE = WritingBounds("one query")
LATER = WritingBounds("one query, three losses", losses=3, crashes=0)
BESIDE = WritingBounds("another query beside it", events=1, losses=1, crashes=0, other=True)
WRITING = (ALONE, LATER, BESIDE)


class Driver(NamedTuple):
    """A driver with its batch; `there`: its tasks' staged rows exist, `rows`: its transaction found them."""

    at: At = "idle"
    batch: int = 0
    there: bool = False
    rows: bool = False


class Writing(NamedTuple):
    """The whole state. `ends` are the checkpoint's batches by the event that each ends with, `done` how many are done.

    `counts` says how often the target has each event, `foreign` how often that of the other query; `strays` are the
    batches of which another attempt left rows staged.
    """

    counts: tuple[int, ...]
    ends: tuple[int, ...] = ()
    done: int = 0
    fence: tuple[str, int] = ("", 0)
    strays: frozenset[int] = frozenset()
    now: Driver = Driver()
    old: Driver | None = None
    other: Driver | None = None
    foreign: int = 0
    losses: int = 0
    crashes: int = 0


@dataclass(frozen=True, slots=True)
class WritingSetup:
    bounds: WritingBounds
    rules: WritingRules

    def first_state(self) -> Writing:
        return Writing((0,) * self.bounds.events, other=Driver() if self.bounds.other else None)


def of(role: Role) -> str:
    return "B" if role == "other" else "A"


def put(state: Writing, role: Role, driver: Driver | None) -> Writing:
    if role == "now":
        return state._replace(now=driver or Driver("gone"))
    return state._replace(old=driver) if role == "old" else state._replace(other=driver)


def drivers(state: Writing) -> Iterator[tuple[Role, Driver]]:
    yield "now", state.now
    if state.old is not None:
        yield "old", state.old
    if state.other is not None:
        yield "other", state.other


def covers(state: Writing, batch: int) -> range:
    """The events of a batch of the query, from 0."""
    return range(state.ends[batch - 2] if batch > 1 else 0, state.ends[batch - 1])


def stage(setup: WritingSetup, state: Writing, role: Role, driver: Driver) -> Iterator[Move]:
    """Take the next batch, which the checkpoint may know already, and stage it."""
    if role == "other":
        batches = [(1, state.ends)] if not state.foreign and driver.batch == 0 else []
    elif state.done < len(state.ends):
        batches = [(state.done + 1, state.ends)]
    else:
        begun = state.ends[-1] if state.ends else 0
        batches = [(state.done + 1, (*state.ends, end)) for end in range(begun + 1, setup.bounds.events + 1)]
    for batch, ends in batches:
        yield f"{role}: stages batch {batch}", put(state._replace(ends=ends), role, Driver("staged", batch, True))


def pass_fence(setup: WritingSetup, state: Writing, role: Role, driver: Driver) -> Iterator[Move]:
    """The fence, once no other session has its row in an open transaction."""
    if any(other.at in INSIDE for its, other in drivers(state) if its != role) and setup.rules.fence:
        return
    query, last = state.fence
    if query not in ("", of(role)) and setup.rules.query_in_fence:
        yield f"{role}: is refused", put(state, role, Driver("gone"))
    elif query == of(role) and last > driver.batch and setup.rules.fence:
        yield f"{role}: is behind, and refused", put(state, role, Driver("gone"))
    elif query == of(role) and last == driver.batch and setup.rules.fence:
        yield f"{role}: finds its batch there", put(state, role, driver._replace(at="done"))
    else:
        passed = put(state, role, driver._replace(at="fenced"))
        if not setup.rules.one_transaction:
            passed = passed._replace(fence=(of(role), driver.batch))
        yield f"{role}: passes the fence", passed


def count(setup: WritingSetup, state: Writing, role: Role, driver: Driver) -> Iterator[Move]:
    """Count the staged rows; from here on the staging table is in use."""
    if driver.there or not setup.rules.count:
        yield f"{role}: counts", put(state, role, driver._replace(at="counted"))
    else:
        yield f"{role}: misses staged rows", put(state, role, Driver())


def write(setup: WritingSetup, state: Writing, role: Role, driver: Driver) -> Iterator[Move]:
    """The statements of a step: each reads the staged rows again."""
    yield f"{role}: writes", put(state, role, driver._replace(at="written", rows=driver.there))


def commit(setup: WritingSetup, state: Writing, role: Role, driver: Driver) -> Iterator[Move]:
    """COMMIT: the rows that were read are in the target, and the fence moves."""
    times = int(driver.rows) + (driver.batch in state.strays and not setup.rules.tokens)
    after = put(state, role, driver._replace(at="done"))._replace(fence=(of(role), driver.batch))
    if role == "other":
        yield f"{role}: commits", after._replace(foreign=state.foreign + times)
        return
    counts = list(state.counts)
    for event in covers(state, driver.batch):
        counts[event] += times
    yield f"{role}: commits", after._replace(counts=tuple(counts))


def finish(setup: WritingSetup, state: Writing, role: Role, driver: Driver) -> Iterator[Move]:
    """Spark records that the batch is done."""
    after = put(state, role, Driver(batch=driver.batch if role == "other" else 0))
    yield f"{role}: is answered", after if role == "other" else after._replace(done=max(state.done, driver.batch))


STEPS = {
    "idle": stage,
    "staged": pass_fence,
    "fenced": count,
    "counted": write,
    "written": commit,
    "done": finish,
}


def strayed(state: Writing, driver: Driver) -> Writing:
    """The staged rows of an abandoned driver remain."""
    return state._replace(strays=state.strays | {driver.batch}) if driver.there else state


def accidents(setup: WritingSetup, state: Writing) -> Iterator[Move]:
    """Events outside a query."""
    if state.losses < setup.bounds.losses:
        begun = state._replace(now=Driver(), losses=state.losses + 1)
        yield "the driver is killed with its transaction, and begun again", strayed(begun, state.now)
        if state.old is None or state.old.at == "gone":
            yield "the driver is thought lost, and another begun", begun._replace(old=state.now)
    if state.crashes < setup.bounds.crashes:
        crashed = emptied(state)._replace(crashes=state.crashes + 1)
        for role, driver in drivers(state):
            if driver.at in INSIDE:
                crashed = put(crashed, role, Driver())
        yield "the sink crashes, and is there again", crashed


def emptied(state: Writing) -> Writing:
    """Nothing is staged any more."""
    after = state._replace(strays=frozenset())
    for role, driver in drivers(state):
        after = put(after, role, driver._replace(there=False))
    return after


def cleared(setup: WritingSetup, state: Writing) -> Iterator[Move]:
    """Any session clears staged rows; Spark aborts a batch, even a written one."""
    used = any(driver.at in ("counted", "written") for _, driver in drivers(state))
    if not (used and setup.rules.clear_waits):
        yield "staged rows are cleared", emptied(state)
    if not setup.rules.abort_keeps:
        yield "an abort removes staged rows", emptied(state)
    if state.fence[1] > state.done and not setup.rules.abort_keeps_fence:
        yield "an abort takes the fence back", state._replace(fence=(state.fence[0], state.done))


def successors(setup: WritingSetup, state: Writing) -> Iterator[Move]:
    for role, driver in drivers(state):
        if driver.at in STEPS:
            yield from STEPS[driver.at](setup, state, role, driver)
    yield from accidents(setup, state)
    yield from cleared(setup, state)


def verdict(state: Writing) -> str:
    if any(count > 1 for count in state.counts):
        return TWICE
    if any(not state.counts[event] for batch in range(1, state.done + 1) for event in covers(state, batch)):
        return LOST
    return MIXED if state.foreign and any(state.counts) else ""


def is_goal(setup: WritingSetup, state: Writing) -> bool:
    """All events are in the target once and their batches done; or the other query has the target."""
    return (all(count == 1 for count in state.counts) and state.done == len(state.ends)) or bool(state.foreign)


def run(bounds: WritingBounds, rules: WritingRules) -> WritingSpace:
    setup = WritingSetup(bounds, rules)
    return explore(bounds.name, setup.first_state(), lambda state: successors(setup, state), verdict)


def story(space: WritingSpace, setup: WritingSetup, number: int) -> str:
    return "\n".join(trace(space, number, lambda state: successors(setup, state), str))
