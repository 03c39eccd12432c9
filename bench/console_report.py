"""The console's limits, the values measured against them, and the files in which they are stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bench.console_beside import Beside
from bench.report import RESULTS

PAGE = Path(__file__).parents[1] / "reports" / "console.md"


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure. `most` is its limit, or None; `value` is None if it was not measured."""

    name: str
    value: float | None
    most: float | None
    unit: str
    basis: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the limit is met; None if the figure has no limit or was not measured."""
        return None if self.value is None or self.most is None else self.value <= self.most

    @property
    def word(self) -> str:
        """`met`, `NOT MET`, or an empty string."""
        return {None: "", True: "met", False: "NOT MET"}[self.met]


def rows(bars: Sequence[Bar]) -> list[tuple[str, str, str, str, str]]:
    """Return (figure, measured, bar, word, basis) as text."""
    return [(one.name, _text(one.value, one.unit), _bar(one), one.word, one.basis) for one in bars]


def _bar(one: Bar) -> str:
    return "" if one.most is None else "0" if one.most == 0 else f"<= {_text(one.most, one.unit)}"


def _text(value: float | None, unit: str) -> str:
    if value is None:
        return "?"
    digits = 0 if unit == "B" or value >= 1_000 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def table(bars: Sequence[Bar]) -> str:
    """Return the table for standard output."""
    lines = [f"{'figure':<44}{'measured':>14}{'bar':>16}  {'':<8} how"]
    lines += [f"{name:<44}{value:>14}{bar:>16}  {word:<8} {how}" for name, value, bar, word, how in rows(bars)]
    return "\n".join(lines)


def beside_lines(beside: Sequence[Beside]) -> list[str]:
    """Return a line for each of the other consoles."""
    return [_beside(one) for one in beside]


def _beside(one: Beside) -> str:
    if one.why_not or one.first_paint is None or one.rss is None:
        return f"{one.name}: not run: {one.why_not}"
    return (
        f"{one.name} {one.version}: first paint {one.first_paint:.2f} s, idle {one.idle_percent:.1f} %"
        f" and {(one.idle_rate or 0) / 1000:.1f} KB/s, RSS {one.rss / 1e6:.0f} MB"
    )


def page(bars: Sequence[Bar], beside: Sequence[Beside], machine: dict[str, Any], options: dict[str, Any]) -> str:
    """Return the page for `reports`."""
    at = datetime.now(timezone.utc)
    head = [
        "# Limits of the console",
        "",
        f"{at:%Y-%m-%dT%H:%MZ}, {machine['cpus']} cores, load {machine['load'][0]} at the start, Python"
        f" {machine['python']}; written by `make bench-console` ({options['rounds']} rounds, idle for"
        f" {options['seconds']:g} s each).",
        "",
        "The console showed a state store with 12 jobs of 24 DNs on a pseudo-terminal of 100x30; every row changed"
        " every 2 s. The same rounds measured a Textual app that shows one word and, for keys, an app of two screens"
        " with a stock table each. First paint is the minimum of all starts. Ratios are within a run, because the host"
        " is shared. CPU is that of the process. All programs had their bytecode, as at every start except the first"
        " after an installation.",
        "",
        "| figure | measured | bar | | how |",
        "| --- | --- | --- | --- | --- |",
    ]
    body = [f"| {' | '.join(row)} |" for row in rows(bars)]
    return "\n".join([*head, *body, "", "Other consoles:", "", *(f"- {line}" for line in beside_lines(beside)), ""])


def write(
    bars: Sequence[Bar], beside: Sequence[Beside], machine: dict[str, Any], options: dict[str, Any], raw: dict[str, Any]
) -> list[Path]:
    """Write the file of this run and the page; return their paths."""
    at = datetime.now(timezone.utc)
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"console-{at:%Y%m%dT%H%M%SZ}.json"
    values = {
        "at": at.isoformat(timespec="seconds"),
        "options": options,
        "machine": machine,
        "bars": [asdict(one) | {"met": one.met} for one in bars],
        "beside": [asdict(one) for one in beside],
        "rounds": raw,
    }
    file.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(bars, beside, machine, options), encoding="utf-8")
    return [file, PAGE]
