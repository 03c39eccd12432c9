"""Any sequence of resets, partial replays, undos and snapshots: if the job is RUNNING, source and target are equal, or
a plan said that they would differ.

In memory, the reset's own plan and execution run over lists; a chaos run plays 500 histories against a real store
and the stand-in, with the worker's own steps.

In memory, the source is a list of changes by DN and the target a dict. Equality is computed from these two, never
from the rows of the store.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.audit import Actor
from slotkeeper.core.domain.consent import Consent
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.position import NOTHING_KEPT, nothing_of
from slotkeeper.core.domain.progress import STREAMING, LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.reset import (
    DONE,
    ROLLED_BACK,
    Check,
    Count,
    Goal,
    ResetEntry,
    ResetPlan,
    ResetStep,
    Swap,
    TargetKind,
)
from slotkeeper.core.domain.reset_checks import moved_from
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import Column, FirstRecord, Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, JobSpec
from slotkeeper.core.domain.watch import Turn, not_passed
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.driver import Lock
from slotkeeper.core.ports.source import SourceTable
from slotkeeper.core.slots import reset_apply
from slotkeeper.core.slots import reset_plan as plan
from slotkeeper.core.slots.reset_apply import ResetOrder, Result
from slotkeeper.core.slots.reset_plan import ResetContext
from slotkeeper.core.sources.dws.position import NOTHING, POSITIONS, DwsPosition, ours
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.resetting import Resetting, StandinWorld
from tests.support.sqlite_pair.source import WORDS

SAID = ("it differs from the source until", "RUNNING does not mean equal data")
"""A plan's text if the target will differ from the source although the state is RUNNING."""
KINDS = ("earliest", "latest", "point", "point", "time", "snapshot", "undo", "undo", "undo")


