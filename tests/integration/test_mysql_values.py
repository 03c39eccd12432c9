"""Values read from MariaDB's binlog equal those of its own SELECT: types, hard values, character sets."""

from __future__ import annotations

import random

import pytest

from slotkeeper.core.sources.mysql import rows as compiled
from slotkeeper.core.sources.mysql.values import CODECS, double_text, inet6, text_reader
from tests.support.maria import Maria

ZOO: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("TINYINT", ("-128", "0", "127")),
    ("TINYINT UNSIGNED", ("0", "255")),
    ("SMALLINT", ("-32768", "32767")),
    ("SMALLINT UNSIGNED", ("65535",)),
    ("MEDIUMINT", ("-8388608", "-1", "8388607")),
    ("MEDIUMINT UNSIGNED", ("16777215",)),
    ("INT", ("-2147483648", "2147483647")),
    ("INT UNSIGNED", ("4294967295",)),
    ("BIGINT", ("-9223372036854775808", "9223372036854775807")),
    ("BIGINT UNSIGNED", ("18446744073709551615",)),
    ("BOOLEAN", ("TRUE", "FALSE")),
    ("DECIMAL(65,30)", ("-12345678901234567890123456789012345.123456789012345678901234567890", "0", "1e-30")),
    ("DECIMAL(18,4)", ("-0.0001", "99999999999999.9999", "1")),
    ("DECIMAL(10,0)", ("-1", "9999999999")),
    ("DECIMAL(5,5)", ("0.12345", "-0.00001")),
    ("DOUBLE", ("1.1", "-1.7976931348623157e308", "2.2250738585072014e-308", "0")),
    ("BIT(1)", ("b'1'", "b'0'")),
    ("BIT(10)", ("b'1000000001'",)),
    ("BIT(64)", ("18446744073709551615",)),
    ("YEAR", ("1901", "2155", "0000")),
    ("DATE", ("'2024-02-29'", "'9999-12-31'", "'0000-00-00'", "'2024-00-00'", "'2024-02-00'")),
    ("TIME", ("'-838:59:59'", "'838:59:59'", "'00:00:00'", "'-00:00:01'")),
    ("TIME(2)", ("'-12:34:56.78'", "'-00:00:00.01'", "'12:34:56.78'")),
    ("TIME(3)", ("'-01:00:00.250'", "'-12:34:56.789'")),
    ("TIME(6)", ("'-12:34:56.789012'", "'-838:59:58.999999'", "'00:00:00.000001'")),
    ("DATETIME", ("'1000-01-01 00:00:00'", "'0000-00-00 00:00:00'", "'2024-00-01 00:00:00'")),
    *((f"DATETIME({digits})", ("'2024-05-06 07:08:09.123456'",)) for digits in range(7)),
    *((f"TIMESTAMP({digits}) NULL", ("'2024-05-06 07:08:09.123456'", "0")) for digits in range(7)),
    ("TIMESTAMP NULL", ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'")),
    ("CHAR(10)", ("'é😀'", "''", "'x  '")),
    ("CHAR(255) CHARACTER SET utf8mb4", ("repeat('😀', 255)",)),
    ("VARCHAR(300)", ("'a'", "repeat('é', 300)", "''")),
    ("VARCHAR(10) CHARACTER SET latin1", ("'é€ÿ'",)),
    ("VARCHAR(10) CHARACTER SET utf16", ("'é😀'",)),
    ("VARCHAR(10) CHARACTER SET utf32", ("'é😀'",)),
    ("VARCHAR(10) CHARACTER SET ucs2", ("'éx'",)),
    ("VARCHAR(10) CHARACTER SET gbk", ("'你好'",)),
    ("VARCHAR(10) CHARACTER SET sjis", ("'日本'",)),
    ("VARCHAR(10) CHARACTER SET cp1251", ("'привет'",)),
    ("TINYTEXT", ("'t'",)),
    ("TEXT", ("repeat('x', 60000)", "''")),
    ("MEDIUMTEXT", ("repeat('y', 70000)",)),
    ("LONGTEXT", ("'long'",)),
    ("BINARY(16)", ("x'1100'", "x'00'", "x'000000000000000000000000000000ff'", "''")),
    ("VARBINARY(20)", ("x'0001020000'", "''")),
    ("BLOB", ("x'00ff00'", "''")),
    ("ENUM('a','é','x,y','it''s')", ("'é'", "'x,y'", "'it''s'")),
    ("SET('a','b','c','é')", ("''", "'c,a'", "'é'")),
    ("JSON", ('\'{"a": [1, 2.5, null, "é"]}\'',)),
    ("UUID", ("'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'")),
    ("INET6", ("'2001:db8::'", "'::'", "'::1'", "'::ffff:1.2.3.4'", "'::1.2.3.4'", "'1:2:3:4:5:6:7:8'", "'1::'")),
    ("INET4", ("'1.2.3.0'", "'255.255.255.255'", "'0.0.0.0'")),
    ("VARCHAR(1000) COMPRESSED", ("repeat('zip', 300)", "'x'", "''")),
    ("TEXT COMPRESSED CHARACTER SET latin1", ("repeat('é', 300)", "''")),
    ("BLOB COMPRESSED", ("repeat(x'00ff', 500)",)),
    ("POINT", ("ST_PointFromText('POINT(1 2)', 4326)",)),
)


