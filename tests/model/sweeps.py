"""The model of sweeps: a worker holds small steps of several lanes in memory and commits them in one transaction.

Contents: two lanes, each with a row (position, epoch, lock) and a slot; two workers, the second of the same epoch (the
driver assigned the lanes again) or of a later one; a start that raises both epochs in one transaction; a reset of lane
a; registrations; a transaction that has lost its client. Not included: registrations of an earlier epoch
(`channels.py`), purges between a status and a read (`stream.py`), chunks, the rows of the target.

Reading is one move: a row where its position is not known, the status, a range, the second status. A session that
waits for a locked row has no move until the row is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar

from .space import Space, explore, trace

T = TypeVar("T")
Move = tuple[str, "World"]
At = Literal["begin", "knows", "held", "passed", "alone", "blind", "over"]
Open = Literal["", "sweep", "single"]
Once = Literal["start", "reset", "loss", "rejection", "wipe"]

LANES = "ab"
# Who has locked a row: 0 and 1 are the workers, 2 a transaction that has lost its worker.
FREE, LATE, REGISTRAR, START = -1, 2, 3, 4

LOST = "the row passes an event that the target has not"
TWICE = "an event is applied twice"
LEADS = "the slot leads the row"
AHEAD = "SINK OLDER is named, and the sink is not older"
OVERTAKEN = "a reset finds that the row moved after it raised the epoch"
DEADLOCK = "two sessions wait for each other"


@dataclass(frozen=True, slots=True)
class SweepBounds:
    """One explored space; each of `once` happens at any moment, at most once."""

    name: str
    once: tuple[Once, ...]
    events: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True)
class SweepRules:
    """The rules of sweeps; each switched off is one seeded fault."""

    compares_epoch: bool = True  # a sweep's fence compares the epoch
    compares_position: bool = True  # and the position
    skips_locked: bool = True  # it skips a locked row: it never waits while it holds others
    skipped_goes_alone: bool = True  # a lane whose row was skipped is not committed
    effects_of_passed_only: bool = True  # message 2 has the effects of the lanes that passed, and of no other
    one_transaction: bool = True  # fences and effects
    rollback_of_all: bool = True  # after a rollback no lane is committed
    rejected_compares: bool = True  # a lane of a rejected sweep takes a fence of its own
    reads_after_loss: bool = True  # after a loss nothing is sent again from memory: the next task reads the rows
    second_status: bool = True  # a step is held after its second status only
    reset_raises_epoch: bool = True

    def without(self, *rules: str) -> SweepRules:
        return replace(self, **dict.fromkeys(rules, False))


ALL_SWEEP_RULES = SweepRules()
BEHIND = SweepBounds("a worker left behind", ("loss", "rejection"))
STARTED = SweepBounds("a start", ("start", "loss"))
RESET = SweepBounds("a reset", ("reset", "rejection"), (2, 1))
CUT_OFF = SweepBounds("a reset, a worker is lost", ("reset", "loss"))
WIPED = SweepBounds("a wipe", ("start", "wipe"))
SWEEPS = (BEHIND, STARTED, RESET, CUT_OFF, WIPED)


class Lane(NamedTuple):
    """A progress row and its slot, up to which the source purges; `applied` counts each event in the target."""

    applied: tuple[int, ...]
    position: int = 0
    epoch: int = 1
    lock: int = FREE
    slot: int = 0
    wiped: bool = False


class Work(NamedTuple):
    """A lane in a worker's memory: its position, or a step (after, end]; with a `gap` none of the step's events."""

    at: At = "begin"
    after: int = 0
    end: int = 0
    gap: bool = False


class Worker(NamedTuple):
    """`open` is its transaction."""

    epochs: tuple[int, ...] = (1, 1)
    works: tuple[Work, ...] = (Work(), Work())
    open: Open = ""


class World(NamedTuple):
    """The whole state; `planned` is the position that a reset read, or -1."""

    lanes: tuple[Lane, ...]
    left: tuple[Once, ...]
    workers: tuple[Worker, ...] = (Worker(), Worker((0, 0), (Work("over"), Work("over"))), Worker())
    planned: int = -1
    wrong: str = ""


def swap(those: tuple[T, ...], at: int, new: T) -> tuple[T, ...]:
    return (*those[:at], new, *those[at + 1 :])


def with_lane(world: World, at: int, once: Once | None = None, **changes: Any) -> World:
    left = tuple(other for other in world.left if other != once)
    return world._replace(lanes=swap(world.lanes, at, world.lanes[at]._replace(**changes)), left=left)


def with_work(world: World, who: int, at: int, work: Work, **changes: Any) -> World:
    one = world.workers[who]
    return world._replace(workers=swap(world.workers, who, one._replace(works=swap(one.works, at, work), **changes)))


def ended(world: World, who: int, works: Iterable[Work], once: Once | None = None, locks: int = FREE) -> World:
    """A worker without its transaction, whose locks are released or passed on."""
    for at, lane in enumerate(world.lanes):
        world = with_lane(world, at, once, lock=locks if lane.lock == who else lane.lock)
    worker = Worker(world.workers[who].epochs, tuple(works))
    return world._replace(workers=swap(world.workers, who, worker))


def read_moves(rules: SweepRules, world: World, who: int, at: int) -> Iterator[Move]:
    one, lane = world.workers[who], world.lanes[at]
    work = one.works[at]
    after = lane.position if work.at == "begin" else work.after
    if lane.wiped or (work.at == "begin" and lane.epoch != one.epochs[at]):
        yield "finds another epoch or SLOT LOST", with_work(world, who, at, Work("over"))
    elif lane.slot > after:
        yield "finds the slot beyond its position", with_work(world, who, at, Work())
    else:
        for end in range(after + 1, len(lane.applied) + 1):
            held = Work("held", after, end)
            yield f"reads up to {end}", with_work(world, who, at, held)
            if "wipe" in world.left:
                held = Work("over") if rules.second_status else held._replace(gap=True)
                wiped = with_lane(world, at, "wipe", wiped=True)
                yield f"reads up to {end} while the slot is wiped", with_work(wiped, who, at, held)


def fence(rules: SweepRules, world: World, who: int, at: int) -> World:
    """One lane's part of message 1, or the fence of a lane that goes alone, which has waited for the row."""
    one, lane = world.workers[who], world.lanes[at]
    work = one.works[at]
    if lane.lock != FREE:
        skipped = work._replace(at="alone") if rules.skipped_goes_alone else Work("knows", work.end)
        return with_work(world, who, at, skipped)
    epoch, position = lane.epoch == one.epochs[at], lane.position == work.after
    if work.at == "held":
        hit, kind = (epoch or not rules.compares_epoch) and (position or not rules.compares_position), "sweep"
    elif epoch and (position or work.at == "blind"):
        hit, kind = True, "single"
    else:
        return with_work(world, who, at, Work())
    here = work.end if hit and not rules.one_transaction else lane.position
    step = work._replace(at="passed" if hit else "alone")
    return with_work(with_lane(world, at, lock=who, position=here), who, at, step, open=kind)


