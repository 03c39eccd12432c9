"""Cases from the test suites of peers that were missing here: keys that include columns, domains, user-defined types
with their schema, names that only the source knows, and the options of a created target.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import over
from slotkeeper.core.errors import Refused, RowRefused
from slotkeeper.core.ports.kinds import ComparedTable
from slotkeeper.core.services.doctor import check_sink
from slotkeeper.core.sinks.postgres.check import eligibility
from slotkeeper.core.verify.compare import compare, open_pair
from slotkeeper.core.wiring.worker import open_source
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.standin import run

TABLE, TARGET = "ods.orders", "mart.orders"


def _made(warehouse: Warehouse, make_mirror: MakeMirror, columns: str, *before: str) -> Mirror:
    """A job over a table with these columns (and `id`, its key), once these statements have run at the source."""
    run(warehouse, "CREATE SCHEMA IF NOT EXISTS ods", "GRANT USAGE ON SCHEMA ods TO etl", *before)
    warehouse.create_table(TABLE, f"id bigint, {columns}", ("id",))
    return make_mirror(warehouse, TABLE)


def _refused(mirror: Mirror) -> Refused:
    error = mirror.start().wait_error()
    assert isinstance(error, Refused), error
    return error


def _verified(mirror: Mirror, columns: Sequence[str] = ()) -> bool:
    with closing(mirror.warehouse.connect_etl()) as source, closing(mirror.sink()) as sink:
        mapping = {name: name for name in columns} or None
        found = compare(*_pair(source, mirror.table, sink, mirror.job.channel.target, mapping))
        print(found)
        return found.equal


def _pair(
    source: pg.Connection, table: str, sink: pg.Connection, target: str, mapping: dict[str, str] | None = None
) -> tuple[ComparedTable, ComparedTable]:
    return open_pair(over(source), table, over(sink), target, mapping)


def _target(mirror: Mirror, what: str) -> list[str]:
    """Return what pg_attribute (a) says about the target's columns, in order."""
    asked = f"SELECT {what} FROM pg_attribute a WHERE attrelid = '{TARGET}'::regclass AND attnum > 0 ORDER BY attnum"
    return [row[0] for row in mirror.query(mirror.sink, asked)]


# -- line 2: the columns of a key


