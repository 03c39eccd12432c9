"""Changes of columns at a MySQL source, followed by its binlog: under writes, without a copy, into both sinks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.progress import ProgressRow
from slotkeeper.core.domain.reset import EVERY, Goal, TargetKind
from slotkeeper.core.domain.spec import APPLY, IGNORE, STOP, ChannelSpec
from slotkeeper.core.errors import Refused, Trouble, TroubleName, Unreachable
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.doris.tables import Column
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.pairs import doris_endpoint as doris_endpoint
from tests.support.resetting import Resetting
from tests.support.shapes import MemoryAudit
from tests.support.waiting import until

COLUMNS = "id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET latin1, u INT UNSIGNED, e ENUM('x','y'), v INT"
MAPPED = (("id", "id"), ("v", "v"), ("a", "a"))


@contextmanager
def metadata(pair: MysqlPair, value: str) -> Iterator[None]:
    pair.run(f"SET GLOBAL binlog_row_metadata = {value}")
    try:
        yield
    finally:
        pair.run("SET GLOBAL binlog_row_metadata = FULL")


def prepared(pair: MysqlPair, policy: str = STOP, columns: tuple[tuple[str, str], ...] = ()) -> MysqlPair:
    channel = ChannelSpec(TABLE, "mart.t", create_target=True, columns=columns, on_schema_change=policy)
    pair.mirror.job = replace(pair.mirror.job, channels=(channel,))
    pair.mirror.audit = MemoryAudit()
    pair.run(f"INSERT INTO {TABLE} (id, a, v) SELECT seq, concat('é', seq), seq FROM seq_1_to_50")
    return pair


def written(pair: MysqlPair, value: int) -> None:
    """Write some rows in the table's current shape."""
    pair.run(
        f"UPDATE {TABLE} SET v = {value} WHERE id <= 5",
        f"DELETE FROM {TABLE} WHERE id = {value % 40 + 6}",
        f"INSERT INTO {TABLE} (id, a, v) VALUES ({100 + value}, 'ö', {value})",
    )


def followed(pair: MysqlPair, count: int) -> None:
    pair.wait(lambda: pair.mirror.heard.events.count(JobEvent.RESHAPED) == count, 60, "the changes to be followed")


NOT_MIRRORED = (
    "ADD COLUMN n1 VARCHAR(5) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'é' AFTER id",
    "MODIFY u BIGINT FIRST",
    "CHANGE e kind SET('x','y','z') AFTER v",
    "ADD COLUMN (n2 INT, n3 JSON), DROP COLUMN u",
    "MODIFY v INT COMMENT 'the value' FIRST",
    "MODIFY a VARCHAR(20) CHARACTER SET latin1 AFTER n2",
    "ALTER v SET DEFAULT 7, ADD INDEX by_v (v)",
    "DROP COLUMN n1, DROP n3",
)


@pytest.mark.parametrize("rows", ["FULL", "NO_LOG"])
def test_what_is_not_mirrored_does_not_matter(make_mysql_pair: MakeMysqlPair, rows: str) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), STOP, MAPPED)
    events: list[JobEvent] = []
    with metadata(pair, rows):
        pair.mirror.start().wait_running()
        for number, change in enumerate(NOT_MIRRORED):
            written(pair, 2 * number)
            pair.run(f"ALTER TABLE {TABLE} {change}")
            written(pair, 2 * number + 1)
            if number == len(NOT_MIRRORED) // 2:  # the rest is found in the binlog by a later run
                pair.wait_equal()
                pair.mirror.stop()
                events += pair.mirror.heard.events
        pair.mirror.start().wait_running()
        pair.wait_equal()
        pair.mirror.stop()
    events += pair.mirror.heard.events
    assert events.count(JobEvent.COPY_BEGAN) == 1
    assert events.count(JobEvent.RESHAPED) == len(NOT_MIRRORED) - 1, "a default and an index change no row"


APPLIED = (
    "ADD COLUMN n1 INT NOT NULL DEFAULT 7 AFTER id",
    "ADD COLUMN n2 VARCHAR(9) CHARACTER SET utf8mb4",
    "MODIFY v BIGINT FIRST",
    "MODIFY a VARCHAR(40) CHARACTER SET utf8mb4",
    "RENAME COLUMN n2 TO n3, MODIFY e ENUM('x','y','z')",
    "CHANGE u w INT UNSIGNED",
)


