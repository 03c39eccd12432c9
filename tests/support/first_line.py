"""Compares the first fault of the judgement every second with the written expectations; carries out its actions.

A sample is the output that `status --json` would print then: gathered and judged in this process, because a command a
second costs more than the watched job. `Tally` counts; `Doer` carries out the first fault's action until no fault is
left.
"""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.fault import Fault
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.drivers import pg
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.incidents.record import World
from tests.support.culprits import Culprit, borrowed
from tests.support.hands import SHELL, Hands, Typed

EVERY, SOON = 1.0, 10.0
SETTLES = 5.0
"""Seconds after the start of a fault from which on it has to be named."""


@dataclass(frozen=True, slots=True)
class Sample:
    """At a monotonic moment: all faults, the first before the others, and whether the job's driver runs and reports."""

    at: float
    faults: tuple[Fault, ...]
    runs: bool

    @property
    def first(self) -> str:
        """The first fault, in one line."""
        return said(self.faults[0]) if self.faults else "(no fault)"


def said(one: Fault) -> str:
    """A fault without its duration."""
    return f"[{one.rule} {one.code} {one.severity.value}] {one.name}: {one.cause}"


def sampled(store: Store, config: Path) -> Sample:
    """One sample, now."""
    facts = gather(store, load(config, {}), SystemClock().utc())
    running = [one.view for one in facts.jobs if one.view.state is JobState.RUNNING]
    runs = any(one.reported and one.driver_alive for one in running)
    return Sample(time.monotonic(), judge(facts), runs)


class Sampling:
    """Samples once a second in a separate thread, for the `with` block."""

    def __init__(self, world: World) -> None:
        self.samples: list[Sample] = []
        self._world = world
        self._done = threading.Event()
        self._broke: BaseException | None = None
        self._thread = threading.Thread(target=self._sample, name="sampling", daemon=True)

    def __enter__(self) -> Sampling:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(30)
        if self._broke is not None and error is None:
            raise self._broke

    def _sample(self) -> None:
        try:
            with Store.open(self._world.state) as store:
                while not self._done.wait(EVERY):
                    self.samples.append(sampled(store, self._world.config))
        except BaseException as error:
            self._broke = error

    def until(self, condition: Callable[[Sample], bool], seconds: float, since: int = 0) -> Sample | None:
        """The first sample from number `since` on that meets the condition; None if no sample does in that time."""
        end = time.monotonic() + seconds
        while True:
            found = next((one for one in self.samples[since:] if condition(one)), None)
            if found is not None or time.monotonic() > end or self._broke is not None:
                return found
            self._done.wait(0.1)

    def agrees(self) -> bool:
        """Whether the command reports the same first fault as this process, queried between two equal samples."""
        for _ in range(5):
            before = self.until(lambda one: True, 30, len(self.samples))
            answer = json.loads(self._world.run(("status", "--json")).text)["faults"]
            after = self.until(lambda one: True, 30, len(self.samples))
            if before is not None and after is not None and _same(before) == _same(after):
                return [(one["rule"], one["party"], one["do"]) for one in answer] == _same(before)
        return False


def _same(sample: Sample) -> list[tuple[str, str, str]]:
    return [(one.rule, one.party.value, one.do) for one in sample.faults]


@dataclass(slots=True)
class Tally:
    """The samples of a scene: their number, those that name the culprit, those that name none; and wrong actions."""

    samples: int = 0
    named: int = 0
    calm: int = 0
    wrong: dict[str, int] = field(default_factory=dict)
    """First lines that name another fault or a past one, with their counts."""
    acts: dict[str, None] = field(default_factory=dict)
    """Actions that do not belong to their faults, each once."""

    def count(self, samples: Iterable[Sample], expected: Sequence[Culprit]) -> None:
        """Count samples in which these are wrong; the fault to be named first comes first."""
        for sample in samples:
            present = [one for one in expected if not (one.passes and sample.runs)]
            if present or sample.faults:
                self._count(sample, present)

    def _count(self, sample: Sample, present: Sequence[Culprit]) -> None:
        self.samples += 1
        self.calm += not sample.faults
        if sample.faults and present and present[0].is_of(sample.faults[0]):
            self.named += 1
        else:
            self.wrong[sample.first] = self.wrong.get(sample.first, 0) + 1
        for fault in sample.faults:
            owner = next((one for one in present if one.is_of(fault)), None)
            why = borrowed(fault) or ("" if owner is None or owner.has_act(fault) else "not its own act")
            if why:
                self.acts[f"{why}: {said(fault)} -> {fault.do or '(none)'}"] = None


