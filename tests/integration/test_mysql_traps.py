"""Values that another reader of MariaDB's binlog decodes wrongly: each is right here, or refused with a named error.

Round trips of random rows equal SELECT, and equal mysql-replication where that reader is right.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql import rows
from slotkeeper.core.sources.mysql.events import Mapped
from slotkeeper.core.sources.mysql.faults import Unsupported
from slotkeeper.core.sources.mysql.rows import columns_of
from slotkeeper.core.sources.mysql.session import ServerFacts, admit, objections
from slotkeeper.core.sources.mysql.tables import read_charsets, read_described
from tests.support import maria as support
from tests.support.maria import Maria


def written(maria: Maria, kind: str, *values: str) -> list[Any]:
    """Return the decoded values that a column of this type received."""
    maria.run("SET sql_mode = ''", f"CREATE OR REPLACE TABLE v (id INT PRIMARY KEY, v {kind})")
    maria.mark()
    maria.run(f"INSERT INTO v VALUES {', '.join(f'({n}, {value})' for n, value in enumerate(values))}")
    return [row[1] for row in maria.inserted()]


def test_a_negative_time_keeps_its_fraction(maria: Maria) -> None:
    found = written(maria, "TIME(6)", "'-12:34:56.789012'", "'-01:00:00.250'")
    assert found == ["-12:34:56.789012", "-01:00:00.250000"]


def test_utf16_utf32_and_ucs2_text_is_text(maria: Maria) -> None:
    for charset in ("utf16", "utf32", "ucs2", "utf16le"):
        assert written(maria, f"VARCHAR(10) CHARACTER SET {charset}", "'é你'") == ["é你"]


def test_zero_and_partly_zero_dates_are_no_nulls_and_year_0000_is_not_1900(maria: Maria) -> None:
    assert written(maria, "YEAR", "0000", "NULL") == [0, None]
    assert written(maria, "DATE", "'0000-00-00'", "'2024-00-00'", "NULL") == ["0000-00-00", "2024-00-00", None]
    assert written(maria, "DATETIME", "'0000-00-00'", "'2024-01-00'") == ["0000-00-00 00:00:00", "2024-01-00 00:00:00"]
    assert written(maria, "TIMESTAMP NULL", "0", "NULL") == ["0000-00-00 00:00:00", None]


def test_an_empty_set_is_not_null_and_a_set_keeps_its_order(maria: Maria) -> None:
    assert written(maria, "SET('z','a','m')", "''", "'m,z'", "NULL") == ["", "z,m", None]


def test_a_bit_is_a_number(maria: Maria) -> None:
    assert written(maria, "BIT(10)", "b'0000000101'") == [5]


def test_binary_uuid_and_inet6_keep_their_last_zero_bytes(maria: Maria) -> None:
    assert written(maria, "BINARY(16)", "x'1100'") == [b"\x11" + bytes(15)]
    assert written(maria, "INET6", "'2001:db8::'") == ["2001:db8::"]
    assert written(maria, "UUID", "'123e4567-e89b-12d3-a456-426655440000'") == ["123e4567-e89b-12d3-a456-426655440000"]


def test_a_float_is_the_shortest_number_that_is_the_same_float(maria: Maria) -> None:
    assert written(maria, "FLOAT", "1.1", "16777216", "-3.4028235e38", "0.1") == [
        1.1,
        16777216.0,
        -3.4028235e38,
        0.1,
    ]


def test_a_compressed_column_is_read_and_ends_no_stream(maria: Maria) -> None:
    assert written(maria, "TEXT COMPRESSED", "repeat('ab', 500)", "'x'", "''", "NULL") == ["ab" * 500, "x", "", None]
    maria.run("SET SESSION column_compression_zlib_wrap = ON")
    assert written(maria, "VARCHAR(1000) COMPRESSED", "repeat('ab', 500)") == ["ab" * 500]


@pytest.mark.parametrize("metadata", ["NO_LOG", "MINIMAL"])
def test_without_full_metadata_signs_names_and_labels_come_from_information_schema(maria: Maria, metadata: str) -> None:
    """MariaDB's default is NO_LOG: 4294967295 was read as -1, names as UNKNOWN_COL0, an ENUM as NULL."""
    kinds = "i INT UNSIGNED, e ENUM('a','b'), s SET('x','y'), t VARCHAR(9)"
    kinds += ", l VARCHAR(9) CHARACTER SET latin1, b BINARY(3)"
    maria.run(f"CREATE TABLE f (id BIGINT UNSIGNED PRIMARY KEY, {kinds})")
    maria.run(f"SET GLOBAL binlog_row_metadata = {metadata}")
    session = support.log_in(maria.server, database=maria.database)
    try:
        maria.mark()
        session.rows("INSERT INTO f VALUES (18446744073709551615, 4294967295, 'b', 'y,x', 'é', 'é', x'0100')")
        expected = [(18446744073709551615, 4294967295, "b", "x,y", "é", "é", b"\x01\0\0")]
        assert maria.inserted() == expected
        event = next(one for one in maria.events() if isinstance(one, Mapped))
        assert not event.table.named
        described = read_described(maria.session, maria.database, "f")
        names = [one.name for one in columns_of(event.table, described, read_charsets(maria.session))]
        assert names == ["id", "i", "e", "s", "t", "l", "b"]
        maria.run("ALTER TABLE f MODIFY i BIGINT UNSIGNED")
        with pytest.raises(Unsupported, match=r"column i is now bigint"):
            maria.inserted()
    finally:
        maria.run("SET GLOBAL binlog_row_metadata = FULL")
        session.close()


