"""The workload's table `ods.orders`: its columns, its first rows, and the statements that change it.

Every statement returns its changes per DN: its RETURNING clause computes each row's DN with the stand-in's own
expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotkeeper.core.drivers import pg
from slotkeeper.demo.ledger import Events, Tally

TABLE = "ods.orders"
KEY = ("cust", "order_no")
DISTRIBUTE_BY = ("cust",)
COLUMNS = (
    ("cust", "bigint"),
    ("order_no", "bigint"),
    ("status", "text"),
    ("amount", "numeric(12,2)"),
    ("note", "text"),
    ("created", "timestamptz"),
    ("paid", "boolean"),
    ("attrs", "jsonb"),
)
DDL_COLUMNS = ", ".join(
    f"{name} {kind}{' NOT NULL' if name in KEY else ''}"  # a key column is never NULL, in the source or the sink
    for name, kind in COLUMNS
)
CUSTS = 1_000
"""Customers 1 to 1,000 share the orders; order n belongs to customer n % CUSTS + 1. Negative customers are markers."""

ROWS_PER_STATEMENT = 50_000

_ROW = """
SELECT i %% {custs} + 1, i,
       (ARRAY['new', 'paid', 'sent', 'returned'])[1 + h %% 4], (h %% 10000000) / 100.0,
       CASE h %% 16 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'NULL' WHEN 3 THEN E'tab\\there\\nand a line\\\\N'
                   WHEN 4 THEN 'Gr\u00fc\u00dfe \u4f60\u597d \U0001f680' ELSE 'note ' || h END,
       timestamptz '2026-01-01 00:00:00+00' + i %% 20000000 * interval '1 second'
           + h %% 1000000 * interval '1 microsecond',
       CASE h %% 5 WHEN 0 THEN NULL ELSE h %% 2 = 0 END,
       CASE h %% 8 WHEN 0 THEN NULL ELSE jsonb_build_object('n', h, 'tags', jsonb_build_array('a', h %% 7)) END
  FROM (SELECT i, hashint8extended(i, %(seed)s) & 4611686018427387903 AS h
          FROM generate_series(%(first)s::bigint, %(last)s::bigint) i) g
