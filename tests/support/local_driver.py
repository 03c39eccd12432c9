"""The driver of `slotkeeper.core.spark.job` with threads instead of Spark: a real supervised job, for tests.

Everything else is the product's: reports, desired states, exit codes, the watchman. `LOCAL` is how a supervisor starts
it. A test sets the variables below before it starts a job: the way of each step (optimistic, general or missed) is then
counted across kills, one letter a step in one file, with a threshold for few rows. `arm` makes the next call of a named
point kill the driver.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program's own folder is on its path, not the one above tests

from slotkeeper.core.engine.driver import start
from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.launch.launch import Launch
from slotkeeper.core.sinks.postgres.write import routing
from slotkeeper.core.sinks.postgres.write.optimistic import Taken
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink
from slotkeeper.core.spark import job

LEAST, FILE = "SLOTKEEPER_TEST_LEAST_INSERTS", "SLOTKEEPER_TEST_STEPS_FILE"
TASKS = "SLOTKEEPER_TEST_TASKS"
KILL = "SLOTKEEPER_TEST_KILL_FILE"
_LETTERS = "ogmsw"
"""The names of `Taken`'s counts; a missed or a small step also counts as a general one."""


def obey(environ: Mapping[str, str]) -> None:
    """Lower the threshold and count the steps, if the environment requests it; for a test's own process."""
    if LEAST in environ:
        vars(routing)["LEAST"], vars(routing)["SHARE"] = int(environ[LEAST]), 1_000_000
    if FILE in environ:
        _count(Path(environ[FILE]))


def _count(file: Path) -> None:
    written = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(sink: PostgresSink, *arguments: Any) -> Any:
            before = astuple(sink.taken)
            done = call(sink, *arguments)
            after = astuple(sink.taken)
            letters = "".join(letter * (now - then) for letter, now, then in zip(_LETTERS, after, before, strict=True))
            if letters:
                os.write(written, letters.encode())
            return done

        return run

    commit, count = counted(PostgresSink.commit), counted(PostgresSink.count_small)
    alone = PostgresSink.count_small
    PostgresSink.commit = commit  # type: ignore[method-assign]
    PostgresSink.count_small = lambda sink, step, swept=True: (count if swept else alone)(sink, step, swept)  # type: ignore[assignment, method-assign]


def counts(file: Path) -> Taken:
    """The outcomes of the steps so far, except of steps whose driver was killed between COMMIT and its letter."""
    letters = file.read_text("ascii") if file.exists() else ""
    return Taken(*(letters.count(letter) for letter in _LETTERS))


def arm(file: Path, point: str, nth: int) -> None:
    """Have a driver with `KILL` in its environment killed at the nth call of a point; the file is removed before."""
    with_new = file.with_suffix(".new")
    with_new.write_text(f"{point} {nth}")
    with_new.rename(file)


def _armed(file: Path) -> Callable[[str], None]:
    calls = itertools.count(1)

    def probe(point: str) -> None:
        try:
            wanted, nth = file.read_text().split()
        except FileNotFoundError:
            return
        if point == wanted and next(calls) >= int(nth):
            file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    return probe


LOCAL = Launch(command=(sys.executable, str(Path(__file__))))
LEASE_WAIT = 3.0
"""Seconds for which a start waits for a lease that another session holds, instead of 30."""


class Local(LocalRunner):
    """The driver's calls of Spark besides running tasks."""

    lost = False

    def end_by(self, at: float) -> None:
        """Do nothing: the driver waits for nothing."""


def main() -> int:
    vars(start)["LEASE_WAIT"] = LEASE_WAIT
    vars(job)["open_runner"] = lambda *_: Local(int(os.environ.get(TASKS, "4")))
    obey(os.environ)
    if KILL in os.environ:
        probe, run = _armed(Path(os.environ[KILL])), vars(job)["run_job"]
        entries.probe = probe
        vars(job)["run_job"] = lambda context: run(replace(context, probe=probe))
    return job.main()


if __name__ == "__main__":
    job.leave(main())
