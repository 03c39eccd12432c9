"""`python -m bench.dataframes`: a changelog read as a DataFrame, and written by a query, compared with a job's lanes.

A round copies the orders, records changes for three slots, and has the changes read three times, in an order that
rotates by one each round: by a job's lanes (threads of this process: a job without Spark's own cost), by a query into
Spark's sink `noop`, and by a query into a table of the same sink. Both tables must equal the source at the end.
`bench/README.md` describes what the timings include and exclude.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import report
from bench.ours import OurJob
from bench.rig import PER_TRANSACTION, SETTINGS, TARGET, WAREHOUSE, Sizes, run, turns_of
from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.demo import postgres, workload
from slotkeeper.demo.ledger import Tally, add
from slotkeeper.demo.orders import TABLE, load
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.workload import bulk
from tests.support import polling
from tests.support.dataframes import spark_session
from tests.support.worker_memory import WorkerMemory

LANE, READER, BOTH = "lane", "reader", "reader_and_writer"
WANTED = {READER: 0.5, BOTH: 0.3}
"""Minimum rates, as shares of the lane's rate in the same round."""
WRITTEN = "mart.written"
AS_A_USER = {"spark.driver.extraJavaOptions": ""}
"""Restores the JVM's default settings in place of the tests' settings for a quick JVM start."""


