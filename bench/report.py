"""Turns timings into ratios: sides, medians, ranges, the table on standard output, and the JSON file.

A ratio compares Slotkeeper with a peer within one round, so that both ran under the same load; the median is over
rounds.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).with_name("results")
KEPT = RESULTS / "kept.json"
"""The result with which `make bench-check` compares, and which the README's chart shows."""
PARTIES = ("source", "sink", "programs")
"""The parties whose CPU is counted: both servers, and all other processes (workers, JVM, driver, psql, other
programs).
"""


@dataclass
class Side:
    """The results of one participant: per round, a number of changes (or rows), seconds, and CPU seconds by party."""

    name: str
    label: str
    unit: str = "changes/s"
    rows: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)

    def add(self, rows: int, seconds: float, cpu: Mapping[str, float]) -> None:
        """Add one round."""
        self.rows.append(rows)
        self.seconds.append(seconds)
        self.cpu.append({party: cpu[party] for party in PARTIES})

    @property
    def rates(self) -> list[float]:
        """Rows per second, per round."""
        return [rows / seconds for rows, seconds in zip(self.rows, self.seconds, strict=True)]

    def per_row(self, *parties: str) -> list[float]:
        """Return the microseconds of CPU that these parties together use per row, for each round."""
        return [
            sum(cpu[party] for party in parties) / rows * 1e6 for rows, cpu in zip(self.rows, self.cpu, strict=True)
        ]

    def values(self) -> dict[str, Any]:
        """Return the values for the JSON file."""
        return {
            "label": self.label,
            "unit": self.unit,
            "rate": round(median(self.rates)),
            "seconds": [round(one, 3) for one in self.seconds],
            "cpu_us": {party: round(median(self.per_row(party)), 3) for party in PARTIES},
        }

    def line(self) -> str:
        """Return the line of the table."""
        cpu = "".join(f"{median(self.per_row(party)):>9.2f}" for party in PARTIES)
        return f"{self.label:<46}{median(self.rates):>12,.0f}{cpu}"


@dataclass(frozen=True)
class Ratio:
    """A ratio per round. `wanted` is its minimum, or its maximum if `more` is false; `bound` names what limits it."""

    name: str
    label: str
    rounds: Sequence[float]
    wanted: float | None = None
    more: bool = True
    bound: str = ""

    @property
    def ratio(self) -> float:
        """The median."""
        return median(self.rounds)

    @property
    def met(self) -> bool | None:
        """Whether the ratio meets `wanted`; None if `wanted` is None."""
        if self.wanted is None:
            return None
        return self.ratio >= self.wanted if self.more else self.ratio <= self.wanted

    def values(self) -> dict[str, Any]:
        """Return the values for the JSON file."""
        return {
            "name": self.name,
            "label": self.label,
            "ratio": round(self.ratio, 3),
            "rounds": [round(one, 3) for one in self.rounds],
            "wanted": self.wanted,
            "better": "more" if self.more else "less",
            "met": self.met,
            "bound": self.bound,
        }

    def line(self) -> str:
        """Return the line of the table."""
        spread = f"{min(self.rounds):.2f} to {max(self.rounds):.2f}"
        sign = "" if self.wanted is None else f"{'>=' if self.more else '<='} {self.wanted:g}"
        return f"{self.label:<58}{self.ratio:>8.2f}   {spread:<16}{sign:<10}{_said(self.met)}"


@dataclass(frozen=True)
class Figure:
    """A figure that is not a ratio; `wanted` is its maximum."""

    name: str
    value: float
    unit: str
    wanted: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the figure meets `wanted`; None if `wanted` is None."""
        return None if self.wanted is None else self.value <= self.wanted

    def values(self) -> dict[str, Any]:
        """Return the values for the JSON file."""
        value = round(self.value, 3) if math.isfinite(self.value) else None
        return {"name": self.name, "value": value, "unit": self.unit, "wanted": self.wanted, "met": self.met}

    def line(self) -> str:
        """Return the line of the table."""
        sign = "" if self.wanted is None else f"<= {self.wanted:g}"
        return f"{self.name:<74}{self.value:>10,.4g} {self.unit:<8}{sign:<10}{_said(self.met)}"


def _said(met: bool | None) -> str:
    return {None: "", True: "met", False: "not met"}[met]


def faster(name: str, label: str, ours: Side, other: Side, wanted: float | None, bound: str = "") -> Ratio:
    """Return the ratio of Slotkeeper's rate to the other's."""
    return Ratio(name, label, [a / b for a, b in zip(ours.rates, other.rates, strict=True)], wanted, bound=bound)


def cheaper(name: str, label: str, ours: Side, other: Side, parties: Sequence[str], wanted: float | None) -> Ratio:
    """Return the ratio of Slotkeeper's CPU per row, in these parties, to the other's."""
    both = zip(ours.per_row(*parties), other.per_row(*parties), strict=True)
    return Ratio(name, label, [a / b for a, b in both], wanted, more=False)


def machine() -> dict[str, Any]:
    """Return facts about this host, for a reader who compares two files."""
    return {
        "cpus": os.cpu_count(),
        "load": [round(one, 2) for one in os.getloadavg()],
        "python": platform.python_version(),
        "system": platform.system(),
    }


def table(ratios: Iterable[Ratio], sides: Iterable[Side], figures: Iterable[Figure], rounds: int) -> str:
    """Return the tables for standard output, ratios first."""
    head = f"{'ratio':<58}{'median':>8}   {f'of {rounds} rounds':<16}{'wanted':<10}"
    cpu = "".join(f"{party:>9}" for party in PARTIES)
    lines = [head, *(one.line() for one in ratios), ""]
    lines += [f"{'medians':<46}{'rows/s':>12}{cpu}   (CPU us per row)", *(one.line() for one in sides), ""]
    return "\n".join([*lines, *(one.line() for one in figures)])


def profile_text(found: Mapping[str, Any]) -> str:
    """Return the profile as text for standard output."""
    steps, cpu = found["steps"], found["cpu_seconds"]
    lines = [
        f"Slotkeeper's catch-up in the last round: {steps['steps']} steps,"
        f" {steps['events_per_step']:,} events per step on average",
        f"  from the job's start to its first task {found['start_seconds']} s",
        f"  lanes' seconds: read and stage {steps['read_seconds']}, recheck to commit {steps['write_seconds']}",
        "  CPU seconds: " + ", ".join(f"{group} {value}" for group, value in cpu.items()),
    ]
    for place in ("sink", "source"):
        for one in found[f"{place}_statements"][:5]:
            share = f"{one['share']:>6.0%} {one['seconds']:>8.3f} s {one['calls']:>5} x"
            lines.append(f"  {place:<7}{share} {one['statement']}")
    parts = ", ".join(f"{part} {seconds * 1000:.0f}" for part, seconds in found["one_step"]["seconds"].items())
    return "\n".join([*lines, f"  one step of {found['one_step']['events']:,} events without other load (ms): {parts}"])


def write(values: Mapping[str, Any], name: str = "") -> Path:
    """Write the file of this run; return its path."""
    at = datetime.now(timezone.utc)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{name}{at:%Y%m%dT%H%M%SZ}.json"
    file.write_text(json.dumps({"at": at.isoformat(timespec="seconds"), **values}, indent=1) + "\n", encoding="utf-8")
    return file
