"""A logical cluster: DNs without data of a table are not its lanes, whatever they answer."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.services.verify import verify
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.source import DwsSource
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.standin import run

TABLE = "ods.t"


@pytest.mark.parametrize("answers", [False, pytest.param(True, marks=pytest.mark.chaos)], ids=["silent", "answering"])
def test_a_dn_that_does_not_hold_the_table_has_no_lane(
    warehouse: Warehouse, make_mirror: MakeMirror, answers: bool
) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    warehouse.node_elsewhere("dn_of_others", answers)
    mirror = make_mirror(warehouse, TABLE)
    mirror.source(f"INSERT INTO {TABLE} SELECT n, 'x' FROM generate_series(1, 50) n")
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET v = 'y' WHERE id < 20")
    mirror.wait_equal()
    assert {row.key.shard for row in mirror.rows()} == {name for name, _ in warehouse.nodes()}
    epoch = mirror.heard.epoch
    # another comes while the job runs: nothing stops for it
    warehouse.node_elsewhere("dn_of_others_2", answers)
    mirror.source(f"DELETE FROM {TABLE} WHERE id > 40")
    mirror.wait_equal()
    assert mirror.heard.epoch == epoch, "no start for a DN of another node group"
    mirror.stop()
    assert verify(mirror.job, runs=False, on_rows=lambda done, planned: None).equal
    run(warehouse, f"INSERT INTO {TABLE} VALUES (100, 'z')")
    mirror.start().wait_running()
    mirror.wait_equal()


def test_a_table_whose_dns_are_unknown_is_taken_to_lie_on_all(warehouse: Warehouse) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    warehouse.node_elsewhere("dn_of_others")
    session = DwsSession(warehouse.endpoint(), warehouse.etl_password_file.read_text("utf-8").strip(), "test")
    source = DwsSource(session, TABLE, "s", BinlogOptions(binlog=True))
    quarantined = {name for name, _ in warehouse.nodes()}
    assert {shard.name for shard in source.nodes()} == quarantined
    run(warehouse, "REVOKE SELECT ON pg_catalog.pgxc_class FROM PUBLIC")
    assert {shard.name for shard in source.nodes()} == {*quarantined, "dn_of_others"}
    session.close()
