"""Lines of a running job that break one at a time, what `jobs show` says meanwhile, and what that leaves open."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.proxy import Line
from tests.support.shown import Looking, Shown
from tests.support.storm.wire import Wire

FAULTS = tuple(line for line in Line if line is not Line.THROUGH)
SILENT = (Line.CUT, Line.HALF_OPEN, Line.BLACK_HOLE, Line.RESET, Line.REFUSED)
"""Nothing can be done over such a line: a job that uses it has to say so. Over a slow or a corrupt one it works on."""
SAID_WITHIN = 10.0
FINE = ("RUNNING", "CATCHING UP")
"""States that need no reason. CATCHING UP says by itself what is the matter: the job applies, and is behind."""
EVERY = 1.0


class FaultyLine(Wire):
    """One line of a job. While it is black, no end of a connection passes it either."""

    def __init__(self, name: str, port: int, draw: random.Random) -> None:
        super().__init__(port, draw)
        self.name = name
        self.bad: Bad | None = None
        """The fault that it has now."""

    def _pass_on(self, one: socket.socket, other: socket.socket, sent: bool) -> bool:
        if sent and self.bad is not None:
            self.bad.use()
        on = super()._pass_on(one, other, sent)
        if not on:
            with self._changed:
                self._changed.wait_for(lambda: self._line is not Line.BLACK_HOLE)
        return on

    def become(self, line: Line) -> None:
        """Break it."""
        self.bad = Bad(self.name, line, time.monotonic())
        if line in (Line.CUT, Line.REFUSED) and self.open:
            self.bad.use()
        self.set(line)

    def recover(self, cut: bool) -> Bad:
        """Carry again; the fault that it had."""
        bad, self.bad = self.bad, None
        assert bad is not None
        bad.ended = time.monotonic()
        self.whole(cut)
        return bad


@dataclass
class Bad:
    """A fault of a line: since when, since when the job has noticed or could have, and until when."""

    line: str
    kind: Line
    since: float
    used: float | None = None
    """The first moment at which the job used the line, or lost a connection over it."""
    ended: float = float("inf")

    def use(self) -> None:
        """The job uses the line now."""
        self.used = self.used or time.monotonic()


@dataclass
class Sampler:
    """Asks `jobs show` once a second in a thread of its own, while in its block."""

    config: Path
    job: str
    samples: list[Shown] = field(default_factory=list)

    def __enter__(self) -> Sampler:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join(120)

    def _sample(self) -> None:
        with Looking(self.config, self.job) as looking:
            while not self._done.is_set():
                shown = looking.look()
                self.samples.append(shown)
                self._done.wait(max(0.0, EVERY - (shown.done - shown.at)))


def unexplained(samples: Sequence[Shown], faults: Iterable[Bad]) -> list[str]:
    """Where `jobs show` gave no reason: of a line that was used and silent for longer than `SAID_WITHIN`, or of a
    state that needs one."""
    found = []
    for bad in faults:
        if bad.kind in SILENT and bad.used is not None:
            due = max(bad.since, bad.used) + SAID_WITHIN
            silent = [one for one in samples if due < one.at and one.done < bad.ended and not one.why]
            if silent:
                first, last = silent[0], silent[-1]
                what = f"{first.state} without a reason, {first.at - bad.since:.1f} to {last.at - bad.since:.1f} s"
                found.append(f"{bad.line} {bad.kind.name}: {what} after it broke ({len(silent)} samples)")
    since: float | None = None
    for one in samples:
        if one.state in FINE or one.why:
            since = None
        elif since is None:
            since = one.at
        elif one.at - since > SAID_WITHIN:
            found.append(f"{one.state} without a reason for {one.at - since:.1f} s")
    return found
