"""The driver: one job's engine on Spark, `python -m slotkeeper.core.spark.job`; its supervisor or `run` starts it.

The exit codes are a contract with `slotkeeper.core.launch.verdict`: 0 ended as requested, 2 configuration, 10 FAILED,
11 SUPERSEDED, 12 ended by SIGTERM; any other code is a crash, and the job is restarted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config import masking
from slotkeeper.core.config.load import load_usable, text_of
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.config.patterns import with_known
from slotkeeper.core.config.tls import job_warnings
from slotkeeper.core.domain.copy_limit import CopyLimit
from slotkeeper.core.domain.job import JobEvent, TableWanted, WantedState
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.source_waits import SourceWait
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers.deadline import cut_off
from slotkeeper.core.engine.driver.context import CopyBudget, JobContext
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.core.engine.driver.tables import run as run_job
from slotkeeper.core.engine.driver.upkeep import LockWatch, Pulse
from slotkeeper.core.errors import Busy, ConfigError, ErrorKind, Refused, SlotkeeperError, Superseded, Unreachable
from slotkeeper.core.launch import identity
from slotkeeper.core.launch.hosts import moved_away, refuse_owned
from slotkeeper.core.launch.launch import OWNER
from slotkeeper.core.launch.supervisor import ensure_supervisor
from slotkeeper.core.launch.verdict import CONFIGURATION, ENDED, FAILED, NO_CLUSTER, SUPERSEDED, TAKEN_OVER, TERMINATED
from slotkeeper.core.services.audit import DriverAudit
from slotkeeper.core.sources import registry
from slotkeeper.core.spark.cluster import CLUSTER_GONE
from slotkeeper.core.spark.narrator import SlotWatch, StoreNarrator
from slotkeeper.core.spark.runner import SparkRunner, open_runner
from slotkeeper.core.state import files, steering
from slotkeeper.core.state.files import StoredConsents, points_proven
from slotkeeper.core.state.sqlite import StateError, Store
from slotkeeper.core.state.steering import StoredTries
from slotkeeper.core.wiring.driver import PASSING, SourceTables, WiredSessions, locks_at, pinged, source_waits_at
from slotkeeper.core.wiring.worker import ENTRIES, store_session

CRASHED = 1
POLL_SECONDS = 3.0
CUT_OFF_AFTER = 4.0
"""Seconds that a job has for a clean end; slightly less than the loop's own limit for its tasks."""
CUT_OFF_EVERY = 0.25
SPARK_WITHIN = 6.5
"""Seconds after which the job no longer waits for Spark to end; the supervisor kills its processes 1.5 s later."""


class WantedStates:
    """The desired state of the job: read from the store, or a stop once SIGTERM or SIGINT has arrived."""

    def __init__(self, store: Store, job: str) -> None:
        self._store, self._job = store, job
        self._clock = SystemClock()
        self._read_at = 0.0
        self._known = WantedState.RUN
        self._tables_at = 0.0
        self._of_tables: Mapping[str, TableWanted] = {}
        self._limit_at = 0.0
        self._limit: CopyLimit | None = None
        self.spark: SparkRunner | None = None
        self.terminated = threading.Event()

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Record the request to stop the job."""
        self.terminated.set()

    def now(self) -> WantedState:
        """Return the desired state, read at most four times per second; raises an error if Spark has died."""
        if self.terminated.is_set():
            return WantedState.STOP
        if self._clock.monotonic() - self._read_at > 0.25:
            self._read_at = self._clock.monotonic()
            if self.spark is not None and (reason := self.spark.lost):
                # an idle job sends no tasks to Spark, so it would notice the loss only at the next change
                raise Unreachable(reason, where="spark", code=self.spark.lost_code)
            with suppress(Busy, StateError):  # busy or missing for now: the last desired state still applies
                self._known = self._store.wanted(self._job)
        return self._known

    def of_tables(self) -> Mapping[str, TableWanted]:
        """Return the desired states of single tables, also read at most four times per second."""
        if self._clock.monotonic() - self._tables_at > 0.25:
            self._tables_at = self._clock.monotonic()
            with suppress(Busy, StateError):
                self._of_tables = steering.wanted(self._store, self._job)
        return self._of_tables

    def copy_limit(self) -> CopyLimit | None:
        """Return the limit that a user has set for the job's copies, read at most once per second."""
        if self._clock.monotonic() - self._limit_at > 1.0:
            self._limit_at = self._clock.monotonic()
            with suppress(Busy, StateError):
                self._limit = steering.copy_limit(self._store, self._job)
        return self._limit

    def seconds(self) -> float:
        return self._clock.monotonic()

    def pause(self, seconds: float) -> None:
        """Wait up to `seconds`, in short intervals, while the desired state is RUN."""
        end = self._clock.monotonic() + seconds
        while (left := end - self._clock.monotonic()) > 0 and self.now() is WantedState.RUN:
            self.terminated.wait(min(left, 0.25))


