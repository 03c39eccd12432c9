"""The detached process that starts a job's driver, monitors and records it, restarts it, and ends it on request.

`python -m slotkeeper.core.launch.supervisor --job J --config FILE --state-dir DIR --run RUN [--adopt]`: there is one
supervisor per running job, in its own session; it holds the job's supervisor lock as long as it runs. If it is killed,
the driver continues and calls `ensure_supervisor`, which starts another supervisor that adopts the driver by its
recorded identity.

The supervisor records a frame of the job every few seconds, and whenever the job's state changes. It also tracks the
source's newest positions over time, so that lags can be expressed in seconds, and it reports faults. If a record cannot
be written, it is skipped, and the job continues.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import FrameType

from slotkeeper.core.config import handover, masking
from slotkeeper.core.domain.elapsed import Curve, Lags
from slotkeeper.core.domain.job import WITH_PROCESS, JobEvent, JobState, WantedState, transition
from slotkeeper.core.domain.report import Identity, JobReport, JobStatus, LaneReport
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.tries import TryAnswer
from slotkeeper.core.errors import Busy, SlotkeeperError
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch import log
from slotkeeper.core.launch.alerting import Alerting
from slotkeeper.core.launch.host import HostReader
from slotkeeper.core.launch.launch import SUPERVISOR_LOCK, Launch, Limits, spawn_supervisor
from slotkeeper.core.launch.log import LAST_WORDS_LINES, last_words
from slotkeeper.core.launch.verdict import Crashed, CrashHistory, Ended, because, judge
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state import files
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.frames import GROUP, Base, Frame, Metrics
from slotkeeper.core.state.sqlite import Store
from slotkeeper.core.state.steering import StoredTries

_LOG_CHECK_SECONDS = 5.0
_CURVE_STEP = 300.0
_UNSEEN = Curve()


class Signals:
    """Makes SIGTERM, SIGINT and SIGCHLD end `wait` early; for a process's main thread only."""

    def __init__(self) -> None:
        self.asked_to_end = False
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Signals:
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler, the signal would not end the wait
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.close(self._reading)
        os.close(self._writing)

    def wait(self, seconds: float) -> None:
        readable, _, _ = select.select([self._reading], [], [], max(0.0, seconds))
        if readable:
            os.read(self._reading, 4096)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.asked_to_end = True


def ensure_supervisor(store: Store, job: str, run: str, driver: Identity) -> bool:
    """Record the calling driver, and start a supervisor if none is running; return True if one was started.

    Called every few seconds; while a supervisor is running, the call only reads one row and checks one pid. Two
    simultaneous callers are harmless, because the supervisor that does not get the lock exits immediately. Raises
    SlotkeeperError if no supervisor can be started; the driver reports that error, retries, and does not end.
    """
    row = store.run(run)
    if row is None or row.ended_at is not None:
        return False
    if row.driver != driver:
        store.set_driver(run, driver)
    if processes.alive(row.supervisor):
        return False
    lock = store.folder.try_lock(job, SUPERVISOR_LOCK)
    if lock is None:
        return False
    lock.release()
    known = store.job(job)
    spawn_supervisor(store.folder, job, known.config if known else "", run, adopt=True)
    return True


