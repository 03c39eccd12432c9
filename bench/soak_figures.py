"""What a soak measures: samples of processes and sizes, their slopes after the warm-up, and the report. Pure but for
`read`, which asks the kernel.
"""

from __future__ import annotations

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path

WARM_UP, END = 1 / 3, 0.95
"""Slopes count from the first share of a run until the second: processes are killed before and afterwards only."""
MOST_SLOPE = 1.0
"""Maximum growth of a process's resident memory, in MiB an hour (R15)."""
LEAST_SECONDS = 1_800.0
"""A shorter part after the warm-up decides nothing: allocators round to pages and arenas."""
MIB, HOUR = 1 << 20, 3_600.0
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Sample:
    """One process at one moment."""

    at: float
    """Seconds since the start of the run."""
    rss: float
    """Resident memory in MiB."""
    pss: float
    """Its proportional share: a shared page counts once among those that share it; MiB."""
    fds: int
    threads: int


def read(pid: int, at: float) -> Sample | None:
    """Sample a process; None if it has exited (proc(5): smaps_rollup, fd, task)."""
    place = Path(f"/proc/{pid}")
    try:
        rollup = (place / "smaps_rollup").read_text("ascii")
        fds, threads = (sum(1 for _ in (place / name).iterdir()) for name in ("fd", "task"))
    except OSError:
        return None
    kib = {name: int(number) for name, number in re.findall(r"^(Rss|Pss): +(\d+) kB", rollup, re.MULTILINE)}
    return Sample(at, kib["Rss"] / 1024, kib["Pss"] / 1024, fds, threads) if len(kib) == 2 else None


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the least-squares slope of (seconds, value) per hour, and twice its standard error.

    >>> slope([(0, 5), (1800, 6), (3600, 7)])
    (2.0, 0.0)
    """
    if len(points) < 3:
        return 0.0, float("inf")
    times, values = [at / HOUR for at, _ in points], [value for _, value in points]
    found = statistics.linear_regression(times, values)
    left = sum((value - found.slope * at - found.intercept) ** 2 for at, value in zip(times, values, strict=True))
    spread = statistics.pvariance(times) * len(times)
    return found.slope, 2 * (left / (len(times) - 2) / spread) ** 0.5 if spread else float("inf")


def sparkline(points: Sequence[tuple[float, float]], seconds: float) -> str:
    """Draw means over equal parts of the run; a blank for a part without a value.

    >>> sparkline([(0, 1), (20, 1), (39.9, 3)], 40)
    '▁                   ▁                  █'
    """
    bins: defaultdict[int, list[float]] = defaultdict(list)
    for at, value in points:
        bins[min(_WIDTH - 1, int(at / seconds * _WIDTH))].append(value)
    means = {place: statistics.fmean(values) for place, values in bins.items()}
    low, high = min(means.values(), default=0.0), max(means.values(), default=0.0)
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return "".join(_BARS[round((means[place] - low) / step)] if place in means else " " for place in range(_WIDTH))


@dataclass(frozen=True, slots=True)
class Life:
    """The samples of one process."""

    role: str
    pid: int
    samples: Sequence[Sample]

    def judged(self, seconds: float) -> Sequence[Sample]:
        """Return the samples that count for slopes in a run of this length."""
        return [one for one in self.samples if WARM_UP * seconds <= one.at <= END * seconds]

    def lasts(self, seconds: float) -> bool:
        """Whether the process lived through at least half of the part that counts."""
        found = self.judged(seconds)
        return bool(found) and found[-1].at - found[0].at >= (END - WARM_UP) * seconds / 2


@dataclass
class Measured:
    """Everything that a run has measured."""

    seconds: float
    lives: dict[tuple[str, int], list[Sample]] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, role: str, pid: int, at: float) -> None:
        """Sample a process."""
        if (found := read(pid, at)) is not None:
            self.lives[role, pid].append(found)

    def add_sizes(self, values: Mapping[str, float], at: float) -> None:
        """Record sizes and counts."""
        for name, value in values.items():
            self.sizes[name].append((at, value))

    def judged(self) -> list[Life]:
        """Return the processes that are judged, by role."""
        found = [Life(role, pid, samples) for (role, pid), samples in self.lives.items()]
        return sorted((one for one in found if one.lasts(self.seconds)), key=lambda one: (one.role, one.pid))

    def json(self) -> str:
        """Return all samples: of each process as its fields in order, of each size as (seconds, value)."""
        lives = {f"{role} {pid}": [list(astuple(one)) for one in found] for (role, pid), found in self.lives.items()}
        return json.dumps({"seconds": self.seconds, "processes": lives, "sizes": self.sizes})

    def grown(self) -> list[str]:
        """Return a line for each process that grew by more than R15 allows."""
        return [line for life in self.judged() for line in _grown(life.role, life.judged(self.seconds))]


def _grown(role: str, samples: Sequence[Sample]) -> Iterable[str]:
    per_hour, error = slope([(one.at, one.rss) for one in samples])
    if per_hour >= MOST_SLOPE:
        yield f"{role}: memory +{per_hour:.2f} (± {error:.2f}) MiB/h"
    for name in ("fds", "threads"):
        first, last = _thirds([getattr(one, name) for one in samples])
        if last > first:
            yield f"{role}: {name} {first:g} -> {last:g}"


def _thirds(values: Sequence[float]) -> tuple[float, float]:
    """Return the medians of the first and the last third."""
    third = max(1, len(values) // 3)
    return statistics.median(values[:third]), statistics.median(values[-third:])


def tables(measured: Measured) -> list[str]:
    """Return the report's tables as Markdown: processes, then sizes."""
    seconds = measured.seconds
    lines = ["| process | RSS, MiB | slope, MiB/h (± 2 s.e.) | PSS slope | fds | threads | RSS over the run |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for life in measured.judged():
        counted = life.judged(seconds)
        per_hour, error = slope([(one.at, one.rss) for one in counted])
        shared, _ = slope([(one.at, one.pss) for one in counted])
        shown = [f"{first:g} -> {last:g}" for first, last in
                 (_thirds([getattr(one, name) for one in counted]) for name in ("fds", "threads"))]  # fmt: skip
        first, last = _thirds([one.rss for one in counted])
        picture = sparkline([(one.at, one.rss) for one in life.samples], seconds)
        cells = (life.role, f"{first:.1f} -> {last:.1f}", f"{per_hour:+.2f} ± {error:.2f}", f"{shared:+.2f}", *shown)
        lines.append(f"| {' | '.join(cells)} | `{picture}` |")
    lines += ["", "| size or count | after the warm-up | at the end | per hour | over the run |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for name, points in sorted(measured.sizes.items()):
        counted_points = [one for one in points if WARM_UP * seconds <= one[0] <= END * seconds] or points
        first, last = _thirds([value for _, value in counted_points])
        per_hour, _ = slope(counted_points)
        picture = sparkline(points, seconds)
        lines.append(f"| {name} | {first:,.1f} | {last:,.1f} | {per_hour:+,.1f} | `{picture}` |")
    return lines
