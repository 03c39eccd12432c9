"""The server accepts each statement that adapts a target to new columns of its source, and the statements suffice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import Column, TableIdentity, UserType
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.check.target import reshape
from slotkeeper.core.sinks.postgres.session import DIALECTS, SinkSession
from slotkeeper.demo.postgres import Server
from tests.support.standin import drop_database, new_database

DATABASE, TARGET = "reshaped", "mart.t"
CHANNEL = ChannelSpec("ods.t", TARGET)
ID, V, W = Column("id", "bigint", True, number=1), Column("v", "text", number=2), Column("w", "integer", number=3)
OLD = (ID, V, W)
MADE = f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v text, w integer)"
MOOD = UserType("kinds.mood", "e", parts=("sad", "o'k"))


@pytest.fixture(scope="module")
def session(pg_server: Server) -> Iterator[SinkSession]:
    """A sink; each case recreates its target."""
    new_database(pg_server, DATABASE)
    endpoint = pg_server.endpoint(DATABASE)
    made = SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/reshape/1")
    yield made
    made.close()
    drop_database(pg_server, DATABASE)


def run(session: SinkSession, *statements: str) -> None:
    with session.transaction() as cursor:
        for statement in statements:
            cursor.execute(statement)


def fresh(session: SinkSession, *statements: str) -> None:
    run(session, "DROP SCHEMA IF EXISTS mart, kinds CASCADE", "CREATE SCHEMA mart", *statements)
    run(session, f"INSERT INTO {TARGET} (id, v, w) VALUES ('1', 'a', 1), ('0', 'b', 2)")


def shaped(
    session: SinkSession, new: Sequence[Column], key: Sequence[str] = ("id",), old: Sequence[Column] | None = OLD
) -> Reshape:
    return reshape(session, CHANNEL, identity(new, key), old, SinkOptions())


def identity(new: Sequence[Column], key: Sequence[str] = ("id",)) -> TableIdentity:
    return TableIdentity(1, tuple(new), tuple(key), "db1", (MOOD,))


@dataclass(frozen=True)
class Case:
    """The source's new columns and key, the statements to type, and the target as DDL."""

    new: tuple[Column, ...]
    typed: tuple[str, ...]
    made: tuple[str, ...] = (MADE,)
    key: tuple[str, ...] = ("id",)
    by_itself: bool = True
    old: tuple[Column, ...] | None = OLD


