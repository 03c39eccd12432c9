"""Which source tables a command line names, and lines that fit a terminal of 80 columns.

Next door: `console.cli.select` chooses jobs and state folders without loading a database driver.
"""

from __future__ import annotations

import textwrap

from console.cli import output
from core.config.model import Loaded
from core.config.places import tables
from core.errors import ConfigError


def places(loaded: Loaded, source: str, table: str) -> list[tuple[str, str]]:
    """(source, table) of what was asked for; a table that no job reads needs one source to ask."""
    if source and source not in loaded.sources:
        raise ConfigError(f"there is no source {source!r}", f"it has: {', '.join(sorted(loaded.sources)) or 'none'}")
    found = tables(loaded, source, table)
    if found or not table:
        return found
    names = [source] if source else sorted(loaded.sources)
    if len(names) != 1:
        raise ConfigError(f"no job reads {table}, so its source is not known", "name it with --source")
    return [(names[0], table)]


def place(loaded: Loaded, source: str, table: str) -> tuple[str, str]:
    """The one (source, table) that was asked for; raises ConfigError where several sources have it."""
    found = places(loaded, source, table)
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        raise ConfigError(f"{table} is read from several sources: {names}", "name one with --source")
    return found[0]


def paragraph(label: str, text: str, ascii_only: bool = False) -> None:
    """A label and its text over as many lines as it takes."""
    indent = " " * (len(label) + 2)
    first = f"{label}  " if label else ""
    for each in textwrap.wrap(text, output.WIDTH, initial_indent=first, subsequent_indent=indent if label else ""):
        output.line(each, ascii_only)
