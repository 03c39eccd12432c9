"""What the configuration says of one job, its source and its sink, and where each value comes from.

Passwords are references in a configuration, so none is here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.views.rows import NARROW, Column, Row
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.text import safe


class DescribeScreen(TableScreen):
    """The settings of a job."""

    columns = (
        Column("mark", "", 1),
        Column("key", "KEY", 38, name=True),
        Column("value", "VALUE", 0),
        Column("origin", "FROM", 16, least=NARROW),
    )
    panel_height = 3
    usual_order = "as in the file"
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "filter", "copy", "export")

    def __init__(self, job: str, number: str) -> None:
        super().__init__()
        self.job = job
        self.number = number

    def rows(self) -> list[Row]:
        """The settings in their order."""
        loaded = self.console.services.loaded
        return describe_rows(loaded, self.job) if loaded else []

    def heading(self) -> str:
        """The table's name."""
        return f"Settings of {safe(self.job, 60)}"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """The value in full."""
        row = next((row for row in self.rows() if row.key == key), None)
        if row is None:
            return "Setting", [(Level.UNKNOWN, "no configuration is read here that has this job")]
        return safe(row.key, 70), [(Level.FINE, row.cells["value"]), (Level.REST, f"from {row.cells['origin']}")]

    def crumb(self) -> str:
        """Where one is."""
        return f"{'Overview' if self.number == '1' else 'Jobs'} > {safe(self.job, 60)} > settings"


def describe_rows(loaded: Loaded, job: str) -> list[Row]:
    """What the job promises, its settings, then those of its source and sink; a value that is set nowhere says so."""
    spec = loaded.jobs.get(job)
    if spec is None:
        return []
    places: Iterable[str] = (f"jobs.{job}.", f"sources.{spec.source.name}.", f"sinks.{spec.sink.name}.")
    found = [one for place in places for one in loaded.settings if one.key.startswith(place)]
    from slotkeeper.core.services.doctor import promise_of  # the first frame is seen without a sink's driver

    said = {"mark": "", "key": "promise", "value": promise_of(spec), "origin": "what follows"}
    return [Row("promise", Level.FINE, said)] + [
        Row(
            one.key,
            Level.FINE,
            {
                "mark": "",
                "key": safe(one.key.removeprefix(f"jobs.{job}."), 120),
                "value": "(not set)"
                if one.value is None
                else safe(json.dumps(one.value, default=str, ensure_ascii=False), 400),
                "origin": safe(f"{one.origin.layer.value} {Path(one.origin.place).name}".rstrip(), 120),
            },
        )
        for one in found
    ]
