"""Resets of a mirror's slot, with their own state folder, and the contents of both ends as one comparable value.

`replay` reads a part of what is unread with the job's own worker, and no driver in between. `StandinWorld` is a slot of
the stand-in with a real store, for tests/property/test_reset_histories.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.audit import AuditLine
from slotkeeper.core.domain.progress import STREAMING, LaneState, ProgressRow
from slotkeeper.core.domain.reset import Check, Goal, ResetPlan, TargetKind
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.watch import Expected, Turn, not_passed
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.tasks import LaneTask, StreamTask
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.ports.driver import StartStore
from slotkeeper.core.services import reset as reset_service
from slotkeeper.core.slots import reset_apply
from slotkeeper.core.slots import reset_apply as resume
from slotkeeper.core.slots import reset_plan as plan
from slotkeeper.core.slots.reset_apply import ResetOrder, Result
from slotkeeper.core.slots.reset_plan import Probe, ResetContext, silent
from slotkeeper.core.sources.dws.position import DwsPosition, ours
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.files import StoredConsents
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.wiring import worker
from tests.support.mirror import Mirror, Shared, no_lingering
from tests.support.standin import run


class Crash(Exception):
    """The exception of a probe that represents a kill: no code catches it."""


@dataclass
class CrashAt:
    """Raises Crash at the nth call; `seen` are the points passed."""

    nth: int = 0
    point: str = ""
    seen: list[str] = field(default_factory=list)

    def __call__(self, point: str) -> None:
        self.seen.append(point)
        if len(self.seen) == self.nth or point == self.point:
            raise Crash(point)


def at_rest() -> Check:
    return Check("job not running", True, "never started here")


@dataclass
class Resetting:
    """Resets of one mirror; `events` are the reports to the job, `voided` the resets that ended its comparisons."""

    mirror: Mirror
    folder: Path
    at_rest: Callable[[], Check] = at_rest
    events: list[str] = field(default_factory=list)
    voided: list[str] = field(default_factory=list)
    _source: pg.Connection | None = None
    _sink: StartStore | None = None

    def on(self, act: Callable[[ResetContext], Any], probe: Probe = silent, steal: str = "") -> Any:
        """Run an action with its own reset context, like one command."""
        folder = StateFolder.open(self.folder)
        # a start on the same host reads the consent that is stored here
        stored, shared = StoredConsents(folder, self.mirror.job.name), self.mirror.consents
        if isinstance(shared, Shared):
            shared.of = stored
        else:
            self.mirror.consents = stored

        def report(text: str, awaits: bool) -> None:
            self.events.append(text)

        with reset_service.reset_context(self.mirror.job, folder, self.at_rest, report, steal) as ctx:
            ctx.probe, ctx.void = probe, self.voided.append
            return act(ctx)

    def plan(self, goal: Goal) -> ResetPlan:
        def act(ctx: ResetContext) -> ResetPlan:
            made = plan.make(ctx, goal)
            plan.keep(ctx, made)
            return made

        return self.on(act)  # type: ignore[no-any-return]

    def order(self, made: ResetPlan) -> ResetOrder:
        return ResetOrder(made.id, "a test", self.mirror.job.slot, made.at_stake or None)

    def execute(self, made: ResetPlan, probe: Probe = silent, **other: Any) -> Result:
        order = replace(self.order(made), **other)
        return self.on(lambda ctx: reset_apply.execute(ctx, order), probe)  # type: ignore[no-any-return]

    def reset(self, goal: Goal, probe: Probe = silent) -> Result:
        return self.execute(self.plan(goal), probe)

    def resume(self, probe: Probe = silent) -> Result:
        return self.on(resume.resume, probe)  # type: ignore[no-any-return]

    def undo(self, backup: str, probe: Probe = silent) -> Result:
        return self.reset(Goal(TargetKind.BACKUP, backup=backup), probe)

    def lines(self) -> list[AuditLine]:
        return list(reversed(Audit(StateFolder.open(self.folder)).read().lines))

    def names(self, kind: str) -> list[str]:
        return sorted(path.stem for path in (self.folder / kind).glob("*.json"))

    def places(self) -> dict[str, Any]:
        """Return rows (without their epoch) and points by DN, which an undo has to restore."""
        found: dict[str, Any] = {row.key.shard: (self._row(row), {}) for row in self.rows()}
        for shard, flag, point in self.points():
            found[shard][1][flag] = point
        return found

    def points(self) -> list[tuple[str, bool, int]]:
        slot = self.mirror.job.slot
        statement = (
            "SELECT n.node_name::text, s.checkpoint, s.sync_point FROM dws.slot s JOIN dws.node n ON n.ord = s.dn"
            f" WHERE s.slot_name = '{slot}' ORDER BY 1, 2"
        )
        self._source = self._source or self.mirror.warehouse.connect()
        with self._source.cursor() as cursor:
            cursor.execute(statement)
            return [(dn, flag, point) for dn, flag, point in cursor.fetchall()]

    def rows(self) -> list[ProgressRow]:
        """The progress rows, over a session that stays."""
        job = self.mirror.job
        self._sink = self._sink or worker.open_progress(job, "test", worker.who(job, "test"))
        return self._sink.rows()

    @staticmethod
    def _row(row: ProgressRow) -> ProgressRow:
        return replace(row, epoch=0)


def point(number: int, *dns: str) -> Goal:
    return Goal(TargetKind.POINT, (("*", str(number)),), dns=dns)


EARLIEST, LATEST, SNAPSHOT = (Goal(TargetKind(name)) for name in ("earliest", "latest", "snapshot"))


@dataclass
class Capped:
    """A source that hides everything beyond one point of each DN."""

    source: Any
    caps: Mapping[str, int]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def read_status(self, shard: Shard | None) -> list[Any]:
        found = self.source.read_status(shard)
        return [replace(one, latest=min(one.latest, DwsPosition(self.caps[one.shard.name], None))) for one in found]


def replay(mirror: Mirror, share: float, draw: random.Random) -> dict[str, int]:
    """Read and apply about this share of the unread changes, DN by DN; RUNNING if all have been passed.

    Like a start: under a new epoch. Returns each DN's newest point.
    """
    job = mirror.job
    with closing(worker.open_progress(job, "replay", worker.who(job, "replay"))) as store:
        epoch, rows = store.raise_epoch(), store.rows()
        with closing(worker.open_pair(job, epoch)) as pair, no_lingering():
            source, sink = pair.opened(job, "direct", "")
            seen = {status.shard.name: status for status in source.read_status(None)}
            newest = {name: ours(status.latest).point for name, status in seen.items()}
            caps = {row.key.shard: _cap(row, newest[row.key.shard], share, draw) for row in rows}
            lanes = tuple(
                LaneTask(
                    row.key.source_table,
                    Shard(row.key.shard, row.node_id),
                    Expected(frozenset({seen[row.key.shard].kept}), row.fingerprint),
                    job.binlog.binlog_sync_point_size,
                )
                for row in rows
            )
            capped: Any = Capped(source, caps)
            task = StreamTask(job, epoch, lanes, 60.0)
            outcome = entries.stream_lanes(task, [lambda table: (capped, sink)], SystemClock())
        assert not any(lane.error for lane in outcome.lanes), outcome
        turn = Turn(epoch, len(rows), (LaneState.CATCHING_UP, LaneState.RUNNING), LaneState.RUNNING)
        if not not_passed(store.rows(), turn):
            store.set_state(turn)
    return newest


def _cap(row: ProgressRow, newest: int, share: float, draw: random.Random) -> int:
    assert row.position is not None
    low = ours(row.position).point
    part = share if share in (0.0, 1.0) else min(1.0, draw.uniform(0, share * 2))
    return low + int((newest - low) * part)


class StandinWorld:
    """A slot of the stand-in under a mirror; plays `Played` of tests/property/test_reset_histories.py."""

    def __init__(self, resetting: Resetting, draw: random.Random, keys: int) -> None:
        self.resetting, self.draw, self.keys = resetting, draw, keys
        self.mirror = resetting.mirror
        self.names = [row.key.shard for row in resetting.rows()]
        self.oldest, self.newest = 0, 0

    @property
    def state(self) -> LaneState:
        return self.resetting.rows()[0].state

    def change(self, changes: int) -> None:
        orders, table = [], self.mirror.table
        for _ in range(changes):
            key, value = self.draw.randrange(self.keys), self.draw.randrange(1_000)
            orders.append(
                f"DELETE FROM {table} WHERE id = {key}"
                if self.draw.random() < 0.25
                else f"INSERT INTO {table} VALUES ({key}, {value}) ON CONFLICT (id) DO UPDATE SET v = excluded.v"
            )
        run(self.mirror.warehouse, *orders)

    def heal(self) -> None:
        """Make the target equal to the source, for any earlier state, with a store without resets."""
        if self.resetting.on(lambda ctx: ctx.resets.history(1)):
            self.mirror.at_sink("DELETE FROM slotkeeper_resets")
        if self.state not in STREAMING:
            self.start(1.0)
        moves = self.resetting.plan(EARLIEST).moves
        self.oldest = min(ours(move.to.position).point for move in moves if move.to.position is not None)
        self.resetting.reset(EARLIEST)
        self.start(1.0)
        self.mirror.at_sink("DELETE FROM slotkeeper_resets")
        assert self.equal() and self.state is LaneState.RUNNING

    def start(self, share: float) -> None:
        """Run a complete copy with the driver itself."""
        if self.state not in STREAMING:
            self.mirror.start().wait_running()
            self.mirror.stop()
            return
        self.newest = max(replay(self.mirror, share, self.draw).values())

    def equal(self) -> bool:
        self.start(1.0)
        return self.mirror.difference() == (0, 0)

    def point(self, draw: random.Random) -> str:
        return str(draw.randint(self.oldest, self.newest))

    def time(self, draw: random.Random) -> str:
        return ""

    def plan(self, goal: Goal) -> ResetPlan:
        return self.resetting.plan(goal)

    def execute(self, made: ResetPlan) -> Result:
        return self.resetting.execute(made)
