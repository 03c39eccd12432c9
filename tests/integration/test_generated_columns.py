"""Generated columns of a source: a stored one is mirrored, a virtual one is in no binlog and is refused or left out.

DWS, CREATE TABLE: a column-store table, which an HStore table is, takes NULL, NOT NULL and DEFAULT alone, so that none
of its columns is generated. PostgreSQL 18 makes virtual columns by default.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.spec import BinlogOptions, TableAsked
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.core.services.doctor import check_source
from slotkeeper.core.sources.dws.slot import DwsTable
from slotkeeper.core.sources.dws.viewer import DwsViewer
from slotkeeper.core.wiring.worker import source_session
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.standin import run

TABLE = "ods.t"
SAID = f"column v of {TABLE} is a virtual column: the binlog does not contain its value"


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    with closing(warehouse.connect()) as connection:
        if connection.server_version < 180_000:
            pytest.skip("virtual generated columns are PostgreSQL 18's")
    columns = "id bigint, n bigint, s bigint GENERATED ALWAYS AS (n * 3) STORED, v bigint GENERATED ALWAYS AS (n * 2)"
    warehouse.create_table(TABLE, columns, ("id",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT g, g FROM generate_series(1, 5) g")
    return make_mirror(warehouse, TABLE, "mart.t")


def test_a_virtual_column_is_refused_by_name_because_the_binlog_has_no_value_of_it(
    mirror: Mirror, tmp_path: Path
) -> None:
    error = mirror.start().wait_error()
    assert isinstance(error, Refused) and SAID in error.message
    assert "columns = { ... }" in error.hint and "GENERATED ALWAYS AS (...) STORED" in error.hint
    path = config(tmp_path, mirror.job.source, mirror.job.sink, job("j", mirror.job.slot, TABLE, "mart.t"))
    loaded = load(path, {})
    found = check_source(loaded, loaded.sources["dws1"])
    assert any(SAID in one.text for one in found if one.level is Level.FAIL)


def test_a_virtual_column_that_is_left_out_is_computed_by_the_target(mirror: Mirror) -> None:
    body = "id bigint PRIMARY KEY, n bigint, s bigint, v bigint GENERATED ALWAYS AS (n * 2)"
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE mart.t ({body})")
    channel = replace(mirror.job.channel, create_target=False, columns=(("id", "id"), ("n", "n"), ("s", "s")))
    mirror.job = replace(mirror.job, channels=(channel,))
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET n = n + 10", f"INSERT INTO {TABLE} VALUES (6, 6)")
    mirror.wait_equal()
    mirror.stop()


def test_a_row_filter_over_a_virtual_column_is_refused(mirror: Mirror) -> None:
    channel = replace(mirror.job.channel, columns=(("id", "id"),), where='"v" > 4')
    mirror.job = replace(mirror.job, channels=(channel,))
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "cannot parse where" in error.message and 'column "v" does not exist' in error.message


def test_a_full_copy_carries_what_is_computed(mirror: Mirror) -> None:
    mirror.job = replace(mirror.job, binlog=BinlogOptions())
    mirror.start().join()
    assert mirror.error is None and ("(5,5,15,10)",) in mirror.target_rows()


def test_a_catalog_that_knows_no_generated_columns_is_read(mirror: Mirror) -> None:
    """As in the catalog of DWS: `attgenerated` came with PostgreSQL 12."""
    run(
        mirror.warehouse,
        "CREATE SCHEMA older",
        "CREATE VIEW older.pg_attribute AS SELECT attrelid, attname, attnum, attisdropped FROM pg_attribute",
        "GRANT USAGE ON SCHEMA older TO etl; GRANT SELECT ON older.pg_attribute TO etl",
    )
    admin = source_session(mirror.job, "test").table(TableAsked.of(mirror.job)).slot
    assert isinstance(admin, DwsTable)
    with closing(admin.session):
        admin.session.composed_rows(pg.sql.SQL("SET search_path = older, pg_catalog"), None)
        facts = DwsViewer(admin.session).table_facts(TABLE)
    assert facts and facts.columns == ("id", "n", "s", "v") and facts.virtual == ()
