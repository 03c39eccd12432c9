"""`python -m bench.curves`: Slotkeeper's cost per change while one factor grows and all others are constant.

The factors: backlog, DNs, width of a row, share of updates, one hot key, channels. A point of a curve is one catch-up
of the job: CPU per change of both servers and of Slotkeeper's processes, and seconds. Its table has the columns id, n
and body. Each point has its own databases, and both tables are compared at its end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench import profile, report
from bench.__main__ import say
from bench.ours import OurJob, job_of, open_runner
from bench.rig import SETTINGS, run
from slotkeeper.core.drivers import pg
from slotkeeper.core.ports.driver import TaskRunner
from slotkeeper.demo import postgres
from slotkeeper.demo.warehouse import Warehouse

PER_TRANSACTION = 4_000
_COLUMNS = "id bigint NOT NULL, n bigint, body text"
_BODY = "(SELECT left(string_agg(md5(i::text || g), ''), {width}) FROM generate_series(1, {pieces}) g)"
_ROWS = "INSERT INTO {table} SELECT i, 0, " + _BODY + " FROM generate_series({first}, {last}) i"


@dataclass(frozen=True, slots=True)
class Shape:
    """The changes of a point; `updates` is the share of updates."""

    curve: str
    at: str
    changes: int = 200_000
    dns: int = 4
    width: int = 100
    updates: float = 2 / 7
    hot: bool = False
    channels: int = 1

    def counts(self) -> tuple[int, int, int]:
        """Return inserts, updates and deletes of one channel; apart from updates, there are four inserts per delete."""
        each = self.changes // self.channels
        updates = round(each * self.updates)
        deletes = (each - updates) // 5
        return each - updates - deletes, updates, deletes


def shapes(most: int) -> Iterator[Shape]:
    """Yield all points; the largest backlog has `most` changes."""
    for changes in (100_000, 1_000_000, 10_000_000):
        if changes <= most:
            yield Shape("backlog, changes", f"{changes:,}", changes=changes)
    for dns in (1, 4, 16, 64):
        yield Shape("DNs", str(dns), dns=dns)
    for width, changes in ((50, 200_000), (500, 100_000), (4_000, 20_000)):
        yield Shape("bytes a row", f"{width:,}", width=width, changes=changes)
    for share in (0.0, 0.2, 0.5, 0.8, 1.0):
        yield Shape("share of updates", f"{share:.0%}", updates=share)
    for hot in (False, True):
        yield Shape("one hot key", "all updates of one key" if hot else "all of different keys", updates=1.0, hot=hot)
    for channels in (1, 40, 200):
        yield Shape("channels", str(channels), channels=channels)


@dataclass
class Point:
    """The cost of one shape: microseconds of CPU per change by party, seconds, and statements by server.

    `statements`: statements of the job per step of a lane, from its start until it has stopped.
    """

    shape: Shape
    cpu_us: dict[str, float]
    seconds: float
    statements: dict[str, float]

    @property
    def all_us(self) -> float:
        """The sum over all parties."""
        return sum(self.cpu_us.values())

    def line(self) -> str:
        """Return the point's line of the table."""
        cpu = "".join(f"{self.cpu_us[party]:>9.2f}" for party in report.PARTIES)
        rate = self.shape.changes / self.seconds
        asked = "".join(f"{count:>8.1f}" for count in self.statements.values())
        shape = f"{self.shape.curve:<18}{self.shape.at:<26}"
        return f"{shape}{cpu}{self.all_us:>9.2f}{self.seconds:>9.2f}{rate:>12,.0f}{asked}"


