"""The kinds of sink, by the name that the configuration gives them (`kind`); a new one is one line here.

A kind is loaded when it is first asked for, and without it what it can do: that is asked where no driver is wanted.
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
"""The module of each kind and its name there; the sibling module `traits` has its traits under the same name."""


@cache
def open(kind: str) -> SinkKind:
    """The kind of that name; raises Defect for one that the configuration should have refused."""
    if kind not in KINDS:
        raise Defect(f"unknown sink kind {kind!r}")
    module, name = KINDS[kind]
    return cast("SinkKind", getattr(import_module(module), name))


@cache
def traits(kind: str) -> SinkTraits:
    """What the kind of that name can do; raises Defect for one that the configuration should have refused."""
    if kind not in KINDS:
        raise Defect(f"unknown sink kind {kind!r}")
    module, name = KINDS[kind]
    return cast("SinkTraits", getattr(import_module(f"{module.rpartition('.')[0]}.traits"), name))