class Supervisor:
    """Monitors one run; `slotkeeper.core.launch.verdict` decides the next step, and the store has the run's state."""

    def __init__(self, store: Store, job: str, config: str, run: str, launch: Launch, signals: Signals) -> None:
        self._store, self._job, self._config, self._run = store, job, config, run
        self._launch = launch
        self._limits = launch.limits
        self._signals = signals
        self._child: subprocess.Popen[bytes] | None = None
        self._driver: Identity | None = None
        self._crashes, self._absences = CrashHistory(), CrashHistory()
        self._host = HostReader(store.folder.path)
        alerting = Alerting(store, self._say, job, config, run=run)
        self._recorder = Recorder(store, job, launch.limits, alerting, self._host)
        self._log_checked, self._log_fault = 0.0, False
        self._wanted = WantedState.RUN

    def run(self, adopt: bool) -> None:
        """Start or adopt the driver, wait for its end, and decide on the next step; repeat until the run ends."""
        if adopt:
            row = self._store.run(self._run)
            self._driver = row.driver if row else None
            said = "adopted" if processes.alive(self._driver) else "has also exited"
            pid = self._driver.pid if self._driver else "unknown"
            self._tell("driver adopted", f"supervisor had exited; driver pid {pid} {said}")
        else:
            # wait for processes that earlier runs left behind: two drivers of one job must not run at the same time
            for row in self._store.runs(self._job)[:3]:
                if row.driver is not None and not processes.elsewhere(row.driver):
                    self._clear(row.driver)
        while self._driver is not None or not self._stop_is_wanted():
            if self._driver is None and (refused := self._start()):
                self._finish(refused)
                return
            verdict = judge(self._wait_for_end(), self._noted_state(), self._stop_is_wanted())
            last, self._driver = self._driver, None
            over = verdict if isinstance(verdict, Ended) else self._crashed(verdict)
            self._clear(last)
            if over is not None:
                self._finish(over)
                return
        self._finish(Ended(None, JobEvent.STOPPED, "stopped while no driver was running"))

    # While the driver runs

    def _start(self) -> Ended | None:
        """Start the driver; return the run's end if the system rejects the start."""
        command = self._launch.driver(self._job, self._config, self._store.folder.path, self._run)
        try:
            output = self._store.folder.append(self._store.folder.log(self._job))
        except SlotkeeperError as error:
            return Ended(None, JobEvent.FAILED, f"the driver cannot be started: {error}")
        try:
            # the run's marker identifies leftover processes of exactly this run
            with handover.passed() as given:
                self._child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                    cwd=self._store.folder.path, env={**given.environment, processes.MARK: self._run},
                    pass_fds=given.descriptors,
                )  # fmt: skip
        except OSError as error:
            return Ended(None, JobEvent.FAILED, f"the driver cannot be started: {error}")
        finally:
            os.close(output)
        # A driver that has already ended is still a zombie of this process, so `_wait_for_end` finds its exit code. A
        # driver that cannot be recorded now, for example on a full disk, records itself later through
        # `ensure_supervisor`.
        with contextlib.suppress(ProcessLookupError, SlotkeeperError):
            self._driver = processes.of(self._child.pid, self._run)
            self._host.begins(self._child.pid, time.monotonic())
            self._store.set_driver(self._run, self._driver)
        self._event(JobEvent.BEGAN, "")
        self._tell("driver started", f"driver started, pid {self._child.pid}")
        return None

    def _wait_for_end(self) -> int | None:
        """Return the driver's exit code (negative: a signal); None if an adopted driver recorded no code."""
        asked: float | None = None
        while self._lives():
            self._bound_log()
            self._recorder.tick()
            if asked is None and self._stop_is_wanted():
                asked = time.monotonic() + self._limits.stop
                self._tell("stop asked", "driver asked to stop (SIGTERM)")
                if self._driver is not None:
                    processes.terminate(self._driver)
            if asked is not None and time.monotonic() > asked and self._driver is not None:
                self._tell("driver killed", "driver did not end in time: killing its session")
                processes.kill_members(self._driver)
                asked += self._limits.grace
            self._signals.wait(self._limits.poll)
        if self._child is not None:
            code = self._child.wait()
            self._child = None
            return code
        with contextlib.suppress(SlotkeeperError):
            row = self._store.run(self._run)
            return row.exit_code if row else None
        return None

    def _lives(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return processes.alive(self._driver)

    # After the driver's end

    def _crashed(self, crash: Crashed) -> Ended | None:
        """Report the crash and wait for the restart or a stop request; return the run's end after too many crashes."""
        crash = because(crash, self._host.out_of_memory())
        history = self._crashes if crash.counts else self._absences
        number = history.add(time.monotonic(), self._limits.crash_window)
        # include the last error of the driver or its Java process, if there is one
        with contextlib.suppress(SlotkeeperError, OSError):
            if words := last_words(log.last_lines(self._store.folder.log(self._job), LAST_WORDS_LINES)):
                crash = replace(crash, text=f"{crash.text}: {words}")
        with contextlib.suppress(SlotkeeperError):
            self._store.record_error(self._job, "", crash.code, f"driver ended: {crash.text}")
        if crash.counts and number >= self._limits.crashes:
            job, window = self._job, self._limits.crash_window
            to_do = "`slotkeeper jobs logs JOB` shows why; then remove the cause"
            reason = f"{number} crashes within {window:g} s, the last: {crash.text}; see `slotkeeper jobs logs {job}`"
            return Ended(crash.exit_code, JobEvent.FAILED, reason, safe=to_do)
        delay = min(self._limits.backoff_first * 2 ** (number - 1), self._limits.backoff_most)
        self._tell("driver crashed", f"{crash.text}; retrying {number}, next in {delay:g} s")
        until = time.monotonic() + delay
        shown, tries = None, StoredTries(self._store, self._job)
        seen = tries.last()
        while (left := until - time.monotonic()) > 0 and not self._stop_is_wanted():
            if shown != (shown := round(left)):
                self._event(JobEvent.CRASHED, f"retrying {number}, next in {shown} s (driver: {crash.text})")
            self._recorder.tick()
            for asked in tries.since(seen):
                tries.answer(asked.number, [TryAnswer(asked.table, tried=("its driver",))])
                return None
            self._signals.wait(min(self._limits.poll, left))
        return None

    def _clear(self, last: Identity | None) -> None:
        if last is None:
            return
        if processes.wait_gone(lambda: bool(processes.members(last)), self._limits.leftover):
            return
        self._tell("left-overs killed", f"processes of the ended driver were still running: {processes.members(last)}")
        processes.kill_members(last)

    def _stop_is_wanted(self) -> bool:
        if not self._signals.asked_to_end:
            with contextlib.suppress(StateError, Busy):  # keep the last known desired state
                self._wanted = self._store.wanted(self._job)
        return self._signals.asked_to_end or self._wanted is WantedState.STOP

    def _noted_state(self) -> JobState:
        """Return the recorded state; RUNNING while the store cannot be read, because the job is running."""
        try:
            row = self._store.job(self._job)
        except SlotkeeperError:
            return JobState.RUNNING
        return row.state if row else JobState.STOPPED

    def _finish(self, ended: Ended) -> None:
        reason = ended.reason
        if ended.event is JobEvent.STOPPED and self._signals.asked_to_end:
            reason = "its supervisor was terminated by SIGTERM, as during a shutdown"
        if ended.event is not None:
            self._event(ended.event, reason, ended.trouble, ended.safe)
        with contextlib.suppress(SlotkeeperError):
            self._store.end_run(self._run, ended.exit_code, reason)
        with contextlib.suppress(OSError):
            files.drop_config(self._store.folder, self._run)
        self._tell("run ended", reason)
        self._recorder.tick(now=True)

    def _event(self, event: JobEvent, reason: str, trouble: str = "", safe: str = "") -> None:
        """Apply an event, but retain a more precise reason that the driver has already recorded."""
        if self._noted_state() not in WITH_PROCESS:
            return
        with contextlib.suppress(SlotkeeperError):
            transition(self._noted_state(), event)
            self._store.apply(self._job, event, reason, trouble, safe)

    def _tell(self, event: str, text: str) -> None:
        with contextlib.suppress(SlotkeeperError):  # a full disk must not end the supervisor; the log may have space
            self._store.record_event(self._job, event, text)
        log.say(self._store.folder, self._job, text)

    def _say(self, event: str, text: str) -> None:
        """Record a message about alerts, as an event if it has a key, otherwise as a line of the log."""
        if event:
            self._tell(event, text)
        else:
            log.say(self._store.folder, self._job, text)

    def _bound_log(self) -> None:
        if time.monotonic() - self._log_checked > _LOG_CHECK_SECONDS:
            self._log_checked = time.monotonic()
            try:
                log.rotate(self._store.folder, self._job, self._limits.log_bytes, self._limits.log_files)
            except (SlotkeeperError, OSError) as error:
                if not self._log_fault:
                    self._tell("log not bounded", str(error))
                self._log_fault = True


class Recorder:
    """The frames of one job, recorded by its supervisor."""

    def __init__(
        self, store: Store, job: str, limits: Limits, alerting: Alerting | None = None, host: HostReader | None = None
    ) -> None:
        self._store, self._host = store, host
        self._metrics = Metrics(store)
        self._job, self._limits, self._alerting = job, limits, alerting
        self._base: Base | None = None
        self._due, self._taken = 0.0, 0
        self._state: JobState | None = None
        self._curves: dict[str, Curve] | None = None
        self._failed = False

    def tick(self, now: bool = False) -> None:
        """Record a frame and evaluate alerts if due, or immediately if `now`; cheap if not due."""
        try:
            state = self._store.state(self._job)
            if now or state is not self._state or time.monotonic() >= self._due:
                self._state = state
                self._due = time.monotonic() + self._limits.frame_every
                self._take()
        except SlotkeeperError as error:
            if not self._failed:
                self._failed = True
                log.say(self._store.folder, self._job, f"no frame could be recorded: {error}")
        if self._alerting is not None:
            self._alerting.tick(self._limits.alerts_every, now)

    def _take(self) -> None:
        at = datetime.fromtimestamp(self._store.now(), timezone.utc)
        view = observe(self._store, self._job)
        lags = self._lags(view, at)
        report = view.report if view.reported else None
        read = None if self._host is None else self._host.read
        host = None if read is None else read(at.timestamp(), time.monotonic(), view.driver, report)
        self._base = self._metrics.add(Frame(view, at, lags.known, lags.least, host), self._base)
        if self._taken % GROUP == 0:
            self._metrics.prune(self._job, at.timestamp(), self._limits.frames_kept, self._limits.frames_most)
        self._taken += 1

    def _lags(self, view: JobStatus, at: datetime) -> Lags:
        if view.report is None:
            return Lags()
        if self._curves is None:
            self._curves = self._remembered(at)
        if view.reported and view.reported_at is not None:
            _follow(self._curves, view.report, view.reported_at.timestamp())
        return lags_at(self._curves, view.report.lanes, at.timestamp())

    def _remembered(self, at: datetime) -> dict[str, Curve]:
        """Load the curves of earlier supervisors, so that a lag that began before a restart is still known."""
        kept = self._limits.frames_kept
        curves: dict[str, Curve] = defaultdict(lambda: Curve(kept))
        for frame in self._metrics.some(self._job, at - timedelta(seconds=kept), at, _CURVE_STEP):
            if (seen := frame.view).report is not None and seen.reported and seen.reported_at is not None:
                _follow(curves, seen.report, seen.reported_at.timestamp())
        return curves


def lags_at(curves: Mapping[str, Curve], lanes: Iterable[LaneReport], now: float) -> Lags:
    """Return the lags of lanes in seconds at `now`, calculated from the curve of each lane's name.

    A lane's position in this calculation is the position up to which all changes are applied. While no changes arrive,
    its progress row advances more slowly, because a job with many lanes settles a limited number of lanes per second.
    """
    known: dict[str, float | None] = {}
    least: dict[str, float] = {}
    for lane in lanes:
        here, curve = lane.done_to, curves.get(lane.name, _UNSEEN)
        known[lane.name] = None if here is None else curve.lag(here, now)
        if here is not None and known[lane.name] is None and lane.behind:
            least[lane.name] = curve.at_least(here, now)
    return Lags(known, least)


def _follow(curves: dict[str, Curve], report: JobReport, reported_at: float) -> None:
    for lane in report.lanes:
        if lane.latest_at is not None and lane.polled_age is not None:
            curves[lane.name].see(reported_at - lane.polled_age, lane.latest_at)


def supervise(job: str, config: str, folder: Path, run: str, adopt: bool) -> int:
    """Hold the job's supervisor lock, record this process, and monitor the run; also return 0 if the lock is taken."""
    with Store.open(folder) as store, Signals() as signals:
        row = store.run(run)
        if row is None or row.ended_at is not None:
            return 0
        lock = store.folder.try_lock(job, SUPERVISOR_LOCK)
        if lock is None:
            return 0
        before = os.umask(store.folder.umask)
        try:
            store.set_supervisor(run, processes.of(os.getpid(), run))
            Supervisor(store, job, config, run, Launch.parse(row.launch), signals).run(adopt)
        finally:
            os.umask(before)
            lock.release()
    return 0


def main() -> int:
    """Parse the arguments, detach and supervise; errors go to the job's log, which is this process's stderr."""
    masking.mask_tracebacks()
    parser = argparse.ArgumentParser(prog="slotkeeper.core.launch.supervisor")
    for name in ("--job", "--config", "--state-dir", "--run"):
        parser.add_argument(name, required=True)
    parser.add_argument("--adopt", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # continue in a process that leads its own session and has no terminal; the started process ends here
    if os.fork():
        os._exit(0)
    os.setsid()
    try:
        return supervise(given.job, given.config, Path(given.state_dir), given.run, given.adopt)
    except SlotkeeperError as error:
        sys.stderr.write(safe(f"supervisor of {given.job}: {error} ({error.hint})", 2_000) + "\n")
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