class Curves:
    """Two servers on which the points are measured one after another; `close` removes everything."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slotkeeper-bench-"))
        with ThreadPoolExecutor(2) as pool:
            starting = [pool.submit(postgres.start, self.folder / name, name, SETTINGS) for name in ("source", "sink")]
            self.source, self.sink = (one.result() for one in starting)
        for server in (self.source, self.sink):
            run(server, "postgres", "CREATE EXTENSION pg_stat_statements")
        self.warehouse = Warehouse.install(self.source, database="first")
        self._number = 0

    def measure(self, shape: Shape, runner: TaskRunner) -> Point:
        """Measure one point."""
        self._number += 1
        with self._databases(shape.dns) as name:
            tables = [f"bench.curve_{channel}" for channel in range(shape.channels)]
            self._create(tables, shape)
            spec = job_of(self, name, *tables)
            job = OurJob(self, name, runner, replace(spec, wait_ms=600_000))
            job.copy()
            events = sum(self._change(table, shape) for table in tables)
            run(self.source, name, "VACUUM ANALYZE")
            run(self.sink, name, "VACUUM ANALYZE")
            for server in (self.source, self.sink):
                run(server, "postgres", "CHECKPOINT")
                run(server, "postgres", "SELECT pg_stat_statements_reset()")
            before = profile.cpu(self.source, self.sink)
            seconds = job.catch_up(events)
            spent = profile.of_ours(profile.spent(before, profile.cpu(self.source, self.sink)))
            self._compare(name, tables)
            cpu = {party: round(one / shape.changes * 1e6, 3) for party, one in spent.items()}
            steps = max(shape.dns * shape.channels, sum(lane.steps for lane in job.recorder.lanes))
            asked = {
                side: round(profile.statements(server, name) / steps, 2)
                for side, server in (("source", self.source), ("sink", self.sink))
            }
            return Point(shape, cpu, round(seconds, 3), asked)

    @contextmanager
    def _databases(self, dns: int) -> Iterator[str]:
        name = f"curve_{self._number}"
        self.warehouse = Warehouse.install(self.source, dns, database=name)
        run(self.sink, "postgres", f"CREATE DATABASE {name}")
        try:
            yield name
        finally:
            for server in (self.source, self.sink):
                run(server, "postgres", f"DROP DATABASE {name} WITH (FORCE)")

    def _create(self, tables: Sequence[str], shape: Shape) -> None:
        _, updates, deletes = shape.counts()
        for table in tables:
            self.warehouse.create_table(table, _COLUMNS, ("id",))
            with self._cursor() as cursor:
                cursor.execute(_filled(_ROWS, table, 1, max(1, updates + deletes), shape.width))

    def _change(self, table: str, shape: Shape) -> int:
        """Make one channel's changes in rounds of one transaction per verb; return the number of events (an update has
        two).
        """
        inserts, updates, deletes = shape.counts()
        there = max(1, updates + deletes)
        turns = max(1, -(-(inserts + updates + deletes) // PER_TRANSACTION))
        with self._cursor() as cursor:
            for turn in range(turns):
                for verb, rows, start in (("I", inserts, there + 1), ("U", updates, 1), ("d", deletes, updates + 1)):
                    first, last = start + rows * turn // turns, start + rows * (turn + 1) // turns - 1
                    if last >= first:
                        cursor.execute(_verb(verb, table, first, last, shape))
        return inserts + 2 * updates + deletes

    @contextmanager
    def _cursor(self) -> Iterator[pg.Cursor]:
        with closing(self.warehouse.connect()) as connection, connection.cursor() as cursor:
            yield cursor

    def _compare(self, database: str, tables: Sequence[str]) -> None:
        for table in tables:
            statement = f"SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t"
            one, other = run(self.source, database, statement), run(self.sink, database, statement)
            if one != other:
                raise SystemExit(f"{database}: {table} differs: {one}, {other}")

    def close(self) -> None:
        """Stop the servers and remove their files."""
        for server in (self.source, self.sink):
            postgres.discard(server.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def _filled(text: str, table: str, first: int, last: int, width: int) -> str:
    return text.format(table=table, first=first, last=last, width=width, pieces=-(-width // 32))


def _verb(verb: str, table: str, first: int, last: int, shape: Shape) -> str:
    if verb == "I":
        return _filled(_ROWS, table, first, last, shape.width)
    if verb == "d":
        return f"DELETE FROM {table} WHERE id BETWEEN {first} AND {last}"
    if shape.hot:
        one = f"UPDATE {table} SET n = n + 1 WHERE id = 1"
        return f"DO $$BEGIN FOR i IN {first}..{last} LOOP {one}; END LOOP; END$$"
    return f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {first} AND {last}"


def flatness(points: Sequence[Point]) -> list[str]:
    """Return a line for each curve: its highest cost per change divided by its lowest."""
    found = []
    for curve in dict.fromkeys(point.shape.curve for point in points):
        costs = [point.all_us for point in points if point.shape.curve == curve]
        found.append(f"{curve}: the most expensive change costs {max(costs) / min(costs):.2f} x the cheapest")
    return found


def main() -> int:
    """Run the measurements, print the table, and write the result file."""
    parser = argparse.ArgumentParser(prog="python -m bench.curves", description=__doc__)
    parser.add_argument(
        "--most", type=int, default=1_000_000, help="number of changes in the largest backlog; 10000000 takes long"
    )
    parser.add_argument("--only", default="", help="a part of a curve's name")
    parser.add_argument("--runner", choices=("spark", "local"), default="spark")
    options = parser.parse_args()
    points: list[Point] = []
    curves, before = Curves(), report.machine()
    try:
        runner, _ = open_runner(options.runner, curves)
        try:
            for shape in shapes(options.most):
                if options.only in shape.curve:
                    points.append(curves.measure(shape, runner))
                    say(points[-1].line())
        finally:
            runner.close()
    finally:
        curves.close()
    cpu = "".join(f"{party:>9}" for party in (*report.PARTIES, "all"))
    head = f"{'curve':<18}{'at':<26}{cpu}{'seconds':>9}{'changes/s':>12}{'source':>8}{'sink':>8}"
    print(f"{head}   (CPU us per change; statements per step of a lane)")
    print("\n".join([*(point.line() for point in points), *flatness(points)]))
    values: dict[str, Any] = {"options": vars(options), "machine": before, "points": [asdict(one) for one in points]}
    print(f"written: {report.write(json.loads(json.dumps(values)), 'curves-')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
