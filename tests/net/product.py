"""The only place in the net that names modules of the product: how it is called, and where its files are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench import generated
from slotkeeper.console.__main__ import main
from tests.architecture.checkout import ROOT

__all__ = ["FOLDERS", "ROOT", "files", "main", "pages"]

FOLDERS = ("core", "console", "demo", "slotkeeper")
"""The folders of product code; a folder that does not exist has no files."""


def files(*patterns: str) -> Iterator[Path]:
    """The product's files, each once: a folder may also be reached through a link."""
    found = {path.resolve() for folder in FOLDERS for pattern in patterns for path in (ROOT / folder).rglob(pattern)}
    return iter(sorted(path for path in found if path.is_file()))


def pages() -> dict[str, str]:
    """Return every generated page by its file's name, as the program creates it now, except the chart of figures."""
    return {path.name: text for path, text in generated.made().items() if path.suffix != ".svg"}
