"""A plan and its lines, identical in the shell and on screens: from, to and rows per DN, then effects, checks and SQL.

Pure. All output of a child process is passed through `safe()` here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from slotkeeper.console.actions.commands import Place, Want, slot_wants
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.views.rows import UNKNOWN
from slotkeeper.core.domain.reset import COPIES, TAKES_COPY, Count, Move, ResetPlan, plan_of
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.domain.ttl import in_words
from slotkeeper.core.sources import registry

HEADS = ("LANE", "FROM", "TO", "ROWS", "OLDEST")
PASSED = {True: "pass", False: "FAIL", None: "unknown"}
_LEVELS = {True: Level.FINE, False: Level.CRITICAL, None: Level.UNKNOWN}
MEANS, NOT_POSSIBLE, CHECKS, COLUMNS, SQL = "What happens", "Not possible now", "Checks", "Columns", "SQL"
_COLUMNS = ("source ", "target ")
"""Prefixes of the plan's notes that list the columns of source and target."""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines of a plan under one heading, each with its severity and label. `hint` is their number as text."""

    name: str
    lines: tuple[tuple[Level, str, str], ...]
    hint: str = ""


@dataclass(frozen=True, slots=True)
class LaneLine:
    """One DN. Its `number` of rows is lost to the reader if `lost`, otherwise read again."""

    dn: str
    before: str
    after: str
    number: str
    oldest: str
    lost: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        """The DN's table cells, in the order of `HEADS`."""
        return self.dn, self.before, self.after, self.number, self.oldest


@dataclass(frozen=True, slots=True)
class CheckLine:
    """A precondition. `ok` is None if it could not be determined."""

    ok: bool | None
    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan as displayed. `plan` is "" and `expires` None if the command makes a new plan when it executes."""

    title: str
    what: str
    owner: str
    lanes: tuple[LaneLine, ...]
    effects: tuple[str, ...]
    """The effect on the rows."""
    impact: tuple[str, ...]
    """The consequences for readers of the target, and for the copy."""
    undo: str
    safer: str
    """An alternative that loses less; "" if nothing is lost."""
    sql: tuple[str, ...]
    checks: tuple[CheckLine, ...]
    wants: tuple[Want, ...]
    plan: str = ""
    expires: datetime | None = None
    warns: bool = False
    """Whether the plan's first effect is a loss."""
    columns: tuple[str, ...] = ()
    """The columns of source and target, if a copy will use them or they have changed."""
    copies: str = ""
    """The number of rows and the duration of the copy at the next start; "" if the reset requires no copy."""

    @property
    def failed(self) -> list[CheckLine]:
        """The preconditions that do not hold."""
        return [one for one in self.checks if one.ok is False]

    @property
    def takes_no_copy(self) -> bool:
        """Whether a snapshot's target has rows, but neither reset nor configuration specifies how to treat them."""
        return any(one.name == TAKES_COPY for one in self.failed)

    def expired(self, now: datetime) -> bool:
        """Return whether the plan is too old to be executed."""
        return self.expires is not None and now >= self.expires

    def sections(self, full: bool) -> list[Section]:
        """Return the sections of the plan except its lanes. The short form omits the SQL and the checks' findings.

        If a check fails, the plan's effects are not shown, because they would suggest that it can be executed.
        """
        checks = tuple((_LEVELS[one.ok], PASSED[one.ok], _sentence(one)) for one in self.checks)
        passed = sum(one.ok is True for one in self.checks)
        counted = f"{passed} of {len(self.checks)}"
        if self.failed:
            fails = tuple((Level.CRITICAL, PASSED[False], _sentence(one)) for one in self.failed)
            others = tuple(one for one in checks if one[0] is not Level.CRITICAL)
            more = [Section(CHECKS, others, counted)] if full and others else []
            return [Section(NOT_POSSIBLE, fails, f"{many(len(fails), 'check')} failed"), *more]
        means = _labelled("Effect", self.effects, Level.WARNING if self.loses else Level.FINE)
        means += _labelled("Impact", self.impact) + _labelled("Undo", (self.undo,))
        means += _labelled("Safer", (self.safer,) if self.safer else ())
        found = [Section(MEANS, tuple(means)), Section(CHECKS, checks, counted)]
        sent = tuple((Level.FINE, "sql", each) for each in self.sql or ("no statement is sent",))
        ends = [Section(COLUMNS, tuple((Level.FINE, "", each) for each in self.columns))] if self.columns else []
        return [*found, *ends, Section(SQL, sent)] if full else found

    @property
    def loses(self) -> bool:
        """Whether the plan skips changes or loses rows."""
        return self.warns or any(one.lost for one in self.lanes)


