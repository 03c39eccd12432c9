"""The driver's periodic queries during streaming: the lease, the DNs, the progress rows and the quarantine."""

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
from slotkeeper.core.judgement.servers import UNKNOWN, cause_of
from slotkeeper.core.ports.driver import Sessions
from slotkeeper.core.retry import LOGIN_WAIT_MOST

T = TypeVar("T")

READ_EVERY = 1.0
IDLE_EVERY, IDLE_A_SECOND = 2.0, 10
"""Seconds between two reads of idle lanes' rows, and the maximum number of rows per second: rows show whether the sink
was set back, even if their lanes have no work."""
LIFE_EVERY = 2.0
"""Seconds between two short queries to a DN whose lane waits for a long answer; each query is limited to 2 s."""
COUNT_EVERY = 1.0
"""Seconds between two counts of quarantined rows: replays change their number, and reports show a new row within
5 s."""
ASKED_ALONE = 8
"""Maximum number of DNs queried one by one; more DNs are queried together, and one by one if the joint query fails."""
_BUSY = (Activity.APPLYING, Activity.REGISTERING)
LEASE_EVERY = 1.0
LEASE_LATE = 10.0
"""Seconds after which a silent lease session counts as lost: less than a server needs to release the locks of a lost
connection. The driver then closes the session and opens a new one."""


AT_ONCE = 3
"""Number of consecutive rejected worker logins of a lane up to which the driver itself logs in at once."""


