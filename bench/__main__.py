"""`python -m bench`: snapshot and stream against PostgreSQL's own COPY and logical replication, in one run.

A round: ours copies, theirs copies; changes are recorded for both; ours catches up, theirs catches up. Rounds take
turns in who comes first. What is in and out of the timings stands in `bench/README.md`.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import Any

from bench import native, profile, report
from bench.ours import OurJob, job_of, open_runner
from bench.rig import PUBLISHER, TARGET, WAREHOUSE, Rig, Sizes, run
from core.embedded.orders import TABLE
from core.ports.driver import TaskRunner


class Bench:
    """All rounds of one run, and what they gave."""

    def __init__(self, rig: Rig, runner: TaskRunner) -> None:
        self.rig = rig
        self.runner = runner
        self.stream = report.Pair("stream catch-up", "logical_replication", "changes/s")
        self.snapshot = report.Pair("snapshot", "copy_to_copy", "rows/s")
        self.profile: dict[str, Any] = {}

    def round(self, number: int) -> None:
        """One round; the last one is profiled."""
        last = number == self.rig.sizes.rounds - 1
        sinks = self.rig.new_sinks(number)
        job = OurJob(self.rig, sinks[0], self.runner)
        self._snapshot(job, sinks, number)
        expected = self.rig.change_warehouse(number)
        if last:
            self.profile["one_step"] = asdict(profile.anatomy(job))
        self.rig.settle(sinks)
        native.prepare(self.rig, sinks[1])  # after all else, so that the WAL from here on holds its own changes only
        self.rig.change_publisher(number)
        self.rig.checkpoint()
        self._stream(job, sinks, number, expected)
        self._check(sinks)
        native.drop(self.rig, sinks[1])
        job.drop()
        self.rig.drop_sinks(sinks)

    def _snapshot(self, job: OurJob, sinks: tuple[str, str], number: int) -> None:
        self.rig.settle(sinks)
        seconds: dict[str, float] = {}
        for who in _turn(number):
            seconds[who] = job.copy() if who == "ours" else native.copy(self.rig, sinks[1])
        rows = self.rig.fingerprint(self.rig.sink, sinks[0], TARGET)[0]
        self._check(sinks)
        self.snapshot.add(rows, seconds["ours"], seconds["native"])
        say(f"round {number + 1}: snapshot {seconds['ours']:.2f} s, COPY | COPY {seconds['native']:.2f} s")

    def _stream(self, job: OurJob, sinks: tuple[str, str], number: int, expected: dict[str, int]) -> None:
        seconds: dict[str, float] = {}
        cpu: dict[str, dict[str, float]] = {}
        for who in _turn(number):
            profile.forget_statements(self.rig)
            before = profile.cpu(self.rig)
            if who == "ours":
                seconds[who] = job.catch_up(expected)
                self._note_ours(job, sinks[0])
            else:
                seconds[who] = native.catch_up(self.rig, sinks[1], number)
            cpu[who] = profile.spent(before, profile.cpu(self.rig))
        self.profile["cpu_seconds"] = cpu
        self.stream.add(self.rig.sizes.changes, seconds["ours"], seconds["native"])
        say(f"round {number + 1}: stream {seconds['ours']:.2f} s, logical replication {seconds['native']:.2f} s")

    def _note_ours(self, job: OurJob, database: str) -> None:
        self.profile["steps"] = profile.steps(job.recorder)
        self.profile["start_seconds"] = round(job.start_seconds, 3)
        self.profile["sink_statements"] = profile.top_statements(self.rig.sink, database)
        self.profile["source_statements"] = profile.top_statements(self.rig.source, WAREHOUSE)
        self.profile["retries"] = job.heard.retries

    def _check(self, sinks: tuple[str, str]) -> None:
        """All four tables hold the same rows, or the run is worth nothing."""
        rig = self.rig
        found = {
            "warehouse": rig.fingerprint(rig.source, WAREHOUSE, TABLE),
            "publisher": rig.fingerprint(rig.source, PUBLISHER, TABLE),
            "ours": rig.fingerprint(rig.sink, sinks[0], TARGET),
            "native": rig.fingerprint(rig.sink, sinks[1], TABLE),
        }
        if len(set(found.values())) != 1:
            raise SystemExit(f"the tables differ: {found}")


def _turn(number: int) -> tuple[str, str]:
    return ("ours", "native") if number % 2 == 0 else ("native", "ours")


def say(text: str) -> None:
    """Tell how far it is; standard output belongs to the table."""
    sys.stderr.write(f"bench: {text}\n")
    sys.stderr.flush()


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="rows of the table before the first round")
    parser.add_argument("--changes", type=int, default=350_000, help="4/7 inserts, 2/7 updates, 1/7 deletes a round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runner", choices=("spark", "local"), default="spark")
    parser.add_argument("--repeat", type=int, default=4, help="rounds")
    options = parser.parse_args()
    began = time.monotonic()
    machine = report.machine()
    say("two servers, four databases, the first rows")
    rig = Rig(Sizes(options.rows, options.changes, options.repeat, options.seed))
    try:
        runner, start_seconds = open_runner(options.runner, rig)
        try:
            bench = Bench(rig, runner)
            for number in range(options.repeat):
                bench.round(number)
        finally:
            runner.close()
        values = _values(bench, options, machine, start_seconds, time.monotonic() - began)
    finally:
        rig.close()
    print(report.table([bench.stream, bench.snapshot], options.repeat))
    print(f"the runner's start ({options.runner}), in neither: {start_seconds:.1f} s")
    print(report.profile_text(bench.profile))
    print(f"written: {report.write(values)}")
    return 0


def _values(
    bench: Bench, options: argparse.Namespace, machine: dict[str, Any], start_seconds: float, seconds: float
) -> dict[str, Any]:
    version = run(bench.rig.sink, "postgres", "SHOW server_version")[0][0]
    job = job_of(bench.rig, "any")
    return {
        "options": vars(options),
        "machine": {**machine, "postgresql": version, "load_at_end": report.machine()["load"]},
        "job": {"binlog": asdict(job.binlog), "sink_options": asdict(job.sink_options)},
        "stream": bench.stream.values(),
        "snapshot": bench.snapshot.values(),
        "runner_start_seconds": round(start_seconds, 2),
        "run_seconds": round(seconds),
        "profile": bench.profile,
    }


if __name__ == "__main__":
    sys.exit(main())
