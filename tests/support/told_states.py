"""The reported state of each table, compared repeatedly with the state in its progress rows.

Rows precede reports: the report reaches the state of the rows within `WITHIN`, and is never ahead of them. A report
that claims no progress of a table (PENDING, PAUSED, STOPPED, FAILED) is not compared.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.drivers import pg
from tests.support.mirror import Mirror
from tests.support.product import Mirrored

WITHIN = 3.0
"""Seconds after which the report on a table has to reach the state of its rows."""
_FAR = {"creating": 0, "copying": 0, "catching up": 1, "running": 2}
_TOLD = {JobState.SNAPSHOT.value: 0, JobState.CATCHING_UP.value: 1, JobState.RUNNING.value: 2}
_NAMES = ("SNAPSHOT", "CATCHING UP", "RUNNING")
Sample = tuple[Mapping[str, str], Iterable[tuple[str, str]]]
"""The reported state of each table, and after it (table, state) of each progress row."""


@dataclass
class ToldStates:
    """Judges samples; `wrong` has every difference, `samples` the number of compared claims."""

    wrong: list[str] = field(default_factory=list)
    samples: int = 0
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)

    def judge(self, told: Mapping[str, str], rows: Iterable[tuple[str, str]], now: float) -> None:
        """`rows` were read after `told`, so that they are at or beyond it: only a new copy goes back."""
        stored: dict[str, int] = {}
        for table, state in rows:
            stored[table] = min(stored.get(table, 2), _FAR[state])
        for table, far in stored.items():
            if self._seen.get(table, (-1, 0.0))[0] != far:
                self._seen[table] = far, now
            claimed = _TOLD.get(told.get(table, ""))
            if claimed is None:
                self._seen[table] = far, now  # the time counts from the start of a claim
                continue
            self.samples += 1
            lasts = now - self._seen[table][1]
            if claimed > far:
                self.wrong.append(f"{table} is reported {_NAMES[claimed]}, its rows say {_NAMES[far]}")
            elif claimed < far and lasts >= WITHIN:
                self.wrong.append(
                    f"{table} is reported {_NAMES[claimed]}, its rows say {_NAMES[far]} for {lasts:.1f} s"
                )


@contextlib.contextmanager
def watched(sample: Callable[[], Sample | None], every: float) -> Iterator[ToldStates]:
    """Judge samples for the block; a sample that fails because a server restarts is left out."""
    found, done = ToldStates(), threading.Event()

    def watch() -> None:
        while not done.wait(every):
            with contextlib.suppress(pg.DriverError):
                taken = sample()
                if taken is not None:
                    found.judge(*taken, time.monotonic())

    thread = threading.Thread(target=watch, name="told-states", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join(30)


def of_mirror(mirror: Mirror) -> Sample:
    """Watch a job in a thread of the test."""
    told = {table: one.state for table, one in mirror.heard.tables.items()}
    statement = "SELECT source_table, state FROM slotkeeper_progress WHERE slot = %s"
    with closing(mirror.sink()) as sink, sink.cursor() as cursor:
        cursor.execute(statement, (mirror.job.slot,))
        return told, [(str(table), str(state)) for table, state in cursor.fetchall()]


def of_product(job: Mirrored) -> Sample | None:
    """Watch a job of processes by its state store; None while no driver reports, because its last report is then
    old."""
    view = job.view()
    age = None if view.reported_at is None else elapsed(view.reported_at, SystemClock().utc())
    if not view.driver_alive or not view.reported or age is None or age >= WITHIN:
        return None
    several = view.report.tables if view.report else ()
    told = {one.source_table: one.state for one in several}
    statement = "SELECT source_table, state FROM slotkeeper_progress WHERE slot = %s"
    rows = [(str(table), str(state)) for table, state in job.product.at_sink(statement, (job.name,))]
    return told or {table: view.state.value for table, _ in rows}, rows
