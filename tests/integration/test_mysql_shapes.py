"""Tables of many shapes from a MariaDB into PostgreSQL: copied, streamed and verified, or refused by name.

Values come from information_schema, so that a shape is its CREATE TABLE alone. Statements use IGNORE if a narrow key or
a constraint rejects rows: only the equality of both ends counts.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.drivers import my, pg
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.sqltext import dotted
from slotkeeper.core.verify.compare import Options, compare, open_pair
from tests.support.pairs import MakeMysqlPair, MysqlPair

SHAPES = Path(__file__).parents[1] / "fixtures" / "mysql_shapes.sql"
SCHEMA = "ods"
COPIED, STREAMED = range(8), range(8, 16)
"""The numbers of the rows that exist before the copy, and of those that are inserted later."""
_NAME = re.compile(r"CREATE TABLE (?:`((?:[^`]|``)+)`|(\w+))")
_CHARACTERS = {
    "big5": "\u4f60\u597d",
    "cp1250": "\u0142\u20ac",
    "cp1251": "\u0436\u0401",
    "cp1256": "\u0633",
    "cp1257": "\u0105",
    "cp850": "\xe9\xdf",
    "cp852": "\u0142",
    "cp866": "\u0436\u2116",
    "cp932": "\u65e5\u2252",
    "euckr": "\ud55c",
    "gb2312": "\u4f60",
    "gbk": "\u4f60\u4e02",
    "greek": "\u03a9\u2018",
    "hebrew": "\u05e9",
    "koi8r": "\u0436",
    "koi8u": "\u0457",
    "latin1": "\xe9\u20ac\xff",
    "latin2": "\u0142",
    "latin5": "\u011f",
    "latin7": "\u0105",
    "macce": "\u0142",
    "macroman": "\xe9",
    "sjis": "\u65e5\uff71",
    "tis620": "\u0e01",
    "ucs2": "\u4f60",
    "ujis": "\u65e5\uff71",
    "utf16": "\u4f60\U0001f600",
    "utf16le": "\u4f60\U0001f600",
    "utf32": "\u4f60\U0001f600",
    "utf8mb3": "\xe9\u4f60",
    "utf8mb4": "\xe9\U0001f600",
}
"""Characters outside ASCII of each character set."""
_NUMBERS = {
    "tinyint": (-128, 127, 255),
    "smallint": (-32768, 32767, 65535),
    "mediumint": (-8388608, 8388607, 16777215),
    "int": (-2147483648, 2147483647, 4294967295),
    "bigint": (-(2**63), 2**63 - 1, 2**64 - 1),
}
_DOUBLES = ("0", "-1.5", "1e15", "3.141592653589793", "1e-5", "-0.0", "123456789.125", "1e20")
_FLOATS = ("0", "-1.5", "1e6", "3.1415927", "1e-5", "-0.0", "16777216", "3.4028235e38", "999999.5", "0.1")
_DOCUMENTS = ('{"a": [1, 2.5, null, "é\\n"]}', "[]", '"x"', "null", '{"k": {"": -0.0}}', "1e400", '[true,"😀\\"\'"]')
_PLACES = {
    "point": "POINT({0} 2.5)",
    "linestring": "LINESTRING(0 0, {0} 1)",
    "polygon": "POLYGON((0 0, {0} 0, {0} 9, 0 0))",
    "multipoint": "MULTIPOINT(0 0, {0} 1)",
    "multilinestring": "MULTILINESTRING((0 0, {0} 1), (1 1, 2 2))",
    "multipolygon": "MULTIPOLYGON(((0 0, {0} 0, {0} 9, 0 0)))",
    "geometrycollection": "GEOMETRYCOLLECTION(POINT({0} 1), LINESTRING(0 0, 1 1))",
    "geometry": "POINT({0} -1)",
}


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


@dataclass(frozen=True)
class Column:
    """A column of information_schema: how its values are written."""

    name: str
    kind: str
    full_type: str
    charset: str
    size: int
    nullable: bool
    has_default: bool

    @property
    def required(self) -> bool:
        """Whether a row without it would have a value that the server makes up."""
        return not (self.nullable or self.has_default)

    def value(self, number: int) -> str:
        """A value in SQL; those of the first rows differ."""
        kind, n = self.kind, number
        if kind in _NUMBERS:
            low, high, unsigned = _NUMBERS[kind]
            edge = (0, unsigned) if "unsigned" in self.full_type else (low, high)
            return str(edge[n % 2] if n in (3, 4, 11, 12) else n + 1)
        if kind == "decimal":
            # 9s up to the column's limit: sql_mode '' truncates longer values
            return ("-0.1", "1e99", "-1e99", "0.05")[n % 4] if n in (3, 4, 5, 6, 11, 12) else f"{n}.{n}5"
        if kind in ("float", "double"):
            numbers: tuple[str, ...] = _FLOATS if kind == "float" else _DOUBLES
            return numbers[n % len(numbers)]
        if kind == "bit":
            return str((-1 - n if n % 3 == 2 else n) % (1 << self.size))
        if kind == "enum":
            return str(n % len(self.labels) + 1)
        if kind == "set":
            return str(n % (1 << len(self.labels)))
        if kind in _PLACES:
            return f"ST_GeomFromText('{_PLACES[kind].format(n + 1)}', {4326 if n % 2 else 0})"
        if self.name == "ends":  # of a period
            return "'9999-12-31'"
        if kind in _MOMENTS:
            texts = _MOMENTS[kind]
            return f"'{texts[n % len(texts)].format(n + 1)}'"
        return self._text(n)

    def _text(self, n: int) -> str:
        if self.kind in _NATIVE:
            return f"'{_NATIVE[self.kind][n % 5].format(n % 10)}'"
        if not self.charset:  # BINARY(n), BLOB
            size = max(0, min(self.size, 4 if n % 2 else 300))
            return "x'" + (bytes([n, 0, 0xFF, 0x5C, 0]) * 60)[:size].hex() + "'"
        if self.kind == "longtext":
            return literal(_DOCUMENTS[n % len(_DOCUMENTS)])
        text = f"{n}{_CHARACTERS.get(self.charset, '')} '\"\\\t\n%s" if n % 4 else f"{n}"
        return literal(text[: self.size])

    @property
    def labels(self) -> list[str]:
        return re.findall(r"'(?:[^']|'')*'", self.full_type)


_MOMENTS = {
    "year": ("{0:04d}", "1901", "2155", "0000", "19{0:02d}", "2{0:03d}"),
    "date": ("2024-02-{0:02d}", "0001-01-{0:02d}", "9999-12-{0:02d}", "1970-01-01", "1000-10-{0:02d}"),
    "time": ("00:00:{0:02d}", "-838:59:{0:02d}", "838:59:{0:02d}", "-00:00:{0:02d}.000001", "-12:34:{0:02d}.789012"),
    "datetime": ("2024-02-29 23:59:{0:02d}.999994", "1000-01-01 00:00:{0:02d}", "9999-12-31 23:59:{0:02d}"),
    "timestamp": ("2024-02-29 23:59:{0:02d}.120000", "1970-01-01 00:00:{0:02d}.5", "2038-01-19 03:13:{0:02d}"),
}
_NATIVE = {
    "uuid": (
        "123e4567-e89b-12d3-a456-42665544000{0}",
        "00000000-0000-0000-0000-00000000000{0}",
        "ffffffff-ffff-ffff-ffff-fffffffffff{0}",
        "0{0}000000-0000-4000-8000-000000000000",
        "a{0}e4567b-e89b-72d3-b456-426655440000",
    ),
    "inet6": ("::{0}", "1:0:3:4:5:6:7:{0}", "::ffff:1.2.3.{0}", "2001:db8::{0}", "{0}::"),
    "inet4": ("0.0.0.{0}", "255.255.255.25{0}", "1.{0}.3.0", "10.0.0.{0}", "{0}.0.0.0"),
}


@dataclass
class Shape:
    """A table to create, the expected result, and how it is filled and changed."""

    name: str
    create: str
    inserts: tuple[str, ...] = ()
    quick: bool = False
    refused: str = ""
    stops: str = ""
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return f"{SCHEMA}.{self.name}"

    @property
    def target(self) -> str:
        return f"mart.{self.name}"

    @property
    def followed(self) -> bool:
        return not self.refused and not self.stops

    @cached_property
    def _table(self) -> str:
        return quoted(self.name)

    @cached_property
    def _order(self) -> str:
        return ", ".join(quoted(name) for name in self.key)

    def learn(self, session: my.Session) -> None:
        """Ask the server for the columns that take values, and for those of the key."""
        rows = session.rows(
            "SELECT column_name, data_type, column_type, COALESCE(character_set_name, ''), COALESCE("
            "character_maximum_length, numeric_precision, 0), is_nullable = 'YES', column_default IS NOT NULL"
            " FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
            " AND COALESCE(generation_expression, '') = '' ORDER BY ordinal_position",
            (SCHEMA, self.name),
        )
        self.columns = tuple(
            Column(name, kind, full, charset, int(n), bool(nullable), bool(has_default))
            for name, kind, full, charset, n, nullable, has_default in rows
        )
        indexes = session.rows(f"SHOW INDEX FROM {self._table}")
        first = next((row[2] for row in indexes if not row[1]), None)
        self.key = tuple(str(row[4]) for row in indexes if row[2] == first)

    def selected(self, names: Sequence[str]) -> str:
        """Columns as the server's own SELECT returns them exactly: a BIT as a number, a FLOAT with all digits."""
        kinds = {one.name: one.kind for one in self.columns}
        exact = {"bit": "CAST({} AS UNSIGNED)", "float": "({} + 0e0)"}
        return ", ".join(exact.get(kinds.get(name, ""), "{}").replace("{}", quoted(name)) for name in names)

    def row(self, number: int) -> str:
        """The INSERT of a row: of all columns, of those that must have a value, or with NULLs."""
        taken = [one for one in self.columns if number % 4 != 2 or one.required or one.name in self.key]
        values = [
            "NULL" if number % 4 == 3 and one.nullable and one.name not in self.key else one.value(number)
            for one in taken
        ]
        names = ", ".join(quoted(one.name) for one in taken)
        return f"INSERT IGNORE INTO {self._table} ({names}) VALUES ({', '.join(values)})"

    def changes(self) -> Iterator[str]:
        """Make each kind of change: new rows, other values, moved keys, deleted rows, a row deleted and inserted."""
        yield from map(self.row, STREAMED)
        free = [one for one in self.columns if one.name not in self.key]
        if free:
            for number, order in ((13, "ASC"), (14, "DESC"), (15, "ASC")):
                sets = ", ".join(f"{quoted(one.name)} = {one.value(number)}" for one in free)
                yield f"UPDATE IGNORE {self._table} SET {sets} ORDER BY {self._ordered(order)} LIMIT 2"
        for number, order in ((17, "ASC"), (18, "DESC")):
            keys = [one for one in self.columns if one.name in self.key]
            sets = ", ".join(f"{quoted(one.name)} = {one.value(number)}" for one in keys)
            if sets:
                yield f"UPDATE IGNORE {self._table} SET {sets} ORDER BY {self._ordered(order)} LIMIT 1"
        yield f"DELETE IGNORE FROM {self._table} ORDER BY {self._ordered('DESC')} LIMIT 1"
        yield self.row(1).replace("INSERT IGNORE", "REPLACE", 1)

    def _ordered(self, order: str) -> str:
        return ", ".join(f"{quoted(name)} {order}" for name in self.key)