def landed(world: World, works: Iterable[Work], others: bool = False) -> World:
    """The rows and the effects of the lanes that passed; by a seeded fault also the effects of others."""
    for at, work in enumerate(works):
        lane = world.lanes[at]
        if work.at == "passed" or (others and work.at == "alone"):
            there = range(work.after + 1, 0 if work.gap else work.end + 1)
            counts = tuple(count + (number in there) for number, count in enumerate(lane.applied, 1))
            world = with_lane(world, at, applied=counts, position=work.end if work.at == "passed" else lane.position)
    return world


def after_rollback(rules: SweepRules, one: Worker, work: Work) -> Work:
    """Each lane of a sweep goes alone; a lane that was alone starts over."""
    if work.at != "passed":
        return work
    if not rules.rollback_of_all:
        return Work("knows", work.end)
    return work._replace(at="alone" if rules.rejected_compares else "blind") if one.open == "sweep" else Work()


def lost(rules: SweepRules, world: World, who: int) -> World:
    """The worker starts over; the server commits what it had open, or not, later."""
    one, step = world.workers[who], rules.one_transaction
    late = Worker(
        works=tuple(work if work.at == "passed" and step else Work() for work in one.works),
        open="sweep" if one.open else "",
    )
    works = [
        work if work.at == "over" else Work() if rules.reads_after_loss or not work.end else work._replace(at="blind")
        for work in one.works
    ]
    world = world._replace(workers=swap(world.workers, LATE, late))
    return ended(world, who, works, "loss", LATE)


def worker_moves(rules: SweepRules, world: World, who: int) -> Iterator[Move]:
    one = world.workers[who]
    held = own_order(world, who)
    alone = [at for at, work in enumerate(one.works) if work.at in ("alone", "blind")]
    if one.open and not held:
        done = landed(world, one.works, one.open == "sweep" and not rules.effects_of_passed_only)
        yield "commits", ended(done, who, [Work("knows", w.end) if w.at == "passed" else w for w in one.works])
        if "rejection" in world.left and any(work.at == "passed" for work in one.works):
            works = [after_rollback(rules, one, work) for work in one.works]
            yield "has a row rejected", ended(world, who, works, "rejection")
    elif alone and not one.open:
        for at in alone:
            if world.lanes[at].lock == FREE:
                yield f"goes alone with {LANES[at]}", fence(rules, world, who, at)
    elif held and rules.skips_locked:
        fenced = world
        for at in held:
            fenced = fence(rules, fenced, who, at)
        yield "sends its fences", fenced
    elif held and world.lanes[held[0]].lock == FREE:
        yield f"locks {LANES[held[0]]}", fence(rules, world, who, held[0])
    if not one.open and not alone:
        for at, work in enumerate(one.works):
            if work.at in ("begin", "knows"):
                yield from ((f"{LANES[at]}: {label}", after) for label, after in read_moves(rules, world, who, at))
    if "loss" in world.left:
        yield "is lost", lost(rules, world, who)


