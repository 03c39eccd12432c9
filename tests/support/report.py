"""Writes the findings of chaos runs into `reports/`, which git ignores; a run that ends early leaves its page.

The first row of a run replaces the page of that day.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "reports"
FOLDER_VARIABLE = "SLOTKEEPER_REPORTS"


@dataclass
class Page:
    """One Markdown table under a heading; `add` writes the whole page."""

    name: str
    title: str
    about: str
    columns: Sequence[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        folder = Path(os.environ.get(FOLDER_VARIABLE, FOLDER))
        return folder / f"{self.name}-{datetime.now(timezone.utc):%Y-%m-%d}.md"

    def add(self, *values: object) -> None:
        self.rows.append(tuple(_shown(value) for value in values))
        lines = [f"# {self.title}", "", self.about, "", machine(), ""]
        lines += [_line(self.columns), _line(["---"] * len(self.columns)), *map(_line, self.rows)]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def machine() -> str:
    """When and on what host a run was measured."""
    now = datetime.now(timezone.utc)
    return (
        f"{now:%Y-%m-%dT%H:%MZ}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores,"
        f" Python {platform.python_version()}; source: stand-in for the DWS binlog functions, not GaussDB(DWS)."
    )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"
