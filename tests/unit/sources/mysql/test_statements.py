"""Which statements concern a followed table, and which of them change rows or columns without row events."""

from __future__ import annotations

import pytest

from core.sources.mysql.statements import Effect, judge
from core.sources.mysql.tables import IndexPart, key_objections, key_of

WANTED = {("ods", "t")}


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
    assert judge(statement, schema, WANTED) is effect


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
    "ORDER BY v",
    "ENGINE = InnoDB",
    "FORCE, ALGORITHM = INPLACE, LOCK = NONE",
    "AUTO_INCREMENT = 100",
)
RESHAPING = (
    "ADD COLUMN c INT",
    "DROP COLUMN v, ADD COLUMN v BIGINT DEFAULT 7",
    "DROP v",
    "MODIFY v TINYINT",
    "CHANGE v w INT",
    "RENAME COLUMN v TO w",
    "CONVERT TO CHARACTER SET latin1",
    "ALTER v SET DEFAULT 5, DROP v",
    "ALTER v SET DEFAULT 5, MODIFY v TINYINT",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (v)",
    "ADD COLUMN c INT PARTITION BY HASH(id) PARTITIONS 4",
    "ADD SYSTEM VERSIONING",
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
    "ENGINE = MEMORY",
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
    assert judge(f"ALTER TABLE t {change}", "ods", WANTED) is effect
    assert judge(f"alter online table if exists `ods`.`t` /* x */ {change}", "x", WANTED) is effect


def test_an_alter_that_drops_rows_that_do_not_fit_never_passes() -> None:
    for change in ("ADD UNIQUE KEY u (v)", "REBUILD PARTITION ALL", "ALTER v SET DEFAULT 5"):
        assert judge(f"ALTER IGNORE TABLE t {change}", "ods", WANTED) is Effect.RESHAPES


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
    """Between a DROP and an ADD two rows can have one key."""
    assert judge(statement, "ods", WANTED, "u") is Effect.RESHAPES
    assert judge(statement, "ods", WANTED, "other") is Effect.NONE
    assert judge("ALTER TABLE t ADD INDEX i (u)", "ods", WANTED, "u") is Effect.NONE
    assert judge("DROP INDEX `PRIMARY` ON t", "ods", WANTED) is Effect.RESHAPES


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
    assert "beginning of a" in next(key_objections("ods.t", [part("PRIMARY", "a", prefix=3)])).text
