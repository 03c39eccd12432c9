"""A job into a SQLite file whose workers are killed, whatever it reads: what it must have in the end."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slotkeeper.core.ports.driver import Repeats
from slotkeeper.core.wiring import worker
from tests.support.mirror import Mirror
from tests.support.sqlite_pair import sink
from tests.support.sqlite_pair.kills import Kills
from tests.support.sqlite_pair.sink import Contents, contents, repeats
from tests.support.waiting import until

LOADED = 60
"""Rows that are there before the job begins."""


class Written(Protocol):
    """A source's table `(id, v)`: its rows, and the number of its events since the job follows it."""

    chance: random.Random
    rows: dict[int, int]

    @property
    def events(self) -> int:
        """By our own account."""

    def write(self) -> None:
        """A transaction of a few changes."""


@dataclass
class Case:
    """A job into a SQLite file, the table that it reads, and who kills its workers."""

    mirror: Mirror
    table: Written
    kills: Kills
    file: Path

    def start(self) -> None:
        """Another start, whoever of an earlier one still stands."""
        self.mirror.start(self.kills.here)

    def kill(self, count: int) -> None:
        """So many kills, each while changes come."""
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
        """Let all go on until everything is applied and nobody is under way; what the sink has, what is counted.

        Of several channels the first one's repeats are told.
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
    """Every event is there, every row of the copy is, and nothing else is."""
    assert len(found.read) == case.table.events
    assert len(found.copied) == LOADED
    assert {int(key or 0): int(v or 0) for key, v in found.rows.values()} == case.table.rows


def refuse_uncounted(found: Contents, counted: Repeats) -> None:
    """What was decided or counted was written as often, but for what a kill left out of it."""
    print(f"{repeats(found.read)} repeats of {len(found.read)} events, {counted.ranges} counted")
    print(f"{sink.unwritten.ranges} rows were left out by kills")
    assert repeats(found.read) == counted.ranges - sink.unwritten.ranges
