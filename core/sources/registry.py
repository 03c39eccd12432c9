"""The kinds of source, by the name that the configuration gives them (`dialect`); a new one is one line here.

A kind is loaded when it is first asked for. Next door: `core.ports.kinds` says what one is.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from core.errors import Defect

if TYPE_CHECKING:
    from core.ports.kinds import SourceKind

KINDS = {
    "dws": "core.sources.dws.kind",
    "hologres": "core.sources.hologres.kind",
    "hologres_slot": "core.sources.hologres.slot.kind",
    "mysql": "core.sources.mysql.kind",
}
"""The module of each kind; it has the kind as `KIND`."""


@cache
def open(kind: str) -> SourceKind:
    """The kind of that name; raises Defect for one that the configuration should have refused."""
    if kind not in KINDS:
        raise Defect(f"there is no source kind {kind!r}")
    return cast("SourceKind", import_module(KINDS[kind]).KIND)