def test_every_type_equals_select(maria: Maria) -> None:
    """Each type in a nullable column next to a NULL, with FULL metadata."""
    maria.run("SET sql_mode = ''")
    wrong = {}
    for number, (kind, values) in enumerate(ZOO):
        maybe = "" if "NULL" in kind else "NULL"
        maria.run(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v {kind} {maybe}, w INT UNSIGNED)")
        maria.mark()
        rows = [f"({place}, {value}, 4294967295)" for place, value in enumerate((*values, "NULL"))]
        maria.run(f"INSERT INTO t{number} VALUES {', '.join(rows)}")
        column = "CAST(v AS UNSIGNED)" if kind.startswith("BIT") else "v"
        expected = maria.rows(f"SELECT id, {column}, w FROM t{number} ORDER BY id")
        if kind.startswith("BIT"):
            expected = [(one, None if bits is None else int(bits), other) for one, bits, other in expected]
        found = maria.inserted()
        if found != expected:
            wrong[kind] = (found, expected)
    assert not wrong


@pytest.mark.parametrize("often", [1, 1_000_000])
def test_all_types_in_one_row_equal_select(maria: Maria, monkeypatch: pytest.MonkeyPatch, often: int) -> None:
    """The same columns, with and without NULLs between them, so that fixed and sized values occur in every order."""
    monkeypatch.setattr(compiled, "OFTEN", often)
    maria.run("SET sql_mode = ''")
    kinds = [one for one in ZOO if not one[0].startswith("BIT")]
    columns = ", ".join(f"c{n} {kind} {'' if 'NULL' in kind else 'NULL'}" for n, (kind, _) in enumerate(kinds))
    maria.run(f"CREATE TABLE wide (id INT PRIMARY KEY, {columns})")
    maria.mark()
    rows = []
    for row in range(60):
        values = [
            hard[row % len(hard)] if row == 0 or (row * 7 + n) % 5 else "NULL" for n, (_, hard) in enumerate(kinds)
        ]
        rows.append(f"({row}, {', '.join(values)})")
    maria.run(f"INSERT INTO wide VALUES {', '.join(rows)}")
    assert maria.inserted() == maria.rows("SELECT * FROM wide ORDER BY id")


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.chaos)])
def test_an_inet6_has_the_servers_own_text(maria: Maria, count: int, seed: int) -> None:
    """Addresses with many groups of zeros: a single one is "::" too, as in the server's own SELECT."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    groups = (0, 0, 0, 0, 0, 0, 1, 0xFFFF, 0x0102, 0xA000)
    made = {b"".join(chance.choice(groups).to_bytes(2, "big") for _ in range(8)) for _ in range(count // 2)}
    made |= {bytes(12) + chance.randbytes(4) for _ in range(count // 10)}
    made |= {bytes(10) + b"\xff\xff" + chance.randbytes(4) for _ in range(count // 10)}
    while len(made) < count:
        mask = chance.getrandbits(8)
        made.add(b"".join(chance.randbytes(2) if mask >> place & 1 else bytes(2) for place in range(8)))
    addresses = sorted(made)
    maria.run("CREATE TEMPORARY TABLE a (b BINARY(16), v INET6)")
    for at in range(0, len(addresses), 5_000):
        part = ", ".join(f"(x'{one.hex()}', x'{one.hex()}')" for one in addresses[at : at + 5_000])
        maria.run(f"INSERT INTO a VALUES {part}")
    answer = maria.rows("SELECT b, v FROM a")
    assert len(answer) == len(addresses) >= count
    assert [(raw, text, inet6(raw)) for raw, text in answer if inet6(raw) != text] == []


def units_of(charset: str) -> list[bytes]:
    """Return every byte, and many pairs of bytes for sets that have them; for Unicode's forms, every 97th character."""
    if charset.startswith(("utf", "ucs")):
        last = 0xFFFF if charset in ("ucs2", "utf8mb3") else 0x2FFFF
        points = [point for point in range(1, last, 97) if not 0xD800 <= point < 0xE000]
        return [chr(point).encode(CODECS[charset]) for point in points]
    units = [bytes([one]) for one in range(256)]
    if charset in ("big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "ujis"):
        units += [bytes([one, two]) for one in range(0x81, 256, 7) for two in range(0x30, 256)]
    return units


@pytest.mark.parametrize("charset", sorted(set(CODECS) - {"utf8"} | {"latin1"}))
def test_every_character_set_is_read_as_the_server_reads_it(maria: Maria, charset: str) -> None:
    """Every code of one and two bytes that the server takes; where it has no character ('?'), nothing is asked."""
    read = text_reader(charset)
    assert read is not None
    units = units_of(charset)
    maria.run("SET sql_mode = ''")
    maria.run(
        f"CREATE TEMPORARY TABLE codes (id INT PRIMARY KEY, b VARBINARY(4), s VARCHAR(4) CHARACTER SET {charset})"
    )
    for at in range(0, len(units), 4000):
        part = ", ".join(f"({at + n}, x'{unit.hex()}')" for n, unit in enumerate(units[at : at + 4000]))
        maria.run(f"INSERT INTO codes (id, b) VALUES {part}")
    maria.run("UPDATE IGNORE codes SET s = b")
    answer = maria.rows("SELECT b, CAST(s AS BINARY), CONVERT(s USING utf8mb4) FROM codes ORDER BY id")
    wrong = []
    for unit, stored, text in answer:
        if stored != unit or (text in ("?", "\ufffd") and unit != b"?"):
            continue
        try:
            if read(unit) != text:
                wrong.append((unit.hex(), text, read(unit)))
        except UnicodeDecodeError:
            continue  # refused with the column's name
    assert not wrong


def test_a_double_in_json_is_spelled_as_the_server_spells_doubles(maria: Maria) -> None:
    """MySQL formats JSON's doubles as SELECT does, with ".0" after whole numbers."""
    mantissas = (1, -1.5, 1.2345678901234567, 9.999999, 1.234567890123457)
    numbers = [mantissa * 10.0**power for mantissa in mantissas for power in range(-24, 25)]
    wrong = []
    for at in range(0, len(numbers), 50):
        part = numbers[at : at + 50]
        maria.run("CREATE OR REPLACE TEMPORARY TABLE d (id INT, v DOUBLE)")
        maria.run("INSERT INTO d VALUES " + ", ".join(f"({n}, {value!r})" for n, value in enumerate(part)))
        for (text,), value in zip(maria.rows("SELECT CAST(v AS CHAR) FROM d ORDER BY id"), part, strict=True):
            ours = double_text(value)
            if (text if "." in text or "e" in text else f"{text}.0") != ours:
                wrong.append((text, ours))
    assert not wrong
