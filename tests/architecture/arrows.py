"""The modules that each module names: every import, including type-only imports, and modules named in strings."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.architecture.checkout import PACKAGES, module, sources, tree

Arrows = Mapping[str, set[str]]


def arrows(root: Path) -> Arrows:
    """Return Slotkeeper's modules, each with the modules that it names."""
    modules = {module(path, root): path for path in sources(root, *PACKAGES)}
    return {name: set(_named(path, modules)) - {name} for name, path in modules.items()}


def circle(found: Arrows) -> list[str]:
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def upwards(found: Arrows, package: str, rooms: Sequence[str]) -> list[str]:
    """Return a package's imports from a subpackage into a higher one; `rooms` lists the subpackages from the lowest."""
    height = {f"slotkeeper.{package}.{room}": place for place, room in enumerate(rooms)}

    def room(name: str) -> int | None:
        return height.get(".".join(name.split(".")[:3]))

    return sorted(
        f"{low} -> {high}"
        for low, named in found.items()
        for high in named
        if (here := room(low)) is not None and (there := room(high)) is not None and there > here
    )


def _named(path: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in tree(path.read_text("utf-8")):
        said: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            said = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            said = [each.name for each in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            said = [node.value] if "." in node.value and node.value.isascii() and " " not in node.value else []
        yield from (name for each in said if (name := _module(each, modules)))


def _module(said: str, modules: Mapping[str, Path]) -> str:
    """Return the module that a text names, or the module of a name in it; "" if it is not one of Slotkeeper's."""
    holder = said.rpartition(".")[0]
    return said if said in modules else holder if holder in modules else ""
