"""Every row of the type table in `docs/mysql.md`, over its edge values: copy, stream and `verify` agree for PostgreSQL
and for Doris.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.demo.doris.server import DorisStandin
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.pairs import doris as doris

PAGE = Path(__file__).parents[2] / "docs" / "mysql.md"
_TEXT = ("'é😀'", "''", "'a\\tb\\nc\\\\d'", "'\\\\N'", "'\"quoted\" ''too'''", "' x'")
EDGES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "TINYINT, SMALLINT, YEAR; INT UNSIGNED and so on": (
        ("TINYINT", ("-128", "0", "127")),
        ("TINYINT UNSIGNED", ("0", "255")),
        ("SMALLINT", ("-32768", "32767")),
        ("SMALLINT UNSIGNED", ("0", "65535")),
        ("MEDIUMINT", ("-8388608", "-1", "8388607")),
        ("MEDIUMINT UNSIGNED", ("0", "16777215")),
        ("INT", ("-2147483648", "0", "2147483647")),
        ("INT UNSIGNED", ("0", "4294967295")),
        ("INT(6) ZEROFILL", ("0", "42", "4294967295")),
        ("BIGINT", ("-9223372036854775808", "0", "9223372036854775807")),
        ("BIGINT UNSIGNED", ("0", "18446744073709551615")),
        ("BOOLEAN", ("TRUE", "FALSE")),
        ("YEAR", ("1901", "2155", "0000")),
    ),
    "BIT(n)": (
        ("BIT(1)", ("b'0'", "b'1'")),
        ("BIT(10)", ("b'0'", "b'1000000001'", "b'1111111111'")),
        ("BIT(64)", ("b'0'", "18446744073709551615")),
    ),
    "DECIMAL(p,s), FLOAT, DOUBLE": (
        (
            "DECIMAL(30,10)",
            ("-12345678901234567890.1234567890", "0", "0.0000000001", "9999999999.9999999999"),
        ),
        ("DECIMAL(10,0)", ("-9999999999", "0", "9999999999")),
        ("DECIMAL(5,5)", ("0.12345", "-0.00001")),
        ("FLOAT", ("1.1", "-3.4028e38", "16777216", "1e-10", "0")),
        ("DOUBLE", ("1.1", "-1.7976931348623157e308", "2.2250738585072014e-308", "1e15", "0")),
    ),
    "DATE, DATETIME(f)": (
        ("DATE", ("'1000-01-01'", "'2024-02-29'", "'9999-12-31'")),
        ("DATETIME", ("'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'")),
        ("DATETIME(3)", ("'1969-12-31 23:59:59.999'", "'2024-02-29 00:00:00.100'")),
        ("DATETIME(6)", ("'2024-05-06 07:08:09.123456'", "'2024-05-06 00:00:00.000001'", "'2024-05-06 07:08:09'")),
    ),
    "TIMESTAMP(f)": (
        ("TIMESTAMP NULL", ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'")),
        ("TIMESTAMP(6) NULL", ("'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:07.999999'")),
    ),
    "TIME, ENUM, SET, JSON, INET4, INET6": (
        ("TIME", ("'-838:59:59'", "'838:59:59'", "'-00:00:01'", "'00:00:00'")),
        ("TIME(6)", ("'-12:34:56.789012'", "'-838:59:58.999999'", "'00:00:00.000001'")),
        ("ENUM('a','é','x,y','it''s')", ("'a'", "'é'", "'x,y'", "'it''s'")),
        ("SET('a','b','c','é')", ("''", "'c,a'", "'é'", "'a,b,c,é'")),
        ("JSON", ('\'{"a": [1, 2.5, null, "é"]}\'', "'[]'", "'null'")),
        ("INET4", ("'0.0.0.0'", "'255.255.255.255'")),
        ("INET6", ("'::'", "'::1'", "'::ffff:1.2.3.4'", "'1:2:3:4:5:6:0:8'", "'2001:db8::'")),
    ),
    "CHAR(n), VARCHAR(n)": (
        ("CHAR(40)", ("'é😀'", "''", "'x  '", "'\\\\N'")),
        ("VARCHAR(40)", _TEXT),
        ("VARCHAR(10) CHARACTER SET latin1", ("'é€ÿ'", "''")),
        ("TEXT", (*_TEXT, "repeat('😀x', 500)")),
    ),
    "BINARY, VARBINARY, BLOB, geometry": (
        ("BINARY(4)", ("x'01'", "x'00000000'", "x'ffffffff'", "x'5c4e'")),
        ("VARBINARY(20)", ("''", "x'00'", "x'5c4e0a09'")),
        ("BLOB", ("''", "x'00ff00'", "repeat(x'00ff', 300)")),
        ("POINT", ("ST_PointFromText('POINT(1 2)', 4326)", "ST_PointFromText('POINT(-180 90)')")),
    ),
    "UUID": (("UUID", ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'")),),
}
COLUMNS = [one for edges in EDGES.values() for one in edges]
ROWS = max(len(values) for _, values in COLUMNS)


def definition() -> str:
    return ", ".join(["id INT PRIMARY KEY", *(f"c{n} {kind}" for n, (kind, _) in enumerate(COLUMNS))])


def insert(first: int) -> str:
    """Insert rows with every edge value of every column, and one row of NULLs."""
    rows = [[values[row % len(values)] for _, values in COLUMNS] for row in range(ROWS)]
    rows.append(["NULL"] * len(COLUMNS))
    values = ", ".join(f"({first + number}, {', '.join(row)})" for number, row in enumerate(rows))
    return f"INSERT INTO {TABLE} VALUES {values}"


def through_copy_and_stream(pair: MysqlPair) -> None:
    """Rows that are copied; rows that are inserted, updated, deleted, and written again later."""
    pair.run("SET sql_mode = ''", insert(0), insert(100))
    pair.mirror.start().wait_running()
    pair.wait_equal()
    pair.run(insert(200), f"UPDATE {TABLE} SET id = id + 1000 WHERE id >= 100 AND id < 200")
    pair.run(f"DELETE FROM {TABLE} WHERE id < 100", insert(0))
    pair.wait_equal()
    assert pair.compare().rows_sink == 3 * (ROWS + 1)


def test_the_rows_of_the_page_are_those_that_are_tried() -> None:
    table = PAGE.read_text("utf-8").partition("## Types at the target")[2].partition("\n\n`tests")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    assert rows[:2] == ["source", "---"]
    assert rows[2:] == list(EDGES)


def test_every_type_has_its_edge_values_in_postgresql(make_mysql_pair: MakeMysqlPair) -> None:
    pair = make_mysql_pair(definition())
    through_copy_and_stream(pair)
    pair.mirror.stop()
    names = [f"c{number}" for number in range(len(COLUMNS))]
    with pair.mirror.sink() as connection, connection.cursor() as cursor:
        cursor.execute(f"UPDATE mart.t SET {', '.join(f'{name} = NULL' for name in names)} WHERE id = 1")
        connection.commit()
    assert dict(pair.compare().differing_columns) == dict.fromkeys(names, 1), "`verify` sees a value of each column"


def test_every_type_has_its_edge_values_in_doris(make_mysql_pair: MakeMysqlPair, doris: DorisStandin) -> None:
    pair = make_mysql_pair(definition())
    pair.into(doris)
    pair.mirror.job = replace(pair.mirror.job, channels=(ChannelSpec(TABLE, "mart.types", create_target=True),))
    through_copy_and_stream(pair)
    pair.mirror.stop()