class Ending(threading.Thread):
    """Repeatedly aborts waiting calls of the driver if the job does not end in time after a request to end.

    `jobs stop` must not take more than ten seconds, but each of the driver's calls can take that long. An aborted call
    counts as a lost answer; the next start checks the result (docs/adr/0002-progress-row-and-fence.md).
    """

    def __init__(self, wanted_states: WantedStates) -> None:
        super().__init__(name="slotkeeper-ending", daemon=True)
        self._wanted_states = wanted_states
        self._asked = wanted_states.terminated
        self._done = threading.Event()

    def run(self) -> None:
        self._asked.wait()
        asked_at = self._wanted_states.seconds()
        while True:
            if self._wanted_states.spark is not None:  # Spark may still be starting
                self._wanted_states.spark.end_by(asked_at + SPARK_WITHIN)
            if self._done.wait(CUT_OFF_EVERY):
                return
            if self._wanted_states.seconds() >= asked_at + CUT_OFF_AFTER:
                cut_off()

    def stop(self) -> None:
        self._done.set()
        self._asked.set()


class Watchman(threading.Thread):
    """Checks every few seconds that the job's supervisor is running."""

    def __init__(self, folder: Path, job: str, run: str) -> None:
        super().__init__(name="watchman", daemon=True)
        self._place = (folder, job, run)
        self._done = threading.Event()

    def run(self) -> None:
        said = ""
        while not self._done.wait(POLL_SECONDS):
            try:
                folder, job, run = self._place
                with Store.open(folder) as store:
                    ensure_supervisor(store, job, run, identity.of(os.getpid(), run))
                said = ""
            except (SlotkeeperError, OSError) as error:
                # a busy store must not end the checks: the next check tries again
                if said != (said := str(error)):
                    _say(f"cannot check the supervisor: {error}")

    def stop(self) -> None:
        self._done.set()


def drive(options: argparse.Namespace) -> int:
    """Run the job; return the exit code."""
    with Store.open(Path(options.state_dir)) as store:
        # whether this driver replaces a driver that crashed, in this run or in a run that was killed
        kept = files.kept_config(store.folder, options.run)
        established = kept is not None or _last_ended(store, options.job, None)
        loaded, job = _job(options, store)
        for warning in job_warnings(job):
            _say(f"warning: {warning}")
        store.set_driver(options.run, identity.of(os.getpid(), options.run))
        wanted_states = WantedStates(store, job.name)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, wanted_states.on_signal)
        watchman, ending = Watchman(Path(options.state_dir), job.name, options.run), Ending(wanted_states)
        if not options.foreground:
            watchman.start()
        ending.start()
        try:
            code = _drive(loaded, job, options, store, wanted_states, established)
        finally:
            watchman.stop()
            ending.stop()
        with suppress(Busy, StateError):  # only a supervisor that adopted this driver reads the code
            store.note_exit(options.run, code)
        return code


