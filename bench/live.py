"""The cost of a user's own job with all of its processes: supervisor, driver, JVM, and workers, between two embedded
servers.

Freshness is the time from the return of COMMIT on the source to the first read of the sink that shows the row (20
markers per second, a read every 10 ms); the writer is a separate process. CPU time is as accounted by the system.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from statistics import median

import psutil

from bench.profile import server_cpu
from bench.report import Figure
from slotkeeper.core.config import handover
from slotkeeper.core.drivers import pg
from slotkeeper.core.launch import control
from slotkeeper.core.launch import identity as identities
from slotkeeper.core.launch.control import Patience
from slotkeeper.demo import workload
from slotkeeper.demo.markers import Marker, MarkerReader
from slotkeeper.demo.run import JOB, SINK_DATABASE, TARGET, Demo, DemoOptions

RATES = ((200, 1), (2_000, 10), (10_000, 100))
"""Changes per second, and changes per transaction."""
WANTED: dict[tuple[int, str], float] = {(2_000, "p50"): 50, (2_000, "p99"): 300, (10_000, "p99"): 1_000}
"""Maximum freshness, in milliseconds."""
SETTLE = 5.0
"""Seconds at each rate before the measurement starts."""
START_WITHIN = 120.0
WARM = 3
"""Number of warm starts, whose median is reported."""
MIB = 1024.0 * 1024.0
SERVERS = frozenset({"source server", "sink server"})
"""The parties whose CPU is not part of the job's."""


def figures(seconds: float, seed: int, say: Callable[[str], None]) -> list[Figure]:
    """Return all figures of one job; a separate cache for its class archive makes the first start a cold one."""
    with tempfile.TemporaryDirectory(prefix="slotkeeper-bench-") as cache:
        before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = cache
        try:
            with _job(seed, say) as job:
                return [*job.starts(), *job.idle(seconds), *job.memory(), *job.freshness(seconds)]
        finally:
            os.environ.pop("XDG_CACHE_HOME")
            if before is not None:
                os.environ["XDG_CACHE_HOME"] = before


@contextmanager
def _job(seed: int, say: Callable[[str], None]) -> Iterator[LiveJob]:
    demo = Demo(DemoOptions(seed=seed), say)
    try:
        demo.prepare()
        yield LiveJob(demo, say)
    finally:
        demo.close()