def _parsed() -> Iterator[Shape]:
    expected, made = "", None
    for line in SHAPES.read_text(encoding="utf-8").splitlines():
        if found := _NAME.match(line):
            if made:
                yield made
            name = found[1].replace("``", "`") if found[1] else found[2]
            words = dict(re.findall(r"(quick|refused|stops)(?:: (.*))?", expected))
            made = Shape(name, line, (), "quick" in words, words.get("refused", ""), words.get("stops", ""))
            expected = ""
        elif line.startswith("INSERT") and made:
            made.inserts += (line,)
        elif line.startswith("-- "):
            expected = line
    if made:
        yield made


def _wide(name: str, kinds: Sequence[str]) -> Shape:
    columns = ", ".join(f"c{n} {kinds[n % len(kinds)]}" for n in range(1, 702))
    return Shape(name, f"CREATE TABLE {name} (id INT PRIMARY KEY, {columns})", quick=len(kinds) > 1)


def shapes(quick: bool = False) -> list[Shape]:
    wide = [
        _wide("wide_702", ("INT UNSIGNED", "CHAR(1)", "DATE", "DECIMAL(5,2)", "BIT(3)", "TINYINT", "ENUM('a','b')")),
        _wide("wide_702_tiny", ("TINYINT",)),
    ]
    return [one for one in (*_parsed(), *wide) if one.quick or not quick]


