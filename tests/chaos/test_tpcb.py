"""TPC-B through one job of four channels while its processes and sessions are killed: equal tables, equal sums.

pgbench writes 300 transactions a second on five branches (100,000 accounts) by six clients for a minute, or until each
thing was killed once; each is an update of three tables and a row of history. Compared are the tables by a checksum of
their own (`tests.support.tpcb`, nothing of `verify`) and the four sums, which TPC-B keeps equal among themselves.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.reset import DONE, Check, Goal, TargetKind
from slotkeeper.core.drivers import pg
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.services.reset import reset_context
from slotkeeper.core.slots import reset_apply, reset_plan
from slotkeeper.core.slots.reset_apply import ResetOrder
from slotkeeper.core.state import steering
from slotkeeper.core.wiring.worker import session_name
from tests.support.mirrored import RECOVERY, Mirrored
from tests.support.product import Product
from tests.support.report import Page
from tests.support.tpcb import Load, Tpcb
from tests.support.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(1_800)]
Kind = Literal["driver", "jvm", "supervisor", "source sessions", "sink sessions"]
KINDS: tuple[Kind, ...] = ("driver", "jvm", "supervisor", "source sessions", "sink sessions")
SECONDS = 60.0
BETWEEN = 150
"""Rows of history that the job brings to the sink between two kills, at least: half a second's writing."""


@pytest.fixture
def product(tmp_path: Path, seed: int) -> Iterator[Product]:
    made = Product(tmp_path / "p", rows=20, seed=seed, chunk=10_000)
    yield made
    made.close()


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(
        "tpcb",
        "TPC-B beside kills, on Spark",
        "pgbench, five branches, 100,000 accounts, six clients, 300 transactions a second for a minute, or until each"
        " thing was killed once; one job of four channels, history with a key. Begun during the copy or after it;"
        " then kills, one after another, and no command. Seconds behind: from the last commit until all is applied.",
        ("begun", "seed", "transactions", "a second", "kills", "seconds behind", "tables equal", "sums equal"),
    )


@dataclass
class Killer:
    """Kills one thing after another, each once before any comes again, and waits in between for the job to move on."""

    bench: Tpcb
    draw: random.Random
    killed: list[Kind] = field(default_factory=list)
    left: list[Kind] = field(default_factory=list)

    def turn(self) -> None:
        """One kill, and the wait until rows arrive again."""
        # a second driver's end within minutes would only show the supervisor's hold of a crash loop
        again: tuple[Kind, ...] = ("source sessions", "sink sessions", "supervisor")
        if not self.left:
            self.left = self.draw.sample(KINDS, len(KINDS)) if not self.killed else self.draw.sample(again, 3)
        kind = self.left.pop()
        before = self.bench.job.view().driver
        self._kill(kind)
        self.killed.append(kind)
        if kind in ("driver", "jvm"):
            # what it leaves behind still writes: a kill of the supervisor before its end would leave nobody
            self.wait(lambda: self._another(before), f"another driver after the end of: {kind}")
        arrived, began = self.arrived(), time.monotonic()
        self.wait(lambda: self.arrived() >= arrived + BETWEEN, f"rows to arrive after the end of: {kind}")
        print(f"{kind}: rows arrive again after {time.monotonic() - began:.1f} s", flush=True)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, and tell the job's story where that takes too long."""
        job = self.bench.job
        try:
            until(condition, 2 * RECOVERY, what)
        except AssertionError as late:
            view = job.view()
            reported = view.report.lanes if view.report is not None else ()
            lanes = [(one.name, one.activity, one.position, one.latest, one.retry) for one in reported]
            story = f"{view.state.value} ({view.reason}); {job.events()[-12:]}; {lanes}; {job.log()[-2000:]}"
            raise AssertionError(f"{late}; {story}") from None

    def arrived(self) -> int:
        """Rows of history at the sink."""
        self.bench.job.refuse_end()
        return int(self.bench.product.at_sink("SELECT count(*) FROM mart.pgbench_history")[0][0])

    def _another(self, before: object) -> bool:
        view = self.bench.job.view()
        return view.driver_alive and view.supervisor_alive and view.driver != before

    def _kill(self, kind: Kind) -> None:
        job = self.bench.job
        if kind == "source sessions":
            _end_sessions(self.bench.product.connect(), job)
        elif kind == "sink sessions":
            _end_sessions(self.bench.product.sink.connect("mart"), job)
        else:
            until(lambda: job.view().driver_alive and job.view().supervisor_alive, RECOVERY, "both processes to live")
            job.kill(kind)

    def summary(self) -> str:
        """How often what was killed."""
        return ", ".join(f"{kind} {self.killed.count(kind)}" for kind in KINDS)


