"""Another user changes a target in Doris or Hologres: this is reported within seconds or at the start.

One job has a table for each act.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import Mirror
from tests.support.pairs import TARGET, DorisPair, HologresPair
from tests.support.standin import run
from tests.support.waiting import until

ACTS = ("truncated", "remade", "exchanged", "narrowed", "emptied")
RUNNING, STOPPED = [f"r_{act}" for act in ACTS], [f"s_{act}" for act in ACTS]
ROWS = tuple((key, key) for key in range(1, 31))
DORIS_COLUMNS, HOLOGRES_COLUMNS = "id BIGINT NOT NULL, v BIGINT", "id bigint, v bigint"
WITHIN = 20.0
"""Seconds that a test waits on a busy host; the product promises five."""


def _at_doris(pair: DorisPair, table: str) -> None:
    act, tables = table[2:], pair.doris.tables
    if act == "truncated":
        tables.truncate("mart", table)
    elif act == "remade":
        tables.drop("mart", table)
        pair.doris.create(f"mart.{table}", DORIS_COLUMNS, ("id",))
    elif act == "exchanged":
        pair.doris.create("mart.other", DORIS_COLUMNS, ("id",))
        tables.take_place("mart", table, "other")
    elif act == "narrowed":
        tables.drop_column("mart", table, "v")
    else:
        tables.delete_all("mart", table)


def _at_hologres(pair: HologresPair, table: str) -> None:
    act = table[2:]
    if act in ("remade", "exchanged"):
        name = table if act == "remade" else f"{table}_new"
        if act == "remade":
            pair.hologres.drop(f"mart.{table}")
        pair.hologres.create(f"mart.{name}", HOLOGRES_COLUMNS, ("id",))
    done = {
        "truncated": (f"TRUNCATE mart.{table}",),
        "exchanged": (
            f"ALTER TABLE mart.{table} RENAME TO {table}_old",
            f"ALTER TABLE mart.{table}_new RENAME TO {table}",
        ),
        "narrowed": (f"ALTER TABLE mart.{table} DROP COLUMN v",),
        "emptied": (f"DELETE FROM mart.{table}",),
    }
    pair.hologres.run(*(pg.sql.SQL(statement) for statement in done.get(act, ())))


def _filled(mirror: Mirror, warehouse: Warehouse, make: Callable[[str], object]) -> None:
    """Return a table named for each act, in addition to the pair's own."""
    for name in (*RUNNING, *STOPPED):
        warehouse.create_table(f"ods.{name}", "id bigint, v bigint", ("id",), ("id",))
        run(warehouse, f"INSERT INTO ods.{name} SELECT n, n FROM generate_series(1, 30) n")
        make(name)
    channels = tuple(ChannelSpec(f"ods.{name}", f"mart.{name}") for name in ("t", *RUNNING, *STOPPED))
    mirror.job = replace(mirror.job, channels=channels)


def _confirmed(mirror: Mirror, name: str = "t") -> bool:
    """Whether everything that the target has is confirmed at the source."""
    return all(
        row.registered is not None and row.position is not None and row.registered.at(row.position) == row.registered
        for row in mirror.rows()
        if row.key.source_table == f"ods.{name}"
    )


def _continues(pair: DorisPair | HologresPair) -> None:
    """All rows are deleted by the job's own events and inserted again, and the source is confirmed."""
    for changes in (tuple((key, None) for key, _ in ROWS), ROWS):
        pair.write(*changes)
        pair.wait(lambda: pair.compare().equal, what="the untouched table to be equal")
        until(lambda: _confirmed(pair.mirror), WITHIN, "the source to be told")


def _named(pair: DorisPair | HologresPair, act: Callable[..., None]) -> None:
    """Each act, under a running job and a stopped one; positions of untouched tables are confirmed at all times."""
    mirror = pair.mirror
    pair.write(*ROWS)
    mirror.start().wait_running()
    pair.wait_equal()
    for name in RUNNING:
        act(pair, name)
    for name in RUNNING:
        report = mirror.wait_table(f"ods.{name}", JobState.FAILED, WITHIN)
        assert report.trouble == TroubleName.TARGET_CHANGED.value, report
        assert f"mart.{name}" in report.reason, report
    _continues(pair)
    mirror.stop()
    for name in STOPPED:
        act(pair, name)
    mirror.start().wait_running()
    for name in (*RUNNING, *STOPPED):
        report = mirror.wait_table(f"ods.{name}", JobState.FAILED, WITHIN)
        assert name.endswith("_narrowed") or report.trouble == TroubleName.TARGET_CHANGED.value, report
        assert f"mart.{name}" in report.reason, report
    _continues(pair)
    mirror.stop()


def test_each_act_on_a_doris_is_named_and_loads_raise_nothing(doris_pair: DorisPair) -> None:
    _filled(
        doris_pair.mirror,
        doris_pair.warehouse,
        lambda name: doris_pair.doris.create(f"mart.{name}", DORIS_COLUMNS, ("id",)),
    )
    _named(doris_pair, _at_doris)


def test_each_act_on_a_hologres_is_named_and_harmless_ones_are_not(hologres_pair: HologresPair) -> None:
    pair = hologres_pair
    _filled(pair.mirror, pair.warehouse, lambda name: pair.hologres.create(f"mart.{name}", HOLOGRES_COLUMNS, ("id",)))
    with closing(pair.hologres.server.connect(pair.hologres.database)) as line:
        line.autocommit = True
        for harmless in (
            "ANALYZE {}",
            "VACUUM FULL {}",
            "GRANT SELECT ON {} TO public",
            "ALTER TABLE {} ADD note text",
        ):
            line.cursor().execute(harmless.format(TARGET))
    _named(pair, _at_hologres)


def test_a_doris_that_tells_no_partitions_is_compared_by_columns_and_rows(doris_pair: DorisPair) -> None:
    pair, tables = doris_pair, doris_pair.doris.tables
    tables.tells_partitions = False
    pair.write(*ROWS)
    pair.mirror.start().wait_running()
    pair.wait_equal()
    tables.tells_partitions = True  # a position that was never confirmed proves nothing here
    pair.write((1, -1))
    pair.wait_equal()
    until(lambda: _confirmed(pair.mirror), WITHIN, "the source to be told")
    tables.tells_partitions = False
    tables.truncate("mart", "t")
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble), error
    assert error.name is TroubleName.TARGET_CHANGED
    assert "lost its rows" in error.message
