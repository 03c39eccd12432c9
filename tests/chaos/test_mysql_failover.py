"""Ten failovers between two MariaDB servers under writes, in half of them with SIGKILL of the driver: the job continues
without a copy, and both sides are equal.

    make chaos ARGS="tests/chaos/test_mysql_failover.py -s"
    SLOTKEEPER_CHAOS_DRILLS=40 make chaos ARGS="tests/chaos/test_mysql_failover.py -s"

`SLOTKEEPER_CHAOS_RUNNER=local` runs tasks in the driver's threads. The server that takes over has its own file names
and has executed everything; the other one replicates from it afterwards and takes over in the next drill.
"""

from __future__ import annotations

import os
import random
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria
from tests.support.hot_job import RUNNER, HotJob, Writer, asking, pair_of, refuse_difference
from tests.support.maria_two import Two, two
from tests.support.pairs import MakeMysqlPair
from tests.support.product import killed

DRILLS = int(os.environ.get("SLOTKEEPER_CHAOS_DRILLS", "10"))
WITHIN = 30.0
"""The maximum seconds from the end of a server until every later commit has arrived."""

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(1_800)]


class Primary:
    """The server that is the source now; it can be used as a `MariaServer`."""

    def __init__(self, server: MariaServer) -> None:
        self.now = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self.now, name)


def fail_over(servers: Two, primary: Primary, other: MariaServer) -> None:
    """Stop the commits, wait until the replica has executed all of them, and kill the source."""
    with closing(maria.log_in(primary.now)) as session:
        session.rows("FLUSH TABLES WITH READ LOCK")
        servers.wait_replicated(other, primary.now)
        primary.now.stop(crash=True)
    servers.promote(other)
    primary.now = other


def test_failovers_under_writes_and_kills_copy_nothing_and_end_equal(
    make_mysql_pair: MakeMysqlPair, tmp_path: Path, seed: int
) -> None:
    print(f"\n{RUNNER}, seed {seed}, {DRILLS} drills", flush=True)
    draw = random.Random(f"{seed} failover")
    with two() as servers:
        primary, standby = Primary(servers.first), servers.second
        pair = pair_of(make_mysql_pair, cast(MariaServer, primary), None)
        pair.mirror.job = _with_hosts(pair.mirror.job, servers)
        servers.run(servers.second, *["FLUSH BINARY LOGS"] * 7)
        job = HotJob(pair, tmp_path, asking(pair, None), draw)
        writers = [Writer(cast(MariaServer, primary), seed, number, 0.05) for number in range(2)]
        took: list[float] = []
        try:
            job.must("jobs", "start", job.name, "--wait", "5m")
            job.settle()
            for writer in writers:
                writer.start()
            for number in range(DRILLS):
                threading.Event().wait(draw.uniform(0.5, 2.0))
                kill = number % 2 == 1
                early = kill and draw.random() < 0.5
                if early:
                    killed(job.driver())
                former = primary.now
                fail_over(servers, primary, standby)
                ended = time.monotonic()
                if kill and not early:
                    threading.Event().wait(draw.uniform(0.0, 3.0))
                    _kill_driver(job)
                job.settle()
                took.append(time.monotonic() - ended)
                former.start()
                servers.follow(former, primary.now)
                servers.wait_replicated(former, primary.now)
                standby = former
                print(f"drill {number + 1}{', driver killed' if kill else ''}: {took[-1]:.1f} s", flush=True)
            for writer in writers:
                writer.stop()
            for writer in writers:
                writer.finish()
            job.settle()
            rows = refuse_difference(job)
            job.must("verify", job.name)
            events = job.events()
            copies, switches = events.count(JobEvent.COPY_BEGAN.value), events.count(JobEvent.SWITCHED.value)
            changes = sum(writer.changes for writer in writers)
            print(
                f"{rows:,} rows equal, {changes:,} changes, {switches} switches, slowest {max(took):.1f} s", flush=True
            )
            assert copies == 1 and switches >= DRILLS, job.story()
            assert max(took) <= WITHIN, took
            job.must("jobs", "stop", job.name, "--wait", "2m")
            assert job.left() == []
        finally:
            for writer in writers:
                writer.stop()
            job.end()
            job.store.close()


def _kill_driver(job: HotJob) -> None:
    view = job.view()
    if view.driver is not None and view.driver_alive:
        killed(psutil.Process(view.driver.pid))


def _with_hosts(job: Any, servers: Two) -> Any:
    from dataclasses import replace

    return replace(job, source=servers.endpoint)