@pytest.mark.parametrize("rows", ["FULL", "NO_LOG"])
def test_a_target_is_altered_between_the_rows_before_and_after(make_mysql_pair: MakeMysqlPair, rows: str) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), APPLY)
    with metadata(pair, rows):
        pair.mirror.start().wait_running()
        for number, change in enumerate(APPLIED):
            written(pair, 2 * number)
            pair.run(f"ALTER TABLE {TABLE} {change}")
            written(pair, 2 * number + 1)
        followed(pair, len(APPLIED))
        pair.wait_equal()
        pair.mirror.stop()
    events = pair.mirror.heard.events
    assert (events.count(JobEvent.COPY_BEGAN), events.count(JobEvent.RESHAPED)) == (1, len(APPLIED))
    found = pair.mirror.query(
        pair.mirror.sink,
        "SELECT column_name::text, data_type::text FROM information_schema.columns WHERE table_name = 't'"
        " AND table_schema = 'mart' ORDER BY 1",
    )
    assert dict(found) == {
        "id": "integer",
        "a": "character varying",
        "e": "text",
        "v": "bigint",
        "n1": "integer",
        "n3": "character varying",
        "w": "bigint",
    }


def test_an_added_column_is_ignored_and_the_next_change_is_found_behind_it(make_mysql_pair: MakeMysqlPair) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), IGNORE)
    with metadata(pair, "NO_LOG"):
        pair.mirror.start().wait_running()
        pair.run(f"ALTER TABLE {TABLE} ADD n INT AFTER id")
        written(pair, 1)
        pair.run(f"ALTER TABLE {TABLE} MODIFY n VARCHAR(9), MODIFY v INT AFTER id")
        written(pair, 2)
        mirror = pair.mirror
        followed(pair, 2)
        until(
            lambda: mirror.query(mirror.sink, "SELECT count(*) FROM mart.t WHERE v = 2 AND id <= 5") == [(5,)],
            60,
            "the rows after them",
        )
        mirror.stop()
        mirror.start().wait_running()
        pair.run(f"ALTER TABLE {TABLE} DROP n, MODIFY a VARCHAR(9) CHARACTER SET latin1")
        error = mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SCHEMA_CHANGED, error
    assert "column a was changed in a way that can change stored values" in error.message


APPLIED_IN_DORIS = (
    "ADD COLUMN n1 INT NOT NULL DEFAULT 7 AFTER id",
    "ADD COLUMN n2 VARCHAR(9) CHARACTER SET utf8mb4, MODIFY v BIGINT FIRST",
    "RENAME COLUMN n2 TO n3, MODIFY e ENUM('x','y','z')",
)


def test_a_doris_is_altered_between_the_rows_before_and_after(
    make_mysql_pair: MakeMysqlPair, doris: DorisStandin
) -> None:
    pair = make_mysql_pair(COLUMNS)
    pair.into(doris)
    prepared(pair, APPLY)
    doris.tables.drop("mart", "t")
    pair.mirror.start().wait_running()
    for number, change in enumerate(APPLIED_IN_DORIS):
        written(pair, 2 * number)
        pair.run(f"ALTER TABLE {TABLE} {change}")
        written(pair, 2 * number + 1)
    followed(pair, len(APPLIED_IN_DORIS))
    pair.wait_equal()
    pair.mirror.stop()
    assert pair.mirror.heard.events.count(JobEvent.COPY_BEGAN) == 1
    table = doris.tables.find("mart", "t")
    assert table is not None
    assert {one.name: one.type for one in table.columns} == {
        "id": "INT",
        "a": "STRING",
        "u": "BIGINT",
        "e": "STRING",
        "v": "BIGINT",
        "n1": "INT",
        "n3": "STRING",
    }


