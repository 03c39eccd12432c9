"""`python -m bench.compare NEW [OLD]`: which ratios of one result fell by more than a fifth against another.

Without OLD, the kept result. Only ratios are compared: times of two runs say more about the machine than about us.
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
    """A ratio that is worse than it was."""

    label: str
    before: float
    after: float

    @property
    def line(self) -> str:
        """For people."""
        return f"{self.label}: {self.before:.2f} -> {self.after:.2f}"


def fallen(new: Mapping[str, Any], old: Mapping[str, Any], by: float = FIFTH) -> tuple[list[Fallen], list[str]]:
    """Ratios that are worse by more than that share, and the labels of those that only one of the two has.

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
    """Say what fell against the kept result; 1 where something did, 0 where not or where none is kept."""
    if not report.KEPT.exists():
        print(f"no result is kept: {report.KEPT}; `python -m bench --keep` makes one")
        return 0
    return said(new, json.loads(report.KEPT.read_text(encoding="utf-8")))


def said(new: Mapping[str, Any], old: Mapping[str, Any]) -> int:
    """Print what fell; 1 where something did."""
    worse, lonely = fallen(new, old)
    for label in lonely:
        print(f"in one of the two results only: {label}")
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