def _end_sessions(connection: pg.Connection, job: Mirrored) -> None:
    """All sessions of the job there, the workers' and the driver's."""
    try:
        with connection.cursor() as cursor:
            pattern = session_name(job.name, "%").replace("_", r"\_")
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
            cursor.execute(ended, (pattern,))
    finally:
        connection.close()


RESET = "public.pgbench_tellers"


def reset_one(bench: Tpcb, killer: Killer) -> None:
    """Stop one of the four tables, reset its slot to a snapshot, and start it again, while the others stream."""
    store, name = bench.product.store, bench.job.name
    job = load(bench.job.config, os.environ).jobs[name].of(RESET)
    steering.want(store, name, RESET, WantedState.STOP)
    killer.wait(lambda: _state(bench, RESET) == JobState.STOPPED.value, f"{RESET} to stop")
    before = killer.arrived()
    at_rest = Check("table at rest", True, "its driver says so")
    with reset_context(job, store.folder, lambda: at_rest, print) as ctx:
        made = reset_plan.make(ctx, Goal(TargetKind.SNAPSHOT, on_existing="replace"))
        reset_plan.keep(ctx, made)
        done = reset_apply.execute(ctx, ResetOrder(made.id, "a test", job.slot, made.at_stake or None))
    assert done.outcome == DONE, done.sentence
    steering.want(store, name, RESET, WantedState.RUN, anew=True)
    killer.wait(lambda: _state(bench, RESET) == JobState.RUNNING.value, f"{RESET} to be RUNNING")
    assert killer.arrived() > before, "the others went on meanwhile"


def _state(bench: Tpcb, table: str) -> str:
    bench.job.refuse_end()
    report = bench.job.view().report
    return next((one.state for one in (report.tables if report else ()) if one.source_table == table), "")


ONE_RESET = "once it is running, and one table is reset"


@pytest.mark.parametrize("begun", ["during the copy", "once it is running", ONE_RESET])
def test_tpcb_arrives_equal_whatever_is_killed_meanwhile(product: Product, page: Page, seed: int, begun: str) -> None:
    print(f"begun {begun}, seed {seed}", flush=True)
    bench = Tpcb(product, Load(), "tpcb")
    job, killer = bench.job, Killer(bench, random.Random(f"{seed} {begun}"))
    row: list[object] = [begun, seed, "", "", "", "", False, False]
    try:
        control.start(product.store, job.name, str(job.config), patience=Patience(2 * RECOVERY))
        if begun == "during the copy":
            killer.wait(lambda: job.chunks()[0] > 0, "a first chunk to be copied")
        else:
            job.wait_state(JobState.RUNNING, 2 * RECOVERY)
        with bench.written():
            began = time.monotonic()
            if begun == "during the copy":
                job.kill("jvm")
                job.wait_state(JobState.RUNNING, 2 * RECOVERY)
            while time.monotonic() - began < SECONDS or set(killer.killed) != set(KINDS):
                killer.turn()
                if begun == ONE_RESET and len(killer.killed) in (2, 5):
                    reset_one(bench, killer)
            written = time.monotonic() - began
        stopped = time.monotonic()
        there = bench.sums("source")
        count = there["history"][0]
        row[2:5] = count, count / written, killer.summary()
        killer.wait(lambda: killer.arrived() >= count, "all of the history to arrive")
        wanted = bench.checksums("source")
        killer.wait(lambda: bench.checksums("mart") == wanted, "four equal tables")
        row[5:7] = time.monotonic() - stopped, True
        job.wait_state(JobState.RUNNING, 2 * RECOVERY)
        arrived = bench.sums("mart")
        row[7] = arrived == there and len({total for _, total in there.values()}) == 1
        assert arrived == there
        assert len({total for _, total in arrived.values()}) == 1, "TPC-B keeps its four sums equal"
        job.stop()
        assert job.left() == []
    finally:
        page.add(*row)
        job.end()