def test_further_columns_of_a_doris_keep_their_values_also_if_added_while_the_job_runs(
    make_mysql_pair: MakeMysqlPair, doris: DorisStandin
) -> None:
    pair = make_mysql_pair(COLUMNS)
    pair.into(doris)
    prepared(pair, STOP, MAPPED)
    doris.tables.drop("mart", "t")
    doris.create("mart.t", "id INT NOT NULL, v INT, a STRING, note STRING, flag INT NOT NULL DEFAULT 3", ("id",))
    pair.mirror.start().wait_running()
    pair.wait_equal()
    doris.tables.query("UPDATE mart.t SET note = 'kept', flag = 4 WHERE id <= 5")
    written(pair, 1)
    pair.wait_equal()
    doris.tables.add_column("mart", "t", Column("late", "INT"))
    pair.wait(lambda: JobEvent.RESHAPED in pair.mirror.heard.events, 60, "the added column to be an event")
    pair.mirror.wait_running()
    doris.tables.query("UPDATE mart.t SET late = 9 WHERE id <= 5")
    written(pair, 2)
    pair.wait_equal()
    pair.mirror.stop()
    there = doris.tables.query("SELECT DISTINCT note, flag, late FROM mart.t WHERE id <= 5")[1]
    assert there == [("kept", 4, 9)]
    assert doris.tables.query("SELECT note, flag, late FROM mart.t WHERE id = 102")[1] == [(None, 3, None)]


def test_further_columns_of_a_postgres_keep_their_values_also_if_added_while_the_job_runs(
    make_mysql_pair: MakeMysqlPair,
) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), STOP, MAPPED)
    mirror = pair.mirror
    mirror.start().wait_running()
    pair.wait_equal()
    mirror.at_sink("ALTER TABLE mart.t ADD COLUMN note text, ADD COLUMN flag integer NOT NULL DEFAULT 3")
    pair.wait(lambda: JobEvent.RESHAPED in mirror.heard.events, 60, "the added column to be an event")
    mirror.at_sink("UPDATE mart.t SET note = 'kept', flag = 4 WHERE id <= 5")
    written(pair, 1)
    pair.wait_equal()
    mirror.stop()
    assert mirror.query(mirror.sink, "SELECT DISTINCT note, flag FROM mart.t WHERE id <= 5") == [("kept", 4)]
    mirror.at_sink("ALTER TABLE mart.t ADD COLUMN must integer NOT NULL DEFAULT 1")
    mirror.at_sink("ALTER TABLE mart.t ALTER COLUMN must DROP DEFAULT")
    error = mirror.start().wait_error()
    assert isinstance(error, Refused) and "must" in error.message, error


@pytest.mark.parametrize(
    ("policy", "change", "why"),
    [
        (STOP, "ADD n INT", "column n was added"),
        (IGNORE, "DROP v", "the mirrored column v was dropped"),
        (APPLY, "DROP v", "v was dropped; values of 50 rows of mart.t would be removed by `ALTER TABLE mart.t DROP"),
        (IGNORE, "RENAME COLUMN v TO w", "the mirrored column v was renamed to w"),
        (IGNORE, "MODIFY v BIGINT", "the target needs `ALTER TABLE mart.t ALTER COLUMN v TYPE bigint`"),
        (
            APPLY,
            "MODIFY v SMALLINT",
            "v is smallint (was integer); values of 0 rows of mart.t would be removed; confirm",
        ),
        (APPLY, "MODIFY u FLOAT", "column u was changed in a way that can change stored values"),
        (APPLY, "ADD n DATETIME DEFAULT now()", "existing rows get the value of an expression"),
        (APPLY, "MODIFY id BIGINT", "column id of the key was changed"),
        (APPLY, "CONVERT TO CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET can change the type"),
        (APPLY, "MODIFY v INT COMMENT 'the value'", "the statement changes nothing: the position may be before"),
        (APPLY, "RENAME COLUMN u TO v, RENAME COLUMN v TO u", "the table had a column v already"),
        (APPLY, "DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", "it changes the key"),
    ],
)
def test_what_cannot_be_followed_stops_with_its_place(
    make_mysql_pair: MakeMysqlPair, policy: str, change: str, why: str
) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), policy)
    pair.mirror.start().wait_running()
    written(pair, 1)
    pair.run(f"ALTER TABLE {TABLE} {change}")
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SCHEMA_CHANGED, error
    assert why in error.message and change.split()[0] in error.message and "binlog after " in error.message, error
    assert pair.mirror.query(pair.mirror.sink, "SELECT count(*) FROM mart.t WHERE v = 1 AND id <= 5") == [(5,)]


