"""`python -m bench.mysql_large`: memory and time of a job from MariaDB over a large binlog with one huge transaction.

The huge transaction is written first, then transactions of a thousand rows until the binlog has the requested size;
no row is applied meanwhile. Then the job applies all of it, with driver and workers in this process, whose resident
memory is sampled; the servers are separate processes.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import report
from bench.mysql_job import Job, log_in, mirrored, sides
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, JobSpec
from slotkeeper.core.drivers import my
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.postgres import Server

SCHEMA, TABLE, TARGET = "bench", "bench.large", "mart.large"
MIB = 1 << 20
WIDE, A_TRANSACTION = 4_000, 1_000
"""Characters per row in the small transactions, and rows per transaction."""
_EVERY = 0.2
_SECONDS = 3600.0


@dataclass
class Memory:
    """Samples of this process's resident memory, in MiB."""

    samples: list[float] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> Memory:
        """Sample the memory in a thread."""
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop sampling."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(_EVERY):
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            self.samples.append(pages * resource.getpagesize() / MIB)


def written(session: my.Session) -> int:
    """Return the size of all binlogs in bytes."""
    return sum(int(row[1]) for row in session.rows("SHOW BINARY LOGS"))


def fill(session: my.Session, huge: int, size: int) -> int:
    """Write one transaction of `huge` rows, then others until the binlog has grown by `size` bytes; return the number
    of rows.
    """
    begun = written(session)
    insert = f"INSERT INTO {TABLE} SELECT seq, seq, repeat('x', {{}}) FROM {SCHEMA}.seq_{{}}_to_{{}}"
    session.rows(insert.format(200, 1, huge))
    rows = huge
    while written(session) - begun < size:
        session.rows(insert.format(WIDE, rows + 1, rows + A_TRANSACTION))
        rows += A_TRANSACTION
    return rows


def measure(source: MariaServer, sink: Server, huge: int, size: int) -> dict[str, Any]:
    """Write the rows, then apply them."""
    session = log_in(source)
    session.rows(f"CREATE DATABASE {SCHEMA}")
    session.rows(f"USE {SCHEMA}")
    session.rows(f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, v BIGINT, w VARCHAR({WIDE}))")
    channels = (ChannelSpec(TABLE, TARGET, create_target=True),)
    at = (source.endpoint("source"), sink.endpoint("mart"))
    job = JobSpec("large", *at, "large", channels, source_kind="mysql", binlog=BinlogOptions(binlog=True))
    begun = Job(job)
    begun.wait(lambda: begun.told.state is LaneState.RUNNING)
    begun.stop()
    before = written(session)
    rows = fill(session, huge, size)
    grown = written(session) - before
    sys.stderr.write(f"bench: {rows} rows, {grown / MIB:.0f} MiB of binlog\n")
    memory = Memory().start()
    time.sleep(_EVERY * 3)
    at_rest = memory.samples[-1] if memory.samples else 0.0
    seconds = mirrored(job, sink, rows, TARGET, _SECONDS)
    memory.stop()
    session.close()
    return {
        "rows": rows,
        "rows_of_the_huge_transaction": huge,
        "binlog_mib": round(grown / MIB),
        "seconds": round(seconds, 1),
        "mib_per_second": round(grown / MIB / seconds, 1),
        "memory_mib": {"before": round(at_rest), "most": round(max(memory.samples))},
    }


def main() -> int:
    """Run the benchmark and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.mysql_large", description=__doc__)
    parser.add_argument("--huge", type=int, default=500_000, help="rows in the huge transaction")
    parser.add_argument("--mib", type=int, default=2_048, help="MiB of binlog")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slotkeeper-bench-") as folder, sides(Path(folder), 1) as (servers, sink):
        with closing(sink.connect("postgres")) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE mart")
        found = measure(servers[0], sink, options.huge, options.mib * MIB)
    print(json.dumps({**found, "machine": report.machine()}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
