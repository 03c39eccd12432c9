"""The load of a chaos run, from one seed: TPC-B, short-lived keys, bulk changes, and the orders of the demo.

Each transaction records its row counts in a source table without a binlog, so that the ledger is independent of the
code under test. An insert or a delete is one event, an update is two.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from slotkeeper.core.drivers import pg
from slotkeeper.demo import ledger
from slotkeeper.demo.orders import TABLE as ORDERS
from slotkeeper.demo.orders import Order, Statements
from slotkeeper.demo.plans import Mix
from slotkeeper.demo.writers import CONTENTION, Loop, TokenBucket, Writer, gone
from tests.support.product import Product

BRANCHES, TELLERS, ACCOUNTS = 4, 40, 20_000
GROUPS, HOT = 24, 30
"""Groups of the churned table, and the keys of a group that are deleted and inserted again and again."""
BULK = 40_000
ORDERS_RATE = 60.0
TURN = 1_000
"""Writers of one turn have numbers from TURN times its number on, so that no two transactions have the same name."""
PURGE_EVERY = 15.0


@dataclass(frozen=True, slots=True)
class Table:
    """A source table. Its row with key 0 is the beacon's: `mark` there is the newest beacon.

    `calm`: the run neither resets nor alters it, so the ledger is valid for it between two checks.
    """

    name: str
    ddl: str
    key: tuple[str, ...]
    rows: str
    calm: bool = False

    @property
    def target(self) -> str:
        return f"mart.{self.name.partition('.')[2]}"

    @property
    def beacon(self) -> str:
        return " AND ".join(f"{column} = 0" for column in self.key)


TABLES = (
    Table(
        "tpcb.branches",
        "bid bigint NOT NULL, bal bigint NOT NULL, mark bigint",
        ("bid",),
        f"SELECT n, 0 FROM generate_series(0, {BRANCHES}) n",
    ),
    Table(
        "tpcb.tellers",
        "tid bigint NOT NULL, bal bigint NOT NULL, mark bigint",
        ("tid",),
        f"SELECT n, 0 FROM generate_series(0, {TELLERS}) n",
    ),
    Table(
        "tpcb.accounts",
        "aid bigint NOT NULL, bal bigint NOT NULL, filler text, mark bigint",
        ("aid",),
        f"SELECT n, 0, repeat('f', 40) FROM generate_series(0, {ACCOUNTS}) n",
        calm=True,
    ),
    Table(
        "tpcb.history",
        "writer bigint NOT NULL, tx bigint NOT NULL, delta bigint, aid bigint, tid bigint, bid bigint,"
        " at timestamptz, mark bigint",
        ("writer", "tx"),
        "SELECT 0, 0, 0",
        calm=True,
    ),
    Table(
        "tpcb.churn",
        "grp bigint NOT NULL, id bigint NOT NULL, v bigint, note text, mark bigint",
        ("grp", "id"),
        f"SELECT g, i, 0 FROM generate_series(1, {GROUPS}) g, generate_series(1, {HOT}) i UNION ALL SELECT 0, 0, 0",
    ),
    Table(
        "tpcb.bulk",
        "id bigint NOT NULL, v bigint, pad text, mark bigint",
        ("id",),
        f"SELECT n, 0, repeat('b', 60) FROM generate_series(0, {BULK}) n",
    ),
)
BEACON = (-1, 1)
"""The key of the beacon's order; its note is the newest beacon."""
SUMS = {"branches": "bal", "tellers": "bal", "accounts": "bal", "history": "delta"}

_LEDGER = "CREATE TABLE tpcb.ledger (writer bigint, tx bigint, tab text, events bigint, PRIMARY KEY (writer, tx, tab))"


class Booked(Loop):
    """A writer of transactions that each record their own counts, across restarts of the source."""

    def __init__(self, product: Product, seed: str, number: int, every: float) -> None:
        super().__init__(product.connect, f"storm-{number}", lambda: 0.0)
        self.draw = random.Random(f"{seed}/{number}")
        self.number, self.tx, self._every = number, 0, every
        self.acknowledged: list[int] = []
        """Numbers of the transactions whose COMMIT was answered."""
        self.tally: Counter[str] = Counter()

    def work(self) -> None:
        while not self._stop_asked.is_set():
            connection = self._line.open()
            if connection is None:
                return
            self.tx += 1
            try:
                self._transaction(connection)
                self.acknowledged.append(self.tx)
            except pg.DriverError as error:
                if gone(error) or connection.closed:
                    self._line.drop()
                elif pg.failure(error)[0] not in CONTENTION:
                    raise
            self._stop_asked.wait(self._every * self.draw.uniform(0.3, 1.7))

    def _transaction(self, connection: pg.Connection) -> None:
        self.tally = Counter()
        with pg.transaction(connection) as cursor:
            self.act(cursor)
            for table, events in self.tally.items():
                cursor.execute("INSERT INTO tpcb.ledger VALUES (%s, %s, %s, %s)", (self.number, self.tx, table, events))

    def act(self, cursor: pg.Cursor) -> None:
        """The transaction's statements, by `do`."""
        raise NotImplementedError

    def do(self, cursor: pg.Cursor, table: str, statement: str, values: Sequence[object] = ()) -> int:
        """Run one statement that starts with its verb, and count its events; returns the number of changed rows."""
        cursor.execute(statement, tuple(values))
        rows = int(cursor.rowcount)
        self.tally[f"tpcb.{table}"] += rows * (2 if statement.startswith("UPDATE") else 1)
        return rows