class Upkeep:
    """Periodic queries. `not_ours`: the error if the lease is not held; `quarantined`: row count and newest row."""

    def __init__(
        self, loop: LaneOwner, plan: StreamPlan, sessions: Sessions, executor: SerialExecutor, clock: Clock
    ) -> None:
        self._loop, self._plan, self._sessions, self._executor = loop, plan, sessions, executor
        self._clock = clock
        self._tables = tuple(channel.source_table for channel in plan.job.channels)
        self._under_way: set[str] = set()
        """The names of the running queries."""
        self._read_at = self._read_all_at = 0.0
        self._asked: float | None = None
        self._lease_at = 0.0
        self.not_ours: SlotkeeperError | None = None
        self.quarantined: tuple[int, str] | None = None
        self._count_at, self._life_at = 0.0, 0.0
        self._refused: dict[str, int] = {}
        """The sides that rejected a password, with the number of the driver's own rejected logins since then."""
        self._login_at = 0.0
        self._check_at = clock.monotonic() + plan.job.binlog.check_node_change_interval / 1000

    def _ask(
        self, what: str, question: Callable[[], T], failed: Callable[[SlotkeeperError], T], then: Callable[[T], None]
    ) -> None:
        """Call `question` in a thread; post its answer, or the result of `failed` for its error, as an event."""
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
                self._asked = now  # restart the wait: the next session may not answer either
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
        # another job holds this table's target lock; the other tables wait until their locks are confirmed
        self.not_ours, self._lease_at = Busy("retrying the lease", where="sink"), 0.0
        self._loop.fail(error.table, error, waits=False)

    def login_refused(self, where: str, times: int) -> None:
        """Record a side that rejected a password `times` times in a row; no task starts before a login succeeds.

        The driver logs in at once, or later if only workers are rejected: their hosts may still have the old password.
        """
        if where not in self._refused:
            self._refused[where] = times - 1
            self._login_at = self._clock.monotonic() + (_login_wait(times) if times > AT_ONCE else 0.0)

    def awaits_login(self, now: float) -> bool:
        """Whether the driver still waits after a rejected password.

        A new worker with the same password would be rejected again, so the driver logs in first. The driver counts its
        own rejections in `slotkeeper.core.drivers.login`, which compares a password with the rejected one before a
        login.
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
        del self._refused[where]  # the lanes detect and report any other error
        if self._refused:
            return
        if self.not_ours is not None and self.not_ours.kind is ErrorKind.LOGIN:
            self.not_ours, self._lease_at = Busy("retrying the lease", where="sink"), 0.0
        self._loop.lanes.update(admitted(self._loop.lanes, self._clock.monotonic()))

    def read_rows(self, now: float) -> None:
        """Read the rows of lanes in tasks every second: a task reports only at its end. Read all rows less often."""
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

        # a step that writes to the sink reports the error
        self._ask("rows", read, lambda _: [], partial(self._rows_read, stood))

    def _rows_read(self, stood: Mapping[str, Position], rows: list[ProgressRow]) -> None:
        """Update the lanes. `stood`: their positions before the read; a row before that position was set back."""
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

        Idle lanes are polled anyway; a task's call can take long and reports nothing until it ends.
        """
        waiting = [lane for lane in self._loop.lanes.values() if lane.activity in _BUSY]
        if "life" in self._under_way or now < self._life_at or not waiting:
            return
        self._life_at = now + LIFE_EVERY
        # one table per DN is enough: the query checks the DN
        lanes = list({lane.shard: lane for lane in waiting}.values())

        def ask() -> None:
            if len(lanes) <= ASKED_ALONE or not self._answers(lanes[0], None):
                for lane in lanes:
                    self._answers(lane, lane.shard)

        self._ask("life", ask, lambda _: None, lambda _: None)

    def _answers(self, lane: Lane, shard: Shard | None) -> bool:
        """Whether a DN (None: all) answers for a lane's table; posts the result unless a query to all DNs failed."""
        asked, why = self._clock.monotonic(), ""
        try:
            self._sessions.of(lane.key.source_table).source("life").read_status(shard)
        except Trouble:
            pass  # the DN answered; the code that uses the answer interprets it
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
        """Count the quarantined rows every `COUNT_EVERY` seconds, if the job's configuration quarantines rows."""
        if not self._plan.job.sink_options.quarantines or "quarantined" in self._under_way or now < self._count_at:
            return
        self._count_at = now + COUNT_EVERY
        whole = (self._plan.whole or self._plan.job).channels
        # the joint tables' count includes the tables that have left, because their rows are still missing in the target
        tables = self._tables if self._plan.group else tuple(channel.source_table for channel in whole)

        def found() -> tuple[int, str] | None:
            rows, newest = 0, (0, "")
            for table in tables:
                asked = self._sessions.of(table).rows("quarantined")
                count = asked.quarantined()
                if count:
                    entry, key, code = asked.newest_quarantined()
                    watched = self._plan.targets.tables.get(table)  # None for a table that has left
                    names = () if watched is None else image_of(watched.job.channel, watched.identity).key
                    newest = max(newest, (entry, f"entry {entry}: {key_in_words(names, key)} ({_rejection(code)})"))
                rows += count
            return rows, newest[1]

        # a step that writes to the sink reports the error
        self._ask("quarantined", found, lambda _: None, self._quarantined_counted)

    def _quarantined_counted(self, found: tuple[int, str] | None) -> None:
        self.quarantined = self.quarantined if found is None else found

    def check_nodes(self, now: float) -> None:
        """Check every `check_node_change_interval` for new and renamed DNs, which a slot status may not show."""
        options = self._plan.job.binlog
        if not options.need_redistribution or "nodes" in self._under_way or now < self._check_at:
            return
        self._check_at = now + options.check_node_change_interval / 1000
        # choose a table that has lanes: a table that has left may no longer exist in the source
        table = next((lane.key.source_table for lane in self._loop.lanes.values()), self._tables[0])
        # the code that reads the source reports the error
        self._ask("nodes", lambda: self._sessions.of(table).source("nodes").nodes(), lambda _: [], self._nodes_seen)

    def _nodes_seen(self, there: list[Shard]) -> None:
        new = set(there) - {lane.shard for lane in self._loop.lanes.values()}
        if new:
            self._loop.nodes_changed(new)


def _itself(error: SlotkeeperError) -> SlotkeeperError | None:
    return error


def _login_wait(times: int) -> float:
    return min(LOGIN_WAIT_MOST, 2.0 ** min(times, 10))


def _rejection(code: str) -> str:
    """Return the sink's error code with its meaning.

    >>> _rejection("23514"), _rejection("XX000")
    ('23514: row violates a constraint', 'XX000')
    """
    cause = cause_of(code, "")
    return code if cause is UNKNOWN else f"{code}: {cause.problem}"
