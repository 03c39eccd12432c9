"""The model of starts that take over while a stranger's session has the lock of the lease (ADR 31).

Contents: two hosts that start one job again and again, with `--take-over`; a stranger that may take the lease's lock at
any moment and releases it or not; the target's lock, which each of them and a job of another progress schema may have;
sessions that are ended by name, or cannot be; a step and a registration of a driver, each with a moment between its
check and its write. Not included: wipes, fallbacks, lost answers, copies (`stream.py` has them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from .space import Space, explore, trace

Move = tuple[str, "World"]
WorldSpace = Space["World"]
At = Literal["off", "asks", "passed", "holds", "runs", "read", "locked"]

TWICE = "an event is applied twice"
LOST = "the row passes an event that was not applied"
LEADS = "the slot leads the row"
BESIDE = "a start continues beside the job of another progress schema"

NOBODY, STRANGER, OTHER = -1, -2, -3
"""The holder of a lock, if it is neither of the two hosts."""


@dataclass(frozen=True, slots=True)
class TakeOverBounds:
    """One explored space."""

    name: str
    leaves: bool = False
    """The stranger may release the lock, and take it again."""
    other: bool = False
    """A job of another progress schema may take the target, and release it."""
    ends: bool = True
    """Sessions of the other host can be ended; sessions of another login end only by themselves."""
    events: int = 2
    epochs: int = 4


@dataclass(frozen=True, slots=True)
class TakeOverRules:
    """The rules; each switched off is one seeded fault."""

    # A start with --take-over continues while the lease's lock is a stranger's.
    passes_stranger: bool = True
    # Nothing continues without the target's lock.
    keeps_off_target: bool = True
    # The holder of the target's lock for the same rows is ended by a start that passed the lease.
    ends_by_target: bool = True
    # A start raises the epoch.
    raises_epoch: bool = True
    # A step commits under its own epoch, at the position that it read from.
    commit_compares_epoch: bool = True
    commit_compares_position: bool = True
    # The source is confirmed under the row's lock, with the epoch checked, at the row's position at that time.
    registers_under_lock: bool = True

    def without(self, *rules: str) -> TakeOverRules:
        return replace(self, **dict.fromkeys(rules, False))


ALL_TAKE_OVER_RULES = TakeOverRules()
FOR_EVER = TakeOverBounds("a stranger for ever")
COMES_AND_GOES = TakeOverBounds("a stranger comes and goes", leaves=True, epochs=3)
ANOTHER_SCHEMA = TakeOverBounds("another schema's job", other=True, epochs=3)
NOT_ENDED = TakeOverBounds("sessions that cannot be ended", leaves=True, ends=False, epochs=3)
TAKE_OVERS = (FOR_EVER, COMES_AND_GOES, ANOTHER_SCHEMA, NOT_ENDED)


class Driver(NamedTuple):
    """One host's start: its progress, its epoch, and the state that its step has read."""

    at: At = "off"
    epoch: int = 0
    after: int = 0
    end: int = 0


class World(NamedTuple):
    """The whole state; `lease` and `target` name the lock holders."""

    counts: tuple[int, ...]
    drivers: tuple[Driver, Driver] = (Driver(), Driver())
    lease: int = NOBODY
    target: int = NOBODY
    epoch: int = 1
    position: int = 0
    committed: int = 1
    registered: int = 0
    beside: bool = False


@dataclass(frozen=True, slots=True)
class TakeOverSetup:
    bounds: TakeOverBounds
    rules: TakeOverRules

    def first_state(self) -> World:
        return World((0,) * self.bounds.events)


def put(world: World, host: int, driver: Driver) -> World:
    drivers = list(world.drivers)
    drivers[host] = driver
    return world._replace(drivers=(drivers[0], drivers[1]))


def freed(world: World, host: int) -> World:
    """The session with the locks of a host has ended: the driver does not know it yet."""
    lease = NOBODY if world.lease == host else world.lease
    return world._replace(lease=lease, target=NOBODY if world.target == host else world.target)


# -- a start --------------------------------------------------------------------------------------------------------


def start_moves(setup: TakeOverSetup, world: World, host: int, driver: Driver) -> Iterator[Move]:
    rules, other = setup.rules, 1 - host
    if driver.at == "off":
        yield "starts", put(world, host, Driver("asks"))
    elif driver.at == "asks":
        if world.lease in (NOBODY, host):
            yield "takes the lease", put(world, host, driver._replace(at="passed"))._replace(lease=host)
        elif world.lease == other and setup.bounds.ends:
            yield "ends the other's session", freed(world, other)
        elif world.lease == STRANGER and rules.passes_stranger:
            yield "passes the stranger's lock", put(world, host, driver._replace(at="passed"))
        yield "is refused", freed(put(world, host, Driver()), host)
    elif driver.at == "passed":
        yield from target_moves(setup, world, host, driver)
    elif driver.at == "holds" and world.epoch < setup.bounds.epochs:
        epoch = world.epoch + 1 if rules.raises_epoch else world.epoch
        yield f"raises the epoch to {epoch}", put(world, host, Driver("runs", epoch))._replace(epoch=epoch)