class Teller(Booked):
    """TPC-B: three updates and a row of history; the updates up to three times in one transaction."""

    def act(self, cursor: pg.Cursor) -> None:
        draw = self.draw
        aid, tid, bid = draw.randint(1, ACCOUNTS), draw.randint(1, TELLERS), draw.randint(1, BRANCHES)
        delta, times = draw.randint(-5_000, 5_000), draw.choice((1, 1, 1, 3))
        for _ in range(times):
            self.do(cursor, "accounts", "UPDATE tpcb.accounts SET bal = bal + %s WHERE aid = %s", (delta, aid))
            self.do(cursor, "tellers", "UPDATE tpcb.tellers SET bal = bal + %s WHERE tid = %s", (delta, tid))
            self.do(cursor, "branches", "UPDATE tpcb.branches SET bal = bal + %s WHERE bid = %s", (delta, bid))
        row = (self.number, self.tx, times * delta, aid, tid, bid)
        columns = "writer, tx, delta, aid, tid, bid, at"
        verb = f"INSERT INTO tpcb.history ({columns}) VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp())"
        self.do(cursor, "history", verb, row)


class Churner(Booked):
    """Short-lived keys: deleted and inserted again several times, moved to other keys, undone by savepoints."""

    def act(self, cursor: pg.Cursor) -> None:
        for _ in range(self.draw.randint(1, 6)):
            undone = self.draw.random() < 0.15
            before = Counter(self.tally)
            if undone:
                cursor.execute("SAVEPOINT undone")
            self._step(cursor, self.draw.randint(1, GROUPS), self.draw.randint(1, HOT))
            if undone:
                cursor.execute("ROLLBACK TO SAVEPOINT undone")
                self.tally = before

    def _step(self, cursor: pg.Cursor, grp: int, key: int) -> None:
        draw = self.draw
        match draw.choice(("again", "again", "move", "move back", "replace", "update", "delete")):
            case "again":
                for _ in range(draw.randint(2, 6)):
                    self._remove(cursor, grp, key)
                    self._put(cursor, grp, key)
            case "move":
                verb = "UPDATE tpcb.churn SET id = id + 1000, v = v + 1 WHERE grp = %s AND id = %s"
                self.do(cursor, "churn", verb, (grp, key))
            case "move back":
                verb = "UPDATE tpcb.churn SET id = id - 1000 WHERE grp = %s AND id = %s"
                self.do(cursor, "churn", verb, (grp, key + 1_000))
            case "replace":
                self._remove(cursor, grp, key)
                self._put(cursor, grp, key + 2_000)
            case "update":
                verb = "UPDATE tpcb.churn SET v = %s, note = %s WHERE grp = %s AND id BETWEEN %s AND %s"
                note = draw.choice((None, "", "\\N", "tab\there", "x" * 900))
                self.do(cursor, "churn", verb, (draw.randrange(10**6), note, grp, key, key + 3))
            case _:
                self._remove(cursor, grp, draw.choice((key, key + 1_000, key + 2_000)))

    def _remove(self, cursor: pg.Cursor, grp: int, key: int) -> None:
        self.do(cursor, "churn", "DELETE FROM tpcb.churn WHERE grp = %s AND id = %s", (grp, key))

    def _put(self, cursor: pg.Cursor, grp: int, key: int) -> None:
        verb = "INSERT INTO tpcb.churn (grp, id, v) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        self.do(cursor, "churn", verb, (grp, key, self.draw.randrange(10**6)))


