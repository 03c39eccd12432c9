"""Plans and backups of a reset as JSON values and back, and the id that names a plan by what is in it. Pure.

Next door: `core.domain.reset` has the values; `core.state.resets` and `core.sinks.postgres.progress.resets` keep the
texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from core.domain.position import Position
from core.domain.progress import LaneKey, LaneState, ProgressRow, Registered
from core.domain.reset import Check, Count, Goal, LaneSeen, Move, ResetPlan, TargetKind
from core.errors import Refused


@dataclass(frozen=True, slots=True)
class SavedLane:
    """A lane before a reset: its whole row, and what the slot held on that DN."""

    row: ProgressRow
    live: int | None
    durable: int | None
    xmin: int | None


@dataclass(frozen=True, slots=True)
class Backup:
    """Everything that a reset may change, as it was; `columns` are name and type, for people."""

    id: str
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
    found = asdict(row)
    found["position"] = row.position.text if row.position else None
    found["state"] = row.state.value
    found["decided"] = None  # a reset gives up what is decided, and its undoing does not decide it again
    return found


def row_from(found: Mapping[str, Any]) -> ProgressRow:
    """The row that `row_values` wrote."""
    values = dict(found)
    values["key"] = LaneKey(**values["key"])
    values["position"] = Position.parse(values["position"]) if values["position"] else None
    values["state"] = LaneState(values["state"])
    values["registered"] = Registered(**values["registered"]) if values["registered"] else None
    return ProgressRow(**values)


def backup_text(backup: Backup) -> str:
    """A backup as JSON."""
    lanes = [{**asdict(lane), "row": row_values(lane.row)} for lane in backup.lanes]
    return json.dumps({**asdict(backup), "lanes": lanes}, sort_keys=True)


def backup_from(text: str) -> Backup:
    """The backup of a text; raises Refused where it is damaged: what is restored is never guessed."""
    try:
        values = json.loads(text)
        lanes = tuple(SavedLane(**{**lane, "row": row_from(lane["row"])}) for lane in values["lanes"])
        columns = tuple((str(name), str(kind)) for name, kind in values["columns"])
        return Backup(**{**values, "lanes": lanes, "columns": columns})
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"the backup is damaged: {error}", "the sink's slotkeeper_resets holds a copy") from error


def plan_values(plan: ResetPlan) -> dict[str, Any]:
    """A plan as JSON values."""
    found = asdict(plan)
    found["goal"]["kind"] = plan.goal.kind.value
    found["moves"] = [_move_values(move) for move in plan.moves]
    return found


def plan_text(plan: ResetPlan) -> str:
    """A plan as JSON."""
    return json.dumps(plan_values(plan), sort_keys=True)


def plan_from(text: str) -> ResetPlan:
    """The plan of a text; raises Refused where it is damaged or was changed since it was made."""
    try:
        plan = plan_of(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"the plan is damaged: {error}", "make a new one: the same command without --execute") from error
    if named(plan).id != plan.id:
        raise Refused(f"plan {plan.id} was changed since it was made", "make a new one: without --execute")
    return plan


def plan_of(found: Mapping[str, Any]) -> ResetPlan:
    """The plan that `plan_values` wrote, whatever was told beside it; raises ValueError, KeyError or TypeError."""
    values = {each.name: found[each.name] for each in fields(ResetPlan)}
    goal = values["goal"]
    points = tuple((str(dn), int(point)) for dn, point in goal["points"])
    values |= {
        "goal": Goal(TargetKind(goal["kind"]), points, goal["at"], goal["backup"], tuple(goal["dns"])),
        "moves": tuple(map(_move_from, values["moves"])),
        "checks": tuple(Check(**check) for check in values["checks"]),
        "sql": tuple(values["sql"]),
        "notes": tuple(values["notes"]),
    }
    return ResetPlan(**values)


def named(plan: ResetPlan) -> ResetPlan:
    """The plan with its id: a hash of what was seen, what will be done, and when it was made."""
    values = plan_values(replace(plan, id=""))
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    return replace(plan, id=digest[:12])


def _move_values(move: Move) -> dict[str, Any]:
    found = asdict(move)
    found["to"] = row_values(move.to)
    found["seen"]["row"] = row_values(move.seen.row)
    return found


def _move_from(found: Mapping[str, Any]) -> Move:
    seen = LaneSeen(**{**found["seen"], "row": row_from(found["seen"]["row"])})
    points = Registered(**found["points"]) if found["points"] else None
    return Move(seen, row_from(found["to"]), points, _count(found["read_again"]), _count(found["skipped"]))


def _count(found: Mapping[str, Any]) -> Count:
    kinds = tuple((str(kind), int(number)) for kind, number in found["kinds"])
    return Count(kinds, found["whole"], found["oldest"], found["oldest_us"])
