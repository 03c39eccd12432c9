"""A share as a bar of a few cells. Pure.

Next door: `console.views.slots` has what is left of a TTL, `console.views.jobs` the DNs that are in sync.
"""

from __future__ import annotations

import math

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
