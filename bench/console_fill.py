"""The data with which the console is measured: a state store with running jobs whose DNs all change every two seconds.

`python -m bench.console_fill FOLDER --jobs 12 --dns 24 --every 2` is the writer, a separate process like a supervisor.
It records its own process as every job's supervisor and driver, so the jobs count as running while it runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.report import JobReport, LaneReport
from slotkeeper.core.launch import identity
from slotkeeper.core.launch.launch import Limits
from slotkeeper.core.launch.supervisor import Recorder
from slotkeeper.core.state.sqlite import Store

ROOT = Path(__file__).parents[1]
READY = "written"
_HEAD = """\
[sources.dws1]
dialect = "dws"
host = "127.0.0.1"
port = 9
database = "none"
user = "bench"
environment = "BENCH"

[sinks.mart]
kind = "postgres"
host = "127.0.0.1"
port = 9
database = "none"
user = "bench"

[state]
dir = "{state}"
"""
_JOB = """
[jobs.{job}]
source = "dws1"
sink = "mart"
[jobs.{job}.binlog]
binlog = true
"""
_CHANNEL = """
[[jobs.{job}.channels]]
from = "ods.{job}{table}"
into = "mart.{job}{table}"
"""


def names(jobs: int) -> list[str]:
    """Return the names of the jobs.

    >>> names(2)
    ['orders_01_rt', 'orders_02_rt']
    """
    return [f"orders_{number + 1:02}_rt" for number in range(jobs)]


@dataclass
class Writer:
    """A running writer and the configuration for its state store; `close` ends the writer."""

    config: Path
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, folder: Path, jobs: int, dns: int, every: float = 2.0, tables: int = 1) -> Writer:
        """Start a writer in an empty folder and wait for its first write; `tables` is the number for each job."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = folder / "slotkeeper.toml"
        config.write_text(_HEAD.format(state=folder / "state") + "".join(_jobs(jobs, tables)), encoding="utf-8")
        command = [sys.executable, "-m", "bench.console_fill", str(folder), "--jobs", str(jobs), "--dns", str(dns)]
        process = subprocess.Popen(
            [*command, "--every", str(every)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        if process.stdout.readline().strip() != READY:
            raise RuntimeError(f"the writer ended with {process.wait()}")
        return cls(config, process)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the writer."""
        self.process.terminate()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def _jobs(jobs: int, tables: int) -> Iterator[str]:
    for job in names(jobs):
        yield _JOB.format(job=job)
        for number in range(tables):
            yield _CHANNEL.format(job=job, table=f"_{number:03}" if number else "")


def begin(store: Store, jobs: list[str]) -> None:
    """Record a run of this process and some events for every job."""
    me = identity.of(os.getpid())
    for job in jobs:
        store.register_job(job, "slotkeeper.toml")
        store.begin_run(job, f"run-{job}")
        store.set_supervisor(f"run-{job}", me)
        store.set_driver(f"run-{job}", me)
        store.record_event(job, "recording", "the slot is registered on every DN")
    for job in jobs[::4]:
        store.record_event(job, "retrying", "dn_6003 does not answer")
        store.record_error(job, "source", "unreachable", "dn_6003: connection refused")


def write(store: Store, jobs: list[str], dns: int, turn: int) -> None:
    """Write the reports of one moment: every lane has advanced since the previous reports."""
    for number, job in enumerate(jobs):
        lanes = tuple(_lane(dn, turn, number) for dn in range(dns))
        report = JobReport(
            job,
            f"run-{job}",
            "RUNNING",
            epoch=3,
            lanes=lanes,
            changes=1_000_000 + turn * 977 * dns,
            tasks_started=40,
            registrations=turn,
            environment="BENCH",
        )
        if not store.put_report(report):
            raise RuntimeError(f"{job}: the store did not accept the report")


def _lane(dn: int, turn: int, job: int) -> LaneReport:
    latest = 88_000_000 + turn * 733 + dn
    at = latest - (turn * 7 + dn * 13 + job) % 400
    busy = (turn + dn) % 3 == 0
    retry = "retrying 2, next in 4 s" if job % 4 == 0 and dn == 3 else ""
    return LaneReport(
        f"dn_{6001 + dn}_{6002 + dn}", dn, "running", "applying" if busy else "idle", f"{at}/3", f"{latest}",
        f"{at - 40}", 1_000 + turn * 97 + dn, 0.1 * ((turn + dn) % 30), retry, at=at, latest_at=latest,
        behind=latest - at, shown=f"{at}",
    )  # fmt: skip


def main() -> int:
    """Run the writer until the process is terminated."""
    parser = argparse.ArgumentParser(prog="python -m bench.console_fill", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--dns", type=int, default=24)
    parser.add_argument("--every", type=float, default=2.0)
    given = parser.parse_args()
    began = datetime.now(timezone.utc)
    with Store.open(given.folder / "state", clock=SystemClock()) as store:
        jobs = names(given.jobs)
        begin(store, jobs)
        recorders = [Recorder(store, job, Limits()) for job in jobs]
        turn, due = 0, time.monotonic()
        while True:
            write(store, jobs, given.dns, turn)
            for recorder in recorders:
                recorder.tick()
            if turn == 0:
                print(READY, flush=True)
            turn += 1
            if turn % 60 == 0:
                store.record_event(jobs[0], "note", f"{turn} reports since {began:%H:%M:%S}")
            due += given.every
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    sys.exit(main())
