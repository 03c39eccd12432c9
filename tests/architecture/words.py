"""Words that only this project used, and their replacements in names and texts, as pure functions.

The replacements are the terms of `docs/glossary.md`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.form import words

GONE = {
    "hurts": "bottleneck",
    "hurt": "bottleneck",
    "floor": "oldest reader",
    "healed": "recovered",
    "doubted": "untrusted",
    "stint": "stream task",
    "stints": "stream tasks",
    "seat": "capacity",
    "seats": "capacity",
    "deal": "assign",
    "dealt": "assigned",
    "shy": "suspect",
    "lull": "idle",
    "crowd": "many lanes",
    "crowded": "many lanes",
    "wish": "wanted",
    "wishes": "wanted",
    "incarnation": "fingerprint",
    "surroundings": "context",
    "bench": "context",
    "attendant": "idle lanes",
    "pump": "copy pipe",
}
"""The replaced words, each with its replacement."""
IN_NAMES = {
    **GONE,
    "look": "read_status, status, poll",
    "looks": "statuses",
    "looker": "slot poller",
    "rewinding": "quarantine reset",
    "judging": "job health",
    "entrance": "startup",
    "acting": "open action",
    "conventions": "probe findings",
    "held": "quarantined, retained, locked",
    "hold": "quarantine, retain, lock",
    "holds": "quarantines, retains, locks",
    "holding": "retained",
    "holdings": "quarantine poller",
    "ways": "navigation",
    "paces": "throughput",
    "lean": "textual patches",
    "acking": "ack table",
    "unfinished": "open reset",
    "glyphs": "terminal probe",
    "picture": "monitor state",
    "carrier": "child",
    "rewind": "history",
    "told": "what it returns",
}
"""Replaced in names too; in a sentence these are plain English."""
KEY = re.compile(r"[a-z]+(_[a-z]+)+")
"""A text that is a name: a JSON key, a column."""


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that a module defines: functions, classes, arguments, variables and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname


def texts_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """String constants other than docstrings: keys, columns, and texts on screens."""
    silent = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.lineno, node.value


def gone(text: str) -> list[tuple[int, str, str]]:
    """(line, word, kind of place) of each replaced word in a module's names and texts."""
    tree = ast.parse(text)
    found = [(line, word, name) for line, name in names(tree) for word in words(name) if word in IN_NAMES]
    for line, said in texts_of(tree):
        banned = IN_NAMES if KEY.fullmatch(said) else GONE
        found += [(line, word, said) for word in re.findall(r"[a-z]+", said.lower()) if word in banned]
    return found
