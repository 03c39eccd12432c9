"""What a user's own job costs, on the product path: supervisor, driver, JVM, workers over two embedded servers.

Freshness is from COMMIT's return at the source to the first read at the sink that shows the row (markers, 20 a second,
read every 10 ms); the writer is a process of its own. CPU is what the system booked.
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
"""Changes a second, and changes a transaction."""
WANTED: dict[tuple[int, str], float] = {(2_000, "p50"): 50, (2_000, "p99"): 300, (10_000, "p99"): 1_000}
"""Milliseconds of freshness at most."""
SETTLE = 5.0
"""Seconds at each rate before anything counts."""
START_WITHIN = 120.0
WARM = 3
"""Warm starts, of which the median counts."""
MIB = 1024.0 * 1024.0
SERVERS = frozenset({"source server", "sink server"})
"""Whose CPU is not the job's."""


def figures(seconds: float, seed: int, say: Callable[[str], None]) -> list[Figure]:
    """All figures of one job; its class archive lies in a cache of its own, so that the first start is a cold one."""
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
    """The demo's job, started and stopped by the command line."""

    def __init__(self, demo: Demo, say: Callable[[str], None]) -> None:
        self.demo = demo
        self._say = say
        self._writes = 0

    # -- starts

    def starts(self) -> list[Figure]:
        """From the command to the first applied change: the first of all, which copies nothing any more, and warm ones.

        The very first start makes the copy and, at its end, the archive of the JVM's classes; it is not timed. Cold is
        a start without that archive, as after an upgrade; warm is any other.
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
        """Put the cache aside; what is returned puts it back."""
        cache = Path(os.environ["XDG_CACHE_HOME"])
        aside = cache.with_name(cache.name + "-aside")
        cache.rename(aside)
        cache.mkdir()

        def back() -> None:
            shutil.rmtree(cache)
            aside.rename(cache)

        return back

    def _started(self, kind: str) -> tuple[float, float]:
        """Seconds, and CPU seconds of the job's processes, all of which this start has made."""
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
        """CPU of a job with nothing to do, as a share of one core; servers with it."""
        time.sleep(SETTLE)
        spent, taken = self._spent(lambda: time.sleep(seconds))
        self._say(f"idle: {spent}")
        shares = {name: 100 * one / taken for name, one in spent.items()}
        found = [
            Figure(f"idle: CPU of {name}", share, "%", 2.0 if name == "driver" else None)
            for name, share in shares.items()
        ]
        return [*found, Figure("idle: CPU of the job in all, its sessions' included", sum(shares.values()), "%", 4.0)]

    def memory(self) -> list[Figure]:
        """Memory that is a process's share (PSS), by process, and in all."""
        shares: dict[str, float] = {}
        for name, one in self._processes():
            shares[name] = shares.get(name, 0.0) + one.memory_full_info().pss / MIB
        found = [Figure(f"memory of the {name}, PSS", share, "MiB") for name, share in shares.items()]
        return [*found, Figure("memory of the job in all, PSS", sum(shares.values()), "MiB")]

    # -- freshness

    def freshness(self, seconds: float) -> list[Figure]:
        """At each rate: p50, p99, and the CPU that it costs."""
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
            Figure(
                f"CPU {name}: the source, the writer's sessions included", 100 * spent["source server"] / taken, "%"
            ),
            Figure(f"writer {name}: behind its rate at the end", behind[0], "s"),
        ]

    @contextmanager
    def _written(self, rate: int, per_transaction: int) -> Iterator[list[float]]:
        """The writer for the block; afterwards the seconds that it was behind its rate at its end."""
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

    # -- what is there

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
        """The job's processes by what they are."""
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
        """CPU seconds by process while something runs, and how long it took."""
        before, began = self._cpu(), time.monotonic()
        work()
        taken, after = time.monotonic() - began, self._cpu()
        return {name: max(0.0, one - before.get(name, 0.0)) for name, one in after.items()}, taken


def _known(found: float | None) -> float:
    """A figure; infinite where none was had, so that no reader takes it for a good one."""
    return math.inf if found is None else found


def _kind(one: psutil.Process, group: str, leader: int) -> str:
    if one.pid == leader:
        return group
    return "JVM" if one.name() == "java" else "workers"
