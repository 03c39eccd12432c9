"""A user-defined cast never runs as the product's login: not in a copy, an isolating step, `verify` or `peek`.

PostgreSQL, "CREATE CAST": the owner of the source or of the target type may make one, implicit or not.
"""

from __future__ import annotations

import io
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.core.services.verify import verify
from slotkeeper.core.sources.dws.source import DwsSource
from slotkeeper.core.wiring.worker import open_source
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.standin import run

TABLE = "ods.orders"
COLUMNS = "k kinds.mood, n integer, m kinds.mood, p kinds.pair, a kinds.mood[]"
TYPES = (
    "CREATE SCHEMA kinds",
    "GRANT USAGE ON SCHEMA kinds TO PUBLIC",
    "CREATE TYPE kinds.mood AS ENUM ('ok', 'bad', '')",
    "CREATE TYPE kinds.pair AS (x integer, y text)",
    "CREATE TABLE public.loot (who text, what text)",
    "GRANT INSERT, SELECT ON public.loot TO PUBLIC",
)


def planted() -> list[str]:
    """Casts, each of which records the user that ran it."""
    made = []
    for number, (type_, to, how) in enumerate(
        [
            ("kinds.mood", "text", "AS ASSIGNMENT"),
            ("kinds.mood", "varchar", ""),
            ("kinds.pair", "text", "AS IMPLICIT"),
            ("kinds.mood[]", "text", ""),
        ]
    ):
        body = f"BEGIN INSERT INTO public.loot VALUES (current_user, '{type_}'); RETURN 'looted'; END"
        made.append(f"CREATE FUNCTION public.cast_{number}({type_}) RETURNS {to} LANGUAGE plpgsql AS $f$ {body} $f$")
        made.append(f"CREATE CAST ({type_} AS {to}) WITH FUNCTION public.cast_{number}({type_}) {how}")
    return made


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    run(warehouse, *TYPES)
    warehouse.create_table(TABLE, COLUMNS, ("k", "n"))
    rows = (
        "SELECT (ARRAY['ok', 'bad', '']::kinds.mood[])[g % 3 + 1], g, NULLIF((g % 2)::text, '1')::integer::text,"
        " CASE g % 3 WHEN 0 THEN (1, 'y')::kinds.pair WHEN 1 THEN (NULL, NULL)::kinds.pair END,"
        " CASE g % 2 WHEN 0 THEN ARRAY['ok', NULL]::kinds.mood[] END FROM generate_series(1, 30) g"
    ).replace("NULLIF((g % 2)::text, '1')::integer::text", "CASE g % 2 WHEN 0 THEN 'bad'::kinds.mood END")
    run(warehouse, f"INSERT INTO {TABLE} {rows}")
    made = make_mirror(warehouse, TABLE)
    made.at_sink(*TYPES, "CREATE SCHEMA mart")
    made.at_sink(
        f"CREATE TABLE mart.orders ({COLUMNS}, PRIMARY KEY (k, n), CHECK (n <> 77))",
        *planted(),
    )
    run(warehouse, *planted())
    return made


def looted(mirror: Mirror) -> list[object]:
    found: list[object] = []
    for opened in (mirror.warehouse.connect, mirror.sink):
        with closing(opened()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT DISTINCT who, what FROM public.loot")
            found += cursor.fetchall()
    return found


def test_no_cast_of_a_made_type_runs_in_a_copy_an_isolating_step_or_a_comparison(mirror: Mirror) -> None:
    mirror.job = replace(mirror.job, sink_options=SinkOptions(on_bad_row="quarantine"))
    mirror.start().wait_running()
    mirror.source(
        f"UPDATE {TABLE} SET m = 'ok' WHERE n < 9",
        f"DELETE FROM {TABLE} WHERE n = 12",
        f"INSERT INTO {TABLE} VALUES ('bad', 77, 'ok', (2, 'no'), NULL), ('', 78, '', (2, 'yes'), NULL)",
    )
    mirror._until(lambda: mirror.query(mirror.sink, "SELECT 1 FROM mart.orders WHERE n = 78") != [], 60, "the rows")
    mirror.stop()
    found = verify(mirror.job, False, lambda *_: None)
    assert (found.missing.count, found.extra.count, found.different.count, found.quarantined.count) == (0, 0, 0, 1)
    assert looted(mirror) == []


def test_a_cursor_reads_what_copy_reads_and_runs_no_cast(mirror: Mirror) -> None:
    found = []
    for copy_allowed in (True, False):
        out = io.BytesIO()
        with open_source(mirror.job, "test") as source:
            assert isinstance(source, DwsSource)
            source.copy_allowed = copy_allowed
            source.identify()
            for chunk in source.plan_chunks(10):
                source.copy_chunk(chunk, out)
        found.append(sorted(out.getvalue().splitlines()))
    assert found[0] == found[1] and len(found[0]) == 30
    assert looted(mirror) == []


def test_a_peek_runs_no_cast(mirror: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mirror.start().wait_running().stop()
    run(mirror.warehouse, f"UPDATE {TABLE} SET m = 'ok' WHERE n = 3")
    file = config(tmp_path, mirror.job.source, mirror.job.sink, job("orders", mirror.job.slot, TABLE, "mart.orders"))
    words = ("slots", "peek", TABLE, "--key", "k=ok", "--key", "n=3", "--json", "--config", str(file))
    assert main(words) == 0, capsys.readouterr().err
    assert '"ok"' in capsys.readouterr().out
    assert looted(mirror) == []


@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_key_whose_type_has_an_implicit_cast_by_a_function_is_refused_by_name(mirror: Mirror, side: str) -> None:
    body = "BEGIN INSERT INTO public.loot VALUES (current_user, 'implicit'); RETURN 'looted'; END"
    implicit = (
        "CREATE ROLE owner",
        "DROP CAST (kinds.mood AS text)",
        f"CREATE FUNCTION public.sly(kinds.mood) RETURNS text LANGUAGE plpgsql AS $f$ {body} $f$",
        "ALTER FUNCTION public.sly(kinds.mood) OWNER TO owner",
        "CREATE CAST (kinds.mood AS text) WITH FUNCTION public.sly(kinds.mood) AS IMPLICIT",
    )
    if side == "source":
        run(mirror.warehouse, *implicit)
    else:
        mirror.at_sink(*implicit)
    try:
        error = mirror.start().wait_error()
        assert isinstance(error, Refused), error
        assert "key column 'k'" in error.message and "runs public.sly(kinds.mood) as the job's login" in error.message
        assert "DROP CAST" in error.hint and error.where == side
        assert looted(mirror) == []
    finally:
        gone = ("DROP FUNCTION public.sly CASCADE", "DROP ROLE owner")
        run(mirror.warehouse, *gone) if side == "source" else mirror.at_sink(*gone)


def test_the_text_of_a_made_value_is_what_copy_writes(mirror: Mirror) -> None:
    with closing(mirror.warehouse.connect()) as connection, connection.cursor() as cursor:
        names = [pg.sql.Identifier(name) for name in ("k", "m", "p", "a")]
        texts = pg.sql.SQL(", ").join(pg.text_form("kinds.any", name) for name in names)
        for percent in ({}, {"with": "parameters"}):
            cursor.execute(pg.sql.SQL("SELECT {} FROM ods.orders ORDER BY n LIMIT 4").format(texts), percent or None)
            assert cursor.fetchall() == [
                ("bad", None, "(,)", None),
                ("", "bad", None, "{ok,NULL}"),
                ("ok", None, "(1,y)", None),
                ("bad", "bad", "(,)", "{ok,NULL}"),
            ]
