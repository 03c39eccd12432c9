"""Run functions on Spark: one call is one Spark job with one partition, started from a thread of the driver.

The engine uses only `submit`, `cancel`, `keep_warm`, `close`, `capacity` and `tasks_started`; its local runner has
them.

A future returns the function's result, or raises the error that the worker classified. It can also raise:
`Unreachable(where="spark", code=SESSION_LOST)` if the session is lost (no call works: the supervisor restarts the
driver), `Unclassified(where="spark", code=WORKER_LOST)` if a worker died during a task (the next call works),
`concurrent.futures.CancelledError` if the call was cancelled; a cancelled task can still take effect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError, Py4JNetworkError

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.cluster import NO_EXECUTOR, Master, SessionLife
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.errors import Defect, Unclassified, Unreachable
from slotkeeper.core.spark import task
from slotkeeper.core.spark.cluster import CLUSTER_GONE, from_executor
from slotkeeper.core.spark.session import Context, open_context

SESSION_LOST = "spark session lost"
WORKER_LOST = "spark worker lost"
WARM_EVERY = 25.0
"""Seconds between warm-up tasks; Spark ends an idle worker, and so closes its connections, after one minute."""
WARM_FOR = 120.0
"""Seconds without work after which a job counts as idle and starts no more warm-up tasks."""
_MOST_CAPACITY = 64
"""Maximum number of threads on a cluster, which reports its number of task slots; this number can change."""
MUSTER_SECONDS = 60.0
Say = Callable[[str], None]
_NETWORK = (Py4JNetworkError, OSError, EOFError)


class SparkRunner:
    """Runs functions on Spark's workers; created from an open Context, which it closes."""

    def __init__(self, context: Context, clock: Clock | None = None) -> None:
        self.capacity = context.capacity
        self.tasks_started = 0
        self._context = context
        self._clock = clock or SystemClock()
        self._rdd = context.spark.parallelize([0], 1)
        self._pool = ThreadPoolExecutor(context.fixed_capacity or _MOST_CAPACITY, thread_name_prefix="place")
        self._lock = threading.Lock()
        self._serial = 0
        self._live: dict[Future[object], tuple[str, str]] = {}
        self._worked: float | None = None
        self._warmed, self._closed, self._lost = 0.0, False, ""
        self._watch = SessionWatch(context.executors, self._lose, self._clock)

    @property
    def lost(self) -> str:
        """The reason why Spark no longer works; "" while it works."""
        return self._lost or ("Spark's Java process has exited" if self._context.ended() else "")

    @property
    def lost_code(self) -> str:
        """The error code for a lost session: either the cluster or the Java process on this host is lost."""
        return CLUSTER_GONE if self._lost == NO_EXECUTOR else SESSION_LOST

    def watch(self) -> None:
        """Start the check that detects a session that is lost although its JVM is running."""
        self._watch.start()

    def _lose(self, reason: str) -> None:
        self._lost = reason
        self._context.kill()

    def submit(self, entry: Callable[[Any], Any], spec: object, group: str) -> Future[Any]:
        """Call `entry(spec)` on a worker; `cancel` identifies the call by `group`."""
        self._worked = self._warmed = self._clock.monotonic()
        return self._send(entry, spec, group, counted=True)

    def cancel(self, group: str) -> None:
        """Cancel every call of the group, waiting or running; returns at once, the worker exits a little later."""
        with self._lock:
            found = [(future, job_group) for future, (known, job_group) in self._live.items() if known == group]
        for future, job_group in found:
            if not future.cancel():
                # This also cancels a job that its thread is about to start, which cancelJobGroup alone would miss.
                with suppress(Exception):
                    self._context.spark._jsc.sc().cancelJobGroupAndFutureJobs(job_group)

    def keep_warm(self) -> Future[object] | None:
        """Start a warm-up task if a job with recent work would soon lose its workers; can be called at any time."""
        now = self._clock.monotonic()
        if self._closed or self._worked is None or now - self._worked > WARM_FOR or now - self._warmed < WARM_EVERY:
            return None
        return self.warm_up()

    def warm_up(self, entry: Callable[[Any], object] = task.nothing) -> Future[object]:
        """Start the first worker, which takes about a second, while the driver does other things."""
        self._warmed = self._clock.monotonic()
        return self._send(entry, None, "warm", counted=False)

    def end_by(self, at: float) -> None:
        """Set the monotonic time after which `close` no longer waits for Spark to end."""
        self._context.end_by(at)

    def close(self) -> None:
        """Cancel all calls and end Spark; can be called twice."""
        with self._lock:
            self._closed = True
            self._watch.stop()
            groups = {group for group, _ in self._live.values()}
        for group in groups:
            self.cancel(group)
        self._context.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _send(self, entry: Callable[[Any], object], spec: object, group: str, counted: bool) -> Future[object]:
        with self._lock:
            if self._closed:
                raise Defect("the runner is closed", where="spark")
            self._serial += 1
            job_group = f"{group}#{self._serial}"
            future = self._pool.submit(self._run, task.pack(entry), spec, job_group, counted)
            self._live[future] = (group, job_group)
        future.add_done_callback(self._forget)
        return future

    def _forget(self, future: Future[object]) -> None:
        with self._lock:
            self._live.pop(future, None)

    def _run(self, packed: task.Packed, spec: object, job_group: str, counted: bool) -> object:
        spark = self._context.spark
        if spark is None:
            raise CancelledError
        if counted:
            with self._lock:
                self.tasks_started += 1
        try:
            spark.setJobGroup(job_group, packed.name, False)
            answers = spark.runJob(self._rdd, partial(task.in_partition, packed, spec))
        except Exception as error:
            raise self._classified(error) from None
        finally:
            if counted:
                self._worked = self._warmed = self._clock.monotonic()
        if self._context.fixed_capacity is None:
            with suppress(Exception):  # the JVM is ending; the next submit reports it
                self.capacity = self._context.capacity
        return task.opened(answers[0])

    def _classified(self, error: Exception) -> Exception:
        """Convert an exception of py4j or Spark to a SlotkeeperError."""
        network, again = (
            isinstance(error, _NETWORK),
            "No action needed: the supervisor restarts the driver; nothing is lost.",
        )
        if self._context.ended(seconds=1.0 if network else 0.0) or network:
            what = self.lost or "Spark's Java process has exited"
            return Unreachable(what, again, self.lost_code, "spark", cause=type(error).__name__)
        text = str(error) if isinstance(error, Py4JJavaError) else repr(error)
        if "stopped SparkContext" in text or "SparkContext was shut down" in text:
            what, cause = "the Spark cluster has ended the job's application", text.split("\n", 1)[0][:500]
            return Unreachable(what, again, CLUSTER_GONE, "spark", cause)
        first = next((line for line in text.splitlines() if "Exception" in line or "abort" in line), text)[:500]
        if "cancelled" in first:
            return CancelledError()
        if (known := from_executor(text)) is not None:
            return known
        if "Python worker exited unexpectedly" in text:
            hint = "check the kernel's log: the host may have run out of memory"
            return Unclassified("a Spark worker exited during a task", hint, WORKER_LOST, "spark", cause=first)
        return Unclassified("Spark could not run a task", where="spark", cause=first)