def make(session: my.Session, wanted: Sequence[Shape]) -> None:
    """Create the tables with the rows that a copy finds."""
    session.rows("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'")
    session.rows(f"CREATE OR REPLACE DATABASE {SCHEMA} CHARACTER SET utf8mb4")
    session.rows(f"USE {SCHEMA}")
    for one in wanted:
        session.rows(one.create)
        one.learn(session)
        for statement in [] if one.refused else [*map(one.row, COPIED), *one.inserts]:
            session.rows(statement)


def change(session: my.Session, wanted: Sequence[Shape]) -> None:
    """Change rows of each table in ways that the stream has to deliver."""
    session.rows("SET foreign_key_checks = 0")
    for one in wanted:
        session.rows("BEGIN")
        for statement in one.changes():
            session.rows(statement)
        session.rows("COMMIT")


SMALL = Options(range_rows=3, leaf_rows=2, fan_out=2)
"""Ranges of few rows, so that keys of every type are bounds of ranges."""
PARTS = 4
_TYPES = """
SELECT column_name, data_type FROM information_schema.columns
 WHERE table_schema || '.' || table_name = %s ORDER BY ordinal_position
"""


def run(pair: MysqlPair, tables: Sequence[Shape]) -> None:
    """Run the job until it has caught up. Tables that cannot be followed fail with a named error."""
    mirror = pair.mirror
    mirror.start().join(600)
    wrong = {}
    for one in tables:
        report = mirror.heard.tables[one.source]
        failed, why = report.state == JobState.FAILED.value, one.refused or one.stops
        if failed != bool(why) or (failed and (one.source not in report.reason or not re.search(why, report.reason))):
            wrong[one.name] = f"expected {why or 'to run'}; {report.state}: {report.reason}"
    assert not wrong, (wrong, mirror.error)


