"""The README's speed chart: Slotkeeper's throughput relative to each peer, as an SVG of bars on a logarithmic scale.

`python -m bench.chart` redraws the stored result, and adds the image to the README if it is missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from bench.report import KEPT

FILE = Path(__file__).parents[1] / "docs" / "pictures" / "speed.svg"
README = Path(__file__).parents[1] / "README.md"
MARK = "<!-- speed -->\n"
"""The image line that is inserted into the README after `MARK`."""
LINK = "![Throughput of Slotkeeper relative to each peer](docs/pictures/speed.svg)\n"
TITLE = "Throughput relative to each peer: same changes, same run"
WIDTH, LEFT, ROW, TOP, END = 860, 16, 44, 76, 40
INK, PALE, BAR, BEHIND = "#24292f", "#8c959f", "#2f6f9f", "#b0703c"


def drawn(values: Mapping[str, Any]) -> str:
    """Return the SVG of a result: one bar for each ratio for which a higher value is better."""
    ratios = [one for one in values["ratios"] if one["better"] == "more"]
    most = max([*(max(one["rounds"]) for one in ratios), 2.0])
    least = min([*(min(one["rounds"]) for one in ratios), 0.5])

    def x(ratio: float) -> float:
        return LEFT + (WIDTH - LEFT - 100) * math.log(ratio / least) / math.log(most / least)

    height = TOP + ROW * len(ratios) + END
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' font-family="sans-serif" font-size="13" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-size="15" font-weight="bold">{TITLE}</text>',
    ]
    lines += [
        f'<text x="16" y="{44 + 18 * n}" fill="{PALE}">{escape(one)}</text>' for n, one in enumerate(_where(values))
    ]
    for number, one in enumerate(ratios):
        lines += _bar(one, TOP + ROW * number, x)
    bottom = TOP + ROW * len(ratios) + 6
    lines.append(f'<text x="{x(1):.1f}" y="{bottom + 16}" text-anchor="middle">1 (equal)</text>')
    return "\n".join([*lines, "</svg>", ""])


def _bar(one: Mapping[str, Any], y: int, x: Any) -> list[str]:
    ratio, rounds = one["ratio"], one["rounds"]
    left, right = sorted((x(1.0), x(ratio)))
    colour = BAR if ratio >= 1 else BEHIND
    low, high, middle = x(min(rounds)), x(max(rounds)), y + 31
    return [
        f'<text x="{LEFT}" y="{y + 17}">{escape(one["label"])}</text>',
        f'<rect x="{left:.1f}" y="{y + 23}" width="{right - left:.1f}" height="16" fill="{colour}"/>',
        f'<line x1="{x(1.0):.1f}" y1="{y + 20}" x2="{x(1.0):.1f}" y2="{y + 42}" stroke="{INK}"/>',
        f'<line x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}" stroke="{INK}" stroke-width="2"/>',
        f'<text x="{max(high, right) + 8:.1f}" y="{y + 36}">{ratio:.2f}</text>',
    ]


def _where(values: Mapping[str, Any]) -> tuple[str, str]:
    machine, options = values["machine"], values["options"]
    return (
        f"{machine['cpus']} cores in total, PostgreSQL {machine['postgresql']},"
        f" {options['changes']:,} changes per round,",
        f"median of {options['repeat']} rounds; the thin line is their range",
    )


def write(values: Mapping[str, Any]) -> None:
    """Draw the SVG of a result into `docs/pictures`, and add the image to the README."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(drawn(values), encoding="utf-8")
    README.write_text(linked(README.read_text(encoding="utf-8")), encoding="utf-8")


def linked(text: str) -> str:
    """Return the README's text with the image after its marker; unchanged if the image is already there."""
    return text if LINK in text else text.replace(MARK, MARK + LINK)


if __name__ == "__main__":
    write(json.loads(KEPT.read_text(encoding="utf-8")))
