"""Modules that are loaded when something of them is first used: a command must not pay for what its neighbours need.

The way is the standard library's (importlib, "Implementing lazy imports").
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def module(name: str) -> ModuleType:
    """The module of that name, run at the first use of an attribute; raises ImportError where there is none."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no module {name}", name=name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    parent, _, own = name.rpartition(".")
    setattr(sys.modules[parent], own, found)  # as the import statement does
    return found
