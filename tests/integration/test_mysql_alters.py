"""An ALTER TABLE applied by its text gives the columns that the server itself reports after it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slotkeeper.core.sources.mysql.alters import OPAQUE, altered, table_of
from slotkeeper.core.sources.mysql.definitions import NotFollowed, keeps_values
from slotkeeper.core.sources.mysql.rows import SchemaColumn
from slotkeeper.core.sources.mysql.statements import read
from slotkeeper.core.sources.mysql.tables import read_described
from tests.support.maria import Maria

START = "id INT PRIMARY KEY, a VARCHAR(20), b DECIMAL(8,2) DEFAULT 1, c ENUM('p','q'), d TEXT, KEY by_a (a)"
FOLLOWED = (
    "ADD w INT UNSIGNED NOT NULL DEFAULT 5",
    "ADD COLUMN IF NOT EXISTS w2 INT, ADD COLUMN x BIGINT(20) ZEROFILL FIRST",
    "ADD (y1 BOOL, y2 DOUBLE PRECISION, y3 FLOAT(30), y4 NUMERIC(20), y5 CHARACTER VARYING(7))",
    "ADD z1 DATETIME(3), ADD z2 TIME, ADD z3 YEAR, ADD z4 DATE COMMENT 'AFTER, (all'",
    "ADD t1 TINYTEXT CHARACTER SET latin1, ADD t2 LONGTEXT COLLATE utf8mb3_bin, ADD t3 CHAR, ADD t4 CHAR(3) NOT NULL",
    "ADD b1 BINARY(4), ADD b2 VARBINARY(300), ADD b3 MEDIUMBLOB, ADD b4 BIT, ADD b5 BIT(33)",
    "ADD j JSON, ADD q UUID, ADD i4 INET4, ADD i6 INET6",
    "MODIFY c ENUM('p','q','r s') AFTER id, MODIFY COLUMN b DECIMAL(10,2) NOT NULL",
    "CHANGE a `AFTER` VARCHAR(30) CHARACTER SET latin1 FIRST, RENAME COLUMN d TO `b``c`",
    "DROP COLUMN b5, DROP IF EXISTS b4, DROP INDEX by_a",
    "ADD INDEX by_w (w), ADD CONSTRAINT k CHECK (w > 0), COMMENT = 'ADD COLUMN nothing INT', ENGINE = InnoDB",
    "DEFAULT CHARACTER SET = latin1, ADD u0 INT",
    "ADD u1 VARCHAR(9), ADD u2 SET('a','(','c d') AFTER u0",
    "ADD u3 CHAR(3) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin, MODIFY id BIGINT",
    "ALTER w SET DEFAULT 9, ALTER COLUMN `b``c` DROP DEFAULT",
    "/*! ADD v1 INT */ /*M!100100 , ADD v2 INT */",
    "ADD n1 INT AFTER id, ADD n2 INT AFTER n1, ADD n3 INT AFTER n1",
)
STOPPED = (
    ("DROP PRIMARY KEY, ADD PRIMARY KEY (a)", "key"),
    ("ADD k INT PRIMARY KEY", "key"),
    ("CONVERT TO CHARACTER SET utf8mb4", "CONVERT"),
    ("RENAME TO other", "renames the table"),
    ("PARTITION BY HASH (id)", "not known"),
    ("MODIFY absent INT", "absent is unknown"),
)


def applied(before: Sequence[SchemaColumn], text: str, charset: str) -> tuple[tuple[SchemaColumn, ...], str]:
    wanted = {one.name for one in before}
    found, charset = altered(read(text), tuple(before), wanted=wanted, adds=True, charset=charset, key=("id",))
    assert not [one.why for one in found if one.why]
    return tuple(one.column for one in found), charset


def shape(column: SchemaColumn) -> tuple[object, ...]:
    """Return what decoding needs; the server adds a display width to a type."""
    labels = column.full_type if column.kind in ("enum", "set") else "unsigned" in column.full_type
    size = column.most_bytes if column.kind in ("char", "varchar", "binary", "varbinary") else None
    numbers = (column.precision, column.scale) if column.kind in ("decimal", "bit") else None
    return column.name, column.kind, labels, column.nullable, column.charset, size, numbers, column.fraction


def test_a_statement_gives_the_columns_that_the_server_reports(maria: Maria) -> None:
    maria.run(f"CREATE TABLE t ({START}) CHARACTER SET utf8mb4")
    charset = "utf8mb4"
    for change in FOLLOWED:
        before = read_described(maria.session, maria.database, "t")
        assert before is not None
        found, charset = applied(before, f"ALTER TABLE t {change}", charset)
        maria.run(f"ALTER TABLE t {change}")
        after = read_described(maria.session, maria.database, "t")
        assert after is not None
        assert [shape(one) for one in found] == [shape(one) for one in after], change


@pytest.mark.parametrize(("change", "why"), STOPPED)
def test_a_clause_that_is_not_known_is_named(change: str, why: str) -> None:
    table = (SchemaColumn("id", "int", "int(11)", False), SchemaColumn("a", "int", "int(11)", False))
    with pytest.raises(NotFollowed, match=why):
        applied(table, f"ALTER TABLE t {change}", "utf8mb4")


AMBIGUOUS = (
    "RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    "CHANGE a b INT, CHANGE b c INT",
    "DROP a, ADD a BIGINT",
    "DROP a, ADD A BIGINT",
    "RENAME COLUMN a TO b, DROP b",
    "DROP b, RENAME COLUMN a TO b",
    "RENAME COLUMN a TO c, MODIFY c BIGINT",
    "MODIFY a BIGINT, MODIFY `A` INT",
    "ADD c INT, ADD C INT",
    "ADD c INT, ALTER c SET DEFAULT 5",
    "RENAME COLUMN a TO B",
    "ADD (c INT AFTER d, d INT)",
    "RENAME COLUMN a TO c, ADD d INT AFTER c",
    "RENAME COLUMN a TO c, MODIFY id BIGINT AFTER c",
    "RENAME COLUMN a TO c, MODIFY id BIGINT AFTER a",
    "MODIFY id BIGINT AFTER b, DROP b",
)
REPEATS = (
    "MODIFY a INT COMMENT 'a'",
    "MODIFY a INT(5), MODIFY id INT AFTER b, MODIFY b INT FIRST, MODIFY id INT FIRST",
    "MODIFY id INT",
    "CHANGE a a INTEGER",
    "RENAME COLUMN a TO a",
    "MODIFY e ENUM('p','q') CHARACTER SET latin1",
    "MODIFY f VARCHAR(9)",
    "ADD a INT",
    "ADD COLUMN IF NOT EXISTS a INT",
    "DROP c",
    "DROP IF EXISTS c",
    "CHANGE c d INT",
    "RENAME COLUMN c TO d",
)
NUMBERS = tuple(SchemaColumn(name, "int", "int(11)", name != "id") for name in ("id", "a", "b"))
TEXTS = (
    SchemaColumn("e", "enum", "enum('p','q')", True, "latin1"),
    SchemaColumn("f", "varchar", "varchar(9)", True, "utf8mb4", 36),
)


@pytest.mark.parametrize("change", AMBIGUOUS)
def test_a_statement_whose_clauses_share_a_name_is_not_followed(change: str) -> None:
    with pytest.raises(NotFollowed, match=r"two clauses name|had a column|after AFTER|is unknown"):
        applied(NUMBERS, f"ALTER TABLE t {change}", "utf8mb4")


@pytest.mark.parametrize("change", REPEATS)
def test_a_statement_that_was_possibly_followed_before_is_not_followed_again(change: str) -> None:
    with pytest.raises(NotFollowed):
        applied((*NUMBERS, *TEXTS), f"ALTER TABLE t {change}", "utf8mb4")


@pytest.mark.parametrize("change", [*REPEATS[:1], *REPEATS[2:]])
def test_such_a_statement_names_the_position(change: str) -> None:
    with pytest.raises(NotFollowed, match="the position may be before a change that was already followed"):
        applied((*NUMBERS, *TEXTS), f"ALTER TABLE t {change}", "utf8mb4")


def test_each_followed_statement_stops_if_it_is_applied_once_more() -> None:
    changes = ("ADD c INT", "DROP b", "MODIFY a BIGINT", "MODIFY b INT FIRST", "CHANGE a d INT", "RENAME COLUMN a TO d")
    for change in changes:
        once, _ = applied(NUMBERS, f"ALTER TABLE t {change}", "utf8mb4")
        with pytest.raises(NotFollowed, match="take a new snapshot"):
            applied(once, f"ALTER TABLE t {change}", "utf8mb4")


def test_what_changes_no_column_and_what_is_not_known_may_be_repeated() -> None:
    for change in ("COMMENT 'x'", "ENGINE = InnoDB", "ALTER a SET DEFAULT 5", "ADD INDEX by_a (a)"):
        assert applied(NUMBERS, f"ALTER TABLE t {change}", "utf8mb4")[0] == NUMBERS
    once, _ = altered(read("ALTER TABLE t MODIFY b POINT"), NUMBERS, wanted={"id"}, adds=False)
    table = tuple(one.column for one in once)
    again, _ = altered(read("ALTER TABLE t MODIFY b POINT NOT NULL"), table, wanted={"id"}, adds=False)
    assert tuple(one.column for one in again) == table


def test_a_text_column_and_another_character_set_in_one_statement_are_not_followed() -> None:
    for change in ("ADD c TEXT, CHARSET latin1", "COLLATE = latin1_bin, MODIFY f VARCHAR(10)"):
        with pytest.raises(NotFollowed, match="changes the table's character set"):
            applied((*NUMBERS, *TEXTS), f"ALTER TABLE t {change}", "utf8mb4")


def test_a_column_of_the_primary_key_stays_not_null_and_one_of_another_key_has_to_say_so() -> None:
    (one, *_), _ = applied(NUMBERS, "ALTER TABLE t MODIFY id BIGINT", "utf8mb4")
    assert (one.kind, one.nullable) == ("bigint", False)
    text = read("ALTER TABLE t MODIFY id BIGINT")
    with pytest.raises(NotFollowed, match="no longer NOT NULL"):
        altered(text, NUMBERS, wanted={"id"}, adds=True, key_index="by_id", key=("id",))


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("ALTER TABLE t ADD c INT", True),
        ("ALTER TABLE `ods`.`t` ADD c INT", True),
        ("ALTER TABLE other.t ADD c INT, ADD t INT", False),
        ("ALTER TABLE child ADD FOREIGN KEY (a) REFERENCES t (id), ADD c INT", False),
        ("RENAME TABLE ods.t TO ods._t_del, ods._t_gho TO ods.t", True),
        ("RENAME TABLE other.t TO other._t_del, other._t_gho TO other.t", False),
    ],
)
def test_the_table_that_a_statement_alters_is_named_by_itself(text: str, ours: bool) -> None:
    schema, name, _ = table_of(read(text))
    assert ((schema or "ods", name) == ("ods", "t")) is ours


def test_a_column_that_is_not_needed_is_known_by_name_only() -> None:
    table = (SchemaColumn("id", "int", "int(11)", False), SchemaColumn("g", "point", "point", True))
    text = "ALTER TABLE t ADD p POLYGON AFTER id, CHANGE g h MULTIPOINT, ADD s SERIAL"
    found, _ = altered(read(text), table, wanted={"id"}, adds=False)
    assert [(one.column.name, one.column.kind) for one in found] == [
        ("id", "int"),
        ("p", OPAQUE),
        ("h", OPAQUE),
        ("s", OPAQUE),
    ]


DEFAULTS = (
    ("INT", None),
    ("INT NOT NULL", "0"),
    ("INT DEFAULT -7", "-7"),
    ("INT DEFAULT '5'", "5"),
    ("BIGINT NOT NULL DEFAULT '-12'", "-12"),
    ("DECIMAL(6,2) DEFAULT 1.5", "1.50"),
    ("DECIMAL(6,2) NOT NULL", "0.00"),
    ("VARCHAR(9) NOT NULL", ""),
    ("VARCHAR(9) DEFAULT 'its'", "its"),
    ("VARCHAR(9) DEFAULT ''", ""),
    ("ENUM('x','y') NOT NULL", "x"),
    ("TINYINT(1) DEFAULT TRUE", "1"),
    ("DOUBLE DEFAULT NULL", None),
)


@pytest.mark.parametrize(("definition", "value"), DEFAULTS)
def test_existing_rows_get_the_value_that_the_server_gives_them(
    maria: Maria, definition: str, value: str | None
) -> None:
    maria.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    table = read_described(maria.session, maria.database, "t")
    assert table is not None
    text = f"ALTER TABLE t ADD n {definition}"
    found, _ = altered(read(text), table, wanted={"id"}, adds=True, charset="utf8mb4")
    maria.run(text)
    ((there,),) = maria.rows("SELECT n FROM t")
    assert (found[-1].default, found[-1].why) == (value, "")
    assert value == (None if there is None else str(there))


@pytest.mark.parametrize(
    "definition",
    [
        *("DATETIME DEFAULT now()", "INT DEFAULT (1 + 1)", "DATE NOT NULL", "TIMESTAMP"),
        *("VARCHAR(9) DEFAULT 'it''s'", f"VARCHAR(99) DEFAULT '{'x' * 80}'", "ENUM('it''s') NOT NULL"),
        *(
            "INT DEFAULT '5.0'",
            "INT DEFAULT ' 5'",
            "INT DEFAULT '-0'",
            "INT DEFAULT 1.5",
            "INT DEFAULT 007",
            "DOUBLE DEFAULT '1e3'",
            "VARCHAR(9) DEFAULT 5",
        ),
        *("VARCHAR(9) DEFAULT 'a '", "VARCHAR(2) DEFAULT 'abc'", "CHAR(3) CHARACTER SET latin1 DEFAULT 'ю'"),
        *("ENUM('x','y') DEFAULT 'X'", "ENUM('x','y') DEFAULT 1", "SET('x','y') DEFAULT 'y,x'", "BLOB DEFAULT 'a'"),
        *("UUID DEFAULT 'A'", "ENUM('x ','y')", "ENUM('x' 'y')", "ENUM(0x61,'y')", "SET(N'x')", "ENUM(x,y)"),
    ],
)
def test_a_value_that_the_binlog_does_not_contain_is_a_reason(definition: str) -> None:
    table = (SchemaColumn("id", "int", "int(11)", False),)
    text = f"ALTER TABLE t ADD n {definition}"
    found, _ = altered(read(text), table, wanted={"id"}, adds=True, charset="utf8mb4")
    assert found[-1].why and found[-1].column.kind == OPAQUE


WIDENED = (
    ("INT", "BIGINT", True),
    ("INT UNSIGNED", "INT", False),
    ("INT UNSIGNED", "BIGINT", True),
    ("BIGINT", "DECIMAL(19)", True),
    ("BIGINT", "DECIMAL(18)", False),
    ("DECIMAL(8,2)", "DECIMAL(10,2)", True),
    ("DECIMAL(8,2)", "DECIMAL(10,3)", False),
    ("VARCHAR(10)", "VARCHAR(20)", True),
    ("VARCHAR(10)", "TEXT", True),
    ("VARCHAR(10) CHARACTER SET latin1", "VARCHAR(10) CHARACTER SET utf8mb4", True),
    ("VARCHAR(10) CHARACTER SET utf8mb4", "VARCHAR(10) CHARACTER SET latin1", False),
    ("INT NOT NULL", "INT", True),
    ("INT", "INT NOT NULL", False),
    ("ENUM('a','b')", "ENUM('a','b','c')", True),
    ("ENUM('a','b')", "ENUM('b','a')", False),
    ("DATETIME", "DATETIME(3)", False),
    ("FLOAT", "DOUBLE", False),
    ("DOUBLE", "DOUBLE(6,2)", False),
    ("CHAR(3)", "VARCHAR(3)", False),
    ("VARBINARY(3)", "BLOB", True),
    ("BINARY(3)", "BINARY(4)", False),
)


@pytest.mark.parametrize(("one", "other", "keeps"), WIDENED)
def test_a_change_keeps_values_only_if_each_has_the_same_text(one: str, other: str, keeps: bool) -> None:
    table = (SchemaColumn("id", "int", "int(11)", False),)
    found = [
        altered(read(f"ALTER TABLE t ADD n {text}"), table, wanted=(), adds=True, charset="utf8mb4")[0][-1].column
        for text in (one, other)
    ]
    assert keeps_values(*found) is keeps
