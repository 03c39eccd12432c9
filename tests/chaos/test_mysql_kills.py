"""Ten minutes of kills with hot keys and key updates, from a MariaDB into PostgreSQL and Doris: equal by checksum.

    make chaos ARGS="tests/chaos/test_mysql_kills.py -s"                                  both sinks, ten minutes each
    SLOTKEEPER_CHAOS_SECONDS=60 make chaos ARGS="tests/chaos/test_mysql_kills.py -s -k doris"

`SLOTKEEPER_TEST_SEED` repeats the order of a run. `SLOTKEEPER_CHAOS_RUNNER=local` runs tasks in the driver's threads:
then there are no JVM and no workers to kill, and a driver that starts in seconds meets many more kills.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from core.domain.endpoint import Login
from core.domain.job import JobState, WantedState
from core.domain.job_view import Identity
from core.domain.spec import ChannelSpec
from core.drivers import pg
from core.drivers.mysql_queries import MysqlQueries
from core.embedded.doris.server import DorisStandin
from core.embedded.mariadb import MariaServer
from core.errors import SlotkeeperError
from core.launch import identity as processes
from core.state.sqlite import Store
from tests.support import doris_pair, maria
from tests.support.hot_keys import TABLES, Hot, Writer, connected
from tests.support.mysql_pair import MakeMysqlPair, MysqlPair
from tests.support.processes import JobProcesses, killed
from tests.support.storm import cli
from tests.support.storm.rig import seconds
from tests.support.waiting import until

SECONDS = seconds(default=600)
OVER = 1_800
"""Seconds beside those of the kills for the start, the last recovery and the comparisons."""
RECOVERY = 600.0
COMMAND = 600.0
RUNNER = os.environ.get(cli.RUNNER, "spark")
WRITERS, PAUSE = 3, 0.05

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(int(SECONDS) + OVER)]
Rows = list[tuple[object, ...]]


@pytest.fixture
def durable() -> Iterator[MariaServer]:
    """A server that loses no transaction in a crash."""
    server = maria.begin({"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"})
    yield server
    maria.end(server)


class Job(JobProcesses):
    """The job, the commands that an operator types about it, and ways to disturb it."""

    def __init__(self, pair: MysqlPair, folder: Path, at_sink: Callable[[str], Rows], draw: random.Random) -> None:
        self.pair, self.at_sink, self.draw = pair, at_sink, draw
        self.name = pair.mirror.job.name
        self.config = pair.config(folder)
        self.store = Store.open(folder / "state")
        self.beacons = self.ensured = 0

    def typed(self, *words: str) -> tuple[int, str]:
        """A command's exit code and output."""
        running = cli.begun(RUNNER, self.config, *words)
        said, _ = running.communicate(timeout=COMMAND)
        return running.returncode, said

    def must(self, *words: str) -> None:
        """A command that has to succeed."""
        code, said = self.typed(*words)
        assert code == 0, f"{words} ended with {code}: {said[-3000:]}; {self.story()}"

    def story(self) -> str:
        """What is known of the job, for a run that has failed."""
        view = self.view()
        return f"{view.state.value} ({view.reason}); events {self.events()[-14:]}; log {self.log()[-3000:]}"

    # -- disturbances

    def source(self) -> None:
        """A crash of the MariaDB, which stays down for up to three seconds."""
        self.pair.server.stop(crash=True)
        threading.Event().wait(self.draw.uniform(0, 3))
        self.pair.server.start()

    def kill_driver(self) -> None:
        """SIGKILL the driver, where one is running."""
        _kill(self.view().driver)

    def kill_jvm(self) -> None:
        """SIGKILL the JVM, where one is running."""
        for jvm in self._jvms():
            killed(jvm)

    def kill_worker(self) -> None:
        """SIGKILL the workers, where some are running."""
        for worker in self.workers():
            killed(worker)

    def supervisor(self) -> None:
        """SIGKILL the supervisor, where one is running."""
        _kill(self.view().supervisor)

    def both(self) -> None:
        """SIGKILL supervisor and driver: nothing is left that could restart the job, until `jobs ensure`."""
        self.supervisor()
        self.kill_driver()

    def pause(self) -> None:
        """Pause and resume, as far as the job's state allows it."""
        self.typed("jobs", "pause", self.name)

        def resumed() -> bool:
            self.ensure()
            return self.view().wanted is WantedState.RUN or self.typed("jobs", "resume", self.name)[0] == 0

        until(resumed, RECOVERY, "the job to resume")

    # -- recovery

    def ensure(self) -> None:
        """What an operator or the timer does about a job that has no process."""
        if self.view().state is JobState.DEAD:
            self.ensured += 1
            self.typed("jobs", "ensure", "--reason", "the timer")

    def settle(self) -> float:
        """Seconds until every transaction that is committed by now has reached both tables."""
        began = time.monotonic()
        self.beacons += 1
        for table in TABLES:
            _put(self.pair.server, table, self.beacons)

        def arrived() -> bool:
            state = self.view().state
            assert state not in (JobState.FAILED, JobState.STOPPED), self.story()
            self.ensure()
            with suppress(pg.DriverError, SlotkeeperError):
                return all(self._beacon(table) >= self.beacons for table in TABLES)
            return False

        try:
            until(arrived, RECOVERY, f"beacon {self.beacons} to arrive")
        except AssertionError as late:
            raise AssertionError(f"{late}; {self.story()}") from None
        return time.monotonic() - began

    def _beacon(self, table: Hot) -> int:
        found = self.at_sink(f"SELECT v FROM {_target(table)} WHERE {table.at(table.beacon)}")
        return int(str(found[0][0])) if found else 0


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
    """The kills of one run: each kind once in a drawn order, before any comes again."""

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
    pair = _pair(make_mysql_pair, durable, doris if sink == "doris" else None)
    job = Job(pair, tmp_path, _asking(pair, doris if sink == "doris" else None), random.Random(f"{seed} {sink}"))
    run, writers = Run(job, Counter()), [Writer(durable, seed, number, PAUSE) for number in range(WRITERS)]
    result = "failed"
    began = time.monotonic()
    try:
        job.must("jobs", "start", job.name, "--wait", "5m")
        job.settle()
        _refuse_difference(job)
        for writer in writers:
            writer.start()
        began = time.monotonic()
        run.until(began + SECONDS)
        for writer in writers:
            writer.stop()
        for writer in writers:
            writer.finish()
        job.settle()
        rows = _refuse_difference(job)
        job.must("verify", job.name)
        job.must("jobs", "stop", job.name, "--wait", "2m")
        assert job.left() == []
        result = f"equal by checksum and by verify ({rows:,} rows)"
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


