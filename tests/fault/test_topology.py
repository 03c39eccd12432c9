"""DNs are added, removed or renamed while a job runs, is stopped or copies, with and without unread changes.

Each time the mirror ends equal, or the job stops as TOPOLOGY CHANGED and the action that it calls safe leads to an
equal mirror. No row is ever older than one that was applied before. The stand-in moves rows between all DNs, the old
ones among them.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.report import Page
from tests.support.standin import MakeWarehouse
from tests.support.topology import KINDS, MOMENTS, UNREAD, check, prepared

BEYOND = ("added, unread left", "running")
"""Rows moved between old DNs past changes that a running job has not read: undocumented, and beyond all rules
(tests/model/topology.py, UNSUPPORTED_SCALING).
"""
EVERY = [
    (kind, moment, unread) for kind in KINDS for moment in MOMENTS for unread in UNREAD if (kind, moment) != BEYOND
]
QUICK = [
    *product(("added", "removed", "renamed"), ("running",), ("unread",)),
    *(
        (kind, *at)
        for kind in ("added", "removed", "renamed")
        for at in zip(("stopped", "mid-copy"), UNREAD, strict=True)
    ),
    ("two added", "paused", "nothing unread"),
    ("added without points", "running", "unread"),
    ("added, unread left", "stopped", "unread"),
    ("added, unread left", "mid-copy", "unread"),
    ("removed, unread left", "stopped", "unread"),
    ("exchanged names", "stopped", "unread"),
    ("renamed with another id", "paused", "unread"),
]


@pytest.mark.parametrize(("kind", "moment", "unread"), QUICK)
def test_another_set_of_dns_ends_equal_or_named(
    kind: str, moment: str, unread: str, warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = prepared(warehouse, make_mirror)
    print(check(mirror, kind, moment, unread, tmp_path))


@pytest.fixture(scope="session")
def page() -> Page:
    """The result of every case of the chaos run."""
    about = "Each change of the set of DNs at each moment, where asking recreates a slot and where it does not."
    columns = ("change", "moment", "changes", "makes slots", "latest inclusive", "the job")
    return Page("topology", "Another set of DNs", about, columns)


@pytest.mark.chaos
@pytest.mark.parametrize("makes_slots", [True, False])
@pytest.mark.parametrize(("kind", "moment", "unread"), EVERY)
def test_every_change_at_every_moment(
    kind: str,
    moment: str,
    unread: str,
    makes_slots: bool,
    make_warehouse: MakeWarehouse,
    make_mirror: MakeMirror,
    tmp_path: Path,
    page: Page,
) -> None:
    switches = Switches(auto_create=makes_slots, latest_inclusive=not makes_slots)
    mirror = prepared(make_warehouse(switches=switches), make_mirror)
    ended = check(mirror, kind, moment, unread, tmp_path)
    page.add(kind, moment, unread, makes_slots, not makes_slots, ended)
