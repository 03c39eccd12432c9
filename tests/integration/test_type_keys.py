"""Keys of every type that can be a key: chunks end where they should, changes find their row, texts end up equal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror

TABLE = "ods.keyed"
TEXTS = "VALUES ('a'), ('A'), ('ab'), ('aB'), ('Ab'), ('z'), ('Z'), ('ä'), ('Ä'), ('é'), ('e'), ('_x'), ('x y'), (' '), (''), ('O''k'), (E'\\\\'), (E't\\tb'), ('10'), ('9')"  # noqa: E501
SOLE = {
    "text": ("text", TEXTS),
    "numeric": ("numeric", "VALUES ('NaN'), ('Infinity'), ('-Infinity'), (0), (1.50), (-1.5), (1e40), (1e-40), (2)"),
    "timestamptz": (
        "timestamptz",
        "VALUES ('-infinity'), ('infinity'), ('0044-03-15 BC'), ('2024-01-01'), ('10000-01-01'), ('2024-01-02')",
    ),
    "uuid": ("uuid", "SELECT md5(n::text)::uuid FROM generate_series(1, 20) n"),
    "bytea": ("bytea", "VALUES ('\\x'), ('\\x00'), ('\\xff'), ('\\x5c5c'), ('\\x0a09'), ('\\xdeadbeef'), ('abc')"),
}
MANY = {
    "b": ("bigint", "n"),
    "money": ("money", "(n * 0.37)::numeric::money"),
    "bits": ("bit(8)", "n::bit(8)"),
    "span": ("interval", "n * interval '1 hour 1 day'"),
    "net": ("inet", "('10.0.0.' || n % 250)::inet"),
    "mac": ("macaddr", "('08:00:2b:01:02:' || lpad(to_hex(n % 250), 2, '0'))::macaddr"),
    "day": ("date", "date '1999-12-25' + n"),
    "clock": ("timetz", "time '00:00' + n * interval '1 minute'"),
    "js": ("jsonb", "jsonb_build_object('a', n % 3)"),
    "ints": ("integer[]", "ARRAY[n % 2, NULL, n]"),
    "rng": ("int4range", "int4range(n, n + 3)"),
    "vec": ("tsvector", "to_tsvector('simple', 'w' || n % 5)"),
    "nm": ("name", "'N' || n % 7"),
    "one": ('"char"', 'chr(65 + n % 26)::"char"'),
}
"""Columns of one key, and each column's value in row n."""

LOOSE = {
    "numeric": ("numeric", "1.0", "1.000"),
    "interval": ("interval", "1 mon", "30 days"),
    "jsonb": ("jsonb", '{"a": 1.0}', '{"a": 1.00}'),
    "double": ("double precision", "0", "-0"),
    "array": ("numeric[]", "{1.0}", "{1.00}"),
    "range": ("numrange", "[1.0,2)", "[1.00,2)"),
    "blanks": ("bpchar", "a", "a  "),
}
"""Values that are equal as keys and not as text."""


def _mirror(warehouse: Warehouse, make_mirror: MakeMirror, columns: str, key: tuple[str, ...]) -> Mirror:
    warehouse.create_table(TABLE, columns, key, key[:1])
    made = make_mirror(warehouse, TABLE)
    made.job = replace(made.job, binlog=replace(made.job.binlog, full_sync_binlog_batch_read_size=3))
    return made


@pytest.mark.parametrize("name", SOLE)
def test_a_key_of_one_column(warehouse: Warehouse, make_mirror: MakeMirror, name: str) -> None:
    type_, rows = SOLE[name]
    mirror = _mirror(warehouse, make_mirror, f"id {type_}, n integer", ("id",))
    mirror.source(f"INSERT INTO {TABLE} SELECT v::{type_}, 1 FROM ({rows}) x(v)")
    mirror.start().wait_running()
    mirror.wait_equal(20)
    mirror.source(f"UPDATE {TABLE} SET n = 2")
    mirror.source(f"CREATE TABLE kept AS SELECT * FROM {TABLE}", f"DELETE FROM {TABLE}")
    mirror.wait_equal(20)
    mirror.source(f"INSERT INTO {TABLE} SELECT * FROM kept")
    mirror.wait_equal(20)
    mirror.stop()


def test_a_key_of_many_columns_of_which_each_is_changed(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in MANY.items())
    mirror = _mirror(warehouse, make_mirror, f"k integer, {columns}, note text", ("k", *MANY))
    values = ", ".join(value for _, value in MANY.values())
    mirror.source(f"INSERT INTO {TABLE} SELECT n % 4, {values}, 'row ' || n FROM generate_series(1, 40) n")
    mirror.start().wait_running()
    mirror.wait_equal(20)
    for name, (_, value) in MANY.items():
        mirror.source(
            f"UPDATE {TABLE} SET {name} = (SELECT {value} FROM (SELECT (b + 1000)::integer AS n) x) WHERE k = 1"
        )
        mirror.source(f"DELETE FROM {TABLE} WHERE ctid IN (SELECT ctid FROM {TABLE} WHERE k = 2 LIMIT 1)")
    mirror.wait_equal(20)
    mirror.stop()


def test_a_key_that_is_equal_but_spelled_otherwise(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    columns = ", ".join(f'"{name}" {type_}' for name, (type_, _, _) in LOOSE.items())
    mirror = _mirror(warehouse, make_mirror, f"k integer, {columns}, n integer", ("k", *LOOSE))
    before = ", ".join(f"'{one}'" for _, one, _ in LOOSE.values())
    after = ", ".join(f"'{other}'" for _, _, other in LOOSE.values())
    mirror.source(f"INSERT INTO {TABLE} SELECT k, {before}, 1 FROM (VALUES (1), (2), (3)) v(k)")
    mirror.start().wait_running()
    mirror.wait_equal(20)
    changed = ", ".join(f"\"{name}\" = '{other}'" for name, (_, _, other) in LOOSE.items())
    mirror.source(
        f"UPDATE {TABLE} SET {changed} WHERE k = 1",
        f"DELETE FROM {TABLE} WHERE k = 2",
        f"INSERT INTO {TABLE} VALUES (2, {after}, 1)",
    )
    mirror.wait_equal(20)
    mirror.stop()
