"""Views with every form that is maintained, random changes to the tables below them, and a fresh SELECT to judge by."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, RoundOptions, ViewSpec
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.views.compare import PostgresViews
from slotkeeper.core.sinks.postgres.views.rounds import Mutant
from slotkeeper.demo.postgres import Server
from tests.support.standin import drop_database, new_database

TABLES = """
CREATE SCHEMA ods; CREATE SCHEMA dim;
CREATE TABLE ods.orders (id int PRIMARY KEY, cust int, status text, amount numeric(10,2), qty int, weight float8);
CREATE TABLE ods.customers (id int PRIMARY KEY, region text, tier int);
CREATE TABLE ods.lines (order_id int, n int, sku text, price int, PRIMARY KEY (order_id, n));
CREATE TABLE dim.skus (sku text PRIMARY KEY, kind text);
INSERT INTO dim.skus VALUES ('s0', 'k0'), ('s1', 'k1'), ('r0', 'k0')
"""
TOTALS = """count(*) AS n, count(o.amount) AS known, sum(o.qty) AS qty, sum(o.amount) AS amount, avg(o.qty) AS mean,
avg(o.amount) AS mean_amount"""
VIEWS = (
    ViewSpec(
        "dwd.wide",
        "SELECT o.id, o.status, o.amount, o.qty, c.region, c.tier FROM ods.orders o LEFT JOIN ods.customers c"
        " ON c.id = o.cust",
        ("id",),
    ),
    ViewSpec(
        "dws.by_region",
        "SELECT c.region, o.status, count(*) AS n, sum(o.amount) AS amount, count(DISTINCT o.cust) AS customers,"
        " string_agg(o.status, ',' ORDER BY o.id, o.status) AS list, min(o.qty) AS low, max(o.weight) AS high"
        " FROM ods.orders o JOIN ods.customers c ON c.id = o.cust GROUP BY c.region, o.status",
    ),
    ViewSpec(
        "dws.by_region_left",
        "SELECT c.region, count(*) AS n, sum(o.qty) AS qty FROM ods.orders o LEFT JOIN ods.customers c"
        " ON o.cust = c.id AND c.tier > 0 GROUP BY 1",
    ),
    ViewSpec("dws.by_status", f"SELECT o.status, {TOTALS} FROM ods.orders o GROUP BY o.status", method="delta"),
    ViewSpec(
        "dws.by_status_again",
        "SELECT status, qty % 2 AS odd, count(*) AS n, sum(weight) AS weight, max(amount) AS high FROM ods.orders"
        " WHERE qty > 0 GROUP BY status, qty % 2 HAVING count(*) > 1",
    ),
    ViewSpec("dwd.cheap", "SELECT id, amount, upper(status) AS status FROM ods.orders WHERE amount < 5", ("id",)),
    ViewSpec(
        "dws.both",
        "SELECT 'orders' AS origin, status AS name, count(*) AS n FROM ods.orders GROUP BY 1, 2"
        " UNION ALL SELECT 'lines', sku, count(*) FROM ods.lines GROUP BY 1, 2",
    ),
    ViewSpec(
        "dws.of_regions",
        "SELECT region, sum(n) AS n, sum(amount) AS amount FROM dws.by_region GROUP BY region",
    ),
    ViewSpec(
        "dwd.pairs",
        "SELECT o.id, l.order_id, l.n, c.id AS customer, l.price, c.region FROM ods.orders o LEFT JOIN ods.lines l"
        " ON l.order_id = o.id LEFT JOIN ods.customers c ON c.id = o.cust WHERE o.qty IS DISTINCT FROM 3",
        ("id", "order_id", "n"),
    ),
    ViewSpec(
        "dwd.with_kind",
        "SELECT l.order_id, l.n, l.sku, s.kind FROM ods.lines l LEFT JOIN dim.skus s ON s.sku = l.sku",
        ("order_id", "n"),
        ("dim.skus",),
    ),
    ViewSpec(
        "dwd.peers",
        "SELECT a.id, b.id AS peer, a.tier FROM ods.customers a JOIN ods.customers b ON b.tier = a.tier"
        " AND b.id > a.id",
        ("id", "peer"),
    ),
    ViewSpec(
        "dws.of_wide",
        "SELECT region, tier, count(*) AS n, sum(amount) AS amount FROM dwd.wide GROUP BY region, tier",
    ),
    ViewSpec(
        "dws.chained",
        "SELECT l.sku, c.region, count(*) AS n, sum(l.price) AS price FROM ods.orders o LEFT JOIN ods.customers c"
        " ON c.id = o.cust LEFT JOIN ods.lines l ON l.sku = coalesce(c.region, 'r0') GROUP BY l.sku, c.region",
    ),
)
SOME = "INSERT INTO ods.orders SELECT n, n % 3, chr(97 + n % 2), n, n, n FROM generate_series(1, 20) n"
_numbers = itertools.count(1)
CHANNELS = tuple(ChannelSpec(f"src.{name}", f"ods.{name}") for name in ("orders", "customers", "lines"))


@dataclass
class Layers:
    """A database with the tables, the views of a job over them, and sessions to both."""

    server: Server
    database: str
    views: tuple[ViewSpec, ...] = VIEWS
    most: int = 100_000

    def __post_init__(self) -> None:
        self.open_ = [self.server.connect(self.database)]
        self.connection = self.open_[0]
        self.connection.autocommit = True

    @property
    def job(self) -> JobSpec:
        login = self.server.endpoint(self.database)
        return JobSpec("layers", login, login, "s", CHANNELS, views=self.views, rounds=RoundOptions(200, self.most))

    def session(self) -> SinkSession:
        password = self.server.password_file.read_text(encoding="utf-8").strip()
        return SinkSession(self.server.endpoint(self.database), password, "slotkeeper/layers/views")

    def maintained(self, mutant: Mutant | None = None) -> PostgresViews:
        return PostgresViews(self.session(), self.job, mutant=mutant)

    def built(self, mutant: Mutant | None = None) -> tuple[PostgresViews, int]:
        """Build all views; return them and their epoch."""
        views = self.maintained(mutant)
        epoch = views.enter()
        for view in views.views:
            views.build(view.target, epoch)
        return views, epoch

    def run(self, *statements: str) -> None:
        """Run the statements in one transaction."""
        with self.connection.cursor() as cursor:
            cursor.execute("BEGIN; " + "; ".join(statements) + "; COMMIT")

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def wrong(self, views: PostgresViews | None = None) -> dict[str, int]:
        """The views that differ from a fresh SELECT as typed, all in one snapshot, with the number of rows.

        With `views`: in the snapshot of its open transaction.
        """
        parts = []
        for view in self.views:
            one, other = f"SELECT * FROM {view.target}", f"SELECT * FROM ({view.sql}) q"
            both = f"(({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one}))"
            parts.append(f"SELECT '{view.target}', count(*) FROM {both} d")
        statement = " UNION ALL ".join(parts)
        if views is None:
            return {str(name): int(str(count)) for name, count in self.rows(statement) if count}
        with views._session.ready().cursor() as cursor:
            cursor.execute(statement)
            return {name: count for name, count in cursor.fetchall() if count}

    def vacuum(self) -> None:
        """Clean up what autovacuum would, which is off in tests."""
        with self.connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")

    def close(self) -> None:
        for one in self.open_:
            one.close()


@pytest.fixture
def layers(pg_server: Server) -> Iterator[Layers]:
    """A database with the tables below the views."""
    database = f"layers_{next(_numbers)}"
    new_database(pg_server, database, *TABLES.strip().split(";"))
    made = Layers(pg_server, database)
    yield made
    made.close()
    drop_database(pg_server, database)


def some(draw: random.Random, values: Sequence[str]) -> str:
    return draw.choice([*values, "NULL"])


def change(draw: random.Random) -> str:
    """A random statement on one of few rows, so that groups become empty, and keys move between them."""
    ident, other = draw.randrange(1, 7), draw.randrange(1, 7)
    status, region = some(draw, ("'a'", "'b'", "''")), some(draw, ("'r0'", "'r1'"))
    amount, sku = some(draw, ("1.50", "4.99", "7", "10.01")), some(draw, ("'s0'", "'r0'", "'s9'"))
    qty, tier = some(draw, ("0", "1", "2", "3")), some(draw, ("0", "1"))
    weight = some(draw, ("0.5", "2"))
    return draw.choice(
        (
            f"INSERT INTO ods.orders VALUES ({ident}, {other}, {status}, {amount}, {qty}, {weight}) ON CONFLICT (id)"
            f" DO UPDATE SET status = {status}, amount = {amount}, qty = {qty}",
            f"INSERT INTO ods.orders VALUES ({ident}, NULL, {status}, {amount}, {qty}, {weight}) ON"
            " CONFLICT DO NOTHING",
            f"UPDATE ods.orders SET cust = {some(draw, [str(other)])} WHERE id >= {ident}",
            f"UPDATE ods.orders SET status = {status}, weight = {weight} WHERE id = {ident}",
            f"UPDATE ods.orders SET id = id + 100 * (CASE WHEN id > 100 THEN -1 ELSE 1 END) WHERE id % 100 = {ident}"
            f" AND NOT EXISTS (SELECT FROM ods.orders o WHERE o.id IN ({ident} + 100, {ident})"
            " AND o.id <> ods.orders.id)",
            f"DELETE FROM ods.orders WHERE id % 100 IN ({ident}, {other})",
            f"INSERT INTO ods.customers VALUES ({ident}, {region}, {tier}) ON CONFLICT (id) DO UPDATE SET region ="
            f" {region}, tier = {tier}",
            f"DELETE FROM ods.customers WHERE id = {ident}",
            f"UPDATE ods.customers SET region = {region} WHERE id > {ident}",
            f"INSERT INTO ods.lines VALUES ({ident}, {other}, {sku}, {ident * other}) ON CONFLICT (order_id, n) DO"
            f" UPDATE SET sku = {sku}",
            f"DELETE FROM ods.lines WHERE order_id = {ident}",
            f"UPDATE ods.lines SET price = price + 1, sku = {sku} WHERE n = {other}",
            # a line of an open transaction would be refreshed with the kind of before, and not touched again
            "LOCK TABLE ods.lines IN SHARE ROW EXCLUSIVE MODE; INSERT INTO dim.skus VALUES"
            f" ('s{9 * (other % 2)}', 'k{other}') ON CONFLICT (sku) DO UPDATE"
            " SET kind = excluded.kind; UPDATE ods.lines SET price = price",
        )
    )


def transaction(draw: random.Random) -> list[str]:
    return [change(draw) for _ in range(draw.choice((1, 1, 2, 4)))]


@contextmanager
def writing(layers: Layers, seed: int, writers: int = 4) -> Iterator[None]:
    """Let writers run random transactions during the block."""
    stop = threading.Event()

    def write(number: int) -> None:
        draw = random.Random(seed * 31 + number)
        with closing(layers.server.connect(layers.database)) as connection, connection.cursor() as cursor:
            while not stop.is_set():
                try:
                    cursor.execute("BEGIN; " + "; ".join(transaction(draw)) + "; COMMIT")
                except pg.DriverError:  # a deadlock, a key that another writer took, or a table that is gone
                    cursor.execute("ROLLBACK")

    threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(writers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def beside_writers(layers: Layers, seed: int, rounds: int) -> tuple[int, list[dict[str, int]]]:
    """Run rounds while writers work; return the changes applied, and what was wrong in the snapshot of each round."""
    views, epoch = layers.built()
    applied, found = 0, list[dict[str, int]]()
    views.probe = lambda point: found.append(layers.wrong(views)) if point == "before_round_commit" else None
    with writing(layers, seed):
        while len(found) < rounds:
            done = views.round(epoch)
            assert not done.stale, done
            applied += sum(done.applied.values())
    return applied, found
