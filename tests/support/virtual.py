"""Virtual time: the real driver and its tasks in the test's own thread, with a clock that advances only by waiting.

What the driver gives to its threads and runners waits in a list. When the driver waits for an event, one piece of that
work is done, chosen by the seed; if there is none, the clock moves by the time that the driver would have slept, and
the scene of the test continues. A history of virtual minutes takes milliseconds, and a seed repeats it exactly.

The driver still starts threads of its own for separate tables and long calls; while there are any, each idle wait lasts
a millisecond.
"""

from __future__ import annotations

import concurrent.futures
import queue
import random
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.engine.worker.step import Probe, nothing
from tests.support.mirror import Mirror, no_lingering

Scene = Generator[float | Callable[[], object], None, None]
"""Yields the virtual seconds that it waits, or a condition that it waits for; the job is stopped when it ends."""
LIMIT = 1_800.0
"""Virtual seconds of a history."""
NAP = 0.5
"""Seconds of an idle wait: longer than the driver asks for, as on a busy host, so that a history has fewer turns."""
BEGUN = datetime(2026, 1, 1, tzinfo=timezone.utc)


class World:
    """The clock, the work that waits to be done, and the scene; implements `slotkeeper.core.clock.Clock`."""

    def __init__(self, seed: int) -> None:
        self.now = 1_000.0
        self.skew = 0.0
        """Seconds by which the time of day is wrong."""
        self.chance = random.Random(seed)
        self._work: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._scene: Scene | None = None
        self._awaits: Callable[[], object] = lambda: True
        self._broken: BaseException | None = None
        self._mirror: Mirror | None = None
        self._inside = False
        self._killed: BaseException | None = None
        self._limit = LIMIT

    def stall(self, seconds: float) -> None:
        """Let an answer come late: the time passes without any other work, and does not count for the limit."""
        self.now += seconds
        self._limit += seconds

    def kills(self, error: BaseException) -> None:
        """Make the driver raise this error at its next wait, wherever the caller is."""
        self._killed = error

    def check(self) -> None:
        error, self._killed = self._killed, None
        if error is not None:
            raise error

    def begin(self, seed: float) -> None:
        """Forget what an earlier history has left."""
        self.chance, self.skew = random.Random(seed), 0.0
        with self._lock:
            self._work.clear()

    def monotonic(self) -> float:
        return self.now

    def utc(self) -> datetime:
        return BEGUN + timedelta(seconds=self.now + self.skew)

    def random(self) -> float:
        return self.chance.random()

    def add(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._work.append(work)

    def step(self) -> bool:
        """Execute one waiting work item; returns whether there was one."""
        with self._lock:
            if not self._work:
                return False
            work = self._work.pop(self.chance.randrange(len(self._work)))
            self.now += 0.001
        work()
        return True

    def advance(self, seconds: float) -> None:
        """Advance the clock, and run the scene."""
        if any(thread.name.startswith("slotkeeper-") for thread in threading.enumerate()):
            time.sleep(0.001)
        with self._lock:
            self.now += seconds
            mirror = self._mirror
            if mirror is None or self._inside or threading.current_thread() is not threading.main_thread():
                return
            self._inside = True
            try:
                if self.now > self._limit:
                    raise AssertionError(f"the scene waits for ever: {mirror.heard}, {mirror.error}")
                if self._scene is not None and self._awaits():
                    self._go_on(next(self._scene))
            except StopIteration:
                self._scene, mirror.wanted = None, WantedState.STOP
            except BaseException as error:  # the driver must not treat it as one of its own
                self._broken, self._scene, mirror.wanted = self._broken or error, None, WantedState.STOP
                if self.now > self._limit + 600:
                    raise
            finally:
                self._inside = False

    def _go_on(self, wanted: float | Callable[[], object]) -> None:
        if callable(wanted):
            self._awaits = wanted
        else:
            until = self.now + wanted
            self._awaits = lambda: self.now >= until

    def run(self, mirror: Mirror, scene: Scene, probe: Probe = nothing, driver_probe: Probe = nothing) -> Mirror:
        """Run the job with the scene until it has ended; raises the error of the scene or of the job."""
        failed = self.fails(mirror, scene, probe, driver_probe)
        if failed is not None:
            raise failed
        return mirror

    def fails(
        self, mirror: Mirror, scene: Scene, probe: Probe = nothing, driver_probe: Probe = nothing
    ) -> BaseException | None:
        """Do the same; return the job's error, None if it was stopped."""
        mirror.clock, mirror.waits = self, self.advance
        self._mirror, self._scene, self._awaits, self._broken = mirror, scene, lambda: True, None
        self.now, self._limit, self._killed = 1_000.0, LIMIT, None
        with no_lingering():
            mirror.run_here(probe, driver_probe)
        self._mirror = None
        if self._broken is not None:
            raise self._broken
        return mirror.error


class Inbox(queue.SimpleQueue[Any]):
    """The driver's events: waiting for one with a limit does work, or moves the clock."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if timeout is None:
            return super().get(block)
        self._world.check()
        while self.empty() and self._world.step():
            self._world.check()
        if self.empty():
            self._world.advance(max(timeout, NAP))
        return super().get_nowait()


class Pool:
    """An executor whose work the world runs."""

    def __init__(self, world: World, *_: object) -> None:
        self._world, self._closed = world, False

    def submit(self, call: Callable[..., Any], *arguments: object) -> Future[Any]:
        future = Future[Any]()

        def work() -> None:
            if self._closed or not future.set_running_or_notify_cancel():
                return
            try:
                found = call(*arguments)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(found)

        self._world.add(work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = cancel_futures


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, seed: int) -> Iterator[World]:
    """A world whose clock is the driver's, in this test."""
    made = World(seed)
    print(f"seed {seed}")

    def wait(futures: Any, timeout: float | None = None, return_when: str = "") -> Any:
        while not any(one.done() for one in futures) and made.step():
            pass
        if not any(one.done() for one in futures):
            made.advance(timeout or 0.25)
        return concurrent.futures.wait(futures, 0, return_when)

    for name, module in list(sys.modules.items()):
        if name.startswith("slotkeeper.core.engine"):
            for key, value in list(vars(module).items()):
                if value is concurrent.futures.ThreadPoolExecutor:
                    monkeypatch.setattr(module, key, lambda *given: Pool(made, *given))
                elif value is concurrent.futures.wait:
                    monkeypatch.setattr(module, key, wait)
                elif key == "READ_EVERY":
                    monkeypatch.setattr(module, key, 0.005)
    monkeypatch.setattr(queue, "SimpleQueue", lambda: Inbox(made))
    yield made
