"""What a dry run answered, and its lines: per DN from, to and rows, what it means, the way back. Pure.

Every text of it came from a child and passes `safe()` here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from slotkeeper.console.actions.commands import Place, Want, slot_wants
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.views.rows import UNKNOWN, short
from slotkeeper.core.domain.reset import COPIES, TAKES_COPY, Move, ResetPlan, plan_of
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.domain.ttl import in_words
from slotkeeper.core.sources import registry

_ANY = 10_000
FULL = 24
"""From so many rows on all of it has a row each, whatever has to be scrolled for that."""
_SAID = {True: "ok", False: "FAIL", None: "?"}
_LEVELS = {True: Level.FINE, False: Level.CRITICAL, None: Level.UNKNOWN}
Lines = list[tuple[Level, str]]


@dataclass(frozen=True, slots=True)
class LaneLine:
    """One DN: `number` rows are `lost` to the reader, or come again."""

    dn: str
    before: str
    after: str
    number: str
    oldest: str
    lost: bool = False


@dataclass(frozen=True, slots=True)
class CheckLine:
    """A precondition: `ok` None where it cannot be told."""

    ok: bool | None
    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan as it is shown; `plan` is "" where the command plans again itself, `expires` None where it does."""

    title: str
    what: str
    owner: str
    lanes: tuple[LaneLine, ...]
    effects: tuple[str, ...]
    undo: str
    safer: str
    sql: tuple[str, ...]
    checks: tuple[CheckLine, ...]
    wants: tuple[Want, ...]
    plan: str = ""
    expires: datetime | None = None
    warns: bool = False
    """Whether its first effect is a loss."""
    copies: str = ""
    """What the next start copies: rows and time; "" where the reset makes no copy due."""

    @property
    def failed(self) -> list[CheckLine]:
        """The preconditions that do not hold."""
        return [one for one in self.checks if one.ok is False]

    @property
    def takes_no_copy(self) -> bool:
        """Whether a snapshot's target has rows that nothing says what to do with."""
        return any(one.name == TAKES_COPY for one in self.failed)

    def expired(self, now: datetime) -> bool:
        """Whether the plan has become too old to be carried out."""
        return self.expires is not None and now >= self.expires


