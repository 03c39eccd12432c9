"""Row filters at a real server: the sent condition accepts the intended rows; an unusable one is refused."""

from __future__ import annotations

import io
import random
from contextlib import closing
from dataclasses import replace

import pytest

from slotkeeper.core.domain.position import Position
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.row_filter import WrongFilter, read
from slotkeeper.core.sources.dws.source import DwsSource, Selection
from slotkeeper.core.wiring.worker import open_source
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run

TABLE = "ods.orders"
FILTERS = 300
ATOMS = {
    "number": [
        "a",
        "B",
        "1",
        "2.5",
        "-1",
        "abs(a)",
        "mod(a, 2)",
        "a + b",
        "a - -1",
        "a * 2 ^ b",
        "length(v)",
        "a::numeric",
    ],
    "text": ["v", '"W w"', "'x'", "'it''s'", "'a\\_b'", "v || 'x'", "lower(v)", 'coalesce(v, "W w")', "v::varchar(2)"],
    "time": ["d", "'2020-02-01'::date", "DATE '2021-01-01'", "CAST('2020-01-01' AS date)"],
}
SIGNS = {
    "number": ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "!="],
    "text": ["=", "<>", "LIKE", "NOT LIKE", "ILIKE", "~", "!~*", "<", "IS NOT DISTINCT FROM"],
    "time": ["=", "<", ">="],
}


def _condition(chance: random.Random, depth: int = 0) -> str:
    if depth < 3 and chance.random() < 0.6:
        left, right = _condition(chance, depth + 1), _condition(chance, depth + 1)
        made = f"{left} {chance.choice(['AND', 'OR', 'and'])} {right}"
        shape = chance.choice(["{}", "({})", "NOT ({})", "({}) IS NOT TRUE", "CASE WHEN {} THEN true ELSE a > 1 END"])
        return shape.format(made)
    kind = chance.choice(sorted(ATOMS))
    one, two, three = (chance.choice(ATOMS[kind]) for _ in range(3))
    blank = chance.choice(["", " "]) if kind == "number" else " "
    forms = [
        f"{one} {chance.choice(SIGNS[kind])} {two}",
        f"{one} IS {chance.choice(['NULL', 'NOT NULL'])}",
        f"{one} IN ({two}, {three})",
        f"{one} NOT BETWEEN {two} AND {three}",
        f"NOT {one} = {two}",
        f"{one}{blank}<{blank}{two}",
    ]
    return chance.choice(forms)


def test_what_is_sent_accepts_the_rows_that_what_was_typed_accepts(warehouse: Warehouse, seed: int) -> None:
    """The server evaluates both, so its own operator precedence applies."""
    chance = random.Random(seed)
    with closing(warehouse.connect()) as connection, connection.cursor() as cursor:
        cursor.execute('CREATE TEMP TABLE t (id int, a int, b numeric, v text, "W w" text, d date)')
        values = "NULLIF(n % 5, 4), NULLIF(n % 4, 3) - 1.5, (ARRAY['x', 'it''s', 'a_b', 'aXb', NULL])[n % 5 + 1]"
        more = "(ARRAY['X', 'xx', NULL])[n % 3 + 1], date '2020-01-31' + NULLIF(n % 3, 2) * 366"
        cursor.execute(f"INSERT INTO t SELECT n, {values}, {more} FROM generate_series(1, 60) n")
        compared = 0
        for _ in range(FILTERS):
            typed = _condition(chance)
            asked = _rows(cursor, typed)
            try:
                sent = read(typed).text
            except WrongFilter as error:  # a rejection only by the product does no harm
                assert "blank" in str(error) or asked is None, (typed, error)
                continue
            assert _rows(cursor, sent) == asked, (typed, sent)
            compared += asked is not None
    print(f"{compared} of {FILTERS} filters compared over 60 rows, seed {seed}")
    assert compared > FILTERS / 2


def _rows(cursor: pg.Cursor, condition: str) -> list[tuple[object, ...]] | None:
    """The rows that a condition accepts; None if the server refuses it."""
    try:
        cursor.execute(f"SELECT id FROM t WHERE {condition} ORDER BY id")
    except pg.DriverError:
        return None
    return cursor.fetchall()


# -- conditions that a table cannot serve


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("nothing = 1", "names column 'nothing', which the source table does not have"),
        ("t IS NOT NULL", "names column 't', which the source table does not have"),
        ("ctid IS NOT NULL", "names column 'ctid', which the source table does not have"),
        ("name = 'x'", "uses column 'name' without a cast: its type ext.citext defines its own operators"),
        ("v::date > '2020-01-01'", "casts column 'v' from text to a time"),
        ("v > 5", "cannot parse where"),
    ],
)
def test_a_filter_that_a_table_cannot_serve_is_refused_by_name(
    warehouse: Warehouse, make_mirror: MakeMirror, typed: str, said: str
) -> None:
    error = _mirror(warehouse, make_mirror, read(typed).text).start().wait_error()
    assert isinstance(error, Refused) and said in error.message and error.hint, error


