"""A share as a bar of a few cells, and rates over time as one row of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

BARS, ASCII_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588", "_.123456"
"""In ASCII a digit is how many digits the rate has, which needs no key to be read; less than one a second is a dot."""
_FULL, _EMPTY = "\u2588", "\u2591"


def bar(share: float | None, cells: int = 8, ascii_only: bool = True, up: bool = True) -> str:
    """The share of 1 as full cells, then empty ones; "" where it is unknown.

    `up` rounds to the next cell, so that something is never nothing; without it only what is complete is full.

    >>> [bar(share) for share in (1.0, 0.425, 0.001, 0.0, None)]
    ['########', '####....', '#.......', '........', '']
    >>> bar(0.74, 4, up=False), bar(0.5, 2, ascii_only=False)
    ('##..', '\u2588\u2591')
    """
    if share is None:
        return ""
    exact = max(0.0, min(1.0, share)) * cells
    full = math.ceil(exact) if up else math.floor(exact + 1e-9)
    done, rest = ("#", ".") if ascii_only else (_FULL, _EMPTY)
    return done * full + rest * (cells - full)


def bars(values: Iterable[float | None], ascii_only: bool = False) -> str:
    """A sparkline of events per second on a scale that is always the same: nothing, then a glyph for each power of ten.

    >>> bars([None, 0, 0.4, 5, 50, 500, 5_000, 50_000, 500_000])
    '?\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588'
    >>> bars([None, 0, 5, 500_000], ascii_only=True)
    '?_16'
    """
    signs = ASCII_BARS if ascii_only else BARS
    return "".join("?" if value is None else signs[_height(value)] for value in values)


def _height(value: float) -> int:
    if value <= 0:
        return 0
    return 1 + sum(value >= bound for bound in (1, 10, 100, 1_000, 10_000, 100_000))
