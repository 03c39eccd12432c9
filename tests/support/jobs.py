"""Real jobs for tests: real supervisors and FAKE drivers, all ended by their recorded identities afterwards."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch import control
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.launch import SUPERVISOR_LOCK, Launch, Limits
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store
from tests.support.waiting import until

FAST = Limits(
    poll=0.05, stop=0.5, grace=0.5, leftover=0.4, backoff_first=0.02, backoff_most=0.2, crashes=5, crash_window=60.0
)
FAKE = Launch(command=(sys.executable, str(Path(__file__).with_name("fake_driver.py"))), limits=FAST)
SOON = 60.0


@dataclass(frozen=True, slots=True)
class Jobs:
    """A state folder with jobs in it."""

    store: Store
    folder: Path

    def config(self, job: str, do: str = "run", alerts: str = "", **more: object) -> Path:
        """The file that sets the behaviour of the job's fake driver from its next start on; with `[alerts]`, as
        TOML."""
        path = self.folder / f"{job}.json"
        said = {"do": do, **more}
        lines = [f"{key} = {json.dumps(value)}" for key, value in said.items()]
        text = "\n".join([*lines, "[alerts]", alerts, ""]) if alerts else json.dumps(said)
        path.write_text(text, encoding="utf-8")
        return path

    def start(self, job: str, do: str = "run", limits: Limits = FAST, alerts: str = "", **more: object) -> JobStatus:
        """Start a job and wait until its fake driver has reported or exited."""
        config = str(self.config(job, do, alerts, **more))
        return control.start(self.store, job, config, replace(FAKE, limits=limits), patience=Patience(SOON))

    def view_of_job(self, job: str) -> JobStatus:
        return observe(self.store, job)

    def pids(self, job: str, what: str = "started") -> list[int]:
        """The pids of the job's fake drivers (or of their children), in the order of their starts."""
        noted = self.folder / f"{job}.json.{what}"
        return [int(line) for line in noted.read_text(encoding="ascii").split()] if noted.exists() else []

    def told(self, job: str) -> list[str]:
        return [event.event for event in reversed(self.store.events(job, 1_000))]

    def kill_supervisor(self, job: str) -> int:
        """SIGKILL the recorded supervisor, wait for its exit, and return its pid."""
        supervisor = self.view_of_job(job).supervisor
        assert supervisor is not None
        assert processes.alive(supervisor)
        os.kill(supervisor.pid, signal.SIGKILL)
        until(lambda: not processes.alive(supervisor), SOON, "the supervisor is dead")
        return supervisor.pid

    def end_all(self) -> None:
        """End every recorded process, including restarted ones, until no supervisor holds its lock."""
        for job in [row.name for row in self.store.jobs()]:
            until(lambda job=job: self._end(job), 20, f"all processes of {job} have ended")  # type: ignore[misc]

    def _end(self, job: str) -> bool:
        recorded = self.store.runs(job)
        for run in recorded:
            self.store.end_run(run.run, None, "end of the test")
        known = [identity for run in recorded for identity in (run.supervisor, run.driver) if identity is not None]
        for identity in known:
            processes.kill_members(identity)
        lock = self.store.folder.try_lock(job, SUPERVISOR_LOCK)
        if lock is None:
            return False
        lock.release()
        return not any(processes.members(identity) for identity in known)


def main() -> None:
    """`python -m tests.support.jobs DIR JOB [here]`: start a job whose file is written, as a shell would."""
    folder, job, here = Path(sys.argv[1]), sys.argv[2], "here" in sys.argv[3:]
    with Store.open(folder / "state") as store:
        try:
            if here:
                ended = control.run_here(store, job, str(folder / f"{job}.json"), FAKE)
                print("ended", ended.state.value, flush=True)
                return
            view = control.start(store, job, str(folder / f"{job}.json"), FAKE, patience=Patience(SOON))
            print("started", view.state.value, flush=True)
        except SlotkeeperError as error:
            print("refused", error.message, flush=True)


if __name__ == "__main__":
    main()
