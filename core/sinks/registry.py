"""The kinds of sink by their name in the configuration (`kind`); to add a kind, add one line here.

A kind is imported when it is first used. Its traits can be imported separately, for callers that need no driver.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from slotkeeper.core.errors import Defect

if TYPE_CHECKING:
    from slotkeeper.core.domain.traits import SinkTraits
    from slotkeeper.core.ports.kinds import SinkKind

KINDS = {
    "postgres": ("slotkeeper.core.sinks.postgres.kind", "POSTGRES"),
    "dws": ("slotkeeper.core.sinks.postgres.kind", "DWS"),
    "doris": ("slotkeeper.core.sinks.doris.kind", "DORIS"),
    "hologres": ("slotkeeper.core.sinks.hologres.kind", "HOLOGRES"),
}
"""The module and name of each kind; the sibling module `traits` contains its traits under the same name."""


@cache
def open(kind: str) -> SinkKind:
    """Return the kind with this name; raises Defect for a name that the configuration should have rejected."""
    if kind not in KINDS:
        raise Defect(f"unknown sink kind {kind!r}")
    module, name = KINDS[kind]
    return cast("SinkKind", getattr(import_module(module), name))


@cache
def traits(kind: str) -> SinkTraits:
    """Return the kind's traits; raises Defect for a name that the configuration should have rejected."""
    if kind not in KINDS:
        raise Defect(f"unknown sink kind {kind!r}")
    module, name = KINDS[kind]
    return cast("SinkTraits", getattr(import_module(f"{module.rpartition('.')[0]}.traits"), name))
