"""Equal tables, and every event applied once, for every DWS behaviour that its vendor leaves open.

Each run copies a table under writers, follows it, stops in between and resumes; afterwards the target equals the source
and the events applied per DN are those that the writers booked in their own ledger.

Runs are chosen greedily: each row starts with a group that is still missing and takes for every other parameter the
value that covers most of the rest. Not minimal, but small, and the same for the same seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import TypeVar, cast

import pytest

from slotkeeper.demo.switches import Switches, all_values
from tests.support.mirror import At, MakeMirror, as_superuser, orders, writers, written
from tests.support.standin import MakeWarehouse

V = TypeVar("V")
Group = frozenset[tuple[str, object]]


def covering(parameters: Mapping[str, Sequence[V]], together: int = 2, seed: int = 0) -> list[dict[str, V]]:
    """Rows that cover every setting of any `together` parameters.

    >>> twelve = {name: (True, False) for name in "abcdefghijkl"}
    >>> len(covering(twelve)) < 13, len(covering(twelve, 3)) < 40
    (True, True)
    """
    chance = random.Random(seed)
    left = set(_all_groups(parameters, together))
    order = {group: chance.random() for group in sorted(left, key=lambda group: sorted(map(str, group)))}
    rows: list[dict[str, V]] = []
    while left:
        row: dict[str, V] = dict(cast("frozenset[tuple[str, V]]", min(left, key=lambda group: order[group])))
        names = [name for name in parameters if name not in row]
        chance.shuffle(names)
        for name in names:
            best = {
                value: sum(group in left for group in _with(row, name, value, together)) for value in parameters[name]
            }
            most = max(best.values())
            row[name] = chance.choice([value for value in parameters[name] if best[value] == most])
        left -= set(groups_of(row, together))
        rows.append({name: row[name] for name in parameters})
    return rows


def groups_of(row: Mapping[str, object], together: int) -> Iterator[Group]:
    """Return every setting of `together` parameters that a row has."""
    return map(frozenset, combinations(row.items(), together))


def _all_groups(parameters: Mapping[str, Sequence[object]], together: int) -> Iterator[Group]:
    for names in combinations(parameters, together):
        for values in product(*(parameters[name] for name in names)):
            yield frozenset(zip(names, values, strict=True))


def _with(row: Mapping[str, object], name: str, value: object, together: int) -> Iterator[Group]:
    for others in combinations(row.items(), together - 1):
        yield frozenset((*others, (name, value)))


SEED = 4
ROWS = covering(all_values(), 2, SEED)
EVERY = "SLOTKEEPER_CHAOS_EVERY_COMBINATION"
"""If set, a chaos run takes all 4,096 combinations, which needs hours; else those that cover any four switches."""


def text_of(row: dict[str, bool]) -> str:
    return Switches(**row).text()


def mirrored(switches: Switches, make_warehouse: MakeWarehouse, make_mirror: MakeMirror, seed: int) -> None:
    warehouse = make_warehouse(switches=switches)
    mirror = orders(make_mirror, warehouse, seed)
    # where the slots hold back the xmin, only a login that sees other sessions can see that they have ended
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
