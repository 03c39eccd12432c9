"""A program: the method of the vendor's demo, one prepared statement per row over one connection, a commit per 1,000.

DWS, "Real-Time Binlog Consumption by Flink": its Java demo reads records into a queue, writes I and U, and deletes d
(and B, which is left out here to its advantage: no key changes). Like `programs.py`, it does not import this project.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

import psycopg2

EVENTS, COMMIT = 5_000, 1_000


def main() -> None:
    """Connect, prepare, report ready, apply, and report the CPU seconds."""
    order = json.loads(sys.stdin.readline())
    source, sink = psycopg2.connect(order["source"]), psycopg2.connect(order["sink"])
    _prepare(sink, order)
    print("ready", flush=True)
    sys.stdin.readline()
    before = _cpu()
    for span in order["spans"]:
        _apply(source, sink, order, span)
    print(json.dumps({"cpu": _cpu() - before}), flush=True)


def _prepare(sink: Any, order: dict[str, Any]) -> None:
    names, key = [name for name, _ in order["columns"]], order["key"]
    values = ", ".join(f"${n}" for n in range(1, len(names) + 1))
    types = ", ".join(kind for _, kind in order["columns"])
    keys = ", ".join(kind for name, kind in order["columns"] if name in key)
    sets = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name not in key)
    match = " AND ".join(f"{name} = ${n}" for n, name in enumerate(key, 1))
    with sink.cursor() as cursor:
        cursor.execute(
            f"PREPARE written ({types}) AS INSERT INTO {order['table']} ({', '.join(names)}) VALUES ({values})"
            f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {sets}"
        )
        cursor.execute(f"PREPARE deleted ({keys}) AS DELETE FROM {order['table']} WHERE {match}")
    sink.commit()


def _apply(source: Any, sink: Any, order: dict[str, Any], span: dict[str, int]) -> None:
    width = len(order["key"])
    write = f"EXECUTE written ({', '.join(['%s'] * len(order['columns']))})"
    delete = f"EXECUTE deleted ({', '.join(['%s'] * width)})"
    selected = ", ".join(f"{name}::text" if kind == "jsonb" else name for name, kind in order["columns"])
    with source.cursor() as cursor:
        cursor.execute("SELECT FROM pgxc_get_binlog_sync_point(%s, %s, false, 0)", (order["table"], order["slot"]))
    with source.cursor("binlog") as reading, sink.cursor() as writing:
        reading.itersize = EVENTS
        reading.execute(
            f"SELECT gs_binlog_event_type, {selected} FROM pgxc_get_binlog_changes(%s, %s, %s, %s)"
            " WHERE gs_binlog_sync_point >= %s AND gs_binlog_sync_point <= %s"
            " ORDER BY gs_binlog_sync_point, gs_binlog_event_sequence",
            (order["table"], span["node"], span["after"], span["latest"] + 1, span["after"], span["latest"]),
        )
        for number, (kind, *row) in enumerate(reading, 1):
            if kind in ("I", "U"):
                writing.execute(write, row)
            elif kind == "d":
                writing.execute(delete, row[:width])
            if number % COMMIT == 0:
                sink.commit()
        sink.commit()
    source.commit()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