class Servers:
    """A source with the stand-in and the orders, and a sink; `close` removes them. A `bench.ours.Place`."""

    def __init__(self, sizes: Sizes) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slotkeeper-bench-"))
        self.source, self.sink = (
            postgres.start(self.folder / name, name, {**SETTINGS, "shared_preload_libraries": ""})
            for name in ("source", "sink")
        )
        self.warehouse = Warehouse.install(self.source, 4, database=WAREHOUSE)
        workload.create(self.warehouse)
        with closing(self.warehouse.connect()) as connection:
            load(connection, sizes.loaded, sizes.seed)

    def close(self) -> None:
        """Stop the servers and remove their files."""
        for server in (self.source, self.sink):
            postgres.discard(server.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


class Round:
    """One round, in its own database on the sink."""

    def __init__(self, place: Servers, spark: Any, sizes: Sizes, number: int, points: int) -> None:
        self.place, self.spark, self.sizes, self.number, self.points = place, spark, sizes, number, points
        self.database = f"ours_{number}"
        run(place.sink, "postgres", f"CREATE DATABASE {self.database}")
        self.job = OurJob(place, self.database, LocalRunner(4))
        self.worker = {READER: WorkerMemory(), BOTH: WorkerMemory()}
        folder = place.folder / f"round-{number}"
        folder.mkdir()
        self.folder = folder
        jobs = [polling.job(who, self.slot(who), TABLE, f"mart.{who}") for who in (READER, BOTH)]
        source = replace(place.warehouse.endpoint(), name="dws1")
        self.config = polling.config(folder, source, replace(place.sink.endpoint(self.database), name="mart"), *jobs)
        self.config.chmod(0o600)

    def slot(self, who: str) -> str:
        """Return the slot of one of the queries."""
        return f"{who}_{self.number}"

    def rates(self) -> dict[str, float]:
        """Record changes and have each reader read them; return events per second by reader."""
        self.job.copy()
        run(self.place.sink, self.database, f"CREATE TABLE {WRITTEN} (LIKE {TARGET} INCLUDING ALL)")
        run(self.place.sink, self.database, f"INSERT INTO {WRITTEN} SELECT * FROM {TARGET}")
        for who in (READER, BOTH):
            statement = f"SELECT pgxc_register_full_sync_point('{TABLE}', '{self.slot(who)}')"
            run(self.place.source, WAREHOUSE, statement)
        events = self._change()
        turns = [LANE, READER, BOTH]
        first = self.number % len(turns)
        seconds: dict[str, float] = {}
        for who in turns[first:] + turns[:first]:
            self._settle()
            seconds[who] = self._lane(events) if who == LANE else self._query(who, events)
        self._equal()
        self._drop()
        return {who: events / spent for who, spent in seconds.items()}

    def _change(self) -> int:
        total = Tally()
        with closing(self.place.warehouse.connect()) as connection:
            turns = max(1, -(-self.sizes.inserts // PER_TRANSACTION))
            for verb, first, rows in turns_of(self.sizes, self.number, turns):
                add(total, bulk(connection, verb, rows, first, PER_TRANSACTION, seed=self.sizes.seed + self.number + 1))
        return sum(events.total for events in total.values())

    def _settle(self) -> None:
        for server, database in ((self.place.source, WAREHOUSE), (self.place.sink, self.database)):
            run(server, database, "VACUUM ANALYZE")
            run(server, "postgres", "CHECKPOINT")

    def _lane(self, events: int) -> float:
        return self.job.catch_up(events) - self.job.start_seconds

    def _query(self, who: str, events: int) -> float:
        """Return the seconds that Spark reports for batches with rows: planning, tasks, Spark's logs, and Slotkeeper's
        confirmations.
        """
        options = {"config": str(self.config), "job": who, "changelog": "raw", "points_per_trigger": str(self.points)}
        changes = self.spark.readStream.format("slotkeeper").options(**options).load()
        sink = {"config": str(self.config), "sink": "mart", "table": WRITTEN} if who == BOTH else {}
        writer = changes.writeStream.format("slotkeeper_postgres" if sink else "noop").options(**sink)
        writer = writer.option("checkpointLocation", str(self.folder / f"checkpoint-{who}"))
        with self.worker[who].watched():
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
        done = [one for one in query.recentProgress if one["numInputRows"]]
        read = sum(one["numInputRows"] for one in done)
        if read != events:
            raise SystemExit(f"{who} has read {read} events of {events}")
        return float(sum(one["durationMs"]["triggerExecution"] for one in done)) / 1000

    def _equal(self) -> None:
        asked = "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {} t"
        there = run(self.place.source, WAREHOUSE, asked.format(TABLE))
        for table in (TARGET, WRITTEN):
            found = run(self.place.sink, self.database, asked.format(table))
            if found != there:
                raise SystemExit(f"{table} has {found}, the source has {there}")

    def _drop(self) -> None:
        for who in (READER, BOTH):
            run(self.place.source, WAREHOUSE, f"SELECT pgxc_binlog_clear_target_slot('{TABLE}', '{self.slot(who)}')")
        self.job.drop()


def _installed(folder: Path) -> None:
    """Let Python store bytecode, as for an installed package, even if this package's folder is read-only."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.dataframes", description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="rows of the table before the first round")
    parser.add_argument(
        "--changes", type=int, default=800_000, help="changes per round: 4/7 inserts, 2/7 updates, 1/7 deletes"
    )
    parser.add_argument("--points", type=int, default=120, help="sync points per batch; each is one transaction")
    parser.add_argument("--rounds", type=int, default=3, help="rounds after the first, which is reported separately")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(words)


def _said(rounds: list[dict[str, float]], most: dict[str, float], given: argparse.Namespace) -> dict[str, Any]:
    first, *found = rounds
    ratios = {who: statistics.median(one[who] / one[LANE] for one in found) for who in WANTED}
    return {
        "rows_per_s": {who: round(statistics.median(one[who] for one in found)) for who in (LANE, READER, BOTH)},
        "of_lane": {who: round(ratio, 3) for who, ratio in ratios.items()},
        "first_of_lane": {who: round(first[who] / first[LANE], 3) for who in WANTED},
        "wanted": WANTED,
        "met": {who: ratios[who] >= wanted for who, wanted in WANTED.items()},
        "worker_pss_mib": {who: round(mib) for who, mib in most.items()},
        "given": vars(given),
        "machine": report.machine(),
    }


def main(words: list[str]) -> None:
    """Run the benchmark, and print one JSON object."""
    given = _options(words)
    sizes = Sizes(given.rows, given.changes, given.rounds + 1, given.seed)
    place = Servers(sizes)
    try:
        (place.folder / "spark").mkdir()
        _installed(place.folder)
        with spark_session(place.folder / "spark", **AS_A_USER) as spark:
            from slotkeeper.core.dataframe import register

            register(spark)
            found, most = [], dict.fromkeys(WANTED, 0.0)
            for number in range(given.rounds + 1):
                one = Round(place, spark, sizes, number, given.points)
                found.append(one.rates())
                most = {who: max(most[who], one.worker[who].most) for who in WANTED}
                sys.stderr.write(f"bench: round {number + 1}: {found[-1]}\n")
    finally:
        place.close()
    print(json.dumps(_said(found, most, given)))


if __name__ == "__main__":
    main(sys.argv[1:])
