"""The effect of each statement on a replicated table `s.t`: the table's name decides, and DML as text is never
skipped."""

from __future__ import annotations

import struct

import pytest

from slotkeeper.core.sources.mysql.events import Parser, Query
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.statements import Effect, Statement, judge, read
from slotkeeper.core.sources.mysql.tables import IndexPart, key_objections, key_of
from slotkeeper.core.sources.mysql.transactions import End, Item, Transactions
from tests.support import mysql_bytes as made

WANTED = {("s", "t")}
ODS = {("ods", "t")}


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("RENAME TABLE `a#b` TO x, t TO y", Effect.EMPTIES),
        ("DROP TABLES `a-- b`, t", Effect.EMPTIES),
        ("RENAME TABLE temporary TO x, t TO y", Effect.EMPTIES),
        ("ALTER TABLE t COMMENT '#', ADD c INT", Effect.RESHAPES),
        ("ALTER TABLE t COMMENT '-- ', DISCARD TABLESPACE", Effect.EMPTIES),
        ("ALTER TABLE t /*!50000 DROP PARTITION p */", Effect.EMPTIES),
        ("SET STATEMENT max_statement_time = 10 FOR ALTER TABLE t ADD c INT", Effect.RESHAPES),
        ("SET STATEMENT max_statement_time = 10 FOR UPDATE t SET v = 1", Effect.CHANGES),
        ("ANALYZE UPDATE t SET v = 1", Effect.CHANGES),
        ("ANALYZE FORMAT=JSON DELETE FROM t", Effect.CHANGES),
        ("ANALYZE TABLE t", Effect.NONE),
        ("TRUNCATE TABLE other . t", Effect.NONE),
        ("TRUNCATE TABLE `S` . `T`", Effect.EMPTIES),
        ("CREATE OR REPLACE DATABASE s", Effect.EMPTIES),
        ("CREATE DATABASE s", Effect.NONE),
        ("ALTER TABLE t ENGINE = BLACKHOLE", Effect.EMPTIES),
        ("ALTER TABLE t ENGINE = 'BLACKHOLE'", Effect.EMPTIES),
        ("ALTER TABLE t ENGINE = InnoDB", Effect.NONE),
        ("ALTER TABLE t IMPORT TABLESPACE", Effect.EMPTIES),
        ("ALTER TABLE t ADD SYSTEM VERSIONING", Effect.VERSIONS),
        ("ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE", Effect.CASCADES),
        ("ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES p (id) ON UPDATE SET NULL", Effect.CASCADES),
        ("ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET DEFAULT", Effect.CASCADES),
        ("ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE RESTRICT", Effect.NONE),
        ("ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES p (id)", Effect.NONE),
        ("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE", Effect.NONE),
        ("INSERT INTO o VALUES (1)", Effect.INDIRECT),
        ("INSERT INTO o SELECT * FROM t", Effect.INDIRECT),
        ("INSERT IGNORE INTO s.t SELECT * FROM o", Effect.CHANGES),
        ("UPDATE o JOIN t SET o.v = 1", Effect.CHANGES),
        ("SELECT `s`.`f`()", Effect.INDIRECT),
        ("DO f()", Effect.INDIRECT),
        ("VALUES (f())", Effect.INDIRECT),
        ("CREATE TABLE n AS SELECT f()", Effect.INDIRECT),
        ("CREATE TABLE n (a INT) SELECT * FROM t", Effect.INDIRECT),
        ("CREATE TABLE n (id INT) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (3))", Effect.NONE),
        ("CREATE VIEW v AS SELECT * FROM t", Effect.NONE),
        ("CREATE TRIGGER x AFTER INSERT ON o FOR EACH ROW DELETE FROM t", Effect.NONE),
        ("CREATE PROCEDURE p() TRUNCATE TABLE t", Effect.NONE),
        ("INSERT INTO mysql.beat (id, at) VALUES (1, 2) ON DUPLICATE KEY UPDATE at = 2", Effect.NONE),
        ("DELETE FROM mysql.beat WHERE id = 1", Effect.NONE),
        ("DELETE FROM mysql.beat WHERE f(id)", Effect.INDIRECT),
        ("DELETE FROM mysql.beat USING mysql.beat JOIN x.o", Effect.INDIRECT),
        ("INSERT INTO mysql.beat SELECT * FROM v", Effect.INDIRECT),
        ("FLUSH TABLES", Effect.NONE),
        ("GRANT SELECT ON t TO x", Effect.NONE),
        ("# Dummy event replacing event type 160", Effect.NONE),
        ("FROBNICATE x", Effect.UNREAD),
    ],
)
def test_a_statement_means(text: str, effect: Effect) -> None:
    assert judge(read(text), "s", WANTED) is effect


