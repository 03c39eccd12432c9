"""Random histories of a job in virtual time, over any pair of a source and a sink, and what has to be true of each.

The oracle is a dictionary: the rows that the test wrote. Whatever fails meanwhile, the target ends equal to it, or the
job stops with a named error before it writes; and no position is registered that the sink does not contain.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.verify.compare import compare, open_pair
from tests.contract.pairs import Pair
from tests.support.virtual import Scene, World

AT_WORKERS = (
    *("after_status", "after_read", "after_recheck", "after_commit", "before_chunk_commit", "after_chunk_commit"),
    *("before_true", "after_true", "before_confirm", "after_confirm"),
)
"""Points of a step, a copy and a registration at which a connection is lost."""
FAULTS = ("lose", "lost", "hangs", "pause", "", "", "")
"""What happens in a turn; "" is nothing. The histories of `make check` draw from these."""
EVERY_FAULT = (*FAULTS, "crash", "slow", "clock")
"""What happens in a turn of a simulation."""
LOADED, KEYS = 25, 40


class Crashed(BaseException):
    """The driver was killed. Its workers know nothing of it."""


class Loses:
    """A probe that drops the connection once at a named point, each time it is armed."""

    def __init__(self) -> None:
        self.at = ""
        self.hits: list[str] = []

    def __call__(self, point: str) -> None:
        if point == self.at:
            self.at = ""
            self.hits.append(point)
            self.strike(point)

    def strike(self, point: str) -> None:
        raise Unreachable("the connection was lost", where="sink")


class Strikes(Loses):
    """The same, or the answer comes late, or the driver is killed: the worker ends with it, or lives on."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.crash = self.lives_on = False
        self.late = 0.0
        self._world = world

    def arm(self, at: str, crash: bool = False, lives_on: bool = False, late: float = 0.0) -> None:
        self.at, self.crash, self.lives_on, self.late = at, crash, lives_on, late

    def strike(self, point: str) -> None:
        if self.crash:
            self._world.kills(Crashed(point))
            if not self.lives_on:
                raise Crashed(point)
        elif self.late:
            self._world.stall(self.late)
        else:
            super().strike(point)


class Workers(LocalRunner):
    """A runner that, once armed, loses its next task with its worker or never ends it. If it `lives_on`, it continues
    the tasks of a driver that has crashed."""

    lost = hangs = lives_on = False
    cancelled = 0

    def submit(self, entry: Callable[[Any], Any], spec: object, group: str) -> Future[Any]:
        if self.lost or self.hangs:
            never = Future[Any]()
            if self.lost:
                never.cancel()
                never.set_running_or_notify_cancel()
            else:
                self.hanging[group] = never
            self.lost = self.hangs = False
            return never
        return super().submit(entry, spec, group)

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.hanging: dict[str, Future[Any]] = {}

    def cancel(self, group: str) -> None:
        if group in self.hanging:
            self.cancelled += 1
            never = self.hanging.pop(group)
            never.cancel()
            never.set_running_or_notify_cancel()
        super().cancel(group)

    def end_hanging(self) -> None:
        """End the tasks that hang as lost ones: the driver waits for a task that has its lane alone."""
        for group in list(self.hanging):
            self.cancel(group)

    def close(self) -> None:
        if not self.lives_on:
            super().close()


@dataclass
class History:
    """A job over a pair, and the expected contents of its source."""

    pair: Pair
    world: World
    chance: random.Random
    faults: Sequence[str] = FAULTS
    rows: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.probe = Strikes(self.world)
        self.workers = Workers(2)
        self.pair.mirror.make_runner = self._runner
        self.pair.write(*((key, key) for key in range(LOADED)))
        self.rows = {key: key for key in range(LOADED)}

    def _runner(self) -> Workers:
        self.workers = Workers(2)
        return self.workers

    def write(self, changes: int) -> None:
        """Write a transaction over few keys, so that a step contains inserts, updates and deletes of the same key."""
        made = list[tuple[int, int | None]]()
        for _ in range(changes):
            key, value = self.chance.randrange(KEYS), self.chance.randrange(1_000)
            if key in self.rows and self.chance.random() < 0.4:
                del self.rows[key]
                made.append((key, None))
            else:
                self.rows[key] = value
                made.append((key, value))
        self.pair.write(*made)

    def equal(self) -> bool:
        channel = self.pair.job.channel
        left, right = self.pair.source_tables(), self.pair.sink_tables()
        try:
            return compare(*open_pair(left.table, channel.source_table, right.table, channel.target)).equal
        finally:
            left.close()
            right.close()

    def registers_nothing_early(self) -> None:
        for row in self.pair.mirror.rows():
            kept = row.registered.furthest if row.registered else None
            assert kept is None or row.position is None or not kept > row.position, row

    def scene(self, turns: int) -> Scene:
        mirror = self.pair.mirror
        yield lambda: mirror.heard.state is LaneState.RUNNING
        for _ in range(turns):
            match self.chance.choice(self.faults):
                case "lose":
                    self.probe.arm(self.chance.choice(AT_WORKERS))
                case "crash":
                    self.workers.lives_on = self.chance.random() < 0.5
                    self.probe.arm(self.chance.choice(AT_WORKERS), crash=True, lives_on=self.workers.lives_on)
                case "slow":
                    self.probe.arm(self.chance.choice(AT_WORKERS), late=self.chance.choice((5, 40, 400)))
                case "clock":
                    self.world.skew += self.chance.choice((-7_200, -60, 60, 7_200))
                case "lost":
                    self.workers.lost = True
                case "hangs":
                    self.workers.hangs = True
                case "pause":
                    mirror.wanted = WantedState.PAUSE
                    self.write(2)
                    yield self.chance.choice((1, 12))
                    mirror.wanted = WantedState.RUN
            self.write(self.chance.randrange(1, 8))
            yield self.chance.choice((0.5, 1, 4, 12))
            self.registers_nothing_early()
        self.probe.at, self.workers.hangs = "", False
        if self.workers.hanging:
            yield 90
            self.workers.end_hanging()
        yield self.equal
        yield 5
        self.registers_nothing_early()

    def run(self, turns: int) -> bool:
        """Run the job until everything is equal, or the driver has crashed; returns whether everything is equal."""
        failed = self.world.fails(self.pair.mirror, self.scene(turns), self.probe, self.probe)
        self.probe.at = ""
        self.registers_nothing_early()
        if isinstance(failed, Crashed):
            return False
        if failed is not None:
            raise failed
        assert self.equal()
        return True
