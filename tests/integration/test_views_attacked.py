"""Forms and events around a view that could make it wrong without a word: followed, noticed, or refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from slotkeeper.core.domain.spec import ChannelSpec, ViewSpec
from slotkeeper.core.errors import Refused
from slotkeeper.core.sinks.postgres.views.compare import PostgresViews
from tests.support.views import SOME, Layers

FOLLOWED = {
    "conditions that are counted": (
        "id int PRIMARY KEY, g text, f bool, a bool",
        "(1, 'a', true, false), (2, 'a', null, true), (3, 'a', false, null)",
        ViewSpec("dws.v", "SELECT g, count(NOT f) AS n, count(a AND f) AS m, count(a OR f) AS o FROM ods.t GROUP BY g"),
        "INSERT INTO ods.t VALUES (4, 'a', null, false)",
    ),
    "a number with another scale": (
        "id int PRIMARY KEY, d numeric",
        "(1, 1.0), (2, 1.0)",
        ViewSpec("dws.v", "SELECT d::text AS k, count(*) AS n FROM ods.t GROUP BY d::text"),
        "UPDATE ods.t SET d = 1.00 WHERE id = 1",
    ),
    "equal values": (
        "id int PRIMARY KEY, i interval, p path, b box, j jsonb, n numeric, f float8",
        """(1, '24 hours', '[(0,0),(1,1)]', '(0,0),(1,4)', '{"a": 1.0}', 1.0, 0)""",
        ViewSpec("dwd.v", "SELECT id, i, p, b, j, n, f FROM ods.t", ("id", "n")),
        "UPDATE ods.t SET i = '1 day', p = '[(5,5),(6,6)]', b = '(0,0),(2,2)', j = '{\"a\": 1.00}', n = 1.00, f = '-0'",
    ),
    "outputs without an equality": (
        "id int PRIMARY KEY, j json, p point",
        """(1, '{"a": 1}', '(0,0)')""",
        ViewSpec("dwd.v", "SELECT id, j, p FROM ods.t", ("id",)),
        """UPDATE ods.t SET j = '{"a":  1}', p = '(1,1)'""",
    ),
    "a writer with other settings": (
        "id int PRIMARY KEY, g text, ts timestamptz, a text[]",
        "(1, 'a', '2024-01-01 08:00Z', NULL)",
        ViewSpec(
            "dws.v", "SELECT g, count(*) AS n FROM ods.t WHERE ts >= '2024-01-01 12:00 IST' OR a > '{NULL}' GROUP BY g"
        ),
        "SET LOCAL timezone_abbreviations = 'India'; SET LOCAL array_nulls = off;"
        " INSERT INTO ods.t VALUES (2, 'a', '2024-01-01 08:00Z', NULL),"
        " (3, 'b', NULL, ARRAY['M']), (4, 'c', '2024-01-01 11:00Z', NULL)",
    ),
}


@pytest.mark.parametrize("case", FOLLOWED)
def test_a_round_follows(layers: Layers, case: str) -> None:
    columns, rows, view, change = FOLLOWED[case]
    layers.run(f"CREATE TABLE ods.t ({columns})", f"INSERT INTO ods.t VALUES {rows}")
    layers.views = (view,)
    job = layers.job
    views = PostgresViews(layers.session(), replace(job, channels=(*job.channels, ChannelSpec("src.t", "ods.t"))))
    views.build(view.target, epoch := views.enter())
    layers.run(change)
    assert views.round(epoch).applied
    fresh, there = (sorted(layers.rows(f"SELECT q::text FROM {one} q")) for one in (f"({view.sql})", view.target))
    assert there == fresh
    assert views.verify(view.target) == []


NOTICED = {
    "ALTER TABLE ods.orders RENAME TO o; DELETE FROM ods.o WHERE id = 1; ALTER TABLE ods.o RENAME TO orders": "renamed",
    "ALTER SCHEMA ods RENAME TO o; DELETE FROM o.orders WHERE id = 1; ALTER SCHEMA o RENAME TO ods": "renamed",
    "ALTER TABLE dws.by_status RENAME TO b; DELETE FROM dws.b; ALTER TABLE dws.b RENAME TO by_status": "renamed",
    "ALTER TABLE dws.by_status ALTER amount TYPE numeric(10,0)": "altered",
    "CREATE RULE r AS ON DELETE TO dws.by_status DO INSTEAD NOTHING": "rule r of the view's table",
    "CREATE FUNCTION ods.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER f"
    " BEFORE UPDATE ON dws.by_status FOR EACH ROW EXECUTE FUNCTION ods.f()": "trigger f of the view's table",
}


@pytest.mark.parametrize("change", NOTICED)
def test_a_change_around_a_view_is_noticed(layers: Layers, change: str) -> None:
    layers.views = layers.views[3:4]
    layers.run(SOME)
    views, epoch = layers.built()
    layers.run(*change.split("; "))
    assert NOTICED[change] in views.round(epoch).stale["dws.by_status"]


NOT_BUILT = {
    "SELECT g, count(*) AS n FROM ods.t GROUP BY g": "column g of ods.t is a virtual generated column",
    "SELECT j ->> 'a' AS a, count(*) AS n FROM ods.t GROUP BY j ->> 'a'": "column j of ods.t has the type json",
    "SELECT ctid AS c, count(*) AS n FROM ods.t GROUP BY ctid": "column ctid of ods.t does not exist",
    "SELECT v, max(t.to_jsonb) AS n FROM ods.t GROUP BY v": "column to_jsonb of ods.t does not exist",
    "SELECT v, max(nvl(v, 'x')) AS n FROM ods.t GROUP BY v": "function nvl(text, unknown) does not exist",
}


@pytest.mark.parametrize("sql", NOT_BUILT)
def test_a_view_that_could_become_wrong_is_not_built(layers: Layers, sql: str) -> None:
    virtual = "VIRTUAL" if layers.connection.server_version >= 180_000 else "STORED"
    layers.run(f"CREATE TABLE ods.t (id int, v text, j json, g text GENERATED ALWAYS AS (lower(v)) {virtual})")
    layers.views = (ViewSpec("dws.v", sql),)
    job = layers.job
    views = PostgresViews(layers.session(), replace(job, channels=(*job.channels, ChannelSpec("src.t", "ods.t"))))
    epoch = views.enter()
    if "g, count" in sql and virtual == "STORED":
        views.build("dws.v", epoch)
        return
    with pytest.raises(Refused, match=re.escape(NOT_BUILT[sql])):
        views.build("dws.v", epoch)
