"""The processes of one supervised job: a test finds them from the job's records, and kills and ends no others."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import psutil

from slotkeeper.core.domain.report import JobView
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.launch import SUPERVISOR_LOCK
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store
from tests.support.waiting import until


class JobProcesses:
    """Supervisor, driver, JVM and Python workers of the job `name` in `store`."""

    name: str
    store: Store

    def view(self) -> JobView:
        """The job as the console sees it."""
        return observe(self.store, self.name)

    def events(self) -> list[str]:
        """Names of the job's events, the oldest first."""
        return [event.event for event in reversed(self.store.events(self.name, 1_000))]

    def log(self) -> str:
        """The job's log."""
        return self.store.folder.log(self.name).read_text(encoding="utf-8", errors="replace")

    def jvm(self) -> psutil.Process:
        """The JVM: the driver's child."""
        return until(lambda: next(iter(self._jvms()), None), 30, f"{self.name} to have a JVM")

    def workers(self) -> list[psutil.Process]:
        """The Python workers: children of the daemon that is the JVM's child."""
        found: list[psutil.Process] = []
        for jvm in self._jvms():
            with contextlib.suppress(psutil.Error):
                found += [worker for daemon in jvm.children() for worker in daemon.children()]
        return found

    def driver(self) -> psutil.Process:
        """The recorded driver; AssertionError where it is not running."""
        view = self.view()
        assert view.driver is not None
        assert view.driver_alive
        return psutil.Process(view.driver.pid)

    def _jvms(self) -> Iterator[psutil.Process]:
        view = self.view()
        if view.driver is not None and view.driver_alive:
            with contextlib.suppress(psutil.Error):
                yield from [one for one in psutil.Process(view.driver.pid).children() if one.name() == "java"]

    def kill_workers(self) -> None:
        """SIGKILL all Python workers: which of them is busy is chance."""
        for worker in until(self.workers, 30, f"{self.name} to have a worker"):
            killed(worker)

    def kill_supervisor(self) -> None:
        """SIGKILL the recorded supervisor."""
        known = self.view().supervisor
        assert known is not None
        assert processes.alive(known)
        os.kill(known.pid, signal.SIGKILL)
        until(lambda: not processes.alive(known), 10, "the supervisor to be dead")

    def left(self) -> list[int]:
        """Pids of this job's processes that are running."""
        known = [one for run in self.store.runs(self.name) for one in (run.supervisor, run.driver) if one]
        return sorted({pid for one in known for pid in processes.members(one)} - {os.getpid()})

    def end(self) -> None:
        """Kill every process of this job, also those that another of them starts meanwhile."""
        if self.store.job(self.name) is not None:
            until(self._ended, 30, f"all processes of {self.name} to end")

    def _ended(self) -> bool:
        recorded = self.store.runs(self.name)
        for run in recorded:
            self.store.end_run(run.run, None, "end of the test")
            for known in (run.supervisor, run.driver):
                if known is not None:
                    processes.kill_members(known)
        lock = self.store.folder.try_lock(self.name, SUPERVISOR_LOCK)
        if lock is None:
            return False
        lock.release()
        return not self.left()


def killed(process: psutil.Process) -> None:
    """SIGKILL a process and wait until it has exited."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    until(lambda: not _running(process), 10, "it to be dead")


def _running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