def target_moves(setup: TakeOverSetup, world: World, host: int, driver: Driver) -> Iterator[Move]:
    """The target's lock: nothing continues without it."""
    rules, other = setup.rules, 1 - host
    onward = put(world, host, driver._replace(at="holds"))
    if world.target in (NOBODY, host):
        yield "takes the target", onward._replace(target=host)
    elif not rules.keeps_off_target:
        yield "continues without the target", onward._replace(beside=world.target == OTHER)
    elif world.target == other and rules.ends_by_target and setup.bounds.ends:
        yield "ends who has the target for the same rows", freed(world, other)
    yield "is refused the target", freed(put(world, host, Driver()), host)


# -- a running driver -----------------------------------------------------------------------------------------------


def driver_moves(setup: TakeOverSetup, world: World, host: int, driver: Driver) -> Iterator[Move]:
    rules = setup.rules
    ours = world.epoch == driver.epoch or not rules.commit_compares_epoch
    if driver.at == "runs":
        if world.epoch != driver.epoch and rules.commit_compares_epoch:
            yield "finds that it is superseded", freed(put(world, host, Driver()), host)
            return
        if world.committed > world.position:
            read = driver._replace(at="read", after=world.position, end=world.committed)
            yield f"reads up to {world.committed}", put(world, host, read)
        if world.position > world.registered:
            yield "locks the row to register", put(world, host, driver._replace(at="locked", end=world.position))
        if world.target == NOBODY:
            yield "takes the target again", world._replace(target=host)
    elif driver.at == "read":
        onward = driver._replace(at="runs", after=0, end=0)
        there = world.position == driver.after or not rules.commit_compares_position
        if ours and there:
            counts = tuple(
                count + (driver.after < number <= driver.end) for number, count in enumerate(world.counts, start=1)
            )
            yield f"commits up to {driver.end}", put(world, host, onward)._replace(counts=counts, position=driver.end)
        else:
            yield "commits nothing", put(world, host, onward)
    elif driver.at == "locked":
        # one move if the row is locked: no agent raises the epoch or falls behind in between
        onward = driver._replace(at="runs", end=0)
        reached = world.position if rules.registers_under_lock else world.committed
        if ours or not rules.registers_under_lock:
            told = max(world.registered, reached)
            yield f"registers {told}", put(world, host, onward)._replace(registered=told)
        else:
            yield "registers nothing", put(world, host, onward)
    yield "is killed", freed(put(world, host, Driver()), host)


# -- the world ------------------------------------------------------------------------------------------------------


def world_moves(setup: TakeOverSetup, world: World) -> Iterator[Move]:
    bounds = setup.bounds
    if world.committed < bounds.events:
        yield f"source: {world.committed + 1} commits", world._replace(committed=world.committed + 1)
    if world.lease == NOBODY:
        yield "stranger: takes the lock", world._replace(lease=STRANGER)
    if world.lease == STRANGER and bounds.leaves:
        yield "stranger: gives it up", world._replace(lease=NOBODY)
    if bounds.other and world.target == NOBODY:
        yield "other schema: takes the target", world._replace(target=OTHER)
    if world.target == OTHER:
        yield "other schema: gives it up", world._replace(target=NOBODY)


def successors(setup: TakeOverSetup) -> Callable[[World], list[Move]]:
    def moves(world: World) -> list[Move]:
        found = list(world_moves(setup, world))
        for host, driver in enumerate(world.drivers):
            begun = driver.at in ("runs", "read", "locked")
            acts = driver_moves if begun else start_moves
            found += [(f"host {host}: {label}", after) for label, after in acts(setup, world, host, driver)]
        return [(label, after) for label, after in found if after != world]

    return moves


def judged(world: World) -> str:
    """The violation in a state, if any."""
    if max(world.counts) > 1:
        return TWICE
    if 0 in world.counts[: world.position]:
        return LOST
    if world.registered > world.position:
        return LEADS
    return BESIDE if world.beside else ""


def is_goal(setup: TakeOverSetup, world: World) -> bool:
    """Everything is applied and confirmed at the source."""
    return world.position == world.registered == setup.bounds.events


def has_epochs(setup: TakeOverSetup, world: World) -> bool:
    """Whether a further start is within the bounds: beyond them no start can be required to finish."""
    return world.epoch < setup.bounds.epochs


def show(world: World) -> str:
    who = {NOBODY: "no session", STRANGER: "the stranger", OTHER: "another schema's job"}
    lease, target = (who.get(one, f"host {one}") for one in (world.lease, world.target))
    hosts = ", ".join(f"{one.at} {one.epoch}" for one in world.drivers)
    row = f"row {world.position} epoch {world.epoch}, sink {world.counts}, slot {world.registered}"
    return f"lease {lease}, target {target}; {hosts}; {row}"


def run(bounds: TakeOverBounds, rules: TakeOverRules) -> WorldSpace:
    return explore(
        bounds.name, TakeOverSetup(bounds, rules).first_state(), successors(TakeOverSetup(bounds, rules)), judged
    )


def story(space: WorldSpace, setup: TakeOverSetup, number: int) -> str:
    return "\n".join(trace(space, number, successors(setup), show))
