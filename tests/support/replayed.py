"""A job's reading, a part of it at a time: its own worker takes steps up to a point, and no driver is in between.

`StandinWorld` is a slot of the stand-in with a real store, for `tests.support.reset_histories`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from core.clock import SystemClock
from core.domain.progress import STREAMING, LaneState
from core.domain.reset import Goal, ResetPlan
from core.domain.slot import Shard
from core.domain.turn import Turn, not_passed
from core.domain.watch import Expected
from core.engine.messages import LaneTask, StreamTask
from core.engine.worker import stream_task
from core.slots.reset.apply import Result
from core.sources.dws.position import DwsPosition, ours
from core.wiring import worker
from tests.support.mirror import Mirror, no_lingering
from tests.support.resetting import EARLIEST, LATEST, Resetting
from tests.support.standin import run


@dataclass
class Capped:
    """A source that shows nothing beyond a point of each DN."""

    source: Any
    caps: Mapping[str, int]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def read_status(self, shard: Shard | None) -> list[Any]:
        found = self.source.read_status(shard)
        return [replace(one, latest=min(one.latest, DwsPosition(self.caps[one.shard.name], None))) for one in found]


def replay(mirror: Mirror, caps: Mapping[str, int]) -> None:
    """Read and apply up to these points as a start would: a new epoch, steps, and RUNNING where all has been passed."""
    job = mirror.job
    with closing(worker.open_progress(job, "replay", worker.who(job, "replay"))) as store:
        epoch, rows = store.raise_epoch(), store.rows()
        with closing(worker.open_pair(job, epoch)) as pair, no_lingering():
            source, sink = pair.opened(job, "direct")
            kept = {status.shard.name: status.kept for status in source.read_status(None)}
            lanes = tuple(
                LaneTask(
                    row.key.source_table,
                    Shard(row.key.shard, row.node_id),
                    Expected(frozenset({kept[row.key.shard]}), row.fingerprint),
                    job.binlog.binlog_sync_point_size,
                )
                for row in rows
            )
            capped: Any = Capped(source, caps)
            task = StreamTask(job, epoch, lanes, 60.0)
            outcome = stream_task.run(task, [lambda table: (capped, sink)], SystemClock())
        assert not any(lane.error for lane in outcome.lanes), outcome
        turn = Turn(epoch, len(rows), (LaneState.CATCHING_UP, LaneState.RUNNING), LaneState.RUNNING)
        if not not_passed(store.rows(), turn):
            store.set_state(turn)


def shares(resetting: Resetting, share: float, draw: random.Random) -> dict[str, int]:
    """A point of each DN, about that share of the way from its lane to the newest point."""
    plan = {move.seen.row.key.shard: move.seen for move in resetting.plan(LATEST).moves}
    caps = {}
    for name, seen in plan.items():
        low, high = ours(seen.row.position).point, ours(seen.latest).point
        part = share if share in (0.0, 1.0) else draw.uniform(0, share * 2)
        caps[name] = low + int((high - low) * min(1.0, part))
    return caps


class StandinWorld:
    """A slot of the stand-in under a mirror; plays `tests.support.reset_histories.Played`."""

    def __init__(self, resetting: Resetting, draw: random.Random, keys: int) -> None:
        self.resetting, self.draw, self.keys = resetting, draw, keys
        self.mirror = resetting.mirror

    @property
    def names(self) -> list[str]:
        return [row.key.shard for row in self.resetting.rows()]

    @property
    def state(self) -> LaneState:
        return self.resetting.rows()[0].state

    def change(self, changes: int) -> None:
        """One transaction for each change."""
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
        """A target that equals the source, whatever came before, and a store without resets."""
        if self.resetting.on(lambda ctx: ctx.resets.history(1)):
            self.mirror.at_sink("DELETE FROM slotkeeper_resets")
        if self.state not in STREAMING:
            self.start(1.0)
        self.resetting.reset(EARLIEST)
        replay(self.mirror, shares(self.resetting, 1.0, self.draw))
        self.mirror.at_sink("DELETE FROM slotkeeper_resets")
        assert self.equal() and self.state is LaneState.RUNNING

    def start(self, share: float) -> None:
        """A copy is the driver's own, to its end."""
        if self.state not in STREAMING:
            self.mirror.start().wait_running()
            self.mirror.stop()
            return
        replay(self.mirror, shares(self.resetting, share, self.draw))

    def equal(self) -> bool:
        """What is unread is read first."""
        replay(self.mirror, shares(self.resetting, 1.0, self.draw))
        return self.mirror.difference() == (0, 0)

    def point(self, draw: random.Random) -> str:
        seen = [move.seen for move in self.resetting.plan(LATEST).moves]
        low = min(ours(one.first).point for one in seen if one.first is not None)
        return str(draw.randint(low, max(ours(one.latest).point for one in seen)))

    def time(self, draw: random.Random) -> str:
        return ""

    def plan(self, goal: Goal) -> ResetPlan:
        return self.resetting.plan(goal)

    def execute(self, made: ResetPlan) -> Result:
        return self.resetting.execute(made)
