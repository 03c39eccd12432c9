"""The reset of a slot as plain values (goal, lanes, plan, record), and the JSON form of these values. Pure.

A plan's id is a hash of its content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import Any

from slotkeeper.core.domain.position import Kept, Position, Positions
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.row_counts import CopyRows, RowCount
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.errors import Refused, SlotkeeperError

EVERY = "*"
"""Placeholder that represents all DNs where a DN's name is expected."""

BACKED_UP, BEGUN, WRITTEN, GOING_BACK = "backed up", "begun", "rows written", "rolling back"
DONE, ROLLED_BACK = "done", "rolled back"
"""States of a reset. In BACKED_UP, nothing has been changed yet; a crash during later changes leaves BEGUN, WRITTEN or
GOING_BACK."""

NEVER_BEGUN = "not started: nothing was written"
"""The outcome of a reset that crashed in state BACKED_UP: it neither raised an epoch nor blocked a start."""

COPIES = "the next start copies "
"""Prefix of the note in a plan that contains the number of rows and the duration of the copy."""
TAKES_COPY = "target accepts copy"
"""Name of the precondition that requires an option for the copy to a target that already contains rows."""

TTL_NEEDED = 600.0
"""Minimum remaining TTL of a slot in seconds, so that the slot does not expire between a reset and the next start."""

DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What parsing a damaged text of a plan, a backup or a marker can raise."""


class ResetStep(Enum):
    """The steps of executing a reset, in order."""

    BACKUP = "backup"
    SESSIONS = "end older sessions"
    ROWS = "write positions"
    SLOT = "move slot"
    CHECK = "check"


class TargetKind(Enum):
    """The kind of position or state to which a slot is reset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    POINT = "point"
    TIME = "time"
    BACKUP = "backup"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Goal:
    """The requested reset: `points` are positions as typed, by DN (or EVERY); `at` is in RFC 3339; no `dns`: all DNs.

    `on_existing` is how the copy of a snapshot treats the target's rows; "" means that the job's setting applies.
    """

    kind: TargetKind
    points: tuple[tuple[str, str], ...] = ()
    at: str = ""
    backup: str = ""
    dns: tuple[str, ...] = ()
    on_existing: str = ""

    @property
    def text(self) -> str:
        """The goal as text.

        >>> Goal(TargetKind.POINT, (("dn_1", "10500"),), dns=("dn_1",)).text
        'point dn_1=10500 (only dn_1)'
        """
        points = " ".join(point if dn == EVERY else f"{dn}={point}" for dn, point in self.points)
        how = f"({self.on_existing})" if self.on_existing else ""
        what = " ".join(part for part in (self.kind.value, points, self.at, self.backup, how) if part)
        return f"{what} (only {', '.join(self.dns)})" if self.dns else what

    def covers(self, shard: str) -> bool:
        return not self.dns or shard in self.dns


@dataclass(frozen=True, slots=True)
class Count:
    """The number of changes in a range by kind (I, d, B, U); a lower bound unless `whole`.

    `oldest` is the position of the first change, as text; `oldest_us` is the time of that change, if known.
    """

    kinds: tuple[tuple[str, int], ...] = ()
    whole: bool = True
    oldest: str | None = None
    oldest_us: int | None = None
    reshaped: str = ""
    """The first statement in the range that can have changed the table's columns, and its position."""
    stopping: str = ""
    """The first other statement in the range at which a lane stops, and its position."""

    @property
    def total(self) -> int:
        return sum(number for _, number in self.kinds)

    @property
    def text(self) -> str:
        """The count as text.

        >>> Count((("I", 3), ("d", 1)), whole=False).text
        '>= 4 (3 I, 1 d)'
        """
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.kinds if number)
        return ("" if self.whole else ">= ") + str(self.total) + (f" ({kinds})" if kinds else "")


@dataclass(frozen=True, slots=True)
class LaneSeen:
    """One DN at the time of planning: its row, the slot's points, and the range of records retained by the server.

    `first` is the oldest record, `retained` the lowest position of any slot of the table.
    """

    row: ProgressRow
    kept: Kept
    first: Position | None
    retained: Position | None
    latest: Position | None

    @property
    def shard(self) -> Shard:
        return Shard(self.row.key.shard, self.row.node_id)

    @property
    def lost(self) -> bool:
        """Whether a point of the slot is missing, or was never registered."""
        return self.kept.missing

    @property
    def kept_from(self) -> Position | None:
        """The first position from which all records are certainly still retained; None if unknown."""
        return min((place for place in (self.first, self.retained) if place is not None), default=None)


