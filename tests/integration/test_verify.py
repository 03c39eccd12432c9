"""The comparison against real servers: two databases of one PostgreSQL, every kind of value and of difference."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st

from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import PgTable, over
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import WHOLE, ComparedTable, Key, KeyRange
from slotkeeper.core.verify.compare import Comparison, Options, compare, open_pair
from slotkeeper.demo.postgres import Server

SMALL = Options(range_rows=40, fan_out=4, leaf_rows=8)
DATABASES = ("verify_source", "verify_sink")
WIDE = (
    "id bigint PRIMARY KEY, t text, v varchar(80), c char(6), n numeric(20,4), f float8, r real, ts timestamp, "
    "tz timestamptz, d date, b boolean, j jsonb, y bytea, u uuid, i interval, a text[]"
)
HOSTILE = [
    None, "", "NULL", "-", "|", "1:a", "0:", "\\N", "a\tb", "line\nbreak\r\n", "'; DROP TABLE v.t; --", "\x1b]0;x\x07",
    "\u202eabc", "e\u0301", "\u00e9", "\U0001f680", "%s %d %%", "{} {0}", '"quoted" and \\', "x" * 20_000,
]  # fmt: skip


Sides = tuple[ComparedTable, ComparedTable]


@dataclass(frozen=True, slots=True)
class Pair:
    source: pg.Connection
    sink: pg.Connection

    def opened(self, table: str, target: str, mapping: dict[str, str] | None = None, where: str = "") -> Sides:
        return open_pair(over(self.source), table, over(self.sink), target, mapping, where)

    def both(self, *statements: str) -> None:
        for connection in (self.source, self.sink):
            run(connection, *statements)

    def compare(self, options: Options = SMALL, table: str = "v.t") -> Comparison:
        return compare(*self.opened(table, table), options)


def run(connection: pg.Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture(scope="module")
def sessions(pg_server: Server) -> Iterator[Pair]:
    """Two databases that exist for the tests of this module."""
    admin = pg_server.connect("postgres")
    for name in DATABASES:
        run(admin, f"CREATE DATABASE {name}")
    pair = Pair(*(pg_server.connect(name) for name in DATABASES))
    yield pair
    pair.source.close()
    pair.sink.close()
    for name in DATABASES:
        run(admin, f"DROP DATABASE {name} WITH (FORCE)")
    admin.close()


@pytest.fixture
def pair(sessions: Pair) -> Pair:
    sessions.both("DROP SCHEMA IF EXISTS v CASCADE", "CREATE SCHEMA v")
    return sessions


@pytest.fixture
def numbered(pair: Pair) -> Pair:
    """A table of 1,000 rows with a composite key, equal at both sides."""
    pair.both(
        "CREATE TABLE v.t (a bigint, b bigint, t text, f float8, PRIMARY KEY (a, b))",
        "INSERT INTO v.t SELECT i % 50, i, 'row ' || i, i / 3.0 FROM generate_series(1, 1000) i",
    )
    return pair


def test_equal_tables_are_equal_in_one_checksum_per_range(numbered: Pair) -> None:
    found = numbered.compare()
    assert (found.equal, found.rows_source, found.rows_sink, found.ranges) == (True, 1000, 1000, 25)


def test_every_kind_of_difference_is_found_and_named(numbered: Pair) -> None:
    run(
        numbered.sink,
        "DELETE FROM v.t WHERE b = 77",
        "UPDATE v.t SET t = t || ' ' WHERE b = 500",
        "INSERT INTO v.t VALUES (7, -1, 'more', 0), (9999, 1, 'last', 0)",
        "UPDATE v.t SET b = 5000 WHERE b = 900",
    )
    found = numbered.compare()
    assert found.missing.keys == (("0", "900"), ("27", "77"))
    assert found.extra.keys == (("0", "5000"), ("7", "-1"), ("9999", "1"))
    assert found.different.keys == (("0", "500"),)
    assert found.differing_columns == (("t", 1),)
    assert (found.rows_source, found.rows_sink, found.equal) == (1000, 1001, False)


def test_an_empty_sink_is_all_missing_and_names_a_bounded_list(numbered: Pair) -> None:
    run(numbered.sink, "TRUNCATE v.t")
    found = numbered.compare(Options(range_rows=40, fan_out=4, leaf_rows=8, named=5, pending=64))
    assert (found.missing.count, len(found.missing.keys), found.rows_sink) == (1000, 5, 0)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("'', NULL", "NULL, ''"),
        ("NULL, NULL", "'NULL', NULL"),
        ("'', 'x'", "'x', ''"),
        ("'a|b', 'c'", "'a', 'b|c'"),
        ("'1:a', 'b'", "'1', 'a1:b'"),
        ("'-', NULL", "NULL, '-'"),
        ("'a', NULL", "'a-', ''"),
        ("'a ', 'b'", "'a', ' b'"),
        ("E'e\\u0301', ''", "E'\\u00e9', ''"),
    ],
)
def test_values_that_look_alike_are_told_apart(pair: Pair, ours: str, theirs: str) -> None:
    """In the range's hash itself: the two tables' checksums must differ."""
    pair.both("CREATE TABLE v.t (id int PRIMARY KEY, x text, y text)")
    run(pair.source, f"INSERT INTO v.t VALUES (1, {ours})")
    run(pair.sink, f"INSERT INTO v.t VALUES (1, {theirs})")
    left, right = pair.opened("v.t", "v.t")
    assert left.checksum(WHOLE) != right.checksum(WHOLE)
    assert compare(left, right).different.keys == (("1",),)


def test_every_type_and_hostile_text_compares_equal_to_its_copy(pair: Pair) -> None:
    pair.both(f"CREATE TABLE v.t ({WIDE})")
    values = (
        "SELECT i, %s::text, left(%s::text, 80), 'ab', i / 7.0, i / 3.0, (i / 3.0)::real, "
        "timestamp '2026-03-29 01:30:00.000001' + i * interval '1 hour', timestamptz '1900-01-01 00:00:00+02', "
        "date '0044-03-15 BC', i %% 2 = 0, jsonb_build_object('k', %s::text, 'n', i), decode('00ff5c', 'hex'), "
        "('00000000-0000-4000-8000-' || lpad(i::text, 12, '0'))::uuid, i * interval '1 day 2 s', ARRAY[%s::text, NULL] "
        "FROM generate_series(%s::int, %s::int) i"
    )
    for connection in (pair.source, pair.sink):
        with connection.cursor() as cursor:
            for place, text in enumerate(HOSTILE):
                cursor.execute(f"INSERT INTO v.t {values}", (text, text, text, text, place * 10, place * 10 + 9))
            cursor.execute("INSERT INTO v.t (id, f, r, n, ts) VALUES (-1, 'NaN', 'Infinity', 'NaN', 'infinity')")
    found = pair.compare()
    assert (found.equal, found.rows_sink) == (True, len(HOSTILE) * 10 + 1)


@pytest.mark.parametrize(
    ("column", "ours", "theirs"),
    [
        ("f", "0.1", "0.1::float8 + 1e-17::float8 + 1.4e-17::float8"),
        ("n", "1.0000", "1.0001"),
        ("ts", "'2026-01-01 00:00:00.000001'", "'2026-01-01'"),
        ("tz", "'2026-10-25 00:30:00+00'", "'2026-10-25 01:30:00+00'"),
        ("j", """'{"a": null}'""", "'{}'"),
        ("j", "'null'", "NULL"),
        ("y", r"'\x00'", r"'\x'"),
        ("y", r"'\x'", "NULL"),
        ("a", "ARRAY[NULL]::text[]", "ARRAY['NULL']"),
        ("b", "NULL", "false"),
    ],
)
def test_the_smallest_difference_of_each_type_is_found(pair: Pair, column: str, ours: str, theirs: str) -> None:
    pair.both(f"CREATE TABLE v.t ({WIDE})")
    run(pair.source, f"INSERT INTO v.t (id, {column}) VALUES (1, {ours})")
    run(pair.sink, f"INSERT INTO v.t (id, {column}) VALUES (1, {theirs})")
    found = pair.compare()
    assert found.differing_columns == ((column, 1),)


KEYS = {
    "int": ("integer", "i - 500"),
    "text": ("text", "CASE i % 4 WHEN 0 THEN 'Z' WHEN 1 THEN 'a b' WHEN 2 THEN '\u00e9' ELSE 'A-' END || i"),
    "english text": ('text COLLATE "en_any"', "CASE i % 3 WHEN 0 THEN 'Z' WHEN 1 THEN 'a' ELSE '_%\\' END || i"),
    "uuid": ("uuid", "md5(i::text)::uuid"),
    "timestamp": ("timestamptz", "'2026-01-01'::timestamptz + i * interval '7 min 1 us'"),
    "numeric": ("numeric", "CASE i % 2 WHEN 0 THEN i ELSE i + 0.50 END"),
    "float": ("float8", "i / 7.0::float8"),
    "bytea": ("bytea", "decode(md5(i::text), 'hex')"),
    "char": ("char(9)", "lpad(i::text, 5, 'q')"),
    "date and text": ("date", "'2026-01-01'::date + i % 5"),
}


@pytest.mark.parametrize("kind", list(KEYS))
def test_key_types_order_alike_and_are_named(pair: Pair, kind: str) -> None:
    column, expression = KEYS[kind]
    # A deterministic collation of another order than bytes, where the build has one; "C" has none to differ from.
    column = column.replace('"en_any"', _collation(pair.source))
    pair.both(
        f"CREATE TABLE v.t (k {column}, second text, x int, PRIMARY KEY (k, second))",
        f"INSERT INTO v.t SELECT {expression}, 's' || i, i FROM generate_series(1, 600) i",
    )
    run(pair.sink, "UPDATE v.t SET x = -1 WHERE x IN (17, 401)", "DELETE FROM v.t WHERE x = 300")
    found = pair.compare()
    assert {key[1] for key in found.different.keys} == {"s17", "s401"}
    assert [key[1] for key in found.missing.keys] == ["s300"]
    assert found.extra.count == 0


def _collation(connection: pg.Connection) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT quote_ident(collname) FROM pg_collation WHERE collname LIKE 'en%%' OR collname = 'C' "
            "ORDER BY collname = 'C', collname LIMIT 1"
        )
        return str(cursor.fetchall()[0][0])


def test_one_order_although_the_two_sides_have_other_collations(pair: Pair) -> None:
    run(pair.source, f"CREATE TABLE v.t (k text COLLATE {_collation(pair.source)} PRIMARY KEY, x int)")
    run(pair.sink, 'CREATE TABLE v.t (k text COLLATE "C" PRIMARY KEY, x int)')
    pair.both("INSERT INTO v.t SELECT substr('aBcDeF_-', i % 8 + 1, 1) || i, i FROM generate_series(1, 500) i")
    run(pair.sink, "DELETE FROM v.t WHERE x = 250")
    found = pair.compare()
    assert (found.missing.count, found.extra.count, found.different.count) == (1, 0, 0)


def test_a_composite_range_is_read_by_the_index(numbered: Pair) -> None:
    run(
        numbered.source,
        "INSERT INTO v.t SELECT 100 + i / 10, i, '', 0 FROM generate_series(2000, 30000) i",
        "ANALYZE v.t",
    )
    table = PgTable(partial(pg.transaction, numbered.source), "v.t")
    bounds = KeyRange(("400", "3005"), ("405", "3050"))
    with numbered.source.cursor() as cursor:
        cursor.execute("EXPLAIN " + table._statements.checksum(bounds).as_string(numbered.source))
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Index" in plan
    assert "Seq Scan" not in plan
    with numbered.source.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM v.t WHERE (a, b) >= (400, 3005) AND (a, b) < (405, 3050)")
        assert table.count(bounds) == cursor.fetchall()[0][0] == 45


def test_columns_are_paired_by_mapping_and_rows_by_filter(pair: Pair) -> None:
    run(pair.source, "CREATE TABLE v.t (id int PRIMARY KEY, name text, secret text)")
    run(pair.sink, 'CREATE TABLE v.target (num int PRIMARY KEY, "the % {name}" text, own int)')
    run(pair.source, "INSERT INTO v.t SELECT i, 'n' || i, 'hidden' FROM generate_series(1, 100) i")
    run(pair.sink, "INSERT INTO v.target SELECT i, 'n' || i, 5 FROM generate_series(1, 100) i WHERE i % 10 <> 0")
    mapping = {"id": "num", "name": "the % {name}"}
    sides = pair.opened("v.t", "v.target", mapping, where="t.id % 10 <> 0")
    assert compare(*sides, SMALL).equal
    run(pair.sink, 'UPDATE v.target SET "the % {name}" = NULL WHERE num = 3')
    assert compare(*sides, SMALL).differing_columns == (("name", 1),)


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("CREATE TABLE v.t (id int NOT NULL, x text)", "primary key"),
        ("CREATE TABLE v.t (other int PRIMARY KEY)", "unknown column id, x"),
    ],
)
def test_a_source_that_cannot_be_compared_is_refused(pair: Pair, ddl: str, why: str) -> None:
    run(pair.source, ddl)
    run(pair.sink, "CREATE TABLE v.t (id int PRIMARY KEY, x text)")
    with pytest.raises(Refused, match=why):
        pair.opened("v.t", "v.t", {"id": "id", "x": "x"})


def test_a_sink_key_that_may_be_null_or_has_another_type_is_refused(pair: Pair) -> None:
    run(pair.source, "CREATE TABLE v.t (id int PRIMARY KEY)")
    run(pair.sink, "CREATE TABLE v.t (id int)", "CREATE TABLE v.u (id text PRIMARY KEY)")
    with pytest.raises(Refused, match="is nullable"):
        pair.opened("v.t", "v.t")
    with pytest.raises(Refused, match="cannot compare"):
        compare(*pair.opened("v.t", "v.u"))


def test_a_changing_source_is_not_reported_but_a_real_difference_is(pg_server: Server, numbered: Pair) -> None:
    """A writer changes the source all the while and a mirror follows late; `settled` waits for the mirror."""
    run(numbered.sink, "UPDATE v.t SET t = 'wrong for good' WHERE b = 600", "DELETE FROM v.t WHERE b = 601")
    stop, passed, wanted = threading.Event(), threading.Condition(), [0, 0]

    def follow() -> None:
        # Each round changes the source, then mirrors it except for two rows that stay wrong.
        source, sink = (pg_server.connect(name) for name in DATABASES)
        round_number = 0
        while not stop.is_set():
            round_number += 1
            run(source, f"UPDATE v.t SET t = 'round {round_number}', f = -f WHERE b % 20 = {round_number % 20}")
            with source.cursor() as cursor:
                cursor.execute("SELECT a, b, t, f FROM v.t WHERE b %% 20 = %s", (round_number % 20,))
                rows = [row for row in cursor.fetchall() if row[1] not in (600, 601)]
            with sink.cursor() as cursor:
                for a, b, t, f in rows:
                    cursor.execute("UPDATE v.t SET t = %s, f = %s WHERE a = %s AND b = %s", (t, f, a, b))
            with passed:
                wanted[0] = round_number
                passed.notify_all()
        source.close()
        sink.close()

    def settled() -> bool:
        with passed:
            target = wanted[0] + 2  # the current round may have started before this call
            return passed.wait_for(lambda: wanted[0] >= target, timeout=120)

    mirror = threading.Thread(target=follow)
    mirror.start()
    try:
        options = Options(range_rows=40, fan_out=4, leaf_rows=8, settled=settled, rounds=20)
        found = [numbered.compare(options) for _ in range(3)]
    finally:
        stop.set()
        mirror.join(120)
    for one in found:
        assert set(one.different.keys) == {("0", "600")}
        assert set(one.missing.keys) == {("1", "601")}
        assert (one.extra.count, one.unsettled.count) == (0, 0)


EDITS = st.lists(
    st.tuples(st.sampled_from(["delete", "insert", "update", "key"]), st.integers(1, 300)), max_size=12
)  # fmt: skip


def test_random_differences_are_found_exactly(pair: Pair, seed: int) -> None:
    print(f"seed {seed}")
    pair.both("CREATE TABLE v.t (a int, b text, x text, PRIMARY KEY (a, b))")

    @hypothesis_seed(seed)
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @example(edits=[])
    @given(edits=EDITS)
    def check(edits: list[tuple[str, int]]) -> None:
        pair.both(
            "TRUNCATE v.t", "INSERT INTO v.t SELECT i % 7, 'k' || i, repeat('x', i % 9) FROM generate_series(1, 300) i"
        )
        for verb, number in edits:
            run(pair.sink, _edit(verb, number))
        expected = {name: _keys(pair, name) for name in DATABASES}
        found = pair.compare()
        ours, theirs = expected["verify_source"], expected["verify_sink"]
        assert set(found.missing.keys) == ours.keys() - theirs.keys()
        assert set(found.extra.keys) == theirs.keys() - ours.keys()
        assert set(found.different.keys) == {k for k in ours.keys() & theirs.keys() if ours[k] != theirs[k]}
        assert (found.rows_source, found.rows_sink) == (len(ours), len(theirs))

    check()


def _edit(verb: str, number: int) -> str:
    return {
        "delete": f"DELETE FROM v.t WHERE b = 'k{number}'",
        "insert": f"INSERT INTO v.t VALUES ({number % 7}, 'new{number}', '') ON CONFLICT DO NOTHING",
        "update": f"UPDATE v.t SET x = nullif(x || 'y', 'y') WHERE b = 'k{number}'",
        "key": f"UPDATE v.t SET b = upper(b) WHERE b = 'k{number}'",
    }[verb]


def _keys(pair: Pair, name: str) -> dict[Key, str | None]:
    connection = pair.source if name == DATABASES[0] else pair.sink
    with connection.cursor() as cursor:
        cursor.execute("SELECT a::text, b, x FROM v.t")
        return {(a, b): x for a, b, x in cursor.fetchall()}