def test_a_foreign_key_with_cascades_that_is_allowed_is_a_change_of_columns_at_most() -> None:
    text = "ALTER TABLE t ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE"
    assert judge(read(text), "s", WANTED, cascades_known=True) is Effect.NONE
    assert judge(read(f"{text}, ADD c INT"), "s", WANTED, cascades_known=True) is Effect.RESHAPES


def event(text: bytes, sql_mode: int = 0, charset: int = 45) -> bytes:
    """A QUERY event with the status variables that a server writes."""
    status = b"\x00" + bytes(4) + b"\x01" + struct.pack("<Q", sql_mode) + b"\x06\x03std\x03" + bytes(4)
    status += b"\x04" + struct.pack("<HHH", charset, 8, 8) + b"\x05\x06SYSTEM"
    return made.event(2, struct.pack("<IIBHH", 1, 0, 1, 0, len(status)) + status + b"s\0" + text)


def item(packet: bytes, table: str) -> Item | None:
    """The effect of a statement on a replicated table `s.<table>`."""
    return Transactions(MysqlPosition("b.000001", 4), {("s", table)}).take(Parser().parse(packet))


@pytest.mark.parametrize(
    ("charset", "codec"), [(45, "utf-8"), (8, "cp1252"), (28, "gbk"), (13, "shift_jis"), (1, "big5"), (1052, "gbk")]
)
def test_a_name_is_read_in_the_character_set_of_the_client_that_sent_it(charset: int, codec: str) -> None:
    name = "äé" if codec == "cp1252" else "表"
    found = item(event(f"TRUNCATE `{name}`".encode(codec), charset=charset), name)
    assert isinstance(found, Statement) and found.effect is Effect.EMPTIES


def test_an_event_tells_the_sql_mode_of_its_session() -> None:
    found = Parser().parse(event(b"x", sql_mode=0x100004))
    assert isinstance(found, Query) and found.sql_mode == 0x100004
    assert isinstance(item(event(b'RENAME TABLE "a#", t TO u', sql_mode=4), "t"), Statement)


def test_a_text_in_a_character_set_that_cannot_be_read_is_not_passed_over() -> None:
    found = item(event("TRUNCATE `ü`".encode("latin-1"), charset=6), "t")
    assert isinstance(found, Statement) and found.effect is Effect.UNREAD
    assert isinstance(item(event(b"TRUNCATE u", charset=6), "t"), End)


@pytest.mark.parametrize(
    ("statement", "schema", "effect"),
    [
        ("DROP TABLE other.t", "ods", Effect.NONE),
        ("DROP TABLE `other` . `t`, other.u", "ods", Effect.NONE),
        ("DROP TABLE other.t, t", "ods", Effect.EMPTIES),
        ("DROP TABLE t", "other", Effect.NONE),
        ("DROP TABLE ods.t", "other", Effect.EMPTIES),
        ("DROP TABLE `ODS`.`T`", "", Effect.EMPTIES),
        ("TRUNCATE other.t", "ods", Effect.NONE),
        ("ALTER TABLE other.t ADD c INT", "ods", Effect.NONE),
        ("RENAME TABLE other.t TO ods.t", "other", Effect.EMPTIES),
        ("ALTER TABLE other.u EXCHANGE PARTITION p WITH TABLE ods.t", "other", Effect.EMPTIES),
        ("DELETE FROM other.t WHERE ods.t.id = 1", "x", Effect.CHANGES),
    ],
)
def test_a_name_with_a_schema_is_of_that_schema(statement: str, schema: str, effect: Effect) -> None:
    assert judge(read(statement), schema, ODS) is effect


