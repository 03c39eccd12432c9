"""The report of a fault on the console at 80x24 and by the judgement behind `status --json`, sample by sample.

A sample is calm if it reports no fault of the job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.fault import Fault
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.state.sqlite import Store
from tests.support.terminal import Terminal

EVERY = 0.2


@dataclass(frozen=True, slots=True)
class Sample:
    """The first lines of the Overview and all faults, at a monotonic time."""

    at: float
    screen: str
    faults: tuple[Fault, ...]

    @property
    def screen_calm(self) -> bool:
        """Whether the Overview's verdict counts no fault."""
        return "No problems" in self.screen

    def told(self, rule: str, words: str) -> bool:
        """Whether both report a fault of that rule, with these words on a screen whose verdict is not calm."""
        return not self.screen_calm and words in self.screen and any(one.rule == rule for one in self.faults)


@dataclass
class Watcher:
    """A console on its own terminal, and the judgement of the same state folder."""

    terminal: Terminal
    store: Store
    config: Path
    samples: list[Sample] = field(default_factory=list)

    def faults(self) -> tuple[Fault, ...]:
        """The output that `status --json` would print now."""
        return judge(gather(self.store, load(self.config, {}), SystemClock().utc()))

    def sample(self) -> Sample:
        until = time.monotonic() + EVERY
        while (left := until - time.monotonic()) > 0:
            self.terminal.read(left)
        made = Sample(time.monotonic(), " ".join(self.terminal.screen.text.split()), self.faults())
        self.samples.append(made)
        return made

    def until(self, condition: Callable[[Sample], bool], seconds: float, what: str) -> Sample:
        """Sample until one meets the condition; returns it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            made = self.sample()
            if condition(made):
                return made
        said = [one.said(SystemClock().utc()) for one in self.samples[-1].faults]
        raise AssertionError(f"not within {seconds:g} s: {what}; judged: {said}; screen:\n{self.terminal.screen.text}")

    def during(self, seconds: float) -> list[Sample]:
        """All samples of the next `seconds` seconds."""
        first, end = len(self.samples), time.monotonic() + seconds
        while time.monotonic() < end:
            self.sample()
        return self.samples[first:]


class Beside:
    """A watcher in a separate thread, for the `with` block, in which causing a fault may take long."""

    def __init__(self, terminal: Terminal, state: Path, config: Path) -> None:
        self.samples: list[Sample] = []
        self._made = (terminal, state, config)
        self._more = threading.Condition()
        self._done = threading.Event()
        self._broke: BaseException | None = None
        self._thread = threading.Thread(target=self._watch, name="beside", daemon=True)

    def __enter__(self) -> Beside:
        self._thread.start()
        self.until(lambda one: True, 30, "a first sample")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(30)

    def _watch(self) -> None:
        terminal, state, config = self._made
        try:
            with Store.open(state) as store:
                watcher = Watcher(terminal, store, config, self.samples)
                while not self._done.is_set():
                    watcher.sample()
                    with self._more:
                        self._more.notify_all()
        except BaseException as error:
            self._broke = error
            with self._more:
                self._more.notify_all()

    def until(self, condition: Callable[[Sample], bool], seconds: float, what: str, since: int = 0) -> Sample:
        """The first sample from number `since` on that meets the condition, waited for."""
        end, asked = time.monotonic() + seconds, since
        with self._more:
            while True:
                new = self.samples[asked:]
                found = next(filter(condition, new), None)
                if found is not None:
                    return found
                asked += len(new)
                if self._broke is not None:
                    raise self._broke
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"not within {seconds:g} s: {what}; {self._last()}")
                self._more.wait(left)

    def during(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.until(lambda one: one.at >= end, seconds + 30, "more samples", len(self.samples))

    def _last(self) -> str:
        if not self.samples:
            return "no sample"
        said = [one.said(SystemClock().utc()) for one in self.samples[-1].faults]
        return f"judged: {said}; screen:\n{self.samples[-1].screen}"