def unequal(pair: MysqlPair, tables: Sequence[Shape]) -> dict[str, object]:
    """Return the tables that `verify` finds different, or whose values differ in the two servers' own SELECTs."""
    job, found = pair.mirror.job, dict[str, object]()
    left = sources.open(job.source_kind).tables(login(job.source, "verify"), 60_000)
    right = sinks.open(job.sink_kind).tables(login(job.sink, "verify"), 60_000)
    with closing(left), closing(right), closing(pair.mirror.sink()) as sink, sink.cursor() as cursor:
        for one in tables:
            compared = compare(*open_pair(left.table, one.source, right.table, one.target), SMALL)
            ours, theirs = selected(pair, cursor, one)
            if not compared.equal or ours != theirs or len(ours) < 3:
                found[one.name] = (compared, [*zip(ours, theirs, strict=False)])
    return found


def selected(pair: MysqlPair, cursor: pg.Cursor, one: Shape) -> tuple[list[list[str]], list[list[str]]]:
    """The rows that each of the two servers selects, every value in one form."""
    cursor.execute(_TYPES, (one.target,))
    types = dict(cursor.fetchall())
    names = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}"::text' for name in types)
    cursor.execute(f"SELECT {names} FROM {dotted(one.target)}")
    theirs = cursor.fetchall()
    ours = pair.rows(f"SELECT {one.selected(tuple(types))} FROM {quoted(one.name)}")
    return formed(ours, list(types.values())), formed(theirs, list(types.values()))


def formed(rows: Sequence[Sequence[Any]], types: Sequence[str]) -> list[list[str]]:
    """Return rows with each value in one form, in one order."""
    return sorted([form(value, type_) for value, type_ in zip(row, types, strict=True)] for row in rows)


def form(value: Any, type_: str) -> str:
    """Return a value of either server in one form, by its type at the target."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if type_ in ("smallint", "integer", "bigint", "numeric"):
        return f"{Decimal(value) + 0:f}"
    if type_ == "real":
        return repr(struct.unpack("<f", struct.pack("<f", float(value))))
    if type_ == "double precision":
        return repr(float(value))
    return str(value).rstrip("0").rstrip(".") if type_.startswith("timestamp") and "." in str(value) else str(value)


@pytest.mark.parametrize(
    ("part", "metadata"),
    [
        ("quick", "FULL"),
        *[pytest.param(part, "FULL", marks=pytest.mark.chaos) for part in range(PARTS)],
        *[pytest.param(part, "NO_LOG", marks=pytest.mark.chaos) for part in ("quick", *range(PARTS))],
    ],
)
def test_tables_of_every_shape_are_copied_streamed_and_equal_or_refused_by_name(
    make_mysql_pair: MakeMysqlPair, part: str | int, metadata: str
) -> None:
    """With the binlog's own metadata, and with what information_schema says: MariaDB's default has none."""
    pair = make_mysql_pair()
    made = shapes(part == "quick")
    tables = made if isinstance(part, str) else made[part::PARTS]
    if metadata != "FULL":  # information_schema shows no exact label with a backslash: the lane stops
        tables = [one for one in tables if one.name != "odd_labels"]
    followed = [one for one in tables if one.followed]
    mirror = pair.mirror
    mirror.job = replace(
        mirror.job,
        channels=tuple(ChannelSpec(one.source, one.target, create_target=True) for one in tables),
        binlog=replace(mirror.job.binlog, full_sync_binlog_batch_read_size=5),
    )
    mirror.until_caught_up = True
    pair.run(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        make(pair.session, made)
        run(pair, tables)
        assert unequal(pair, followed) == {}
        change(pair.session, followed)
        run(pair, tables)
        assert unequal(pair, followed) == {}
    finally:
        pair.run("SET GLOBAL binlog_row_metadata = FULL")
    assert set(mirror.changes()) >= {mirror.job.lane_name(one.source, "binlog") for one in followed}
    assert min(mirror.changes()[mirror.job.lane_name(one.source, "binlog")] for one in followed) > 3
