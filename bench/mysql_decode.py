"""`python -m bench.mysql_decode`: compares Slotkeeper's decoder of a MySQL binlog with mysql-replication's, on the same
binlog.

A separate MariaDB gets a table of eight columns of mixed types, a share of whose values are NULL. Each side reads the
whole binlog over its own connection and creates every value of every row; the order of the sides alternates. Wall and
CPU seconds of this process are measured; the ratio is the median of the pairs' ratios. `bench/README.md` describes what
the timings include and exclude.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench import report
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.drivers import my
from slotkeeper.core.sources.mysql.position import MysqlPosition, parse_gtids
from slotkeeper.core.sources.mysql.rows import Decoder, columns_of
from slotkeeper.core.sources.mysql.stream import Reading, Stream
from slotkeeper.core.sources.mysql.tables import read_charsets, read_described
from slotkeeper.core.sources.mysql.transactions import TableRows
from slotkeeper.demo import mariadb

SCHEMA, TABLE = "bench", "mixed"
_COLUMNS = (
    ("a", "BIGINT UNSIGNED", "18446744073709551615 - n"),
    ("b", "INT", "cast(n AS SIGNED) * 7 - 1000000"),
    ("c", "DECIMAL(18,4)", "(cast(n AS SIGNED) - 50000) * 1.2345"),
    ("d", "DOUBLE", "n / 3"),
    ("e", "VARCHAR(40)", "concat('name é ', n)"),
    ("f", "DATETIME(6)", "timestamp'2026-01-01 00:00:00' + interval n * 61 second + interval n microsecond"),
    ("g", "TEXT", "repeat('text ', 1 + n % 8)"),
    ("h", "TINYINT", "n % 100"),
)
ROWS_A_TRANSACTION = 1000
_SECONDS = 60.0


def fill(session: my.Session, rows: int, nulls: float) -> None:
    """Fill the table in transactions of a thousand rows; `nulls` is the share of NULL values, which the row's number
    determines.
    """
    definition = ", ".join(f"{name} {kind}" for name, kind, _ in _COLUMNS)
    session.rows(f"CREATE DATABASE {SCHEMA}")
    session.rows(f"USE {SCHEMA}")
    session.rows(f"CREATE TABLE {SCHEMA}.{TABLE} (id INT PRIMARY KEY, {definition})")
    share = int(nulls * 1000)
    values = ", ".join(f"if(crc32(concat(n, '{name}')) % 1000 < {share}, NULL, {made})" for name, _, made in _COLUMNS)
    for first in range(0, rows, ROWS_A_TRANSACTION):
        numbers = f"(SELECT seq AS n FROM seq_{first}_to_{min(rows, first + ROWS_A_TRANSACTION) - 1}) s"
        session.rows(f"INSERT INTO {SCHEMA}.{TABLE} SELECT n, {values} FROM {numbers}")


def read_ours(endpoint: Endpoint, start: MysqlPosition) -> int:
    """Read all rows with Slotkeeper's stream and decoder; return their number."""
    connect = partial(my.connect, endpoint, resolve(endpoint.password), "slotkeeper/bench", _SECONDS)
    session = connect()
    described, charsets = read_described(session, SCHEMA, TABLE), read_charsets(session)
    session.close()
    stream = Stream(connect, "bench", "root", start, Reading(my.Replica(5001, "", 5.0), [(SCHEMA, TABLE)]))
    decoders: dict[bytes, Decoder] = {}
    count = 0
    for item in stream.items(blocking=False):
        if isinstance(item, TableRows):
            decoder = decoders.get(item.table.layout)
            if decoder is None:
                decoder = decoders[item.table.layout] = Decoder(columns_of(item.table, described, charsets))
            count += len(decoder.changes(item.rows).after)
    return count


def read_theirs(endpoint: Endpoint, start: MysqlPosition) -> int:
    """Read all rows from the same position with mysql-replication's reader; return their number."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import WriteRowsEvent

    reader = BinLogStreamReader(
        connection_settings={
            "host": endpoint.host,
            "port": endpoint.port,
            "user": endpoint.user,
            "password": resolve(endpoint.password),
        },
        server_id=5002,
        log_file=start.file,
        log_pos=start.offset,
        resume_stream=True,
        blocking=False,
        only_events=[WriteRowsEvent],
        only_schemas=[SCHEMA],
    )
    count = sum(len(event.rows) for event in reader)
    reader.close()
    return count


def timed(read: Callable[[], int], rows: int) -> tuple[float, float]:
    """Return wall and CPU seconds; raises RuntimeError if rows are missing."""
    wall, cpu = time.perf_counter(), time.process_time()
    count = read()
    taken = time.perf_counter() - wall, time.process_time() - cpu
    if count != rows:
        raise RuntimeError(f"{count} rows read, {rows} written")
    return taken


def measure(endpoint: Endpoint, rows: int, nulls: float, repeat: int) -> dict[str, Any]:
    """Measure pairs of readings of one binlog, alternating the order of the sides."""
    session = my.connect(endpoint, resolve(endpoint.password), "slotkeeper/bench", _SECONDS)
    file, offset = session.rows("SHOW MASTER STATUS")[0][:2]
    gtids = str(session.rows("SELECT @@gtid_binlog_pos")[0][0] or "")
    start = MysqlPosition(str(file), int(offset), parse_gtids(gtids))
    fill(session, rows, nulls)
    session.close()
    sides = {"ours": partial(read_ours, endpoint, start), "theirs": partial(read_theirs, endpoint, start)}
    pairs = []
    for number in range(repeat):
        order = ("ours", "theirs") if number % 2 else ("theirs", "ours")
        taken = {side: timed(sides[side], rows) for side in order}
        pairs.append(taken)
        rates = {side: round(rows / cpu) for side, (_, cpu) in taken.items()}
        sys.stderr.write(f"bench: pair {number + 1}: rows per second of CPU: {rates}\n")
    ratios = [pair["theirs"][1] / pair["ours"][1] for pair in pairs]
    return {
        "rows": rows,
        "nulls": nulls,
        "ratio_cpu": round(statistics.median(ratios), 2),
        "ratio_wall": round(statistics.median(pair["theirs"][0] / pair["ours"][0] for pair in pairs), 2),
        "ratios_cpu": [round(ratio, 2) for ratio in ratios],
        "rows_per_cpu_second": {
            side: round(statistics.median(rows / pair[side][1] for pair in pairs)) for side in ("ours", "theirs")
        },
    }


def main() -> int:
    """Run the benchmark and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.mysql_decode", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--nulls", type=float, default=0.2, help="share of values that are NULL")
    parser.add_argument("--repeat", type=int, default=5, help="pairs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slotkeeper-bench-") as folder:
        server = mariadb.create(Path(folder) / "maria")
        try:
            found = measure(server.endpoint("bench"), options.rows, options.nulls, options.repeat)
        finally:
            server.discard()
    print(json.dumps({**found, "machine": report.machine()}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
