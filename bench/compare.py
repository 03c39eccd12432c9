"""`python -m bench.compare NEW [OLD]`: lists the ratios that fell by more than a fifth from one result to another.

Without OLD, NEW is compared with the stored result. Only ratios are compared: absolute times of two runs depend
more on the host than on Slotkeeper.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import report

FIFTH = 0.2


@dataclass(frozen=True, slots=True)
class Fallen:
    """A ratio that became worse."""

    label: str
    before: float
    after: float

    @property
    def line(self) -> str:
        """The ratio before and after, as a line for the output."""
        return f"{self.label}: {self.before:.2f} -> {self.after:.2f}"


def fallen(new: Mapping[str, Any], old: Mapping[str, Any], by: float = FIFTH) -> tuple[list[Fallen], list[str]]:
    """Return the ratios that are worse by more than the share `by`, and the labels of ratios in only one of the
    results.

    >>> one = {"name": "a", "label": "A", "ratio": 1.0, "better": "more"}
    >>> fallen({"ratios": [{**one, "ratio": 0.7}]}, {"ratios": [one]})
    ([Fallen(label='A', before=1.0, after=0.7)], [])
    >>> fallen({"ratios": [{**one, "ratio": 0.9}]}, {"ratios": [one]})
    ([], [])
    """
    before = {one["name"]: one for one in old["ratios"]}
    after = {one["name"]: one for one in new["ratios"]}
    worse = []
    for name in before.keys() & after.keys():
        was, now = before[name]["ratio"], after[name]["ratio"]
        if now < was * (1 - by) if after[name]["better"] == "more" else now > was / (1 - by):
            worse.append(Fallen(after[name]["label"], was, now))
    lonely = [one["label"] for name, one in {**before, **after}.items() if name not in before or name not in after]
    return sorted(worse, key=lambda one: one.label), sorted(lonely)


def against_kept(new: Mapping[str, Any]) -> int:
    """Print the ratios that fell below the stored result; return 1 if any did, 0 if none did or no result is stored."""
    if not report.KEPT.exists():
        print(f"no stored result: {report.KEPT}; create one with `python -m bench --keep`")
        return 0
    return said(new, json.loads(report.KEPT.read_text(encoding="utf-8")))


def said(new: Mapping[str, Any], old: Mapping[str, Any]) -> int:
    """Print the ratios that fell; return 1 if there are any."""
    worse, lonely = fallen(new, old)
    for label in lonely:
        print(f"only in one of the two results: {label}")
    for one in worse:
        print(f"fell by more than a fifth: {one.line}")
    if not worse:
        print(f"no ratio fell by more than a fifth since {old['at']}")
    return 1 if worse else 0


def main() -> int:
    """Compare two files."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("new", type=Path)
    parser.add_argument("old", type=Path, nargs="?", default=report.KEPT)
    options = parser.parse_args()
    new, old = (json.loads(file.read_text(encoding="utf-8")) for file in (options.new, options.old))
    return said(new, old)


if __name__ == "__main__":
    sys.exit(main())
