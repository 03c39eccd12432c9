"""`python -m bench.mysql_feed`: what a job of many tables, a few of which are written, costs its MariaDB server.

The job has the default pauses and the local runner. The bytes that the server sends to the job are compared with the
bytes that it writes to its binlog; the connection that writes the rows is not counted. Then nothing is written, and the
statements of the job are counted. `bench/README.md` describes the figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench import report
from bench.mysql_job import SCHEMA, Job, session_of, sides
from bench.mysql_large import written
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, JobSpec
from slotkeeper.core.drivers import my
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.postgres import Server

TABLES, WRITTEN, TRANSACTIONS, ROWS = 50, 5, 1_500, 60
IDLE_SECONDS = 20.0
QUIET_SECONDS = 12.0
"""Seconds before a measurement: longer than the longest pause between two polls of a table."""


class Sent:
    """Counters of the server, without the session that reads them and writes the rows."""

    def __init__(self, session: my.Session) -> None:
        self._session = session
        self._began = self._read()

    def _one(self, scope: str, name: str) -> int:
        return int(self._session.rows(f"SHOW {scope} STATUS LIKE '{name}'")[0][1])

    def _read(self) -> tuple[int, int, int, float]:
        apart = [self._one("GLOBAL", name) - self._one("SESSION", name) for name in ("Bytes_sent", "Questions")]
        return apart[0], apart[1], written(self._session), time.monotonic()

    def since(self) -> tuple[int, int, int, float]:
        """Return the bytes sent to others, their statements, the bytes of binlog, and the seconds since the start."""
        now, began = self._read(), self._began
        return now[0] - began[0], now[1] - began[1], now[2] - began[2], now[3] - began[3]


def measure(source: MariaServer, sink: Server) -> dict[str, Any]:
    """Write to a few of the job's tables, then to none."""
    with (
        closing(session_of(source)) as session,
        closing(sink.connect("mart")) as connection,
        connection.cursor() as cursor,
    ):
        connection.autocommit = True
        session.rows(f"CREATE DATABASE {SCHEMA}")
        session.rows(f"USE {SCHEMA}")
        names = [f"t{number}" for number in range(TABLES)]
        for name in names:
            session.rows(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v BIGINT)")
            session.rows(f"INSERT INTO {name} SELECT seq, 0 FROM seq_1_to_100")
        channels = tuple(ChannelSpec(f"{SCHEMA}.{name}", f"mart.{name}", create_target=True) for name in names)
        at = (source.endpoint("source"), sink.endpoint("mart"))
        job = JobSpec("many", *at, "many", channels, source_kind="mysql", binlog=BinlogOptions(binlog=True))
        run = Job(job)
        run.wait(lambda: run.told.state is LaneState.RUNNING)
        time.sleep(QUIET_SECONDS)
        sent = Sent(session)
        for number in range(1, TRANSACTIONS + 1):
            session.rows(f"UPDATE {names[number % WRITTEN]} SET v = {number} WHERE id <= {ROWS}")
        last = {names[number % WRITTEN]: number for number in range(1, TRANSACTIONS + 1)}

        def arrived() -> bool:
            for name, value in last.items():
                cursor.execute(f"SELECT count(*) FROM mart.{name} WHERE v = {value}")
                if cursor.fetchall()[0][0] != ROWS:
                    return False
            return True

        run.wait(arrived)
        received, statements, grown, seconds = sent.since()
        dumps = "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
        connections = int(session.rows(dumps)[0][0])
        time.sleep(QUIET_SECONDS)
        idle = Sent(session)
        time.sleep(IDLE_SECONDS)
        _, idle_statements, _, idle_seconds = idle.since()
        run.stop()
    return {
        "tables": TABLES,
        "written": WRITTEN,
        "transactions": TRANSACTIONS,
        "binlog_bytes": grown,
        "sent_bytes": received,
        "ratio": round(received / grown, 2),
        "dump_connections": connections,
        "statements_per_second": round(statements / seconds, 1),
        "idle_statements_per_second": round(idle_statements / idle_seconds, 1),
    }


def measured() -> dict[str, Any]:
    """Start the servers and measure; raises ConfigError if MariaDB is not installed."""
    with tempfile.TemporaryDirectory(prefix="slotkeeper-bench-") as folder, sides(Path(folder), 1) as (servers, sink):
        with closing(sink.connect("postgres")) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE mart")
        return measure(servers[0], sink)


def main() -> int:
    """Run the benchmark and print JSON."""
    argparse.ArgumentParser(prog="python -m bench.mysql_feed", description=__doc__).parse_args()
    print(json.dumps({**measured(), "machine": report.machine()}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