class Played(Protocol):
    """A slot, its source and its target."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def state(self) -> LaneState: ...
    def change(self, changes: int) -> None: ...
    def start(self, share: float) -> None:
        """Start the job, let it read that share of the unread changes, and stop it."""

    def equal(self) -> bool:
        """Whether the target equals the source up to the positions of the lanes."""

    def point(self, draw: random.Random) -> str:
        """A random point of the binlog."""

    def time(self, draw: random.Random) -> str: ...
    def plan(self, goal: Goal) -> ResetPlan: ...
    def execute(self, made: ResetPlan) -> Result: ...


@dataclass
class Figures:
    """The outcome of all histories; `wrong` are those that were RUNNING and differed."""

    histories: int = 0
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    running: int = 0
    said: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        done, refused = (", ".join(f"{n} {what}" for what, n in sorted(of.items())) for of in (self.done, self.refused))
        looks = f"{self.running} times RUNNING, {self.said} of them different as a plan had said"
        return f"{self.histories} histories: {done}; refused: {refused or 'none'}; {looks}; {len(self.wrong)} wrong"


class Story:
    """One history; `said` is whether a plan has said that the target stays different; `backups` keep it."""

    def __init__(self, world: Played, draw: random.Random, figures: Figures, kinds: Sequence[str] = KINDS) -> None:
        self.world, self.draw, self.figures, self.kinds = world, draw, figures, kinds
        self.said = False
        self.backups: dict[str, bool] = {}
        self.acts: list[str] = []

    def play(self, acts: int) -> None:
        """Run resets with starts between them, then a start that reads everything."""
        self.figures.histories += 1
        self._start(1.0)
        for _ in range(acts):
            self._reset(self.draw.choice(self.kinds))
            self.world.change(self.draw.randrange(6))
            if self.draw.random() < 0.7:
                self._start(self.draw.choice((0.0, 0.2, 0.5, 0.8, 1.0)))
        self._start(1.0)

    def _start(self, share: float) -> None:
        copies = self.world.state not in (LaneState.RUNNING, LaneState.CATCHING_UP)
        self.world.start(share)
        self.acts.append(f"start {share} -> {self.world.state.value}")
        if copies and self.world.state in (LaneState.RUNNING, LaneState.CATCHING_UP):
            self.said = False
        self._look()

    def _reset(self, kind: str) -> None:
        try:
            plan = self.world.plan(self._goal(kind))
        except Refused as refused:
            self.figures.refused[str(refused).split(":")[0][:40]] += 1
            return
        if plan.failed:
            self.acts.append(f"refused {plan.goal.text}: {plan.failed[0].sentence}")
            self.figures.refused[plan.failed[0].name] += 1
            return
        before = self.said
        result = self.world.execute(plan)
        self.acts.append(f"{result.outcome} {plan.goal.text}: {[move.to.position for move in plan.moves]} {plan.notes}")
        if result.outcome != DONE:
            self.figures.refused[result.outcome] += 1
            return
        self.figures.done[plan.goal.kind.value] += 1
        self.backups[result.reset] = before
        says = any(word in note for word in SAID for note in plan.notes)
        self.said = self.said or says or self.backups.get(plan.goal.backup, False)
        self._look()

    def _look(self) -> None:
        if self.world.state is not LaneState.RUNNING:
            return
        self.figures.running += 1
        if self.world.equal():
            self.said = False
        elif self.said:
            self.figures.said += 1
        else:
            self.figures.wrong.append("\n".join(self.acts))

    def _goal(self, kind: str) -> Goal:
        some = tuple(name for name in self.world.names if self.draw.random() < 0.5)
        dns = some if self.draw.random() < 0.4 else ()
        if kind == "undo" and self.backups:
            backup = self.draw.choice(list(self.backups)[-3:])
            return Goal(TargetKind.BACKUP, backup=backup, dns=dns if self.draw.random() < 0.3 else ())
        if kind == "snapshot":
            return Goal(TargetKind.SNAPSHOT)
        if kind == "time":
            return Goal(TargetKind.TIME, at=self.world.time(self.draw), dns=dns)
        if kind in ("point", "undo"):
            return Goal(TargetKind.POINT, (("*", self.world.point(self.draw)),), dns=dns)
        return Goal(TargetKind(kind), dns=dns)


NOWHERE = Endpoint("none", "localhost", 1, "none", "none")
CHANNELS = (ChannelSpec("ods.t", "mart.t"),)
JOB = JobSpec("j", NOWHERE, NOWHERE, "s", CHANNELS, on_existing="replace", binlog=BinlogOptions(binlog=True))
IDENTITY = TableIdentity(1, (Column("id", "bigint", True),), ("id",), "db1")
KEYS = 4
Image = dict[int, int]


class Texts:
    """The positions of DWS, for a source that retains nothing."""

    unit, name, marks = POSITIONS.unit, POSITIONS.name, ()
    position, place = staticmethod(POSITIONS.position), staticmethod(POSITIONS.place)
    kept = staticmethod(nothing_of)


@dataclass
class Dn:
    """One DN: `log` is its binlog as (key, value), None for a delete, at points 10, 20, ...; `target` has its rows."""

    log: list[tuple[int, int | None]]
    target: Image

    def until(self, position: DwsPosition) -> int:
        """The number of changes at or before a position."""
        before = position.point % 10 == 0 and position.sequence == NOTHING
        return max(0, min(len(self.log), position.point // 10 - before))

    def image(self, changes: int) -> Image:
        """Return the rows of the source after its first `changes` changes."""
        rows: Image = {}
        for key, value in self.log[:changes]:
            written(rows, key, value)
        return rows

    @property
    def latest(self) -> DwsPosition:
        return DwsPosition(len(self.log) * 10, None)


def written(rows: Image, key: int, value: int | None) -> None:
    rows.pop(key, None)
    if value is not None:
        rows[key] = value


class World:
    """The slot: `lanes` are its progress rows by DN. It is its own store, and the driver of its job."""

    def __init__(self, draw: random.Random, dns: int) -> None:
        self.draw = draw
        self.dns = {f"dn_{number}": Dn([], {}) for number in range(1, dns + 1)}
        self.lanes: dict[str, ProgressRow] = {}
        self.entries: list[ResetEntry] = []
        self.epochs: dict[str, int] = {}
        self.files: dict[tuple[str, str], str] = {}
        for number, name in enumerate(self.dns, 1):
            key = LaneKey("none", "ods.t", "s", name)
            fixed = ("c", IDENTITY.text, NOTHING_KEPT)
            self.lanes[name] = ProgressRow(
                key, number, "mart.t", DwsPosition(0), 1, 0, LaneState.RUNNING, None, None, *fixed
            )

    # -- the source, and a driver of the job ------------------------------------------------------------------------

    def change(self, changes: int) -> None:
        for _ in range(changes):
            dn = self.draw.choice(list(self.dns.values()))
            dn.log.append((self.draw.randrange(KEYS), self.draw.choice([None, *[self.draw.randrange(1_000)] * 3])))

    @property
    def names(self) -> list[str]:
        return list(self.dns)

    def point(self, draw: random.Random) -> str:
        return str(draw.randint(0, max(dn.latest.point for dn in self.dns.values())))

    def time(self, draw: random.Random) -> str:
        return f"2026-01-01T00:{draw.randrange(60):02}:00Z"

    @property
    def state(self) -> LaneState:
        return next(iter(self.lanes.values())).state

    def start(self, share: float) -> None:
        """Read `share` of the unread changes, DN by DN, or copy; a share of 1 ends with an equal target."""
        self.raise_epoch()
        if self.state not in STREAMING:
            self._copy(share)
        if self.state not in STREAMING:
            return
        for name, row in self.lanes.items():
            dn, at = self.dns[name], cast(DwsPosition, row.position)
            done = dn.until(at)
            there = len(dn.log) - done
            more = there if share >= 1 else self.draw.randint(0, int(there * share * 2) % (there + 1))
            for key, value in dn.log[done : done + more]:
                written(dn.target, key, value)
            if more:
                at = DwsPosition((done + more) * 10, 0)
            self.lanes[name] = replace(row, position=at, changes=row.changes + more)
        self._turn()

    def _turn(self) -> None:
        turn = Turn(0, len(self.lanes), (LaneState.CATCHING_UP,), LaneState.RUNNING)
        if not not_passed(list(self.lanes.values()), turn):
            self._all(lambda row: replace(row, state=LaneState.RUNNING))

    def _all(self, change: Any) -> None:
        self.lanes = {name: change(row) for name, row in self.lanes.items()}

    def _copy(self, share: float) -> None:
        """A copy, complete or interrupted; changes arrive while it runs."""
        if self.state is LaneState.CREATING:
            begun = {name: DwsPosition(dn.latest.point, 0) for name, dn in self.dns.items()}
            self._all(lambda row: replace(row, state=LaneState.COPYING, position=begun[row.key.shard]))
        self.change(self.draw.randrange(3))
        for dn in self.dns.values():
            now = dn.image(len(dn.log))
            half = {key: value for key, value in now.items() if key % 2}
            dn.target = now if share >= 0.5 else {**dn.target, **half}
        if share >= 0.5:
            ends = {name: dn.latest for name, dn in self.dns.items()}
            state = LaneState.CATCHING_UP
            self._all(lambda row: replace(row, state=state, noted_end=ends[row.key.shard]))

    def equal(self) -> bool:
        """Whether each DN's target equals the source at its position, or at the end of the transaction there."""
        return all(self._equal(dn, cast(DwsPosition, self.lanes[name].position)) for name, dn in self.dns.items())

    @staticmethod
    def _equal(dn: Dn, at: DwsPosition) -> bool:
        return dn.target in (dn.image(dn.until(at)), dn.image(dn.until(at.place)))

    # -- resets -----------------------------------------------------------------------------------------------------

    def plan(self, goal: Goal) -> ResetPlan:
        ctx = self.context()
        made = plan.make(ctx, goal)
        plan.keep(ctx, made)
        return made

    def execute(self, made: ResetPlan) -> Result:
        return reset_apply.execute(self.context(), ResetOrder(made.id, "a test", "s", made.at_stake or None))

    def context(self) -> ResetContext:
        memory = MemoryRetention(self)
        return ResetContext(
            job=JOB,
            positions=cast(Any, Texts),
            table=SourceTable(cast(Any, memory), cast(Any, memory), cast(Any, memory), WORDS),
            resets=cast(Any, self),
            files=MemoryFiles(self.files),
            actor=Actor("somebody", "here", 1),
            audit=lambda line: None,
            at_rest=lambda: Check("job not running", True, "it is"),
            report=lambda text, awaits: None,
            void=lambda reset: None,
            silence=lambda: True,
            target=lambda: cast(Any, MemoryTarget(self)),
            clock=SystemClock(),
            pause=lambda seconds: None,
            new_id=lambda: f"R{len(self.entries):03}",
            consents=MemoryConsents(),
        )

    # -- the store of resets ----------------------------------------------------------------------------------------

    def take_lease(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def open_entry(self) -> None:
        return None

    def make_table(self) -> None:
        """The table already exists."""

    def noted_columns(self, fingerprint: str) -> None:
        return None

    def quarantined_beyond(self, rows: Sequence[ProgressRow]) -> int:
        return 0

    def raise_epoch(self, tables: Sequence[str] = ()) -> int:
        self._all(lambda row: replace(row, epoch=row.epoch + 1))
        return next(iter(self.lanes.values())).epoch

    def note_epoch(self, reset: str, epoch: int) -> None:
        self.epochs[reset] = epoch

    def insert_reset(self, entry: ResetEntry) -> None:
        self.entries.append(entry)

    def step(self, reset: str, step: str, outcome: str = "") -> None:
        self.entries = [replace(one, step=step, outcome=outcome) if one.id == reset else one for one in self.entries]

    def reset(self, reset: str) -> ResetEntry | None:
        return next((one for one in self.entries if one.id == reset), None)

    def history(self, limit: int = 100) -> list[ResetEntry]:
        return list(reversed(self.entries))[:limit]

    def target_changed(self) -> str:
        return ""

    def ended(self, limit: int = 100) -> list[tuple[str, int | None]]:
        found = [one for one in self.history(limit) if one.step in (DONE, ROLLED_BACK)]
        return [(one.plan, self.epochs.get(one.id)) for one in found]

    def rows(self) -> list[ProgressRow]:
        return list(self.lanes.values())

    def write(self, reset: str, step: str, swap: Swap, epoch: int, *_: Any, **__: Any) -> list[str]:
        moved = [moved_from(was, self.lanes[was.key.shard]) for was in swap.expected]
        if any(moved):
            return [words for words in moved if words]
        self.lanes = {row.key.shard: replace(row, epoch=epoch) for row in swap.wanted}
        self.step(reset, step)
        return []

    @contextmanager
    def registration(self, key: LaneKey, epoch: int) -> Iterator[Lock]:
        yield Lock(self.lanes[key.shard], lambda kept, seen: None)


class MemoryFiles:
    def __init__(self, files: dict[tuple[str, str], str]) -> None:
        self._files = files

    def save(self, kind: str, name: str, text: str) -> None:
        self._files[kind, name] = text

    def load(self, kind: str, name: str) -> str | None:
        return self._files.get((kind, name))

    def remove(self, kind: str, name: str) -> None:
        self._files.pop((kind, name), None)

    def names(self, kind: str) -> list[str]:
        return [name for its, name in self._files if its == kind]


class MemoryConsents:
    """Consents of a job whose target is in memory: its copies need none."""

    def known(self) -> list[Consent]:
        return []

    def given(self, plan: str) -> bool:
        return False

    def keep(self, one: Consent) -> None: ...

    def drop(self, table: str, but: str = "") -> None: ...


class MemoryTarget:
    """The answers about a target that a copy can always write to."""

    def __init__(self, world: World) -> None:
        self._dns = world.dns

    def takes_copy(self, identity: TableIdentity) -> bool:
        return True

    def reshape(self, identity: TableIdentity, old: object) -> Reshape:
        return Reshape()

    def count_rows(self, identity: TableIdentity) -> RowCount:
        return RowCount(sum(len(dn.target) for dn in self._dns.values()))

    def size(self, identity: TableIdentity) -> None:
        return None

    def readers(self) -> None:
        return None


class MemoryRetention:
    """The answers of a source that retains nothing for a slot."""

    def __init__(self, world: World) -> None:
        self._dns, self._lanes = world.dns, world.lanes

    def identify(self) -> TableIdentity:
        return IDENTITY

    def nodes(self) -> list[Shard]:
        return [Shard(row.key.shard, row.node_id) for row in self._lanes.values()]

    def points(self) -> None:
        return None

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        return [
            SlotStatus(one, NOTHING_KEPT, self._dns[one.name].latest, IDENTITY.text, DwsPosition(0, None))
            for one in self.nodes()
        ]

    def records(self, at: Any = None, shard: Shard | None = None) -> dict[str, FirstRecord]:
        return {name: FirstRecord(dn.latest, DwsPosition(0, None), None) for name, dn in self._dns.items()}

    def since(self, at: str) -> dict[str, Any]:
        """Return the point: in this model, a time is the minute of a point."""
        point = int(at[14:16]) * 10
        return {name: DwsPosition(min(point, dn.latest.point), None) for name, dn in self._dns.items()}

    def count(self, shard: Shard, low: Any, high: Any) -> Count:
        dn = self._dns[shard.name]
        found = dn.until(ours(high)) - dn.until(ours(low))
        return Count((("I", found),) if found else ())

    def count_rows(self) -> RowCount:
        return RowCount(sum(len(dn.image(len(dn.log))) for dn in self._dns.values()))

    def place(self, text: str) -> DwsPosition:
        return POSITIONS.place(text)

    def kept_by(self, points: Any) -> Any:
        return NOTHING_KEPT

    def kept_at(self, *_: Any) -> Any:
        return NOTHING_KEPT

    def clock(self) -> tuple[float, None]:
        return 0.0, None


HISTORIES = 80
REAL, MANY, PARTS = 2, 500, 4
REAL_KINDS = ("earliest", "latest", "point", "point", "undo", "undo", "undo") * 3 + ("snapshot",)
"""Without resets to a time, as the table has no times, and with few snapshots: a driver takes seconds to copy."""


def test_whatever_resets_and_replays_came_before_running_means_equal_or_a_plan_has_said_otherwise(seed: int) -> None:
    figures = Figures()
    for number in range(HISTORIES):
        draw = random.Random(seed * 1_000 + number)
        world = World(draw, draw.randint(1, 3))
        world.change(draw.randint(3, 30))
        Story(world, draw, figures).play(draw.randint(2, 7))
    told(figures, seed)
    assert figures.refused["replay not started"]


def test_a_reset_reports_its_steps_in_order_and_each_lane_that_it_moves(seed: int) -> None:
    world, seen = World(random.Random(seed), 3), list[tuple[ResetStep, int, int]]()
    world.change(9)
    world.start(1)
    made = world.plan(Goal(TargetKind.EARLIEST))
    ctx = replace(world.context(), progress=lambda *at: seen.append(at))
    reset_apply.execute(ctx, ResetOrder(made.id, "a test", "s", made.at_stake or None))
    lanes = [(ResetStep.SLOT, done, 3) for done in range(3)]
    before = [(step, 0, 3) for step in (ResetStep.BACKUP, ResetStep.SESSIONS, ResetStep.ROWS)]
    assert seen == [*before, *lanes, (ResetStep.CHECK, 3, 3)]


def told(figures: Figures, seed: int) -> None:
    print(f"seed {seed}: {figures.text}")
    assert not figures.wrong, f"seed {seed}: {figures.text}\n{figures.wrong[0]}"
    assert figures.said and len(figures.done) >= 5


def played(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, folder: Path, histories: int) -> Figures:
    """Histories over one slot; each starts with a copy or a full replay, and forgets the resets before it."""
    warehouse.create_table("ods.t", "id bigint NOT NULL, v integer", ("id",))
    mirror = make_mirror(warehouse, "ods.t", "mart.t")
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.start().wait_running().stop()
    resetting, figures = Resetting(mirror, folder / "state"), Figures()
    for number in range(histories):
        draw = random.Random(seed * 1_000 + number)
        world = StandinWorld(resetting, draw, keys=12)
        world.change(draw.randint(3, 20))
        world.heal()
        Story(world, draw, figures, REAL_KINDS).play(draw.randint(2, 4))
        if number % 25 == 24:
            print(f"seed {seed}: {figures.text}", flush=True)
    return figures


@pytest.mark.slow
def test_over_a_real_store_running_means_equal_or_a_plan_has_said_otherwise(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path
) -> None:
    figures = played(warehouse, make_mirror, seed, tmp_path, REAL)
    assert not figures.wrong, f"seed {seed}: {figures.text}\n{figures.wrong[0]}"


@pytest.mark.chaos
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_500_histories_over_a_real_store(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path, part: int
) -> None:
    told(played(warehouse, make_mirror, seed + part, tmp_path, MANY // PARTS), seed + part)
