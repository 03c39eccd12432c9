"""The measured figures that the issues ask for, each taken on the product path; `test_figures.py` runs them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from slotkeeper.core.domain.job import JobState
from slotkeeper.demo import workload
from slotkeeper.demo.markers import ASKED_AT_ONCE, Marker, MarkerReader, percentile
from slotkeeper.demo.orders import TABLE, Statements
from slotkeeper.demo.plans import Mix
from slotkeeper.demo.run import SINK_DATABASE
from slotkeeper.demo.switches import Switches
from tests.support.product import Mirrored, Product, status_kib
from tests.support.waiting import until

MIB = 1024.0
GROWTH_MIB = 64.0
BUMP_SECONDS = 6.0
"""A task's deadline (3 s) and 3 s more."""
OBEYED_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the page; `met` is None if the figure has no target."""

    name: str
    value: str
    target: str = ""
    met: bool | None = None


def let_pass(seconds: float) -> None:
    """Let the job work for a while, because these figures are per minute."""
    threading.Event().wait(seconds)


# -- a: many writers at once -----------------------------------------------------------------------------------------


def many_writers(product: Product, seconds: float = 60.0) -> list[Figure]:
    """Eight writers with random commit delays: the progress rows count the same events as the ledger."""
    job = product.job("many").start()
    job.wait_state(JobState.RUNNING)
    mix = Mix(rows=product.rows, delay=0.5, longest_delay_s=0.05)
    began = time.monotonic()
    product.write(rate=0, writers=8, mix=mix)
    let_pass(seconds)
    written_for = time.monotonic() - began
    product.quiet()
    stopped = time.monotonic()
    expected = job.expected()
    job.wait_applied(expected)
    behind = time.monotonic() - stopped
    applied = job.applied()
    found = job.compare()
    events = sum(expected.values())
    said = ", ".join(f"{dn} {applied[dn]:,}/{expected[dn]:,}" for dn in sorted(expected))
    job.stop()
    return [
        Figure("8 writers, 60 s: events applied / in the ledger, per DN", said, "equal", applied == expected),
        Figure(
            "8 writers: tables, rows at the source / at the sink",
            f"{found.rows_source:,}/{found.rows_sink:,}",
            "equal",
            found.equal,
        ),
        Figure("8 writers: events a second", f"{events / written_for:,.0f}"),
        Figure("8 writers: seconds to catch up after the last commit", f"{behind:.1f}"),
    ]


# -- b: one huge transaction -----------------------------------------------------------------------------------------


class Peaks(threading.Thread):
    """Samples five times a second the highest resident memory of the driver, its JVM and every worker."""

    def __init__(self, job: Mirrored) -> None:
        super().__init__(name="peaks", daemon=True)
        self._job = job
        self._over = threading.Event()
        self.kib = {"worker": 0, "driver": 0, "JVM": 0}

    def run(self) -> None:
        while not self._over.wait(0.2):
            with contextlib.suppress(psutil.Error, OSError, AssertionError):
                self._note("driver", [self._job.driver()])
                self._note("JVM", [self._job.jvm()])
                self._note("worker", self._job.workers())

    def stop(self) -> dict[str, int]:
        """Stop sampling; returns the peaks."""
        self._over.set()
        self.join(10)
        return dict(self.kib)

    def _note(self, kind: str, processes: list[psutil.Process]) -> None:
        for one in processes:
            self.kib[kind] = max(self.kib[kind], status_kib(one.pid))


def huge_transaction(product: Product, small: int = 20_000, huge: int = 2_000_000) -> list[Figure]:
    """The same job mirrors transactions of 20,000 and of 2,000,000 rows; its memory does not grow with the size."""
    job = product.job("huge").start()
    job.wait_state(JobState.RUNNING)
    _, before = _mirrored(product, job, small, workload.HUGE_FIRST)
    seconds, after = _mirrored(product, job, huge, workload.HUGE_FIRST + 10_000_000)
    found = job.compare()
    equal = found.equal and job.applied() == job.expected()
    job.stop()
    figures = [
        Figure(f"one transaction of {huge:,} rows: ledger and tables", f"{found.rows_sink:,} rows", "equal", equal),
        Figure(f"one transaction of {huge:,} rows: seconds from COMMIT to the last row", f"{seconds:.1f}"),
    ]
    for kind in ("worker", "driver", "JVM"):
        growth = (after[kind] - before[kind]) / MIB
        value = f"{before[kind] / MIB:.1f} MiB -> {after[kind] / MIB:.1f} MiB (+{growth:.1f})"
        target = f"within {GROWTH_MIB:.0f} MiB" if kind != "JVM" else ""
        figures.append(
            Figure(
                f"VmHWM of the {kind}: {small:,} -> {huge:,} rows",
                value,
                target,
                growth <= GROWTH_MIB if target else None,
            )
        )
    return figures


def _mirrored(product: Product, job: Mirrored, rows: int, first: int) -> tuple[float, dict[str, int]]:
    connection = product.warehouse.connect()
    peaks = Peaks(job)
    peaks.start()
    try:
        workload.one_huge_transaction(connection, rows, first, product.seed)
        began = time.monotonic()
        job.wait_applied(job.expected(), 280)
        return time.monotonic() - began, peaks.stop()
    finally:
        peaks.stop()
        connection.close()


# -- c: a DN that hangs ----------------------------------------------------------------------------------------------


class TimedMarker(Marker):
    """Markers that record the time of each commit and its duration."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.seen: list[tuple[int, float, float]] = []

    def unseen(self) -> list[int]:
        """Return the newest: the oldest belong to the hanging DN, and would displace all others."""
        with self._lock:
            return list(self._unseen)[-ASKED_AT_ONCE:]

    def saw(self, numbers: list[int], at: float) -> None:
        with self._lock:
            known = [(number, self._unseen[number]) for number in numbers if number in self._unseen]
        self.seen.extend((number, committed, at - committed) for number, committed in known)
        super().saw(numbers, at)


