"""From timings to ratios: medians, spreads, the table on standard output and the JSON file.

A ratio is taken within its round, ours by the other, so that both had the same minute; the median is over rounds.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).with_name("results")
TARGET_RATIO = 0.5


@dataclass
class Pair:
    """One thing done by two: rows a second per round, ours and the other's."""

    name: str
    other: str
    unit: str
    ours_seconds: list[float] = field(default_factory=list)
    other_seconds: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    def add(self, rows: int, ours: float, other: float) -> None:
        """One round's seconds for `rows` rows."""
        self.ours_seconds.append(round(ours, 3))
        self.other_seconds.append(round(other, 3))
        self.ours.append(rows / ours)
        self.others.append(rows / other)

    @property
    def ratios(self) -> list[float]:
        """Ours by the other's, per round."""
        return [mine / theirs for mine, theirs in zip(self.ours, self.others, strict=True)]

    def values(self) -> dict[str, Any]:
        """For the JSON file."""
        return {
            "ratio": round(median(self.ratios), 3),
            "ratio_target": TARGET_RATIO,
            "ratios": [round(one, 3) for one in self.ratios],
            "ours": _spread(self.ours, self.ours_seconds, self.unit),
            self.other: _spread(self.others, self.other_seconds, self.unit),
        }

    def line(self) -> str:
        """For the table."""
        ratios = self.ratios
        return (
            f"{self.name:<22}{median(self.ours):>12,.0f}{median(self.others):>12,.0f}{median(ratios):>8.2f}"
            f"   {min(ratios):.2f} to {max(ratios):.2f}   >= {TARGET_RATIO}   {self.other}"
        )


def _spread(rates: list[float], seconds: list[float], unit: str) -> dict[str, Any]:
    found = {"median": round(median(rates)), "lowest": round(min(rates)), "highest": round(max(rates))}
    return {"unit": unit, **found, "seconds": seconds}


def machine() -> dict[str, Any]:
    """What ran this, for whoever compares two files."""
    return {
        "cpus": os.cpu_count(),
        "load": [round(one, 2) for one in os.getloadavg()],
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def table(pairs: list[Pair], rounds: int) -> str:
    """The table for people."""
    head = f"{'rows a second':<22}{'ours':>12}{'other':>12}{'ratio':>8}   of {rounds} rounds    target   other"
    return "\n".join([head, *(pair.line() for pair in pairs)])


def profile_text(found: dict[str, Any]) -> str:
    """The profile for people."""
    steps, cpu = found["steps"], found["cpu_seconds"]
    lines = [
        f"catch-up of the last round: {steps['steps']} steps of {steps['events_per_step']:,} events on average",
        f"  from the job's start to its first task {found['start_seconds']} s",
        f"  lanes' seconds: read and stage {steps['read_seconds']}, second look to commit {steps['write_seconds']}",
        "  CPU seconds ours:  " + ", ".join(f"{group} {value}" for group, value in cpu["ours"].items()),
        "  CPU seconds other: " + ", ".join(f"{group} {value}" for group, value in cpu["native"].items()),
    ]
    for place in ("sink", "source"):
        for one in found[f"{place}_statements"][:5]:
            share = f"{one['share']:>6.0%} {one['seconds']:>8.3f} s {one['calls']:>5} x"
            lines.append(f"  {place:<7}{share} {one['statement']}")
    parts = ", ".join(f"{part} {seconds * 1000:.0f}" for part, seconds in found["one_step"]["seconds"].items())
    return "\n".join([*lines, f"  one step of {found['one_step']['events']:,} events alone (ms): {parts}"])


def write(values: dict[str, Any]) -> Path:
    """Write the file of this run; returns its path."""
    at = datetime.now(timezone.utc)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{at:%Y%m%dT%H%M%SZ}.json"
    file.write_text(json.dumps({"at": at.isoformat(timespec="seconds"), **values}, indent=1) + "\n", encoding="utf-8")
    return file