ALTER = f"ALTER TABLE {TARGET}"
CASES = {
    "nothing to do": Case((ID, replace(V, type="character varying(9)"), replace(W, type="smallint")), ()),
    "the target's own column stays": Case(
        (ID, V),
        (f"{ALTER} DROP COLUMN w",),
        (MADE, f"{ALTER} ADD COLUMN loaded timestamptz NOT NULL DEFAULT now()"),
    ),
    "the source's old columns are not known": Case(
        (ID, V, Column("x", "date", number=4)), (f"{ALTER} ADD COLUMN IF NOT EXISTS x date",), old=None
    ),
    "names that want quotes": Case(
        (ID, replace(V, name='a "b" c'), W, Column("Order", "numeric(9,1)", number=5)),
        (f'{ALTER} RENAME COLUMN v TO "a ""b"" c"', f'{ALTER} ADD COLUMN IF NOT EXISTS "Order" numeric(9,1)'),
    ),
    "a collation": Case(
        (*OLD, Column("x", "text", collation='pg_catalog."C"', number=4)),
        (f'{ALTER} ADD COLUMN IF NOT EXISTS x text COLLATE pg_catalog."C"',),
    ),
    "types that only DWS has": Case(
        (*OLD, Column("x", "nvarchar2(7)", number=4)), (f"{ALTER} ADD COLUMN IF NOT EXISTS x character varying(7)",)
    ),
    "a name that moved on": Case(
        (ID, replace(V, name="w"), replace(W, name="u")),
        (f"{ALTER} RENAME COLUMN w TO u", f"{ALTER} RENAME COLUMN v TO w"),
    ),
    "a type that the sink lacks": Case(
        (*OLD, Column("x", "kinds.mood", number=4)),
        ("CREATE TYPE kinds.mood AS ENUM ('sad', 'o''k')", f"{ALTER} ADD COLUMN IF NOT EXISTS x kinds.mood"),
        (MADE, "CREATE SCHEMA kinds"),
        by_itself=False,
    ),
    "a domain at the target": Case(
        (ID, V, replace(W, type="bigint")),
        (f"{ALTER} ALTER COLUMN w TYPE bigint",),
        ("CREATE DOMAIN mart.small AS integer", MADE.replace("w integer", "w mart.small")),
    ),
    "the key's column under another name": Case(
        (replace(ID, name="key"), V, W), (f"{ALTER} RENAME COLUMN id TO key",), key=("key",)
    ),
    "the key's type, by itself": Case(
        (replace(ID, type="numeric(20,0)"), V, W),
        (f"{ALTER} ALTER COLUMN id TYPE numeric(20,0)",),
        (MADE.replace("id bigint", "id integer"),),
    ),
    "the key's type, of a text": Case(
        (ID, V, W),
        (f"TRUNCATE {TARGET}", f"{ALTER} ALTER COLUMN id TYPE bigint USING NULL"),
        (MADE.replace("id bigint", "id boolean").replace("PRIMARY KEY", ""), f"{ALTER} ADD UNIQUE (id)"),
        by_itself=False,
    ),
    "one more column in the key": Case(
        (ID, V, replace(W, required=True)),
        (
            f"TRUNCATE {TARGET}",
            f"{ALTER} DROP CONSTRAINT t_pkey",
            f"{ALTER} ADD PRIMARY KEY (id, w)",
        ),
        key=("id", "w"),
        by_itself=False,
    ),
    "the key's column is gone": Case(
        (V, replace(W, required=True)),
        (f"TRUNCATE {TARGET}", f"{ALTER} DROP COLUMN id", f"{ALTER} ADD PRIMARY KEY (w)"),
        key=("w",),
        by_itself=False,
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_what_is_named_is_taken_and_makes_a_target_that_holds_the_source(name: str, session: SinkSession) -> None:
    case = CASES[name]
    fresh(session, *case.made)
    found = shaped(session, case.new, case.key, case.old)
    assert found.typed == case.typed
    assert found.by_itself is case.by_itself
    run(session, *found.typed)
    new = identity(case.new, case.key)
    targets.check(session, targets.target_of(CHANNEL, new), new, SinkOptions())
    again = shaped(session, case.new, case.key, case.old)
    assert again.typed == (), "done as soon as the statement has run"
    assert not any(line.startswith(("+", "~")) for line in (*again.source, *again.target))


def test_both_ends_are_shown_with_their_differences(session: SinkSession) -> None:
    fresh(session, MADE)
    found = shaped(session, (ID, replace(W, type="bigint"), Column("x", "date", True, number=4)))
    assert found.source == ("id bigint NOT NULL", "~ w bigint", "+ x date NOT NULL")
    assert found.target == ("id bigint NOT NULL", "- v text", "~ w integer")
    assert [one.text for one in found.found] == [
        "column w is bigint (was integer)",
        "column x (date NOT NULL) was added",
        "column v (text) was dropped",
    ]


def test_dws_alters_no_column_by_whose_hash_its_rows_lie(session: SinkSession) -> None:
    fresh(session, MADE)
    session.dialect = DIALECTS["dws"]
    try:
        found = shaped(session, (replace(ID, type="numeric(30,0)"), V, W, Column("x", "tinyint", number=4)))
        gone = shaped(session, (V, replace(W, required=True)), ("w",))
        assert found.typed == gone.typed == (f"DROP TABLE {TARGET}",)
        assert not found.by_itself and not gone.by_itself
        plain = shaped(session, (ID, V, replace(W, type="bigint"), Column("x", "tinyint", number=4)))
        assert plain.typed == (f"{ALTER} ALTER COLUMN w TYPE bigint", f"{ALTER} ADD COLUMN x tinyint")
    finally:
        session.dialect = DIALECTS["postgres"]