def open_runner(
    options: SparkOptions, name: str, work_dir: Path, say: Say | None = None, kinds: tuple[str, ...] = ()
) -> SparkRunner:
    """Start Spark for the job `name` and return a runner; on a cluster, `say` receives the names of the executors.

    The modules of the job's source and sink `kinds` are imported before workers are forked, and the first worker starts
    while the caller queries its servers. Raises the errors of `open_context`, and Unreachable if a cluster provides no
    executor within a minute.
    """
    runner = SparkRunner(open_context(options, name, work_dir, kinds))
    if not Master.parse(options.master).ships:
        runner.watch()
        if kinds:
            runner.warm_up()
        return runner
    try:
        workers = runner.warm_up(task.whereabouts).result(MUSTER_SECONDS)
        if say is not None:
            say(str(workers))
    except TimeoutError:
        runner.close()
        hint = "check that the cluster has workers with free cores and memory (spark.executor.memory, spark.cores.max)"
        what = f"the Spark cluster provided no executor within {MUSTER_SECONDS:.0f} s"
        raise Unreachable(what, hint, CLUSTER_GONE, "spark") from None
    except BaseException:
        runner.close()
        raise
    runner.watch()
    return runner


ASK_EVERY = 2.0
"""Seconds between two queries."""


class SessionWatch:
    """Queries the number of Spark's executors, and calls `lost` once, with the reason, if the session is lost.

    Two threads run from `start` to `stop`. The query has a thread of its own, because py4j waits for a silent Java
    process without a time limit.
    """

    def __init__(self, executors: Callable[[], int], lost: Callable[[str], None], clock: Clock) -> None:
        self._executors, self._lost, self._clock = executors, lost, clock
        self._answer: int | None = None
        self._done = threading.Event()

    def start(self) -> None:
        for each in (self._ask, self._judge):
            threading.Thread(target=each, name="slotkeeper-session", daemon=True).start()

    def stop(self) -> None:
        """Stop the queries; does not wait for a query that hangs."""
        self._done.set()

    def _ask(self) -> None:
        while not self._done.is_set():
            with suppress(Exception):  # no answer: the process has ended, or the context was stopped
                self._answer = self._executors()
            self._done.wait(ASK_EVERY)

    def _judge(self) -> None:
        life, before = SessionLife(), self._clock.monotonic()
        while not self._done.wait(ASK_EVERY):
            now = self._clock.monotonic()
            answer, self._answer = self._answer, None
            # During a gap between two turns, this process did not run either, so the gap proves nothing about Spark.
            life, before = life.after(min(now - before, 2 * ASK_EVERY), answer), now
            if life.lost:
                self._lost(life.lost)
                return
