"""A command to type is in backquotes in every text that names it, so that it can be parsed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.checkout import PACKAGES, ROOT, sources

_BARE = re.compile(r"(?<![`\w])slotkeeper (?:jobs|watch|slots|locks|errors|alerts|audit|verify|status|doctor|config)\b")
_ALONE = {
    "core/domain/remedy.py",
    "core/judgement/judge.py",
    "core/sinks/postgres/doctor.py",
    "console/commands/man.py",
    "console/commands/doctor.py",
    "console/commands/errors.py",
    "console/commands/reset.py",
    "console/commands/slots.py",
}
"""Files where a command is a line by itself, or where the surrounding text adds the backquotes."""


def test_a_text_that_names_a_command_has_it_in_backquotes() -> None:
    files = [path for path in sources(ROOT, *PACKAGES) if "incidents" not in path.parts]
    found = {
        str(path.relative_to(ROOT)): bare
        for path in files
        if str(path.relative_to(ROOT)) not in _ALONE and (bare := list(_bare(path)))
    }
    assert not found


def _bare(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text("utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield from ((node.lineno, line) for line in node.value.splitlines() if _BARE.search(line))
