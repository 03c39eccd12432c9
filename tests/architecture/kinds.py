"""Finds places in code that name a kind of server: its name, package, driver, functions, or one of its error codes.

Docstrings and comments are exempt, because the source of a rule is cited next to the rule.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.form import words
from tests.architecture.words import names, texts_of

NAMES = frozenset({"dws", "gaussdb", "hologres", "postgres", "postgresql", "psycopg", "psycopg2", "mysql", "doris"})
PACKAGES = ("slotkeeper.core.sources.", "slotkeeper.core.sinks.", "psycopg2", "pymysql", "slotkeeper.core.drivers.pg")
REGISTRIES = ("slotkeeper.core.sources.registry", "slotkeeper.core.sinks.registry")
CALLS = re.compile(r"\b(pgxc?_[a-z_]+|hg_[a-z_]+|gs_[a-z_]+)\b")
CODE = re.compile(r"[0-9][0-9A-Z]{4}")
"""An SQLSTATE; one of digits only counts only as a complete string, because otherwise it is a number."""


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{one.name}") for one in node.names)


def kinds(text: str) -> list[tuple[int, str]]:
    """(line, name) of each name of a kind in a module's imports, identifiers and texts."""
    tree = ast.parse(text)
    found = [
        (line, name) for line, name in _imports(tree) if name.startswith(PACKAGES) and not name.startswith(REGISTRIES)
    ]
    found += [(line, name) for line, name in names(tree) if NAMES & set(words(name))]
    for line, said in texts_of(tree):
        if NAMES & set(re.findall(r"[a-z0-9]+", said.lower())) or CALLS.search(said) or CODE.fullmatch(said):
            found.append((line, said[:60]))
    return sorted(found)