def test_columns_added_dropped_and_renamed_between_rows_are_those_of_each_row(maria: Maria) -> None:
    maria.run("CREATE TABLE d (id INT PRIMARY KEY, a INT UNSIGNED)")
    maria.mark()
    maria.run("INSERT INTO d VALUES (1, 4294967295)", "ALTER TABLE d ADD b TEXT, RENAME COLUMN a TO aa")
    maria.run("INSERT INTO d VALUES (2, 2, 'two')", "ALTER TABLE d DROP aa", "INSERT INTO d VALUES (3, 'three')")
    assert maria.inserted() == [(1, 4294967295), (2, 2, "two"), (3, "three")]


def test_generated_and_invisible_columns_are_in_the_rows(maria: Maria) -> None:
    kinds = "a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a + 2) STORED, h INT INVISIBLE DEFAULT 7"
    maria.run(f"CREATE TABLE g (id INT PRIMARY KEY, {kinds})")
    maria.mark()
    maria.run("INSERT INTO g (id, a) VALUES (1, 10)")
    assert maria.inserted() == [(1, 10, 11, 12, 7)]


def test_a_compressed_binlog_is_refused_and_hides_no_rows(maria: Maria) -> None:
    """log_bin_compress: another reader left the rows out without an error."""
    maria.run("CREATE TABLE c (id INT PRIMARY KEY, v TEXT)")
    maria.run("SET GLOBAL log_bin_compress = ON")
    try:
        session = support.log_in(maria.server)
        with pytest.raises(Refused, match="log_bin_compress"):
            admit(session, "maria", "root")
        maria.mark()
        session.rows(f"INSERT INTO {maria.database}.c VALUES (1, repeat('long ', 1000))")
        session.close()
        with pytest.raises(Refused, match="compressed") as refused:
            list(maria.stream("c").items(blocking=False))
        assert "log_bin_compress off" in refused.value.hint
    finally:
        maria.run("SET GLOBAL log_bin_compress = OFF")


def test_old_temporal_columns_are_refused_by_name(maria: Maria) -> None:
    maria.run("SET GLOBAL mysql56_temporal_format = OFF")
    try:
        maria.run("CREATE TABLE o (id INT PRIMARY KEY, at TIMESTAMP NULL)")
        maria.mark()
        maria.run("INSERT INTO o VALUES (1, '2024-01-01')")
        with pytest.raises(Unsupported, match=r"o, column at: .*mysql56_temporal_format"):
            maria.inserted()
    finally:
        maria.run("SET GLOBAL mysql56_temporal_format = ON")


RIGHT = {
    "version": "10.11.1-MariaDB",
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "server_id": "7",
}


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("version", "10.2.9-MariaDB", "10.3 or later"),
        ("version", "5.6.51", "5.7 or later"),
        ("log_bin", "OFF", "log_bin"),
        ("binlog_format", "MIXED", "binlog_format = 'ROW'"),
        ("binlog_row_image", "MINIMAL", "binlog_row_image = 'FULL'"),
        ("binlog_row_image", "NOBLOB", "binlog_row_image = 'FULL'"),
        ("log_bin_compress", "ON", "log_bin_compress = OFF"),
        ("binlog_row_value_options", "PARTIAL_JSON", "binlog_row_value_options = ''"),
        ("server_id", "0", "server_id"),
    ],
)
def test_a_server_that_cannot_be_followed_is_refused_with_the_cure(setting: str, value: str, words: str) -> None:
    assert list(objections(ServerFacts({**RIGHT, "binlog_transaction_compression": "ON"}))) == []
    ((what, cure),) = objections(ServerFacts({**RIGHT, setting: value}))
    assert words in cure and value.split("-")[0].casefold() in f"{what} {cure}".casefold()


