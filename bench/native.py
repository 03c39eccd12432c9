"""PostgreSQL's own means on the same machine: `COPY | COPY` for the snapshot, logical replication for the stream.

Timed: from the start of both psql processes to the end of both; and from `ALTER SUBSCRIPTION ... ENABLE` to the
moment at which the round's last row is there (one apply worker, which applies in commit order).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping

from bench.rig import MARKER_CUST, PUBLISHER, Rig, run
from core.embedded.binaries import find_binaries
from core.embedded.orders import TABLE
from core.embedded.postgres import Server

LIMIT = 300.0
POLL = 0.01


def copy(rig: Rig, database: str) -> float:
    """Copy the whole table through two psql processes; seconds."""
    psql = [find_binaries().program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c"]
    began = time.monotonic()
    with subprocess.Popen(
        [*psql, f"COPY {TABLE} TO STDOUT"], stdout=subprocess.PIPE, env=_environment(rig.source, PUBLISHER)
    ) as reading:
        writing = subprocess.run(
            [*psql, f"COPY {TABLE} FROM STDIN"],
            stdin=reading.stdout,
            env=_environment(rig.sink, database),
            check=True,
            timeout=LIMIT,
        )
    seconds = time.monotonic() - began
    if reading.returncode or writing.returncode:
        raise RuntimeError("psql failed")
    return seconds


def prepare(rig: Rig, database: str) -> None:
    """The slot at the publisher and a disabled subscription; what is written from here on waits in the WAL."""
    run(rig.source, PUBLISHER, f"SELECT pg_create_logical_replication_slot('{database}', 'pgoutput')")
    password = rig.source.password_file.read_text(encoding="utf-8").strip()
    line = f"host={rig.source.host} port={rig.source.port} dbname={PUBLISHER} user=postgres password={password}"
    run(
        rig.sink,
        database,
        f"CREATE SUBSCRIPTION {database} CONNECTION '{line}' PUBLICATION bench"
        f" WITH (enabled = false, create_slot = false, copy_data = false, slot_name = '{database}')",
    )


def catch_up(rig: Rig, database: str, round_: int) -> float:
    """Enable the subscription; seconds until the round's marker is there."""
    connection = rig.sink.connect(database)
    with connection.cursor() as cursor:
        began = time.monotonic()
        cursor.execute(f"ALTER SUBSCRIPTION {database} ENABLE")
        while True:
            cursor.execute(f"SELECT 1 FROM {TABLE} WHERE cust = {MARKER_CUST} AND order_no = {round_}")
            if cursor.fetchall():
                break
            if time.monotonic() - began > LIMIT:
                raise TimeoutError(f"logical replication has not caught up within {LIMIT:.0f} s")
            time.sleep(POLL)
    seconds = time.monotonic() - began
    connection.close()
    return seconds


def drop(rig: Rig, database: str) -> None:
    """End the subscription; its slot at the publisher goes with it."""
    run(rig.sink, database, f"ALTER SUBSCRIPTION {database} DISABLE")
    run(rig.sink, database, f"DROP SUBSCRIPTION {database}")


def _environment(server: Server, database: str) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    password = server.password_file.read_text(encoding="utf-8").strip()
    where = {"PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": server.superuser, "PGDATABASE": database}
    return {**kept, **where, "PGPASSWORD": password, "PGSSLMODE": "disable", "PGCLIENTENCODING": "UTF8"}