def test_a_statement_that_only_names_the_table_stops_as_that_of_another_table(make_mysql_pair: MakeMysqlPair) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), IGNORE)
    pair.run("CREATE TABLE ods.child (id INT PRIMARY KEY, t INT)")
    pair.mirror.start().wait_running()
    pair.run("ALTER TABLE ods.child ADD FOREIGN KEY (t) REFERENCES ods.t (id), ADD v BIGINT")
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble) and "the statement alters another table" in error.message, error


def test_a_column_that_the_target_has_already_is_not_taken_over(make_mysql_pair: MakeMysqlPair) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), APPLY)
    mirror = pair.mirror
    mirror.start().wait_running()
    pair.wait_equal()
    mirror.at_sink("ALTER TABLE mart.t ADD COLUMN n integer")
    pair.wait(lambda: JobEvent.RESHAPED in mirror.heard.events, 60, "the added column to be an event")
    mirror.wait_running()
    pair.run(f"ALTER TABLE {TABLE} ADD n INT")
    error = mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SCHEMA_CHANGED, error
    assert "the target already has a column n" in error.message


def test_a_resumed_copy_does_not_read_a_table_with_other_columns(make_mysql_pair: MakeMysqlPair) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), APPLY)

    def crash(here: str) -> None:
        if here == "after_copy_began":
            raise Crash

    pair.mirror.start(driver_probe=crash)
    until(pair.mirror.ended, 60, "the driver to crash")
    pair.run(f"ALTER TABLE {TABLE} DROP COLUMN u, MODIFY v BIGINT")
    error = pair.mirror.start().wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SCHEMA_CHANGED, error


def test_rows_after_a_new_copy_are_read_with_the_labels_that_the_copy_began_with(
    make_mysql_pair: MakeMysqlPair, tmp_path: Path
) -> None:
    pair = prepared(make_mysql_pair(COLUMNS))
    mirror, resetting = pair.mirror, Resetting(pair.mirror, tmp_path / "state")
    snapshot = Goal(TargetKind.SNAPSHOT, on_existing="merge")

    def crash(here: str) -> None:
        if here == "after_copy_began":
            raise Crash

    with metadata(pair, "NO_LOG"):  # else the rows name their labels
        mirror.start().wait_running()
        pair.wait_equal()
        mirror.stop()
        pair.run(f"ALTER TABLE {TABLE} MODIFY e ENUM('y','x')")
        resetting.reset(snapshot)
        mirror.start(driver_probe=crash)
        until(mirror.ended, 60, "the driver to crash")
        pair.run(f"INSERT INTO {TABLE} (id, e) VALUES (300, 'y')", f"ALTER TABLE {TABLE} MODIFY e ENUM('z','x','y')")
        error = mirror.start().wait_error()
        assert isinstance(error, Trouble) and error.name is TroubleName.SCHEMA_CHANGED, error
        resetting.reset(snapshot)
        mirror.start().wait_running()
        pair.wait_equal()
        mirror.stop()
        pair.run(f"INSERT INTO {TABLE} (id, e) VALUES (301, 'y'), (302, 'x')")
        mirror.start().wait_running()
        pair.wait_equal()
        mirror.stop()