@contextmanager
def marked(product: Product, job: Mirrored, rate: float = 80.0) -> Iterator[TimedMarker]:
    """Markers at the source, and their reader at the sink, for the block."""
    marker = TimedMarker(product.connect, rate)
    reader = MarkerReader(
        lambda: product.sink.connect(SINK_DATABASE, autocommit=False), f"mart.{job.name}", marker, every_s=0.02
    )
    marker.start()
    reader.start()
    try:
        yield marker
    finally:
        marker.stop()
        marker.finish(70)
        reader.stop()
        reader.finish(70)


def hanging_dn(product: Product, seconds: float = 60.0) -> list[Figure]:
    """One DN's calls wait for a minute: the other lanes' freshness stays, pause and stop take effect."""
    job = product.job("hanging").start()
    job.wait_state(JobState.RUNNING)
    product.write(rate=100.0, writers=2)
    hung = product.warehouse.nodes()[0][0]
    try:
        with marked(product, job) as marker:
            let_pass(10)
            calm = time.monotonic()
            let_pass(seconds)
            began = time.monotonic()
            product.warehouse.dn_hanging(hung)
            let_pass(seconds)
            ended = time.monotonic()
            paused = _obeyed(job.pause)
            resumed = _obeyed(job.resume)
            stopped = _obeyed(job.stop)
    finally:
        product.warehouse.dn_hanging(None)
    product.quiet()
    job.start_again()
    job.wait_applied(job.expected())
    equal = job.applied() == job.expected() and job.compare().equal
    samples = _other_lanes(product, marker, hung)
    before = sorted(delay for committed, delay in samples if calm <= committed < began - 1)
    during = [(committed, delay) for committed, delay in samples if began <= committed < ended - 1]
    job.stop()
    return [
        *_freshness(before, during, began),
        *[
            Figure(f"{what} while a DN hangs, seconds", _said(took), f"{OBEYED_SECONDS:.0f} s", _in_time(took))
            for what, took in (("pause", paused), ("stop", stopped))
        ],
        Figure("resume while a DN hangs, seconds", _said(resumed)),
        Figure("after the DN answers again: ledger and tables", "compared", "equal", equal),
    ]


