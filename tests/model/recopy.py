"""The model of a table that is copied again while it streams (ADR 98), and its oracle.

Contents: a source with visible rows and a log, where a commit is in the log before it is visible; a target with the
lane's row (position, epoch) and the chunks; workers that read steps or chunks and can stall at each move (zombies); a
start that raises the epoch. A worker is a generator: each `yield` is a moment at which any other actor moves, and at
which the worker can stall or be killed. Not included: bad rows, changes of columns, several lanes, resets (the position
alone fences a worker of an earlier epoch, as for any step).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

KEYS = range(6)
CHUNKS = (range(2), range(2, 4), range(4, 6))
Rows = dict[int, int]

LOST = "a range that was copied again differs from the source at the lane's position"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a copy during the stream; each switched off is one seeded fault."""

    waits_for_visible: bool = True  # the chunk is read once all changes up to the position are visible
    reads_to_high: bool = True  # the step of the chunk contains all changes up to a position read after the chunk
    newer_wins: bool = True  # the changes take effect over the chunk's rows
    deletes_rest: bool = True  # target rows of the range that the chunk does not contain are deleted
    compares_position: bool = True  # the transaction moves the row from exactly the position that was read
    one_transaction: bool = True  # the chunk is marked in the transaction that writes its rows


@dataclass
class World:
    """The source, the target, and the workers."""

    random: Random
    rules: Rules
    log: list[tuple[int, int | None]] = field(default_factory=list)
    """Changes (key, value or None), a position each: the first has position 1."""
    visible: int = 0
    """The position up to which changes are visible to readers of the table."""
    first: Rows = field(default_factory=dict)
    target: Rows = field(default_factory=dict)
    position: int = 0
    epoch: int = 1
    left: set[int] = field(default_factory=lambda: set(range(len(CHUNKS))))
    workers: list[Iterator[None]] = field(default_factory=list)
    broken: str = ""

    def at(self, position: int) -> Rows:
        """Return the source's rows at a position."""
        rows = dict(self.first)
        for key, value in self.log[:position]:
            put(rows, key, value)
        return rows

    def check(self) -> None:
        """Compare the ranges that were copied again with the source at the lane's position."""
        true = self.at(self.position)
        for number, keys in enumerate(CHUNKS):
            if number not in self.left and any(true.get(key) != self.target.get(key) for key in keys):
                self.broken = LOST


def put(rows: Rows, key: int, value: int | None) -> None:
    """Apply one change."""
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value


def commit(world: World, epoch: int, after: int, new: int) -> bool:
    """Move the lane's row, if it is as the worker read it."""
    if epoch != world.epoch or (world.rules.compares_position and after != world.position):
        return False
    world.position = new
    return True


def plain_step(world: World, epoch: int) -> Iterator[None]:
    """A step without a chunk."""
    after, end = world.position, len(world.log)
    yield
    if commit(world, epoch, after, end):
        for key, value in world.log[after:end]:
            put(world.target, key, value)


def chunk_step(world: World, epoch: int) -> Iterator[None]:
    """A step that copies a chunk again."""
    rules, after, number = world.rules, world.position, min(world.left, default=-1)
    if number < 0:
        return
    yield
    if rules.waits_for_visible and world.visible < after:
        return
    rows = {key: value for key, value in world.at(world.visible).items() if key in CHUNKS[number]}
    yield
    high = len(world.log) if rules.reads_to_high else after
    yield
    changes = world.log[after:high]
    yield
    gone = {key for key in world.target if key in CHUNKS[number] and key not in rows}
    yield
    if number not in world.left or not commit(world, epoch, after, high):
        return
    if not rules.one_transaction:
        world.left.discard(number)
        yield
    if rules.deletes_rest:
        for key in gone:
            world.target.pop(key, None)
    if rules.newer_wins:
        world.target.update(rows)
    for key, value in changes:
        put(world.target, key, value)
    if not rules.newer_wins:
        world.target.update(rows)
    world.left.discard(number)


def run(seed: int, rules: Rules, moves: int = 160) -> World:
    """Run random moves, then a last driver until all is applied; the oracle checks after each move."""
    random = Random(seed)
    world = World(random, rules)
    for key in KEYS:
        if random.random() < 0.6:
            world.first[key] = random.randrange(100)
        if random.random() < 0.6:
            world.target[key] = random.randrange(100)  # the damage: rows that differ, are missing, or should not exist
    for n in range(moves):
        kind = random.choices(("write", "show", "move", "worker", "kill", "start"), (4, 4, 14, 3, 1, 0.3))[0]
        if kind == "write":
            world.log.append((random.choice(KEYS), None if random.random() < 0.3 else 100 + n))
        elif kind == "show":
            world.visible = min(world.visible + 1, len(world.log))
        elif kind == "start":
            world.epoch += 1
        elif kind == "worker":
            chunk = world.left and random.random() < 0.7
            world.workers.append((chunk_step if chunk else plain_step)(world, world.epoch))
        elif world.workers:
            worker = random.choice(world.workers)
            if kind == "kill" or next(worker, "over") == "over":
                world.workers.remove(worker)
        world.check()
        if world.broken:
            return world
    world.visible, world.epoch = len(world.log), world.epoch + 1
    while world.left or world.position < len(world.log):
        before = world.position, len(world.left)
        for step in ([chunk_step] if world.left else []) + [plain_step]:
            list(step(world, world.epoch))
            world.check()
        if world.broken or before == (world.position, len(world.left)):
            break
    if not world.broken and (world.target != world.at(len(world.log)) or world.left):
        world.broken = LOST
    return world
