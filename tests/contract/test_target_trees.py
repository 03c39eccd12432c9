"""Targets with partitions and child tables: each partition is checked like the target, and no statement changes rows of
an inheritance child.

One database for all; most cases run the check of a start, a dry run and `doctor` (`targets.check`) without a job.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import BinaryIO, cast

import pytest

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.expressions import read
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions, SoftDelete
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused, Unreachable
from slotkeeper.core.sinks.postgres.check import eligibility
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write import routing
from slotkeeper.core.sinks.postgres.write.optimistic import Lane
from slotkeeper.core.sinks.postgres.write.routing import Routed
from slotkeeper.demo.postgres import Server
from tests.support.effects import Effects
from tests.support.oracle import Event, Image
from tests.support.standin import drop_database, new_database

DATABASE, TARGET = "target_trees", "mart.orders"
IDENTITY = TableIdentity(1, (Column("id", "bigint"), Column("note", "text")), ("id",), "db1")
MAPPED = targets.target_of(ChannelSpec("ods.orders", TARGET), IDENTITY)
TREE = (
    f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text, own text) PARTITION BY RANGE (id)",
    f"CREATE TABLE mart.low PARTITION OF {TARGET} FOR VALUES FROM (0) TO (100) PARTITION BY HASH (id)",
    "CREATE TABLE mart.low_0 PARTITION OF mart.low FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE mart.low_1 PARTITION OF mart.low FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    f'CREATE TABLE mart."High" PARTITION OF {TARGET} FOR VALUES FROM (100) TO (1000)',
)
"""Leaves low_0, low_1 and High; low is a partition that has partitions."""
SWALLOW = "CREATE FUNCTION mart.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
PLAIN = f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text, own text)"
LOOKS = (
    "CREATE FUNCTION mart.inner(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 <> ''bad'''",
    "CREATE FUNCTION mart.good(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT mart.inner($1)'",
)
"""A function whose body resolves a name by its caller's search_path."""
GOOD = "runs mart.good(text) ({}), which resolves names by the job's pinned search_path"
PINNED = "ALTER FUNCTION mart.good(text) SET search_path = mart"


@pytest.fixture(scope="module")
def server(pg_server: Server) -> Iterator[Server]:
    new_database(pg_server, DATABASE)
    yield pg_server
    drop_database(pg_server, DATABASE)


@pytest.fixture(scope="module")
def hands(server: Server) -> Iterator[pg.Connection]:
    with closing(server.connect(DATABASE)) as connection:
        yield connection