def test_a_reset_to_a_position_across_a_change_of_columns_is_refused_and_one_behind_it_is_not(
    make_mysql_pair: MakeMysqlPair, tmp_path: Path
) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), APPLY)
    with metadata(pair, "NO_LOG"):
        pair.mirror.start().wait_running()
        written(pair, 1)
        pair.wait_equal()
        (before,) = pair.mirror.rows()
        pair.run(f"ALTER TABLE {TABLE} ADD n INT AFTER id")
        followed(pair, 1)
        pair.wait_equal()
        (behind,) = pair.mirror.rows()
        written(pair, 2)
        pair.wait_equal()
        pair.mirror.stop()
    resetting = Resetting(pair.mirror, tmp_path / "state")

    def refused(row: ProgressRow) -> list[str]:
        assert row.position is not None
        goal = Goal(TargetKind.POINT, points=((EVERY, row.position.shown),))
        return [one.sentence for one in resetting.plan(goal).failed]

    (why,) = refused(before)
    assert why.startswith("the position is before `ALTER TABLE ods.t ADD n INT AFTER id at "), why
    assert not refused(behind)

    pair.run(f"TRUNCATE {TABLE}", f"INSERT INTO {TABLE} (id) VALUES (1)")
    latest = Goal(TargetKind.LATEST)
    assert not resetting.plan(latest).failed, "a TRUNCATE changes no column"
    pair.run(f"ALTER TABLE {TABLE} MODIFY e ENUM('y','x')")
    (why,) = [one.sentence for one in resetting.plan(latest).failed]
    assert why.startswith("the reset skips `ALTER TABLE ods.t MODIFY e ENUM('y','x') at "), why
    assert not resetting.plan(Goal(TargetKind.SNAPSHOT, on_existing="merge")).failed


GH_OST = (
    "CREATE /* gh-ost */ TABLE ods.`_t_gho` LIKE ods.`t`",
    "ALTER /* gh-ost */ TABLE ods.`_t_gho` {change}",
    "INSERT /* gh-ost */ IGNORE INTO ods.`_t_gho` (id, a, u, e, v) SELECT id, a, u, e, v FROM ods.`t` FORCE INDEX"
    " (`PRIMARY`) WHERE id >= 1",
    "CREATE TABLE ods.`_t_del` (id INT AUTO_INCREMENT PRIMARY KEY) COMMENT = 'ghost-cut-over-sentry'",
    "DROP TABLE ods.`_t_del`",
    "RENAME /* gh-ost */ TABLE ods.`t` TO ods.`_t_del`, ods.`_t_gho` TO ods.`t`",
    "DROP /* gh-ost */ TABLE IF EXISTS ods.`_t_del`",
)
PT_OSC = (
    "CREATE TABLE ods._t_new LIKE ods.t",
    "ALTER TABLE ods._t_new {change}",
    "CREATE TRIGGER pt_osc_ods_t_del AFTER DELETE ON ods.t FOR EACH ROW DELETE IGNORE FROM ods._t_new"
    " WHERE ods._t_new.id <=> OLD.id",
    "CREATE TRIGGER pt_osc_ods_t_upd AFTER UPDATE ON ods.t FOR EACH ROW REPLACE INTO ods._t_new (id, a, u, e, v)"
    " VALUES (NEW.id, NEW.a, NEW.u, NEW.e, NEW.v)",
    "CREATE TRIGGER pt_osc_ods_t_ins AFTER INSERT ON ods.t FOR EACH ROW REPLACE INTO ods._t_new (id, a, u, e, v)"
    " VALUES (NEW.id, NEW.a, NEW.u, NEW.e, NEW.v)",
    "INSERT LOW_PRIORITY IGNORE INTO ods._t_new (id, a, u, e, v) SELECT id, a, u, e, v FROM ods.t LOCK IN SHARE MODE",
    "WRITE",
    "RENAME TABLE ods.t TO ods._t_old, ods._t_new TO ods.t",
    "DROP TABLE IF EXISTS ods._t_old",
    *(f"DROP TRIGGER IF EXISTS ods.pt_osc_ods_t_{name}" for name in ("del", "upd", "ins")),
)


@pytest.mark.parametrize(("tool", "policy"), [(GH_OST, STOP), (GH_OST, APPLY), (PT_OSC, APPLY), (PT_OSC, IGNORE)])
def test_a_table_that_a_tool_puts_in_place_of_the_other_is_followed(
    make_mysql_pair: MakeMysqlPair, tool: tuple[str, ...], policy: str
) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), policy, MAPPED if policy in (STOP, IGNORE) else ())
    with metadata(pair, "NO_LOG"):
        pair.mirror.start().wait_running()
        written(pair, 1)
        for statement in tool:
            if statement == "WRITE":
                written(pair, 2)
            else:
                pair.run(
                    statement.format(
                        change="ADD COLUMN n INT AFTER id, MODIFY v BIGINT"[: None if policy == APPLY else 25]
                    )
                )
        written(pair, 3)
        followed(pair, 1)
        pair.wait_equal()
        pair.mirror.stop()
        pair.mirror.start().wait_running()
        written(pair, 4)
        pair.wait_equal()
        pair.mirror.stop()
    assert JobEvent.COPY_BEGAN not in pair.mirror.heard.events


