"""The interface of a source stays small: the methods that a new kind has to implement are counted."""

from __future__ import annotations

import ast

from tests.architecture.checkout import ROOT

OF_A_SOURCE = ("SourceKind", "SourceSession", "Source", "Slot", "Inspector", "Doctor", "Failover", "Shapes")
OTHERS = ("TableReader", "ComparedKey", "ComparedTable", "TableSession", "AuditCopy")
"""The protocols of `core/ports/kinds.py` that sources and sinks share, or that only sinks have."""
METHODS = 50


def _protocols() -> dict[str, list[str]]:
    """The methods and properties of each protocol or abstract class in the two files of a source's ports."""
    found = {}
    for name in ("source", "kinds"):
        tree = ast.parse((ROOT / "core" / "ports" / f"{name}.py").read_text("utf-8"))
        for one in (node for node in tree.body if isinstance(node, ast.ClassDef)):
            if {getattr(base, "id", "") for base in one.bases} & {"Protocol", "ABC"}:
                found[one.name] = [each.name for each in one.body if isinstance(each, ast.FunctionDef)]
    return found


def test_a_source_has_eight_protocols_of_at_most_50_methods() -> None:
    found = {name: methods for name, methods in _protocols().items() if name not in OTHERS and "Sink" not in name}
    found = {name: methods for name, methods in found.items() if name not in ("BatchSession", "StoreSession")}
    assert tuple(sorted(found)) == tuple(sorted(OF_A_SOURCE))
    assert sum(map(len, found.values())) <= METHODS
