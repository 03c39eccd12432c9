"""A computed value equals PostgreSQL's own answer, or is an error where PostgreSQL has an error.

Random rows with limits, NULL and odd texts; each expression is evaluated by the product and by a server.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.expressions import Row, compiled, read
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.errors import ExpressionError
from slotkeeper.core.services.verify import verify
from slotkeeper.core.wiring import worker
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.standin import drop_database, new_database

DATABASE = "expressions"
FEW, MANY = 60, 10_000
SALT = "p3pp'er"
COLUMNS = {
    "i2": "smallint",
    "i4": "integer",
    "j4": "integer",
    "i8": "bigint",
    "n": "numeric",
    "m": "numeric(12,2)",
    "s": "text",
    "v": "character varying(20)",
    "b": "boolean",
    "t": "timestamp without time zone",
    "d": "date",
}
EXPRESSIONS = {
    "i4 + j4": "",
    "i2 + i4": "",
    "i2 * i2": "",
    "-i4 - i8": "",
    "i8 * i4 % 7": "",
    "i4 / j4": "",
    "i4 % j4": "",
    "abs(i2)": "",
    "abs(n)": "",
    "-n": "",
    "n / i4": "",
    "n + m * 3": "",
    "n / m": "",
    "m / 7 - 1.50": "",
    "n % m": "",
    "i4 * m": "",
    "round(n / 3, 4)": "",
    "n::numeric(8,3)": "",
    "n::bigint": "",
    "m::smallint": "",
    "s::integer": "",
    "s::numeric * 2": "",
    "i8::text || '/' || m": "",
    "lower(s) || upper(v)": 'lower(s COLLATE "C") || upper(v COLLATE "C")',
    "substr(s, i2 % 5, 3)": "",
    "substring(s from 2)": "",
    "left(s, i2 % 4) || right(v, i2 % 4)": "",
    "length(s) + length(trim(v))": "",
    "replace(s, 'a', v)": "",
    "md5(s)": "",
    "sha256(salt() || s)": "encode(sha256(convert_to('p3pp''er' || s, 'UTF8')), 'hex')",
    "mask(s, 1, 2)": "CASE WHEN length(s) <= 3 THEN repeat('*', length(s))"
    " ELSE left(s, 1) || repeat('*', length(s) - 3) || right(s, 2) END",
    "CASE WHEN i4 > j4 THEN i4 WHEN b THEN m ELSE NULL END": "",
    "CASE s WHEN 'a' THEN v WHEN 'b' THEN 'B' ELSE s END": "",
    "CASE WHEN j4 <> 0 THEN i4 / j4 END": "",
    "coalesce(i2, i8, 0)": "",
    "coalesce(m, i4)": "",
    "nullif(n, i4)": "",
    "nullif(i2, i4)": "",
    "NOT b OR i4 BETWEEN 0 AND j4 AND s IS NOT NULL": "",
    "i4 IN (1, j4, NULL) OR (n < m) = b": "",
    "v <> s AND (b OR n >= 1.5)": "",
    "t > TIMESTAMP '2001-02-03 04:05:06.7'": "",
    "date_trunc('month', t)": "",
    "date_trunc('week', t)": "",
    "date_trunc('quarter', t)": "",
    "date_trunc('minute', t)": "",
    "extract(year FROM t) * 100 + extract(month FROM d)": "",
    "extract(quarter FROM t)": "",
    "t::date": "",
    "d::timestamp": "",
    "'on ' || d::text || t::text || b::text": "",
    "t::varchar(12)": "",
    "from_epoch_ms(i8 % 60000000000000)": "timestamp '1970-01-01' + (i8 % 60000000000000 / 86400000)::int"
    " * interval '1 day' + (i8 % 60000000000000 % 86400000) * interval '1 millisecond'",
    "from_text(left(t::text, 19), 'yyyy-MM-dd HH:mm:ss')": "left(t::text, 19)::timestamp",
    "to_epoch_ms(t)": "(extract(epoch FROM t) * 1000)::bigint",
    "b::integer + 1": "",
}
"""The expressions, each with the form in which PostgreSQL has it, "" for the same."""
RARE = ("s::", "::smallint", "i2 * i2", "i8 * i4", "n::bigint")
"""Parts of expressions that have an answer for few random rows only."""
_TEXTS = "|a|b|abc| 12 |-7|+0012|3.25|1e3|-.5|x y|ÄÖü|日本語|2147483648| a  |A-Z|1.5e-3|tab\there|back\\x"
_NUMBERS = "0|0.00|1|-1|1.5|-2.50|7.005|9999999999.99|-0.01|123456.789|0.000001|2.5|3.5"
_NUMBERS += "|99999999999999999999999999999999999999|-12345678901234567890123456789012345678.0123456789"
_MOMENTS = (
    "2001-02-03 04:05:06.7|1969-12-31 23:59:59.9995|1970-01-01 00:00:00|2024-02-29 12:34:56.789012|2023-01-01 00:00:00"
    "|0001-01-01 00:00:00|9999-12-31 23:59:59.999999|2024-12-30 01:02:03"
)
TEXTS, NUMBERS, MOMENTS = (one.split("|") for one in (_TEXTS, _NUMBERS, _MOMENTS))


@pytest.fixture(scope="module")
def cursor(pg_server: Server) -> Iterator[Any]:
    new_database(pg_server, DATABASE)
    with closing(pg_server.connect(DATABASE)) as connection, connection.cursor() as made:
        yield made
    drop_database(pg_server, DATABASE)


def one_row(draw: random.Random) -> list[str | None]:
    def number(bits: int) -> str:
        limit = 1 << bits
        return str(draw.choice((0, 1, -1, 2, 7, -limit, limit - 1, draw.randrange(-limit, limit), draw.randrange(100))))

    spread = draw.choice((9, 40, 50))
    values = [
        number(15),
        number(31),
        number(31),
        number(63) if draw.random() < 0.5 else str(draw.randrange(1 << spread)),
    ]
    n = draw.choice(NUMBERS) if draw.random() < 0.7 else f"{draw.randrange(10**9)}.{draw.randrange(10**5):05}"
    m = f"{draw.choice((-1, 1)) * draw.randrange(10 ** draw.choice((1, 4, 10)))}.{draw.randrange(100):02}"
    day = draw.choice(MOMENTS)
    values += [n, m, draw.choice(TEXTS), draw.choice(TEXTS), draw.choice("tf"), day, draw.choice(MOMENTS)[:10]]
    return [None if draw.random() < 0.1 else value for value in values]


@pytest.mark.parametrize("rows", [FEW, pytest.param(MANY, marks=[pytest.mark.chaos, pytest.mark.timeout(1_800)])])
def test_a_computed_value_is_postgresql_s_own_answer(cursor: Any, seed: int, rows: int) -> None:
    draw = random.Random(seed)
    columns = tuple(Column(name, type_) for name, type_ in COLUMNS.items())
    cursor.execute("DROP TABLE IF EXISTS t")
    cursor.execute(f"CREATE TABLE t (id integer, {', '.join(map(' '.join, COLUMNS.items()))})")
    made = [one_row(draw) for _ in range(rows)]
    for id, values in enumerate(made):
        cursor.execute(f"INSERT INTO t VALUES ({id}, {', '.join(['%s'] * len(values))})", values)
    cursor.execute(f"SELECT {', '.join(f'{name}::text' for name in COLUMNS)} FROM t ORDER BY id")
    texts = [[{"true": "t", "false": "f"}.get(one, one) for one in row] for row in cursor.fetchall()]
    known = errors = 0
    for number, (ours, theirs) in enumerate(EXPRESSIONS.items()):
        body = f"SELECT ({theirs or ours})::text INTO r_ FROM t WHERE t.id = id_; RETURN r_;"
        cursor.execute(
            f"CREATE OR REPLACE FUNCTION f{number}(id_ integer) RETURNS text LANGUAGE plpgsql AS $$ DECLARE r_ text;"
            f" BEGIN {body} EXCEPTION WHEN data_exception THEN RETURN 'ERROR'; END $$"
        )
        cursor.execute(f"SELECT f{number}(id) FROM t ORDER BY id")
        part = compiled(read("x", ours), columns, SALT)
        for (wanted,), row, id in zip(cursor.fetchall(), texts, range(rows), strict=True):
            try:
                got = part.text(Row(row))
            except ExpressionError:
                got = "ERROR"
            if part.type == "boolean":
                got = {"t": "true", "f": "false"}.get(got or "", got)
            assert got == wanted, f"seed {seed}: {ours} of {dict(zip(COLUMNS, made[id], strict=True))}"
            known, errors = known + 1, errors + (got == "ERROR")
    print(f"seed {seed}: {known} values, {errors} of them errors on both sides")
    assert known > errors > 0


def answered(draw: random.Random, rows: int, expressions: list[str]) -> list[list[str | None]]:
    """Random rows, as many as asked for, for each of which every expression has an answer."""
    columns = tuple(Column(name, type_) for name, type_ in COLUMNS.items())
    parts, found = [compiled(read("x", sql), columns, SALT) for sql in expressions], list[list[str | None]]()
    while len(found) < rows:
        values = one_row(draw)
        values[:4] = [str(draw.randrange(-150, 150)) if draw.random() < 0.9 else values[n] for n in range(4)]
        values[4] = values[4] and str(Decimal(values[4]))
        with suppress(ExpressionError):
            for part in parts:
                part.text(Row(values))
            found.append(values)
    return found


@pytest.mark.parametrize("rows", [FEW, pytest.param(MANY, marks=[pytest.mark.chaos, pytest.mark.timeout(1_800)])])
def test_a_job_s_computed_values_are_postgresql_s_own_in_copy_stream_replay_and_verify(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path, seed: int, rows: int
) -> None:
    draw = random.Random(seed)
    usual = [sql for sql in EXPRESSIONS if not any(one in sql for one in RARE)]
    expressions = [usual[0], *draw.sample(usual[1:], 29)]
    made = answered(draw, rows, expressions)
    half, updated = rows // 2, rows // 4
    names = [f"c{number}" for number in range(len(expressions))]
    table, target, marks = "ods.t", "mart.t", ", ".join(["%s"] * (1 + len(COLUMNS)))
    warehouse.create_table(table, f"id integer, {', '.join(map(' '.join, COLUMNS.items()))}", ("id",), ("id",))

    def write(first: int, last: int, shift: int = 0) -> None:
        statement = f"INSERT INTO {table} VALUES ({marks})"
        if shift:
            sets = ", ".join(f"{name} = %s" for name in COLUMNS)
            statement = f"UPDATE {table} SET {sets} WHERE id = %s"
        with closing(warehouse.connect(False)) as connection, connection.cursor() as cursor:
            for id in range(first, last):
                row = made[(id + shift) % rows]
                cursor.execute(statement, (*row, id) if shift else (id, *row))
            connection.commit()

    write(0, half)
    (tmp_path / "salt").write_text(SALT)
    mirror = make_mirror(warehouse, table, target)
    channel = replace(
        mirror.job.channel,
        columns=(("id", "id"),),
        compute=tuple(read(name, sql) for name, sql in zip(names, expressions, strict=True)),
        salt=SecretRef("file", str(tmp_path / "salt"), "salt"),
    )
    options = replace(mirror.job.sink_options, on_bad_row="quarantine", quarantine_limit=rows)
    mirror.job = replace(mirror.job, channels=(channel,), sink_options=options)
    theirs = ", ".join(f"({EXPRESSIONS[sql] or sql})::text" for sql in expressions)
    ours = ", ".join(f"{name}::text" for name in names)

    def equal(where: str = "true") -> bool:
        wanted = mirror.query(warehouse.connect, f"SELECT id, {theirs} FROM {table} WHERE {where} ORDER BY id")
        got = mirror.query(mirror.sink, f"SELECT id, {ours} FROM {target} WHERE {where} ORDER BY id")
        assert wanted
        return wanted == got

    mirror.start().wait_running()
    assert equal(), f"seed {seed}: the copy"
    mirror.at_sink(f"ALTER TABLE {target} ADD CONSTRAINT few CHECK (id % 20 <> 3) NOT VALID")
    write(half, rows)
    write(0, updated, shift=7)
    mirror._until(lambda: equal("id % 20 <> 3"), 600, f"seed {seed}: the stream to be equal")
    mirror.at_sink(f"ALTER TABLE {target} DROP CONSTRAINT few")
    job = mirror.job
    with closing(worker.store_session(job, "test")) as session, worker.open_source(job, "test") as source:
        quarantine = session.quarantine()
        ids = quarantine.ids(job.lane_key())
        assert len(ids) >= len(range(half, rows)) // 20
        for id in ids:
            quarantine.replay(id, job, job.lane_key(), source.identify(), "a test", "it fits now")
    assert equal(), f"seed {seed}: the replay"
    assert verify(job, False, lambda done, planned: None).equal
    mirror.at_sink(f"UPDATE {target} SET c0 = coalesce(c0, 0) + 1 WHERE id = 5")
    assert verify(job, False, lambda done, planned: None).different.keys == (("5",),)
    mirror.stop()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("now()", "CURRENTTIMESTAMP is not supported"),
        ("salt() || s", r"must use salt\(\) only within"),
        ("s < v", "the order of texts"),
        ("s || i4 + 1", "arithmetic beside ||"),
        ("(SELECT 1)", "SUBQUERY is not supported"),
        ("pg_sleep(1)", "function pg_sleep with 1 arguments"),
        ("i4 = j4 IS NULL", ""),
        ("i4; i4", "must be one expression"),
        ("i4 ^ 2", "is not supported"),
        ("round(i4)", "integer is used where numeric is needed"),
        ("s = i4", "need a cast"),
        ("b || s", "cast it to text"),
        ("date_trunc('month', d)", "date is used where"),
        ("s::timestamp", "a cast of text to timestamp"),
        ("from_text(s, 'hh:mm')", "needs a format of yyyy"),
        ("from_text(s, v)", "needs a format in quotes"),
        ("nothing + 1", "has no column nothing"),
        ("f * 2", "has type double precision"),
    ],
)
def test_what_has_no_certain_answer_is_refused(sql: str, said: str) -> None:
    columns = (*(Column(name, type_) for name, type_ in COLUMNS.items()), Column("f", "double precision"))
    if not said:
        compiled(read("x", sql), columns, SALT)
        return
    with pytest.raises((ValueError, ExpressionError), match=said):
        compiled(read("x", sql), columns, SALT)
