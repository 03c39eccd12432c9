"""Ten minutes of kills with hot keys and key updates, from five tables of a MariaDB into PostgreSQL and Doris: equal by
checksum, no row doubled, and one dump connection for all tables.

    make chaos ARGS="tests/chaos/test_mysql_kills.py -s"                                  both sinks, ten minutes each
    SLOTKEEPER_CHAOS_SECONDS=60 make chaos ARGS="tests/chaos/test_mysql_kills.py -s -k doris"

`SLOTKEEPER_TEST_SEED` repeats the order of a run. `SLOTKEEPER_CHAOS_RUNNER=local` runs tasks in the driver's threads:
then there are no JVM and no workers to kill, and a driver that starts in seconds meets many more kills.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.launch import identity as processes
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria
from tests.support.hot_job import RECOVERY, RUNNER, HotJob, Writer, asking, pair_of, refuse_difference
from tests.support.pairs import MakeMysqlPair
from tests.support.product import killed
from tests.support.storm.rig import seconds
from tests.support.waiting import until

SECONDS = seconds(default=600)
OVER = 1_800
"""Seconds besides those of the kills for the start, the last recovery and the comparisons."""
WRITERS, PAUSE = 3, 0.05

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(int(SECONDS) + OVER)]


@pytest.fixture
def durable() -> Iterator[MariaServer]:
    """A server that loses no transaction in a crash."""
    server = maria.begin({"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"})
    yield server
    maria.end(server)


class Job(HotJob):
    """The job, and ways to disturb it."""

    # -- disturbances

    def source(self) -> None:
        """A crash of the MariaDB, which stays down for up to three seconds."""
        self.pair.server.stop(crash=True)
        threading.Event().wait(self.draw.uniform(0, 3))
        self.pair.server.start()

    def kill_driver(self) -> None:
        _kill(self.view().driver)

    def kill_jvm(self) -> None:
        for jvm in self._jvms():
            killed(jvm)

    def kill_worker(self) -> None:
        for worker in self.workers():
            killed(worker)

    def supervisor(self) -> None:
        _kill(self.view().supervisor)

    def both(self) -> None:
        """SIGKILL supervisor and driver: no process is left to restart the job, until `jobs ensure`."""
        self.supervisor()
        self.kill_driver()

    def pause(self) -> None:
        """Pause and resume, as far as the job's state allows it."""
        self.typed("jobs", "pause", self.name)

        def resumed() -> bool:
            self.ensure()
            return self.view().wanted is WantedState.RUN or self.typed("jobs", "resume", self.name)[0] == 0

        until(resumed, RECOVERY, "the job to resume")


def _kill(known: Identity | None) -> None:
    with suppress(psutil.NoSuchProcess):  # an earlier kill may have ended it meanwhile
        if known is not None and processes.alive(known):
            killed(psutil.Process(known.pid))


KINDS: dict[str, Callable[[Job], None]] = {
    "source": Job.source,
    "driver": Job.kill_driver,
    **({"jvm": Job.kill_jvm, "worker": Job.kill_worker} if RUNNER == "spark" else {}),
    "supervisor": Job.supervisor,
    "supervisor and driver": Job.both,
    "pause": Job.pause,
}


@dataclass
class Run:
    """The kills of one run: each kind once in a random order, before any is repeated."""

    job: Job
    done: Counter[str]
    slowest: float = 0.0

    def until(self, end: float) -> None:
        """Disturb until `end`; two times in three the job has to catch up before the next disturbance."""
        job, left = self.job, list[str]()
        while time.monotonic() < end:
            left = left or job.draw.sample(list(KINDS), len(KINDS))
            kind = left.pop()
            threading.Event().wait(job.draw.uniform(0.2, 4.0))
            KINDS[kind](job)
            self.done[kind] += 1
            took = job.settle() if job.draw.random() < 2 / 3 else 0.0
            self.slowest = max(self.slowest, took)
            print(f"{kind}: {f'all arrived after {took:.1f} s' if took else 'not waited for'}", flush=True)


@pytest.mark.parametrize("sink", ["postgres", "doris"])
def test_hot_keys_under_kills_end_equal_by_checksum(
    make_mysql_pair: MakeMysqlPair, durable: MariaServer, doris: DorisStandin, tmp_path: Path, seed: int, sink: str
) -> None:
    print(f"\n{sink}, {RUNNER}, seed {seed}, {SECONDS:.0f} s", flush=True)
    pair = pair_of(make_mysql_pair, durable, doris if sink == "doris" else None)
    job = Job(pair, tmp_path, asking(pair, doris if sink == "doris" else None), random.Random(f"{seed} {sink}"))
    run, writers = Run(job, Counter()), [Writer(durable, seed, number, PAUSE) for number in range(WRITERS)]
    result = "failed"
    began = time.monotonic()
    try:
        job.must("jobs", "start", job.name, "--wait", "5m")
        job.settle()
        refuse_difference(job)
        for writer in writers:
            writer.start()
        began = time.monotonic()
        run.until(began + SECONDS)
        for writer in writers:
            writer.stop()
        for writer in writers:
            writer.finish()
        job.settle()
        rows = refuse_difference(job)
        until(lambda: job.dumps() == 1, RECOVERY, "one dump connection for all tables")
        assert job.doubled() == 0
        job.must("verify", job.name)
        job.must("jobs", "stop", job.name, "--wait", "2m")
        assert job.left() == []
        result = f"equal by checksum and by verify ({rows:,} rows), 0 rows doubled, one dump connection"
    finally:
        for writer in writers:
            writer.stop()
        transactions, changes = sum(one.transactions for one in writers), sum(one.changes for one in writers)
        print(
            f"{sink}, {RUNNER}, seed {seed}: {time.monotonic() - began:.0f} s, {transactions:,} transactions,",
            f"{changes:,} changes; disturbed {dict(run.done)}, `jobs ensure` {job.ensured} times,",
            f"slowest recovery {run.slowest:.1f} s: {result}",
            flush=True,
        )
        job.end()
        job.store.close()
