"""The size of the code: lines, files, functions and helpers, counted per package; pure except for reading the files."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.checkout import tree

SMALL = 70
"""A file with fewer lines is small, unless it is an `__init__.py`."""
SHORT = 7
"""Lines of a helper, with its `def`, that its only caller could contain instead."""


@dataclass(slots=True)
class Weight:
    """Counts of one package or of several."""

    lines: int = 0
    files: int = 0
    small: int = 0
    functions: int = 0
    one_call: int = 0

    @property
    def functions_per_thousand(self) -> float:
        """Functions in 1,000 lines."""
        return 1_000 * self.functions / max(1, self.lines)

    def add(self, path: Path) -> None:
        text = path.read_text("utf-8")
        lines = text.count("\n")
        self.lines += lines
        self.files += 1
        self.small += path.suffix == ".py" and path.name != "__init__.py" and lines < SMALL
        if path.suffix == ".py":
            functions = [one for one in tree(text) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
            self.functions += len(functions)
            once = _named_once(text)
            self.one_call += sum(_short_private(one) in once for one in functions)

    def plus(self, other: Weight) -> Weight:
        return Weight(
            self.lines + other.lines,
            self.files + other.files,
            self.small + other.small,
            self.functions + other.functions,
            self.one_call + other.one_call,
        )

    def __str__(self) -> str:
        per = f"{self.functions_per_thousand:6.1f}"
        return (
            f"{self.lines:7,} lines {self.files:4} files {self.small:4} small {per} functions/1,000 {self.one_call:4}"
        )


def weights(root: Path, packages: Iterable[str]) -> dict[str, Weight]:
    """Return the weight of each package (`core/engine`) below the folders; files outside packages count as `core`."""
    found: dict[str, Weight] = {}
    for top in packages:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".py", ".sql"):
                parts = path.relative_to(root).parts
                found.setdefault("/".join(parts[: 2 if len(parts) > 2 else 1]), Weight()).add(path)
    return found


def _short_private(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    name = function.name
    return name if name.startswith("_") and not name.startswith("__") and length <= SHORT else ""


def _named_once(text: str) -> set[str]:
    """The names that a module reads in exactly one place."""
    read = Counter(
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in tree(text)
        if isinstance(node, (ast.Attribute, ast.Name))
    )
    return {name for name, number in read.items() if number == 1}
