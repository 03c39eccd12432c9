"""Rules for length and names, as pure functions over source text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.checkout import tree

FILE_LINES = 600
FUNCTION_LINES = 60
FORBIDDEN = ("util", "common", "helper", "manager", "handler", "data", "info", "process")


def too_long(text: str, lines: int = FILE_LINES) -> list[str]:
    """Return the file if it exceeds its limit, and each function that exceeds its own."""
    length = text.count("\n")
    found = [f"{length} lines, at most {lines}"] if length > lines else []
    for node in tree(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            taken = (node.end_lineno or node.lineno) - node.lineno + 1
            if taken > FUNCTION_LINES:
                found.append(f"{node.name} (line {node.lineno}): {taken} lines, at most {FUNCTION_LINES}")
    return found


def badly_named(module: str, text: str) -> list[str]:
    """Return the modules and classes whose name contains a meaningless word."""
    classes = [node.name for node in tree(text) if isinstance(node, ast.ClassDef)]
    return [name for name in (module, *classes) if any(_is_forbidden(word) for word in words(name))]


def words(name: str) -> Iterator[str]:
    """Return the words of a name in either style, in lower case.

    >>> list(words("slot_admin")), list(words("HTTPDataSource"))
    (['slot', 'admin'], ['http', 'data', 'source'])
    """
    for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name):
        yield word.lower()


def _is_forbidden(word: str) -> bool:
    return word in FORBIDDEN or word.removesuffix("s") in FORBIDDEN or word.removesuffix("es") in FORBIDDEN
