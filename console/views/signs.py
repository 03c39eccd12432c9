"""The signs of states and severities, in UTF-8 and in ASCII, the role of the colour beside each, durations. Pure.

The one home of both: a colour never stands without its sign, so that nothing is lost without colour.
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
"""Text as (words, role of `slotkeeper.console.tui.theme`) from left to right; "" is a role of its own."""
OK, WARNING, FAILED, MOVES, COPIES, NONE = "\u2714", "\u25b2", "\u2716", "\u25cf", "\u25d0", "\u2013"
_ASCII = {OK: "ok", WARNING: "!", FAILED: "x", MOVES: "*", COPIES: "~", NONE: "-"}
ROLES = {
    Level.CRITICAL: "crit",
    Level.WARNING: "warn",
    Level.UNKNOWN: "unknown",
    Level.BUSY: "busy",
    Level.REST: "rest",
}
"""The colour of a severity; what is fine has none."""
_MARKS = {Level.CRITICAL: FAILED, Level.WARNING: WARNING, Level.BUSY: COPIES, Level.REST: NONE}
_DN_ROLES = {MOVES: "ok", COPIES: "busy", WARNING: "warn", FAILED: "crit", NONE: "rest", "?": "unknown"}
_DN_ROLES |= {_ASCII[sign]: role for sign, role in _DN_ROLES.items() if sign in _ASCII}
HEAT, ASCII_HEAT = "\u2581\u2584\u2588", ".o#"
"""A DN that follows, one that lags, and one that lags much: the higher the later, so that it is read without colour."""
_HEAT_ROLES = dict(zip(HEAT + ASCII_HEAT, ("ok", "warn", "crit") * 2, strict=True)) | dict.fromkeys("\u00b7-", "dim")
SIGNS = "signs"
"""The tint of a cell whose signs have a colour each."""
LATE, MUCH = BEHIND_SECONDS, 60.0
"""Seconds of lag from which on a DN is late, and very late."""
MANY = 17
"""From this number of DNs on a heat strip replaces their signs."""


def sign(one: str, ascii_only: bool) -> str:
    """A sign as this terminal draws it.

    >>> sign(OK, True), sign(FAILED, True), sign(MOVES, False) == MOVES
    ('ok', 'x', True)
    """
    return _ASCII[one] if ascii_only else one


def mark(level: Level, ascii_only: bool) -> str:
    """The sign of a severity in one cell; blank for what is fine.

    >>> [mark(level, True) for level in (Level.CRITICAL, Level.WARNING, Level.UNKNOWN, Level.BUSY, Level.REST)]
    ['x', '!', '?', '~', '-']
    """
    return sign(_MARKS[level], ascii_only) if level in _MARKS else level.value


def cell(text: str, role: str, ascii_only: bool) -> tuple[str, str]:
    """Return the text of a cell with its color: unknown is a dim dash, blank is a value that its row does not have.

    >>> cell("?", "warn", True), cell("-", "", True), cell("12 s", "warn", True)
    (('-', 'dim'), ('', 'dim'), ('12 s', 'warn'))
    """
    if text not in (UNKNOWN, "-"):
        return text, role
    return sign(NONE, ascii_only) if text == UNKNOWN else "", "dim"


def dn_sign(level: Level, ascii_only: bool) -> tuple[str, str]:
    """The sign of a DN that streams, or of what prevents it, and its colour.

    >>> dn_sign(Level.FINE, True), dn_sign(Level.CRITICAL, True), dn_sign(Level.UNKNOWN, True)
    (('*', 'ok'), ('x', 'crit'), ('?', 'unknown'))
    """
    shown = {Level.CRITICAL: FAILED, Level.WARNING: WARNING, Level.FINE: MOVES}.get(level, "?")
    return sign(shown, ascii_only) if shown != "?" else shown, _DN_ROLES[shown]


def verdict_sign(level: Level, ascii_only: bool) -> tuple[str, str, str]:
    """The sign of a verdict, the role it stands in, and that of the words behind it.

    >>> verdict_sign(Level.FINE, True), verdict_sign(Level.WARNING, True), verdict_sign(Level.REST, True)
    (('ok', 'ok-sign', 'ok'), ('!', 'warn-sign', 'warn'), ('-', 'rest-sign', 'rest'))
    """
    known = {Level.CRITICAL: "crit", Level.WARNING: "warn", Level.UNKNOWN: "unknown", Level.REST: "rest"}
    role = known.get(level, "ok")
    shown = sign(OK, ascii_only) if role == "ok" else mark(level, ascii_only)
    return shown, f"{role}-sign", role


def state_role(job: JobFacts) -> str:
    """The colour of a job's state: that of its fault, else what it does.

    >>> [state_role(JobFacts("a", Level.FINE, state)) for state in (JobState.RUNNING, JobState.SNAPSHOT, None)]
    ['ok', 'busy', 'rest']
    """
    if job.level in (Level.CRITICAL, Level.WARNING, Level.UNKNOWN):
        return ROLES[job.level]
    if job.state is None or not job.state.has_process or job.last_known or job.state is JobState.PAUSED:
        return "rest"
    return "ok" if job.state is JobState.RUNNING else "busy"


def lag_role(lag: float | None) -> str:
    """The colour of a lag by the two thresholds.

    >>> [lag_role(lag) for lag in (None, 0.4, 10.0, 61.0)]
    ['', '', 'warn', 'crit']
    """
    if lag is None or lag < LATE:
        return ""
    return "crit" if lag >= MUCH else "warn"


def heat(lags: Sequence[float | None], cells: int, ascii_only: bool) -> str:
    """A cell for each DN in its order, by its lag; where there are more than cells, the worst of those that share one.

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
    """Signs of DNs, or a heat strip, each in its colour, up to the first blank; what follows is plain.

    >>> coloured("**x* 3/4")
    [('**', 'ok'), ('x', 'crit'), ('*', 'ok'), (' 3/4', '')]
    """
    signs, blank, rest = text.partition(" ")
    roles = _HEAT_ROLES if set(signs) & set(HEAT + ASCII_HEAT) else _DN_ROLES
    return joined([*((one, roles.get(one, "")) for one in signs), (blank + rest, "")])


def joined(parts: Iterable[tuple[str, str]]) -> Parts:
    """The same, neighbours of one role as one part.

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
    """A duration in its two largest units, apart from each other; what is short with a decimal.

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
    """How long ago, in its largest unit.

    >>> since(datetime(2026, 1, 1), datetime(2026, 1, 1, 2, 5)), since(None, datetime(2026, 1, 1))
    ('2 h ago', '-')
    """
    past = None if at is None else elapsed(at, now)
    if past is None:
        return sign(NONE, ascii_only)
    size, name = next((size, name) for size, name in ((86_400, "d"), (3_600, "h"), (60, "m"), (0, "s")) if past >= size)
    return f"{int(past // max(1, size))} {name} ago"


def unrecorded(spark: str, ascii_only: bool) -> str:
    """A sparkline whose unknown moments are dots, or blank in ASCII: no wall of question marks.

    >>> unrecorded("??_1", True)
    '  _1'
    """
    return spark.replace("?", " " if ascii_only else "\u00b7")
