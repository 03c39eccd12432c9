"""Session settings of a login or a database change neither the mirrored rows nor the rows that a row filter accepts."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.waiting import until

TABLE = "ods.listed"


def test_a_null_in_an_array_stays_one_whatever_the_sink_is_set_to(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    warehouse.create_table(TABLE, "id integer, tags text[]", ("id",), ("id",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.at_sink(f"ALTER DATABASE {mirror.sink_database} SET array_nulls = off")
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, ARRAY['a', NULL, 'NULL'])")
    mirror.start().wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (2, ARRAY['a', NULL, 'NULL'])")
    mirror.wait_equal(20)
    mirror.stop()


def test_a_row_filter_means_what_it_says_whatever_the_source_is_set_to(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    warehouse.create_table(TABLE, "id integer, n integer", ("id",), ("id",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.job = replace(mirror.job, channels=(replace(mirror.job.channel, where='"n" = NULL OR "n" > 0'),))
    mirror.source(
        f"ALTER DATABASE {warehouse.database} SET transform_null_equals = on",
        f"INSERT INTO {TABLE} VALUES (1, NULL), (2, 1)",
    )
    mirror.start().wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (3, NULL), (4, 1)")
    wanted = [("(2,1)",), ("(4,1)",)]
    until(lambda: sorted(mirror.target_rows()) == wanted, 20, "the accepted rows alone to be there")
    mirror.stop()