class LiveJob:
    """The demo's job, started and stopped with the command line."""

    def __init__(self, demo: Demo, say: Callable[[str], None]) -> None:
        self.demo = demo
        self._say = say
        self._writes = 0

    # -- starts

    def starts(self) -> list[Figure]:
        """Measure the time from the command to the first applied change: a cold start without a copy, then warm starts.

        The very first start makes the copy and, at its end, the archive of the JVM's classes; it is not timed. A cold
        start has no such archive, as after an upgrade; any other start is warm.
        """
        self.demo.start_job()
        self.demo.wait_caught_up()
        self._stop()
        kept = self._without_archive()
        cold = self._started("cold")
        self._stop()
        kept()
        warm = []
        for _ in range(WARM):
            warm.append(self._started("warm"))
            self._stop()
        self._start()
        self.demo.wait_caught_up()
        seconds, cpu = (median(one) for one in zip(*warm, strict=True))
        return [
            Figure("start to first applied change, cold", cold[0], "s"),
            Figure(f"start to first applied change, warm, median of {WARM}", seconds, "s"),
            Figure("CPU of a start until then, warm, the job's processes", cpu, "s"),
        ]

    def _without_archive(self) -> Callable[[], None]:
        """Move the cache aside; return a function that restores it."""
        cache = Path(os.environ["XDG_CACHE_HOME"])
        aside = cache.with_name(cache.name + "-aside")
        cache.rename(aside)
        cache.mkdir()

        def back() -> None:
            shutil.rmtree(cache)
            aside.rename(cache)

        return back

    def _started(self, kind: str) -> tuple[float, float]:
        """Return the seconds of one start, and the CPU seconds of the job's processes, all created by this start."""
        self._insert()
        before = sum(self.demo.applied().values())
        with closing(self._sink()) as connection, connection.cursor() as cursor:
            began = time.monotonic()
            starting = self._start_process()
            while True:
                cursor.execute("SELECT sum(changes) FROM slotkeeper_progress")
                if cursor.fetchall()[0][0] > before:
                    break
                if time.monotonic() - began > START_WITHIN:
                    raise TimeoutError(f"no change applied within {START_WITHIN:.0f} s; {self.demo.log_file()}")
                time.sleep(0.005)
        seconds = time.monotonic() - began
        cpu = sum(one for party, one in self._cpu().items() if party not in SERVERS)
        starting.wait(START_WITHIN)
        self._say(f"{kind} start to first applied change: {seconds:.2f} s, {cpu:.2f} s of CPU")
        return seconds, cpu

    def _start_process(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-P",
            "-m",
            "slotkeeper.console",
            "jobs",
            "start",
            JOB,
            "--config",
            str(self.demo.config),
        ]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=handover.environment()
        )

    def _start(self) -> None:
        self.demo.go_on()

    def _stop(self) -> None:
        assert self.demo.store is not None
        control.stop(self.demo.store, JOB, Patience(seconds=60))

    # -- idle, memory

    def idle(self, seconds: float) -> list[Figure]:
        """Measure the CPU of an idle job and of the servers, as shares of one core."""
        time.sleep(SETTLE)
        spent, taken = self._spent(lambda: time.sleep(seconds))
        self._say(f"idle: {spent}")
        shares = {name: 100 * one / taken for name, one in spent.items()}
        found = [
            Figure(f"idle: CPU of {name}", share, "%", 2.0 if name == "driver" else None)
            for name, share in shares.items()
        ]
        return [*found, Figure("idle: CPU of the whole job, with its server sessions", sum(shares.values()), "%", 4.0)]

    def memory(self) -> list[Figure]:
        """Return the memory by process as its proportional set size (PSS), and the total."""
        shares: dict[str, float] = {}
        for name, one in self._processes():
            shares[name] = shares.get(name, 0.0) + one.memory_full_info().pss / MIB
        found = [Figure(f"memory of the {name}, PSS", share, "MiB") for name, share in shares.items()]
        return [*found, Figure("memory of the whole job, PSS", sum(shares.values()), "MiB")]

    # -- freshness

    def freshness(self, seconds: float) -> list[Figure]:
        """Measure p50, p99, and the CPU cost at each rate."""
        found = []
        for rate, per_transaction in RATES:
            found += self._at(rate, per_transaction, seconds)
        return found

    def _at(self, rate: int, per_transaction: int, seconds: float) -> list[Figure]:
        assert self.demo.warehouse is not None
        name = f"at {rate:,} changes/s in transactions of {per_transaction}"
        marker = Marker(self._warehouse)
        reader = MarkerReader(lambda: self._sink(autocommit=False), TARGET, marker)
        with self._written(rate, per_transaction) as behind:
            time.sleep(SETTLE)
            marker.start()
            reader.start()
            spent, taken = self._spent(lambda: time.sleep(seconds))
            marker.stop()
            marker.finish()
        self.demo.wait_caught_up()
        self.demo.wait_for(lambda: marker.latency().waiting == 0)
        reader.stop()
        reader.finish()
        latency = marker.latency()
        self._say(f"{name}: p50 {latency.p50} ms, p99 {latency.p99} ms, writer behind by {behind[0]} s")
        job = sum(one for party, one in spent.items() if party not in SERVERS)
        return [
            Figure(f"freshness {name}: p50", _known(latency.p50), "ms", WANTED.get((rate, "p50"))),
            Figure(f"freshness {name}: p99", _known(latency.p99), "ms", WANTED.get((rate, "p99"))),
            Figure(f"CPU {name}: the job's processes", 100 * job / taken, "%"),
            Figure(f"CPU {name}: the sink", 100 * spent["sink server"] / taken, "%"),
            Figure(f"CPU {name}: the source, with the writer's sessions", 100 * spent["source server"] / taken, "%"),
            Figure(f"writer {name}: behind its rate at the end", behind[0], "s"),
        ]

    @contextmanager
    def _written(self, rate: int, per_transaction: int) -> Iterator[list[float]]:
        """Run the writer during the block; afterwards the list holds the seconds by which the writer was behind its
        rate at the end.
        """
        assert self.demo.warehouse is not None
        self._writes += 1
        words = ["--rate", str(rate), "--per-transaction", str(per_transaction)]
        words += ["--first", str(workload.BULK_FIRST + self._writes * 10_000_000)]
        behind = [0.0]
        with subprocess.Popen(
            [sys.executable, "-m", "bench.writer", str(self.demo.warehouse.server.folder), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
        ) as writer:
            try:
                yield behind
            finally:
                said, _ = writer.communicate(timeout=60)
        behind[0] = float(said.split()[1])

    # -- servers and processes

    def _insert(self) -> None:
        self._writes += 1
        with closing(self._warehouse(autocommit=True)) as connection:
            workload.bulk(connection, "insert", 20, workload.BULK_FIRST + self._writes * 10_000_000)

    def _warehouse(self, autocommit: bool = False) -> pg.Connection:
        assert self.demo.warehouse is not None
        return self.demo.warehouse.connect(autocommit=autocommit)

    def _sink(self, autocommit: bool = True) -> pg.Connection:
        assert self.demo.sink is not None
        return self.demo.sink.connect(SINK_DATABASE, autocommit=autocommit)

    def _processes(self) -> list[tuple[str, psutil.Process]]:
        """Return the job's processes with their roles."""
        view = self.demo.view()
        found = []
        for name, known in (("supervisor", view.supervisor), ("driver", view.driver)):
            if known is None:
                continue
            for pid in identities.members(known):
                with suppress(psutil.Error):
                    found.append((_kind(psutil.Process(pid), name, known.pid), psutil.Process(pid)))
        return list({one.pid: (name, one) for name, one in found}.values())

    def _cpu(self) -> dict[str, float]:
        assert self.demo.sink is not None
        assert self.demo.warehouse is not None
        found = {"source server": server_cpu(self.demo.warehouse.server), "sink server": server_cpu(self.demo.sink)}
        for name, one in self._processes():
            with suppress(psutil.Error):
                times = one.cpu_times()
                found[name] = found.get(name, 0.0) + times.user + times.system
        return found

    def _spent(self, work: Callable[[], None]) -> tuple[dict[str, float], float]:
        """Return the CPU seconds by process while `work` runs, and the duration."""
        before, began = self._cpu(), time.monotonic()
        work()
        taken, after = time.monotonic() - began, self._cpu()
        return {name: max(0.0, one - before.get(name, 0.0)) for name, one in after.items()}, taken


def _known(found: float | None) -> float:
    """Return the figure, or infinity if it is missing, so that a missing figure never meets a limit."""
    return math.inf if found is None else found


def _kind(one: psutil.Process, group: str, leader: int) -> str:
    if one.pid == leader:
        return group
    return "JVM" if one.name() == "java" else "workers"
