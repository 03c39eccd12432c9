"""Tables and columns of any name are mirrored: named like our own aliases, or with what only quotes can carry."""

from __future__ import annotations

from dataclasses import replace

from core.domain.spec import SinkOptions
from core.embedded.warehouse import Warehouse
from core.wiring_slots import verify
from tests.support import odd_names
from tests.support.mirror import MakeMirror
from tests.support.standin import run


def test_names_of_our_own_and_names_that_need_quotes_are_copied_streamed_and_verified(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    odd_names.make(warehouse)
    mirror = make_mirror(warehouse, "ods.t")
    mirror.job = replace(
        mirror.job, channels=odd_names.channels(), sink_options=SinkOptions(ignore_null_when_update=True)
    )
    mirror.start().wait_running()
    odd_names.change(warehouse)
    mirror.wait_equal()
    mirror.stop()
    for part in mirror.job.narrowed:
        assert verify(part, False, lambda *_: None).equal, part.channel.source_table


def test_a_row_filter_over_a_column_named_like_one_of_verifys_own_is_compared(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    warehouse.create_table("ods.orders", "id bigint, k0 bigint", ("id",))
    run(warehouse, "INSERT INTO ods.orders SELECT n, n FROM generate_series(1, 9) n")
    mirror = make_mirror(warehouse, "ods.orders")
    mirror.job = replace(mirror.job, channels=(replace(mirror.job.channel, where="k0 > 2"),))
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, binlog=False))
    mirror.start().join()
    mirror.at_sink("UPDATE mart.orders SET k0 = 0 WHERE id = 7")
    assert verify(mirror.job, False, lambda *_: None).different.count == 1
