"""Plans, results and the history of resets as text of 80 columns and as JSON values; the commands are in `reset`."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from console.cli import output, places
from core.domain import reset_text
from core.domain.reset import Check, Move, ResetPlan
from core.domain.reset_entry import ResetEntry
from core.domain.reset_text import backup_from
from core.domain.text import typed
from core.slots.reset.apply import Result

__all__ = ["backup_from", "entry_values", "plan_values", "print_history", "print_plan", "print_result", "to_type"]

UNDO = "backed up first; `slotkeeper slots undo ID`, the result names the ID"
_SAID = {True: "pass", False: "FAIL", None: "unknown"}


def plan_values(plan: ResetPlan) -> dict[str, Any]:
    """A plan as JSON values, with what is told in words."""
    found = reset_text.plan_values(plan)
    for values, move in zip(found["moves"], plan.moves, strict=True):
        values["effect"] = move.effect
    found["goal"]["text"] = plan.goal.text
    found |= {"skipped": plan.skipped, "possible": not plan.failed}
    found |= {"to_type": to_type(plan), "undo": UNDO}
    found |= {"made": _time(plan.made), "expires": _time(plan.expires)}
    return found


def to_type(plan: ResetPlan) -> dict[str, str | None]:
    """What has to be typed beside a reason, as `core.slots.reset.apply` asks for it; null where it is not asked for."""
    return {"confirm": plan.slot, "confirm_table": None, "rows": str(plan.skipped) if plan.skipped else None}


def entry_values(entry: ResetEntry) -> dict[str, Any]:
    """A reset of the history as JSON values."""
    return {
        "backup": entry.id,
        "job": entry.job,
        "target": entry.target,
        "plan": entry.plan_id,
        "step": entry.step,
        "who": entry.who,
        "reason": entry.reason,
        "outcome": entry.outcome,
        "begun_at": entry.begun_at,
        "ended_at": entry.ended_at or None,
    }


def print_plan(plan: ResetPlan, undoing: str, ascii_only: bool) -> None:
    """A plan for a person: lanes, what it means, what holds, what will be sent, how to carry it out."""

    def say(label: str, text: str) -> None:
        places.paragraph(label, text, ascii_only)

    say("plan", f"{plan.id}: {plan.source} {plan.table} slot {plan.slot} (job {plan.job}) to {plan.goal.text}")
    say("", f"made {_time(plan.made)}, expires {_time(plan.expires)}; nothing is changed yet")
    output.line("")
    lanes = [[_name(m), _position(m, False), _position(m, True), _points(m), _new_points(m)] for m in plan.moves]
    output.table(["dn", "position", "new", "points", "new points"], lanes, ascii_only)
    output.line("")
    counts = [[_name(m), m.replayed.text, m.skipped.text, *_oldest(m)] for m in plan.moves]
    output.table(["dn", "replayed", "skipped", "oldest", "of"], counts, ascii_only)
    output.line("")
    for move in plan.moves:
        say(_name(move), move.effect)
    for note in plan.notes:
        say("note", note)
    output.line("")
    for check in plan.checks:
        say(f"{_said(check):<7}", f"{check.name}: {check.sentence}")
    output.line("")
    for statement in plan.sql or ("nothing is sent",):
        say("sql", statement)
    output.line("")
    for each in _how(plan, undoing):
        output.line(each, ascii_only)


def print_result(result: Result, ascii_only: bool) -> None:
    """How a reset ended."""
    places.paragraph("", f"reset {result.reset} {result.outcome}: {result.sentence}", ascii_only)
    for shard, seen in sorted(result.lanes.items()):
        places.paragraph(shard, seen, ascii_only)
    places.paragraph("", f"the way back: slotkeeper slots undo {result.reset}", ascii_only)


def print_history(found: list[ResetEntry], ascii_only: bool) -> None:
    """A slot's resets."""
    rows: list[list[object]] = [[one.id, one.target, one.step, one.who, one.reason] for one in found]
    output.table(["backup", "target", "outcome", "who", "why"], rows, ascii_only)


def _how(plan: ResetPlan, undoing: str) -> list[str]:
    if plan.failed:
        return [f"not possible now: {len(plan.failed)} precondition(s) fail"]
    what = f"undo {typed(undoing)}" if undoing else f"reset {typed(plan.table, plan.slot)}"
    rows = f" --rows {plan.skipped}" if plan.skipped else ""
    consent = f"  --execute --plan {plan.id} --confirm {typed(plan.slot)}{rows} --reason '...'"
    return [f"slotkeeper slots {what} \\", consent]


def _name(move: Move) -> str:
    return move.seen.row.key.shard


def _position(move: Move, after: bool) -> str | None:
    position = move.to.position if after else move.before
    return position.text if position else None


def _points(move: Move) -> str:
    return f"{_shown(move.seen.live)}/{_shown(move.seen.durable)}"


def _new_points(move: Move) -> str:
    return f"{move.points.live}/{move.points.durable}" if move.points else "unchanged"


def _oldest(move: Move) -> tuple[int | None, str | None]:
    """The oldest change touched: its point, and its time where the table keeps one."""
    count = move.replayed if move.replayed.total else move.skipped
    return count.oldest, _time(count.oldest_us / 1_000_000) if count.oldest_us else None


def _said(check: Check) -> str:
    return _SAID[check.ok]


def _shown(point: int | None) -> str:
    return "-" if point is None else str(point)


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
