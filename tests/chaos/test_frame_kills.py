"""Thirty kills of a Spark query that streams a changelog into files: each change is there once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from slotkeeper.demo import ledger
from slotkeeper.demo.warehouse import Warehouse
from tests.support.frame_session import files_of, rows_of
from tests.support.frames import JOB, configured, slot_places
from tests.support.mirror import MakeMirror, Mirror, orders, writers
from tests.support.waiting import until

pytestmark = pytest.mark.chaos
KILLS = 30
ROOT = Path(__file__).parents[2]


class Driver:
    """A driver in its own session, and the processes of it that may be killed."""

    def __init__(self, config: Path, folder: Path) -> None:
        self.checkpoint, self.out, self.folder = folder / "ck", folder / "out", folder
        self.config = config
        self.lives = 0
        self.begin()

    def begin(self) -> None:
        self.lives += 1
        self.log = self.folder / f"driver{self.lives}.log"
        words = [self.config, JOB, self.checkpoint, self.out, self.folder / f"spark{self.lives}"]
        program = [sys.executable, "-m", "tests.support.frame_session", *map(str, words)]
        with self.log.open("wb") as log:
            self.started = subprocess.Popen(program, stdout=log, stderr=log, cwd=ROOT, start_new_session=True)

    def pythons(self) -> list[psutil.Process]:
        """The Python processes below its JVM: the source's own, and those of tasks."""
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.started.pid).children(recursive=True)
            return [one for one in below if "python" in one.name()]
        return []

    def kill_all(self) -> None:
        below = psutil.Process(self.started.pid).children(recursive=True)
        os.killpg(self.started.pid, signal.SIGKILL)
        for one in below:  # Python processes of tasks have a separate group
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self.started.wait()
        psutil.wait_procs(below, 10)

    def committed(self) -> int:
        commits = self.checkpoint / "commits"
        return max((int(one.name) for one in commits.glob("[0-9]*")), default=-1) if commits.is_dir() else -1

    def wait_committed(self, batch: int, what: str) -> None:
        """Wait until a batch is in the commit log; print the driver's output if it takes too long."""
        try:
            until(lambda: self.committed() >= batch, 200, what)
        except AssertionError as late:
            raise AssertionError(f"{late}; {self.said()}") from late

    def said(self) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-8:])


@pytest.fixture
def mirror(make_mirror: MakeMirror, warehouse: Warehouse, seed: int) -> Mirror:
    return orders(make_mirror, warehouse, seed)


@pytest.fixture
def driver(mirror: Mirror, tmp_path: Path) -> Iterator[Driver]:
    made = Driver(configured(mirror, tmp_path), tmp_path)
    yield made
    if made.started.poll() is None:
        made.kill_all()


@pytest.mark.timeout(3000)
def test_thirty_kills_lose_and_double_nothing(mirror: Mirror, driver: Driver, seed: int) -> None:
    chance = random.Random(seed)
    until(lambda: slot_places(mirror), 120, "the slot to be made")
    work = writers(mirror, seed, rate=60)
    work.start()
    try:
        for number in range(KILLS):
            driver.wait_committed(driver.committed() + 1 + chance.randrange(3), f"batches after kill {number}")
            found = driver.pythons()
            if number % 5 == 4 or not found:
                driver.kill_all()
                driver.begin()
            else:
                with suppress(psutil.NoSuchProcess):
                    chance.choice(found).kill()
    finally:
        work.stop()
    with closing(mirror.warehouse.connect()) as connection:
        booked = {dn: events.total for dn, events in ledger.ledger_totals(connection).items()}

    def counted() -> dict[str, int]:
        return dict(
            Counter(row["slotkeeper_dn"] for row in rows_of(*files_of(driver.out)) if row["slotkeeper_change"] != "S")
        )

    until(lambda: sum(counted().values()) >= sum(booked.values()), 200, f"all changes: {driver.said()}")
    assert counted() == booked
    places = [
        (row["slotkeeper_dn"], row["slotkeeper_point"], row["slotkeeper_sequence"])
        for row in rows_of(*files_of(driver.out))
        if row["slotkeeper_change"] != "S"
    ]
    assert len(places) == len(set(places))

    def at_end() -> bool:
        newest = (driver.checkpoint / "offsets" / str(driver.committed())).read_text().splitlines()[-1]
        ends = {name: {int(text.split("/")[0])} for name, text in json.loads(newest)["positions"].items()}
        return slot_places(mirror) == ends

    until(at_end, 60, "the slot to be at the end of the commit log")
    print(f"{KILLS} kills, {driver.lives} drivers, {driver.committed() + 1} batches, {sum(booked.values())} changes")
