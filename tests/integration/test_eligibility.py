"""Tables that cannot be mirrored are rejected with a named error and its fix, both by a start and by `doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec
from slotkeeper.core.errors import Refused
from slotkeeper.core.services.doctor import check_sink, check_source
from slotkeeper.core.services.verify import verify
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sources.dws.eligibility import TableFacts, table_objections
from slotkeeper.demo import facts
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.spoiled import HSTORE, SINK, SOURCE, TABLE, TABLE_OF_TARGET, TARGET, mend
from tests.support.standin import drop_database, run


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    return make_mirror(warehouse, TABLE)


@pytest.fixture(scope="module")
def shared(pg_server: Server) -> Iterator[Mirror]:
    """One mirror that every case spoils and repairs again: no start of it succeeds."""
    warehouse = Warehouse.install(pg_server, database="warehouse_of_targets")
    mend(warehouse)
    made = Mirror(warehouse, TABLE)
    yield made
    made.close()
    drop_database(pg_server, warehouse.database)


def _refused(mirror: Mirror) -> Refused:
    error = mirror.start().wait_error()
    assert isinstance(error, Refused), error
    slots = mirror.query(mirror.warehouse.connect, "SELECT FROM dws.slot")
    assert slots == []  # a rejected start creates no slot
    return error


def _failures(mirror: Mirror, tmp_path: Path, side: str) -> list[str]:
    path = config(tmp_path, mirror.job.source, mirror.job.sink, job("j", mirror.job.slot, TABLE, TARGET))
    loaded = load(path, {})
    found = (
        check_source(loaded, loaded.sources["dws1"]) if side == "source" else check_sink(loaded, loaded.sinks["mart"])
    )
    return [one.text for one in found if one.level is Level.FAIL]


@pytest.mark.parametrize("name", SOURCE)
def test_a_source_is_refused_by_name_with_its_cure(shared: Mirror, tmp_path: Path, name: str) -> None:
    case = SOURCE[name]
    case.spoil(shared.warehouse)
    try:
        error = _refused(shared)
        assert case.what in error.message and case.cure in error.hint
        assert any(case.what in text and case.cure in text for text in _failures(shared, tmp_path, "source"))
    finally:
        mend(shared.warehouse)


@pytest.mark.parametrize("name", SINK)
def test_a_target_is_refused_by_name_with_its_cure(shared: Mirror, tmp_path: Path, name: str) -> None:
    statements, what, cure = SINK[name]
    shared.at_sink("DROP SCHEMA IF EXISTS mart CASCADE", "CREATE SCHEMA mart", *statements)
    error = _refused(shared)
    assert what in error.message and cure in error.hint
    assert any(what in text and cure in text for text in _failures(shared, tmp_path, "sink"))


def test_row_security_is_refused_to_those_whom_it_concerns(mirror: Mirror) -> None:
    mirror.at_sink("CREATE SCHEMA mart", TABLE_OF_TARGET, f"ALTER TABLE {TARGET} ENABLE ROW LEVEL SECURITY")
    mirror.at_sink(f"GRANT ALL ON SCHEMA mart, public TO etl; GRANT ALL ON {TARGET} TO etl")
    mirror.job = replace(mirror.job, sink=replace(mirror.job.source, name="mart", database=mirror.sink_database))
    error = _refused(mirror)
    assert f"target {TARGET} has row-level security" in error.message
    assert f"ALTER TABLE {TARGET} DISABLE ROW LEVEL SECURITY" in error.hint


def test_a_target_key_under_whose_collation_different_keys_are_equal_is_refused(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    warehouse.create_table(TABLE, "code text NOT NULL, note text", ("code",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.at_sink(
        "CREATE SCHEMA mart",
        "CREATE COLLATION mart.folded (provider = libc, locale = 'C')",
        f"CREATE TABLE {TARGET} (code text COLLATE mart.folded PRIMARY KEY, note text COLLATE mart.folded)",
        # this server has no ICU, which such collations need: only the catalog's content counts here
        "UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'folded'",
    )
    error = _refused(mirror)
    assert f"target {TARGET} has a nondeterministic collation on key column 'code'" in error.message
    assert error.hint.startswith(f'ALTER TABLE {TARGET} ALTER COLUMN code TYPE text COLLATE "C"')
    assert any("nondeterministic" in one for one in _failures(mirror, tmp_path, "sink"))


FOLDING = (
    "CREATE FUNCTION mart.folded(text, text) RETURNS integer LANGUAGE sql IMMUTABLE"
    " AS 'SELECT bttextcmp(lower($1), lower($2))'",
    "CREATE FUNCTION mart.same(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT lower($1) = lower($2)'",
    "CREATE OPERATOR mart.~~~ (LEFTARG = text, RIGHTARG = text, FUNCTION = mart.same)",
    "CREATE OPERATOR CLASS mart.folds FOR TYPE text USING btree AS OPERATOR 3 mart.~~~,"
    " FUNCTION 1 mart.folded(text, text)",
    "CREATE COLLATION mart.folded (provider = libc, locale = 'C')",
    "UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'folded'",
)
"""An operator class and a collation (no ICU here, see above) by which different texts are equal."""


@pytest.mark.parametrize("own", ["mart.folds", "COLLATE mart.folded"])
def test_a_unique_index_that_calls_different_keys_equal_is_refused(
    warehouse: Warehouse, make_mirror: MakeMirror, own: str
) -> None:
    warehouse.create_table(TABLE, "code text NOT NULL, note text", ("code",))
    mirror = make_mirror(warehouse, TABLE)
    made = f"CREATE TABLE {TARGET} (code text NOT NULL, note text)"
    mirror.at_sink("CREATE SCHEMA mart", *FOLDING, made, f"CREATE UNIQUE INDEX folds ON {TARGET} (code {own})")
    error = _refused(mirror)
    assert f"target {TARGET} has another unique key (code)" in error.message
    assert error.hint.startswith("DROP INDEX mart.folds")


@pytest.mark.parametrize("own", ["text_pattern_ops", 'COLLATE "C"', "varchar_ops"])
def test_a_unique_index_that_only_sorts_in_its_own_way_is_a_key(
    warehouse: Warehouse, make_mirror: MakeMirror, own: str
) -> None:
    warehouse.create_table(TABLE, "code text NOT NULL, note text", ("code",))
    mirror = make_mirror(warehouse, TABLE)
    made = f"CREATE TABLE {TARGET} (code text NOT NULL, note text)"
    mirror.at_sink("CREATE SCHEMA mart", made, f"CREATE UNIQUE INDEX ON {TARGET} (code {own})")
    mirror.source(f"INSERT INTO {TABLE} VALUES ('a', 'one'), ('A', 'two')")
    mirror.start().wait_running()
    mirror.wait_equal()


def test_row_security_that_comes_later_is_refused_by_the_next_start_and_by_verify(mirror: Mirror) -> None:
    mirror.source(f"INSERT INTO {TABLE} SELECT n, 'a' FROM generate_series(1, 10) n")
    mirror.start().wait_running()
    mirror.stop()
    mirror.source(f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY", f"CREATE POLICY few ON {TABLE} USING (id < 6)")
    with pytest.raises(Refused, match="row-level security"):
        verify(mirror.job, runs=False, on_rows=lambda done, planned: None)
    error = mirror.start().wait_error()
    assert isinstance(error, Refused) and "row-level security" in error.message
    mirror.source(f"ALTER TABLE {TABLE} DISABLE ROW LEVEL SECURITY")
    mirror.start().wait_running()
    mirror.wait_equal()


def test_a_policy_that_is_off_or_does_not_concern_the_login_is_not_an_objection(mirror: Mirror) -> None:
    facts.redact(mirror.warehouse, TABLE, enable=False)
    mirror.source(
        f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY few ON {TABLE} USING (id < 6)",
        f"ALTER TABLE {TABLE} OWNER TO etl",
        f"INSERT INTO {TABLE} SELECT n, 'a' FROM generate_series(1, 10) n",
    )
    mirror.start().wait_running()
    mirror.wait_equal()


def test_a_temporary_table_and_odd_names_are_refused() -> None:
    facts_ = TableFacts(True, True, False, "", None, persistence="t")
    (found,) = table_objections("ods.t", facts_, binlog=False)
    assert found.what == "ods.t is a temporary table"
    for name in ("ods.a.b", 'ods.a"b'):
        (found,) = table_objections(name, replace(facts_, persistence="p"), binlog=False)
        assert found.what == f"the name of {name} contains a period or a double quotation mark"
        assert found.cure.endswith(" RENAME TO a_b")


def test_a_full_copy_needs_no_binlog(mirror: Mirror) -> None:
    facts.options(mirror.warehouse, TABLE, [])
    facts.distribute(mirror.warehouse, TABLE, "R")
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'a')")
    mirror.job = replace(mirror.job, binlog=BinlogOptions())
    mirror.start().join()
    assert mirror.error is None and mirror.target_rows() == [("(1,a)",)]


def test_a_partitioned_table_is_followed_and_named_by_doctor(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    run(
        warehouse,
        "CREATE SCHEMA ods",
        "GRANT USAGE ON SCHEMA ods TO etl",
        f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, note text) PARTITION BY HASH (id)",
        f"CREATE TABLE ods.p0 PARTITION OF {TABLE} FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        f"CREATE TABLE ods.p1 PARTITION OF {TABLE} FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        f"GRANT SELECT ON {TABLE} TO etl",
    )
    warehouse.enable_binlog(TABLE)
    mirror = make_mirror(warehouse, TABLE)
    mirror.source(f"INSERT INTO {TABLE} SELECT n, 'a' FROM generate_series(1, 20) n")
    mirror.start().wait_running()
    path = config(tmp_path, mirror.job.source, mirror.job.sink, job("j", mirror.job.slot, TABLE, TARGET))
    loaded = load(path, {})
    warned = [one.text for one in check_source(loaded, loaded.sources["dws1"]) if one.level is Level.WARN]
    assert any("TRUNCATE or DROP PARTITION" in one and "doctor --probe dws1" in one for one in warned)
    mirror.source(f"UPDATE {TABLE} SET note = 'b' WHERE id < 9", f"DELETE FROM {TABLE} WHERE id > 15")
    mirror.wait_equal()
    mirror.stop()


def test_a_start_says_how_many_more_there_are(mirror: Mirror) -> None:
    facts.options(mirror.warehouse, TABLE, HSTORE)
    facts.distribute(mirror.warehouse, TABLE, "R")
    assert "(and 1 more: `slotkeeper doctor`)" in _refused(mirror).message


MADE = {
    "enum": (
        "CREATE TYPE ods.mood AS ENUM ('sad', 'o''k')",
        "ods.mood",
        f"cannot create target {TARGET}: the sink has no type ods.mood (column 'v')",
        "CREATE TYPE ods.mood AS ENUM ('sad', 'o''k')",
    ),
    "composite": (
        'CREATE TYPE ods.pair AS ("Left" integer, note text)',
        "ods.pair[]",
        f"cannot create target {TARGET}: the sink has no type ods.pair (column 'v')",
        'CREATE TYPE ods.pair AS ("Left" integer, note text)',
    ),
    "range": (
        "CREATE TYPE ods.words AS RANGE (subtype = text)",
        "ods.words",
        f"cannot create target {TARGET}: the sink has no type ods.words (column 'v')",
        "CREATE TYPE ods.words AS RANGE (subtype = text)",
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_a_type_that_the_sink_lacks_is_refused_and_then_cured(
    warehouse: Warehouse, make_mirror: MakeMirror, name: str
) -> None:
    made, type_, what, cure = MADE[name]
    run(warehouse, "CREATE SCHEMA ods", "GRANT USAGE ON SCHEMA ods TO etl", made)
    warehouse.create_table(TABLE, f"id bigint, v {type_}", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    error = _refused(mirror)
    assert what in error.message and cure in error.hint
    mirror.at_sink("CREATE SCHEMA ods", error.hint if error.hint.startswith("CREATE TYPE ods") else made)
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, NULL)")
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


@pytest.mark.parametrize(
    ("at_sink", "column", "what", "cure"),
    [
        ("CREATE TYPE ods.mood AS ENUM ('sad')", "ods.mood", "an enum without the label 'ok'", "ADD VALUE 'ok'"),
        ("CREATE TYPE ods.mood AS (a integer)", "ods.mood", "an enum without the label 'sad'", "ADD VALUE 'sad'"),
        ("SELECT", "integer", "column 'v' is integer, but ods.mood in the source", "TYPE ods.mood, or TYPE text"),
    ],
)
def test_a_column_of_another_made_type_is_refused(
    warehouse: Warehouse, make_mirror: MakeMirror, at_sink: str, column: str, what: str, cure: str
) -> None:
    run(warehouse, "CREATE SCHEMA ods", "GRANT USAGE ON SCHEMA ods TO etl")
    run(warehouse, "CREATE TYPE ods.mood AS ENUM ('sad', 'ok')")
    warehouse.create_table(TABLE, "id bigint, v ods.mood", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.at_sink(
        "CREATE SCHEMA mart; CREATE SCHEMA ods", at_sink, f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v {column})"
    )
    error = _refused(mirror)
    assert what in error.message and cure in error.hint


def test_a_made_type_goes_into_a_column_of_text(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    run(warehouse, "CREATE SCHEMA ods", "GRANT USAGE ON SCHEMA ods TO etl")
    run(warehouse, "CREATE TYPE ods.mood AS ENUM ('sad', 'ok')")
    warehouse.create_table(TABLE, "id bigint, v ods.mood", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v text)")
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'ok'), (2, NULL)")
    mirror.start().wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (3, 'sad')", f"DELETE FROM {TABLE} WHERE id = 2")
    mirror.wait_equal()
    mirror.stop()


def test_types_that_only_dws_has_become_what_reads_the_same(mirror: Mirror) -> None:
    spelled = {"a": "tinyint", "b": "nvarchar2(20)", "c": "smalldatetime", "d": "clob"}
    columns = (Column("id", "bigint"), *(Column(name, type_) for name, type_ in spelled.items()))
    identity = TableIdentity(1, columns, ("id",), "db1")
    session = mirror.sink_session()
    assert targets.create(session, TARGET, identity)
    target = targets.target_of(ChannelSpec(TABLE, TARGET), identity)
    targets.check(session, target, identity, mirror.job.sink_options)
    asked = f"WHERE attrelid = '{TARGET}'::regclass AND attnum > 1 ORDER BY attnum"
    made = mirror.query(mirror.sink, f"SELECT format_type(atttypid, atttypmod) FROM pg_attribute {asked}")
    assert [row[0] for row in made] == ["smallint", "character varying(20)", "timestamp(0) without time zone", "text"]
    with pytest.raises(Refused, match="the sink has no type raw"):
        targets.create(session, "mart.other", TableIdentity(1, (Column("id", "raw"),), ("id",), "db1"))
    session.close()


def test_empty_strings_are_named_where_they_are_nulls(mirror: Mirror, tmp_path: Path) -> None:
    facts.say(mirror.warehouse, "sql_compatibility", "ORA")
    path = config(tmp_path, mirror.job.source, mirror.job.sink, job("j", "s", TABLE, TARGET))
    loaded = load(path, {})
    found = [one.text for one in check_source(loaded, loaded.sources["dws1"])]
    assert "sql_compatibility is ORA: this server stores an empty string as NULL, and the job copies NULL" in found


def test_doctor_tells_of_records_that_go_by_their_own_age(mirror: Mirror, tmp_path: Path) -> None:
    facts.options(mirror.warehouse, TABLE, [*HSTORE, "enable_binlog_timestamp=on"])
    path = config(tmp_path, mirror.job.source, mirror.job.sink, job("j", "s", TABLE, TARGET))
    loaded = load(path, {})
    found = [one.text for one in check_source(loaded, loaded.sources["dws1"]) if one.level is Level.WARN]
    assert any("DWS deletes records older than binlog_ttl, read or not" in text for text in found)
