"""`python -m bench.mysql_job`: compares a job from MariaDB into PostgreSQL with MariaDB's own replica, on the same
binlog.

It starts three servers on this host: a source, its replica, and a PostgreSQL. Rows are written while neither side
applies them; then each side in turn applies all of them while the other is stopped, timed from its start until the last
row is visible there. The job uses the local runner, so neither timing includes Spark's own start. `bench/README.md`
describes what the timings include and exclude.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench import report
from bench.mysql_decode import fill
from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, JobSpec, SinkOptions
from slotkeeper.core.drivers import my
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.engine.driver.tables import run as run_job
from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.core.wiring.driver import WiredSessions
from slotkeeper.core.wiring.worker import ENTRIES
from slotkeeper.demo import mariadb, postgres
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.postgres import Server

SCHEMA, TABLE, TARGET = "bench", "bench.mixed", "mart.mixed"
_SECONDS = 600.0


@dataclass
class Told:
    """The job's reports; implements `slotkeeper.core.engine.driver.context.Narrator`."""

    state: LaneState | None = None
    retries: list[str] = field(default_factory=list)

    def event(self, *_: object) -> None: ...
    def copy(self, *_: object) -> None: ...
    def quarantined(self, *_: object) -> None: ...
    def table(self, *_: object) -> None: ...
    def stored(self, *_: object) -> None: ...
    def waits(self, *_: object) -> None: ...
    def shared_reader(self, *_: object) -> None: ...
    def joined(self, *_: object) -> None: ...
    def skipped(self, *_: object) -> None: ...
    def lanes(self, lanes: object, state: LaneState, *_: object) -> None:
        self.state = state

    def retrying(self, text: str, by: object = None) -> None:
        if text:
            self.retries.append(text)


class Job:
    """The job in a thread, until it is stopped."""

    def __init__(self, job: JobSpec) -> None:
        self._job, self.told, self._wanted = job, Told(), WantedState.RUN
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None
        self._thread.start()

    def _run(self) -> None:
        sessions = WiredSessions(self._job, "bench")
        context = JobContext(self._job, sessions, LocalRunner(2), ENTRIES, self.told, lambda: self._wanted, time.sleep)
        try:
            run_job(context)
        except BaseException as error:  # raised in `wait`: a thread has no caller
            self._error = error
        finally:
            sessions.close()

    def wait(self, condition: Callable[[], bool], seconds: float = _SECONDS) -> None:
        """Wait until the condition is true; raises the error that ended the job."""
        wait(lambda: condition() or self._error is not None, seconds)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop the job."""
        self._wanted = WantedState.STOP
        self._thread.join(_SECONDS)


def wait(condition: Callable[[], bool], seconds: float = _SECONDS) -> None:
    """Wait until the condition is true; raises TimeoutError if it does not become true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(0.02)


def session_of(server: MariaServer) -> my.Session:
    """Open a session of the server's superuser."""
    return my.connect(server.endpoint("b"), server.password(), "slotkeeper/bench", _SECONDS)


_LAST = "SELECT count(*) FROM {} WHERE id = {}"
"""Both sides apply transactions in order, so the last row shows that all are there; counting all of them would cost
more CPU than applying them."""


def cpu_seconds(source: int, target: int) -> dict[str, float]:
    """Return the CPU seconds so far of the source, of the target, and of this process; the servers are pids."""
    found = {"programs": time.process_time()}
    for party, pid in (("source", source), ("target", target)):
        server = psutil.Process(pid)
        used = [one.cpu_times() for one in (server, *server.children(recursive=True))]
        # an ended backend counts for the server that awaited it
        found[party] = sum(one.user + one.system + one.children_user + one.children_system for one in used)
    return found


def replicated(replica: my.Session, rows: int) -> float:
    """Return the seconds until the replica has all rows."""
    began = time.perf_counter()
    replica.rows("START SLAVE")
    wait(lambda: int(replica.rows(_LAST.format(TABLE, rows))[0][0]) > 0)
    taken = time.perf_counter() - began
    replica.rows("STOP SLAVE")
    return taken


def mirrored(job: JobSpec, sink: Server, rows: int, target: str = TARGET, seconds: float = _SECONDS) -> float:
    """Return the seconds until the target has all rows; raises RuntimeError if it has others."""
    began = time.perf_counter()
    run = Job(job)
    with closing(sink.connect("mart")) as connection, connection.cursor() as cursor:

        def there() -> bool:
            cursor.execute(_LAST.format(target, rows))
            return int(cursor.fetchall()[0][0]) > 0

        run.wait(there, seconds)
        taken = time.perf_counter() - began
        run.stop()
        cursor.execute(f"SELECT count(*) FROM {target}")
        if (found := int(cursor.fetchall()[0][0])) != rows:
            raise RuntimeError(f"{found} rows in the target, {rows} in the source")
    return taken


