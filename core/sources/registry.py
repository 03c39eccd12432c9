"""The source kinds by their name in the configuration (`dialect`); each kind, and each mode, has one line here.

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
    "dws": ("slotkeeper.core.sources.dws.kind", ""),
    "hologres": ("slotkeeper.core.sources.hologres.kind", ""),
    "hologres_slot": ("slotkeeper.core.sources.hologres.kind", "SLOT_"),
    "mysql": ("slotkeeper.core.sources.mysql.kind", ""),
}
"""The module of each kind, which defines `KIND`, and its mode, which is a prefix of that name.

The sibling module `traits` defines `TRAITS` with the same prefix.
"""


@cache
def open(kind: str) -> SourceKind:
    if kind not in KINDS:
        raise Defect(f"unknown source kind {kind!r}")
    module, mode = KINDS[kind]
    return cast("SourceKind", getattr(import_module(module), f"{mode}KIND"))


def positions(kind: str) -> Positions:
    return open(kind).positions


@cache
def traits(kind: str) -> SourceTraits:
    if kind not in KINDS:
        raise Defect(f"unknown source kind {kind!r}")
    module, mode = KINDS[kind]
    return cast("SourceTraits", getattr(import_module(f"{module.rpartition('.')[0]}.traits"), f"{mode}TRAITS"))
