"""The progress of a long operation: a line on stderr, and the progress bar that the console draws from it. Pure.

A command prints the line for users who wait in a shell. The console reads the newest progress line of each command that
it started.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slotkeeper.console.views.rows import count
from slotkeeper.console.views.signs import COPIES, NONE, OK, sign
from slotkeeper.core.domain.ttl import in_words

WIDTH = 12
"""The width of a bar in cells; bar and figures fit on a line of 80 columns."""
_SETTLES = 2.0
"""The number of seconds after which a rate is reliable."""
_LINE = re.compile(
    r"^slotkeeper: (?P<what>.+): (?P<done>[\d,]+) of (?P<total>[\d,]+) (?P<unit>(?:rows|chunks|entries|lanes) \w+)"
    r"(?:, (?P<rate>[\d.,]+[kMG]? \w+/s))?(?:, (?P<left>\S+) left)?$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class HowFar:
    """The progress of an operation: `done` of `total`, with a unit such as "rows compared".

    `left` is the remaining time as text, `rate` the rate ("4.2k rows/s"); "" if unknown.
    """

    what: str
    done: int
    total: int
    unit: str
    left: str = ""
    rate: str = ""

    @property
    def share(self) -> float:
        """The completed share from 0 to 1. It is capped, because `done` can exceed an estimated `total`."""
        return min(1.0, self.done / self.total) if self.total > 0 else 1.0

    @property
    def line(self) -> str:
        """The line that a command prints.

        >>> HowFar("orders_rt", 52_000, 130_881, "rows compared", "12s", "6.6k rows/s").line
        'orders_rt: 52,000 of 130,881 rows compared, 6.6k rows/s, 12s left'
        """
        return f"{self.what}: {', '.join(self._figures)}"

    @property
    def _figures(self) -> list[str]:
        left = f"{self.left} left" if self.left else ""
        return [one for one in (f"{self.done:,} of {self.total:,} {self.unit}", self.rate, left) if one]

    def drawn(self, ascii_only: bool = False) -> str:
        """Return the bar with its figures.

        >>> HowFar("a", 30, 120, "rows compared", "12s", "8 rows/s").drawn(ascii_only=True)
        '[###.........]  25 %  30 of 120 rows compared, 8 rows/s, 12s left'
        """
        return f"{bar(self.share, ascii_only)} {self.share:4.0%}".replace("%", " %") + f"  {', '.join(self._figures)}"


def bar(share: float, ascii_only: bool = False, width: int = WIDTH) -> str:
    """Return a bar; it is full only if nothing remains to be done.

    >>> bar(0.999, ascii_only=True), bar(1.0, ascii_only=True)[-2:]
    ('[###########.]', '#]')
    """
    full = width if share >= 1 else min(width - 1, int(share * width))
    signs = "#." if ascii_only else "\u2588\u2591"
    return f"[{signs[0] * full}{signs[1] * (width - full)}]"


def steps(names: Sequence[str], at: int, ascii_only: bool = False) -> str:
    """Return the steps of an operation with their symbols: steps before `at` are done, step `at` is in progress.

    >>> steps(["copy", "catch up", "stream"], 1, ascii_only=True)
    'ok copy   ~ catch up   - stream'
    """
    signs = [OK if place < at else COPIES if place == at else NONE for place in range(len(names))]
    return "   ".join(f"{sign(one, ascii_only)} {name}" for one, name in zip(signs, names, strict=True))


def pace(done: int, unit: str, seconds: float) -> str:
    """Return the average rate; "" if it is not reliable yet.

    >>> pace(9_000, "rows compared", 2.0), pace(9_000, "rows compared", 0.5)
    ('4500 rows/s', '')
    """
    return "" if done <= 0 or seconds < _SETTLES else f"{count(round(done / seconds))} {unit.split()[0]}/s"


def time_left(done: int, total: int, seconds: float) -> str:
    """Return the remaining time at the average rate, as text; "" if it is not reliable yet.

    >>> time_left(30, 120, 4.0), time_left(0, 120, 4.0), time_left(30, 120, 0.5), time_left(120, 120, 9.0)
    ('12s', '', '', '')
    """
    if done <= 0 or done >= total or seconds < _SETTLES:
        return ""
    return in_words(max(1.0, seconds * (total - done) / done))


def newest(err: str) -> HowFar | None:
    """Return the last progress that a command reported; None if it reported none.

    >>> newest("slotkeeper: a: 1 of 2 rows compared\\nslotkeeper: a: 1,500 of 2,000 rows compared, 3s left\\n")
    HowFar(what='a', done=1500, total=2000, unit='rows compared', left='3s', rate='')
    """
    found = None
    for found in _LINE.finditer(err):  # noqa: B007 - only the last match is needed
        pass
    if found is None:
        return None
    done, total = (int(found[name].replace(",", "")) for name in ("done", "total"))
    return HowFar(found["what"], done, total, found["unit"], found["left"] or "", found["rate"] or "")


def is_progress(line: str) -> bool:
    """Return whether a line of stderr reports progress, and therefore is not an error.

    >>> is_progress("slotkeeper: a: 1 of 2 rows compared"), is_progress("slotkeeper: job a has no table 'b'")
    (True, False)
    """
    return _LINE.fullmatch(line) is not None
