"""Symbols for states and severities in UTF-8 and ASCII, with their color roles, and formatted durations. Pure.

Colors are defined here together with their symbols. A color is never used without its symbol, so that no information
depends on color.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.views.rows import UNKNOWN
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.judgement.facts import BEHIND_SECONDS

Parts = list[tuple[str, str]]
"""Text as (text, role of `slotkeeper.console.tui.theme`) from left to right; "" is the default role."""
OK, WARNING, FAILED, MOVES, COPIES, NONE = "\u2714", "\u25b2", "\u2716", "\u25cf", "\u25d0", "\u2013"
_ASCII = {OK: "ok", WARNING: "!", FAILED: "x", MOVES: "*", COPIES: "~", NONE: "-"}
ROLES = {
    Level.CRITICAL: "crit",
    Level.WARNING: "warn",
    Level.UNKNOWN: "unknown",
    Level.BUSY: "busy",
    Level.REST: "rest",
}
"""The color roles of severities; FINE has none."""
_MARKS = {Level.CRITICAL: FAILED, Level.WARNING: WARNING, Level.BUSY: COPIES, Level.REST: NONE}
_DN_ROLES = {MOVES: "ok", COPIES: "busy", WARNING: "warn", FAILED: "crit", NONE: "rest", "?": "unknown"}
_DN_ROLES |= {_ASCII[sign]: role for sign, role in _DN_ROLES.items() if sign in _ASCII}
HEAT, ASCII_HEAT = "\u2581\u2584\u2588", ".o#"
"""Blocks for a DN that is current, one that lags, and one that lags much: higher means more lag, even without color."""
LEGEND = tuple(f"{one[0]} < {BEHIND_SECONDS:g} s, {one[1]} < 1 m, {one[2]} more" for one in (HEAT, ASCII_HEAT))
"""The meaning of the blocks, and in ASCII."""
_HEAT_ROLES = dict(zip(HEAT + ASCII_HEAT, ("ok", "warn", "crit") * 2, strict=True)) | dict.fromkeys("\u00b7-", "dim")
SIGNS = "signs"
"""The tint of a cell in which each symbol has its own color."""
LATE, MUCH = BEHIND_SECONDS, 60.0
"""The lag in seconds from which a DN is late, and from which it is very late."""
MANY = 17
"""The number of DNs from which a heat strip replaces their symbols."""


def sign(one: str, ascii_only: bool) -> str:
    """Return a symbol in the form that the terminal can draw.

    >>> sign(OK, True), sign(FAILED, True), sign(MOVES, False) == MOVES
    ('ok', 'x', True)
    """
    return _ASCII[one] if ascii_only else one


def mark(level: Level, ascii_only: bool) -> str:
    """Return the one-cell symbol of a severity; blank for FINE.

    >>> [mark(level, True) for level in (Level.CRITICAL, Level.WARNING, Level.UNKNOWN, Level.BUSY, Level.REST)]
    ['x', '!', '?', '~', '-']
    """
    return sign(_MARKS[level], ascii_only) if level in _MARKS else level.value


def cell(text: str, role: str, ascii_only: bool) -> tuple[str, str]:
    """Return a cell's text and color: an unknown value is a dim dash, and a value that does not apply is blank.

    >>> cell("?", "warn", True), cell("-", "", True), cell("12 s", "warn", True)
    (('-', 'dim'), ('', 'dim'), ('12 s', 'warn'))
    """
    if text not in (UNKNOWN, "-"):
        return text, role
    return sign(NONE, ascii_only) if text == UNKNOWN else "", "dim"


def dn_sign(level: Level, ascii_only: bool) -> tuple[str, str]:
    """Return the symbol of a streaming DN, or of the severity that prevents it, and its color role.

    >>> dn_sign(Level.FINE, True), dn_sign(Level.CRITICAL, True), dn_sign(Level.UNKNOWN, True)
    (('*', 'ok'), ('x', 'crit'), ('?', 'unknown'))
    """
    shown = {Level.CRITICAL: FAILED, Level.WARNING: WARNING, Level.FINE: MOVES}.get(level, "?")
    return sign(shown, ascii_only) if shown != "?" else shown, _DN_ROLES[shown]


def verdict_sign(level: Level, ascii_only: bool) -> tuple[str, str, str]:
    """Return the symbol of a verdict, its role, and the role of the text after it.

    >>> verdict_sign(Level.FINE, True), verdict_sign(Level.WARNING, True), verdict_sign(Level.REST, True)
    (('ok', 'ok-sign', 'ok'), ('!', 'warn-sign', 'warn'), ('-', 'rest-sign', 'rest'))
    """
    known = {Level.CRITICAL: "crit", Level.WARNING: "warn", Level.UNKNOWN: "unknown", Level.REST: "rest"}
    role = known.get(level, "ok")
    shown = sign(OK, ascii_only) if role == "ok" else mark(level, ascii_only)
    return shown, f"{role}-sign", role


def state_role(job: JobFacts) -> str:
    """Return the color role of a job's state: that of its fault, otherwise that of its activity.

    >>> [state_role(JobFacts("a", Level.FINE, state)) for state in (JobState.RUNNING, JobState.SNAPSHOT, None)]
    ['ok', 'busy', 'rest']
    """
    if job.level in (Level.CRITICAL, Level.WARNING, Level.UNKNOWN):
        return ROLES[job.level]
    if job.state is None or not job.state.has_process or job.last_known or job.state is JobState.PAUSED:
        return "rest"
    return "ok" if job.state is JobState.RUNNING else "busy"


def lag_role(lag: float | None) -> str:
    """Return the color role of a lag according to the two thresholds.

    >>> [lag_role(lag) for lag in (None, 0.4, 10.0, 61.0)]
    ['', '', 'warn', 'crit']
    """
    if lag is None or lag < LATE:
        return ""
    return "crit" if lag >= MUCH else "warn"


def signed(text: str, role: str, ascii_only: bool) -> str:
    """Return a value with the symbol of its severity in front of it: a color alone is not visible to everyone.

    >>> signed("12 s", "warn", True), signed("2 m 3 s", "crit-word", True), signed("0.4 s", "", True)
    ('! 12 s', 'x 2 m 3 s', '0.4 s')
    """
    shown = {"warn": WARNING, "crit": FAILED}.get(role.removesuffix("-word"))
    return f"{sign(shown, ascii_only)} {text}" if shown else text


def heat(lags: Sequence[float | None], cells: int, ascii_only: bool) -> str:
    """Return one cell per DN, in order, for its lag; if several DNs share a cell, it shows the worst lag.

    >>> heat([0.1, 12.0, 90.0, None], 4, True), heat([0.1, 12.0, 90.0, 0.2], 2, True)
    ('.o#?', 'o#')
    """
    steps = ASCII_HEAT if ascii_only else HEAT

    def worst(some: Sequence[float | None]) -> str:
        known = [one for one in some if one is not None]
        if len(known) < len(some) and (not known or max(known) < MUCH):
            return "?"
        return steps[sum(max(known) >= limit for limit in (LATE, MUCH))]

    count = max(1, min(cells, len(lags)))
    bounds = [place * len(lags) // count for place in range(count + 1)]
    return "".join(worst(lags[start:end]) for start, end in pairwise(bounds) if end > start)


def coloured(text: str) -> Parts:
    """Return the symbols of DNs or of a heat strip, each in its color; text from the first space on has no color.

    >>> coloured("**x* 3/4")
    [('**', 'ok'), ('x', 'crit'), ('*', 'ok'), (' 3/4', '')]
    """
    signs, blank, rest = text.partition(" ")
    roles = _HEAT_ROLES if set(signs) & set(HEAT + ASCII_HEAT) else _DN_ROLES
    return joined([*((one, roles.get(one, "")) for one in signs), (blank + rest, "")])


def joined(parts: Iterable[tuple[str, str]]) -> Parts:
    """Return the parts, joining adjacent ones with the same role.

    >>> joined([("a", ""), ("", "crit"), ("b", ""), ("c", "warn")])
    [('ab', ''), ('c', 'warn')]
    """
    found: Parts = []
    for text, role in parts:
        if found and found[-1][1] == role:
            found[-1] = found[-1][0] + text, role
        elif text:
            found.append((text, role))
    return found


def span(seconds: float | None, ascii_only: bool = True) -> str:
    """Return a duration in its two largest units; a short duration has one decimal.

    >>> [span(one) for one in (None, 0.44, 12.2, 91, 10_920, 100_000)]
    ['-', '0.4 s', '12 s', '1 m 31 s', '3 h 2 m', '1 d 3 h']
    """
    if seconds is None:
        return sign(NONE, ascii_only)
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    for name, size, less, unit in (("d", 86_400, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // unit} {less}"
    return f"{whole} s"


def since(at: datetime | None, now: datetime, ascii_only: bool = True) -> str:
    """Return the age in its largest unit.

    >>> since(datetime(2026, 1, 1), datetime(2026, 1, 1, 2, 5)), since(None, datetime(2026, 1, 1))
    ('2 h ago', '-')
    """
    past = None if at is None else elapsed(at, now)
    if past is None:
        return sign(NONE, ascii_only)
    size, name = next((size, name) for size, name in ((86_400, "d"), (3_600, "h"), (60, "m"), (0, "s")) if past >= size)
    return f"{int(past // max(1, size))} {name} ago"


def unrecorded(spark: str, ascii_only: bool) -> str:
    """Return a sparkline in which unknown values are dots, or blanks in ASCII, instead of question marks.

    >>> unrecorded("??_1", True)
    '  _1'
    """
    return spark.replace("?", " " if ascii_only else "\u00b7")
