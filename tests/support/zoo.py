"""Every type that a column can have, with its most difficult values: one wide table, and its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slotkeeper.core.sqltext import dotted
from tests.support.mirror import Mirror

TABLE = "Ods.Zoo"
TARGET = "mart.table"
USER_TYPES = (
    "CREATE SCHEMA kinds",
    "CREATE TYPE kinds.mood AS ENUM ('sad', 'Very Happy', '', 'o''k')",
    'CREATE TYPE kinds.pair AS ("Left" integer, right_text text)',
    "CREATE DOMAIN kinds.positive AS numeric(8,3) CHECK (VALUE > 0)",
    "CREATE TYPE kinds.texts AS RANGE (subtype = text)",
)
"""The setup of both sides before the start."""

LONG = "repeat('0123456789abcdef', 20000)"


@dataclass(frozen=True, slots=True)
class Kind:
    """A column of the zoo: its type, and its values as SQL."""

    type: str
    values: tuple[str, ...]


def _kind(type_: str, *values: str) -> Kind:
    return Kind(type_, tuple(f"'{value}'" for value in values))


_TEXTS = (
    "''", "' '", "'  a  '", "E'a\\tb'", "E'a\\nb'", "E'a\\r\\nb'", "E'\\\\N'", "E'\\\\.'", "E'\\\\'", "'NULL'",
    "E'\\x01\\x1e\\x1f\\x7f'", "'äöü ß 漢字 🦒'", "E'e\\u0301'", "'\"quoted\", ''single'''", LONG,
)  # fmt: skip
_TIMES = ("-infinity", "infinity", "0001-01-01 00:00:00.000001 BC", "4714-12-01 00:00:00 BC", "1970-01-01 00:00:00",
          "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00", "294276-12-31 23:59:59.999999")  # fmt: skip

ZOO: Mapping[str, Kind] = {
    "small": _kind("smallint", "-32768", "32767", "0"),
    "whole": _kind("integer", "-2147483648", "2147483647", "0"),
    "big": _kind("bigint", "-9223372036854775808", "9223372036854775807", "0"),
    "fixed": _kind("numeric(12,2)", "9999999999.99", "-0.01", "0", "NaN"),
    "free": Kind("numeric", ("'NaN'", "'Infinity'", "'-Infinity'", "'1.0'", "'1.000'", "'-0.10'", "'1e-400'::numeric",
                             "'9e1000'::numeric", "(repeat('9', 1000) || '.' || repeat('1', 1000))::numeric")),
    "scaled": _kind("numeric(5,-2)", "12300", "-1234567"),
    "single": _kind("real", "NaN", "Infinity", "-Infinity", "-0", "1e-45", "3.4028235e38", "0.1"),
    "double": _kind("double precision", "NaN", "Infinity", "-Infinity", "-0", "5e-324", "1.7976931348623157e308"),
    "cash": _kind("money", "-92233720368547758.08", "92233720368547758.07", "1234.56"),
    "txt": Kind("text", _TEXTS),
    "vary": Kind("character varying(40)", (*_TEXTS[:-1], "repeat('ä', 40)")),
    "fixed_char": Kind("character(12)", ("''", "'a'", "' a'", "'a b   '", "repeat('ä', 12)", "E'\\t'")),
    "any_char": Kind("bpchar", ("''", "'a  '", "' a'")),
    "one_char": Kind('"char"', ("'x'", "''", "E'\\\\'")),
    "a_name": Kind("name", ("''", "'A b'", "repeat('n', 63)")),
    "bytes": Kind("bytea", ("''", "E'\\\\x00ff5c090a'", "decode(repeat('00ff', 100000), 'hex')", "E'\\\\\\\\'::bytea")),
    "day": _kind("date", "-infinity", "infinity", "4714-12-01 BC", "0001-01-01", "5874897-12-31", "2000-02-29"),
    "clock": _kind("time", "00:00", "24:00:00", "23:59:59.999999"),
    "clock_zone": _kind("time with time zone", "00:00+15:59", "24:00:00-15:59", "12:34:56.789+05:45:30"),
    "stamp": _kind("timestamp", *_TIMES),
    "stamp_zone": _kind("timestamp with time zone", *_TIMES, "2024-03-31 02:30:00 Europe/Berlin"),
    "stamp_short": _kind("timestamp(3)", *_TIMES[:-1]),
    "span": _kind("interval", "178000000 years", "-178000000 years", "1 mon -1 day +00:00:00.000001", "0", "30 days",
                  "-infinity", "infinity"),
    "yes": _kind("boolean", "true", "false"),
    "host": _kind("inet", "0.0.0.0/0", "192.168.1.5/24", "10.0.0.1", "::1", "fe80::1/64"),
    "net": _kind("cidr", "0.0.0.0/0", "10.0.0.0/8", "2001:db8::/32"),
    "mac": _kind("macaddr", "08:00:2b:01:02:03"),
    "mac8": _kind("macaddr8", "08:00:2b:01:02:03:04:05"),
    "bits": Kind("bit(5)", ("B'10101'", "B'00000'")),
    "any_bits": Kind("bit varying", ("B''", "B'1'", "repeat('10', 5000)::bit varying")),
    "id": _kind("uuid", "00000000-0000-0000-0000-000000000000", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"),
    "js": _kind("json", '{"b": 1,  "a": [1.0, "x\\u0041\\\\n"], "a": 2}', "null", '"\\\\ud83e\\\\udd92"', "1e400"),
    "jsb": _kind("jsonb", '{"b": 1.00, "a": [null, "tab\\\\there"]}', "null", "[]", "1e400"),
    "path": _kind("jsonpath", "$.a[*] ? (@ > 1)"),
    "pt": _kind("point", "(1e-300,-0)", "(NaN,Infinity)"),
    "ln": _kind("line", "{1,-1,0}"),
    "seg": _kind("lseg", "[(0,0),(1,1)]"),
    "bx": _kind("box", "(3,4),(1,2)"),
    "pth": _kind("path", "[(0,0),(1,1)]", "((0,0),(1,1))"),
    "poly": _kind("polygon", "((0,0),(1,1),(2,0))"),
    "circ": _kind("circle", "<(0,0),5.5>"),
    "vec": Kind("tsvector", ("''", "$$'a b':1A 'c''d':2,3B$$")),
    "query": Kind("tsquery", ("''", "$$'a b' & !'c''d':*A$$")),
    "ints": Kind("integer[]", ("'{}'", "'{1,NULL,-3}'", "'[2:3]={7,8}'", "'{{1,2},{3,4}}'")),
    "texts": Kind("text[]", ("'{}'", """E'{"a,b","NULL",NULL,"","\\\\"q\\\\\\\\",x y}'""", "ARRAY[E'a\\tb\\n', 'ä']")),
    "stamps": _kind("timestamp with time zone[]", '{infinity,"10000-01-01 00:00:00+00",NULL}'),
    "bools": _kind("boolean[]", "{t,f,NULL}"),
    "chars": _kind("character(3)[]", "{a,\"b \"}"),
    "i4": _kind("int4range", "empty", "[1,5)", "(,)", "[3,)"),
    "nr": _kind("numrange", "[1.0,1.000]", "(NaN,)", "empty"),
    "tsr": _kind("tsrange", '["4714-12-01 00:00:00 BC",infinity)', "(,)"),
    "tzr": _kind("tstzrange", '["2024-01-01 00:00:00+00","10000-01-01 00:00:00+00"]'),
    "mr": _kind("int4multirange", "{}", "{[1,3),[7,)}"),
    "ref": _kind("oid", "0", "4294967295"),
    "cls": _kind("regclass", "pg_class"),
    "tid_": _kind("tid", "(0,1)"),
    "lsn": _kind("pg_lsn", "FFFFFFFF/FFFFFFFF", "0/0"),
    "snap": _kind("pg_snapshot", "10:20:10,14,15"),
    "x8": _kind("xid8", "18446744073709551615"),
    "mood": _kind("kinds.mood", "sad", "Very Happy", "", "o''k"),
    "moods": _kind("kinds.mood[]", "{sad,\"Very Happy\",\"\",NULL}"),
    "pair": Kind("kinds.pair", ("ROW(1, 'a,\"b\\ (')::kinds.pair", "ROW(NULL, NULL)::kinds.pair", "'(,\"\")'")),
    "positive": _kind("kinds.positive", "0.001", "99999.999"),
    "words": _kind("kinds.texts", '["a b","c,d")', "empty"),
    "Mixed Case": _kind("text", "x", "Y"),
    'q"uo"te': _kind("text", "x", ""),
    "select": _kind("integer", "1", "2"),
    "%s {0} point": _kind("text", "100%", "{}"),
    "größe": _kind("numeric(4,1)", "1.5"),
    "c1": _kind("integer", "5"),
    "kind": _kind("text", "B", "d"),
}  # fmt: skip

_COLUMNS = ['"' + name.replace('"', '""') + '"' for name in ZOO]
ROWS = max(len(kind.values) for kind in ZOO.values())


def make(mirror: Mirror) -> None:
    """The table with one row for each value of the longest kind, and one of NULLs."""
    kinds = zip(_COLUMNS, ZOO.values(), strict=True)
    columns = ", ".join(f"{name} {kind.type}" for name, kind in kinds)
    mirror.source(*USER_TYPES)
    mirror.source("GRANT USAGE ON SCHEMA kinds TO etl")
    mirror.at_sink(*USER_TYPES)
    mirror.warehouse.create_table(dotted(TABLE), f'k integer, "Tail" integer, {columns}', ("k", "Tail"), ("k",))
    insert(mirror, 0)


def insert(mirror: Mirror, base: int) -> None:
    """All values, and NULL in every column, under keys from `base` on."""
    rows = [f"({base + n}, 0, {', '.join(_value(kind.values, n) for kind in ZOO.values())})" for n in range(ROWS)]
    for row in rows:
        mirror.source(f"INSERT INTO {dotted(TABLE)} VALUES {row}")
    mirror.source(f'INSERT INTO {dotted(TABLE)} (k, "Tail") VALUES ({base + ROWS}, 0)')


def rotate(mirror: Mirror, base: int) -> None:
    """An update of every column of every row: to the values, or the NULLs, of the row after it."""
    taken = ", ".join(f"{name} = s.{name}" for name in _COLUMNS)
    low, size = base, ROWS + 1
    mirror.source(
        f"UPDATE {dotted(TABLE)} t SET {taken} FROM {dotted(TABLE)} s WHERE t.k BETWEEN {low} AND {low + ROWS}"
        f' AND s.k = {low} + (t.k - {low} + 1) % {size} AND s."Tail" = t."Tail"'
    )


def wait_equal(mirror: Mirror) -> None:
    """Wait until every column is equal; a failure names the columns that are not."""
    try:
        mirror.wait_equal(20)
    except AssertionError as late:
        raise AssertionError(f"{difference(mirror)}; {late}") from late
    assert difference(mirror) == {}


def _value(values: Sequence[str], n: int) -> str:
    return values[n % len(values)]


def difference(mirror: Mirror) -> dict[str, list[Any]]:
    """Columns whose texts differ between both sides, with the first values that differ; and missing keys."""
    texts = ", ".join(f"{name}::text" for name in _COLUMNS)
    source = {row[:2]: row[2:] for row in _rows(mirror, TABLE, texts, at_source=True)}
    target = {row[:2]: row[2:] for row in _rows(mirror, TARGET, texts, at_source=False)}
    found: dict[str, list[Any]] = {}
    if source.keys() != target.keys():
        found["keys"] = sorted(source.keys() ^ target.keys())[:5]
    for key in source.keys() & target.keys():
        for name, one, other in zip(ZOO, source[key], target[key], strict=True):
            if one != other and name not in found:
                found[name] = [key, str(one)[:80], str(other)[:80]]
    return found


def _rows(mirror: Mirror, table: str, texts: str, at_source: bool) -> list[tuple[Any, ...]]:
    connect = mirror.warehouse.connect if at_source else mirror.sink
    return mirror.query(connect, 'SELECT k, "Tail", ' + texts + f" FROM {dotted(table)}")
