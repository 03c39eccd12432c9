"""Another user changes the tree of a target: a state that a start rejects, or lost rows of a partition, are reported.

All acts share one job.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.standin import run
from tests.support.waiting import until

MORE = "CREATE {} TABLE mart.more_of_{} (LIKE mart.{} INCLUDING ALL)"
ATTACH = "ALTER TABLE mart.{0} ATTACH PARTITION mart.more_of_{0} FOR VALUES FROM (1000) TO (2000)"
LOST = "lost a partition"
ACTS: dict[str, tuple[tuple[str, ...], str]] = {
    "attached": (
        (MORE.format("UNLOGGED", "attached", "attached"), ATTACH.format("attached")),
        "partition mart.more_of_attached of target mart.attached is not a logged table",
    ),
    "detached": (("ALTER TABLE mart.detached DETACH PARTITION mart.low_of_detached",), LOST),
    "unhurried": (("ALTER TABLE mart.unhurried DETACH PARTITION mart.low_of_unhurried CONCURRENTLY",), LOST),
    "dropped": (("DROP TABLE mart.low_of_dropped",), LOST),
    "inherited": (("CREATE TABLE mart.child () INHERITS (mart.inherited)",), "target mart.inherited has child tables"),
    "unlogged": (
        ("ALTER TABLE mart.low_of_unlogged SET UNLOGGED",),
        "partition mart.low_of_unlogged of target mart.unlogged is not a logged table",
    ),
    "triggered": (
        (
            "CREATE FUNCTION mart.swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "CREATE TRIGGER s BEFORE INSERT ON mart.low_of_triggered FOR EACH ROW EXECUTE FUNCTION mart.swallow()",
        ),
        "partition mart.low_of_triggered of target mart.triggered has a trigger (s)",
    ),
    "ruled": (
        ("CREATE RULE nothing AS ON DELETE TO mart.low_of_ruled DO INSTEAD NOTHING",),
        "partition mart.low_of_ruled of target mart.ruled has a rule (nothing)",
    ),
}
HARMLESS = {
    "grown": (MORE.format("", "grown", "grown"), ATTACH.format("grown")),
    "shrunk": ("ALTER TABLE mart.shrunk DETACH PARTITION mart.none_of_shrunk",),
}
WITHIN = 10.0
"""Seconds that a test waits on a busy host; the product promises five."""


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_a_change_of_a_targets_tree_is_named_and_an_empty_partition_comes_and_goes(
    warehouse: Warehouse, make_mirror: MakeMirror, running: bool
) -> None:
    names = [*ACTS, *HARMLESS]
    for name in names:
        warehouse.create_table(f"ods.{name}", "id bigint NOT NULL, v numeric(12,2)", ("id",))
        run(warehouse, f"INSERT INTO ods.{name} SELECT n, n FROM generate_series(1, 300) n")
    mirror = make_mirror(warehouse, f"ods.{names[0]}")
    mirror.job = replace(mirror.job, channels=tuple(ChannelSpec(f"ods.{name}", f"mart.{name}") for name in names))
    made = ["CREATE SCHEMA mart", "CREATE TABLE mart.inherited (id bigint PRIMARY KEY, v numeric(12,2))"]
    for name in set(names) - {"inherited"}:
        part = f"PARTITION OF mart.{name} FOR VALUES FROM"
        made += [
            f"CREATE TABLE mart.{name} (id bigint PRIMARY KEY, v numeric(12,2)) PARTITION BY RANGE (id)",
            f"CREATE TABLE mart.low_of_{name} {part} (0) TO (100)",
            f"CREATE TABLE mart.high_of_{name} {part} (100) TO (1000)",
            f"CREATE TABLE mart.none_of_{name} {part} (5000) TO (6000)",
        ]
        made += [f"CREATE TABLE mart.rest_of_{name} {part} (1000) TO (2000)"] if name == "shrunk" else []
    mirror.at_sink(*made)
    mirror.start().wait_running()
    mirror.wait_equal()
    if not running:
        mirror.stop()
    for statements, _ in ACTS.values():
        mirror.at_sink(*statements)
    for harmless in HARMLESS.values():
        mirror.at_sink(*harmless)
    if not running:
        mirror.start().wait_running()
    for name, (_, what) in ACTS.items():
        report = mirror.wait_table(f"ods.{name}", JobState.FAILED, WITHIN)
        assert what in report.reason, (name, report)
    for name in HARMLESS:
        run(warehouse, f"INSERT INTO ods.{name} VALUES (1000, 1)")
        there = f"SELECT id FROM mart.{name} WHERE id = 1000"
        until(lambda there=there: mirror.query(mirror.sink, there) == [(1000,)], 30, f"{name} to go on")  # type: ignore[misc]
    mirror.stop()