KINDS = (
    ("BIGINT UNSIGNED", lambda r: r.randrange(2**64)),
    ("INT", lambda r: r.randrange(-(2**31), 2**31)),
    ("MEDIUMINT", lambda r: r.randrange(-(2**23), 2**23)),
    ("TINYINT UNSIGNED", lambda r: r.randrange(256)),
    ("DECIMAL(30,9)", lambda r: Decimal(r.randrange(-(10**30), 10**30)).scaleb(-9)),
    ("DECIMAL(9,9)", lambda r: Decimal(r.randrange(-(10**9), 10**9)).scaleb(-9)),
    ("DOUBLE", lambda r: r.uniform(-1e9, 1e9)),
    ("VARCHAR(400)", lambda r: "".join(r.choice("aé你😀 '\\\n") for _ in range(r.randrange(40)))),
    ("VARCHAR(20) CHARACTER SET latin1", lambda r: "".join(r.choice("aéÿ€") for _ in range(r.randrange(20)))),
    (
        "DATETIME(6)",
        lambda r: (
            f"{r.randrange(1000, 9999)}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02} "
            f"{r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}.{r.randrange(10**6):06}"
        ),
    ),
    (
        "TIME(3)",
        lambda r: (
            f"{r.choice(['', '-'])}{r.randrange(838):02}:{r.randrange(60):02}:{r.randrange(60):02}"
            f".{r.randrange(1000):03}"
        ),
    ),
    ("DATE", lambda r: f"{r.randrange(1, 9999):04}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"),
    ("TEXT", lambda r: "t" * r.choice([0, 1, 255, 256, 3000])),
    ("VARBINARY(300)", lambda r: r.randbytes(r.randrange(300))),
    ("ENUM('a','b','c')", lambda r: r.choice("abc")),
    ("BINARY(8)", lambda r: r.randbytes(r.randrange(9)).ljust(8, b"\0")),
)


@pytest.mark.parametrize("round_", range(6))
def test_random_tables_and_rows_equal_select(
    maria: Maria, seed: int, round_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns, NULLs, inserts, updates and deletes at random: applied in the stream's order they are the table.

    Decoded by the functions for each pattern of NULLs, and by the general function.
    """
    monkeypatch.setattr(rows, "OFTEN", (1, 1_000_000)[round_ % 2])
    chance = random.Random(f"{seed}/{round_}")
    kinds = [chance.choice(KINDS) for _ in range(chance.randrange(1, 20))]
    nullable = [chance.random() < 0.7 for _ in kinds]
    columns = [f"c{n} {kind} {'NULL' if nullable[n] else 'NOT NULL'}" for n, (kind, _) in enumerate(kinds)]
    maria.run(f"CREATE TABLE r (id INT PRIMARY KEY, {', '.join(columns)})")
    maria.mark()

    def row(number: int) -> list[Any]:
        pairs = zip(kinds, nullable, strict=True)
        return [number, *(None if may and chance.random() < 0.3 else make(chance) for (_, make), may in pairs)]

    marks = ", ".join(["%s"] * (len(kinds) + 1))
    for number in range(120):
        maria.rows(f"INSERT INTO r VALUES ({marks})", row(number))
    for number in chance.sample(range(120), 40):
        maria.rows(f"REPLACE INTO r VALUES ({marks})", row(number))
    maria.run("DELETE FROM r WHERE id % 7 = 3")
    table: dict[int, tuple[Any, ...]] = {}
    for change in maria.decoded(maria.stream("r").items(blocking=False)):
        for before in change.before:
            assert table.pop(before[0]) == before
        table |= {after[0]: after for after in change.after}
    assert [table[number] for number in sorted(table)] == maria.rows("SELECT * FROM r ORDER BY id")


_OTHERWISE = ("TIME", "BINARY", "VARBINARY", "DATE", "DECIMAL")


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_rows_equal_those_of_mysql_replication_where_it_is_right(maria: Maria, seed: int) -> None:
    """Whole numbers, doubles, text and labels; the other reader returns other types for the rest."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import WriteRowsEvent

    chance = random.Random(seed)
    right = [kind for kind in KINDS if not kind[0].startswith(_OTHERWISE)]
    maria.run(f"CREATE TABLE p (id INT PRIMARY KEY, {', '.join(f'c{n} {kind}' for n, (kind, _) in enumerate(right))})")
    maria.mark()
    for number in range(60):
        values = [None if chance.random() < 0.2 else make(chance) for _, make in right]
        maria.rows(f"INSERT INTO p VALUES (%s, {', '.join(['%s'] * len(right))})", [number, *values])
    settings = {"host": "127.0.0.1", "port": maria.server.port, "user": "root"}
    settings["password"] = maria.server.password()
    options: dict[str, Any] = {"log_file": maria.file, "log_pos": maria.offset, "resume_stream": True}
    options |= {"server_id": 4_300_000, "only_events": [WriteRowsEvent], "only_schemas": [maria.database]}
    reader = BinLogStreamReader(connection_settings=settings, **options)
    theirs = [tuple(row["values"].values()) for event in reader for row in event.rows]
    reader.close()
    assert maria.inserted() == theirs
