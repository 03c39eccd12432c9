"""Equal, and every event applied once, however a DWS may behave where its vendor says nothing.

Each run copies a table under writers, follows it, stops in between and goes on; afterwards the target equals the source
and the events applied per DN are those that the writers booked in their own ledger.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product

import pytest

from slotkeeper.demo.switches import Switches, all_values
from tests.support.covering import covering
from tests.support.flow import as_superuser, orders, writers, written
from tests.support.mirror import At, MakeMirror
from tests.support.standin import MakeWarehouse

SEED = 4
ROWS = covering(all_values(), 2, SEED)
EVERY = "SLOTKEEPER_CHAOS_EVERY_COMBINATION"
"""Set: a chaos run takes all 4,096 combinations, which needs hours; else those that cover any four switches."""


def text_of(row: dict[str, bool]) -> str:
    return Switches(**row).text()


def mirrored(switches: Switches, make_warehouse: MakeWarehouse, make_mirror: MakeMirror, seed: int) -> None:
    warehouse = make_warehouse(switches=switches)
    mirror = orders(make_mirror, warehouse, seed)
    # where the slots hold back the xmin, only a login that sees other sessions can tell when they have ended
    mirror = as_superuser(mirror) if switches.xmin_includes_slots else mirror
    options = replace(mirror.job.binlog, new_system_value=switches.new_system_names)
    mirror.job = replace(mirror.job, binlog=options)
    early = writers(mirror, seed)
    mirror.start(driver_probe=At("after_first_registration", early.start))
    mirror.wait_running()
    early.stop()
    with written(mirror, seed + 1):
        warehouse.purge()
        mirror.stop()
        warehouse.purge()
    mirror.start().wait_applied(mirror.booked())
    mirror.stop()
    mirror.close()  # a run over many combinations would keep too many sessions


@pytest.mark.parametrize("row", ROWS, ids=[f"row{n}" for n in range(len(ROWS))])
def test_the_mirror_is_equal_under_every_pair_of_switches(
    row: dict[str, bool], make_warehouse: MakeWarehouse, make_mirror: MakeMirror, seed: int
) -> None:
    print(f"seed {seed}, {text_of(row)}")
    mirrored(Switches(**row), make_warehouse, make_mirror, seed)


@pytest.mark.chaos
@pytest.mark.timeout(0)
def test_the_mirror_is_equal_under_every_setting_of_any_four_switches(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, seed: int
) -> None:
    names = list(all_values())
    every = [dict(zip(names, values, strict=True)) for values in product((True, False), repeat=len(names))]
    taken = every if os.environ.get(EVERY) else covering(all_values(), 4, seed)
    for number, row in enumerate(taken, 1):
        print(f"seed {seed}, {number} of {len(taken)}: {text_of(row)}", flush=True)
        mirrored(Switches(**row), make_warehouse, make_mirror, seed)
