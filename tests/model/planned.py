"""The model of a sink with labels and two-phase commit beside its store: plan, prepare, arm, commit, settle (ADR 41).

Contents: one lane with one event at each point; its row (position, the planned range, the load that may be committed,
repeats counted); a server with loads under labels, which forgets labels, ends loads that wait too long, accepts a load
in part and may leave a request unanswered; a worker that may be killed between any two of its moves, a driver that
restarts, and one older worker that is still running. An event may be refused until the target is fixed, and then a plan
leaves it out (ADR 50). Not included: a load that still runs (it is waited for), chunks of a copy, wipes and fallbacks
of the store, resets, replays. `two_parts.py` has a sink without labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from .space import Space, explore, trace
from .two_parts import LOST, TWICE, UNCOUNTED, UNEQUAL

Move = tuple[str, "Planned"]
PlannedSpace = Space["Planned"]
At = Literal["idle", "read", "planned", "sent", "armed", "again", "written", "missed"]
Role = Literal["now", "old"]

STOPPED = "a worker that missed finds the row free, and ends the job with a defect"
ORPHAN = "a pre-committed load waits at the server that neither the row nor a worker names"


@dataclass(frozen=True, slots=True)
class PlannedBounds:
    """One explored space."""

    name: str
    forgets: int = 0
    """The number of committed or aborted loads that the server forgets: retention is shorter than an outage."""
    expires: int = 0
    """The number of pre-committed loads that it aborts because they wait too long."""
    cuts: bool = False
    """A load may be accepted in part; its answer has the number of rows."""
    withdraws: bool = False
    """A worker may abandon a plan, because the server refuses one of its rows."""
    isolates: bool = False
    """The target refuses event BAD until it is fixed; a worker finds that before it plans, and leaves it out."""
    explains: bool = False
    """A worker that misses the row reads it in a separate move, to find the reason."""
    events: int = 2
    epochs: int = 2
    copies: int = 1
    """The number of workers of the same epoch that are left behind."""
    kills: int = 1


@dataclass(frozen=True, slots=True)
class PlannedRules:
    """The rules of such a sink; each switched off is one seeded fault."""

    # The range is in the row before a byte of it is sent.
    plan_before_send: bool = True
    # The label is of the planned range, never of the epoch that sends it.
    label_of_range: bool = True
    # A load is committed only once a compare-and-swap has put it into the row.
    arm_before_commit: bool = True
    # That compare-and-swap compares the epoch.
    arm_compares_epoch: bool = True
    # And that no other load exists.
    arm_compares_load: bool = True
    # A plan is made only if there is none.
    one_plan: bool = True
    # What is planned is resolved before anything else is planned.
    resolve_first: bool = True
    # A plan is abandoned only while no load of it may be committed.
    plan_kept: bool = True
    # The resolved range is the planned one, to its very end.
    the_planned_range: bool = True
    # A load whose answer has fewer rows than the plan is aborted.
    count_compared: bool = True
    # A load found under the label whose answer is unknown is aborted, not adopted.
    unknown_is_aborted: bool = True
    # A load that the server no longer knows may have been committed: it is counted before it is sent again.
    gone_is_counted: bool = True
    # The position moves only where the row still has the load that was committed.
    settle_compares_load: bool = True
    # The rows that a plan leaves out go into quarantine with the plan, not once it is settled.
    entries_with_plan: bool = True
    # A plan that may have left something out is withdrawn by the worker that finds it, unless its load is committed.
    left_out_is_withdrawn: bool = True
    # Its label is its own: no later plan of the same range has it, so that the right to arm one does not arm the other.
    label_of_plan: bool = True
    # It is withdrawn only where its load is certain never to be seen, or is counted.
    withdrawn_when_certain: bool = True
    # The position moves only once the commit is known.
    commit_before_settle: bool = True
    # A worker that misses and finds the row free assumes that a plan was withdrawn, and reads the range again.
    free_is_withdrawn: bool = True

    def without(self, *rules: str) -> PlannedRules:
        return replace(self, **dict.fromkeys(rules, False))


ALL_PLANNED_RULES = PlannedRules()
KEPT = PlannedBounds("labels are kept", expires=1, copies=0)
COPIED = PlannedBounds("a task twice", expires=1, epochs=1)
CUT = PlannedBounds("loads are cut", cuts=True, copies=0)
REFUSED = PlannedBounds("rows are refused", withdraws=True, copies=0)
OUTLASTED = PlannedBounds("labels run out", forgets=1, copies=0)
REPEATED = PlannedBounds("labels run out, a task twice", forgets=1, epochs=1, kills=0)
ISOLATED = PlannedBounds("rows are left out", isolates=True, expires=1, copies=0)
ISOLATED_TWICE = PlannedBounds("rows are left out, a task twice", isolates=True, epochs=1, kills=0)
ISOLATED_OUTLASTED = PlannedBounds("rows are left out, labels run out", isolates=True, forgets=1, epochs=1, kills=0)
EXPLAINED = PlannedBounds("a miss is explained later", isolates=True, explains=True, epochs=1, kills=0)
BAD = 2
"""The event that is refused."""
PLANNED = (KEPT, COPIED, CUT, REFUSED, OUTLASTED, REPEATED, ISOLATED, ISOLATED_TWICE, ISOLATED_OUTLASTED, EXPLAINED)
WIDE = (
    PlannedBounds("labels are kept, wide", expires=1),
    PlannedBounds("rows are refused, wide", withdraws=True, expires=1),
    PlannedBounds("labels run out, wide", forgets=2, expires=1, kills=0),
)
"""Moves that take minutes."""

NONE = -1
Label = tuple[int, ...]


class Row(NamedTuple):
    """The progress row: settled up to `position`; `end` (0: none) is planned, `load` is the one to be committed."""

    epoch: int = 1
    position: int = 0
    end: int = 0
    label: Label = ()
    load: int = NONE
    counted: tuple[int, ...] = ()
    out: int = 0
    """The event whose entry was written with the plan (0: none)."""


class Load(NamedTuple):
    """A transaction of the server; `reaches` is below `end` where it was taken in part."""

    label: Label
    after: int
    reaches: int
    at: Literal["prepared", "committed", "aborted", "gone"] = "prepared"
    out: int = 0


NOTHING = Load((), 0, 0, "gone")


class Worker(NamedTuple):
    """A task of an epoch with its range; `before` is the row's load while it sends again.

    `out` is the event that it leaves out, found before it planned; `found`: it has not planned this range itself.
    """

    epoch: int = 1
    at: At = "idle"
    after: int = 0
    end: int = 0
    label: Label = ()
    load: int = NONE
    before: int = NONE
    out: int = 0
    found: bool = False
    free: bool = False
    """It missed, and found the row free."""


class Planned(NamedTuple):
    """The whole state. `counts` has how often the sink has each event; `content` is the last applied one."""

    counts: tuple[int, ...]
    row: Row
    now: Worker | None = Worker()
    old: Worker | None = None
    loads: tuple[Load, ...] = ()
    committed: int = 1
    content: int = 0
    copies: int = 0
    kills: int = 0
    expired: int = 0
    forgot: int = 0
    cured: bool = False
    quarantined: int = 0
    """The event that is in quarantine, of a settled range (0: none)."""


@dataclass(frozen=True, slots=True)
class PlannedSetup:
    bounds: PlannedBounds
    rules: PlannedRules

    def first_state(self) -> Planned:
        zero = (0,) * self.bounds.events
        return Planned(zero, Row(counted=zero))


def more(counts: tuple[int, ...], after: int, end: int, out: int = 0) -> tuple[int, ...]:
    return tuple(count + (after < number <= end and number != out) for number, count in enumerate(counts, start=1))


def put(state: Planned, role: Role, worker: Worker | None) -> Planned:
    return state._replace(now=worker) if role == "now" else state._replace(old=worker)


def with_load(state: Planned, number: int, at: Literal["committed", "aborted", "gone"]) -> Planned:
    loads = list(state.loads)
    loads[number] = loads[number]._replace(at=at)
    return state._replace(loads=tuple(loads))


def made(state: Planned, load: Load) -> tuple[Planned, int]:
    """The state with one load more, under the lowest unused number."""
    for number, one in enumerate(state.loads):
        if one is NOTHING or one == NOTHING:
            return state._replace(loads=(*state.loads[:number], load, *state.loads[number + 1 :])), number
    return state._replace(loads=(*state.loads, load)), len(state.loads)


def under(state: Planned, label: Label) -> int:
    """The load that a label names now; an aborted load frees its label."""
    for number, one in enumerate(state.loads):
        if one.label == label and one.at in ("prepared", "committed"):
            return number
    return NONE


def idle(worker: Worker) -> Worker:
    return Worker(worker.epoch)


def missed(setup: PlannedSetup, worker: Worker) -> Worker:
    """A worker that missed the row; a later move reads the reason."""
    return Worker(worker.epoch, "missed", worker.after) if setup.bounds.explains else idle(worker)


# -- a worker's moves -----------------------------------------------------------------------------------------------


def label_of(setup: PlannedSetup, worker: Worker, after: int, end: int) -> Label:
    return (after, end) if setup.rules.label_of_range else (after, end, worker.epoch)


def drawn(state: Planned, label: Label) -> Label:
    """A free label: the lowest of the unused numbers."""
    used = {state.row.label, *(one.label for one in state.loads)}
    used |= {one.label for one in (state.now, state.old) if one is not None}
    return next(made for number in range(len(used) + 1) if (made := (*label, number)) not in used)


def begin(setup: PlannedSetup, state: Planned, role: Role, worker: Worker) -> Iterator[Move]:
    """Read the row; resolve the plan, if there is one, else read a range."""
    row, rules = state.row, setup.rules
    if row.epoch != worker.epoch:
        yield "finds that it is superseded", put(state, role, None)
    elif row.end and rules.resolve_first:
        end = row.end if rules.the_planned_range else state.committed
        label = row.label if rules.label_of_range else label_of(setup, worker, row.position, end)
        onward = idle(worker)._replace(after=row.position, end=end, label=label, load=row.load, found=True)
        if setup.bounds.isolates and rules.left_out_is_withdrawn and row.load == NONE:
            yield from withdraw(setup, cleared(state, row.label), role, onward)
            return
        yield "takes up the plan", put(state, role, onward._replace(at="planned" if row.load == NONE else "armed"))
    elif state.committed > row.position:
        onward = idle(worker)._replace(at="read", after=row.position, end=state.committed)
        if setup.bounds.isolates and row.position < BAD <= state.committed and not state.cured:
            onward = onward._replace(out=BAD)
        yield f"reads up to {state.committed}", put(state, role, onward)


def plan(setup: PlannedSetup, state: Planned, role: Role, worker: Worker) -> Iterator[Move]:
    """Compare-and-swap: epoch, position, nothing planned."""
    row, rules = state.row, setup.rules
    label = label_of(setup, worker, worker.after, worker.end)
    if setup.bounds.isolates and rules.label_of_plan:
        label = drawn(state, label)
    onward = worker._replace(at="planned", label=label)
    if not rules.plan_before_send:
        yield "plans nothing", put(state, role, onward)
        return
    free = not row.end or not rules.one_plan
    if row.epoch != worker.epoch or row.position != worker.after or not free:
        yield "may not plan", put(state, role, missed(setup, worker))
        return
    planned = row._replace(end=worker.end, label=label, load=NONE, out=worker.out)
    yield f"plans up to {worker.end}", put(state._replace(row=planned), role, onward)


def send(setup: PlannedSetup, state: Planned, role: Role, worker: Worker) -> Iterator[Move]:
    """Send the range under its label, to be pre-committed; a load that is there already decides otherwise."""
    bounds, rules = setup.bounds, setup.rules
    if bounds.isolates and worker.after < BAD <= worker.end and not worker.out and not state.cured:
        yield from withdraw(setup, state, role, worker)  # it is refused
        return
    there = under(state, worker.label)
    if there != NONE and state.loads[there].at == "committed":
        # the row has another load: no known worker armed this one
        yield "finds its label FINISHED", put(state, role, worker._replace(at="written", load=worker.before))
    elif there != NONE and rules.unknown_is_aborted:
        yield f"aborts load {there} under its label", put(with_load(state, there, "aborted"), role, worker)
    elif there != NONE:
        yield f"adopts load {there}", put(state, role, worker._replace(at="sent", load=there))
    else:
        whole, number = made(state, Load(worker.label, worker.after, worker.end, out=worker.out))
        yield f"pre-commits load {number}", put(whole, role, worker._replace(at="sent", load=number))
        yield f"pre-commits load {number}, the answer is lost", put(whole, role, worker)
        if bounds.cuts:
            yield from send_in_part(setup, state, role, worker)
    if bounds.withdraws and worker.at == "planned":
        yield from withdraw(setup, state, role, worker)


def send_in_part(setup: PlannedSetup, state: Planned, role: Role, worker: Worker) -> Iterator[Move]:
    part, number = made(state, Load(worker.label, worker.after, worker.end - 1))
    yield f"load {number} is cut, the answer is lost", put(part, role, worker)
    if setup.rules.count_compared:
        yield f"load {number} is cut, and aborted", put(with_load(part, number, "aborted"), role, worker)
    else:
        yield f"load {number} is cut", put(part, role, worker._replace(at="sent", load=number))


def withdraw(setup: PlannedSetup, state: Planned, role: Role, worker: Worker) -> Iterator[Move]:
    """Compare-and-swap: the plan as it was, with no load that may be committed."""
    row = state.row
    ours = row.epoch == worker.epoch and row.position == worker.after and row.end == worker.end
    ours = ours and (not setup.bounds.isolates or row.label == worker.label)
    if ours and (row.load == NONE or certain(setup, state, worker) or not setup.rules.plan_kept):
        given_up = state._replace(row=row._replace(end=0, label=(), load=NONE, out=0))
        yield "withdraws its plan", put(given_up, role, idle(worker))
    elif setup.bounds.isolates:
        yield "may not withdraw", put(state, role, missed(setup, worker))


def certain(setup: PlannedSetup, state: Planned, worker: Worker) -> bool:
    """Whether the armed load is one that a row was left out of, and is certain never to be seen."""
    if not setup.bounds.isolates or state.row.load != worker.load:
        return False
    return state.loads[worker.load].at == "aborted" or not setup.rules.withdrawn_when_certain


def cleared(state: Planned, label: Label) -> Planned:
    """Abort the pre-committed load of a label."""
    there = under(state, label)
    return with_load(state, there, "aborted") if there != NONE and state.loads[there].at == "prepared" else state


def arm(setup: PlannedSetup, state: Planned, role: Role, worker: Worker) -> Iterator[Move]:
    """Compare-and-swap: epoch, position, the plan, and the current load; then this one may be committed."""
    row, rules = state.row, setup.rules
    onward = worker._replace(at="armed", before=NONE)
    if not rules.arm_before_commit:
        yield "continues without arming", put(state, role, onward)
        return
    if rules.plan_before_send:
        there = row.end == worker.end and (row.load == worker.before or not rules.arm_compares_load)
        there = there and (not setup.bounds.isolates or row.label == worker.label)
    else:
        there = not row.end or (row.end == worker.end and row.load == worker.before)
    ours = row.epoch == worker.epoch or not rules.arm_compares_epoch
    if ours and row.position == worker.after and there:
        armed = row._replace(end=worker.end, label=worker.label, load=worker.load)
        yield f"arms load {worker.load}", put(state._replace(row=armed), role, onward)
        return
    given_up = state
    if state.loads[worker.load].at == "prepared":
        given_up = with_load(state, worker.load, "aborted")
    yield "may not arm", put(given_up, role, missed(setup, worker))


def commit(setup: PlannedSetup, state: Planned, role: Role, worker: Worker) -> Iterator[Move]:
    """Commit the load, and learn the result from the answer."""
    load = state.loads[worker.load]
    if worker.found and setup.bounds.isolates and not setup.rules.withdrawn_when_certain and load.at != "committed":
        yield from withdraw(setup, state, role, worker)
    if not setup.rules.commit_before_settle and state.row.load == worker.load:
        yield "settles before it knows", put(state, role, worker._replace(at="written"))
    elif load.at == "prepared":
        counts = more(state.counts, load.after, load.reaches, load.out)
        done = with_load(state._replace(counts=counts, content=load.reaches), worker.load, "committed")
        yield "commits", put(done, role, worker._replace(at="written"))
        yield "commits, the answer is lost", put(done, role, worker)
        if not setup.rules.plan_kept:
            yield from withdraw(setup, done, role, worker)
    elif load.at == "committed":
        yield "finds it committed", put(state, role, worker._replace(at="written"))
    elif load.at == "aborted" and worker.found and setup.bounds.isolates and setup.rules.left_out_is_withdrawn:
        yield from withdraw(setup, state, role, worker)
    elif load.at == "aborted":
        again = worker._replace(at="again", before=worker.load, load=NONE)
        yield "finds it aborted, and sends again", put(state, role, again)
    else:
        yield from sent_again(setup, state, role, worker)


def sent_again(setup: PlannedSetup, state: Planned, role: Role, worker: Worker) -> Iterator[Move]:
    """The server does not know the load any more: count it, and reset the plan to the state before the send."""
    row = state.row
    same = row.epoch == worker.epoch and row.position == worker.after and row.end == worker.end
    same = same and row.label == worker.label
    if not same or row.load != worker.load:
        yield "may not send again", put(state, role, missed(setup, worker))
        return
    counted = more(row.counted, row.position, row.end) if setup.rules.gone_is_counted else row.counted
    back = state._replace(row=row._replace(load=NONE, counted=counted))
    if worker.found and setup.bounds.isolates and setup.rules.left_out_is_withdrawn:
        yield "counts a repeat", put(back, role, idle(worker))  # a plan without a load, which the next one withdraws
        return
    yield "counts a repeat", put(back, role, worker._replace(at="planned", load=NONE))


def settle(setup: PlannedSetup, state: Planned, role: Role, worker: Worker) -> Iterator[Move]:
    """Compare-and-swap: epoch, position, the planned end, and the load."""
    row = state.row
    same = row.epoch == worker.epoch and row.position == worker.after
    planned = row.end == worker.end or not (setup.rules.plan_before_send or row.end)
    rules = setup.rules
    if rules.settle_compares_load and rules.arm_before_commit:
        planned = planned and row.load == worker.load
    planned = planned and (not setup.bounds.isolates or row.label == worker.label)
    if not same or not (planned or not rules.the_planned_range):
        yield "finds it settled", put(state, role, missed(setup, worker))
        return
    moved = row._replace(position=worker.end, end=0, label=(), load=NONE, out=0)
    quarantined = row.out
    if not rules.entries_with_plan:  # they are found once more, in the current target
        quarantined = BAD if setup.bounds.isolates and worker.after < BAD <= worker.end and not state.cured else 0
    settled = state._replace(row=moved, quarantined=quarantined or state.quarantined)
    yield f"settles {worker.end}", put(settled, role, idle(worker))


def explain(setup: PlannedSetup, state: Planned, role: Role, worker: Worker) -> Iterator[Move]:
    """Read the row to find why it was missed: a plan may have been withdrawn in between."""
    row = state.row
    free = row.epoch == worker.epoch and row.position == worker.after and not row.end
    if free and not setup.rules.free_is_withdrawn:
        yield "finds the row free", put(state, role, worker._replace(free=True))
    else:
        yield "reads why it missed", put(state, role, idle(worker))


MOVES: dict[At, Callable[[PlannedSetup, Planned, Role, Worker], Iterator[Move]]] = {
    "idle": begin,
    "read": plan,
    "planned": send,
    "again": send,
    "sent": arm,
    "armed": commit,
    "written": settle,
    "missed": explain,
}


def worker_moves(setup: PlannedSetup, state: Planned, role: Role) -> Iterator[Move]:
    worker = state.now if role == "now" else state.old
    if worker is None:
        return
    yield from MOVES[worker.at](setup, state, role, worker)
    if state.kills < setup.bounds.kills:
        yield "is killed", put(state, role, None)._replace(kills=state.kills + 1)


# -- the world ------------------------------------------------------------------------------------------------------


def world_moves(setup: PlannedSetup, state: Planned) -> Iterator[Move]:
    bounds, row = setup.bounds, state.row
    if state.committed < bounds.events:
        yield f"source: {state.committed + 1} commits", state._replace(committed=state.committed + 1)
    if bounds.isolates and not state.cured:
        yield "target: cured", state._replace(cured=True)
    for number, load in enumerate(state.loads):
        if state.expired < bounds.expires and load.at == "prepared":
            ended = with_load(state, number, "aborted")._replace(expired=state.expired + 1)
            yield f"sink: load {number} has waited too long", ended
        if state.forgot < bounds.forgets and load.at in ("committed", "aborted"):
            gone = with_load(state, number, "gone")._replace(forgot=state.forgot + 1)
            yield f"sink: forgets load {number}", gone
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


def judged(setup: PlannedSetup, state: Planned) -> str:
    """The violation in a state, if any."""
    row, bounds = state.row, setup.bounds
    if any(one is not None and one.free for one in (state.now, state.old)):
        return STOPPED
    if any(
        not count and number != state.quarantined for number, count in enumerate(state.counts[: row.position], start=1)
    ):
        return LOST
    if state.quarantined and state.counts[state.quarantined - 1] > row.counted[state.quarantined - 1]:
        return TWICE
    if any(count - 1 > counted for count, counted in zip(state.counts, row.counted, strict=True)):
        return UNCOUNTED if bounds.forgets else TWICE
    if not bounds.forgets and not bounds.withdraws and not bounds.isolates and _orphans(state):
        return ORPHAN
    if is_goal(setup, state) and state.content != bounds.events:
        return UNEQUAL
    return ""


def _orphans(state: Planned) -> bool:
    """A pre-committed load counts against the server's limit until it times out: the row or a worker has to name it."""
    workers = [one for one in (state.now, state.old) if one is not None]
    labels = {state.row.label, *(one.label for one in workers)}
    return any(one.at == "prepared" and one.label not in labels for one in state.loads)


