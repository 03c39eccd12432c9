"""The first row of the screen: environment, user, whether changes are allowed, age of the data, and time. Pure.

Environment, read-only or WRITE, age and clock are always shown. The other parts are omitted if they do not fit, the
product's name first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from slotkeeper.console.views.rows import NARROW, WIDE
from slotkeeper.core.domain.text import safe

CALM = ("DEMO", "DEV", "TEST")
STAGE = ("STAGE", "STAGING", "UAT", "PREPROD")
_BADGE = 24
_LEAST_BADGE = 8
BRAND = " slotkeeper "
_STAND_IN = " stand-in"
"""Marks a source that is a stand-in, not a real server."""
MOST_BADGE = 99
_AROUND_NAME = 4
"""The cells around a tab's name: brackets, digit, and a space."""
Part = tuple[str, str]
"""A role of `slotkeeper.console.tui.theme` ("" for none), and the text drawn in it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The content of the first row; `armed` is the countdown, "" if this console is read-only."""

    environments: Sequence[str]
    who: str
    armed: str
    every: float
    seen: str
    stale: bool
    now: datetime
    paused: bool = False
    stand_in: bool = False
    history: bool = False
    route: str = ""
    """The names of source and sink."""


def badge_role(environments: Sequence[str]) -> str:
    """Return the role of the environment's badge: calm only if all environments are known to be harmless.

    >>> [badge_role(each) for each in (["DEV", "TEST"], ["stage"], ["DEV", "PROD"], [])]
    ['badge-calm', 'badge-stage', 'badge', 'badge-calm']
    """
    words = {one.upper() for one in environments}
    if words <= set(CALM):
        return "badge-calm"
    return "badge-stage" if words <= {*CALM, *STAGE} else "badge"


def parts(one: Identity, width: int) -> list[Part]:
    """Return the texts from left to right; together they fill the width of the row."""
    wide = width >= WIDE
    write, read = ("WRITE", "read-only") if width >= NARROW else ("RW", "RO")
    armed = ("armed", f" {write} {one.armed} ") if one.armed else ("safe", f" {read} ")
    stamp = f"{one.now:%Y-%m-%d %H:%M:%S} UTC " if wide else f"{one.now:%H:%M:%S}Z "
    stamp = f"  HISTORY {stamp}" if one.history else f"  paused {stamp}" if one.paused else f"  {stamp}"
    age = f" data {one.seen}" + (" old" if wide and not one.stale else "") + (" STALE" if one.stale else "")
    if width - len(armed[1]) - len(age) - len(stamp) < _LEAST_BADGE + 3:
        stamp = stamp[1:]
    taken = len(armed[1]) + len(age) + len(stamp)
    badge = _cut("+".join(one.environments) or "no environment", min(_BADGE, width - taken - 3))
    room = width - taken - len(badge) - 2
    stand_in = _STAND_IN if one.stand_in and room >= len(_STAND_IN) else ""
    room -= len(stand_in)
    every = "" if one.paused or one.history else f" * live {one.every:g}s " if wide else f" * {one.every:g}s"
    every = every if len(every) <= room else ""
    room -= len(every)
    who = f" {_cut(one.who, min(28, room - 2))}" if one.who and room >= _LEAST_BADGE + 2 else ""
    room -= len(who)
    route = [("strong", f" {one.route} ")] if one.route and len(one.route) + 2 <= room else []
    room -= len(one.route) + 2 if route else 0
    brand = [("brand", BRAND)] if len(BRAND) <= room else []
    room -= len(BRAND) if brand else 0
    gap = " " * max(0, room)
    return [
        *brand,
        *route,
        (badge_role(one.environments), f" {badge}{stand_in} "),
        ("", who + " " * bool(gap)),
        armed,
        ("dim", every),
        ("warn" if one.stale else "", age),
        ("armed" if one.history else "", gap[1:] + stamp),
    ]


def tabs(names: Mapping[str, str], counts: Mapping[str, int], here: str, width: int) -> dict[str, str]:
    """Return the screen names by digit. If they do not fit, names are shortened to initials, those with a badge last.

    >>> names = {"1": "Overview", "2": "Jobs", "3": "Errors"}
    >>> tabs(names, {}, "1", 80) == names, tabs(names, {"3": 2}, "1", 31), tabs(names, {"3": 2}, "1", 25)
    (True, {'1': 'Overview', '2': 'J', '3': 'Errors'}, {'1': 'Overview', '2': 'J', '3': 'E'})
    """
    shown = dict(names)
    badges = {key: len(f" {min(number, MOST_BADGE)}") for key, number in counts.items() if number}
    for key in sorted((key for key in names if key != here), key=lambda key: key in badges):
        if sum(len(name) + _AROUND_NAME + badges.get(each, 0) for each, name in shown.items()) <= width:
            break
        shown[key] = shown[key][:1]
    return shown


def _cut(words: str, most: int) -> str:
    return safe(words, max(_LEAST_BADGE, most))
