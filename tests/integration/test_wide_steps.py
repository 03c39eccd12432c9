"""A wide step, whose updates retain unchanged values, has the effect and the errors of other steps for every type."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from hashlib import md5
from itertools import pairwise, product

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers.pipe import copy_line
from slotkeeper.core.errors import Busy
from slotkeeper.core.sinks.postgres.write import routing
from slotkeeper.core.sinks.postgres.write import statements as compose
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.demo.postgres import Server
from tests.integration.test_small_steps import DATABASE, TYPES, Way, database, way

__all__ = ["database"]  # the fixture

Row = tuple[str | None, ...]
NEVER = 1 << 40
"""A mean width that no step has."""
OWN = ("own", "two")
"""Columns that exist only in the target."""
MODES = {
    "one upsert": SinkOptions(copy_write_batch_size=1),
    "prepared upsert": SinkOptions(write_mode="upsert"),
    "one update": SinkOptions(write_mode="update_auto", copy_write_batch_size=1),
    "MERGE": SinkOptions(write_mode="copy_merge"),
    "upsert of net effects": SinkOptions(ignore_null_when_update=True),
    "update of net effects": SinkOptions(write_mode="copy_update", ignore_null_when_update=True),
}


def noise(width: int, salt: str) -> str:
    """Return text that does not compress."""
    return "".join(md5(f"{salt}{n}".encode()).hexdigest() for n in range(width // 32 + 1))[:width]


LONG = noise(5_000, "a")
WIDE: dict[str, list[str]] = {
    "text": [LONG, LONG[:-1] + "_", "ab" * 9_000],
    "bytea": ["\\x" + LONG[:4_998], "\\x" + "00" * 9_000],
    "json": [f'{{"a": "{LONG}"}}', f'{{"a":  "{LONG}"}}'],
    "jsonb": [f'{{"a": 1.0, "b": "{LONG}"}}', f'{{"a": 1.00, "b": "{LONG}"}}'],
    "text[]": [f"{{{LONG},b}}", f"[0:1]={{{LONG},b}}"],
    "kinds.pair": [f'(1,"{LONG}")'],
    "xml": [f"<a>{LONG}</a>", f"<a >{LONG}</a>"],
    "double precision[]": ["{" + "0," * 900 + "0}", "{" + "0," * 900 + "-0}"],
    "numeric": ["1." + "0" * 9_000, "1." + "0" * 9_001],
    "kinds.long": [LONG, LONG.upper()],
}
"""Values that are stored in the TOAST table, among them values that are equal but have different bytes."""


class Pair:
    """Two targets with the same columns: one takes each step as a wide step, the other never."""

    def __init__(self, server: Server, name: str, columns: str, options: SinkOptions, stored: str = "") -> None:
        self.server, self.names = server, [f"m.{name}_kept", f"m.{name}_written"]
        with server.connect(DATABASE) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE SCHEMA IF NOT EXISTS m")
            for table in self.names:
                cursor.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, {columns}); {stored.format(table)}")
            cursor.execute(
                "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
                (self.names[0],),
            )
            named = tuple(name for (name,) in cursor.fetchall() if name not in OWN)
        self.kept, self.written = (way(server, table, named, options, small=None) for table in self.names)
        for one in (self.kept, self.written):
            one.sink._small_form = None

    def step(self, patch: pytest.MonkeyPatch, *events: tuple[str, Row]) -> str:
        """Take the same step in both targets; return the SQLSTATE of both rejections, or ""."""
        point = str(self.kept.position.pair[0] + 1)
        lines = b"".join(copy_line((point, str(n), kind, *row)) for n, (kind, row) in enumerate(events))
        found = []
        for one, width in ((self.kept, -1), (self.written, NEVER)):
            patch.setattr(compose, "WIDE", width)
            found.append(one.step(lines))
            assert found[-1] or one.sink._wide == (width < 0)
        assert found[0] == found[1], events
        return found[0]

    def rows(self) -> list[tuple[str]]:
        """Return the rows as text, which both targets have."""
        found = []
        with self.server.connect(DATABASE) as connection, connection.cursor() as cursor:
            for table in self.names:
                cursor.execute(f"SELECT t::text FROM {table} t ORDER BY id")
                found.append(cursor.fetchall())
        assert found[0] == found[1]
        return found[0]

    def execute(self, statement: str) -> list[list[tuple[object, ...]]]:
        """Execute a statement for each target."""
        found = []
        with self.server.connect(DATABASE) as connection, connection.cursor() as cursor:
            for table in self.names:
                cursor.execute(statement.format(table))
                found.append(cursor.fetchall() if cursor.description else [])
        return found

    def values(self) -> list[set[tuple[object, ...]]]:
        """Return the identifiers of the TOAST values of each target."""
        toast = self.execute("SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = '{}'::regclass")
        with self.server.connect(DATABASE) as connection, connection.cursor() as cursor:
            found = []
            for ((name,),) in toast:
                cursor.execute(f"SELECT chunk_id FROM {name}")
                found.append(set(cursor.fetchall()))
        return found


@pytest.fixture(scope="module", autouse=True)
def kinds(database: Server) -> Iterator[None]:
    with database.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DOMAIN kinds.long AS text CHECK (VALUE <> 'no')")
        # an operator outside pg_catalog that a session without its own search_path could choose
        cursor.execute(
            "CREATE FUNCTION public.lie(record, record) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN true; END'"
        )
        cursor.execute("CREATE OPERATOR public.*= (LEFTARG = record, RIGHTARG = record, FUNCTION = public.lie)")
    yield


@pytest.mark.parametrize("mode", ["one upsert", "one update"])
@pytest.mark.parametrize("type_", [*TYPES, *(type_ for type_ in WIDE if type_ not in TYPES)])
def test_a_wide_step_stores_and_rejects_the_values_that_other_steps_do(
    database: Server, monkeypatch: pytest.MonkeyPatch, type_: str, mode: str
) -> None:
    pair = Pair(database, f"of_{abs(hash((type_, mode)))}", f"v {type_}, t text", MODES[mode])
    values = [None, *TYPES.get(type_, []), *WIDE.get(type_, [])]
    for row in (("0", values[-1], LONG), ("1", None, None)):
        pair.execute(f"INSERT INTO {{}} VALUES ({row[0]}, NULL, NULL)")
        pair.step(monkeypatch, ("U", row))
    for value in values:
        pair.step(monkeypatch, ("I", ("2", value, LONG)))
    orders = list(product(values, values)) if len(values) < 9 else list(pairwise(values))
    for old, new in orders:
        for value in (old, new, new):
            pair.step(monkeypatch, ("B", ("0", None, None)), ("U", ("0", value, LONG)))
        pair.rows()
    assert pair.kept.sink.taken == pair.written.sink.taken


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("own", ["", ", own text DEFAULT 'o', two integer GENERATED ALWAYS AS (n * 2) STORED"])
def test_random_wide_steps_have_the_effect_of_other_steps(
    database: Server, monkeypatch: pytest.MonkeyPatch, mode: str, own: str
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    stored = "ALTER TABLE {0} ALTER e SET STORAGE EXTERNAL, ALTER m SET STORAGE MAIN"
    columns = "n integer, a text, e varchar(9000), m text, j jsonb, x bytea" + own
    pair = Pair(database, f"random_{abs(hash((mode, own)))}", columns, MODES[mode], stored)
    for _ in range(3):
        pair.execute("INSERT INTO {} SELECT i, i, repeat('ab', 3000), NULL, 'm' FROM generate_series(5, 9) i"
                     " ON CONFLICT (id) DO NOTHING")  # fmt: skip
        for _ in range(25):
            assert pair.step(monkeypatch, *_events(rng)) == ""
            pair.rows()
        # the same values in another form: compressed, or not; inline, or not
        forms = rng.sample(["EXTERNAL", "EXTENDED", "MAIN"], 2)
        pair.execute(f"ALTER TABLE {{0}} ALTER a SET STORAGE {forms[0]}, ALTER e SET STORAGE {forms[1]};"
                     " UPDATE {0} SET a = a || '', e = e || ''")  # fmt: skip


def _events(rng: random.Random) -> Iterator[tuple[str, Row]]:
    for _ in range(rng.randrange(1, 30)):
        key, kind = rng.randrange(12), rng.choice("IIdUBBBB")
        row = (str(rng.randrange(3)), *(rng.choice(TEXTS) for _ in range(3)), rng.choice(JSONS), rng.choice(BYTES))
        yield kind, (str(key), *(row if kind in "IU" else (None,) * 6))
        if kind == "B":
            yield "U", (str(rng.choice([key, key, key, rng.randrange(12)])), *row)


TEXTS = [None, "", "m", LONG, LONG[::-1], "ab" * 3_000]
JSONS = [None, "{}", *WIDE["jsonb"]]
BYTES = [None, *WIDE["bytea"]]


def test_a_wide_optimistic_step_has_the_effect_of_other_steps(
    database: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "LEAST", 2)
    pair = Pair(database, "optimistic", "n integer, a text, b text", SinkOptions())
    rng = random.Random(8)
    for number in range(20):
        keys = rng.sample(range(100), 20)
        events: list[tuple[str, Row]] = [("I", (str(100 + number * 20 + n), "0", LONG, None)) for n in range(20)]
        for key in keys:
            events += [("B", (str(key), *(None,) * 3)), ("U", (str(key), str(number), *rng.choices(TEXTS, k=2)))]
        assert pair.step(monkeypatch, *events) == ""
        pair.rows()
    assert pair.kept.sink.taken == pair.written.sink.taken
    assert pair.kept.sink.taken.optimistic == 20


@pytest.mark.parametrize("mode", [*MODES, "optimistic"])
def test_an_unchanged_value_keeps_its_place_in_the_toast_table(
    database: Server, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """A chunk_id names a TOAST value: PostgreSQL, "Database Physical Storage", TOAST."""
    monkeypatch.setattr(routing, "LEAST", 20)
    options = MODES.get(mode, SinkOptions())
    # where the new value is computed, it has no type modifier, and the server checks the stored value's length again
    long = "text" if mode == "update of net effects" else "varchar(9000)"
    pair = Pair(database, f"toast_{abs(hash(mode))}", f"n integer, a {long}, b bytea, c text", options)
    pair.execute("INSERT INTO {} SELECT i, 0, 'short', NULL, NULL FROM generate_series(1, 8) i")
    filled = [("U", (str(n), "0", noise(6_000, f"a{n}"), "\\x" + noise(6_000, f"b{n}"), "c")) for n in range(1, 9)]
    pair.step(monkeypatch, *filled)
    more = [("I", (str(n), "1", None, None, None)) for n in range(100, 120)] if mode == "optimistic" else []
    before = pair.values()
    assert [len(one) for one in before] == [16, 16]
    changed = [(kind, (key, "1", LONG if key == "8" else a, b, "d")) for kind, (key, _, a, b, _) in filled]
    assert pair.step(monkeypatch, *more, *changed) == ""
    after = pair.values()
    assert [len(one) for one in after] == [16, 16]
    assert [len(one & other) for one, other in zip(before, after, strict=True)] == [15, 0]
    assert pair.kept.sink.taken.optimistic == (mode == "optimistic")


def test_the_width_of_a_step_decides_and_both_forms_are_prepared(database: Server) -> None:
    pair = Pair(database, "width", "a text, n numeric", SinkOptions(write_mode="upsert"))
    one: Way = pair.kept
    for number, text in enumerate([LONG, "a" * 1_100, "a" * 900, LONG, "b"] * 2, 1):
        assert one.step(copy_line((str(number), "1", "U", "1", text, "1.0"))) == ""
        assert one.sink._wide == (len(text) > 1_000)
    assert one.sink._long == ("a",)
    assert sorted(one.sink._kept.values()) == [4, 6]
    with one.sink.session.transaction() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements ORDER BY name")
        narrow, wide = (statement for (statement,) in cursor.fetchall())
    assert "*=" in wide and "*=" not in narrow


@pytest.mark.parametrize(
    ("type_", "other"),
    [("varchar(9000)", "text"), ("text", "varchar(9000)"), ("varchar(9000)", "varchar(8000)"), ("text", "kinds.long"),
     ("integer", "text"), ("text", "integer USING 7"), ("numeric", "integer")],
)  # fmt: skip
@pytest.mark.parametrize("reconnects", [False, True])
def test_a_target_that_is_altered_takes_wide_steps_as_it_takes_other_steps(
    database: Server, monkeypatch: pytest.MonkeyPatch, type_: str, other: str, reconnects: bool
) -> None:
    name = f"altered_{abs(hash((type_, other, reconnects)))}"
    for options in (SinkOptions(copy_write_batch_size=1), SinkOptions(write_mode="upsert")):
        pair = Pair(database, f"{name}_{options.write_mode}", f"v {type_}, t text", options)
        assert pair.step(monkeypatch, ("I", ("1", "7", LONG))) == ""
        pair.execute(f"ALTER TABLE {{}} ALTER v TYPE {other}")
        if reconnects:
            for one in (pair.kept, pair.written):
                one.sink.session.close()
        for value in ("7", LONG, "7", None, "8"):
            pair.step(monkeypatch, ("U", ("1", value, LONG)))
            pair.rows()


@pytest.mark.parametrize(
    ("type_", "other"), [("jsonb", "json"), ("json", "jsonb"), ("json", "text"), ("text[]", "text")]
)
def test_a_wide_step_whose_staged_types_no_longer_fit_is_repeated_with_the_targets_types(
    database: Server, monkeypatch: pytest.MonkeyPatch, type_: str, other: str
) -> None:
    """An assignment casts between such types, and the CASE of a wide step does not."""
    name, value = f"m.repeated_{abs(hash((type_, other)))}", "{}"
    with database.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS m")
        cursor.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY, v {type_}, t text)")
        cursor.execute(f"INSERT INTO {name} VALUES (1, '{value}', 'old')")
    one = way(database, name, ("id", "v", "t"), SinkOptions(write_mode="update_auto"), small=None)
    one.sink._small_form = None
    monkeypatch.setattr(compose, "WIDE", -1)

    def line(kind: str, text: str) -> bytes:
        return copy_line((str(one.position.pair[0] + 1), "1", kind, "1", value, text))

    assert one.step(line("U", LONG)) == ""
    with database.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {name} ALTER v TYPE {other} USING v::{other}")
    with pytest.raises(Busy, match="a column's type changed during the step"):
        try:
            rows = one.sink.stage(io.BytesIO(line("U", "new")))
            one.sink.commit(one.lane, one.epoch, one.position, DwsPosition(one.position.point + 1), rows)
        finally:
            one.sink.abandon()
    assert one.step(line("U", "new")) == ""
    with database.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT v::text, t FROM {name}")
        assert cursor.fetchall() == [(value, "new")]