@dataclass(frozen=True, slots=True)
class Swap:
    """The replacement of progress rows: the expected current rows, and the new rows, by lane.

    If a row differs from the expected row, no row is written; with `partly`, only that row is skipped. `ordered` is the
    instruction for the next copy, written to rows that await a copy.
    """

    expected: Sequence[ProgressRow]
    wanted: Sequence[ProgressRow]
    partly: bool = False
    ordered: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    seen: LaneSeen
    to: ProgressRow
    points: Kept | None = None
    read_again: Count = Count()
    skipped: Count = Count()

    @property
    def before(self) -> Position | None:
        return self.seen.row.position

    @property
    def back(self) -> bool:
        """Whether the lane moves back and reads changes again."""
        return self.before is not None and self.to.position is not None and self.to.position < self.before

    @property
    def skips(self) -> bool:
        """Whether the lane skips changes without applying them, as far as known."""
        return self.skipped.total > 0 or not self.skipped.whole

    @property
    def effect(self) -> str:
        if self.to.state is LaneState.CREATING:
            return "is copied again by the next start"
        if self.read_again.total or self.back:
            return f"applies {self.read_again.text} changes again"
        if self.skips:
            return f"skips {self.skipped.text} changes WITHOUT applying them"
        return "does not move" if self.to.position == self.before else "skips a range without changes"


@dataclass(frozen=True, slots=True)
class Check:
    """A precondition; `ok` is None if unknown, which does not count as a failure."""

    name: str
    ok: bool | None
    sentence: str


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """A reset plan, which is executed exactly or rejected if anything has changed; `made` is in seconds since 1970.

    `rows` contains the row counts of source and target for a reset to a snapshot.
    """

    id: str
    dialect: str
    source: str
    table: str
    slot: str
    job: str
    goal: Goal
    fingerprint: str
    epoch: int
    moves: tuple[Move, ...]
    checks: tuple[Check, ...]
    sql: tuple[str, ...]
    notes: tuple[str, ...]
    made: float
    expires: float
    rows: CopyRows | None = None

    @property
    def skipped(self) -> int:
        """The number of changes that the plan skips without applying them."""
        return sum(move.skipped.total for move in self.moves)

    @property
    def at_stake(self) -> int:
        """The number of skipped changes, or of rows that the target loses; the user must type it unless it is 0."""
        return self.skipped or (self.rows.at_stake if self.rows else 0)

    @property
    def stake(self) -> str:
        """A description of what `at_stake` counts."""
        return self.rows.sentence if self.rows and not self.skipped else f"{self.skipped} changes would be skipped"

    @property
    def voids(self) -> bool:
        """Whether earlier comparisons become invalid because the target is rebuilt or lacks changes."""
        return self.goal.kind is TargetKind.SNAPSHOT or any(move.skips for move in self.moves)

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.ok is False)


@dataclass(frozen=True, slots=True)
class OpenReset:
    """An unfinished reset, as read from its marker; job, table and slot are "?" if the marker is damaged."""

    id: str
    job: str
    table: str
    slot: str

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, id: str, text: str) -> OpenReset:
        """Parse a marker; a damaged marker still counts as an open reset."""
        try:
            found = json.loads(text)
            return cls(id, str(found["job"]), str(found["table"]), str(found["slot"]))
        except DAMAGED:
            return cls(id, "?", "?", "?")


@dataclass(frozen=True, slots=True)
class ResetEntry:
    """A reset as stored in the sink; times are in RFC 3339 format.

    `plan` and `backup` are the JSON texts from `plan_text` and `backup_text`.
    """

    id: str
    job: str
    source: str
    table: str
    slot: str
    target: str
    plan_id: str
    step: str
    who: str
    reason: str
    plan: str
    backup: str
    outcome: str = ""
    begun_at: str = ""
    ended_at: str = ""

    @property
    def mark(self) -> OpenReset:
        """The marker that every command shows while the reset is unfinished."""
        return OpenReset(self.id, self.job, self.table, self.slot)


@dataclass(frozen=True, slots=True)
class SavedLane:
    """A lane before a reset: its complete progress row, and the slot's points on its DN."""

    row: ProgressRow
    kept: Kept


