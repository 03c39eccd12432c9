"""The reset of a slot as values, and the decisions in it: where each lane goes, what that means, what
must hold. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum

from slotkeeper.core.domain.position import Kept, Position, further
from slotkeeper.core.domain.progress import STREAMING, LaneState, ProgressRow
from slotkeeper.core.domain.row_counts import CopyRows, Fate
from slotkeeper.core.domain.slot import Shard

EVERY = "*"
"""Instead of a DN's name: all of them."""

BACKED_UP, BEGUN, WRITTEN, GOING_BACK = "backed up", "begun", "rows written", "rolling back"
DONE, ROLLED_BACK = "done", "rolled back"
"""After BACKED_UP nothing is changed yet; BEGUN, WRITTEN and GOING_BACK are what a crash leaves behind."""

NEVER_BEGUN = "it had not begun: nothing had been written"
"""The outcome of a reset that a crash left behind as BACKED_UP: it has raised no epoch, and no start was refused."""

TAKES_COPY = "target takes copy"
"""The precondition that something says what a copy does with a target that has rows."""

TTL_NEEDED = 600.0
"""Seconds that a slot must have left, so that it does not lapse between a reset and the start after it."""


class TargetKind(Enum):
    """Where a reset goes."""

    EARLIEST = "earliest"
    LATEST = "latest"
    POINT = "point"
    TIME = "time"
    BACKUP = "backup"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Goal:
    """What a person asked for: `points` are places as typed, by DN (or EVERY), `at` RFC 3339; no `dns` are all DNs.

    `on_existing` is what the one copy behind a snapshot does with the target's rows, "" what the job's says.
    """

    kind: TargetKind
    points: tuple[tuple[str, str], ...] = ()
    at: str = ""
    backup: str = ""
    dns: tuple[str, ...] = ()
    on_existing: str = ""

    @property
    def text(self) -> str:
        """In words.

        >>> Goal(TargetKind.POINT, (("dn_1", "10500"),), dns=("dn_1",)).text
        'point dn_1=10500 (only dn_1)'
        """
        points = " ".join(point if dn == EVERY else f"{dn}={point}" for dn, point in self.points)
        how = f"({self.on_existing})" if self.on_existing else ""
        what = " ".join(part for part in (self.kind.value, points, self.at, self.backup, how) if part)
        return f"{what} (only {', '.join(self.dns)})" if self.dns else what

    def covers(self, shard: str) -> bool:
        """Whether a DN is in the reset's scope."""
        return not self.dns or shard in self.dns


@dataclass(frozen=True, slots=True)
class Count:
    """Changes of a range by kind (I, d, B, U); not `whole`: at least so many.

    `oldest` is where the first of them lies, for people, `oldest_us` its time where known.
    """

    kinds: tuple[tuple[str, int], ...] = ()
    whole: bool = True
    oldest: str | None = None
    oldest_us: int | None = None

    @property
    def total(self) -> int:
        """All of them."""
        return sum(number for _, number in self.kinds)

    @property
    def text(self) -> str:
        """In words.

        >>> Count((("I", 3), ("d", 1)), whole=False).text
        '>= 4 (3 I, 1 d)'
        """
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.kinds if number)
        return ("" if self.whole else ">= ") + str(self.total) + (f" ({kinds})" if kinds else "")


@dataclass(frozen=True, slots=True)
class LaneSeen:
    """One DN as planning found it: its row, what is kept for the slot, and what the server still has.

    `first` is the oldest record that is there, `retained` the lowest place that any slot of the table holds.
    """

    row: ProgressRow
    kept: Kept
    first: Position | None
    retained: Position | None
    latest: Position | None

    @property
    def shard(self) -> Shard:
        """The DN."""
        return Shard(self.row.key.shard, self.row.node_id)

    @property
    def lost(self) -> bool:
        """Whether something of what is to be kept for the slot is missing, or was never registered."""
        return self.kept.missing

    @property
    def kept_from(self) -> Position | None:
        """The first place from which nothing has been purged for certain; None where nothing is known."""
        return min((place for place in (self.first, self.retained) if place is not None), default=None)


