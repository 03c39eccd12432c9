"""Somebody changes a target: it is named within seconds or at the start, and nothing behind a change is confirmed.

All acts share one job, whose tables fail alone. Next door: `tests/unit/domain/test_target_seen.py` has the rules,
`tests/model/target.py` every interleaving of acts, checks and registrations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from core.domain.job import JobState, WantedState
from core.domain.spec import ChannelSpec
from core.drivers import pg
from core.embedded.warehouse import Warehouse
from core.errors import SlotkeeperError, Trouble, TroubleName
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

NAMED = TroubleName.TARGET_CHANGED.value
WITHIN = 30.0
"""Seconds that a test waits on a busy machine; the product promises five."""
SWALLOWS = """CREATE FUNCTION public.swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"""
ACTS: dict[str, tuple[str, ...]] = {
    "truncated": ("TRUNCATE mart.truncated",),
    "deleted": ("DELETE FROM mart.deleted",),
    "exchanged": (
        "ALTER TABLE mart.exchanged RENAME TO old_exchanged",
        "CREATE TABLE mart.exchanged (LIKE mart.old_exchanged INCLUDING ALL)",
    ),
    "restored": (
        "CREATE TABLE mart.kept AS TABLE mart.restored",
        "DROP TABLE mart.restored",
        "CREATE TABLE mart.restored (LIKE mart.kept)",
        "ALTER TABLE mart.restored ADD PRIMARY KEY (id)",
        "INSERT INTO mart.restored TABLE mart.kept",
    ),
    "reloaded": (
        "CREATE TABLE mart.kept_too AS TABLE mart.reloaded",
        "BEGIN; TRUNCATE mart.reloaded; INSERT INTO mart.reloaded SELECT * FROM mart.kept_too LIMIT 100; COMMIT",
    ),
    "retyped": ("ALTER TABLE mart.retyped ALTER COLUMN v TYPE numeric(12,1)",),
    "dropped": ("ALTER TABLE mart.dropped DROP COLUMN v",),
    "remade": ("ALTER TABLE mart.remade DROP COLUMN v", "ALTER TABLE mart.remade ADD COLUMN v numeric(12,2)"),
    "added": ("ALTER TABLE mart.added ADD COLUMN must int NOT NULL DEFAULT 1", "ALTER TABLE mart.added ALTER must DROP DEFAULT"),
    "triggered": (
        SWALLOWS,
        "CREATE TRIGGER swallows BEFORE INSERT OR UPDATE ON mart.triggered FOR EACH ROW EXECUTE FUNCTION public.swallow()",
    ),
    "ruled": ("CREATE RULE nothing AS ON INSERT TO mart.ruled DO INSTEAD NOTHING",),
    "secured": (
        "ALTER TABLE mart.secured ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE mart.secured FORCE ROW LEVEL SECURITY",
        "CREATE POLICY half ON mart.secured USING (id < 100)",
    ),
    "computed": ("ALTER TABLE mart.computed DROP COLUMN v", "ALTER TABLE mart.computed ADD COLUMN v numeric(12,2) GENERATED ALWAYS AS (id) STORED"),
    "unlogged": ("ALTER TABLE mart.unlogged SET UNLOGGED",),
    "keyed": ("CREATE UNIQUE INDEX second_key ON mart.keyed (v)",),
}
HARMLESS = (
    "VACUUM FULL {}",
    "CLUSTER {} USING {}_pkey",
    "CREATE INDEX ON {} (v)",
    "GRANT SELECT ON {} TO public",
    "ANALYZE {}",
    "REINDEX TABLE {}",
    "ALTER TABLE {} SET TABLESPACE pg_default",
    "ALTER TABLE {} ADD COLUMN note text",
    "ALTER TABLE {} ALTER COLUMN v TYPE numeric(14,2)",
)
LOGIN = "plain_writer"
STEADY = "steady"


@pytest.fixture
def watched(warehouse: Warehouse, make_mirror: MakeMirror) -> Iterator[Mirror]:
    yield mirror_of(warehouse, make_mirror, [*ACTS, STEADY])


def mirror_of(warehouse: Warehouse, make_mirror: MakeMirror, names: list[str]) -> Mirror:
    """A job of so many tables, into targets of a login for which row security holds."""
    for name in names:
        warehouse.create_table(f"ods.{name}", "id bigint NOT NULL, v numeric(12,2)", ("id",))
        run(warehouse, f"INSERT INTO ods.{name} SELECT n, n FROM generate_series(1, 300) n")
    mirror = make_mirror(warehouse, f"ods.{names[0]}")
    mirror.job = replace(
        mirror.job, channels=tuple(ChannelSpec(f"ods.{name}", f"mart.{name}", create_target=True) for name in names)
    )
    return mirror


def change(mirror: Mirror, name: str, *statements: str) -> None:
    """Carry an act out, as an administrator of the sink."""
    mirror.at_sink(*statements)


def confirmed(mirror: Mirror, name: str) -> dict[str, Any]:
    """What the source was told of a table, by lane."""
    return {row.key.shard: row.registered for row in mirror.rows() if row.key.source_table == f"ods.{name}"}


def test_each_act_on_a_target_under_a_running_job_is_named_and_nothing_behind_it_is_confirmed(watched: Mirror) -> None:
    watched.start().wait_running()
    watched.wait_equal()
    for statements in ACTS.values():
        watched.at_sink(*statements)
    for name in ACTS:
        report = watched.wait_table(f"ods.{name}", JobState.FAILED, WITHIN)
        assert NAMED in report.reason or report.trouble == NAMED, (name, report)
    run(watched.warehouse, f"INSERT INTO ods.{STEADY} VALUES (1000, 1)")
    until(lambda: (1000,) in watched.query(watched.sink, f"SELECT id FROM mart.{STEADY}"), 30, "the other goes on")
