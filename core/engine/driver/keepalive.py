"""Keeps the slots of a start's channels alive while it copies or waits: the same points are registered again.

No lane streams meanwhile, so nobody else registers them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slotkeeper.core.domain.job import JobEvent, WantedState
from slotkeeper.core.domain.position import Kept as Registered
from slotkeeper.core.domain.progress import LaneKey, ProgressRow
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.driver.context import JobContext, about
from slotkeeper.core.engine.driver.open_transactions import Interrupted
from slotkeeper.core.engine.driver.registration import Registration, register
from slotkeeper.core.errors import SlotkeeperError, Superseded, Trouble

KEPT_AT_ONCE = 0.25
"""Seconds of registering between two questions about what is waited for."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One channel's slot: its surroundings, narrowed to it, the epoch, and its rows."""

    part: JobContext
    epoch: int
    rows: tuple[ProgressRow, ...]


class KeepAlive:
    """Registers what is due, a little at a time; `kept` are all channels of the job, copied or not."""

    def __init__(self, ctx: JobContext, kept: Iterable[Kept]) -> None:
        self._ctx = ctx
        registers = ctx.job.binlog.binlog and ctx.sessions.keeps_positions
        self._kept = tuple(kept) if registers else ()
        now = ctx.clock.monotonic()
        self._late: set[LaneKey] = set()
        """Those whose last registration failed."""
        self._at = {row.key: now for one in self._kept for row in one.rows}

    def again(self) -> None:
        """Register the points of rows whose time has come; no longer at once than others may wait for."""
        began = self._ctx.clock.monotonic()
        for one in self._kept:
            for row in one.rows:
                now = self._ctx.clock.monotonic()
                if now - began > KEPT_AT_ONCE:
                    return
                if now - self._at[row.key] >= self._ctx.keepalive:
                    self._at[row.key] = now
                    self._register(one, row)

    def wait_out_pause(self) -> None:
        """Stay in a pause, with all slots kept alive; raises Interrupted behind it, and where a stop is wished."""
        reported = False
        while self._ctx.wanted() is WantedState.PAUSE:
            if not reported:
                self._ctx.narrator.event(JobEvent.PAUSED)
                reported = True
            self.again()
            self._ctx.pause(0.5)
        if reported and self._ctx.wanted() is WantedState.RUN:
            self._ctx.narrator.event(JobEvent.RESUMED)
        if reported or self._ctx.wanted() is not WantedState.RUN:
            raise Interrupted

    def between(self) -> None:
        """What a wait does between two questions."""
        self.wait_out_pause()
        self.again()

    def _sharing(self, row: ProgressRow, points: Registered) -> tuple[LaneKey, ...]:
        """The rows of other channels for which the source keeps the same position."""
        if not points.shared:
            return ()
        return tuple(key for key in self._at if key.shard == row.key.shard and key != row.key)

    def _register(self, one: Kept, row: ProgressRow) -> None:
        points = row.registered
        if points is None or row.position is None:
            return
        sessions, shard = one.part.sessions, Shard(row.key.shard, row.node_id)
        # both points are where the first is after one of these, also where that answer was lost
        expected = exactly(points, row.fingerprint).widened(points.at(points.again))
        wanted = Registration(row.key, shard, one.epoch, expected, points.again, points, self._sharing(row, points))
        try:
            with about(self._ctx, one.part):
                register(sessions.admin("start"), sessions.rows("keep"), wanted, self._ctx.clock)
        except (Trouble, Superseded):
            raise
        except SlotkeeperError as error:
            self._late.add(row.key)
            self._ctx.narrator.retrying(f"keeping the slot alive: {error.message}", error)
            return
        if row.key in self._late:
            self._late.remove(row.key)
            self._ctx.narrator.retrying("")