def parsed(out: str) -> Mapping[str, Any] | None:
    """Return the last JSON object in a command's output; None if there is none."""
    for line in reversed(out.splitlines()):
        if not line.lstrip().startswith("{"):  # a program can write hundreds of thousands of lines
            continue
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def preview_from(out: str) -> Preview | None:
    """Return the preview in the output of a dry run; None if it contains none."""
    found = parsed(out)
    if found is None:
        return None
    try:
        if "moves" not in found:
            return _verb(found["plan"], found["to_type"], found["undo"])
        times = {name: datetime.fromisoformat(found[name]).timestamp() for name in ("made", "expires")}
        plan = plan_of({**found, **times}, registry.positions(str(found["dialect"])))
        return of_reset(plan, found["to_type"], str(found["undo"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _sentence(one: CheckLine) -> str:
    return f"{one.name}: {one.sentence}" if one.sentence else one.name


def _labelled(label: str, texts: Sequence[str], first: Level = Level.FINE) -> list[tuple[Level, str, str]]:
    """Return the texts under one label, which is shown only on the first line."""
    return [(Level.FINE if place else first, "" if place else label, each) for place, each in enumerate(texts)]


def of_reset(plan: ResetPlan, to_type: Mapping[str, object], undo: str) -> Preview:
    """Return the preview of a reset plan. `to_type` and `undo` come from the same output of the command."""
    skips, notes = any(move.skips for move in plan.moves), tuple(map(_said, plan.notes))
    replaces = plan.rows is not None and plan.rows.replaces
    done = 0 if plan.rows is None else 1 + replaces
    return Preview(
        title=f"RESET SLOT {safe(plan.slot, 120)} to {safe(plan.goal.text, 200)}",
        what=f"{safe(plan.slot, 120)} of {safe(plan.table, 200)} on {safe(plan.source, 80)}",
        owner=f"job {safe(plan.job, 120)}",
        lanes=tuple(map(_move, sorted(plan.moves, key=_worst_first))),
        effects=notes[:done] or tuple(_summed(plan.moves)),
        impact=tuple(one for one in notes[done:] if not one.startswith(_COLUMNS)),
        columns=tuple(one for one in notes[done:] if one.startswith(_COLUMNS)),
        undo=_said(undo),
        safer=_safer(plan, skips),
        sql=tuple(map(_said, plan.sql)),
        checks=tuple(CheckLine(one.ok, safe(one.name, 40), _said(one.sentence)) for one in plan.checks),
        wants=slot_wants(to_type),
        plan=safe(plan.id, 20),
        expires=datetime.fromtimestamp(plan.expires, timezone.utc),
        warns=skips or replaces or _fewer(plan),
        copies=next((safe(one.removeprefix(COPIES), 120) for one in plan.notes if one.startswith(COPIES)), ""),
    )


def _safer(plan: ResetPlan, skips: bool) -> str:
    if skips:
        return "reset to a snapshot: copies the table again, skips nothing"
    if _fewer(plan):
        other = "; merge (key o) removes no rows" if plan.at_stake else ""
        return f"first find out why the source has fewer rows{other}"
    return ""


def _fewer(plan: ResetPlan) -> bool:
    """Return whether the source has so few rows compared with the target that the plan warns about it."""
    return plan.at_stake > 0 or (plan.rows is not None and plan.rows.truncated)


def _worst_first(move: Move) -> tuple[int, int]:
    """Return the sort key: most skipped rows first, then most rows read again, then the order of the plan."""
    return -move.skipped.total, -move.read_again.total


def _move(move: Move) -> LaneLine:
    count, word = (move.skipped, "skipped") if move.skips else (move.read_again, "again")
    number = f"{'' if count.whole else '>= '}{count.total:,} {word}" if count.total or not count.whole else "0"
    if move.to.position is None or move.seen.lost:
        number = "-"  # a copy has no counts by lane, and rows of a lost slot are not counted
    oldest = UNKNOWN if count.oldest is None and count.total else str(count.oldest or "-")
    if count.oldest_us:
        oldest = f"{datetime.fromtimestamp(count.oldest_us / 1_000_000, timezone.utc):%m-%d %H:%M:%SZ}"
    before, to = (position.text if position else "" for position in (move.before, move.to.position))
    if before and move.seen.lost:
        before = "slot lost"  # the job's last position is in no binlog, so nothing starts there
    return LaneLine(
        safe(move.seen.row.key.shard, 40), before or "awaits copy", to or "copied again", number, oldest, move.skips
    )


def _summed(moves: Sequence[Move]) -> list[str]:
    """Summarize the effect on all DNs together, losses first."""
    lost = [one.skipped for one in moves if one.skips]
    again = [one.read_again for one in moves if one.read_again.total or (one.back and not one.read_again.whole)]
    said = []
    if lost:
        said.append(f"{_changes(lost)} on {many(len(lost), 'lane')} are SKIPPED: they never reach the target")
    if again:
        none = "" if lost else "; none is skipped"
        said.append(f"{_changes(again)} on {many(len(again), 'lane')} are applied again{none}")
    return said or list(dict.fromkeys(_said(one.effect) for one in moves))


def _changes(counts: Sequence[Count]) -> str:
    least, total = "" if all(one.whole for one in counts) else "at least ", sum(one.total for one in counts)
    return f"{least}{total:,} change{'' if total == 1 else 's'}"


def _verb(plan: Mapping[str, Any], to_type: Mapping[str, Any], undo: str) -> Preview:
    owner = plan["owner"]
    rows = plan["rows"]
    verb = safe(plan["verb"], 20)
    after = {"create": "0 (recording)", "register": "newest point"}.get(verb, "dropped" if plan["sql"] else "TTL ends")
    lanes = [_shard(one, after, verb != "create") for one in plan["before"]["shards"]]
    safer = "keep the slot: unread changes stay readable until its TTL ends" if rows != 0 else ""
    return Preview(
        title=f"{verb.upper()} SLOT {safe(plan['slot'], 120)}",
        what=f"{safe(plan['slot'], 120)} of {safe(plan['table'], 200)} on {safe(plan['source'], 80)}",
        owner=_owner(owner),
        lanes=tuple(sorted(lanes, key=lambda one: one.dn)),
        effects=tuple(map(_said, plan["effects"])),
        impact=(),
        undo=_said(undo),
        safer=safer,
        sql=tuple(map(_said, plan["sql"])),
        checks=(CheckLine(True, "planned and checked again immediately before execution", ""),),
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
        return "external: no configured job"
    state = safe(owner["state"], 20) if owner["state"] else "never started"
    return f"job {safe(owner['job'], 60)} {state}"


def _point(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _said(text: object) -> str:
    return safe(text, 400)


def valid(plan: Preview, now: datetime) -> str:
    """Return the plan's id and how long it remains valid."""
    if plan.expires is None:
        return "planned again at execution"
    left = (plan.expires - now).total_seconds()
    return f"plan {plan.plan} " + (f"valid {in_words(left)}" if left > 0 else "EXPIRED; press n to plan again")


def ending(place: Place) -> Preview:
    """Return the preview for ending an unfinished reset, which has no plan."""
    return Preview(
        title=f"END UNFINISHED RESET of {safe(place.slot, 120)}",
        what=f"{safe(place.slot, 120)} of {safe(place.table, 200)} on {safe(place.source, 80)}",
        owner="its job cannot start until this is done",
        lanes=(),
        effects=("finishes the reset if its rows were written, otherwise rolls it back",),
        impact=("uses the plan and the backup from the start of the reset",),
        undo="unchanged: with the backup of that reset",
        safer="none: a reset must not stay incomplete",
        sql=(),
        checks=(CheckLine(True, "checked again immediately before execution", ""),),
        wants=(),
    )