def _is_another(before: Fault, sample: Sample) -> bool:
    return not sample.faults or (sample.faults[0].key, sample.faults[0].do) != (before.key, before.do)


def _calm(sample: Sample) -> bool:
    return not sample.faults and sample.runs


@dataclass
class Doer(Hands):
    """Carries out the actions of the judgement's first fault; `colleague` does the manual ones."""

    world: World
    sampling: Sampling
    hidden: Callable[[str], bool] = lambda words: False
    """Called with the output of a rejected command, for faults that are not reported for a job that has ended; returns
    whether it acted.
    """
    left: str = ""
    """The first line of the fault that the actions did not end."""
    refused: Typed | None = None
    """The command by which the last action ended without being carried out."""

    def run(self, text: str, where: str) -> Typed:
        """Runs commands in this process, as a person would in a shell, and statements in a session of the server's
        administrator.
        """
        if where == SHELL:
            args = shlex.split(text)[1:]  # the wait for effects of a scene's other fault is shorter
            limit = ("--wait", "20s") if args[:2] == ["jobs", "drain"] else ()
            answer = self.world.run((*args, *limit))
            return Typed(where, text, answer.code, answer.text)
        try:
            (self.world.at_sink if where == "sink" else self.world.at_source)(text)
        except pg.DriverError as error:
            return Typed(where, text, 1, str(error))
        return Typed(where, text, 0, "")

    def until_calm(self, rounds: int = 8, still: float = 60.0) -> None:
        """Carry out the first fault's action until no fault is left, or one stays that was acted on before.

        If a command was refused and the same fault is first afterwards, the next fault is the reason of the refusal.
        """
        began, place = time.monotonic(), 0
        for _ in range(rounds):
            fault = self.do_first(place)
            if fault is None:
                break
            place, refused = 0, self.refused
            if self._until(partial(_is_another, fault), still if refused is None else SOON) is not None:
                continue
            if refused is None:
                break
            if self.hidden(refused.said):
                self.walk.manual_acts.append(refused.said.strip())
            else:
                place = 1
        last = self._until(_calm, still)
        if last is None and not self.sampling.samples[-1].faults and self.hidden(""):  # a copy that is only slow
            last = self._until(_calm, 2 * still)
        self.walk.seconds = time.monotonic() - began
        said = "" if self.refused is None else f" ({self.refused.text}: {self.refused.code}: {self.refused.said})"
        self.left = "" if last is not None else f"{self.sampling.samples[-1].first}{said}"

    def do_first(self, place: int = 0) -> Fault | None:
        """Carry out the action of the first fault, or of one after it, and return that fault; None if none is left.

        A job that was just started has reported nothing yet: the remaining faults appear a little later.
        """
        now = self._until(lambda one: bool(one.faults), SOON)
        if now is None:
            return None
        fault, typed = now.faults[min(place, len(now.faults) - 1)], len(self.walk.typed)
        self.walk.read.append(fault.do)
        self.do(fault.do)
        last = self.walk.typed[-1] if len(self.walk.typed) > typed else None
        self.refused = last if last is not None and last.code not in (0, 4) else None
        return fault

    def _until(self, condition: Callable[[Sample], bool], seconds: float) -> Sample | None:
        return self.sampling.until(condition, seconds, len(self.sampling.samples))