def _freshness(before: list[float], during: list[tuple[float, float]], began: float) -> list[Figure]:
    calm = percentile(before, 0.99) or 0.0
    rest = sorted(delay for committed, delay in during if committed >= began + BUMP_SECONDS)
    bump = max((delay for committed, delay in during if committed < began + BUMP_SECONDS), default=0.0)
    p99, everything = percentile(rest, 0.99) or 0.0, percentile(sorted(delay for _, delay in during), 0.99) or 0.0
    return [
        Figure(f"other lanes, p99 freshness of the minute before ({len(before)} markers)", f"{calm * 1000:.0f} ms"),
        Figure(
            f"other lanes, p99 freshness while a DN hangs, after {BUMP_SECONDS:.0f} s ({len(rest)} markers)",
            f"{p99 * 1000:.0f} ms ({p99 / calm:.2f} x)" if calm else "no markers",
            "1.5 x",
            bool(calm) and p99 <= 1.5 * calm,
        ),
        Figure(
            f"other lanes, longest in the first {BUMP_SECONDS:.0f} s, and p99 of the whole minute",
            f"{bump:.2f} s, {everything * 1000:.0f} ms",
            f"{BUMP_SECONDS:.0f} s",
            bump <= BUMP_SECONDS,
        ),
    ]


def _other_lanes(product: Product, marker: TimedMarker, hung: str) -> list[tuple[float, float]]:
    """(commit, delay) of the markers that are not on the hanging DN."""
    connection = product.connect()
    try:
        known = Statements.of(connection)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT o.order_no, {known.dn} FROM {TABLE} o WHERE o.cust < 0")
            place = {int(number): dict(known.names)[dn] for number, dn in cursor.fetchall()}
    finally:
        connection.close()
    return [(committed, delay) for number, committed, delay in marker.seen if place.get(number) not in (None, hung)]


def _obeyed(command: Callable[[float], float]) -> float | None:
    """Return the seconds until a command took effect; None if it did not within a minute."""
    try:
        return command(60)
    except Exception as error:
        print(f"not obeyed: {error}", flush=True)
        return None


def _said(seconds: float | None) -> str:
    return "not within 60 s" if seconds is None else f"{seconds:.1f}"


def _in_time(seconds: float | None) -> bool:
    return seconds is not None and seconds <= OBEYED_SECONDS


# -- d: nothing to do ------------------------------------------------------------------------------------------------


@dataclass
class Foreign:
    """Commits to another binlog table, which advance the source's global point."""

    product: Product
    commits: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        connection = self.product.warehouse.connect()
        with connection.cursor() as cursor:
            while not self._over.wait(0.2):
                cursor.execute("INSERT INTO ods.elsewhere SELECT coalesce(max(id), 0) + 1 FROM ods.elsewhere")
                self.commits += 1
        connection.close()

    def stop(self) -> None:
        self._over.set()


def idle(product: Product, seconds: float = 60.0) -> list[Figure]:
    """Foreign commits and the job's own registrations advance the global point; the job starts no task and its slot
    follows.
    """
    product.warehouse.create_table("ods.elsewhere", "id bigint", ("id",))
    product.warehouse.configure(Switches(register_moves_point=True))
    connection = product.warehouse.connect()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pgxc_register_full_sync_point('ods.elsewhere', 'foreign')")
    connection.close()
    job = product.job("idle").start()
    job.wait_state(JobState.RUNNING)
    let_pass(5)  # the remaining work of the copy and the start is done
    foreign = Foreign(product)
    thread = threading.Thread(target=foreign.run, daemon=True)
    thread.start()
    tasks, points, busy = _tasks(job), job.registered(), _cpu_seconds(job)
    let_pass(seconds)
    now_tasks, now_points, now_busy = _tasks(job), job.registered(), _cpu_seconds(job)
    foreign.stop()
    thread.join(10)
    job.stop()
    product.warehouse.configure(Switches())
    moved = sum(live > points[dn][0] and durable > points[dn][1] for dn, (live, durable) in now_points.items())
    return [
        Figure(
            f"idle for {seconds:.0f} s under {foreign.commits} foreign commits: Spark tasks started",
            str(now_tasks - tasks),
            "0",
            now_tasks == tasks,
        ),
        Figure(
            "idle: DNs whose both registered points moved", f"{moved} of {len(points)}", "all", moved == len(points)
        ),
        *[
            Figure(f"idle: CPU seconds of the {kind}", f"{now_busy[kind] - busy[kind]:.2f} of {seconds:.0f}")
            for kind in ("driver", "JVM")
        ],
    ]


def _tasks(job: Mirrored) -> int:
    report = until(lambda: job.view().report, 10, "a report")
    return report.tasks_started


def _cpu_seconds(job: Mirrored) -> dict[str, float]:
    times = {"driver": job.driver().cpu_times(), "JVM": job.jvm().cpu_times()}
    return {kind: float(one.user + one.system) for kind, one in times.items()}
