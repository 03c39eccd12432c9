"""Plans and backups of a reset as JSON values and back, and the id that names a plan by what is in it. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from slotkeeper.core.domain.position import Kept, Position, Positions
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.reset import Check, Count, Goal, LaneSeen, Move, ResetPlan, TargetKind
from slotkeeper.core.domain.row_counts import CopyRows, RowCount
from slotkeeper.core.errors import Refused


@dataclass(frozen=True, slots=True)
class SavedLane:
    """A lane before a reset: its whole row, and what was kept for the slot on that DN."""

    row: ProgressRow
    kept: Kept


@dataclass(frozen=True, slots=True)
class Backup:
    """Everything that a reset may change, as it was; `columns` are name and type, for people."""

    id: str
    dialect: str
    source: str
    table: str
    slot: str
    job: str
    fingerprint: str
    columns: tuple[tuple[str, str], ...]
    lanes: tuple[SavedLane, ...]
    who: str
    when: str
    why: str
    plan: str


def row_values(row: ProgressRow) -> dict[str, Any]:
    """A progress row as JSON values."""
    found: dict[str, Any] = {each.name: getattr(row, each.name) for each in fields(row)}
    found["key"], found["state"] = asdict(row.key), row.state.value
    for name in ("position", *_PLACES, "registered"):
        found[name] = _text(found[name])
    found["decided"] = None  # a reset gives up what is decided, and its undoing does not decide it again
    return found


def row_from(found: Mapping[str, Any], positions: Positions) -> ProgressRow:
    """The row that `row_values` wrote, by the dialect's texts."""
    values = dict(found)
    values["key"] = LaneKey(**values["key"])
    values["state"] = LaneState(values["state"])
    values["position"] = None if values["position"] is None else positions.position(values["position"])
    for name in _PLACES:
        values[name] = _place(values[name], positions)
    values["registered"] = positions.kept(values["registered"]) if values["registered"] is not None else None
    return ProgressRow(**values)


_PLACES = ("noted_start", "noted_end")


def _text(value: Position | Kept | None) -> str | None:
    return None if value is None else value.text


def _place(text: str | None, positions: Positions) -> Position | None:
    return None if text is None else positions.place(text)


def backup_text(backup: Backup) -> str:
    """A backup as JSON."""
    lanes = [{"row": row_values(lane.row), "kept": lane.kept.text} for lane in backup.lanes]
    values = {each.name: getattr(backup, each.name) for each in fields(backup)}
    return json.dumps({**values, "lanes": lanes}, sort_keys=True)


def backup_from(text: str, positions: Positions) -> Backup:
    """The backup of a text; raises Refused where it is damaged: what is restored is never guessed."""
    try:
        values = json.loads(text)
        lanes = tuple(
            SavedLane(row_from(lane["row"], positions), positions.kept(lane["kept"])) for lane in values["lanes"]
        )
        columns = tuple((str(name), str(kind)) for name, kind in values["columns"])
        return Backup(**{**values, "lanes": lanes, "columns": columns})
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"the backup is damaged: {error}", "the sink's slotkeeper_resets holds a copy") from error


def plan_values(plan: ResetPlan) -> dict[str, Any]:
    """A plan as JSON values."""
    found: dict[str, Any] = {each.name: getattr(plan, each.name) for each in fields(plan)}
    found["goal"] = {**asdict(plan.goal), "kind": plan.goal.kind.value}
    found["checks"] = [asdict(check) for check in plan.checks]
    found["moves"] = [_move_values(move) for move in plan.moves]
    found["rows"] = asdict(plan.rows) if plan.rows else None
    return found


def plan_text(plan: ResetPlan) -> str:
    """A plan as JSON."""
    return json.dumps(plan_values(plan), sort_keys=True)


def plan_from(text: str, positions: Positions) -> ResetPlan:
    """The plan of a text; raises Refused where it is damaged or was changed since it was made."""
    try:
        plan = plan_of(json.loads(text), positions)
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"the plan is damaged: {error}", "make a new one: the same command without --execute") from error
    if named(plan).id != plan.id:
        raise Refused(f"plan {plan.id} was changed since it was made", "make a new one: without --execute")
    return plan


def plan_of(found: Mapping[str, Any], positions: Positions) -> ResetPlan:
    """The plan that `plan_values` wrote, whatever was told beside it; raises ValueError, KeyError or TypeError."""
    values = {each.name: found[each.name] for each in fields(ResetPlan)}
    goal = values["goal"]
    points = tuple((str(dn), str(point)) for dn, point in goal["points"])
    values |= {
        "goal": Goal(
            TargetKind(goal["kind"]), points, goal["at"], goal["backup"], tuple(goal["dns"]), goal["on_existing"]
        ),
        "moves": tuple(_move_from(move, positions) for move in values["moves"]),
        "checks": tuple(Check(**check) for check in values["checks"]),
        "sql": tuple(values["sql"]),
        "notes": tuple(values["notes"]),
        "rows": _rows(values["rows"]),
    }
    return ResetPlan(**values)


def named(plan: ResetPlan) -> ResetPlan:
    """The plan with its id: a hash of what was seen, what will be done, and when it was made."""
    values = plan_values(replace(plan, id=""))
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    return replace(plan, id=digest[:12])


def _move_values(move: Move) -> dict[str, Any]:
    seen = move.seen
    places = {name: _text(getattr(seen, name)) for name in _SEEN}
    return {
        "seen": {"row": row_values(seen.row), "kept": seen.kept.text, **places},
        "to": row_values(move.to),
        "points": _text(move.points),
        "read_again": asdict(move.read_again),
        "skipped": asdict(move.skipped),
    }


_SEEN = ("first", "retained", "latest")


def _move_from(found: Mapping[str, Any], positions: Positions) -> Move:
    seen = found["seen"]
    places = {name: _place(seen[name], positions) for name in _SEEN}
    lane = LaneSeen(row=row_from(seen["row"], positions), kept=positions.kept(seen["kept"]), **places)
    points = positions.kept(found["points"]) if found["points"] is not None else None
    counts = _count(found["read_again"]), _count(found["skipped"])
    return Move(lane, row_from(found["to"], positions), points, *counts)


def _rows(found: Mapping[str, Any] | None) -> CopyRows | None:
    if found is None:
        return None
    source, target = (RowCount(*(found[end][name] for name in _COUNTED)) for end in ("source", "target"))
    return CopyRows(source, target, found["way"], found["cleared"])


_COUNTED = ("number", "at_least", "why")


def _count(found: Mapping[str, Any]) -> Count:
    kinds = tuple((str(kind), int(number)) for kind, number in found["kinds"])
    return Count(kinds, found["whole"], found["oldest"], found["oldest_us"])