def own_order(world: World, who: int) -> list[int]:
    return [at for at in ((0, 1), (1, 0))[who] if world.workers[who].works[at].at == "held"]


def other_moves(rules: SweepRules, world: World) -> Iterator[Move]:
    """A start, a reset of a, registrations, a late transaction, and lanes for the second worker."""
    a, b = world.lanes
    raised = max(a.epoch, b.epoch) + 1
    if "start" in world.left and a.lock == FREE and world.planned < 0:
        yield "a start locks a", with_lane(world, 0, "start", lock=START)
    if a.lock == START and b.lock == FREE:
        yield "the start raises both", with_lane(with_lane(world, 0, epoch=raised, lock=FREE), 1, epoch=raised)
    if "reset" in world.left and a.lock == FREE and a.position > a.slot and not a.wiped:
        epoch = raised if rules.reset_raises_epoch else a.epoch
        yield "a reset of a raises the epoch", with_lane(world, 0, "reset", epoch=epoch)._replace(planned=a.position)
    if world.planned >= 0 and a.lock == FREE:
        counts = tuple(count if number <= a.slot else 0 for number, count in enumerate(a.applied, 1))
        wrong = "" if a.position == world.planned else OVERTAKEN
        back = with_lane(world, 0, position=a.slot, applied=counts)
        yield "the reset puts the row back", back._replace(planned=-1, wrong=wrong)
    for at, lane in enumerate(world.lanes):
        if lane.lock == REGISTRAR:
            yield f"registers {LANES[at]}", with_lane(world, at, slot=lane.position, lock=FREE)
        elif lane.lock == FREE and lane.position > lane.slot and (at or world.planned < 0):
            yield f"locks {LANES[at]} to register", with_lane(world, at, lock=REGISTRAR)
    late = world.workers[LATE]
    if late.open:
        yield "a late transaction is rolled back", ended(world, LATE, Worker().works)
        yield "a late transaction commits", ended(landed(world, late.works), LATE, Worker().works)
    second, given = world.workers[1], world
    for at, lane in enumerate(world.lanes):
        if second.works[at].at in ("over", "knows") and second.epochs[at] != lane.epoch and not second.open:
            given = with_work(given, 1, at, Work(), epochs=swap(given.workers[1].epochs, at, lane.epoch))
    if world.planned < 0:
        yield "worker 1 is given lanes", given


def judged(world: World) -> str:
    """The violation in a state, if any."""
    for at, lane in enumerate(world.lanes):
        steps = [(one.works[at], one.epochs[at]) for one in world.workers]
        for number, count in enumerate(lane.applied, 1):
            owed = any(work.at == "passed" and work.after < number <= work.end for work, _ in steps)
            if number <= lane.position and not count and not owed:
                return LOST
            if count > 1:
                return TWICE
        if lane.slot > lane.position:
            return LEADS
        if any(work.after > lane.position and epoch == lane.epoch for work, epoch in steps):
            return AHEAD
    wants = {who: world.lanes[at].lock for who in (0, 1) for at in own_order(world, who)[:1] if world.workers[who].open}
    if world.lanes[0].lock == START:
        wants[START] = world.lanes[1].lock
    return DEADLOCK if any(wants.get(other) == who for who, other in wants.items()) else world.wrong


def successors(rules: SweepRules) -> Callable[[World], list[Move]]:
    def moves(world: World) -> list[Move]:
        if world.wrong:
            return []
        found = list(other_moves(rules, world))
        for who in (0, 1):
            found += [(f"worker {who} {label}", after) for label, after in worker_moves(rules, world, who)]
        return [(label, after) for label, after in found if after != world]

    return moves


def is_goal(world: World) -> bool:
    """Every lane has all its events, or its slot was wiped; no session holds a row."""
    ends = (lane.lock == FREE and (lane.wiped or lane.position == len(lane.applied)) for lane in world.lanes)
    return world.planned < 0 and all(ends)


def show(world: World) -> str:
    rows = [f"{LANES[at]} {one.position} epoch {one.epoch} {one.applied}" for at, one in enumerate(world.lanes)]
    works = [" ".join(f"{work.at} {work.after}-{work.end}" for work in one.works) for one in world.workers[:LATE]]
    return "; ".join(rows + works)


def run(bounds: SweepBounds, rules: SweepRules) -> Space[World]:
    lanes = tuple(Lane((0,) * events) for events in bounds.events)
    return explore(bounds.name, World(lanes, bounds.once), successors(rules), judged)


def story(space: Space[World], rules: SweepRules, number: int) -> str:
    return "\n".join(trace(space, number, successors(rules), show))
