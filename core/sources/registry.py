"""The source kinds by their name in the configuration (`dialect`); each kind has one line in this module.

A kind is imported on first use. Its traits need no driver, so reading a configuration imports no driver.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from slotkeeper.core.errors import Defect

if TYPE_CHECKING:
    from slotkeeper.core.domain.position import Positions
    from slotkeeper.core.domain.traits import SourceTraits
    from slotkeeper.core.ports.kinds import SourceKind

KINDS = {
    "dws": "slotkeeper.core.sources.dws.kind",
    "hologres": "slotkeeper.core.sources.hologres.kind",
    "hologres_slot": "slotkeeper.core.sources.hologres.slot.kind",
    "mysql": "slotkeeper.core.sources.mysql.kind",
}
"""The module of each kind, which defines `KIND`; its sibling module `traits` defines `TRAITS`."""


@cache
def open(kind: str) -> SourceKind:
    """Return the kind of that name; raises Defect for an unknown name, which the configuration should have rejected."""
    if kind not in KINDS:
        raise Defect(f"unknown source kind {kind!r}")
    return cast("SourceKind", import_module(KINDS[kind]).KIND)


def positions(kind: str) -> Positions:
    """Return the position format of the kind of that name; raises Defect as `open` does."""
    return open(kind).positions


@cache
def traits(kind: str) -> SourceTraits:
    """Return the traits of the kind of that name; raises Defect for an unknown name, as `open` does."""
    if kind not in KINDS:
        raise Defect(f"unknown source kind {kind!r}")
    return cast("SourceTraits", import_module(f"{KINDS[kind].rpartition('.')[0]}.traits").TRAITS)