def parsed(out: str) -> Mapping[str, Any] | None:
    """The JSON object that a command wrote last; None where it wrote none."""
    for line in reversed(out.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def preview_from(out: str) -> Preview | None:
    """The preview of a dry run's answer; None where it is none."""
    found = parsed(out)
    if found is None:
        return None
    try:
        return _reset(found) if "moves" in found else _verb(found["plan"], found["to_type"], found["undo"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _reset(found: Mapping[str, Any]) -> Preview:
    times = {name: datetime.fromisoformat(found[name]).astimezone(timezone.utc) for name in ("made", "expires")}
    moments = {name: time.timestamp() for name, time in times.items()}
    plan = plan_of({**found, **moments}, registry.positions(str(found["dialect"])))
    skips, notes = any(move.skips for move in plan.moves), list(map(_said, plan.notes))
    meant = _summed(plan.moves)
    return Preview(
        title=f"RESET {'' if plan.goal.on_existing else 'SLOT '}to {safe(plan.goal.text, 60)}",
        what=f"{safe(plan.source, 40)} {safe(plan.table, 60)} / {safe(plan.slot, 60)}",
        owner=f"job {safe(plan.job, 60)}",
        lanes=tuple(map(_move, sorted(plan.moves, key=_worst_first))),
        effects=tuple([*notes, *meant] if plan.rows else [*meant, *notes]),
        undo=_said(found["undo"]),
        safer=_safer(plan, skips),
        sql=tuple(map(_said, plan.sql)),
        checks=tuple(CheckLine(one.ok, safe(one.name, 40), _said(one.sentence)) for one in plan.checks),
        wants=slot_wants(found["to_type"]),
        plan=safe(plan.id, 20),
        expires=times["expires"],
        warns=skips or _fewer(plan),
        copies=next((safe(one.removeprefix(COPIES), 120) for one in plan.notes if one.startswith(COPIES)), ""),
    )


def _safer(plan: ResetPlan, skips: bool) -> str:
    if skips:
        return "--to snapshot: copies the table anew, skips nothing"
    if _fewer(plan):
        other = "; merge (key o) takes no row away" if plan.at_stake else ""
        return f"first see why the source has fewer{other}"
    return "none needed: nothing is skipped"


def _fewer(plan: ResetPlan) -> bool:
    """Whether the source has fewer rows than the target, as far as that is of any weight."""
    return plan.at_stake > 0 or (plan.rows is not None and plan.rows.truncated)


def _worst_first(move: Move) -> tuple[int, int]:
    """What skips most is first, then what comes again; else the order of the plan."""
    return -move.skipped.total, -move.read_again.total


def _move(move: Move) -> LaneLine:
    count, word = (move.skipped, "skipped") if move.skips else (move.read_again, "again")
    number = f"{'' if count.whole else '>= '}{count.total:,} {word}" if count.total or not count.whole else "0"
    oldest = UNKNOWN if count.oldest is None and count.total else str(count.oldest or "-")
    if count.oldest_us:
        oldest = f"{datetime.fromtimestamp(count.oldest_us / 1_000_000, timezone.utc):%m-%d %H:%M:%SZ}"
    before, to = (position.text if position else "" for position in (move.before, move.to.position))
    return LaneLine(
        safe(move.seen.row.key.shard, 40), before or "awaits copy", to or "copied anew", number, oldest, move.skips
    )


def _summed(moves: Sequence[Move]) -> list[str]:
    """What it means for all DNs together, what is lost first."""
    lost = [one.skipped for one in moves if one.skips]
    again = [one.read_again.total for one in moves if one.read_again.total]
    said = []
    if lost:
        least = "" if all(one.whole for one in lost) else ">= "
        total = sum(one.total for one in lost)
        said.append(f"{least}{total:,} changes on {many(len(lost), 'lane')} are SKIPPED: they never reach the target")
    if again:
        said.append(f"{sum(again):,} changes on {many(len(again), 'lane')} are applied again")
    return said or list(dict.fromkeys(_said(one.effect) for one in moves))


def _verb(plan: Mapping[str, Any], to_type: Mapping[str, Any], undo: str) -> Preview:
    owner = plan["owner"]
    rows = plan["rows"]
    verb = safe(plan["verb"], 20)
    after = {"create": "0 (recording)", "register": "newest point"}.get(verb, "gone" if plan["sql"] else "its TTL")
    lanes = [_shard(one, after, verb != "create") for one in plan["before"]["shards"]]
    safer = "leave it: what is unread stays readable until its TTL" if rows != 0 else "none needed: no row is lost"
    return Preview(
        title=f"{verb.upper()} SLOT",
        what=f"{safe(plan['source'], 40)} {safe(plan['table'], 60)} / {safe(plan['slot'], 60)}",
        owner=_owner(owner),
        lanes=tuple(sorted(lanes, key=lambda one: one.dn)),
        effects=tuple(map(_said, plan["effects"])),
        undo=_said(undo),
        safer=safer,
        sql=tuple(map(_said, plan["sql"])),
        checks=(CheckLine(True, "planned again and checked again at once before it is done", ""),),
        wants=slot_wants(to_type),
    )


def _shard(found: Mapping[str, Any], after: str, loses: bool) -> LaneLine:
    unread = found["unread"]
    number = UNKNOWN if unread is None else f"{unread:,}"
    lost = loses and unread != 0
    return LaneLine(
        safe(found["shard"], 40),
        f"{_point(found['live'])}/{_point(found['durable'])}",
        after,
        f"{number} lost" if lost else number,
        "-",
        lost,
    )


def _owner(owner: Mapping[str, Any] | None) -> str:
    if owner is None:
        return "external: no job of this configuration"
    state = safe(owner["state"], 20) if owner["state"] else "never started"
    return f"job {safe(owner['job'], 60)} {state}"


def _point(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _said(text: object) -> str:
    return safe(text, 400)


# -- the lines --------------------------------------------------------------------------------------------------------


def head(plan: Preview, state: str, seen: str) -> Lines:
    """Whom it is about: `state` is that of the job that holds the slot, `seen` which lines are shown."""
    dns = many(len(plan.lanes), "lane") if plan.lanes else "no lane is listed"
    owner = plan.owner if state in plan.owner.split() else f"{plan.owner} {state}".rstrip()
    return [(Level.FINE, f"{plan.what}   {dns}"), (Level.FINE, f"holder {owner}   {seen}".rstrip())]


def header(width: int) -> Lines:
    """The header of the lanes."""
    return [(Level.REST, _columns(" ", "LANE", "FROM", "TO", "ROWS", "OLDEST", width))]


def lanes(plan: Preview, width: int) -> Lines:
    """One line per DN, those that lose rows first."""
    found = []
    for one in plan.lanes:
        mark = Level.WARNING if one.lost else Level.FINE
        row = _columns(mark.value, one.dn, one.before, one.after, one.number, one.oldest, width)
        found.append((mark, f" {row}"))
    return found or [(Level.REST, "   the slot holds no point")]


def _columns(mark: str, dn: str, before: str, after: str, number: str, oldest: str, width: int) -> str:
    if width < 80:
        return f"{mark} {_fit(dn, 9)} {_fit(before, 14, True)} {_fit(after, 13, True)} {_fit(number, 15, True)}"
    wide = 4 if width >= 100 else 0
    cells = (_fit(dn, 10 + wide), _fit(before, 17 + wide, True), _fit(after, 13 + wide, True))
    return f"{mark} {' '.join(cells)} {_fit(number, 18 + wide, True)} {_fit(oldest, 14, True)}".rstrip()


def _fit(text: str, room: int, right: bool = False) -> str:
    return f"{short(text, room):>{room}}" if right else f"{short(text, room):<{room}}"


def tail(plan: Preview, width: int, height: int, rows: int, taken: Callable[[str], int]) -> Lines:
    """What it means, the way back, what is safer, what is sent, what holds: a row each, in full where `rows` allow.

    `taken`: how many rows a text takes on this screen.
    """
    few = height < FULL and rows < len(_tail(plan, _ANY, few=False))
    cut, whole = _tail(plan, width - 10, few), _tail(plan, _ANY, few)
    spare = rows - len(cut)
    found: Lines = []
    for one, other in zip(cut, whole, strict=True):
        more = taken(other[1]) - 1
        found.append(other if more <= spare else one)
        spare -= more if more <= spare else 0
    return found


def _tail(plan: Preview, room: int, few: bool) -> Lines:
    if plan.failed:  # nothing else is said of what is not done
        said = [f"{one.name}: {one.sentence}" if one.sentence else one.name for one in plan.failed]
        return [(Level.CRITICAL, "FAIL " + short(each, room)) for each in said]
    lines: Lines = []
    lost = plan.warns or any(one.lost for one in plan.lanes)
    if few:
        level = Level.WARNING if plan.warns else Level.FINE
        return [(level, "Effect  " + short(plan.effects[0], room)), _checks(plan.checks, room)]
    for number, effect in enumerate(plan.effects[:3]):
        label = "Effect  " if not number else "        "
        lines.append((Level.WARNING if lost and not number else Level.FINE, label + short(effect, room)))
    more = len(plan.effects) - 3
    if more > 0:
        lines[-1] = (lines[-1][0], lines[-1][1][: room - 8] + f"  +{more} v")
    lines.append((Level.FINE, "Undo    " + short(plan.undo, room)))
    lines.append((Level.FINE, "Safer   " + short(plan.safer, room)))
    sql = plan.sql[0] if plan.sql else "nothing is sent"
    count = f"  {len(plan.sql)} lines v" if len(plan.sql) > 1 else ""
    lines.append((Level.FINE, "SQL     " + short(sql, room - len(count)) + count))
    return [*lines, _checks(plan.checks, room)]


def _checks(checks: tuple[CheckLine, ...], room: int) -> tuple[Level, str]:
    """Those that hold by name; what cannot be told first."""
    unsure = [one for one in checks if one.ok is None]
    words = [f"? {one.name}" for one in unsure] + [f"ok {one.name}" for one in checks if one.ok]
    return (Level.UNKNOWN if unsure else Level.FINE), "Checks  " + short("  ".join(words), room)


def words(plan: Preview) -> Lines:
    """Everything in full: what fails, effects, the other checks with their sentences, statements."""
    lines: Lines = [_check(one) for one in plan.failed]
    lines += [(Level.FINE, f"effect  {each}") for each in plan.effects]
    lines.append((Level.FINE, f"undo    {plan.undo}"))
    lines += [_check(one) for one in plan.checks if one.ok is not False]
    return lines + [(Level.FINE, f"sql     {each}") for each in plan.sql or ("nothing is sent",)]


def _check(one: CheckLine) -> tuple[Level, str]:
    return _LEVELS[one.ok], f"{_SAID[one.ok]:<6}  {one.name}{': ' + one.sentence if one.sentence else ''}"


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
        wants=(),
    )
