"""The kinds of source, by the name that the configuration gives them (`dialect`); a new one is one line here.

A kind is loaded when it is first asked for, and without it what it is: that is asked where no driver is wanted, as by
whoever reads a configuration.
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
"""The module of each kind, with `KIND`; its sibling module `traits` has `TRAITS`."""


@cache
def open(kind: str) -> SourceKind:
    """The kind of that name; raises Defect for one that the configuration should have refused."""
    if kind not in KINDS:
        raise Defect(f"unknown source kind {kind!r}")
    return cast("SourceKind", import_module(KINDS[kind]).KIND)


def positions(kind: str) -> Positions:
    """How the kind of that name writes its positions; raises Defect as `open` does."""
    return open(kind).positions


@cache
def traits(kind: str) -> SourceTraits:
    """What the kind of that name is; raises Defect for one that the configuration should have refused."""
    if kind not in KINDS:
        raise Defect(f"unknown source kind {kind!r}")
    return cast("SourceTraits", import_module(f"{KINDS[kind].rpartition('.')[0]}.traits").TRAITS)
