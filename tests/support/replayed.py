"""A job's reading, a part of it at a time: its own worker takes steps up to a point, and no driver is in between.

`StandinWorld` is a slot of the stand-in with a real store, for tests/property/test_reset_histories.py.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.progress import STREAMING, LaneState, ProgressRow
from slotkeeper.core.domain.reset import Goal, ResetPlan
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.watch import Expected, Turn, not_passed
from slotkeeper.core.engine.messages import LaneTask, StreamTask
from slotkeeper.core.engine.worker import stream_task
from slotkeeper.core.slots.reset_apply import Result
from slotkeeper.core.sources.dws.position import DwsPosition, ours
from slotkeeper.core.wiring import worker
from tests.support.mirror import Mirror, no_lingering
from tests.support.resetting import EARLIEST, Resetting
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


def replay(mirror: Mirror, share: float, draw: random.Random) -> dict[str, int]:
    """Read and apply about that share of what is unread, DN by DN; RUNNING where all has been passed.

    Like a start: under a new epoch. Returns each DN's newest point.
    """
    job = mirror.job
    with closing(worker.open_progress(job, "replay", worker.who(job, "replay"))) as store:
        epoch, rows = store.raise_epoch(), store.rows()
        with closing(worker.open_pair(job, epoch)) as pair, no_lingering():
            source, sink = pair.opened(job, "direct")
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
            outcome = stream_task.run(task, [lambda table: (capped, sink)], SystemClock())
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
        moves = self.resetting.plan(EARLIEST).moves
        self.oldest = min(ours(move.to.position).point for move in moves if move.to.position is not None)
        self.resetting.reset(EARLIEST)
        self.start(1.0)
        self.mirror.at_sink("DELETE FROM slotkeeper_resets")
        assert self.equal() and self.state is LaneState.RUNNING

    def start(self, share: float) -> None:
        """A copy is the driver's own, to its end."""
        if self.state not in STREAMING:
            self.mirror.start().wait_running()
            self.mirror.stop()
            return
        self.newest = max(replay(self.mirror, share, self.draw).values())

    def equal(self) -> bool:
        """What is unread is read first."""
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
