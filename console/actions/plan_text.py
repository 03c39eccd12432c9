"""The lines of a plan: whom it is about, DN by DN from, to and rows, what it means, the way back. Pure.

Next door: `console.actions.preview` is the plan, `act_preview` shows these lines.
"""

from __future__ import annotations

from datetime import datetime

from console.actions.commands import Place
from console.actions.preview import CheckLine, LaneLine, Preview
from console.monitor.snapshot import Level
from core.domain.text import safe
from core.domain.ttl import in_words

FULL = 24
"""From so many rows on there is room for everything."""
_SAID = {True: "ok", False: "FAIL", None: "?"}
_LEVELS = {True: Level.FINE, False: Level.CRITICAL, None: Level.UNKNOWN}
Lines = list[tuple[Level, str]]


def head(plan: Preview, state: str, seen: str) -> Lines:
    """Whom it is about: `state` is that of the job that holds the slot, `seen` which lines are shown."""
    dns = f"{len(plan.lanes)} DN" if plan.lanes else "no DN is listed"
    owner = plan.owner if state in plan.owner.split() else f"{plan.owner} {state}".rstrip()
    return [(Level.FINE, f"{plan.what}   {dns}"), (Level.FINE, f"holder {owner}   {seen}".rstrip())]


def header(width: int) -> Lines:
    """The header of the lanes."""
    return [(Level.REST, _columns(" ", "DN", "FROM", "TO", "ROWS", "OLDEST", width))]


def lanes(plan: Preview, width: int) -> Lines:
    """One line per DN, those that lose rows first."""
    found = [_lane(one, width) for one in plan.lanes]
    return found or [(Level.REST, "   the slot holds no point")]


def _lane(one: LaneLine, width: int) -> tuple[Level, str]:
    mark = Level.WARNING if one.lost else Level.FINE
    return mark, " " + _columns(mark.value, one.dn, one.before, one.after, one.number, one.oldest, width)


def _columns(mark: str, dn: str, before: str, after: str, number: str, oldest: str, width: int) -> str:
    if width < 80:
        return f"{mark} {_fit(dn, 9)} {_fit(before, 14, True)} {_fit(after, 13, True)} {_fit(number, 15, True)}"
    wide = 4 if width >= 100 else 0
    cells = (_fit(dn, 10 + wide), _fit(before, 17 + wide, True), _fit(after, 13 + wide, True))
    return f"{mark} {' '.join(cells)} {_fit(number, 18 + wide, True)} {_fit(oldest, 14, True)}".rstrip()


def _fit(text: str, room: int, right: bool = False) -> str:
    shown = text if len(text) <= room else text[: room - 2] + ".."
    return f"{shown:>{room}}" if right else f"{shown:<{room}}"


def tail(plan: Preview, width: int, height: int) -> Lines:
    """What it means, the way back, what is safer, what is sent, what holds: a line each where that is enough."""
    room = width - 10
    lines: Lines = []
    lost = any(one.lost for one in plan.lanes)
    if height < FULL:
        return [(Level.FINE, "Effect  " + _one_line(plan.effects[0], room)), _checks(plan.checks, room)]
    for number, effect in enumerate(plan.effects[:3]):
        label = "Effect  " if not number else "        "
        lines.append((Level.WARNING if lost and not number else Level.FINE, label + _one_line(effect, room)))
    more = len(plan.effects) - 3
    if more > 0:
        lines[-1] = (lines[-1][0], lines[-1][1][: room - 8] + f"  +{more} v")
    lines.append((Level.FINE, "Undo    " + _one_line(plan.undo, room)))
    lines.append((Level.FINE, "Safer   " + _one_line(plan.safer, room)))
    sql = plan.sql[0] if plan.sql else "nothing is sent"
    count = f"  {len(plan.sql)} lines v" if len(plan.sql) > 1 else ""
    lines.append((Level.FINE, "SQL     " + _one_line(sql, room - len(count)) + count))
    return [*lines, _checks(plan.checks, room)]


def _checks(checks: tuple[CheckLine, ...], room: int) -> tuple[Level, str]:
    """Those that fail in full; those that hold by name."""
    failed = [one for one in checks if one.ok is False]
    if failed:
        return Level.CRITICAL, "Checks  " + _one_line(
            "   ".join(f"FAIL {one.name}: {one.sentence}" for one in failed), room
        )
    unsure = [one for one in checks if one.ok is None]
    words = [f"? {one.name}" for one in unsure] + [f"ok {one.name}" for one in checks if one.ok]
    return (Level.UNKNOWN if unsure else Level.FINE), "Checks  " + _one_line("  ".join(words), room)


def _one_line(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 2] + ".."


def words(plan: Preview) -> Lines:
    """Everything in full: effects, checks with their sentences, statements."""
    lines: Lines = [(Level.FINE, f"effect  {each}") for each in plan.effects]
    lines.append((Level.FINE, f"undo    {plan.undo}"))
    lines += [
        (_LEVELS[one.ok], f"{_SAID[one.ok]:<6}  {one.name}{': ' + one.sentence if one.sentence else ''}")
        for one in plan.checks
    ]
    return lines + [(Level.FINE, f"sql     {each}") for each in plan.sql or ("nothing is sent",)]


def valid(plan: Preview, now: datetime) -> str:
    """The plan's id and how long it can still be carried out."""
    if plan.expires is None:
        return "planned again when it is done"
    left = (plan.expires - now).total_seconds()
    return f"plan {plan.plan} " + (f"valid {in_words(left)}" if left > 0 else "EXPIRED: n plans again")


def ending(place: Place) -> Preview:
    """What ending an unfinished reset means; it has no plan of its own."""
    return Preview(
        title="END UNFINISHED RESET",
        what=safe(f"{place.source} {place.table} / {place.slot}", 160),
        owner="its job does not start until this is done",
        lanes=(),
        effects=(
            "finishes the reset where its rows were written, rolls it back where not",
            "its plan and its backup are those that were made at its beginning",
        ),
        undo="as before: `slots undo` with the backup of that reset",
        safer="none: half a reset is not to be left",
        sql=(),
        checks=(CheckLine(True, "checked again at once before it is done", ""),),
        possible=True,
        wants=(),
    )