def _drive(
    loaded: Loaded,
    job: JobSpec,
    options: argparse.Namespace,
    store: Store,
    wanted_states: WantedStates,
    established: bool,
) -> int:
    runner: SparkRunner | None = None
    beside: list[_Beside] = []
    proven = points_proven(Path(options.state_dir), job.source.name, job.source.place)
    sessions = WiredSessions(job, options.run, points_proven=proven, owner=options.owner)
    discovery = SourceTables(job, store.folder) if job.patterns else None
    folder = _spark_folder(store, job, options)
    try:
        refuse_owned(job, options.owner)
        runner = open_runner(job.spark, f"slotkeeper {job.name}", folder, _say, (job.source_kind, job.sink_kind))
        wanted_states.spark = runner
        narrator = StoreNarrator(store, job, options.run, SystemClock(), runner)
        if discovery is not None:
            job = _resolved(job, discovery, narrator, wanted_states)
            loaded, sessions = replace(loaded, jobs={**loaded.jobs, job.name: job}), sessions.apart(job)
            narrator = StoreNarrator(store, job, options.run, SystemClock(), runner)
        beside += _asked_beside(loaded, job, store, narrator)
        wired = JobContext(
            *(job, sessions, runner, ENTRIES, narrator, wanted_states.now, wanted_states.pause),
            take_over=options.take_over,
            until_caught_up=options.until_caught_up,
            established=established,
            failed_before=_last_ended(store, job.name, FAILED),
            asked=wanted_states.of_tables,
            tries=StoredTries(store, job.name),
            recorded=_recorded(store, job),
            audit=DriverAudit(store.folder, lambda: store_session(job, "audit"), _say),
            consents=StoredConsents(store.folder, job.name),
            copies=CopyBudget(wanted_states.copy_limit),
            discovery=discovery,
            tell_views=narrator.tell_views,
            report_views=narrator.views,
            again=steering.StoredAgain(store, job.name, narrator.tell_again),
        )
        narrator.event(JobEvent.FINISHED if (end := run_job(wired)) is JobEnd.FINISHED else JobEvent.STOPPED, end.value)
        return TERMINATED if wanted_states.terminated.is_set() else ENDED
    except Superseded as error:
        _say(str(error))
        return _superseded(sessions, store, loaded, job, options.owner)
    except SlotkeeperError as error:
        return _failed(error, store, job, narrator if runner else None)
    finally:
        for one in beside:
            one.stop()
        sessions.close()
        if runner is not None:
            runner.close()
        with suppress(OSError):
            folder.rmdir()


def _superseded(sessions: WiredSessions, store: Store, loaded: Loaded, job: JobSpec, owner: str) -> int:
    by = ""
    with suppress(SlotkeeperError):  # with host and pid, which a user needs to stop the other start
        by = sessions.store().holder()
    ended = moved_away(store.folder, loaded, job.name) if owner else TAKEN_OVER
    with suppress(Busy, Refused, StateError):  # otherwise the supervisor records it, once Spark has ended as well
        store.apply(
            job.name,
            JobEvent.SUPERSEDED,
            f"{ended.reason}{by and f': the later start is {by}'}",
            ended.trouble,
            ended.safe,
        )
    return SUPERSEDED


def _spark_folder(store: Store, job: JobSpec, options: argparse.Namespace) -> Path:
    """Return the folder for the files of this run's Spark; remove files that killed drivers of this job left."""
    place = store.folder.subfolder("spark")
    for row in store.runs(job.name):
        if row.run == options.run or not (identity.alive(row.driver) or identity.elsewhere(row.driver)):
            shutil.rmtree(place / row.run, ignore_errors=True)
    return place / str(options.run)


LIST_AGAIN = 2.5
"""Seconds between two attempts to list the tables of a source that does not answer."""


def _resolved(job: JobSpec, discovery: SourceTables, narrator: StoreNarrator, wanted_states: WantedStates) -> JobSpec:
    """Return the job with the tables of its patterns; waits for a source that does not answer.

    After a stop, returns the job as configured, which ends at once.
    """
    while True:
        try:
            return discovery.first()
        except SlotkeeperError as error:
            if error.kind not in PASSING:
                raise
            narrator.retrying(f"cannot list the source's tables, retrying: {error.message}", error)
        wanted_states.terminated.wait(LIST_AGAIN)
        if wanted_states.now() is WantedState.STOP:
            return job