@pytest.fixture(scope="module")
def session(server: Server) -> Iterator[SinkSession]:
    endpoint = replace(server.endpoint(DATABASE), name="mart")
    with closing(SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/trees/1")) as made:
        yield made


@pytest.fixture(autouse=True)
def fresh(hands: pg.Connection) -> None:
    run(hands, "DROP SCHEMA IF EXISTS mart CASCADE", "CREATE SCHEMA mart")


def run(connection: pg.Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def found(session: SinkSession, options: SinkOptions | None = None) -> list[tuple[str, str]]:
    facts = eligibility.read(session, TARGET)
    return [(one.what, one.cure) for one in eligibility.objections(MAPPED, IDENTITY, facts, options or SinkOptions())]


def refused(session: SinkSession, options: SinkOptions | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        targets.check(session, MAPPED, IDENTITY, options or SinkOptions())
    return caught.value


# -- each kind of partition at a start

ONE = f"partition mart.low_0 of target {TARGET}"
SPOILED: dict[str, tuple[Sequence[str], str, str]] = {
    "not logged": (
        ["ALTER TABLE mart.low_0 SET UNLOGGED"],
        f"{ONE} is not a logged table: a crash would empty it, but not its progress rows",
        "ALTER TABLE mart.low_0 SET LOGGED",
    ),
    "a row trigger": (
        [SWALLOW, 'CREATE TRIGGER "S" BEFORE INSERT ON mart."High" FOR EACH ROW EXECUTE FUNCTION mart.f()'],
        f"partition mart.High of target {TARGET} has a trigger (S): its rows can differ from the source's",
        'ALTER TABLE mart."High" DISABLE TRIGGER "S"',
    ),
    "a statement trigger, which a TRUNCATE of the target fires": (
        [SWALLOW, "CREATE TRIGGER s BEFORE TRUNCATE ON mart.low_0 EXECUTE FUNCTION mart.f()"],
        f"{ONE} has a trigger (s): its rows can differ from the source's",
        "ALTER TABLE mart.low_0 DISABLE TRIGGER s",
    ),
    "a trigger on a partition that has partitions": (
        [SWALLOW, "CREATE TRIGGER s AFTER INSERT ON mart.low FOR EACH ROW EXECUTE FUNCTION mart.f()"],
        f"partition mart.low of target {TARGET} has a trigger (s): its rows can differ from the source's",
        "ALTER TABLE mart.low DISABLE TRIGGER s",
    ),
    "a rule": (
        ["CREATE RULE nothing AS ON DELETE TO mart.low_0 DO INSTEAD NOTHING"],
        f"{ONE} has a rule (nothing)",
        "DROP RULE nothing ON mart.low_0",
    ),
    "a foreign key": (
        [
            "CREATE TABLE mart.notes (note text PRIMARY KEY)",
            "ALTER TABLE mart.low_0 ADD FOREIGN KEY (note) REFERENCES mart.notes",
        ],
        f"{ONE} has a foreign key (low_0_note_fkey): the job does not preserve order between tables",
        "ALTER TABLE mart.low_0 DROP CONSTRAINT low_0_note_fkey",
    ),
    "pointed at": (
        ["CREATE TABLE mart.lines (id bigint REFERENCES mart.low_0)"],
        f"{ONE} is referenced by a foreign key (lines_id_fkey): the job does not preserve order between tables",
        "ALTER TABLE mart.lines DROP CONSTRAINT lines_id_fkey",
    ),
    "another unique key": (
        ['CREATE UNIQUE INDEX "By Note" ON mart.low_0 (note)'],
        f"{ONE} has another unique key (note): changes of two keys could conflict on it",
        'DROP INDEX mart."By Note"',
    ),
    "an exclusion": (
        ["ALTER TABLE mart.low_0 ADD EXCLUDE USING hash (note WITH =)"],
        f"{ONE} has another unique key (note): changes of two keys could conflict on it",
        "ALTER TABLE mart.low_0 DROP CONSTRAINT low_0_note_excl",
    ),
    "a value demanded": (
        ["ALTER TABLE mart.low_0 ALTER own SET NOT NULL, ALTER own SET DEFAULT 'never used'"],
        f"{ONE} requires a value for column 'own', which is not mapped",
        "ALTER TABLE mart.low_0 ALTER COLUMN own DROP NOT NULL",
    ),
    "a check that looks names up": (
        [*LOOKS, "ALTER TABLE mart.low_0 ADD CONSTRAINT c CHECK (mart.good(note))"],
        f"{ONE} {GOOD.format('c')}",
        PINNED,
    ),
    "an index that looks names up": (
        [*LOOKS, "CREATE INDEX by_good ON mart.low_0 (mart.good(note))"],
        f"{ONE} {GOOD.format('by_good')}",
        PINNED,
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_partition_is_refused_by_its_name_with_what_cures_it(
    session: SinkSession, hands: pg.Connection, name: str
) -> None:
    statements, what, cure = SPOILED[name]
    run(hands, *TREE, *statements)
    error = refused(session)
    assert error.message == what and error.hint.startswith(cure)
    assert len(found(session)) == 1  # nothing is reported twice
    run(hands, cure)
    targets.check(session, MAPPED, IDENTITY, SinkOptions())


def test_a_foreign_table_among_the_partitions_is_refused(session: SinkSession, hands: pg.Connection) -> None:
    """PostgreSQL does not allow one under a table with a unique index, so such a target has no key either."""
    run(
        hands,
        f"CREATE TABLE {TARGET} (id bigint NOT NULL, note text) PARTITION BY RANGE (id)",
        f"CREATE TABLE mart.low PARTITION OF {TARGET} FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id)",
        "CREATE FOREIGN DATA WRAPPER w",
        "CREATE SERVER s FOREIGN DATA WRAPPER w",
        "CREATE FOREIGN TABLE mart.far PARTITION OF mart.low FOR VALUES FROM (0) TO (9) SERVER s",
    )
    try:
        (what, cure), *others = found(session)
        assert what == f"partition mart.far of target {TARGET} is a foreign table"
        assert cure.startswith("ALTER TABLE mart.low DETACH PARTITION mart.far")
        assert [what for what, _ in others] == [f"target {TARGET} has no unique key on (id)"]
    finally:
        run(hands, "DROP FOREIGN DATA WRAPPER w CASCADE")


def test_row_security_of_a_partition_is_refused_to_those_whom_it_concerns(
    session: SinkSession, hands: pg.Connection
) -> None:
    run(hands, *TREE, "ALTER TABLE mart.low_0 ENABLE ROW LEVEL SECURITY", "CREATE ROLE trees_login")
    assert found(session) == []  # a superuser
    try:
        with session.transaction() as cursor:
            cursor.execute("SET ROLE trees_login")
        assert found(session) == [
            (
                f"{ONE} has row-level security, which can hide rows from the job",
                "ALTER TABLE mart.low_0 DISABLE ROW LEVEL SECURITY, or a user with BYPASSRLS",
            )
        ]
    finally:
        session.close()
        run(hands, "DROP ROLE trees_login")


def test_what_partitions_have_by_their_table_is_said_of_the_table_alone(
    session: SinkSession, hands: pg.Connection
) -> None:
    run(
        hands,
        *TREE,
        SWALLOW,
        *LOOKS,
        "CREATE TABLE mart.notes (note text PRIMARY KEY)",
        f"ALTER TABLE {TARGET} ADD CONSTRAINT c CHECK (mart.good(note)), ADD FOREIGN KEY (note) REFERENCES mart.notes",
        f"CREATE TABLE mart.lines (id bigint REFERENCES {TARGET})",
        f"CREATE UNIQUE INDEX pair ON {TARGET} (id, note)",
        f"CREATE TRIGGER s BEFORE INSERT ON {TARGET} FOR EACH ROW EXECUTE FUNCTION mart.f()",
        f"CREATE CONSTRAINT TRIGGER later AFTER INSERT ON {TARGET} FOR EACH ROW EXECUTE FUNCTION mart.f()",
    )
    assert {what.partition(" (")[0] for what, _ in found(session)} == {
        f"target {TARGET} has a trigger",
        f"target {TARGET} has a foreign key",
        f"target {TARGET} is referenced by a foreign key",
        f"target {TARGET} runs mart.good(text)",
        f"target {TARGET} has another unique key",
    }
    assert len(found(session)) == 6


def test_a_copied_trigger_counts_where_only_the_target_s_own_is_disabled(
    session: SinkSession, hands: pg.Connection
) -> None:
    run(hands, *TREE, SWALLOW)
    run(hands, f"CREATE TRIGGER s BEFORE INSERT ON {TARGET} FOR EACH ROW EXECUTE FUNCTION mart.f()")
    run(hands, f"ALTER TABLE ONLY {TARGET} DISABLE TRIGGER s")
    what = {what.partition(" of target")[0] for what, _ in found(session)}
    assert what == {"partition mart.low", "partition mart.High"}
    for _, cure in found(session):
        run(hands, cure)
    run(hands, f"INSERT INTO {TARGET} VALUES (1, 'a'), (200, 'b')")  # the leaves under low retain theirs
    assert {what.partition(" of target")[0] for what, _ in found(session)} <= {
        "partition mart.low_0",
        "partition mart.low_1",
    }


HARMLESS = {
    "its own index over the key": ["CREATE UNIQUE INDEX ON mart.low_0 (id)"],
    "a default": [*LOOKS, "ALTER TABLE mart.low_0 ALTER own SET DEFAULT mart.good('a')::text"],
    "a check": ["ALTER TABLE mart.low_0 ADD CHECK (note <> 'never')"],
    "a value that the target's default gives": [
        f"ALTER TABLE {TARGET} ALTER own SET DEFAULT 'a'",
        "ALTER TABLE mart.low_0 ALTER own SET NOT NULL",
    ],
    "a disabled trigger": [
        SWALLOW,
        "CREATE TRIGGER s BEFORE INSERT ON mart.low_0 FOR EACH ROW EXECUTE FUNCTION mart.f()",
        "ALTER TABLE mart.low_0 DISABLE TRIGGER s",
    ],
    "maintenance": [f"VACUUM FULL {TARGET}", f"ANALYZE {TARGET}", f"REINDEX TABLE CONCURRENTLY {TARGET}"],
    "a partition of it that has gone": [
        "ALTER TABLE mart.low_0 SET UNLOGGED",
        "ALTER TABLE mart.low DETACH PARTITION mart.low_0",
    ],
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_changes_no_row_of_a_partition_raises_nothing(
    session: SinkSession, hands: pg.Connection, name: str
) -> None:
    run(hands, *TREE, *HARMLESS[name])
    targets.check(session, MAPPED, IDENTITY, SinkOptions())


def test_no_partition_s_column_may_refuse_the_null_that_a_replaced_row_has(
    session: SinkSession, hands: pg.Connection
) -> None:
    run(hands, *TREE, "ALTER TABLE mart.low_0 ALTER own SET NOT NULL")
    error = refused(session, SinkOptions(conflict_strategy="replace"))
    assert error.message == f"{ONE} has NOT NULL column 'own', which conflict_strategy = \"replace\" sets to NULL"
    targets.check(session, MAPPED, IDENTITY, SinkOptions(write_mode="update"))


def test_a_partition_that_computes_a_mapped_column_is_refused(session: SinkSession, hands: pg.Connection) -> None:
    """PostgreSQL 16 and later attach no such partition: here only the catalog shows it as one."""
    run(hands, *TREE)
    alter = "UPDATE pg_attribute SET attgenerated = '{}' WHERE attrelid = 'mart.low_0'::regclass AND attname = 'note'"
    run(hands, alter.format("s"))
    error = refused(session)
    assert error.message == f"{ONE} generates column 'note' itself"
    assert error.hint == "ALTER TABLE mart.low_0 ALTER COLUMN note DROP EXPRESSION"
    run(hands, alter.format(""))


def test_a_key_that_not_every_partition_has_yet_is_none(session: SinkSession, hands: pg.Connection) -> None:
    run(
        hands,
        f"CREATE TABLE {TARGET} (id bigint NOT NULL, note text) PARTITION BY RANGE (id)",
        f"CREATE TABLE mart.low PARTITION OF {TARGET} FOR VALUES FROM (0) TO (100)",
        f"CREATE UNIQUE INDEX whole ON ONLY {TARGET} (id)",
    )
    assert [what for what, _ in found(session)] == [f"target {TARGET} has no unique key on (id)"]
    run(hands, "CREATE UNIQUE INDEX part ON mart.low (id)", "ALTER INDEX mart.whole ATTACH PARTITION mart.part")
    assert found(session) == []


# -- inheritance, and targets that are themselves below another table


def test_a_target_that_others_inherit_from_is_refused_as_at_the_source(
    session: SinkSession, hands: pg.Connection
) -> None:
    run(hands, PLAIN, f'CREATE TABLE mart."Child" () INHERITS ({TARGET})')
    error = refused(session)
    what = "has child tables, whose rows are read as its own and can have the same keys"
    assert error.message == f"target {TARGET} {what}"
    run(hands, error.hint)
    targets.check(session, MAPPED, IDENTITY, SinkOptions())


def test_a_table_that_inherits_is_a_target_like_any_other(session: SinkSession, hands: pg.Connection) -> None:
    run(hands, "CREATE TABLE mart.parent (id bigint, note text)", PLAIN, f"ALTER TABLE {TARGET} INHERIT mart.parent")
    targets.check(session, MAPPED, IDENTITY, SinkOptions())


def test_a_partition_is_a_target_with_what_it_has_by_the_tables_above_it(
    session: SinkSession, hands: pg.Connection
) -> None:
    run(
        hands,
        *LOOKS,
        SWALLOW,
        "CREATE TABLE mart.every (id bigint, note text, own text) PARTITION BY LIST (mart.good(note))",
        PLAIN,
        f"ALTER TABLE mart.every ATTACH PARTITION {TARGET} FOR VALUES IN (true)",
        "CREATE TRIGGER s AFTER INSERT ON mart.every FOR EACH ROW EXECUTE FUNCTION mart.f()",
    )
    assert [what for what, _ in found(session)] == [
        f"target {TARGET} has a trigger (s): its rows can differ from the source's",
        f"target {TARGET} {GOOD.format('partition key')}",
    ]
    run(hands, "DROP TRIGGER s ON mart.every", PINNED)
    targets.check(session, MAPPED, IDENTITY, SinkOptions())


def test_a_target_that_is_a_part_of_another_job_s_target_is_refused(
    effects: Effects, session: SinkSession, hands: pg.Connection
) -> None:
    """`effects` runs a job into the table that is a target in all these tests."""
    run(hands, "UPDATE slotkeeper_progress SET target = current_database() || '.' || target")
    run(hands, "CREATE TABLE mart.every (id bigint, note text) PARTITION BY RANGE (id)")
    run(hands, "CREATE TABLE mart.part PARTITION OF mart.every FOR VALUES FROM (0) TO (10)")
    run(hands, f"DROP TABLE {TARGET}", f"CREATE TABLE {TARGET} PARTITION OF mart.every FOR VALUES FROM (10) TO (20)")
    of_every, of_part = (eligibility.read(session, name) for name in ("mart.every", "mart.part"))
    assert of_every and [one.what for one in eligibility.table_objections("mart.every", of_every)] == [
        f"target mart.every shares rows with target {TARGET} of job effects: one is a partition of the other"
    ]
    assert of_part and not list(eligibility.table_objections("mart.part", of_part))
    assert found(session)[0][0] == f"target {TARGET} has no unique key on (id)"  # it shares its rows with no other job


# -- ATTACH and DETACH: the tree of this moment


def test_a_partition_counts_from_its_attach_to_its_detach(session: SinkSession, hands: pg.Connection) -> None:
    made = "CREATE UNLOGGED TABLE mart.more (id bigint PRIMARY KEY, note text, own text)"
    run(hands, *TREE, made)
    assert found(session) == []
    run(hands, f"ALTER TABLE {TARGET} ATTACH PARTITION mart.more FOR VALUES FROM (1000) TO (2000)")
    assert refused(session).message.startswith(f"partition mart.more of target {TARGET} is not a logged table")
    run(hands, f"ALTER TABLE {TARGET} DETACH PARTITION mart.more CONCURRENTLY")
    assert found(session) == []


def test_a_partition_whose_detach_was_interrupted_is_none_any_more(
    server: Server, session: SinkSession, hands: pg.Connection
) -> None:
    """DETACH CONCURRENTLY marks it in a separate transaction, and then waits for readers of the table."""
    run(hands, *TREE, 'ALTER TABLE mart."High" SET UNLOGGED')
    with closing(server.connect(DATABASE)) as reader, reader.cursor() as cursor:
        cursor.execute(f"BEGIN; SELECT FROM {TARGET}")
        with pytest.raises(pg.DriverError, match="timeout"):
            run(hands, "SET lock_timeout = 100", f'ALTER TABLE {TARGET} DETACH PARTITION mart."High" CONCURRENTLY')
    run(hands, "RESET lock_timeout")
    assert found(session) == []
    run(hands, f"INSERT INTO {TARGET} VALUES (1)")
    with pytest.raises(pg.DriverError, match="no partition of relation"):
        run(hands, f"INSERT INTO {TARGET} VALUES (100)")
    run(hands, f'ALTER TABLE {TARGET} DETACH PARTITION mart."High" FINALIZE')


# -- ONLY: a table that begins to inherit keeps its rows


@pytest.fixture
def effects(server: Server, fresh: None) -> Iterator[Effects]:
    run_in = server.connect(DATABASE)
    run(run_in, "DROP TABLE IF EXISTS slotkeeper_progress, slotkeeper_chunks, slotkeeper_quarantine")
    made = Effects(server, DATABASE, TARGET, others=False)
    made.table = targets.seen(made.session, made.table)
    yield made
    made.close()
    run_in.close()


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "LEAST", 0)
    monkeypatch.setattr(routing, "SHARE", 1_000_000)
    monkeypatch.setattr(Lane, "missed", lambda lane: None)


def image(k: int, a: int) -> Image:
    return {"h": 1, "k": k, "a": a, "b": "x", "tags": None, "j": None}


def asked(hands: pg.Connection, statement: str) -> list[tuple[object, ...]]:
    with hands.cursor() as cursor:
        cursor.execute(statement)
        return sorted(cursor.fetchall(), key=str)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("mode", ["auto", "upsert", "copy_upsert", "copy_merge", "update", "copy_update"])
@pytest.mark.parametrize("optimistic", [True, False], ids=["optimistic", "general"])
def test_a_step_never_changes_the_rows_of_a_table_that_inherits(
    effects: Effects, hands: pg.Connection, mode: str, optimistic: bool
) -> None:
    options = SinkOptions(write_mode=mode, optimistic_step=optimistic)
    effects.fill([image(k, 1) for k in (1, 2)])
    sink = effects.sink(options)
    sink.read_row(effects.lane)  # the job runs
    run(hands, f"CREATE TABLE mart.child () INHERITS ({TARGET})", f"INSERT INTO mart.child SELECT * FROM {TARGET}")
    before = asked(hands, "SELECT * FROM mart.child")
    new = [] if options.updates_only else [Event(1, 2, "I", (1, 3), image(3, 3))]
    effects.step(sink, [Event(1, 0, "U", (1, 1), image(1, 2)), Event(1, 1, "d", (1, 2), image(2, 1)), *new])
    assert asked(hands, "SELECT * FROM mart.child") == before
    own = asked(hands, f'SELECT k, "A ""a""" FROM ONLY {TARGET}')
    assert own == [(1, 2)] + [(3, 3)] * bool(new)


@pytest.mark.usefixtures("always")
def test_double_hits_of_a_child_do_not_stand_for_rows_that_are_absent(effects: Effects, hands: pg.Connection) -> None:
    """40 updates hit rows that exist also in the child, and 40 hit missing rows: all 80 rows have to exist."""
    effects.fill([image(k, 1) for k in range(40)])
    sink = effects.sink(SinkOptions())
    sink.read_row(effects.lane)
    run(hands, f"CREATE TABLE mart.child () INHERITS ({TARGET})", f"INSERT INTO mart.child SELECT * FROM {TARGET}")
    events = [Event(1, k, "U", (1, k), image(k, 2)) for k in range(80)]
    effects.step(sink, [*events, Event(1, 80, "I", (1, 80), image(80, 2))])
    assert sink.taken.optimistic == 1
    assert asked(hands, f'SELECT count(*), min("A ""a"""), max("A ""a""") FROM ONLY {TARGET}') == [(81, 2, 2)]
    assert asked(hands, 'SELECT count(*), max("A ""a""") FROM mart.child') == [(40, 1)]


def test_a_copy_that_replaces_leaves_a_child_its_rows(session: SinkSession, hands: pg.Connection) -> None:
    run(hands, PLAIN, f"INSERT INTO {TARGET} VALUES (1, 'old')")
    target = targets.seen(session, MAPPED)
    with session.transaction() as cursor:
        targets.make_shadow(cursor, target, checked=False)
        cursor.execute("INSERT INTO mart.orders__slotkeeper_copy VALUES (2, 'new')")
    run(hands, f"CREATE TABLE mart.child () INHERITS ({TARGET})", "INSERT INTO mart.child VALUES (7, 'child')")
    with session.transaction() as cursor:
        targets.exchange_shadow(cursor, target, SinkOptions())
    assert asked(hands, f"SELECT id, note FROM ONLY {TARGET}") == [(2, "new")]
    assert asked(hands, "SELECT id, note FROM mart.child") == [(7, "child")]
    run(hands, f"DELETE FROM ONLY {TARGET}")
    assert targets.is_empty(session, target) and targets.count_rows(session, target).number == 0


def test_a_copy_that_replaces_leaves_no_raw_value_of_a_computed_column_in_deleted_rows(
    session: SinkSession, hands: pg.Connection
) -> None:
    channel = ChannelSpec("ods.orders", TARGET, soft_delete=SoftDelete(), compute=(read("note", "md5(note)"),))
    plain = PLAIN.replace(")", ", deleted_at timestamptz, op varchar(1))")
    run(hands, plain, f"INSERT INTO {TARGET} VALUES (1, 'raw'), (2, 'raw')")
    target = targets.seen(session, targets.target_of(channel, IDENTITY))
    with session.transaction() as cursor:
        targets.make_shadow(cursor, target, checked=False)
        cursor.execute("INSERT INTO mart.orders__slotkeeper_copy (id, note, op) VALUES (2, 'hash', 'I')")
        targets.exchange_shadow(cursor, target, SinkOptions())
    assert asked(hands, f"DELETE FROM {TARGET} RETURNING id, note, op") == [(1, None, "D"), (2, "hash", "I")]
    run(hands, f"ALTER TABLE {TARGET} ALTER note SET NOT NULL")
    with pytest.raises(Refused, match="NOT NULL column 'note', which a replacing copy sets to NULL"):
        targets.check(session, target, IDENTITY, SinkOptions())


def test_the_rows_of_a_partitioned_target_are_those_of_its_partitions(
    session: SinkSession, hands: pg.Connection
) -> None:
    run(hands, *TREE, f"INSERT INTO {TARGET} VALUES (1, 'a'), (2, 'b'), (200, 'c')")
    target = targets.seen(session, MAPPED)
    assert not targets.is_empty(session, target) and targets.count_rows(session, target).number == 3
    with session.transaction() as cursor:
        targets.make_shadow(cursor, target, checked=False)
        targets.exchange_shadow(cursor, target, SinkOptions())
    assert targets.is_empty(session, target)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("optimistic", [True, False], ids=["optimistic", "general"])
def test_steps_go_into_partitions_and_a_row_that_none_takes_is_refused(
    effects: Effects, hands: pg.Connection, optimistic: bool
) -> None:
    """At every level and for every kind of event; such a row can be quarantined, like one that violates a CHECK."""
    run(
        hands,
        f"ALTER TABLE {TARGET} RENAME TO made",
        f"CREATE TABLE {TARGET} (LIKE mart.made INCLUDING ALL) PARTITION BY RANGE (k)",
        f"CREATE TABLE mart.low PARTITION OF {TARGET} FOR VALUES FROM (0) TO (10) PARTITION BY HASH (k)",
        "CREATE TABLE mart.low_0 PARTITION OF mart.low FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE mart.low_1 PARTITION OF mart.low FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        f"CREATE TABLE mart.high PARTITION OF {TARGET} FOR VALUES FROM (10) TO (20)",
    )
    effects.table = targets.seen(effects.session, effects.table)
    effects.fill([image(k, 1) for k in (1, 2, 3, 11, 12)])
    options = SinkOptions(optimistic_step=optimistic, on_bad_row="quarantine")
    sink = effects.sink(options)
    effects.step(
        sink,
        [
            *(Event(1, k, "U", (1, k), image(k, 2)) for k in (1, 2, 4, 11)),
            *(Event(2, k, "d", (1, k), image(k, 1)) for k in (3, 12)),
            *(Event(3, k, "I", (1, k), image(k, 3)) for k in (5, 13)),
        ],
    )
    assert sink.taken.optimistic == int(optimistic)
    there = {1: 2, 2: 2, 4: 2, 11: 2, 5: 3, 13: 3}
    assert {k: row["a"] for (_, k), row in effects.rows().items()} == there
    effects.step(sink, [Event(4, k, "I", (1, k), image(k, 4)) for k in (6, 99)])
    assert {k: row["a"] for (_, k), row in effects.rows().items()} == {**there, 6: 4}
    held = asked(hands, "SELECT sqlstate, count(*) FROM slotkeeper_quarantine GROUP BY 1")
    assert held == [("23514", 1)]


# -- the two separate counts of inserts


def _mutated(monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes]) -> None:
    """Read the staged inserts with a reader that changes their text."""
    monkeypatch.setattr(Routed, "lines", lambda self: cast(BinaryIO, io.BytesIO(change(_spooled(self)))))
    monkeypatch.setattr(Routed, "bodies", lambda self: io.BytesIO(b"".join(routing._bodies(_spooled(self), (1, 2)))))


def _spooled(routed: Routed) -> bytes:
    routed._lines.seek(0)
    return routed._lines.read()


def _lost(text: bytes) -> bytes:
    return text[text.index(b"\n") + 1 :]


def _doubled(text: bytes) -> bytes:
    return text[: text.index(b"\n") + 1] + text


STEPS: dict[str, Callable[[], list[Event]]] = {
    "missed": lambda: [Event(1, k, "I", (1, k), image(k, 1)) for k in range(4)],  # 0 is there
    "repeated": lambda: [Event(1, n, "I", (1, 1 + n % 3), image(1 + n % 3, n)) for n in range(4)],
    "few": lambda: [Event(1, k, "I" if k == 9 else "U", (1, k), image(k, 1)) for k in range(10)],
}


@pytest.mark.parametrize("change", [_lost, _doubled])
@pytest.mark.parametrize("way", STEPS)
def test_inserts_that_were_kept_apart_are_counted_again_where_they_are_staged(
    effects: Effects, monkeypatch: pytest.MonkeyPatch, always: None, way: str, change: Callable[[bytes], bytes]
) -> None:
    if way == "few":
        monkeypatch.setattr(routing, "SHARE", 4)
    effects.fill([image(0, 7)])
    _mutated(monkeypatch, change)
    sink = effects.sink(SinkOptions())
    events = STEPS[way]()
    inserts = sum(event.kind == "I" for event in events)
    got = inserts + (1 if change is _doubled else -1)
    with pytest.raises(
        Unreachable, match=f"read {inserts} inserts, but the sink received {got}: the connection was lost"
    ):
        effects.step(sink, events)
    assert set(effects.rows()) == {(1, 0)}
    monkeypatch.undo()  # the same step, with a reader that changes nothing
    effects.step(effects.sink(SinkOptions()), events)
    assert set(effects.rows()) == {event.key for event in events} | {(1, 0)}