class Bulker(Booked):
    """Tens of thousands of rows in one transaction."""

    def act(self, cursor: pg.Cursor) -> None:
        draw = self.draw
        first = draw.randint(1, BULK // 2)
        last = draw.randint(first + BULK // 4, BULK)
        delete = "DELETE FROM tpcb.bulk WHERE id BETWEEN %s AND %s"
        insert = (
            "INSERT INTO tpcb.bulk (id, v, pad) SELECT n, %s, repeat('c', 60) FROM generate_series(%s::bigint, %s) n"
            " WHERE NOT EXISTS (SELECT FROM tpcb.bulk b WHERE b.id = n)"
        )
        match draw.choice(("delete", "insert", "update", "replace")):
            case "delete":
                self.do(cursor, "bulk", delete, (first, last))
            case "insert":
                self.do(cursor, "bulk", insert, (self.tx, 1, BULK))
            case "update":
                verb = "UPDATE tpcb.bulk SET v = v + 1 WHERE id BETWEEN %s AND %s"
                self.do(cursor, "bulk", verb, (first, last))
            case _:
                self.do(cursor, "bulk", delete, (first, last))
                self.do(cursor, "bulk", insert, (self.tx, first, last))


class Purger(Loop):
    """Purges the records that every slot has passed, as DWS does automatically; `held` suspends it."""

    def __init__(self, product: Product) -> None:
        super().__init__(product.connect, "purger", lambda: 0.0)
        self._product = product
        self.held = threading.Event()

    def work(self) -> None:
        while not self._stop_asked.wait(PURGE_EVERY):
            try:
                if not self.held.is_set():
                    self._product.warehouse.purge()
            except pg.DriverError:
                continue  # the server restarts, or a table is altered: the next turn purges


class Load:
    """All writers of a run; `quiet` ends them and `start` starts their next turn."""

    def __init__(self, product: Product, seed: int) -> None:
        self.product, self.seed = product, seed
        self.turn = self.beacons = 0
        self.bulk_every = 8.0
        self.writers: list[Booked | Writer] = []
        self.acknowledged: dict[int, list[int]] = {}
        """Per teller the transactions whose COMMIT was answered."""
        self.committed = 0
        self.purger = Purger(product)
        self._create()
        self.purger.start()

    def _create(self) -> None:
        for table in TABLES:
            self.product.warehouse.create_table(table.name, table.ddl, table.key, table.key[:1])
        with closing(self.product.connect()) as connection, pg.transaction(connection) as cursor:
            for table in TABLES:
                columns = [column.split()[0] for column in table.ddl.split(", ")]
                named = {"tpcb.history": ["writer", "tx", "delta"]}.get(table.name) or [
                    one for one in columns if one not in ("mark", "note")
                ]
                cursor.execute(f"INSERT INTO {table.name} ({', '.join(named)}) {table.rows}")
            cursor.execute(_LEDGER)

    def start(self) -> None:
        self.turn += 1
        first, seed, bucket = self.turn * TURN, f"{self.seed}/{self.turn}", TokenBucket(ORDERS_RATE)
        mix = Mix(rows=self.product.rows)
        self.writers = [Teller(self.product, seed, first + n, 0.06) for n in range(3)]
        self.writers += [Churner(self.product, seed, first + 10 + n, 0.12) for n in range(2)]
        self.writers += [Bulker(self.product, seed, first + 20, self.bulk_every)]
        self.writers += [Writer(self.product.connect, self.seed, first + 30 + n, mix, bucket) for n in range(2)]
        for writer in self.writers:
            writer.start()

    def quiet(self) -> None:
        """End this turn's writers; raises the error that ended one of them early."""
        writers, self.writers = self.writers, []
        for writer in writers:
            writer.stop()
        for writer in writers:
            writer.finish(120)
            if isinstance(writer, Booked):
                self.committed += len(writer.acknowledged)
                if isinstance(writer, Teller):
                    self.acknowledged[writer.number] = writer.acknowledged
            else:
                self.committed += writer.stats.committed

    def refuse_dead(self) -> None:
        for writer in self.writers:
            if writer.error is not None:
                raise writer.error

    def close(self) -> None:
        """Request the end of all writers, in any state."""
        for one in (*self.writers, self.purger):
            one.stop()

    def beacon(self) -> int:
        """Change each table in one committed transaction; when its number arrives, all earlier changes have arrived."""
        self.beacons += 1
        number = self.beacons
        done = threading.Event()
        while not done.is_set():
            try:
                self._beacon(number)
                done.set()
            except pg.DriverError as error:
                if not gone(error) and pg.failure(error)[0] not in CONTENTION:
                    raise
                done.wait(0.2)
        return number

    def _beacon(self, number: int) -> None:
        order = Order(*BEACON, "new", "0.00", str(number), "2026-02-01 00:00:00+00", None, None)
        with closing(self.product.connect()) as connection:
            statements = Statements.of(connection)
            with pg.transaction(connection) as cursor:
                cursor.execute("SELECT FROM tpcb.ledger WHERE writer = %s", (-number,))
                if cursor.rowcount:
                    return  # the COMMIT whose answer was lost took effect
                for table in TABLES:
                    values = (-number, number, table.name)
                    cursor.execute("INSERT INTO tpcb.ledger VALUES (%s, %s, %s, 2)", values)
                    cursor.execute(f"UPDATE {table.name} SET mark = %s WHERE {table.beacon}", (number,))
                ledger.write(cursor, "beacon", number, statements.upsert(cursor, [order]))

    def booked(self) -> dict[str, int]:
        found = dict.fromkeys((table.name for table in TABLES), 0)
        with closing(self.product.connect()) as connection, pg.transaction(connection) as cursor:
            cursor.execute("SELECT tab, sum(events)::bigint FROM tpcb.ledger GROUP BY tab")
            found |= {str(name): int(events) for name, events in cursor.fetchall()}
        return found | {ORDERS: sum(self.product.ledger().values())}
