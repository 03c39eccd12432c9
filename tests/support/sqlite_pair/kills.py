"""Workers that are killed at random points, for a job of the local runner: they end there, or keep running unnoticed.

A killed worker raises an exception that nothing catches; its outcome is lost. A worker that keeps running has lost
its outcome, too: its driver assigns its lane to another worker, or is itself restarted, while the worker waits at its
point. It continues when a later one is killed, with its pending write.

`Case` is such a job into a SQLite file, with any source, and its required end state.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.core.errors import Busy
from slotkeeper.core.ports.driver import Repeats
from slotkeeper.core.wiring import worker
from tests.support.mirror import Mirror
from tests.support.sqlite_pair import sink
from tests.support.sqlite_pair.sink import Contents, contents, repeats
from tests.support.waiting import until

CALLS = 9
"""A kill is at one of the next calls of any point, at most this many away."""
QUIET = frozenset({"after_status", "after_read", "after_recheck"})
"""Points that an idle worker passes; before a range is prepared they are all equivalent."""

LOCKED = frozenset({"in_commit"})
"""Points at which a worker has the file's lock: a worker that waited there would stop all others, and the next kill."""


class Killed(BaseException):
    """A worker that was killed."""


class Kills:
    """Kills workers of one job; workers call `here` at each point."""

    def __init__(self, chance: random.Random, lives_on: float = 0.3) -> None:
        self.at: Counter[str] = Counter()
        self.lived_on = 0
        self.hit = threading.Event()
        self.lives_on = lives_on
        self.only: frozenset[str] = frozenset()
        """The points of possible kills; all if none is named."""
        self._chance = chance
        self._left = 0
        self._over = False
        self._lock = threading.Lock()
        self._task = threading.local()
        self._standing: list[threading.Event] = []
        self._under_way = 0
        self._all_ended = threading.Condition(self._lock)

    def arm(self, calls: int | None = None) -> None:
        """Kill at one of the next calls, or at the one of this number."""
        with self._lock:
            self.hit.clear()
            self._left = calls or self._chance.randint(1, CALLS)

    def disarm(self) -> None:
        """Stop killing workers, for any caller, and let all waiting workers continue."""
        with self._lock:
            self._over = True
            standing, self._standing = self._standing, []
        for one in standing:
            one.set()

    def wait_for_all(self) -> None:
        with self._all_ended:
            assert self._all_ended.wait_for(lambda: self._under_way == 0, 60), f"{self._under_way} tasks are under way"

    def here(self, point: str) -> None:
        """A worker is at a point: it continues, ends there, or waits until it is released."""
        if point in QUIET or (self.only and point not in self.only):
            return
        stands: threading.Event | None = None
        with self._lock:
            self._left -= 1
            if self._left != 0 or self._over:
                return
            self.at[point] += 1
            others, self._standing = self._standing, []
            if point not in LOCKED and self._chance.random() < self.lives_on:
                stands = threading.Event()
                self._standing.append(stands)
                self.lived_on += 1
        for one in others:
            one.set()
        lost: Callable[[], None] = self._task.lost
        if stands is None:
            self.hit.set()
            raise Killed(point)
        lost()
        self.hit.set()
        stands.wait()

    def runner(self, capacity: int) -> LocalRunner:
        """A runner that treats killed tasks as tasks of a lost worker."""
        return _Loses(self, capacity)

    def begin(self, lost: Callable[[], None]) -> None:
        self._task.lost = lost
        with self._lock:
            self._under_way += 1

    def end(self) -> None:
        with self._all_ended:
            self._under_way -= 1
            self._all_ended.notify_all()


class _Loses(LocalRunner):
    """Loses the outcomes of tasks whose worker is killed."""

    def __init__(self, kills: Kills, capacity: int) -> None:
        super().__init__(capacity)
        self._kills = kills

    def submit(self, entry: Callable[[Any], Any], spec: object, group: str) -> Future[Any]:
        outer: Future[Any] = Future()

        def lost() -> None:
            with suppress(InvalidStateError):
                outer.set_exception(Busy("a worker was lost"))

        def run(task: Any) -> Any:
            self._kills.begin(lost)
            try:
                return entry(task)
            except Killed:
                lost()
                return None
            finally:
                self._kills.end()

        def ended(inner: Future[Any]) -> None:
            with suppress(InvalidStateError):
                error = inner.exception()
                if error is not None:
                    outer.set_exception(error)
                else:
                    outer.set_result(inner.result())

        super().submit(run, spec, group).add_done_callback(ended)
        return outer


LOADED = 60
"""Rows that exist before the job starts."""


class Written(Protocol):
    """A source's table `(id, v)`: its rows, and the number of its events since the job started to replicate it."""

    chance: random.Random
    rows: dict[int, int]

    @property
    def events(self) -> int:
        """Counted by the test itself."""

    def write(self) -> None:
        """A transaction of a few changes."""


@dataclass
class Case:
    """A job into a SQLite file, the table that it reads, and the killer of its workers."""

    mirror: Mirror
    table: Written
    kills: Kills
    file: Path

    def start(self) -> None:
        """Start again, while workers of an earlier start are waiting."""
        self.mirror.start(self.kills.here)

    def kill(self, count: int) -> None:
        for _ in range(count):
            self.kills.arm()
            until(self._hit, 60, "a worker to be killed")

    def _hit(self) -> bool:
        if self.mirror.error is not None:
            raise self.mirror.error
        if not self.kills.hit.is_set():
            self.table.write()
        return self.kills.hit.wait(0.05)

    def end(self) -> tuple[Contents, Repeats]:
        """Let all workers continue until everything is applied and none is under way; the sink's events, the counted
        repeats.

        Of several channels it returns the repeats of the first.
        """
        self.kills.disarm()
        wanted = self.table.events
        until(lambda: self._settled() >= wanted, 60, f"{wanted} events to be settled")
        self.mirror.stop()
        self.kills.wait_for_all()
        assert self._settled() == wanted
        assert [row.decided for row in self.mirror.rows() if row.decided is not None] == []
        print(f"{self.mirror.job.sink_kind}: {sum(self.kills.at.values())} kills, {self.kills.lived_on} lived on")
        print(dict(self.kills.at))
        job = self.mirror.job.of(self.mirror.job.channels[0].source_table)
        with closing(worker.open_progress(job, "test", worker.who(job, "test"))) as store:
            return contents(self.file), store.repeats()

    def _settled(self) -> int:
        if self.mirror.error is not None:
            raise self.mirror.error
        return sum(self.mirror.changes().values())


def refuse_loss(case: Case, found: Contents) -> None:
    """Check that the sink has every event and every row of the copy, and no others."""
    assert len(found.read) == case.table.events
    assert len(found.copied) == LOADED
    assert {int(key or 0): int(v or 0) for key, v in found.rows.values()} == case.table.rows


def refuse_uncounted(found: Contents, counted: Repeats) -> None:
    """Check that each range was written as often as it was decided or counted, except for rows that a kill left out."""
    print(f"{repeats(found.read)} repeats of {len(found.read)} events, {counted.ranges} counted")
    print(f"{sink.unwritten.ranges} rows were left out by kills")
    assert repeats(found.read) == counted.ranges - sink.unwritten.ranges