@dataclass(frozen=True, slots=True)
class Swap:
    """Rows as they are expected and as they shall be, lane by lane.

    One that is not as expected keeps all of them from being written, or `partly` itself alone. Rows that are emptied
    say `on_existing` to the copy that begins next; None says nothing.
    """

    expected: Sequence[ProgressRow]
    wanted: Sequence[ProgressRow]
    partly: bool = False
    on_existing: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """What a reset does to one lane: the row as it shall be (its epoch is not looked at) and what is registered.

    `points` None: what is kept for the slot is left alone.
    """

    seen: LaneSeen
    to: ProgressRow
    points: Kept | None = None
    read_again: Count = Count()
    skipped: Count = Count()

    @property
    def before(self) -> Position | None:
        """Where the lane is."""
        return self.seen.row.position

    @property
    def back(self) -> bool:
        """Whether the lane goes back and reads changes again."""
        return self.before is not None and self.to.position is not None and self.to.position < self.before

    @property
    def skips(self) -> bool:
        """Whether it passes changes without applying them, as far as is known."""
        return self.skipped.total > 0 or not self.skipped.whole

    @property
    def effect(self) -> str:
        """What it means, in words."""
        if self.to.state is LaneState.CREATING:
            return "is copied anew by the next start"
        if self.read_again.total or self.back:
            return f"applies {self.read_again.text} changes again"
        if self.skips:
            return f"passes {self.skipped.text} changes WITHOUT applying them"
        return "does not move" if self.to.position == self.before else "passes a range without changes"


@dataclass(frozen=True, slots=True)
class Check:
    """A precondition: `ok` None where it cannot be told, which is no failure."""

    name: str
    ok: bool | None
    sentence: str


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """Exactly what an execution does, or refuses to do once something has moved; `made` in seconds since 1970.

    `rows` are those of both ends, for a snapshot.
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
        """Changes that are passed without being applied."""
        return sum(move.skipped.total for move in self.moves)

    @property
    def at_stake(self) -> int:
        """Changes skipped, or rows that the target loses: the number that has to be typed where it is not 0."""
        return self.skipped or (self.rows.at_stake if self.rows else 0)

    @property
    def stake(self) -> str:
        """What the number is of, in words."""
        return self.rows.sentence if self.rows and not self.skipped else f"{self.skipped} changes would be skipped"

    @property
    def voids(self) -> bool:
        """Whether what was compared before says nothing any more: the target is made anew, or lacks changes."""
        return self.goal.kind is TargetKind.SNAPSHOT or any(move.skips for move in self.moves)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The preconditions that do not hold."""
        return tuple(check for check in self.checks if check.ok is False)


@dataclass(frozen=True, slots=True)
class OpenReset:
    """A reset that is unfinished, by its mark; job, table and slot are "?" where that is damaged."""

    id: str
    job: str
    table: str
    slot: str

    @property
    def text(self) -> str:
        """The mark as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, id: str, text: str) -> OpenReset:
        """The reset of a mark; a damaged one is one all the same."""
        try:
            found = json.loads(text)
            return cls(id, str(found["job"]), str(found["table"]), str(found["slot"]))
        except (ValueError, KeyError, TypeError):
            return cls(id, "?", "?", "?")


@dataclass(frozen=True, slots=True)
class ResetEntry:
    """A reset as the sink keeps it; times as RFC 3339, `plan` and `backup` are texts of
    `slotkeeper.core.domain.reset_text`.
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
        """What every command shows of it while it is unfinished."""
        return OpenReset(self.id, self.job, self.table, self.slot)


def wanted(goal: Goal, seen: LaneSeen, read: Callable[[str], Position], resolved: Position | None = None) -> Position:
    """The position that a goal other than backup and snapshot means for a lane; `resolved` is the time's place.

    What lies at a place that is gone to is read again; `latest` never goes back behind what was applied there. `read`
    gives the place that a person has typed.
    """
    old = seen.row.position
    assert old is not None, "refused before: the copy has not begun"
    if not goal.covers(seen.row.key.shard):
        return old
    if goal.kind is TargetKind.EARLIEST:
        return old if seen.first is None else min(old, seen.first.from_here)
    if goal.kind is TargetKind.LATEST:
        return old if seen.latest is None else max(old, seen.latest.from_here)
    if goal.kind is TargetKind.TIME:
        return old if resolved is None else resolved.from_here
    by_dn = dict(goal.points)
    point = by_dn.get(seen.row.key.shard, by_dn.get(EVERY))
    return old if point is None else read(point).from_here


def moved_rows(lanes: Iterable[LaneSeen], positions: Mapping[str, Position]) -> list[ProgressRow]:
    """The rows at new positions: where one lane goes back, none counts as caught up before all have passed what was.

    The state is the job's, so it is the same in all rows.
    """
    lanes = list(lanes)
    back = any(positions[seen.row.key.shard] < seen.row.position for seen in lanes if seen.row.position is not None)
    rows = []
    for seen in lanes:
        row, new = seen.row, positions[seen.row.key.shard]
        if back and row.state in (LaneState.RUNNING, LaneState.CATCHING_UP):
            row = _catching_up(row, row.position)
        rows.append(replace(row, position=new))
    return rows


def _catching_up(row: ProgressRow, was: Position | None) -> ProgressRow:
    """The row as one that has to pass where it was, before it counts as caught up."""
    noted = further(row.noted_end, was.place if was else None)
    return replace(row, state=LaneState.CATCHING_UP, noted_end=noted)