""".replace("{custs}", str(CUSTS))

_BY_KEY = "(o.cust, o.order_no) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))"
_NAMES = ", ".join(name for name, _ in COLUMNS)
_UNNEST = "SELECT * FROM unnest(" + ", ".join(f"%s::{kind}[]" for _, kind in COLUMNS) + ")"
_SET = ", ".join(f"{name} = excluded.{name}" for name, _ in COLUMNS if name not in KEY)
_OTHERS = "status = %s, amount = o.amount + 1, note = %s, paid = NOT o.paid"
_BULK_KEYS = (
    f"SELECT i %% {CUSTS} + 1 AS cust, i AS order_no FROM generate_series(%(first)s::bigint, %(last)s::bigint) i"
)


@dataclass(frozen=True, slots=True)
class Order:
    """The values of one order; `attrs` is JSON text."""

    cust: int
    order_no: int
    status: str
    amount: str
    note: str | None
    created: str
    paid: bool | None
    attrs: str | None


Keys = Sequence[tuple[int, int]]


def load(connection: pg.Connection, rows: int, seed: int, first: int = 1) -> int:
    """Fill the table with `rows` orders that the server generates from `seed`; commits; not recorded in the ledger.

    Call it before the slot exists: rows loaded later would be recorded in the binlog but not in the ledger.
    """
    for start in range(first, first + rows, ROWS_PER_STATEMENT):
        last = min(start + ROWS_PER_STATEMENT, first + rows) - 1
        with pg.transaction(connection) as cursor:
            cursor.execute(f"INSERT INTO {TABLE} ({_NAMES}) {_ROW}", {"seed": seed, "first": start, "last": last})
    return rows


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements for one cluster: `dn` is the SQL expression for the DN of row o, `names` the cluster's DN
    names by number.
    """

    dn: str
    names: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, connection: pg.Connection) -> Statements:
        """Query the stand-in, DWS or Hologres, for the placement of the table's rows; a real DWS provides
        xc_node_id.
        """
        with pg.transaction(connection) as cursor:
            cursor.execute("SELECT CASE WHEN to_regnamespace('dws') IS NULL THEN 'hg_standin' ELSE 'dws' END")
            standin = str(cursor.fetchall()[0][0])
            cursor.execute(f"SELECT {standin}.dn_expression(%s::regclass, 'o')", (TABLE,))
            expression = str(cursor.fetchall()[0][0])
            cursor.execute(f"SELECT ord, node_name::text FROM {standin}.node ORDER BY ord")
            return cls(expression, tuple((int(number), str(name)) for number, name in cursor.fetchall()))

    def insert(self, cursor: pg.Cursor, orders: Sequence[Order]) -> Tally:
        """Insert orders; a key that exists is an error."""
        return self._run(cursor, f"INSERT INTO {TABLE} AS o ({_NAMES}) {_UNNEST}", "'i'", _arrays(orders))

    def upsert(self, cursor: pg.Cursor, orders: Sequence[Order]) -> Tally:
        """Insert or overwrite orders; xmax 0 identifies a new row; any other xmax is the lock on the old row."""
        verb = f"INSERT INTO {TABLE} AS o ({_NAMES}) {_UNNEST} ON CONFLICT (cust, order_no) DO UPDATE SET {_SET}"
        return self._run(cursor, verb, "CASE WHEN o.xmax = 0 THEN 'i' ELSE 'u' END", _arrays(orders))

    def update(self, cursor: pg.Cursor, keys: Keys, status: str, note: str | None) -> Tally:
        """Change some columns of the rows of `keys` that exist."""
        verb = f"UPDATE {TABLE} AS o SET {_OTHERS} WHERE {_BY_KEY}"
        return self._run(cursor, verb, "'u'", (status, note, *_columns(keys)))

    def delete(self, cursor: pg.Cursor, keys: Keys) -> Tally:
        """Delete the rows of `keys` that exist."""
        return self._run(cursor, f"DELETE FROM {TABLE} AS o WHERE {_BY_KEY}", "'d'", _columns(keys))

    def change_keys(self, cursor: pg.Cursor, keys: Keys, numbers: Sequence[int]) -> Tally:
        """Give the rows of `keys` that exist new order numbers, in the same order; the customer, which determines the
        DN, stays.
        """
        verb = (
            f"UPDATE {TABLE} AS o SET order_no = m.new FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) "
            "AS m (cust, old, new) WHERE o.cust = m.cust AND o.order_no = m.old"
        )
        return self._run(cursor, verb, "'k'", (*_columns(keys), list(numbers)))

    def bulk_insert(self, cursor: pg.Cursor, first: int, rows: int, seed: int) -> Tally:
        """Insert order `first` and the `rows` - 1 orders after it, in one statement."""
        values = {"seed": seed, "first": first, "last": first + rows - 1}
        return self._run(cursor, f"INSERT INTO {TABLE} AS o ({_NAMES}) {_ROW}", "'i'", values)

    def bulk_update(self, cursor: pg.Cursor, first: int, rows: int, seed: int) -> Tally:
        """Change these orders in one statement."""
        verb = (
            f"UPDATE {TABLE} AS o SET amount = o.amount + 0.01, note = 'bulk ' || %(seed)s FROM ({_BULK_KEYS}) m "
            "WHERE o.cust = m.cust AND o.order_no = m.order_no"
        )
        return self._run(cursor, verb, "'u'", {"seed": seed, "first": first, "last": first + rows - 1})

    def bulk_delete(self, cursor: pg.Cursor, first: int, rows: int) -> Tally:
        """Delete these orders in one statement."""
        verb = f"DELETE FROM {TABLE} AS o USING ({_BULK_KEYS}) m WHERE o.cust = m.cust AND o.order_no = m.order_no"
        return self._run(cursor, verb, "'d'", {"first": first, "last": first + rows - 1})

    def _run(self, cursor: pg.Cursor, verb: str, kind: str, values: object) -> Tally:
        # The server counts the rows and returns one small row per DN and kind, regardless of the number of changed
        # rows.
        dn = self.dn.replace("%", "%%")
        cursor.execute(
            f"WITH done AS ({verb} RETURNING {dn} AS dn, {kind} AS kind) "
            "SELECT dn, count(*) FILTER (WHERE kind = 'i'), count(*) FILTER (WHERE kind = 'u'), "
            "count(*) FILTER (WHERE kind = 'd'), count(*) FILTER (WHERE kind = 'k') FROM done GROUP BY dn",
            values,
        )
        names = dict(self.names)
        return {names[row[0]]: Events(*row[1:]) for row in cursor.fetchall()}


def _columns(keys: Keys) -> tuple[list[int], list[int]]:
    return [cust for cust, _ in keys], [number for _, number in keys]


def _arrays(orders: Sequence[Order]) -> tuple[list[object], ...]:
    return tuple([getattr(order, name) for order in orders] for name, _ in COLUMNS)
