"""A program that writes inserts, updates and deletes in turn to a stand-in, at a rate, in transactions of a fixed size.

It is a separate process, so that its cost is not counted as the benchmark's; it ends when its standard input is closed.
Each statement is a transaction. The ledger is written once, at the end.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

from slotkeeper.core.drivers import pg
from slotkeeper.demo import ledger, postgres
from slotkeeper.demo.ledger import Tally
from slotkeeper.demo.orders import Statements
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.workload import BULK_FIRST

TURN = ("insert", "insert", "insert", "insert", "update", "update", "delete")
"""The same mix as in the rounds: 4/7, 2/7, 1/7."""


def main() -> int:
    """Write until standard input is closed; print the rows changed and the seconds by which the writer was
    behind its rate.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.writer", description=__doc__)
    parser.add_argument("folder", type=Path, help="the server's folder, for slotkeeper.demo.postgres.attach")
    parser.add_argument("--rate", type=float, required=True, help="rows a second")
    parser.add_argument("--per-transaction", type=int, required=True)
    parser.add_argument("--first", type=int, default=BULK_FIRST)
    options = parser.parse_args()
    server = postgres.attach(options.folder)
    if server is None:
        raise SystemExit(f"no server runs in {options.folder}")
    over = threading.Event()
    threading.Thread(target=_wait_for_end, args=(over,), daemon=True).start()
    written, late = _write(Warehouse.attach(server), options, over)
    print(f"{written} {late:.3f}", flush=True)
    return 0


def _wait_for_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def _write(warehouse: Warehouse, options: argparse.Namespace, over: threading.Event) -> tuple[int, float]:
    """Return the rows changed, and the seconds by which the writer was behind its rate at the end."""
    size, number, total = options.per_transaction, 0, Tally()
    at = {"insert": options.first, "update": 1, "delete": options.first}
    with closing(warehouse.connect()) as connection, connection.cursor() as cursor:
        statements = Statements.of(connection)
        due = began = time.monotonic()
        while not over.is_set():
            verb = TURN[number % len(TURN)]
            ledger.add(total, _change(statements, cursor, verb, at[verb], size))
            at[verb] += size
            number += 1
            due = began + number * size / options.rate
            over.wait(max(0.0, due - time.monotonic()))
        behind = max(0.0, time.monotonic() - due)
        ledger.write(cursor, f"bench writer {options.first}", 1, total)
    return number * size, behind


def _change(statements: Statements, cursor: pg.Cursor, verb: str, first: int, rows: int) -> Tally:
    if verb == "insert":
        return statements.bulk_insert(cursor, first, rows, first)
    if verb == "update":
        return statements.bulk_update(cursor, first, rows, first)
    return statements.bulk_delete(cursor, first, rows)


if __name__ == "__main__":
    sys.exit(main())