def measure(source: MariaServer, replica: MariaServer, sink: Server, rows: int, repeat: int) -> dict[str, Any]:
    """Measure rounds of the same rows, alternating the order of the sides."""
    first, second = session_of(source), session_of(replica)
    fill(first, 0, 0.2)
    follow = "CHANGE MASTER TO MASTER_HOST=%s, MASTER_PORT=%s, MASTER_USER=%s, MASTER_PASSWORD=%s"
    login = (mariadb.HOST, source.port, mariadb.SUPERUSER, source.password())
    second.rows(f"{follow}, MASTER_USE_GTID=slave_pos", login)
    second.rows("START SLAVE")
    made = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'mixed'"
    wait(lambda: bool(second.rows(made, (SCHEMA,))))
    second.rows("STOP SLAVE")
    job = JobSpec(
        "bench",
        source.endpoint("source"),
        sink.endpoint("mart"),
        "bench",
        (ChannelSpec(TABLE, TARGET, create_target=True),),
        source_kind="mysql",
        binlog=BinlogOptions(binlog=True),
        sink_options=SinkOptions(auto_flush_batch_size=10_000),
    )
    begun = Job(job)
    begun.wait(lambda: begun.told.state is LaneState.RUNNING)
    begun.stop()
    ratios, of_cpu, taken, used = [], [], [], []
    beside = {"ours": sink.pid, "theirs": mariadb.running_pid(replica.folder)}
    for number in range(repeat):
        rows_then = rows * (number + 1)
        insert(first, rows * number, rows_then)
        runs: dict[str, Callable[[], float]] = {
            "ours": lambda then=rows_then: mirrored(job, sink, then),  # type: ignore[misc]
            "theirs": lambda then=rows_then: replicated(second, then),  # type: ignore[misc]
        }
        order = ("ours", "theirs") if number % 2 else ("theirs", "ours")
        pair, cpu = {}, {}
        for side in order:
            servers = mariadb.running_pid(source.folder), beside[side]
            before = cpu_seconds(*servers)
            pair[side] = runs[side]()
            cpu[side] = {party: used - before[party] for party, used in cpu_seconds(*servers).items()}
        taken.append({side: round(seconds, 2) for side, seconds in pair.items()})
        used.append({side: {party: round(one, 2) for party, one in each.items()} for side, each in cpu.items()})
        ratios.append(pair["theirs"] / pair["ours"])
        of_cpu.append(sum(cpu["theirs"].values()) / sum(cpu["ours"].values()))
        sys.stderr.write(f"bench: round {number + 1}: seconds {taken[-1]}, of CPU {used[-1]}\n")
    ratio = {"ratio": round(statistics.median(ratios), 2), "ratio_cpu": round(statistics.median(of_cpu), 2)}
    return {"rows": rows, **ratio, "seconds": taken, "cpu_seconds": used}


def insert(session: my.Session, begin: int, end: int) -> None:
    """Insert more rows, in transactions of a thousand."""
    values = "seq, seq % 100, seq * 1.2345, seq / 3, concat('name ', seq), now(6), repeat('text ', 4), seq % 100"
    for first in range(begin, end, 1000):
        session.rows(f"INSERT INTO {TABLE} SELECT seq, {values} FROM {SCHEMA}.seq_{first + 1}_to_{first + 1000}")


@contextmanager
def sides(folder: Path, servers: int) -> Iterator[tuple[list[MariaServer], Server]]:
    """Yield MariaDB servers, each with its own server id, and a PostgreSQL; raises ConfigError if MariaDB is not
    installed.
    """
    mariadb.find_programs()
    made: list[MariaServer] = []
    sink = postgres.start(folder / "sink", "sink", {"shared_buffers": "256MB"})
    try:
        for number in range(servers):
            made.append(mariadb.create(folder / f"maria{number}", {"server_id": str(77 + number)}))
        yield made, sink
    finally:
        for server in made:
            server.discard()
        postgres.discard(folder / "sink")


def compared(rows: int, repeat: int) -> dict[str, Any]:
    """Compare the job and the replica over the same rows; raises ConfigError if MariaDB is not installed."""
    with tempfile.TemporaryDirectory(prefix="slotkeeper-bench-") as folder, sides(Path(folder), 2) as (servers, sink):
        with closing(sink.connect("postgres")) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE mart")
        return measure(servers[0], servers[1], sink, rows, repeat)


def main() -> int:
    """Run the benchmark and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.mysql_job", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    options = parser.parse_args()
    print(json.dumps({**compared(options.rows, options.repeat), "machine": report.machine()}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