def test_a_new_table_with_another_unique_index_stops(make_mysql_pair: MakeMysqlPair) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), APPLY)
    pair.mirror.start().wait_running()
    for statement in GH_OST:
        pair.run(statement.format(change="ADD UNIQUE by_v (v)"))
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble) and "the new table has the UNIQUE index by_v" in error.message, error


def test_a_table_that_was_loaded_elsewhere_and_renamed_still_stops(make_mysql_pair: MakeMysqlPair) -> None:
    pair = prepared(make_mysql_pair(COLUMNS), IGNORE, MAPPED)
    pair.mirror.start().wait_running()
    pair.run(f"CREATE TABLE ods.loaded LIKE {TABLE}", f"RENAME TABLE {TABLE} TO ods.old, ods.loaded TO {TABLE}")
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SLOT_LOST, error


class Crash(BaseException):
    """The exception that ends the driver here."""


POINTS = ("intent", "epoch", "alter", "commit", "")


@pytest.mark.parametrize(
    ("into", "point"), [*(("postgres", point) for point in POINTS), ("doris", "epoch"), ("doris", "alter")]
)
def test_a_driver_that_crashes_while_it_follows_a_change_neither_loses_nor_repeats_it(
    make_mysql_pair: MakeMysqlPair, doris: DorisStandin, into: str, point: str
) -> None:
    pair = make_mysql_pair(COLUMNS)
    if into == "doris":
        pair.into(doris)
        doris.tables.drop("mart", "t")
    prepared(pair, APPLY)
    name = {"commit": "before_follow_commit", "": "after_follow"}.get(point, f"after_follow_{point}")

    beside = into == "postgres" and point in ("alter", "commit")
    left = [1]

    def crash(here: str) -> None:
        if here == name and left:
            left.pop()
            raise Unreachable("the session of the transaction is lost", where="sink") if beside else Crash

    pair.mirror.start(driver_probe=crash).wait_running()
    written(pair, 11)
    pair.run(f"ALTER TABLE {TABLE} ADD added INT NOT NULL DEFAULT 7, MODIFY v BIGINT, RENAME COLUMN u TO w")
    written(pair, 12)
    if not beside:
        until(pair.mirror.ended, 60, "the driver to crash")
        assert isinstance(pair.mirror.error, Crash)
        pair.mirror.start().wait_running()
    written(pair, 13)
    pair.wait(lambda: changed(pair) == 3 * (5 * 2 + 2), 60, "the changes of all three")
    pair.wait_equal()
    pair.mirror.stop()
    assert pair.mirror.heard.events.count(JobEvent.COPY_BEGAN) == beside
    assert changed(pair) == 3 * (5 * 2 + 2)


def changed(pair: MysqlPair) -> int:
    return sum(pair.mirror.changes().values())


def test_one_table_of_several_continues_after_its_change_and_the_others_are_not_disturbed(
    make_mysql_pair: MakeMysqlPair,
) -> None:
    pair = make_mysql_pair(COLUMNS, tables=2)
    mapped = [ChannelSpec(f"ods.{name}", f"mart.{name}", create_target=True, columns=MAPPED) for name in ("t", "t2")]
    pair.mirror.job = replace(pair.mirror.job, channels=tuple(mapped))
    pair.mirror.start().wait_running()
    for number in range(3):
        pair.run("INSERT INTO ods.t2 (id, v) SELECT coalesce(max(id), 0) + 1, 1 FROM ods.t2")
        written(pair, number)
        pair.run(f"ALTER TABLE {TABLE} ADD n{number} INT FIRST")
        written(pair, number + 10)
    pair.wait_equal()
    pair.mirror.stop()
    assert pair.mirror.heard.events.count(JobEvent.RESHAPED) == 3