@dataclass(frozen=True, slots=True)
class Backup:
    """The state of everything that a reset can change, before the reset; `columns` are pairs of name and type."""

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
    found: dict[str, Any] = {each.name: getattr(row, each.name) for each in fields(row)}
    found["key"], found["state"] = asdict(row.key), row.state.value
    for name in ("position", *_PLACES, "registered"):
        found[name] = _text(found[name])
    found["decided"] = None  # a reset abandons a decided range, and an undo does not restore it
    return found


def row_from(found: Mapping[str, Any], positions: Positions) -> ProgressRow:
    """Parse a row written by `row_values`; `positions` parses the dialect's text formats."""
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
    lanes = [{"row": row_values(lane.row), "kept": lane.kept.text} for lane in backup.lanes]
    values = {each.name: getattr(backup, each.name) for each in fields(backup)}
    return json.dumps({**values, "lanes": lanes}, sort_keys=True)


def backup_from(text: str, positions: Positions) -> Backup:
    """Parse a backup; raises Refused if the text is damaged, because a restore must be exact."""
    try:
        values = json.loads(text)
        saved = ((row_from(lane["row"], positions), positions.kept(lane["kept"])) for lane in values["lanes"])
        lanes = tuple(SavedLane(*lane) for lane in saved)
        columns = tuple((str(name), str(kind)) for name, kind in values["columns"])
        return Backup(**{**values, "lanes": lanes, "columns": columns})
    except DAMAGED as error:
        raise Refused(
            f"the backup is damaged: {error}", "the sink's table slotkeeper_resets contains a copy"
        ) from error


def backup_of(text: str, positions: Callable[[str], Positions]) -> Backup:
    """Parse a backup with the positions of the dialect named in it; raises Refused if the backup is damaged."""
    try:
        its = positions(str(json.loads(text)["dialect"]))
    except (*DAMAGED, SlotkeeperError) as error:
        raise Refused(
            f"the backup is damaged: {error}", "the sink's table slotkeeper_resets contains a copy"
        ) from error
    return backup_from(text, its)


def plan_values(plan: ResetPlan) -> dict[str, Any]:
    found: dict[str, Any] = {each.name: getattr(plan, each.name) for each in fields(plan)}
    found["goal"] = {**asdict(plan.goal), "kind": plan.goal.kind.value}
    found["checks"] = [asdict(check) for check in plan.checks]
    found["moves"] = [_move_values(move) for move in plan.moves]
    found["rows"] = asdict(plan.rows) if plan.rows else None
    return found


def plan_text(plan: ResetPlan) -> str:
    return json.dumps(plan_values(plan), sort_keys=True)


def plan_from(text: str, positions: Positions) -> ResetPlan:
    """Parse a plan; raises Refused if the text is damaged or was changed since the plan was made."""
    try:
        plan = plan_of(json.loads(text), positions)
    except DAMAGED as error:
        raise Refused(f"the plan is damaged: {error}", "make a new plan: run without --execute") from error
    if named(plan).id != plan.id:
        raise Refused(f"plan {plan.id} was changed after it was made", "make a new plan: run without --execute")
    return plan


def plan_of(found: Mapping[str, Any], positions: Positions) -> ResetPlan:
    """Parse a plan written by `plan_values`; raises ValueError, KeyError or TypeError."""
    values = {each.name: found[each.name] for each in fields(ResetPlan)}
    goal, rows = values["goal"], values["rows"]
    points = tuple((str(dn), str(point)) for dn, point in goal["points"])
    kind, dns = TargetKind(goal["kind"]), tuple(goal["dns"])
    if rows is not None:
        ends = [[rows[end][name] for name in ("number", "at_least", "why")] for end in ("source", "target")]
        rows = CopyRows(RowCount(*ends[0]), RowCount(*ends[1]), rows["way"], rows["cleared"])
    values |= {
        "goal": Goal(kind, points, goal["at"], goal["backup"], dns, goal["on_existing"]),
        "moves": tuple(_move_from(move, positions) for move in values["moves"]),
        "checks": tuple(Check(**check) for check in values["checks"]),
        "sql": tuple(values["sql"]),
        "notes": tuple(values["notes"]),
        "rows": rows,
    }
    return ResetPlan(**values)


def named(plan: ResetPlan) -> ResetPlan:
    """Return the plan with its id, which is a hash of its observations, actions and time."""
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
    counts = []
    for one in (found["read_again"], found["skipped"]):
        kinds = tuple((str(kind), int(number)) for kind, number in one["kinds"])
        counts.append(Count(kinds, one["whole"], one["oldest"], one["oldest_us"]))
    return Move(lane, row_from(found["to"], positions), points, *counts)
