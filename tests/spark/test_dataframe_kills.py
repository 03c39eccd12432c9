"""Streams of Spark whose processes are killed at random: each batch once, no abort undoes anything, tables equal.

Killed are Python workers (tasks, and the process that commits), executors, the JVM and the driver's program; each kill
comes while the query has a session at the sink.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import psutil
import pytest

from slotkeeper.demo.postgres import Server
from tests.support.dataframes import ROOT, StreamRig, spark_session
from tests.support.spark_cluster import executors
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.chaos]
DATABASE = "dataframe_kills"
KILLS, WHOLE = 30, 4
"""The number of kills, and how many of them kill the JVM or the driver."""
FILES = 100


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[str]:
    new_database(pg_server, DATABASE)
    yield DATABASE
    drop_database(pg_server, DATABASE)


class Program:
    """The program of `stream_program.py` in its own process, restarted after it was killed."""

    def __init__(self, rig: StreamRig, work: Path, port: int) -> None:
        self._rig, self._work, self._port = rig, work, port
        self.begun = 0
        self.begin()

    def begin(self) -> None:
        self.begun += 1
        rig, work = self._rig, self._work / f"run{self.begun}"
        work.mkdir(parents=True)
        given = (rig.files.folder, rig.config, rig.table, rig.checkpoint, work, "local[2,4]")
        self.log = work / "log"
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.stream_program", *map(str, given)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def below(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def workers(self) -> list[psutil.Process]:
        """Return the Python workers with a connection to the sink, or all of them if none has one."""
        python = [one for one in self.below() if _is_worker(one)]
        return [one for one in python if _has_line(one, self._port)] or python

    def kill_whole(self, draw: random.Random) -> None:
        """Kill the JVM or the driver; the other one does not outlive it for long, and is ended."""
        tree = self.below()
        jvms = [one for one in tree if _named(one, "java")]
        (draw.choice(jvms) if jvms and draw.random() < 0.5 else psutil.Process(self.process.pid)).kill()
        self.end(tree)
        self.begin()

    def end(self, below: Sequence[psutil.Process] = ()) -> None:
        """Kill its remaining processes, and those that were `below` it."""
        tree = [*below, *self.below()]
        for one in tree:
            with contextlib.suppress(psutil.Error):
                one.kill()
        self.process.kill()
        self.process.wait(60)
        psutil.wait_procs(tree, timeout=30)


def _is_worker(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return any("pyspark" in word for word in words) and "java" not in words[0]


def _named(process: psutil.Process, name: str) -> bool:
    with contextlib.suppress(psutil.Error):
        return name in process.name()
    return False


def _has_line(process: psutil.Process, port: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(one.raddr and one.raddr.port == port for one in process.net_connections("tcp"))
    return False


def at_work(rig: StreamRig) -> bool:
    """Whether the query has a session at the sink at this moment."""
    found = rig.asked("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'slotkeeper-query/%'")
    return bool(found[0][0])


class Feed:
    """Adds a file whenever the query has read all of them, so that there is always a process to kill."""

    def __init__(self, rig: StreamRig) -> None:
        self._rig = rig
        self.added = 0

    def busy(self) -> bool:
        """Whether the query is at the sink, or no more files are left for it."""
        if self._rig.fence()[1] + 1 >= self.added and self.added < len(self._rig.batches):
            self.give()
        return at_work(self._rig) or self.added == len(self._rig.batches)

    def beyond(self, batch: int) -> bool:
        """Whether the query is at the sink again, and a later batch than this one is there."""
        return self.busy() and self._rig.fence()[1] > batch

    def give(self) -> None:
        self._rig.files.add(self._rig.batches[self.added])
        self.added += 1

    def rest(self) -> None:
        while self.added < len(self._rig.batches):
            self.give()
        (self._rig.files.folder / "stop").touch()


@pytest.mark.timeout(1800)
def test_thirty_kills_of_a_streaming_query_leave_each_batch_once(
    pg_server: Server, database: str, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    rig = StreamRig(pg_server, database, tmp_path, "killed", seed, histories=300, cuts=FILES)
    program, feed = Program(rig, tmp_path / "work", pg_server.port), Feed(rig)
    try:
        for kill in range(KILLS):
            last = rig.fence()[1]
            if draw.random() < 0.8:
                until(partial(feed.beyond, last), 120, "a batch behind the last kill")
            for _ in range(draw.randrange(1, 9)):
                until(feed.busy, 120, "the query to be at the sink")
            assert program.process.poll() is None, program.log.read_text("utf-8")[-2000:]
            if kill % (KILLS // WHOLE) == KILLS // WHOLE - 1:
                program.kill_whole(draw)
            elif victims := program.workers():
                with contextlib.suppress(psutil.Error):
                    draw.choice(victims).kill()
            print(f"kill {kill + 1}: batch {rig.fence()[1]}", flush=True)
        feed.rest()
        assert program.process.wait(540) == 0, program.log.read_text("utf-8")[-2000:]
    finally:
        program.end()
    assert rig.rows() == rig.oracle(FILES)
    assert rig.fence()[2] == sum(map(len, rig.batches)), "each batch counts once"
    logs = [one.read_text("utf-8") for one in tmp_path.glob("work/*/log")]
    failed = sum(log.count("failed: ") for log in logs)
    print(f"seed {seed}: the program was begun {len(logs)} times, its query failed {failed} times")
    assert failed + len(logs) > WHOLE, "some kills were felt"
    rig.watch.close()


def test_a_local_cluster_of_which_an_executor_is_killed_writes_each_batch_once(
    pg_server: Server, database: str, tmp_path: Path, seed: int
) -> None:
    rig = StreamRig(pg_server, database, tmp_path, "clustered", seed, histories=200, cuts=12)
    for batch in rig.batches:
        rig.files.add(batch)
    with spark_session(tmp_path, "local-cluster[2,1,1024]") as spark:
        from slotkeeper.core.dataframe.net import net
        from slotkeeper.core.dataframe.writer.source import register

        register(spark)
        jvm = spark.sparkContext._gateway.proc.pid
        query = (
            net(rig.files.stream(spark), where="a IS NOT NULL")
            .writeStream.format("slotkeeper_postgres")
            .options(**rig.options())
            .option("checkpointLocation", str(rig.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        until(lambda: rig.fence()[1] >= 1 and at_work(rig), 120, "the query to be in its third batch")
        victim = executors([jvm])[0]
        victim.kill()
        query.awaitTermination()
        assert victim.pid not in {one.pid for one in executors([jvm])}
    assert rig.rows() == rig.oracle(12, lambda image: image["a"] is not None)
    assert rig.fence()[1] == 11
    rig.watch.close()
