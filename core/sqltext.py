"""Loads the named statements of a dialect's `queries.sql`; each statement has one home, a name and a description.

A file is a list of blocks: `-- name: look`, comment lines that say what it is, then the statement.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from core.errors import Defect

_HEAD = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@cache
def statements(package: str, name: str = "queries.sql") -> dict[str, str]:
    """The statements of `name` in `package`, by their names; raises Defect for a name given twice."""
    text = resources.files(package).joinpath(name).read_text(encoding="utf-8")
    parts = _HEAD.split(text)
    found: dict[str, str] = {}
    for head, body in zip(parts[1::2], parts[2::2], strict=True):
        if head in found:
            raise Defect(f"{package}/{name}: statement {head!r} stands there twice")
        lines = (line for line in body.strip().splitlines() if not line.startswith("--"))
        found[head] = "\n".join(lines).strip().rstrip(";")
    return found
