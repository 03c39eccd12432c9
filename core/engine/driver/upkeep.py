"""What the driver asks every few seconds beside the stream: the lease, the DNs, progress rows, the quarantine.

Next door: `loop.py` calls these in every turn, `lease.py` holds the lease, `topology.py` decides about DNs.
"""

from __future__ import annotations

from dataclasses import replace

from core.clock import Clock
from core.domain.position import further
from core.domain.progress import ProgressRow
from core.domain.slot import Shard
from core.engine.driver.context import StreamPlan
from core.engine.driver.idle_lanes import LaneOwner
from core.engine.driver.serial_executor import SerialExecutor
from core.errors import Busy, ErrorKind, SlotkeeperError, classed
from core.ports.driver import Sessions

READ_EVERY = 1.0
COUNT_EVERY = 5.0
"""How often the rows in quarantine are counted: replays change their number from outside."""
LEASE_EVERY = 1.0
LEASE_LATE = 10.0
"""A lease's session that answers later counts as lost: sooner than a server frees the locks of a line that is gone.

It is cut off then, so that a new one is tried.
"""


class Upkeep:
    """`not_ours` is why the lease is not held, where it is not; `quarantined` how many rows are in quarantine."""

    def __init__(
        self, loop: LaneOwner, plan: StreamPlan, sessions: Sessions, executor: SerialExecutor, clock: Clock
    ) -> None:
        self._loop = loop
        self._plan = plan
        self._sessions = sessions
        self._executor = executor
        self._clock = clock
        self._tables = tuple(channel.source_table for channel in plan.job.channels)
        self._reading = False
        self._read_at = 0.0
        self._asked: float | None = None
        self._lease_at = 0.0
        self.not_ours: SlotkeeperError | None = None
        self.quarantined: int | None = None
        self._counting = False
        self._count_at = 0.0
        self._checking = False
        self._check_at = clock.monotonic() + plan.job.binlog.check_node_change_interval / 1000

    def keep_lease(self, now: float) -> None:
        """Every second: across progress schemas there is no fence, so nothing is assigned while it is not held."""
        if self._asked is not None:
            if now - self._asked >= LEASE_LATE:
                self._asked = now  # the session that is tried next may not answer either
                self.not_ours = Busy("the session that holds the lease does not answer", where="sink")
                self._plan.sever_lease()
            return
        if now < self._lease_at:
            return
        self._asked, self._lease_at = now, now + LEASE_EVERY

        def ask() -> None:
            error = None
            try:
                self._plan.keep_lease()
            except Exception as raised:
                error = classed(raised)
            self._loop.post(self._lease_answered, error)

        self._executor.submit("lease", ask)

    def _lease_answered(self, error: SlotkeeperError | None) -> None:
        self._asked, self.not_ours = None, error
        if error is None or error.kind not in (ErrorKind.OPERATOR, ErrorKind.SUPERSEDED):
            return
        if error.kind is ErrorKind.SUPERSEDED or not error.table:
            self._loop.end_with(error)
            return
        # another job has that table's target; the others wait until theirs are known to be held
        self.not_ours, self._lease_at = Busy("the lease is asked for again", where="sink"), 0.0
        self._loop.fail(error.table, error, waits=False)

    def read_rows(self, now: float) -> None:
        """Every second, where the lanes in tasks stand by now: a task tells only at its end."""
        if self._reading or now < self._read_at or not any(one.task for one in self._loop.lanes.values()):
            return
        self._reading, self._read_at = True, now + READ_EVERY
        tables = sorted({lane.key.source_table for lane in self._loop.lanes.values() if lane.task})

        def read() -> None:
            try:
                rows = [row for table in tables for row in self._sessions.of(table).rows("reader").rows()]
            except Exception:
                rows = []  # whoever writes there reports the trouble
            self._loop.post(self._rows_read, rows)

        self._executor.submit("rows", read)

    def _rows_read(self, rows: list[ProgressRow]) -> None:
        self._reading = False
        for row in rows:
            name = (self._plan.whole or self._plan.job).lane_name(row.key.source_table, row.key.shard)
            lane = self._loop.lanes.get(name)
            if lane is None or not lane.task or row.position is None or row.epoch != self._plan.epoch:
                continue
            if row.position > lane.position:
                self._loop.lanes[name] = replace(
                    lane,
                    position=row.position,
                    changes=row.changes,
                    repeats=row.repeats,
                    latest=further(lane.latest, row.position.place),
                    committed_at=self._clock.monotonic(),
                )

    def count_quarantined(self, now: float) -> None:
        """Every few seconds, how many rows are in quarantine; nothing where the job holds none by its configuration."""
        if not self._plan.job.sink_options.quarantines or self._counting or now < self._count_at:
            return
        self._counting, self._count_at = True, now + COUNT_EVERY

        whole = (self._plan.whole or self._plan.job).channels
        # those that are together ask for the tables that have left as well: their rows are still not in the target
        tables = self._tables if self._plan.group else tuple(channel.source_table for channel in whole)

        def ask() -> None:
            try:
                found: int | None = sum(self._sessions.of(table).rows("quarantined").quarantined() for table in tables)
            except Exception:
                found = None  # whoever writes there reports the trouble
            self._loop.post(self._quarantined_counted, found)

        self._executor.submit("quarantined", ask)

    def _quarantined_counted(self, found: int | None) -> None:
        self._counting = False
        self.quarantined = self.quarantined if found is None else found

    def check_nodes(self, now: float) -> None:
        """Every `check_node_change_interval`: new DNs and new names, also where no status would show them."""
        options = self._plan.job.binlog
        if not options.need_redistribution or self._checking or now < self._check_at:
            return
        self._checking, self._check_at = True, now + options.check_node_change_interval / 1000
        # one that is still here: a table that has left may be gone at the source
        table = next((lane.key.source_table for lane in self._loop.lanes.values()), self._tables[0])

        def check() -> None:
            try:
                there = self._sessions.of(table).source("nodes").nodes()
            except Exception:
                there = []  # whoever looks there reports the trouble
            self._loop.post(self._nodes_seen, there)

        self._executor.submit("nodes", check)

    def _nodes_seen(self, there: list[Shard]) -> None:
        self._checking = False
        new = set(there) - {lane.shard for lane in self._loop.lanes.values()}
        if new:
            self._loop.nodes_changed(new)
