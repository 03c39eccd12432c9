"""A job of the second pair under a real supervisor, with the product's driver as a process of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobView
from slotkeeper.core.launch import control
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.launch import Launch
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store
from tests.support.jobs import FAST, Jobs
from tests.support.mirror import Mirror
from tests.support.waiting import until

DRIVER = Path(__file__).with_name("driver.py")
SECONDS = 120.0


class Configured(Protocol):
    """A job that can be written down as a configuration."""

    @property
    def mirror(self) -> Mirror:
        """The job."""

    def config(self, folder: Path) -> Path:
        """Write it, with a state folder of its own."""


@dataclass(frozen=True, slots=True)
class Supervised:
    """The job, and the state store of its host."""

    pair: Configured
    store: Store

    @property
    def view(self) -> JobView:
        return observe(self.store, self.pair.mirror.job.name)

    def wait_for(self, state: JobState) -> JobView:
        def there() -> bool:
            view = self.view
            assert view.state is not JobState.FAILED or state is JobState.FAILED, (view, self.log)
            return view.state is state

        until(there, SECONDS, f"the job to be {state.value}")
        return self.view

    @property
    def log(self) -> str:
        return self.store.folder.log(self.pair.mirror.job.name).read_text("utf-8")

    def kill_driver(self) -> None:
        """SIGKILL the recorded driver, and wait until its supervisor has started another."""
        was = self.view.driver
        assert was is not None and processes.alive(was)
        os.kill(was.pid, signal.SIGKILL)
        until(lambda: self.view.driver not in (None, was) and self.view.driver_alive, SECONDS, "another driver")

    def stop(self) -> JobView:
        return control.stop(self.store, self.pair.mirror.job.name, Patience(SECONDS))


@contextmanager
def supervised(pair: Configured, folder: Path, runs_on: str) -> Iterator[Supervised]:
    """Start it, on "local" threads or on "spark", and end all of its processes by their identities afterwards."""
    path = pair.config(folder)
    with Store.open(folder / "state") as store:
        launch = Launch(command=(sys.executable, str(DRIVER), runs_on), limits=FAST)
        try:
            control.start(store, pair.mirror.job.name, str(path), launch, patience=Patience(SECONDS))
            yield Supervised(pair, store)
        finally:
            Jobs(store, folder).end_all()
