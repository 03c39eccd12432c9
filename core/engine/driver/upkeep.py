"""The driver's periodic queries beside the stream: the lease, the DNs, progress rows, the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.lane import Activity, Lane
from slotkeeper.core.domain.position import Position, further
from slotkeeper.core.domain.progress import ProgressRow
from slotkeeper.core.domain.quarantine import key_in_words
from slotkeeper.core.domain.report import server_of
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.engine.driver.context import StreamPlan
from slotkeeper.core.engine.driver.registration import LaneOwner
from slotkeeper.core.engine.driver.threads import SerialExecutor
from slotkeeper.core.engine.driver.waits import admitted
from slotkeeper.core.errors import Busy, ErrorKind, SlotkeeperError, Trouble, classed
from slotkeeper.core.ports.driver import Sessions
from slotkeeper.core.retry import LOGIN_WAIT_MOST

T = TypeVar("T")

READ_EVERY = 1.0
IDLE_EVERY, IDLE_A_SECOND = 2.0, 10
"""Seconds between two readings of idle lanes' rows, and most rows a second: they show a sink that was set back even
without work."""
LIFE_EVERY = 2.0
"""Seconds between two short queries to a DN whose lane waits for a long answer; each has a limit of 2 s."""
COUNT_EVERY = 1.0
"""Seconds between two counts of quarantined rows: replays change their number, and reports show a new row within
5 s."""
ASKED_ALONE = 8
"""Most DNs queried one by one; more are queried together, and one by one after a failure."""
_BUSY = (Activity.APPLYING, Activity.REGISTERING)
LEASE_EVERY = 1.0
LEASE_LATE = 10.0
"""Seconds after which a silent lease session counts as lost: less than a server takes to free a lost connection's
locks. The driver then cuts it off and opens a new one.
"""


AT_ONCE = 3
"""Most consecutive rejections of a lane's workers after the driver's own logins before the lane waits."""


class Upkeep:
    """`not_ours`: why the lease is not held, if so; `quarantined`: the number of rows, and the newest."""

    def __init__(
        self, loop: LaneOwner, plan: StreamPlan, sessions: Sessions, executor: SerialExecutor, clock: Clock
    ) -> None:
        self._loop, self._plan, self._sessions, self._executor = loop, plan, sessions, executor
        self._clock = clock
        self._tables = tuple(channel.source_table for channel in plan.job.channels)
        self._under_way: set[str] = set()
        """The running query."""
        self._read_at = self._read_all_at = 0.0
        self._asked: float | None = None
        self._lease_at = 0.0
        self.not_ours: SlotkeeperError | None = None
        self.quarantined: tuple[int, str] | None = None
        self._count_at, self._life_at = 0.0, 0.0
        self._refused: dict[str, int] = {}
        """The sides that rejected a password, with the driver's own rejections there since."""
        self._login_at = 0.0
        self._check_at = clock.monotonic() + plan.job.binlog.check_node_change_interval / 1000

    def _ask(
        self, what: str, question: Callable[[], T], failed: Callable[[SlotkeeperError], T], then: Callable[[T], None]
    ) -> None:
        """Ask in a thread; the answer, or what `failed` makes of the error, is an event."""
        self._under_way.add(what)

        def ask() -> None:
            try:
                found = question()
            except Exception as raised:
                found = failed(classed(raised))
            self._loop.post(answered, found)

        def answered(found: T) -> None:
            self._under_way.discard(what)
            then(found)

        self._executor.submit(what, ask)

    def keep_lease(self, now: float) -> None:
        """Check the lease every second: progress schemas share no fence, so no lane is assigned without the lease."""
        if self._asked is not None:
            if now - self._asked >= LEASE_LATE:
                self._asked = now  # the session that is tried next may not answer either
                self.not_ours = Busy("the session that holds the lease does not answer", where="sink")
                self._plan.sever_lease()
            return
        if now < self._lease_at:
            return
        self._asked, self._lease_at = now, now + LEASE_EVERY
        self._ask("lease", self._plan.keep_lease, _itself, self._lease_answered)

    def _lease_answered(self, error: SlotkeeperError | None) -> None:
        if self.not_ours is not None and error is None:
            self._loop.sink_answers()
        self._asked, self.not_ours = None, error
        if error is None or error.kind not in (ErrorKind.OPERATOR, ErrorKind.SUPERSEDED):
            return
        if error.kind is ErrorKind.SUPERSEDED or not error.table:
            self._loop.end_with(error)
            return
        # another job has that table's target; the others wait until theirs are known to be held
        self.not_ours, self._lease_at = Busy("retrying the lease", where="sink"), 0.0
        self._loop.fail(error.table, error, waits=False)

    def login_refused(self, where: str, times: int) -> None:
        """Record a rejected password at a side and its consecutive rejections; no task starts before a login succeeds.

        The driver logs in at once, or later if only a lane's workers were rejected: another host can have the old one.
        """
        if where not in self._refused:
            self._refused[where] = times - 1
            self._login_at = self._clock.monotonic() + (_login_wait(times) if times > AT_ONCE else 0.0)

    def awaits_login(self, now: float) -> bool:
        """Whether the driver still waits after a rejected password.

        Each new worker would be rejected again with the same one, so the driver logs in first. Its own count of
        rejections (`slotkeeper.core.drivers.login`) compares a password with the rejected one before it asks a server.
        """
        if not self._refused or "login" in self._under_way or now < self._login_at:
            return bool(self._refused)
        where = next(iter(self._refused))
        self._ask("login", partial(self._sessions.log_in, where), _itself, partial(self._logged_in, where))
        return True

    def _logged_in(self, where: str, error: SlotkeeperError | None) -> None:
        if error is not None and error.kind is ErrorKind.LOGIN:
            self._login_at = self._clock.monotonic() + _login_wait(self._refused[where])
            self._refused[where] += 1
            return
        del self._refused[where]  # another error is for the lanes to find out
        if self._refused:
            return
        if self.not_ours is not None and self.not_ours.kind is ErrorKind.LOGIN:
            self.not_ours, self._lease_at = Busy("retrying the lease", where="sink"), 0.0
        self._loop.lanes.update(admitted(self._loop.lanes, self._clock.monotonic()))

    def read_rows(self, now: float) -> None:
        """Read the rows of lanes in tasks every second: a task reports only at its end. Read all lanes less often."""
        every = now >= self._read_all_at
        tables = sorted({lane.key.source_table for lane in self._loop.lanes.values() if lane.task or every})
        if "rows" in self._under_way or now < self._read_at or not tables:
            return
        self._read_at = now + READ_EVERY
        if every:
            self._read_all_at = now + max(IDLE_EVERY, len(tables) / IDLE_A_SECOND)
        stood = {name: lane.position for name, lane in self._loop.lanes.items()}

        def read() -> list[ProgressRow]:
            return [row for table in tables for row in self._sessions.of(table).rows("reader").rows()]

        # a step that writes there reports the error
        self._ask("rows", read, lambda _: [], partial(self._rows_read, stood))

    def _rows_read(self, stood: Mapping[str, Position], rows: list[ProgressRow]) -> None:
        """`stood`: the lanes' positions before the read: a row below one was set back."""
        for row in rows:
            name = (self._plan.whole or self._plan.job).lane_name(row.key.source_table, row.key.shard)
            lane = self._loop.lanes.get(name)
            if lane is None or row.position is None:
                continue
            if not lane.task:
                if name in stood and row.position < stood[name]:
                    self._loop.settle_now(name)
                continue
            if row.epoch != self._plan.epoch:
                continue
            if row.position > lane.position:
                moved = replace(lane, position=row.position, changes=row.changes, repeats=row.repeats)
                latest, now = further(lane.latest, row.position.place), self._clock.monotonic()
                self._loop.lanes[name] = replace(moved, latest=latest, committed_at=now)

    def ask_life(self, now: float) -> None:
        """Check every 2 s whether the DNs of lanes in tasks or registrations answer.

        Idle lanes are polled anyway; a task's call can be long, and reports nothing meanwhile.
        """
        waiting = [lane for lane in self._loop.lanes.values() if lane.activity in _BUSY]
        if "life" in self._under_way or now < self._life_at or not waiting:
            return
        self._life_at = now + LIFE_EVERY
        # one table stands for all: it is their DNs that are asked
        lanes = list({lane.shard: lane for lane in waiting}.values())

        def ask() -> None:
            if len(lanes) <= ASKED_ALONE or not self._answers(lanes[0], None):
                for lane in lanes:
                    self._answers(lane, lane.shard)

        self._ask("life", ask, lambda _: None, lambda _: None)

    def _answers(self, lane: Lane, shard: Shard | None) -> bool:
        """Whether a DN, or all with None, answers for a lane's table; what is known of its own DN is posted."""
        asked, why = self._clock.monotonic(), ""
        try:
            self._sessions.of(lane.key.source_table).source("life").read_status(shard)
        except Trouble:
            pass  # it answered: the code that acts on the answer interprets it
        except Exception as raised:
            why = classed(raised).message
        if shard is not None or not why:
            self._loop.post(self._life_known, shard, asked, why)
        return not why

    def _life_known(self, shard: Shard | None, asked: float, why: str) -> None:
        for name, lane in self._loop.lanes.items():
            if shard is not None and lane.shard != shard:
                continue
            if not why and lane.silent_since is not None:
                self._loop.lanes[name] = replace(lane, silent_since=None, silent="")
            elif why and lane.activity in _BUSY:
                since = asked if lane.silent_since is None else lane.silent_since
                self._loop.lanes[name] = replace(lane, silent_since=since, silent=server_of(why)[2])

    def count_quarantined(self, now: float) -> None:
        """Count quarantined rows every few seconds, if the job's configuration quarantines any."""
        if not self._plan.job.sink_options.quarantines or "quarantined" in self._under_way or now < self._count_at:
            return
        self._count_at = now + COUNT_EVERY
        whole = (self._plan.whole or self._plan.job).channels
        # those that are together ask for the tables that have left as well: their rows are still not in the target
        tables = self._tables if self._plan.group else tuple(channel.source_table for channel in whole)

        def found() -> tuple[int, str] | None:
            rows, newest = 0, (0, "")
            for table in tables:
                asked = self._sessions.of(table).rows("quarantined")
                count = asked.quarantined()
                if count:
                    entry, key, code = asked.newest_quarantined()
                    watched = self._plan.targets.tables.get(table)  # none of a table that has left
                    names = () if watched is None else image_of(watched.job.channel, watched.identity).key
                    newest = max(newest, (entry, f"entry {entry}: {key_in_words(names, key)} ({code})"))
                rows += count
            return rows, newest[1]

        # a step that writes there reports the error
        self._ask("quarantined", found, lambda _: None, self._quarantined_counted)

    def _quarantined_counted(self, found: tuple[int, str] | None) -> None:
        self.quarantined = self.quarantined if found is None else found

    def check_nodes(self, now: float) -> None:
        """Check every `check_node_change_interval` for new DNs and names, which a status may not show."""
        options = self._plan.job.binlog
        if not options.need_redistribution or "nodes" in self._under_way or now < self._check_at:
            return
        self._check_at = now + options.check_node_change_interval / 1000
        # one that is still here: a table that has left may be gone at the source
        table = next((lane.key.source_table for lane in self._loop.lanes.values()), self._tables[0])
        # the code that reads there reports the error
        self._ask("nodes", lambda: self._sessions.of(table).source("nodes").nodes(), lambda _: [], self._nodes_seen)

    def _nodes_seen(self, there: list[Shard]) -> None:
        new = set(there) - {lane.shard for lane in self._loop.lanes.values()}
        if new:
            self._loop.nodes_changed(new)


def _itself(error: SlotkeeperError) -> SlotkeeperError | None:
    return error


def _login_wait(times: int) -> float:
    return min(LOGIN_WAIT_MOST, 2.0 ** min(times, 10))