def emptied(row: ProgressRow, blank: Kept) -> ProgressRow:
    """A row from which the next start registers and copies anew; `registered` says that the slot's points are ours.

    `blank` is what is kept where nothing was ever registered.
    """
    ours = row.registered or blank
    return replace(row, position=None, state=LaneState.CREATING, noted_start=None, noted_end=None, registered=ours)


def restored(now: ProgressRow, then: ProgressRow, through: Position | None) -> ProgressRow:
    """The row of a backup over today's: `changes` counts on.

    `through` is what the target has seen of the source; the lane is not equal before it has passed that. None where
    the target is as it was at the backup.
    """
    row = replace(then, epoch=now.epoch, changes=now.changes, repeats=now.repeats)
    behind = through is not None and then.position is not None and then.position < through
    return _catching_up(row, through) if behind and then.state in STREAMING else row


def same_state(rows: list[ProgressRow]) -> list[ProgressRow]:
    """All rows CATCHING UP where one of them is, because the state is the job's."""
    states = {row.state for row in rows}
    if states != {LaneState.RUNNING, LaneState.CATCHING_UP}:
        return rows
    return [_catching_up(row, row.position) if row.state is LaneState.RUNNING and row.position else row for row in rows]


def slot_check(goal: Goal, lanes: Iterable[LaneSeen], there: str) -> Check:
    """The slot is there on every DN (`there` says so); a lost one has dropped changes: only a copy makes up for it."""
    name, lanes = "slot is there", list(lanes)
    if not any(seen.kept.marks for seen in lanes):
        return Check(name, True, "the source keeps no positions, so none is missing")
    lost = [seen.row.key.shard for seen in lanes if seen.lost]
    if not lost:
        return Check(name, True, there)
    words = f"lost on {', '.join(lost)}"
    if goal.kind is TargetKind.SNAPSHOT:
        return Check(name, True, f"{words}; a snapshot makes it anew")
    if goal.kind is TargetKind.BACKUP:
        return Check(name, None, f"{words}; only where another slot holds the points may they be restored")
    return Check(name, False, f"{words}: changes may be gone; only --to snapshot is safe")


def retained_check(goal: Goal, moves: Iterable[Move], kept_by_time: bool | None = None, part: str = "DN") -> Check:
    """Every lane's new position lies between what is kept for certain and the newest point."""
    name = "target is retained"
    unsure: list[str] = []
    for move in moves:
        verdict = _retained(goal, move, kept_by_time)
        if verdict and verdict.startswith("?"):
            unsure.append(verdict[1:])
        elif verdict:
            return Check(name, False, verdict)
    if unsure:
        return Check(name, None, "; ".join(unsure))
    return Check(name, True, f"within what every {part} keeps, and not beyond its newest point")


def _retained(goal: Goal, move: Move, kept_by_time: bool | None) -> str:
    """Why a lane's target is not retained; with a question mark in front where it cannot be told; else nothing."""
    seen, new, place = move.seen, move.to.position, move.seen.row.key.shard
    if new is None:
        return ""
    if seen.lost and goal.kind is TargetKind.BACKUP and (seen.retained is None or seen.retained > new):
        return f"{place}: the slot is lost and no other slot holds {new.shown}; take --to snapshot"
    if new == move.before:
        return ""
    if seen.latest is None:
        return f"?{place}: its newest point is not known"
    if new > seen.latest:
        return f"{place}: {new.shown} is beyond the newest point {seen.latest.shown}"
    if move.before is not None and new > move.before:
        return ""
    if seen.kept_from is None:
        return f"?{place}: what it still keeps is not known"
    if new >= seen.kept_from:
        return ""
    kept = seen.kept_from.shown
    if goal.kind is TargetKind.TIME:
        return "" if kept_by_time else f"?{place}: whether changes before {kept} were purged is not known"
    return f"{place}: {new.shown} lies before {kept}, what is kept for certain; earliest or a snapshot is left"


def nodes_check(goal: Goal, rows: Iterable[ProgressRow], shards: Iterable[Shard], part: str = "DN") -> Check:
    """The source has the DNs that the rows name; `part` is what it calls them."""
    name = f"same {part}s"
    ours = {(row.key.shard, row.node_id) for row in rows}
    theirs = {(shard.name, shard.node_id) for shard in shards}
    if ours == theirs:
        return Check(name, True, f"{len(ours)}, as in the progress rows")
    names = ", ".join(sorted(name for name, _ in ours ^ theirs))
    if goal.kind is TargetKind.SNAPSHOT:
        return Check(name, True, f"changed ({names}); a snapshot takes them as they are")
    return Check(name, False, f"the {part} set changed: {names}; only --to snapshot is left")