def successors(setup: PlannedSetup) -> Callable[[Planned], list[Move]]:
    def moves(state: Planned) -> list[Move]:
        found = list(world_moves(setup, state))
        for role in ("now", "old"):
            found += [(f"{role}: {label}", after) for label, after in worker_moves(setup, state, role)]
        return [(label, forgotten(after)) for label, after in found if after != state]

    return moves


def forgotten(state: Planned) -> Planned:
    """Without loads that have no further effect and that neither the row nor a worker names."""
    if not state.loads:
        return state
    named = {state.row.load}
    for one in (state.now, state.old):
        if one is not None:
            named |= {one.load, one.before}
    loads = [
        one if number in named or one.at in ("prepared", "committed") else NOTHING
        for number, one in enumerate(state.loads)
    ]
    while loads and loads[-1] == NOTHING and len(loads) - 1 not in named:
        loads.pop()
    return state._replace(loads=tuple(loads))


def is_goal(setup: PlannedSetup, state: Planned) -> bool:
    """Everything is settled, and no worker has anything to write."""
    quiet = all(one is None or one.at == "idle" for one in (state.now, state.old))
    return state.row.position == setup.bounds.events and not state.row.end and quiet


def show(state: Planned) -> str:
    row = state.row
    planned = f" planned {row.end}" if row.end else ""
    load = f" load {row.load}" if row.load != NONE else ""
    at = ", ".join(f"{number} {one.label} {one.at}" for number, one in enumerate(state.loads) if one != NOTHING)
    said = f"row {row.position}{planned}{load} epoch {row.epoch} counted {row.counted}"
    return f"{said}, sink {state.counts}, loads: {at}"


def run(bounds: PlannedBounds, rules: PlannedRules, passes: frozenset[str] = frozenset()) -> PlannedSpace:
    """Explore; stop at the first violation that is not ignored."""
    setup = PlannedSetup(bounds, rules)

    def verdict(state: Planned) -> str:
        wrong = judged(setup, state)
        return "" if wrong in passes else wrong

    return explore(bounds.name, setup.first_state(), successors(setup), verdict)


def story(space: PlannedSpace, setup: PlannedSetup, number: int) -> str:
    return "\n".join(trace(space, number, successors(setup), show))