def _pair(make: MakeMysqlPair, server: MariaServer, doris: DorisStandin | None) -> MysqlPair:
    """A job over both tables, which have their cold rows."""
    pair = make(at=server)
    for table in TABLES:
        pair.run(table.ddl, table.load)
    if doris is not None:
        pair.into(doris)
    channels = tuple(ChannelSpec(table.name, _target(table), create_target=True) for table in TABLES)
    pair.mirror.job = replace(pair.mirror.job, channels=channels)
    return pair


def _target(table: Hot) -> str:
    return table.name.replace("ods.", "mart.")


def _put(server: MariaServer, table: Hot, number: int) -> None:
    values = f"{', '.join(table.beacon)}, {number}, NULL, NULL"
    with closing(connected(server)) as session:
        session.rows(f"REPLACE INTO {table.name} VALUES ({values})")


def _asking(pair: MysqlPair, doris: DorisStandin | None) -> Callable[[str], Rows]:
    """What asks the sink, past the product's own reading of tables."""

    def of_postgres(statement: str) -> Rows:
        with closing(pair.mirror.sink()) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def of_doris(statement: str) -> Rows:
        assert doris is not None
        with closing(MysqlQueries(Login(doris_pair.endpoint(doris), doris_pair.PASSWORD, "test"), "sink")) as queries:
            return queries.rows(statement)

    return of_postgres if doris is None else of_doris


def _refuse_difference(job: Job) -> int:
    """The rows of both tables, whose checksums have to be the same at source and sink."""
    total = 0
    with closing(connected(job.pair.server)) as session:
        for table in TABLES:
            read = f"SELECT {', '.join(table.key)}, v, w, d FROM "
            there = session.rows(read + table.name)
            here = job.at_sink(read + _target(table))
            assert _checksum(here) == _checksum(there), (
                f"{table.name}: {sorted(_texts(here) ^ _texts(there), key=repr)[:20]}; {job.story()}"
            )
            total += len(there)
    return total


def _checksum(rows: Rows) -> tuple[int, str]:
    """Count, and a hash of the values as text in the order of the keys' text."""
    ordered = sorted(repr([None if one is None else str(one) for one in row]) for row in rows)
    return len(rows), hashlib.sha256("\n".join(ordered).encode()).hexdigest()


def _texts(rows: Rows) -> set[tuple[str, ...]]:
    return {tuple(map(str, row)) for row in rows}