def test_a_filter_that_was_not_read_is_not_sent(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    error = _mirror(warehouse, make_mirror, "n > 1").start().wait_error()
    assert isinstance(error, Refused) and "where is not the text of its parsed row filter" in error.message


def test_a_made_type_is_compared_behind_a_cast(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    typed = "name::text <> 'b' AND (mood = 'ok' OR mood IS NULL)"
    mirror = _mirror(warehouse, make_mirror, read(typed).text)
    mirror.at_sink("CREATE SCHEMA ext", "CREATE EXTENSION citext SCHEMA ext", "CREATE SCHEMA ods", MOOD)
    mirror.start().wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (4, 'B', 'v', 1, 'ok'), (5, 'd', 'v', 1, 'bad')")
    mirror._until(lambda: _names(mirror) == ["a", "B", "c"], 60, "the accepted rows")
    mirror.stop()


def test_a_cast_by_somebodys_function_is_not_called(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = _mirror(warehouse, make_mirror, read("mood::text = 'ok'").text)
    effect = "CREATE FUNCTION public.effect(ods.mood) RETURNS text LANGUAGE sql AS $$ SELECT random()::text $$"
    owner = "ALTER FUNCTION public.effect(ods.mood) OWNER TO stranger"
    cast = "CREATE CAST (ods.mood AS text) WITH FUNCTION public.effect(ods.mood)"
    run(warehouse, "CREATE ROLE stranger", effect, owner, cast)
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "runs effect(ods.mood) as the job's login" in error.message.replace("public.", "")


def _names(mirror: Mirror) -> list[str]:
    return [
        str(name)
        for (name,) in mirror.query(mirror.sink, "SELECT name::text FROM mart.orders ORDER BY lower(name::text)")
    ]


# -- the second check


EFFECT = """
CREATE TABLE public.effects (id bigint);
GRANT INSERT ON public.effects TO PUBLIC;
CREATE FUNCTION public.effect(bigint) RETURNS boolean LANGUAGE plpgsql AS
$f$ BEGIN INSERT INTO public.effects VALUES ($1); RETURN true; END $f$;
"""


def test_a_filter_with_an_effect_has_none_because_its_reads_are_read_only(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """If the lists let such a filter pass, the copy is rejected, and nothing is written."""
    mirror = _mirror(warehouse, make_mirror, "")
    run(warehouse, EFFECT)
    with open_source(mirror.job, "test") as source:
        assert isinstance(source, DwsSource)
        chunk = source.plan_chunks(100)[0]
        source.selection = Selection((), "public.effect(id)")
        with pytest.raises(SlotkeeperError, match="read-only") as refused:
            source.copy_chunk(chunk, io.BytesIO())
        assert refused.value.code == "25006"
        source.selection = Selection((), '"id" > 1')
        assert source.copy_chunk(chunk, io.BytesIO()) == 2
        shown = source.session.composed_rows(pg.sql.SQL("SHOW default_transaction_read_only"), None)
        assert shown == [("off",)]
    assert mirror.query(warehouse.connect, "SELECT count(*) FROM public.effects") == [(0,)]


@pytest.mark.parametrize("noted", [False, True], ids=["reads", "writes as it reads"])
def test_changes_are_read_with_a_filter_where_the_server_calls_that_a_write_too(
    warehouse: Warehouse, make_mirror: MakeMirror, noted: bool
) -> None:
    mirror = _mirror(warehouse, make_mirror, '"id" > 1')
    with open_source(mirror.job, "test") as source:
        assert isinstance(source, DwsSource)
        statuses = source.read_status(None)
        before: list[Position] = [status.latest.from_here for status in statuses]
        run(warehouse, f"UPDATE {TABLE} SET n = n + 1")
        warehouse.note_readings(noted)
        found = io.BytesIO()
        for status, after in zip(source.read_status(None), before, strict=True):
            source.copy_changes(status.shard, after, status.latest, found)
        kinds = sorted(line.split(b"\t")[2] for line in found.getvalue().splitlines())
        assert kinds == [b"B"] * 3 + [b"U"] * 2 + [b"x"] and source.reads_only is not noted


MOOD = "CREATE TYPE ods.mood AS ENUM ('ok', 'bad')"


def _mirror(warehouse: Warehouse, make_mirror: MakeMirror, where: str) -> Mirror:
    """A job over a table with a citext and an enum, under this filter."""
    run(warehouse, "CREATE SCHEMA ext", "CREATE EXTENSION citext SCHEMA ext", "GRANT USAGE ON SCHEMA ext TO PUBLIC")
    run(warehouse, "CREATE SCHEMA ods", "GRANT USAGE ON SCHEMA ods TO etl", MOOD)
    warehouse.create_table(TABLE, "id bigint, name ext.citext, v text, n integer, mood ods.mood", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 'a', 'v', 1, 'ok'), (2, 'b', 'v', 1, 'ok'), (3, 'c', 'v', 1, NULL)")
    mirror = make_mirror(warehouse, TABLE)
    mirror.job = replace(mirror.job, channels=(replace(mirror.job.channel, where=where),))
    return mirror
