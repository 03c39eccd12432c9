"""Random histories of a job in virtual time, over every pair of a source and a sink: whatever fails meanwhile, every
change is applied once, in the order of its key, and no position is registered that the sink does not hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.verify.compare import compare, open_pair
from tests.contract.pairs import (
    BY_SLOT,
    BY_STREAM,
    DORIS,
    FIRST,
    HOLOGRES,
    KEEPS,
    MYSQL,
    OF_HOLOGRES,
    SECOND,
    Pair,
    pair,
)
from tests.support.sqlite_pair.sink import ADDS_UP, TOKENS
from tests.support.virtual import Scene, World

__all__ = ["pair"]
AT_WORKERS = (
    *("after_status", "after_read", "after_recheck", "after_commit", "before_chunk_commit", "after_chunk_commit"),
    *("before_true", "after_true", "before_confirm", "after_confirm"),
)
"""Points of a step, a copy and a registration at which a connection is lost."""
LOADED, KEYS = 25, 40


class Loses:
    """A probe that drops the connection once at a named point, each time that it is armed."""

    def __init__(self) -> None:
        self.at = ""
        self.hits: list[str] = []

    def __call__(self, point: str) -> None:
        if point == self.at:
            self.at = ""
            self.hits.append(point)
            raise Unreachable("the connection was lost", where="sink")


class Workers(LocalRunner):
    """A runner that, once armed, loses its next task with its worker or never ends it."""

    lost = hangs = False
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


@dataclass
class History:
    """A job over a pair, and the expected contents of its source."""

    pair: Pair
    world: World
    chance: random.Random
    rows: dict[int, int] = field(default_factory=dict)
    probe: Loses = field(default_factory=Loses)

    def __post_init__(self) -> None:
        self.workers = Workers(2)
        self.pair.mirror.make_runner = self._runner

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
        mirror, ends = self.pair.mirror, ("lose", "lost", "hangs", "pause", "", "", "")
        yield lambda: mirror.heard.state is LaneState.RUNNING
        for _ in range(turns):
            match self.chance.choice(ends):
                case "lose":
                    self.probe.at = self.chance.choice(AT_WORKERS)
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
        self.probe.at = ""
        yield self.equal
        yield 5
        self.registers_nothing_early()

    def run(self, turns: int) -> None:
        self.world.run(self.pair.mirror, self.scene(turns), self.probe, self.probe)


EVERY = (FIRST, SECOND, KEEPS, ADDS_UP, TOKENS, DORIS, HOLOGRES, OF_HOLOGRES, BY_STREAM, BY_SLOT, MYSQL)


@pytest.mark.parametrize("pair", EVERY, indirect=True)
def test_a_random_history_ends_equal(pair: Pair, world: World, seed: int) -> None:
    history = History(pair, world, random.Random(seed))
    pair.write(*((key, key) for key in range(LOADED)))
    history.rows = {key: key for key in range(LOADED)}
    for turns in (3, 2):
        history.run(turns)
        assert history.equal()
        print(world.now, history.probe.hits, history.workers.cancelled)
