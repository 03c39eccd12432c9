"""A view's SELECT is read into a plan, or rejected with its line, the reason and a fix."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.spec import ViewSpec
from slotkeeper.core.views.parse import parse, parse_all
from slotkeeper.core.views.plan import Capture, View, ViewRefused

MIRRORED = ("ods.a", "ods.b")


def read(sql: str, key: tuple[str, ...] = (), lookup: tuple[str, ...] = (), method: str = "auto") -> View:
    (view,) = parse_all([ViewSpec("dws.v", sql, key, lookup, method)], MIRRORED)
    return view


def test_the_key_of_an_aggregate_is_its_groups_and_what_is_captured_follows_from_its_form() -> None:
    added = read("SELECT x, y, count(*) AS n, sum(z) AS z FROM ods.a GROUP BY x, y")
    assert (added.key, added.may_add, added.capture(True)) == (("x", "y"), True, Capture.WEIGHTS)
    recomputed = read("SELECT lower(x) AS x, max(z) AS z FROM ods.a GROUP BY 1")
    assert (recomputed.key, recomputed.may_add, recomputed.capture(False)) == (("x",), False, Capture.KEYS)
    joined = read("SELECT a.id, b.x FROM ods.a LEFT JOIN ods.b ON b.id = a.b", ("id",))
    assert (joined.capture(False), joined.tables) == (Capture.IMAGES, ("ods.a", "ods.b"))


def test_a_pasted_insert_names_the_columns_and_must_name_the_view() -> None:
    view = read("INSERT INTO dws.v (k, n) SELECT x, count(*) FROM ods.a GROUP BY x")
    assert view.columns == ("k", "n")
    with pytest.raises(ViewRefused, match=r"INSERT INTO dws\.other"):
        read("INSERT INTO dws.other SELECT x, count(*) AS n FROM ods.a GROUP BY x")


def test_a_stored_view_can_be_read_to_be_removed_whatever_accepted_it() -> None:
    sql = "SELECT 'k' AS k, count(*) AS n FROM ods.a GROUP BY 1"
    assert parse(ViewSpec("dws.v", sql), None).tables == ("ods.a",)


def test_unquoted_names_are_lower_case_and_quoted_names_stay() -> None:
    assert read("SELECT id, Ä FROM ods.a", ("id",)).columns == ("id", "Ä")
    assert read('SELECT ID, "Name" FROM ods.a', ("id",)).columns == ("id", "Name")


def test_built_in_types_are_accepted_in_casts() -> None:
    types = "int smallint bigint numeric(10,2) real float8 text varchar(3) char(2) date time timestamp timestamptz json"
    casts = ", ".join(
        f"x::{type_} AS c{n}" for n, type_ in enumerate([*types.split(), "jsonb", "uuid", "bytea", "bool"])
    )
    assert len(read(f"SELECT id, {casts}, interval '1 day' AS i FROM ods.a", ("id",)).columns) == 20


def test_views_follow_the_views_that_they_read_and_no_circle_is_accepted() -> None:
    one = ViewSpec("dws.one", "SELECT x, sum(n) AS n FROM dws.two GROUP BY x")
    two = ViewSpec("dws.two", "SELECT x, count(*) AS n FROM ods.a GROUP BY x")
    assert [view.target for view in parse_all([one, two], MIRRORED)] == ["dws.two", "dws.one"]
    circle = ViewSpec("dws.two", "SELECT x, count(*) AS n FROM dws.one GROUP BY x")
    with pytest.raises(ViewRefused, match=r"dws.one -> dws.two -> dws.one"):
        parse_all([one, circle], MIRRORED)
    with pytest.raises(ViewRefused, match="another view or channel writes this table"):
        parse_all([ViewSpec("ods.a", "SELECT x, count(*) AS n FROM ods.b GROUP BY x")], MIRRORED)


REFUSED = {
    "SELECT id,\n now() AS t FROM ods.a": ("line 2", "the current time"),
    "SELECT\n * FROM ods.a": ("line 2", r"SELECT \*"),
    "SELECT id, row_number() OVER () AS r FROM ods.a": ("line 1", "window function"),
    "SELECT id FROM ods.a LIMIT 3": ("line 1", "LIMIT"),
    "SELECT id FROM ods.a ORDER BY id": ("line 1", "ORDER BY"),
    "SELECT DISTINCT id FROM ods.a": ("line 1", "SELECT DISTINCT"),
    "WITH x AS (SELECT 1) SELECT id FROM ods.a": ("line 1", "WITH"),
    "SELECT id FROM ods.a WHERE id IN (SELECT id FROM ods.b)": ("line 1", "subquery"),
    "SELECT q.id FROM (SELECT id FROM ods.a) q": ("line 1", "subquery in FROM"),
    "SELECT a.id FROM ods.a a FULL JOIN ods.b b ON a.id = b.id": ("line 1", "FULL JOIN"),
    "SELECT a.id FROM ods.a a RIGHT JOIN ods.b b ON a.id = b.id": ("line 1", "RIGHT JOIN"),
    "SELECT a.id FROM ods.a a, ods.b b": ("line 1", "join without ON"),
    "SELECT a.id FROM ods.a a JOIN ods.b b USING (id)": ("line 1", "USING"),
    "SELECT id FROM ods.a a JOIN ods.b b ON a.id = b.id": ("line 1", "without its table"),
    "SELECT id FROM ods.c": ("line 1", "not mirrored"),
    "SELECT id, mine(x) AS y FROM ods.a": ("line 1", "mine"),
    "SELECT id, x::regclass AS y FROM ods.a": ("line 1", "a cast to REGCLASS"),
    "SELECT count(*) AS n FROM ods.a": ("line 1", "aggregate without GROUP BY"),
    "SELECT count(*) AS n FROM ods.a GROUP BY x": ("line 1", "not an output column"),
    "SELECT x, y, count(*) AS n FROM ods.a GROUP BY x": ("line 1", "not grouped"),
    "SELECT x, count(*) FROM ods.a GROUP BY x": ("line 1", "without a name"),
    "SELECT x, string_agg(y, ',' ORDER BY z) AS s FROM ods.a GROUP BY x": ("line 1", "without a total order"),
    "SELECT x, array_agg(y) AS s FROM ods.a GROUP BY x": ("line 1", "array_agg"),
    "SELECT id FROM ods.a UNION SELECT id FROM ods.b": ("line 1", "UNION without ALL"),
    "SELECT id FROM ods.a UNION ALL SELECT id FROM ods.b": ("line 1", "does not distinguish"),
    "SELECT a.id FROM ods.a FOR SYSTEM_TIME AS OF now() AS a": ("line 1", "."),
    "SELECT id FROM ods.a WHERE d = 'today'": ("line 1", "the literal 'today'"),
    "SELECT id,\n d > ' NOW ' AS n FROM ods.a": ("line 2", "the literal"),
    "SELECT id FROM ods.a WHERE d < timestamp '10:00 Yesterday'": ("line 1", "the literal"),
    "SELECT id FROM ods.a WHERE d < 'allballs'::time": ("line 1", "the literal"),
    "SELECT id FROM ods.a AS a (id, x)": ("line 1", "column names"),
    "SELECT id FROM ods.a TABLESAMPLE BERNOULLI (10)": ("line 1", "."),
    "SELECT id FROM ONLY ods.a": ("line 1", "ONLY"),
    "SELECT id FROM other.ods.a": ("line 1", "CATALOG"),
    "SELECT a.id FROM ods.a a NATURAL JOIN ods.b b": ("line 1", "NATURAL"),
    "SELECT a.id FROM ods.a a ASOF JOIN ods.b b ON a.id = b.id": ("line 1", "."),
    "SELECT a.id FROM ods.a a JOIN (ods.b b JOIN ods.a c ON c.id = b.id) ON a.id = b.id": ("line 1", "."),
    "SELECT date_part('epoch', d) AS d, count(*) AS n FROM ods.a GROUP BY 1": ("", "write EXTRACT|date_part"),
    "SELECT 'k' AS k, count(*) AS n FROM ods.a GROUP BY 1": ("line 1", "GROUP BY without columns"),
    "SELECT id, ('n' || 'ow')::timestamp AS t FROM ods.a": ("line 1", "computed constant"),
    "SELECT x, string_agg(y, z ORDER BY y) AS s FROM ods.a GROUP BY x": ("line 1", "as separator"),
    "SELECT 1 AS b, x, count(*) AS n FROM ods.a GROUP BY 1, 2"
    " UNION ALL SELECT 1.0, x, count(*) FROM ods.b GROUP BY 1, 2": ("line 1", "does not distinguish"),
    "SELECT t0.x, count(*) AS n FROM ods.a t0"
    + "".join(f" LEFT JOIN ods.b t{n} ON t{n}.x = t0.x" for n in range(1, 9))
    + " WHERE "
    + " AND ".join(f"t{n}.y IS NULL" for n in range(1, 9))
    + " GROUP BY t0.x": ("line 1", "more than 7 LEFT JOINs"),
    "SELECT id FROM": ("line 1", "cannot parse"),
    "DELETE FROM ods.a": ("line 1", "DELETE"),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_a_form_that_no_round_can_maintain_is_rejected_with_its_line(sql: str) -> None:
    line, what = REFUSED[sql]
    with pytest.raises(ViewRefused, match=what) as error:
        read(sql, ("id",) if "count" not in sql and "agg" not in sql else ())
    assert line in error.value.message
    assert error.value.target == "dws.v"


@pytest.mark.parametrize(
    ("sql", "key", "what"),
    [
        ("SELECT id, x FROM ods.a", (), "without a key"),
        ("SELECT id, x FROM ods.a", ("no",), "not an output column"),
        ("SELECT d.k, a.id FROM ods.a a JOIN dim.d d ON d.k = a.k", ("k",), "of a lookup table"),
        ("SELECT d.k FROM dim.d d JOIN ods.a a ON d.k = a.k", ("k",), "in first place"),
        ("SELECT x, count(*) AS n FROM ods.a GROUP BY x", ("n",), "aggregate n in the key"),
    ],
)
def test_a_key_must_identify_rows_that_changes_of_mirrored_tables_move(
    sql: str, key: tuple[str, ...], what: str
) -> None:
    with pytest.raises(ViewRefused, match=what):
        read(sql, key, ("dim.d",))


def test_the_delta_method_is_rejected_where_its_sums_cannot_be_added() -> None:
    with pytest.raises(ViewRefused, match='method = "delta"'):
        read("SELECT x, max(y) AS y FROM ods.a GROUP BY x", method="delta")


def test_a_word_that_only_begins_like_the_current_time_is_accepted() -> None:
    assert read("SELECT id FROM ods.a WHERE s IN ('nowhere', 'knows', 'todays')", ("id",)).columns == ("id",)