HARMLESS = (
    "ADD PARTITION (PARTITION p9 VALUES LESS THAN (100))",
    "ADD PARTITION (PARTITION p9 VALUES IN (7))",
    "ADD PARTITION PARTITIONS 4",
    "REBUILD PARTITION ALL",
    "REBUILD PARTITION p0, p1",
    "COALESCE PARTITION 2",
    "REORGANIZE PARTITION",
    "REORGANIZE PARTITION p0 INTO (PARTITION a VALUES LESS THAN (5) ENGINE = InnoDB, PARTITION b VALUES LESS THAN (9))",
    "ALTER v SET DEFAULT 5",
    "ALTER COLUMN `v` SET DEFAULT 'x'",
    "ALTER COLUMN v DROP DEFAULT, ADD INDEX i (v)",
    "COMMENT = 'DROP COLUMN v'",
    "ADD INDEX i (v), DROP KEY j",
    "RENAME INDEX i TO j",
    "ALTER INDEX i INVISIBLE",
    "ADD UNIQUE KEY u (v)",
    "ADD INDEX IF NOT EXISTS i (v), DROP CONSTRAINT IF EXISTS k, DROP FOREIGN KEY IF EXISTS f",
    "ORDER BY v",
    "ENGINE = InnoDB",
    "FORCE, ALGORITHM = INPLACE, LOCK = NONE",
    "AUTO_INCREMENT = 100",
)
RESHAPING = (
    "ADD COLUMN c INT",
    "DROP COLUMN v, ADD COLUMN v BIGINT DEFAULT 7",
    "DROP v",
    "DROP IF EXISTS v, ADD IF NOT EXISTS b INT",
    "ADD IF NOT EXISTS (b INT)",
    "ADD (INDEX i (v), b INT)",
    "MODIFY v TINYINT",
    "CHANGE v w INT",
    "RENAME COLUMN v TO w",
    "CONVERT TO CHARACTER SET latin1",
    "ALTER v SET DEFAULT 5, DROP v",
    "ALTER v SET DEFAULT 5, MODIFY v TINYINT",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (v)",
    "ADD COLUMN c INT PARTITION BY HASH(id) PARTITIONS 4",
)
EMPTYING = (
    "TRUNCATE PARTITION p0",
    "DROP PARTITION p0",
    "EXCHANGE PARTITION p0 WITH TABLE other.u",
    "DISCARD PARTITION p0 TABLESPACE",
    "IMPORT PARTITION p0 TABLESPACE",
    "CONVERT PARTITION p0 TO TABLE other.u",
    "CONVERT TABLE other.u TO PARTITION p0 VALUES LESS THAN (9)",
    "REPAIR PARTITION p0",
    "REORGANIZE PARTITION a INTO (PARTITION a VALUES IN (1))",
    "REORGANIZE PARTITION a INTO (PARTITION a DEFAULT)",
    "DISCARD TABLESPACE",
    "IMPORT TABLESPACE",
    "RENAME TO ods.t2",
    "ENGINE = BLACKHOLE",
)


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        *((one, Effect.NONE) for one in HARMLESS),
        *((one, Effect.RESHAPES) for one in RESHAPING),
        *((one, Effect.EMPTIES) for one in EMPTYING),
    ],
)
def test_an_alter_passes_only_where_its_text_proves_that_rows_stay(change: str, effect: Effect) -> None:
    assert judge(read(f"ALTER TABLE t {change}"), "ods", ODS) is effect
    assert judge(read(f"alter online table if exists `ods`.`t` /* x */ {change}"), "x", ODS) is effect


def test_an_alter_that_drops_rows_that_do_not_fit_never_passes() -> None:
    for change in ("ADD UNIQUE KEY u (v)", "REBUILD PARTITION ALL", "ALTER v SET DEFAULT 5"):
        assert judge(read(f"ALTER IGNORE TABLE t {change}"), "ods", ODS) is Effect.RESHAPES


@pytest.mark.parametrize(
    "statement",
    [
        "DROP INDEX U ON t",
        "ALTER TABLE t DROP INDEX `u`",
        "ALTER TABLE t DROP KEY u, ADD UNIQUE u (v)",
        "ALTER TABLE t DROP CONSTRAINT u",
        "ALTER TABLE t RENAME INDEX u TO w",
        "CREATE OR REPLACE UNIQUE INDEX u ON t (v)",
    ],
)
def test_the_index_that_is_the_key_is_not_dropped_unseen(statement: str) -> None:
    """Between a DROP and an ADD, two rows can have the same key."""
    assert judge(read(statement), "ods", ODS, "u") is Effect.RESHAPES
    assert judge(read(statement), "ods", ODS, "other") is Effect.NONE
    assert judge(read("ALTER TABLE t ADD INDEX i (u)"), "ods", ODS, "u") is Effect.NONE
    assert judge(read("DROP INDEX `PRIMARY` ON t"), "ods", ODS) is Effect.RESHAPES


def part(
    index: str, name: str | None, unique: bool = True, prefix: int | None = None, nullable: bool = False, kind: str = ""
) -> IndexPart:
    return IndexPart(index, unique, name, prefix, nullable, kind or "BTREE")


def test_without_a_primary_key_the_first_unique_index_over_whole_not_null_columns_is_the_key() -> None:
    unfit = [
        part("nullable", "a", nullable=True),
        part("half_nullable", "a"),
        part("half_nullable", "b", nullable=True),
        part("prefix", "a", prefix=3),
        part("expression", None),
        part("plain", "a", unique=False),
        part("hash", "a", kind="HASH"),
    ]
    first, second = [part("z", "a"), part("z", "b")], [part("c", "c")]
    assert key_of([*unfit, *first, *second]) == ("z", first)
    assert key_of([*second, *first]) == ("c", second)
    assert key_of([*first, part("PRIMARY", "id")]) == ("PRIMARY", [part("PRIMARY", "id")])
    (objection,) = key_objections("ods.t", key_of(unfit)[1])
    assert objection.text.startswith("ods.t has no primary key, and no UNIQUE key over whole columns that are NOT NULL")
    assert "prefix of a" in next(key_objections("ods.t", [part("PRIMARY", "a", prefix=3)])).text