def table_check(goal: Goal, fingerprint: str, known: Iterable[str], compared: str) -> Check:
    """The table is the one that the rows, and the backup, were made for; `compared` is what is compared, in words."""
    if set(known) == {fingerprint}:
        return Check("same table", True, f"{compared} are those of the progress rows")
    if goal.kind is TargetKind.SNAPSHOT:
        return Check("same table", True, "it changed; a snapshot takes it as it is")
    return Check("same table", False, f"{compared}: not all are as they were; only --to snapshot is left")


def changed_check(goal: Goal, target: str, why: str) -> Check:
    """Nothing that was written down as TARGET CHANGED is read over; an undo leads back to what said it."""
    name = "same target"
    if not why:
        return Check(name, True, "no change of it is written down")
    said = f"target {target} {why}"
    if goal.kind is TargetKind.SNAPSHOT:
        return Check(name, True, f"{said}; a snapshot cures it")
    if goal.kind is TargetKind.BACKUP:
        return Check(name, True, f"{said}; the next start says so again")
    return Check(name, False, f"{said}; only --to snapshot is left")


def time_check(left: float | None) -> Check:
    """The slot does not lapse before the job can start again."""
    if left is None:
        return Check("time to TTL", None, "not known here: registration time or TTL is not told")
    enough = left >= TTL_NEEDED
    return Check("time to TTL", enough, f"{left / 60:.0f} min left; at least {TTL_NEEDED / 60:.0f} are needed")


def untouched_check(moves: Sequence[Move], epoch: int, ended: Iterable[tuple[ResetPlan, int | None]]) -> Check:
    """No start has come since the rows, emptied now, were those of a stream: it may have made the target anew.

    `ended` are the resets that have ended, the newest first, each with the epoch that it raised; any other epoch behind
    it is a start's. Epochs are compared, never times: a sink's clock may have been set back.
    """
    name = "target is untouched"
    if not any(move.seen.row.state not in STREAMING and move.to.state in STREAMING for move in moves):
        return Check(name, True, "the rows come back as those of a copy, or were those of a stream all along")
    for plan, raised in ended:
        if epoch != raised:
            break
        if all(move.seen.row.state in STREAMING for move in plan.moves):
            return Check(name, True, "no start came since the rows were those of a stream")
        epoch = plan.epoch
    said = "a start came since the rows were emptied and may have made the target anew; take a snapshot: start the job"
    return Check(name, False, said)


def rows_check(rows: CopyRows) -> Check:
    """Nothing of a target is replaced that nobody could count; what it loses has to be typed beside."""
    if rows.fate is Fate.UNSEEN:
        return Check("rows counted", False, f"{rows.sentence}; cure that, or --on-existing merge")
    known = rows.fate is not Fate.UNTOLD and rows.source.number is not None
    return Check("rows counted", True if known else None, f"source {rows.source.text}, target {rows.target.text}")


def what_moved(plan: ResetPlan, fingerprint: str, lanes: Iterable[LaneSeen], shards: Iterable[Shard]) -> list[str]:
    """What is not as the plan saw it, in words; `latest` may move on."""
    before = {move.seen.row.key.shard: move for move in plan.moves}
    now = {seen.row.key.shard: seen for seen in lanes}
    found = [] if fingerprint == plan.fingerprint else ["the table (fingerprint)"]
    there = {shard.name for shard in shards} if plan.goal.kind is not TargetKind.SNAPSHOT else set(now)
    if before.keys() != now.keys() or there != set(before):
        return [*found, "the DN set"]
    for name, move in sorted(before.items()):
        found += [f"{name}: {words}" for words in _moved(move, now[name], plan.epoch)]
    return found


def moved_from(then: ProgressRow, now: ProgressRow) -> str:
    """What of a row is not as it was expected, in words; nothing where all of it is."""
    if (now.position, now.state) != (then.position, then.state):
        return f"position {_said(then)} -> {_said(now)}"
    old, new = then.registered, now.registered
    return f"registered {_kept(old)} -> {_kept(new)}" if old != new else ""


def _kept(kept: Kept | None) -> str:
    return kept.shown if kept else "nothing"


def _moved(move: Move, now: LaneSeen, epoch: int) -> list[str]:
    then = move.seen
    found = []
    if now.row.epoch != epoch:
        found.append(f"epoch {epoch} -> {now.row.epoch}")
    if (now.row.position, now.row.state) != (then.row.position, then.row.state):
        found.append(f"position {_said(then.row)} -> {_said(now.row)}")
    if now.kept != then.kept:
        found.append(f"points {then.kept.shown} -> {now.kept.shown}")
    if move.back and now.first != then.first:
        found.append(f"first retained {_place(then.first)} -> {_place(now.first)}")
    return found


def _place(position: Position | None) -> str:
    return position.shown if position else "unknown"


def _said(row: ProgressRow) -> str:
    return f"{row.position.text if row.position else 'none'} {row.state.value}"
