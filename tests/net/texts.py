"""The product's texts, whichever module they are in, and the hashes of its files."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.checkout import ROOT, tree
from tests.net import product

_IMPORT_NAME = re.compile(r"\bslotkeeper\.(?=(?:core|console|demo)\b)")
_LETTERS = 3
"""The number of letters from which a string with a blank counts as a text."""


def texts(source: str) -> list[str]:
    """Return the texts of a module: strings with a blank that are not docstrings, each on one line, holes as `{}`.

    >>> texts('"Docs."\\nsay(f"job {name!r:>9} is gone\\\\n", "not-one", "python -m slotkeeper.core.spark")')
    ['job {} is gone\\\\n', 'python -m core.spark']
    """
    silent, found = set[int](), list[str]()
    for node in tree(source):  # the parent of a node precedes it
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            silent.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            silent.update(id(part) for part in _parts(node))
        if id(node) not in silent:
            found.append(_template(node))
    return [_line(text) for text in found if " " in text.strip() and sum(map(str.isalpha, text)) >= _LETTERS]


def _parts(node: ast.JoinedStr) -> Iterator[ast.AST]:
    """Return the parts of a template and of its format specifications."""
    for part in node.values:
        yield part
        if isinstance(part, ast.FormattedValue) and isinstance(part.format_spec, ast.JoinedStr):
            yield part.format_spec


def _template(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def _line(text: str) -> str:
    shown = (c if c.isprintable() and c != "\\" else c.encode("unicode_escape").decode() for c in text)
    return _IMPORT_NAME.sub("", "".join(shown))


def every_text() -> list[str]:
    """Return all texts of the product, sorted; a text that occurs twice in the code is listed twice."""
    return sorted(text for path in product.files("*.py") for text in texts(path.read_text("utf-8")))


def every_hash() -> list[str]:
    """Return name and SHA-256 of each golden, fixture, generated page and packaged file, sorted and without folders."""
    kept = [path for path in sorted((ROOT / "tests").rglob("*")) if path.is_file() and _is_golden(path)]
    packaged = [*product.files("*.sql", "*.tcss"), ROOT / "config.example.toml", *(ROOT / "docs/systemd").iterdir()]
    found = [(path.name, path.read_bytes()) for path in (*kept, *packaged)]
    found += [(name, text.encode()) for name, text in product.pages().items()]
    return sorted(f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in found)


def _is_golden(path: Path) -> bool:
    folders = path.relative_to(ROOT / "tests").parts
    return path.suffix not in (".py", ".pyc", ".md") and not {"net", "mutants", "fuzz"}.intersection(folders)
