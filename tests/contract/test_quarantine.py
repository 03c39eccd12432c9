"""Bad rows of every kind, one isolated step or chunk at a time, and the other rows of the same step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core.domain.logged_change import Loss
from slotkeeper.core.domain.quarantine import OUTDATED, EntryState
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused, RowRefused, TooLarge, Trouble, TroubleName
from slotkeeper.core.ports.driver import Followed
from slotkeeper.core.services.quarantine import Replay
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.check.eligibility import TargetColumn, TargetFacts, objections
from slotkeeper.core.sinks.postgres.progress.beside import BesideReplays
from slotkeeper.core.sinks.postgres.quarantine.replay import Replays
from slotkeeper.core.sinks.postgres.write import row_isolation
from slotkeeper.core.sinks.postgres.write.statements import TargetTable
from slotkeeper.demo.postgres import Server
from tests.support.quarantined import QUARANTINING, Target
from tests.support.standin import drop_database, new_database

DATABASE = "held_rows"

ZOO = """
id bigint PRIMARY KEY, n integer, small numeric(4,2), word varchar(5), day date, mood mood, tags integer[], doc json,
must text NOT NULL, age integer CHECK (age >= 0), code postal, net inet, bits bit(3), part integer,
half integer GENERATED ALWAYS AS (100 / part) STORED, span int4range
"""
COLUMNS = (
    "id",
    "n",
    "small",
    "word",
    "day",
    "mood",
    "tags",
    "doc",
    "must",
    "age",
    "code",
    "net",
    "bits",
    "part",
    "span",
)
GOOD = ("1", "1.5", "word", "2026-01-31", "glad", "{1,2}", "{}", "must", "3", "12345", "10.0.0.1", "101", "5", "[1,3)")
BAD = {
    "n": ("99999999999", "22003", "n", ""),
    "small": ("12345.6", "22003", "small", ""),
    "word": ("longish", "22001", "word", ""),
    "day": ("2026-02-30", "22008", "day", ""),
    "mood": ("angry", "22P02", "mood", ""),
    "tags": ("{1,x}", "22P02", "tags", ""),
    "doc": ("{no", "22P02", "doc", ""),
    "must": (None, "23502", "must", ""),
    "age": ("-1", "23514", "", "zoo_age_check"),
    "code": ("1234a", "23514", "code", "postal_check"),
    "net": ("300.1.1.1", "22P02", "net", ""),
    "bits": ("1010", "22026", "bits", ""),
    "part": ("0", "22012", "", ""),
    "span": ("[3,1)", "22000", "span", ""),
    "must2": (b"caf\xe9", "22021", "", ""),
}


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[str]:
    new_database(
        pg_server,
        DATABASE,
        "CREATE SCHEMA mart; CREATE TYPE mood AS ENUM ('glad', 'sad')",
        "CREATE DOMAIN postal AS text CHECK (VALUE ~ '^[0-9]{5}$')",
    )
    yield DATABASE
    drop_database(pg_server, DATABASE)


@pytest.fixture
def zoo(pg_server: Server, database: str) -> Iterator[Target]:
    target = Target(pg_server, database, "mart.zoo", ZOO, COLUMNS)
    yield target
    target.run("DROP TABLE mart.zoo", "DROP TABLE slotkeeper_quarantine, slotkeeper_progress, slotkeeper_chunks")
    target.close()


def zoo_row(id: int, wrong: str = "") -> tuple[object, ...]:
    values: dict[str, object] = dict(zip(COLUMNS[1:], GOOD, strict=True))
    if wrong:
        values[wrong.rstrip("2")] = BAD[wrong][0]
    return (id, *values.values())


@pytest.mark.parametrize("way", ["stream", "copy", "merge"])
def test_every_kind_of_bad_row_is_held_with_its_context_and_the_others_applied(zoo: Target, way: str) -> None:
    wrong = dict(zip(range(10, 10 * len(BAD) + 10, 10), BAD, strict=True))
    rows = [zoo_row(id, wrong.get(id, "")) for id in range(1, 10 * len(BAD) + 20)]
    if way == "stream":
        assert zoo.step(zoo.sink(), [(7, n, "I", *row) for n, row in enumerate(rows)])
    else:
        assert zoo.chunk(zoo.sink(copying="merge" if way == "merge" else "direct"), rows)
    assert {id for (id,) in zoo.rows("id")} == {row[0] for row in rows} - wrong.keys()
    found = {int(entry.key[0]): entry for entry in zoo.quarantined()}
    assert found.keys() == wrong.keys()
    for id, name in wrong.items():
        value, code, column, constraint = BAD[name]
        entry = found[id]
        assert (entry.sqlstate, entry.column, entry.constraint) == (code, column, constraint), name
        assert entry.state is EntryState.QUARANTINED
        assert (entry.kind, entry.position) == (("I", f"7/{id - 1}") if way == "stream" else ("c", "5"))
        assert (entry.shard, entry.job, entry.run, entry.epoch) == ("dn_1", "quarantined", "run", zoo.epoch)
        text = dict(entry.values)[name.rstrip("2")]
        assert text == ("caf\\xe9" if isinstance(value, bytes) else value)
        assert not isinstance(value, str) or len(value) < 4 or value not in entry.message


def test_on_bad_row_decides_whether_one_bad_row_ends_it_all(zoo: Target) -> None:
    sink = zoo.sink(SinkOptions(on_bad_row="stop"))
    with pytest.raises(RowRefused, match=r'value "\.\.\." is out of range for type integer'):
        zoo.step(sink, [(1, 1, "I", *zoo_row(1, "n"))])
    assert (zoo.rows("id"), zoo.quarantined()) == ([], [])
    assert zoo.step(zoo.sink(SinkOptions(on_bad_row="quarantine")), [(1, 1, "I", *zoo_row(1, "n"))])
    assert (zoo.rows("id"), len(zoo.quarantined())) == ([], 1)


def test_a_job_that_stops_at_a_bad_row_names_it_by_its_key_and_applies_nothing_of_the_step(pairs: Target) -> None:
    rows = [(1, number, "I", *small(number, 70_000 if number == 7 else number)) for number in range(1, 20)]
    with pytest.raises(RowRefused, match=r"row id = 7: value .* is out of range for type smallint") as caught:
        pairs.step(pairs.sink(SinkOptions(on_bad_row="stop")), rows)
    assert caught.value.code == "22003"
    assert pairs.rows("id") == []


def test_a_row_that_fits_by_now_is_applied_by_a_job_that_stops_at_bad_rows(pairs: Target) -> None:
    sink = pairs.sink(SinkOptions(on_bad_row="stop"))
    with pytest.raises(RowRefused):
        pairs.step(sink, [(1, 1, "I", *small(1, 70_000))])
    pairs.run("ALTER TABLE mart.pairs ALTER COLUMN n TYPE integer")
    assert not pairs.step(pairs.sink(SinkOptions(on_bad_row="stop")), [(1, 1, "I", *small(1, 70_000))])
    assert pairs.rows("id, n") == [(1, 70_000)]


def test_quarantine_limit_rolls_the_step_back_and_says_what_the_last_one_was(zoo: Target) -> None:
    sink = zoo.sink(replace(QUARANTINING, quarantine_limit=3))
    assert zoo.step(sink, [(1, n, "I", *zoo_row(n, "n" if n % 2 else "")) for n in range(1, 7)])
    before = zoo.rows("id"), zoo.quarantined(), zoo.position
    with pytest.raises(Trouble, match=r"quarantine_limit = 3.*23502 null value.*must") as caught:
        zoo.step(sink, [(2, n, "I", *zoo_row(n, "must" if n == 11 else "")) for n in range(10, 13)])
    assert caught.value.name is TroubleName.QUARANTINE_FULL
    assert (zoo.rows("id"), zoo.quarantined(), zoo.position) == before


# -- later changes ---------------------------------------------------------------------------------------------------


def small(id: object, n: object) -> tuple[object, ...]:
    return (id, n)


@pytest.fixture
def pairs(pg_server: Server, database: str) -> Iterator[Target]:
    """Return (id, n, own): n has to be a small number; own is a column that only the target has."""
    target = Target(
        pg_server, database, "mart.pairs", "id bigint PRIMARY KEY, n smallint, own text DEFAULT 'new'", ("id", "n")
    )
    yield target
    target.run("DROP TABLE mart.pairs", "DROP TABLE slotkeeper_quarantine, slotkeeper_progress, slotkeeper_chunks")
    target.close()


BAD_N = 99_999


def changed(point: int, old: object, new: object, n: object, sequence: int = 1) -> list[tuple[object, ...]]:
    return [(point, sequence, "B", old, None), (point, sequence + 1, "U", new, n)]


def states(target: Target) -> list[tuple[str, str, str]]:
    return [(entry.kind, entry.key[0], entry.state.value) for entry in target.quarantined(states=())]


def test_a_later_good_change_or_delete_ends_the_entry_and_a_bad_one_takes_its_place(pairs: Target) -> None:
    sink = pairs.sink()
    assert pairs.step(sink, [(1, n, "I", n, BAD_N) for n in (1, 2, 3)])
    assert states(pairs) == [("I", "1", "quarantined"), ("I", "2", "quarantined"), ("I", "3", "quarantined")]
    assert not pairs.step(sink, [*changed(2, 1, 1, 11), (2, 9, "d", 2, None)])
    assert states(pairs) == [("I", "1", "superseded"), ("I", "2", "superseded"), ("I", "3", "quarantined")]
    assert pairs.quarantined(states=())[0].ended_by == "dn_1 2/-1"
    assert pairs.step(sink, changed(3, 3, 3, BAD_N + 1))
    assert states(pairs)[2:] == [("I", "3", "superseded"), ("U", "3", "quarantined")]
    assert pairs.rows() == [(1, 11, "new")]


def test_a_bad_event_before_a_good_one_of_its_key_in_one_step_leaves_no_entry(pairs: Target) -> None:
    assert pairs.step(pairs.sink(), [(1, 1, "I", 1, BAD_N), *changed(1, 1, 1, 5, 2), (2, 1, "I", 2, BAD_N)])
    assert states(pairs) == [("I", "2", "quarantined")]
    assert pairs.rows() == [(1, 5, "new")]


def test_a_good_event_before_a_bad_one_of_its_key_is_applied(pairs: Target) -> None:
    pairs.run("INSERT INTO mart.pairs VALUES (1, 0, 'old'), (2, 0, 'old')")
    events = [*changed(1, 1, 1, 5), *changed(2, 1, 1, BAD_N), (3, 1, "d", 2, None), (3, 2, "I", 2, BAD_N)]
    assert pairs.step(pairs.sink(), events)
    assert pairs.rows() == [(1, 5, "old")], "the change before it, and the end before the bad insert"
    assert pairs.step(pairs.sink(), [*changed(4, 2, 2, 6), *changed(4, 1, 1, BAD_N, 5)])
    assert pairs.rows() == [(1, 5, "old"), (2, 6, "new")]


def test_both_halves_of_a_changed_key_are_held_together(pairs: Target) -> None:
    pairs.run("INSERT INTO mart.pairs VALUES (1, 0, 'old')")
    assert pairs.step(pairs.sink(), changed(1, 1, 9, BAD_N))
    assert states(pairs) in (
        [("B", "1", "quarantined"), ("U", "9", "quarantined")],
        [("U", "9", "quarantined"), ("B", "1", "quarantined")],
    )
    assert {entry.pair for entry in pairs.quarantined()} == {"dn_1 1/2"}
    assert pairs.rows() == [(1, 0, "old")]


@pytest.mark.parametrize("isolating", [False, True])
@pytest.mark.parametrize(
    ("later", "rows", "left"),
    [
        (changed(2, 9, 9, 3), [(9, 3, "new")], []),
        ([(2, 1, "d", 9, None)], [], []),
        ([(2, 1, "I", 1, 4)], [(1, 4, "new")], [("U", "9", "quarantined")]),
        (changed(2, 9, 8, 6), [(8, 6, "new")], []),
        (changed(2, 9, 1, 7), [(1, 7, "new")], []),
    ],
)
def test_the_old_half_takes_effect_with_a_later_change_of_either_key(
    pairs: Target, later: list[tuple[object, ...]], rows: list[object], left: list[object], isolating: bool
) -> None:
    pairs.run("INSERT INTO mart.pairs VALUES (1, 0, 'old')")
    sink = pairs.sink()
    pairs.step(sink, changed(1, 1, 9, BAD_N))
    bad = [(3, 1, "I", 77, BAD_N)] if isolating else []
    assert pairs.step(sink, [*later, *bad]) == isolating
    assert pairs.rows() == rows
    assert [one for one in states(pairs) if one[2] == "quarantined" and one[1] != "77"] == left


def test_an_old_half_of_before_a_reorder_of_the_columns_removes_only_its_own_key(pairs: Target) -> None:
    pairs.run("INSERT INTO mart.pairs VALUES (1, 7, 'old'), (7, 0, 'other')")
    pairs.step(pairs.sink(), [(1, 1, "B", 1, 7), (1, 2, "U", 9, BAD_N)])
    pairs.session.close()
    pairs.table = targets.seen(pairs.session, TargetTable("mart.pairs", ("n", "id"), ("id",), ("own",)))
    pairs.step(pairs.sink(), [(2, 1, "U", 3, 9)])
    assert pairs.rows() == [(7, 0, "other"), (9, 3, "new")]


def test_a_row_of_before_a_change_that_removed_values_is_not_replayed(pairs: Target) -> None:
    pairs.step(pairs.sink(), [(1, 1, "I", 1, BAD_N)])
    pairs.session.close()
    row, loss = pairs.store.rows()[0], Loss("n", "{0} > 9", "9")
    identity = TableIdentity(1, (Column("id", "bigint", number=1), Column("n", "bigint", number=2)), ("id",), "db1")
    pairs.run("ALTER TABLE mart.pairs ALTER n TYPE bigint")  # the values fit now, and are none of the source's
    pairs.store.follow(Followed(row, replace(row, fingerprint="i2"), pairs.epoch, identity, losses=[loss]))
    (entry,) = pairs.quarantined()
    assert entry.sqlstate == OUTDATED
    done = Replays(pairs.session, pairs.lane).replay(entry.id, pairs.table, QUARANTINING, "dba", "INC-1")
    beside = BesideReplays(pairs.session, pairs.lane)
    sink, nothing = cast(Any, SimpleNamespace(columns=("id", "n"))), cast(Any, None)
    by_label = Replay(nothing, nothing, identity, "dba", "r")._applied(sink, beside, pairs.lane, entry)
    for found in (done, by_label):
        assert (found.state, found.sqlstate) == (EntryState.QUARANTINED, OUTDATED)
    with pytest.raises(Refused, match="has since removed values"):
        beside.arm(entry.id, ("label", "7"), "dba", "r")
    assert pairs.rows() == []
    pairs.step(pairs.sink(), changed(3, 1, 1, 9))
    assert states(pairs) == [("I", "1", "superseded")] and pairs.rows() == [(1, 9, "new")]


def test_a_chain_of_changed_keys_ends_with_the_last(pairs: Target) -> None:
    pairs.run("INSERT INTO mart.pairs VALUES (1, 0, 'old')")
    assert pairs.step(pairs.sink(), [*changed(1, 1, 2, BAD_N), *changed(2, 2, 3, 5), (3, 1, "I", 9, BAD_N)])
    assert pairs.rows() == [(3, 5, "new")]
    assert states(pairs) == [("I", "9", "quarantined")]


def test_in_a_chain_the_last_good_row_stays_where_the_end_is_bad(pairs: Target) -> None:
    pairs.run("INSERT INTO mart.pairs VALUES (1, 0, 'old')")
    assert pairs.step(pairs.sink(), [*changed(1, 1, 2, 5), *changed(2, 2, 3, BAD_N)])
    assert pairs.rows() == [(2, 5, "new")]
    assert {one[:2] for one in states(pairs)} == {("B", "2"), ("U", "3")}


# -- keys ------------------------------------------------------------------------------------------------------------


def test_a_key_that_the_target_cannot_hold_is_ended_by_its_later_changes_all_the_same(
    pg_server: Server, database: str
) -> None:
    target = Target(pg_server, database, "mart.words", "id varchar(3) PRIMARY KEY, n integer", ("id", "n"))
    target.run("INSERT INTO mart.words VALUES ('abc', 0)")
    sink = target.sink()
    assert target.step(sink, [(1, 1, "I", "abcd", 1), (1, 2, "I", "x", 2), (1, 3, "I", "wxyz", 3)])
    assert target.step(sink, [(2, 1, "d", "abcd", None), (2, 2, "I", "y", 4)])
    assert target.rows() == [("abc", 0), ("x", 2), ("y", 4)], "no key was cut"
    assert target.step(sink, changed(3, "wxyz", "z", 5))
    assert target.rows()[-1] == ("z", 5)
    assert {one[2] for one in states(target)} == {"superseded"}
    assert target.step(sink, changed(4, "z", "zzzz", 6))
    assert target.step(sink, changed(5, "zzzz", "yyyy", 7))
    assert [one for one in states(target) if one[2] == "quarantined"] == [("U", "yyyy", "quarantined")], (
        "it has no old image"
    )
    assert target.rows() == [("abc", 0), ("x", 2), ("y", 4)]
    target.run("DROP TABLE mart.words", "DROP TABLE slotkeeper_quarantine, slotkeeper_progress, slotkeeper_chunks")
    target.close()


@pytest.mark.parametrize(
    ("type_", "form", "first", "later"),
    [
        ("numeric", "number", "1.00", "1.0"),
        ("double precision", "float", "-0", "0"),
        ("double precision", "float", "1e+06", "1e+06"),  # in the notation of a real number
        ("double precision", "float", "0.10000000000000001", "0.1"),  # as a server before PostgreSQL 12 writes it
        ("real", "float", "0.100000001", "0.1"),
        ("double precision", "float", "-Infinity", "-Infinity"),
        ("interval", "span", "1 mon", "30 days"),
        ("text", "text", "a", "a"),
        ("boolean", "text", "t", "t"),
        ("character(3)", "text", "a  ", "a  "),
        ("inet", "text", "10.0.0.1", "10.0.0.1"),
        ("timestamp with time zone", "text", "2026-01-01 00:00:00+00", "2026-01-01 00:00:00+00"),
        ("bytea", "text", "\\x00ff", "\\x00ff"),
    ],
)
def test_a_key_is_the_same_where_its_type_says_so(
    pg_server: Server, database: str, type_: str, form: str, first: str, later: str
) -> None:
    ddl = f"id {type_} PRIMARY KEY, n smallint"
    target = Target(pg_server, database, "mart.keys", ddl, ("id", "n"), forms=(form,))
    sink = target.sink()
    assert target.step(sink, [(1, 1, "I", first, BAD_N)])
    assert not target.step(sink, [(2, 1, "U", later, 2)])
    assert [one[2] for one in states(target)] == ["superseded"]
    assert target.step(sink, [(3, 1, "U", first, BAD_N)])
    assert target.step(sink, [(4, 1, "U", later, BAD_N)])
    assert [one[2] for one in states(target)] == ["superseded", "superseded", "quarantined"]
    target.run("DROP TABLE mart.keys", "DROP TABLE slotkeeper_quarantine, slotkeeper_progress, slotkeeper_chunks")
    target.close()


@pytest.mark.parametrize(("base", "key"), [("inet", "10.0.0.1"), ("boolean", "t"), ("character(3)", "a  ")])
def test_a_key_in_a_domain_is_the_one_that_was_copied(pg_server: Server, database: str, base: str, key: str) -> None:
    with closing(pg_server.connect(database)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DOMAIN mart.kept AS {base}")
    ddl = "id mart.kept PRIMARY KEY, n smallint"
    target = Target(pg_server, database, "mart.domains", ddl, ("id", "n"), forms=("text",))
    sink = target.sink()
    assert target.step(sink, [(1, 1, "I", key, BAD_N)])
    assert not target.step(sink, [(2, 1, "U", key, 2)])
    assert [one[2] for one in states(target)] == ["superseded"]
    target.run("DROP TABLE mart.domains, slotkeeper_quarantine, slotkeeper_progress, slotkeeper_chunks")
    target.run("DROP DOMAIN mart.kept CASCADE")
    target.close()


def test_keys_of_text_differ_by_their_bytes(pg_server: Server, database: str) -> None:
    target = Target(pg_server, database, "mart.bytes", "id text PRIMARY KEY, n smallint", ("id", "n"))
    sink = target.sink()
    assert target.step(sink, [(1, n, "I", key, BAD_N) for n, key in enumerate(("a", "A", "a ", "á"))])
    assert not target.step(sink, [(2, 1, "d", "A", None)])
    assert [one[1:] for one in states(target)] == [
        ("a", "quarantined"), ("A", "superseded"), ("a ", "quarantined"), ("á", "quarantined"),
    ]  # fmt: skip
    target.run("DROP TABLE mart.bytes", "DROP TABLE slotkeeper_quarantine, slotkeeper_progress, slotkeeper_chunks")
    target.close()


@pytest.mark.parametrize(
    ("form", "first", "later"), [("number", "1.0", "1.00"), ("float", "0", "-0"), ("span", "1 mon", "30 days")]
)
def test_a_key_of_text_keeps_apart_what_the_sources_type_calls_equal(
    pg_server: Server, database: str, form: str, first: str, later: str
) -> None:
    target = Target(pg_server, database, "mart.texts", "id text PRIMARY KEY, n smallint", ("id", "n"), forms=(form,))
    target.run(f"INSERT INTO mart.texts VALUES ('{first}', 1)")
    bad = (1, 9, "I", "bad", BAD_N)
    assert target.step(target.sink(), [(1, 1, "d", first, None), (1, 2, "I", later, 2), bad])
    assert target.rows() == [(later, 2)]
    assert target.step(target.sink(), [(2, 1, "B", later, None), (2, 2, "U", first, 3), bad])
    assert target.rows() == [(first, 3)]
    target.run("DROP TABLE mart.texts", "DROP TABLE slotkeeper_quarantine, slotkeeper_progress, slotkeeper_chunks")
    target.close()


def test_while_nothing_is_held_a_step_sends_what_it_sends_without_a_quarantine(
    pairs: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sent(options: SinkOptions) -> list[str]:
        sink, said = pairs.sink(options), []

        class Heard(pg.Cursor):
            def execute(self, query: object, vars: object = None) -> None:
                said.append(str(query))
                super().execute(query, vars)

        pairs.step(sink, [(1, 1, "I", 1, 1)])
        pairs.session.ready().cursor_factory = Heard
        pairs.step(sink, [(2, 1, "U", 1, 2)])
        pairs.session.close()
        return said

    assert sent(SinkOptions()) == sent(QUARANTINING)


def test_entries_go_with_a_dn_to_its_new_name(pairs: Target) -> None:
    pairs.step(pairs.sink(), [(1, 1, "I", 1, BAD_N)])
    pairs.store.adopt({"dn_1": "dn_one"}, [], pairs.epoch, 1)
    assert [(entry.shard, entry.state) for entry in pairs.listed()] == [("dn_one", EntryState.QUARANTINED)]


def test_a_key_whose_equal_values_have_several_texts_is_refused_with_a_quarantine() -> None:
    identity = TableIdentity(1, (Column("id", "jsonb"), Column("n", "integer")), ("id",), "s")
    column = TargetColumn("jsonb", True, False, False)
    facts = TargetFacts("r", "p", False, {"id": column, "n": replace(column, type="integer")}, (), (), (), (), {})
    table = TargetTable("mart.t", ("id", "n"), ("id",))

    def said(options: SinkOptions) -> list[str]:
        return [one.what for one in objections(table, identity, facts, options) if "quarantine" in one.what]

    assert said(SinkOptions()) == []
    (what,) = said(QUARANTINING)
    assert "stores key column 'id' as jsonb, whose equal values can have different text forms" in what


def test_a_careful_step_that_takes_too_long_is_to_be_tried_again_at_half_its_width(
    pairs: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_isolation, "LONGEST", -1.0)
    with pytest.raises(TooLarge, match=r"an isolating step of mart\.pairs"):
        pairs.step(pairs.sink(), [(1, 1, "I", 1, BAD_N), (1, 2, "I", 2, 2)])
    assert (pairs.rows(), pairs.listed(), pairs.position.point) == ([], [], 0)
    assert pairs.chunk(pairs.sink(), [(1, BAD_N), (2, 2)]), "a chunk cannot be divided, and no task abandons it"