def test_columns_that_a_primary_key_only_includes_are_no_key(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    run(
        warehouse,
        "CREATE SCHEMA ods",
        "GRANT USAGE ON SCHEMA ods TO etl",
        f"CREATE TABLE {TABLE} (b bigint, note text, a bigint, PRIMARY KEY (a, b) INCLUDE (note))",
        f"GRANT SELECT ON {TABLE} TO etl",
        f"INSERT INTO {TABLE} VALUES (1, 'x', 2), (2, NULL, 2)",
    )
    warehouse.enable_binlog(TABLE)
    mirror = make_mirror(warehouse, TABLE)
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET note = note || 'y'", f"INSERT INTO {TABLE} VALUES (3, 'z', 4)")
    mirror.source(f"UPDATE {TABLE} SET note = NULL WHERE b = 1")
    mirror.wait_equal(20)
    mirror.stop()
    with open_source(mirror.job, "test") as source:
        assert source.identify().key == ("a", "b")
    asked = (
        f"SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'p' AND conrelid = '{TARGET}'::regclass"
    )
    assert mirror.query(mirror.sink, asked) == [("PRIMARY KEY (a, b)",)]


@pytest.mark.parametrize("kind", ["postgres", "dws"])
def test_columns_that_a_target_s_key_only_includes_are_no_key(
    warehouse: Warehouse, make_mirror: MakeMirror, kind: str
) -> None:
    """This includes an index without a constraint, whose key columns only one of two catalogs counts."""
    mirror = make_mirror(warehouse, TABLE)
    mirror.at_sink(
        "CREATE SCHEMA mart",
        f"CREATE TABLE {TARGET} (b bigint, note text, a bigint, PRIMARY KEY (a, b) INCLUDE (note))",
        f"CREATE UNIQUE INDEX bare ON {TARGET} (b, a) INCLUDE (note)",
    )
    mirror.job = replace(mirror.job, sink_kind=kind)
    with closing(mirror.sink_session()) as session:
        facts = eligibility.read(session, TARGET)
    assert facts is not None
    assert {key.index: key.columns for key in facts.keys} == {"orders_pkey": ("a", "b"), "bare": ("b", "a")}


# -- lines 4 and 5: domains

DOMAINS = (
    "CREATE DOMAIN ods.amount AS numeric(8,3)",
    "CREATE DOMAIN ods.price AS ods.amount CHECK (VALUE > 0)",
    "CREATE TYPE ods.mood AS ENUM ('sad', 'ok')",
    "CREATE DOMAIN ods.temper AS ods.mood",
    "CREATE DOMAIN ods.flag AS boolean",
)


def test_a_domain_over_a_domain_becomes_its_base_type(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    columns = "v ods.price, w ods.price[], t ods.temper, f ods.flag"
    mirror = _made(warehouse, make_mirror, columns, *DOMAINS)
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 1.5, '{{2.25,NULL}}', 'ok', true), (2, NULL, NULL, NULL, NULL)")
    error = _refused(mirror)
    assert "the sink has no type ods.mood (column 't')" in error.message
    assert error.hint == "CREATE TYPE ods.mood AS ENUM ('sad', 'ok')"
    mirror.at_sink("CREATE SCHEMA ods", error.hint)
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET v = 2, w = '{{3}}', t = 'sad', f = false WHERE id = 1")
    mirror.wait_equal()
    mirror.stop()
    types = _target(mirror, "format_type(atttypid, atttypmod)")
    assert types == ["bigint", "numeric(8,3)", "numeric(8,3)[]", "ods.mood", "boolean"]
    assert _verified(mirror)


def test_a_target_with_domains_over_domains_is_held_to_their_base(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = _made(warehouse, make_mirror, "v ods.price, w ods.price[]", *DOMAINS)
    mirror.at_sink("CREATE SCHEMA mart", "CREATE SCHEMA ods", *DOMAINS[:2], "CREATE DOMAIN mart.other AS ods.price")
    mirror.at_sink(f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v mart.other, w ods.price[])")
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 1.5, '{{2.25}}')")
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET v = 2")
    mirror.wait_equal()
    mirror.stop()
    assert _verified(mirror)
    mirror.at_sink("CREATE DOMAIN mart.strict AS ods.price NOT NULL", "CREATE DOMAIN mart.more AS mart.strict")
    mirror.at_sink(f"ALTER TABLE {TARGET} ALTER v TYPE mart.more")
    error = _refused(mirror)
    assert "stores column 'v' in a NOT NULL domain" in error.message
    assert error.hint == f"ALTER TABLE {TARGET} ALTER COLUMN v TYPE numeric(8,3)"


def test_verify_compares_a_table_whose_key_is_a_domain(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    run(warehouse, "CREATE SCHEMA ods", "GRANT USAGE ON SCHEMA ods TO etl")
    run(warehouse, "CREATE DOMAIN ods.whole AS integer")
    run(warehouse, "CREATE DOMAIN ods.ratio AS double precision", "CREATE DOMAIN ods.word AS text")
    warehouse.create_table(TABLE, "id ods.whole, w ods.word, r ods.ratio, n ods.whole", ("id", "w"), ("id",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.source(f"INSERT INTO {TABLE} SELECT n, 'row ' || n, n / 3.0, n FROM generate_series(1, 50) n")
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert _verified(mirror)
    mirror.at_sink(f"UPDATE {TARGET} SET r = 0 WHERE id = 7")
    with closing(mirror.warehouse.connect_etl()) as source, closing(mirror.sink()) as sink:
        found = compare(*_pair(source, TABLE, sink, TARGET))
    assert found.different.keys == (("7", "row 7"),)


def test_verify_compares_what_was_mirrored_into_text(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _made(warehouse, make_mirror, "n integer, r real, m ods.mood", *DOMAINS[2:3])
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, n text, r text, m text)")
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 5, 0.1, 'ok'), (2, NULL, NULL, NULL)")
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert _verified(mirror)


# -- line 6: types that the login's search_path hides


def test_types_that_the_login_sees_by_its_search_path_keep_their_schema(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    make = ("CREATE SCHEMA etl", "CREATE TYPE etl.prop_enum AS ENUM ('a', 'b')")
    more = ("CREATE DOMAIN etl.kept AS etl.prop_enum", "CREATE TYPE etl.twin AS (one etl.prop_enum, two etl.kept[])")
    grant = "GRANT USAGE ON SCHEMA etl TO etl"
    columns = "p etl.prop_enum, ps etl.prop_enum[], k etl.kept, c etl.twin, u loose"
    loose = "CREATE TYPE public.loose AS ENUM ('x')"
    mirror = _made(warehouse, make_mirror, columns, *make, grant, *more, loose)
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'a', '{{a,b}}', 'b', '(a,{{b}})', 'x')")
    error = _refused(mirror)
    assert "the sink has no type etl.prop_enum (column 'p')" in error.message
    assert error.hint == "CREATE TYPE etl.prop_enum AS ENUM ('a', 'b')"
    mirror.at_sink(*make, *more, loose)
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET p = 'b', ps = NULL", f"INSERT INTO {TABLE} (id, p) VALUES (2, 'a')")
    mirror.wait_equal()
    mirror.stop()
    mirror.start().wait_running()  # read-only commands show the fingerprint that a start reads
    mirror.stop()
    with open_source(mirror.job, "test") as source:
        spelled = [column.type for column in source.identify().columns]
    assert spelled == ["bigint", "etl.prop_enum", "etl.prop_enum[]", "etl.kept", "etl.twin", "public.loose"]


def test_types_of_the_server_s_own_are_spelled_as_ever(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    """Progress rows keep their fingerprint, also if a type is in schema public, which is in the login's search path."""
    mirror = _made(warehouse, make_mirror, 'n numeric(12,2)[], c "char", t timestamp(3), f varchar(4)')
    with open_source(mirror.job, "test") as source:
        identity = source.identify()
    kept = ["bigint", "numeric(12,2)[]", '"char"', "timestamp(3) without time zone", "character varying(4)"]
    assert [column.type for column in identity.columns] == kept
    assert identity.text.endswith(":82890477a38c5bca")
    of_public = (replace(identity.columns[0], type="public.mood[]"), *identity.columns[1:])
    shown = (replace(identity.columns[0], type="mood[]"), *identity.columns[1:])
    assert replace(identity, columns=of_public).text == replace(identity, columns=shown).text


# -- line 11: names that the sink does not know

NAMES = {
    "regrole": "nobody_here",
    "aclitem": "nobody_here=r/nobody_here",
    "regclass": "nowhere.table",
    "regnamespace": "nowhere",
    "regprocedure": "nothing(integer)",
    "regtype": "nowhere.kind",
    "regoper": "+++",
}


def test_a_value_that_names_what_the_sink_lacks_is_a_row_refused(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = make_mirror(warehouse, TABLE)
    mirror.at_sink(*(f"CREATE TABLE of_{name} (id bigint, v {name})" for name in NAMES))
    with closing(mirror.sink_session()) as session:
        for name, value in NAMES.items():
            with pytest.raises(RowRefused) as refused, session.transaction() as cursor:
                cursor.copy_expert(f"COPY public.of_{name} FROM STDIN", io.BytesIO(f"1\t{value}\n".encode()))
            assert "create it there, or store the column as text in the target" in refused.value.hint, name
            assert value.split("=")[0].split("(")[0] not in refused.value.message, refused.value.message
        with pytest.raises(Refused, match="does not exist") as gone, session.transaction() as cursor:
            cursor.copy_expert("COPY public.of_nothing FROM STDIN", io.BytesIO(b""))
        assert "as it was" in gone.value.hint


def test_a_row_that_names_what_the_sink_lacks_can_be_held(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _made(warehouse, make_mirror, "v regclass, n integer")
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'pg_class', 1), (2, '{TABLE}', 1)")
    error = mirror.start().wait_error()
    assert isinstance(error, RowRefused), error
    assert "names an object that the sink lacks" in error.hint
    mirror.job = replace(mirror.job, on_existing="replace", sink_options=SinkOptions(on_bad_row="quarantine"))
    mirror.start().wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (3, '{TABLE}', 1), (4, 'pg_type', 1)")
    quarantined = "SELECT count(*)::int FROM slotkeeper_quarantine WHERE state = 'quarantined' AND named_column = 'v'"
    mirror._until(lambda: mirror.query(mirror.sink, quarantined) == [(2,)], 20, "two rows to be held")
    mirror._until(lambda: len(mirror.target_rows()) == 2, 20, "the others to be there")
    mirror.stop()


# -- lines 13, 14 and 15: the statements that make types at the sink

CURES = {
    "a range with a length, an order and a collation": (
        (
            'CREATE TYPE ods.words AS RANGE (subtype = varchar, subtype_opclass = text_pattern_ops, collation = "C", '
            "multirange_type_name = ods.many)",
        ),
        "ods.many",
        "{[a,b)}",
        "CREATE TYPE ods.words AS RANGE (subtype = character varying, subtype_opclass = pg_catalog.text_pattern_ops, "
        'collation = pg_catalog."C", multirange_type_name = ods.many)',
    ),
    "a domain over an array, in an array": (
        ("CREATE DOMAIN ods.line AS integer[]",),
        "ods.line[]",
        '{"{1,2}"}',
        "CREATE DOMAIN ods.line AS integer[]",
    ),
    "a composite of a domain, an enum and a range": (
        (
            "CREATE DOMAIN ods.amount AS numeric(8,3)",
            "CREATE TYPE ods.mood AS ENUM ('sad')",
            "CREATE TYPE ods.moods AS RANGE (subtype = ods.mood)",
            'CREATE TYPE ods.pair AS ("A b" ods.amount, b ods.mood[], c ods.moods)',
        ),
        "ods.pair",
        "(1.5,{sad},empty)",
        "CREATE TYPE ods.mood AS ENUM ('sad'); CREATE TYPE ods.moods AS RANGE (subtype = ods.mood); "
        'CREATE TYPE ods.pair AS ("A b" numeric(8,3), b ods.mood[], c ods.moods)',
    ),
}


def test_the_statements_that_make_types_are_printed(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    columns = ", ".join(f"v{n} {type_}" for n, (_, type_, _, _) in enumerate(CURES.values()))
    mirror = _made(warehouse, make_mirror, columns, *(each for made, *_ in CURES.values() for each in made))
    values = ", ".join(f"'{value}'" for _, _, value, _ in CURES.values())
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, {values})")
    mirror.at_sink("CREATE SCHEMA ods")
    for name, (_, _, _, cure) in CURES.items():
        error = _refused(mirror)
        assert error.hint == cure, name
        mirror.at_sink(*error.hint.split("; "))
    mirror.start().wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (2, {values})")
    mirror.wait_equal()
    mirror.stop()


LABELS = [
    "plain",
    "\x01\\0041",
    "o'k",
    "a\\b",
    "red\x1b[31m",
    "tab\there",
    "\x1f",
    "\ue000",
    "\U000f0000",
    "\u202ea",
    "漢",
]


def test_the_statement_for_an_enum_makes_the_same_labels_when_it_is_pasted(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    spelled = ", ".join("'" + label.replace("'", "''") + "'" for label in LABELS)
    mirror = _made(warehouse, make_mirror, 'v ods."k\x01", w ods.pair', f'CREATE TYPE ods."k\x01" AS ENUM ({spelled})',
                   'CREATE TYPE ods.pair AS ("a\x02" integer)')  # fmt: skip
    for n, label in enumerate(LABELS):
        value = label.replace("'", "''")
        mirror.source(f"INSERT INTO {TABLE} VALUES ({n}, '{value}', '(1)')")
    mirror.at_sink("CREATE SCHEMA ods")
    for _ in range(2):
        error = _refused(mirror)
        assert safe(error.hint, 2_000) == error.hint
        mirror.at_sink(safe(error.hint, 2_000))
    asked = "SELECT enumlabel FROM pg_enum ORDER BY enumsortorder"
    assert [row[0] for row in mirror.query(mirror.sink, asked)] == LABELS
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_a_label_that_the_target_s_enum_lacks_is_added_as_it_is(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _made(warehouse, make_mirror, "v ods.mood", "CREATE TYPE ods.mood AS ENUM ('a', E'b\\x1b')")
    mirror.at_sink("CREATE SCHEMA mart; CREATE SCHEMA ods", "CREATE TYPE ods.mood AS ENUM ('a')")
    mirror.at_sink(f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v ods.mood)")
    error = _refused(mirror)
    assert safe(error.hint) == error.hint and safe(error.message) == error.message
    mirror.at_sink(error.hint)
    mirror.start().wait_running()
    mirror.stop()


def test_a_table_s_row_type_is_made_so_that_the_table_can_be_mirrored_too(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    warehouse.create_table("ods.place", 'id bigint, "Name" text NOT NULL, size numeric(8,3)', ("id",))
    mirror = _made(warehouse, make_mirror, "v ods.place")
    mirror.source("INSERT INTO ods.place VALUES (7, 'seven', 1)", f"INSERT INTO {TABLE} VALUES (1, '(7,seven,1.0)')")
    error = _refused(mirror)
    assert "the sink has no type ods.place (column 'v'), the row type of a table" in error.message
    statement = 'CREATE TABLE ods.place (id bigint, "Name" text, size numeric(8,3), PRIMARY KEY (id))'
    assert error.hint == statement
    mirror.at_sink("CREATE SCHEMA ods", statement)
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    other = make_mirror(warehouse, "ods.place", "ods.place")
    other.job = replace(other.job, sink=mirror.job.sink)
    own, other.sink_database = other.sink_database, mirror.sink_database
    other.start().wait_running()
    other.wait_equal()
    other.stop()
    other.sink_database = own


# -- line 16: what a made target carries


def _collations(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    columns = (
        'a text COLLATE "C" NOT NULL, b varchar(9) COLLATE "POSIX", c text COLLATE ods.own NOT NULL, d text,'
        " e text COLLATE ods.folds, n name NOT NULL, i integer GENERATED BY DEFAULT AS IDENTITY,"
        " g integer GENERATED ALWAYS AS (length(a)) STORED, w ods.word"
    )
    return _made(
        warehouse,
        make_mirror,
        columns,
        'CREATE COLLATION ods.own FROM "C"',
        'CREATE COLLATION ods.folds FROM "C"',
        'CREATE DOMAIN ods.word AS text COLLATE "POSIX" NOT NULL',
    )


def test_a_made_target_carries_not_null_and_the_collations_that_the_sink_knows(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = _collations(warehouse, make_mirror)
    mirror.at_sink(
        "CREATE SCHEMA ods",
        'CREATE COLLATION ods.folds FROM "C"',
        "UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'folds'",
    )
    path = config(tmp_path, mirror.job.source, mirror.job.sink, job("j", "s", TABLE, TARGET))
    loaded = load(path, {})
    warned = [one.text for one in check_sink(loaded, loaded.sinks["mart"]) if one.level is Level.WARN]
    default = "a created target uses the default collation"
    sorted_by = [text.split(" in the source")[0] for text in warned if default in text]
    assert sorted_by == ["column 'c' has collation ods.own", "column 'e' has collation ods.folds"]
    mirror.source(f"INSERT INTO {TABLE} (id, a, c, n, w) VALUES (1, 'a', 'c', 'n', 'w')")
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET a = 'aa', b = NULL, w = 'x'")
    mirror.wait_equal()
    required = dict(zip(_target(mirror, "attname::text"), _target(mirror, "attnotnull"), strict=True))
    assert [name for name, it in required.items() if it] == ["id", "a", "c", "n", "i"]
    named = "(SELECT collname::text FROM pg_collation c WHERE c.oid = attcollation)"
    found = dict(zip(required, _target(mirror, named), strict=True))
    assert [found[name] for name in "abcdew"] == ["C", "POSIX", "default", "default", "default", "POSIX"]
    assert set(_target(mirror, "attidentity::text || attgenerated::text")) == {""}
    mirror.source(f"ALTER TABLE {TABLE} ALTER c DROP NOT NULL", f"UPDATE {TABLE} SET c = NULL")
    error = mirror.wait_error()
    assert isinstance(error, RowRefused) and 'null value in column "c"' in error.message
    mirror.at_sink(f"ALTER TABLE {TARGET} ALTER c DROP NOT NULL")
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_a_made_target_carries_not_null_of_the_columns_that_are_mapped(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """Also under a filter: a row that leaves it is a delete by its key, so that no image with gaps is ever written."""
    mirror = _made(warehouse, make_mirror, 'a text COLLATE "C" NOT NULL, b integer NOT NULL, c text NOT NULL')
    channel = ChannelSpec(TABLE, TARGET, True, (("id", "key"), ("a", "Text")), '"b" > 0')
    mirror.job = replace(mirror.job, channels=(channel,))
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'x', 1, ''), (2, 'y', 2, ''), (3, 'z', 0, '')")
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET b = -b", f"UPDATE {TABLE} SET b = 1 WHERE id = 3")
    mirror._until(lambda: mirror.target_rows() == [("(3,z)",)], 20, "what the filter accepts")
    mirror.stop()
    assert _target(mirror, "attname::text || ' ' || attnotnull") == ["key true", "Text true"]
