"""A program: reads each DN's binlog with a cursor, folds 5,000 events at a time per key, writes with execute_values.

This is what most people write first, with the fastest write method known. It imports nothing from this project:
`programs.py` describes its input.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

import psycopg2
from psycopg2.extras import execute_values

EVENTS = 5_000


def main() -> None:
    """Connect, report ready, apply, and report the CPU seconds."""
    order = json.loads(sys.stdin.readline())
    source, sink = psycopg2.connect(order["source"]), psycopg2.connect(order["sink"])
    print("ready", flush=True)
    sys.stdin.readline()
    before = _cpu()
    for span in order["spans"]:
        _apply(source, sink, order, span)
    print(json.dumps({"cpu": _cpu() - before}), flush=True)


def _apply(source: Any, sink: Any, order: dict[str, Any], span: dict[str, int]) -> None:
    table, width = order["table"], len(order["key"])
    selected = [f"{name}::text" if kind == "jsonb" else name for name, kind in order["columns"]]
    with source.cursor() as cursor:
        cursor.execute("SELECT FROM pgxc_get_binlog_sync_point(%s, %s, false, 0)", (table, order["slot"]))
    with source.cursor("binlog") as reading, sink.cursor() as writing:
        reading.itersize = EVENTS
        reading.execute(
            f"SELECT gs_binlog_event_type, {', '.join(selected)}"
            " FROM pgxc_get_binlog_changes(%s, %s, %s, %s)"
            " WHERE gs_binlog_sync_point >= %s AND gs_binlog_sync_point <= %s"
            " ORDER BY gs_binlog_sync_point, gs_binlog_event_sequence",
            (table, span["node"], span["after"], span["latest"] + 1, span["after"], span["latest"]),
        )
        while events := reading.fetchmany(EVENTS):
            last = {event[1 : 1 + width]: event for event in events if event[0] != "B"}
            _write(writing, order, [one[1:] for one in last.values() if one[0] != "d"])
            _delete(writing, order, [key for key, one in last.items() if one[0] == "d"])
            sink.commit()
    source.commit()


def _write(cursor: Any, order: dict[str, Any], rows: list[tuple[Any, ...]]) -> None:
    if rows:
        names = [name for name, _ in order["columns"]]
        sets = ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name not in order["key"])
        statement = f"INSERT INTO {order['table']} ({', '.join(names)}) VALUES %s"
        conflict = f" ON CONFLICT ({', '.join(order['key'])}) DO UPDATE SET {sets}"
        execute_values(cursor, statement + conflict, rows, page_size=1_000)


def _delete(cursor: Any, order: dict[str, Any], keys: list[tuple[Any, ...]]) -> None:
    if keys:
        names = ", ".join(order["key"])
        match = " AND ".join(f"t.{name} = v.{name}" for name in order["key"])
        execute_values(
            cursor, f"DELETE FROM {order['table']} t USING (VALUES %s) v({names}) WHERE {match}", keys, page_size=1_000
        )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