def _recorded(store: Store, job: JobSpec) -> dict[str, Position]:
    """Return each lane's position in its last report; empty if no report can be read."""
    read, found = registry.open(job.source_kind).positions.position, dict[str, Position]()
    with suppress(Busy, StateError, ValueError):
        row = store.job(job.name)
        for lane in row.report.lanes if row is not None and row.report is not None else ():
            if lane.position:
                found[lane.name] = read(lane.position)
    return found


def _last_ended(store: Store, job: str, code: int | None) -> bool:
    """Whether the job's previous run ended with exit code `code`; None means that the run recorded no exit code."""
    with suppress(Busy, StateError):
        return any(row.exit_code == code for row in store.runs(job)[1:2])
    return False


_Beside = Pulse | SlotWatch | LockWatch[LockWait] | LockWatch[SourceWait]


def _asked_beside(loaded: Loaded, job: JobSpec, store: Store, narrator: StoreNarrator) -> Iterator[_Beside]:
    for one in (
        Pulse(pinged(job), SystemClock(), narrator.unanswered),
        SlotWatch(loaded, job, store, narrator),
        LockWatch(locks_at(job), SystemClock(), narrator.lock_waits),
        LockWatch(source_waits_at(job), SystemClock(), narrator.source_waits),
    ):
        one.start()
        yield one


def _failed(error: SlotkeeperError, store: Store, job: JobSpec, narrator: StoreNarrator | None) -> int:
    why = error.hint or error.no_more
    _say(f"{error}" + (f" ({why})" if why else ""))
    if error.kind is ErrorKind.UNKNOWN and error.cause:
        _say(f"cause: {error.cause}")
    if error.where == "spark" and isinstance(error, Unreachable):
        return NO_CLUSTER if error.code == CLUSTER_GONE else CRASHED
    if narrator is not None:
        narrator.failed(error)
    else:
        with suppress(Busy, StateError):  # if the disk is full, only the exit code reports it
            store.apply(job.name, JobEvent.FAILED, str(error), "", error.hint)
    return CONFIGURATION if isinstance(error, ConfigError) else FAILED


def _job(options: argparse.Namespace, store: Store) -> tuple[Loaded, JobSpec]:
    """Return the configuration and job with which this run started; a changed file takes effect at the next start."""
    kept = files.kept_config(store.folder, options.run)
    file = Path(options.config)
    text = text_of(file) if kept is None else kept
    loaded = load_usable(file, os.environ, text=text, resolves=False)
    if options.job in loaded.refused:
        raise loaded.refused[options.job]
    if options.job not in loaded.jobs:
        raise ConfigError(f"{options.config}: unknown job {options.job!r}")
    job = loaded.jobs[options.job]
    if kept is None:
        for row in store.runs(job.name):
            files.drop_config(store.folder, row.run)  # removes the configurations of killed runs
        files.keep_config(store.folder, options.run, text)
    others = with_known({name: one for name, one in loaded.jobs.items() if one is not job}, store.folder.path)
    loaded = replace(loaded, jobs={**others, job.name: job})
    return loaded, replace(job, wait_ms=options.wait_ms) if options.wait_ms is not None else job


def _say(text: str) -> None:
    with suppress(OSError):  # the log's disk may be full, which is not a reason to end
        sys.stderr.write(safe(f"slotkeeper: {text}", 4_000) + "\n")


def main() -> int:
    """Run the job with the supervisor's or a foreground run's arguments; return the exit code."""
    masking.mask_tracebacks()
    parser = argparse.ArgumentParser(prog="python -m slotkeeper.core.spark.job")
    for name in ("--job", "--config", "--state-dir", "--run"):
        parser.add_argument(name, required=True)
    parser.add_argument("--take-over", action="store_true")
    parser.add_argument("--until-caught-up", action="store_true")
    parser.add_argument("--foreground", action="store_true")
    parser.add_argument(OWNER, default="")
    parser.add_argument("--wait-ms", type=int)
    try:
        return drive(parser.parse_args())
    except ConfigError as error:
        _say(f"{error}")
        return CONFIGURATION
    except StateError as error:
        _say(f"{error} ({error.hint})")
        return CRASHED


def leave(code: int) -> NoReturn:
    """End this process now: a normal exit would wait for threads, and so for a call that a DN does not answer."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())
