"""The driver's periodic queries: the lease, DNs, rows, quarantine, servers that do not answer, and waiting sessions.

The checks over separate sessions (`Pulse`, `LockWatch`) only report: retries, leases and fences depend on their own
calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.position import Position, further
from slotkeeper.core.domain.progress import Activity, ProgressRow
from slotkeeper.core.domain.quarantine import key_in_words
from slotkeeper.core.domain.report import Condition, server_of
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.source_waits import SourceWait
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.text import safe
from slotkeeper.core.engine.driver.context import StreamPlan
from slotkeeper.core.engine.driver.failure import retry_login_lanes
from slotkeeper.core.engine.driver.registration import LaneOwner
from slotkeeper.core.engine.driver.threads import SerialExecutor
from slotkeeper.core.errors import Busy, ErrorKind, SlotkeeperError, Trouble, Unreachable, classed
from slotkeeper.core.judgement.servers import UNKNOWN, cause_of
from slotkeeper.core.ports.driver import Sessions
from slotkeeper.core.ports.source import Source
from slotkeeper.core.retry import LOGIN_WAIT_MOST

T = TypeVar("T")

READ_EVERY = 1.0
IDLE_EVERY, IDLE_A_SECOND = 2.0, 10
"""Seconds between two reads of idle lanes' rows, and the maximum number of rows per second: rows show whether the sink
was set back, even if their lanes have no work."""
LIFE_EVERY = 2.0
"""Seconds between two short queries to a DN whose lane waits for a long answer; each query is limited to 2 s."""
COUNT_EVERY = 1.0
"""Seconds between two counts of quarantined rows: replays change the number, and reports show a new row within 5 s."""
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
            self._loop.retry_sink_lanes()
        self._asked, self.not_ours = None, error
        if error is None or error.kind not in (ErrorKind.OPERATOR, ErrorKind.SUPERSEDED):
            return
        if error.kind is ErrorKind.SUPERSEDED or not error.table:
            self._loop.fail_job(error)
            return
        # another job holds this table's target lock; the other tables wait until their locks are confirmed
        self.not_ours, self._lease_at = Busy("retrying the lease", where="sink"), 0.0
        self._loop.fail_table(error.table, error, waits=False)

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
        self._loop.lanes.update(retry_login_lanes(self._loop.lanes, self._clock.monotonic()))

    def read_rows(self, now: float) -> None:
        """Read the rows of lanes in tasks every second: a task reports only at its end. Read all rows less often."""
        if "rows" in self._under_way or now < self._read_at:
            return
        every, lanes = now >= self._read_all_at, self._loop.lanes
        read = lanes.values() if every else lanes.of(Activity.APPLYING)
        tables = sorted({lane.key.source_table for lane in read})
        if not tables:
            return
        self._read_at = now + READ_EVERY
        if every:
            self._read_all_at = now + max(IDLE_EVERY, len(tables) / IDLE_A_SECOND)
        stood = {name: lane.position for name, lane in lanes.items()}

        def read_all() -> list[ProgressRow]:
            return [row for table in tables for row in self._sessions.of(table).rows("reader").rows()]

        # a step that writes to the sink reports the error
        self._ask("rows", read_all, lambda _: [], partial(self._rows_read, stood))

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
        if "life" in self._under_way or now < self._life_at or not (waiting := self._loop.lanes.of(*_BUSY)):
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
                    entry, key, code, name = asked.newest_quarantined()
                    watched = self._plan.targets.tables.get(table)  # None for a table that has left
                    names = () if watched is None else image_of(watched.job.channel, watched.identity).key
                    newest = max(
                        newest, (entry, f"entry {entry}: {key_in_words(names, key)} ({_rejection(code, name)})")
                    )
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


def _rejection(code: str, name: str) -> str:
    """Return the sink's error code with its meaning, and the constraint or column that the sink named.

    >>> _rejection("23514", "amount_check"), _rejection("XX000", "")
    ('23514: row violates a constraint, amount_check', 'XX000')
    """
    cause = cause_of(code, "")
    said = code if cause is UNKNOWN else f"{code}: {cause.problem}"
    return ", ".join(filter(None, (said, safe(name, 63))))


def changed_nodes(source: Source, ours: Iterable[Shard]) -> str:
    """Return the names of DNs added to or removed from `ours`; a DN that answers only direct calls still exists."""
    known, there = set(ours), set(source.nodes())
    if known - there:
        there |= {status.shard for status in source.read_status(None)}
    return ", ".join(sorted(shard.name for shard in known ^ there))


EVERY = 2.0
"""Seconds between two queries to a server: with 2 s for an answer, a wait is reported within the guaranteed 5 s."""
SAID_AFTER = 5.0
"""Seconds without an answer before a report: with `EVERY` and the reporter's interval, within the guaranteed 10 s."""
_TURN = 0.5


@dataclass(frozen=True, slots=True)
class Pinged:
    """A server to check: its name and address, a short query (`ask`), and the call that ends a hanging query (`sever`).

    `party` is a `slotkeeper.core.domain.fault.Party` value, `name` the server without its address ("source dws1"),
    `place` the server with its address ("source dws1 (h:8000)").
    """

    party: str
    name: str
    place: str
    ask: Callable[[], None]
    sever: Callable[[], None]


@dataclass(slots=True)
class Silence:
    """A server's silence. `since`: its start in monotonic seconds, None if there is none; `why`: its error, if any."""

    since: float | None = None
    why: str = ""
    utc: float = 0.0
    """The start of the silence, in seconds since 1970."""

    def said(self, place: str, now: float) -> str:
        """Return the report of the silence; "" while the server can still answer in time.

        >>> Silence(10.0).said("source dws1 (h:1)", 14.0), Silence(10.0).said("source dws1 (h:1)", 22.0)
        ('', 'source dws1 (h:1) does not answer (for 12 s)')
        """
        if self.since is None or (now - self.since < SAID_AFTER and not self.why):
            return ""
        return f"{self.why or f'{place} does not answer'} (for {now - self.since:.0f} s)"

    def condition(self, server: Pinged, now: float) -> Condition | None:
        """Return the silence as a `Condition`; None if there is nothing to report."""
        if self.since is None or not self.said(server.place, now):
            return None
        cause = server_of(self.why)[2] if self.why else "does not answer"
        return Condition(server.party, server.name, cause, self.utc)


class Pulse:
    """Queries each server in its own thread, from `start` to `stop`; `tell` receives the report, "" if there is none.

    A job's own call can be long (a copy, a large step), with a limit of minutes: only a short query shows within
    seconds that a server does not answer any session.

    `tell` is called from one thread, repeatedly while there is a report, and every few seconds otherwise, so that a
    driver in a long call still reports that it is running.
    """

    def __init__(
        self, servers: Sequence[Pinged], clock: Clock, tell: Callable[[str, tuple[Condition, ...]], None]
    ) -> None:
        self._clock, self._tell = clock, tell
        self._servers = [(one, Silence()) for one in servers]
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask_on, args=each, name="slotkeeper-pulse", daemon=True)
            for each in self._servers
        ]
        self._threads.append(threading.Thread(target=self._tell_on, name="slotkeeper-pulse", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the queries and the reports; waits only for the reporting thread."""
        self._done.set()
        for server, _ in self._servers:
            server.sever()
        self._threads[-1].join(2.0)

    def _ask_on(self, server: Pinged, silence: Silence) -> None:
        while not self._done.is_set():
            began = self._clock.monotonic()
            if silence.since is None:
                silence.since, silence.utc = began, self._clock.utc().timestamp()
            try:
                server.ask()
            except Unreachable as error:
                silence.why = "" if error.timed_out else error.message
            except SlotkeeperError:
                silence.since, silence.why = None, ""  # the server answered: the job's own calls report the rejection
            except Exception as raised:  # if the thread ended, the silence would be reported forever
                silence.why = classed(raised).message
            else:
                silence.since, silence.why = None, ""
            self._done.wait(EVERY)

    def _tell_on(self) -> None:
        said, beat_at = "", self._clock.monotonic()
        while not self._done.wait(_TURN):
            now = self._clock.monotonic()
            text = "; ".join(filter(None, (silence.said(server.place, now) for server, silence in self._servers)))
            if text or said or now - beat_at >= SAID_AFTER:
                found = (silence.condition(server, now) for server, silence in self._servers)
                self._tell(text, tuple(one for one in found if one is not None))
                beat_at = now
            said = text


LEAST = 1.0
"""Minimum duration of a reported wait, in seconds, because steps normally wait briefly for each other. A server with a
shorter wait is queried again after this time, so that the report comes 2 s after the wait's start."""


STAYS = 10.0
"""Seconds for which the waits of a silent server remain reported: after that, the silence itself is the problem, and it
is unknown whether the waits continue."""

Wait = TypeVar("Wait", bound=LockWait | SourceWait)


@dataclass(frozen=True, slots=True)
class LocksAt(Generic[Wait]):
    """A server that can hold locks of the job: a query for waits (`read`), and the call that ends a hanging query.

    `hidden` describes the information that the last answer lacked; "" if it was complete.
    """

    read: Callable[[float], Sequence[Wait]]
    sever: Callable[[], None]
    hidden: Callable[[], str] = str


@dataclass(slots=True)
class _Answer(Generic[Wait]):
    waits: tuple[Wait, ...] = ()
    untold: str = ""
    at: float = 0.0
    """The time of the server's last answer, in monotonic seconds."""


class LockWatch(Generic[Wait]):
    """Queries each server in its own thread, from `start` to `stop`; `tell` gets all waits, and why some are missing.

    A step that waits for a lock reports nothing until its limit; until then a locked target looks like a slow target.
    `tell` is called if there are waits or the answer has changed, from one thread at a time. The last answer of a
    silent server is retained for `STAYS` seconds.
    """

    def __init__(
        self, servers: Sequence[LocksAt[Wait]], clock: Clock, tell: Callable[[tuple[Wait, ...], str], None]
    ) -> None:
        self._clock, self._tell = clock, tell
        self._lock = threading.Lock()
        self._said: tuple[tuple[Wait, ...], str] = ((), "")
        self._servers = [(one, _Answer[Wait]()) for one in servers]
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask_on, args=each, name="slotkeeper-locks", daemon=True)
            for each in self._servers
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the queries and the reports; does not wait."""
        with self._lock:
            self._done.set()
        for server, _ in self._servers:
            server.sever()

    def _ask_on(self, server: LocksAt[Wait], answer: _Answer[Wait]) -> None:
        while not self._done.is_set():
            waits, untold, pause = answer.waits, "", EVERY
            try:
                now = self._clock.utc().timestamp()
                seen = server.read(now)
                waits = tuple(one for one in seen if now - one.since >= LEAST)
                untold = server.hidden()
                pause = EVERY if len(waits) == len(seen) else min(EVERY, LEAST)
                answer.at = self._clock.monotonic()
            except Exception as raised:  # the thread must not end, because its end would not be reported
                untold = str(classed(raised))
                if isinstance(raised, Unreachable) and self._clock.monotonic() - answer.at >= STAYS:
                    waits = ()
            with self._lock:
                answer.waits, answer.untold = waits, untold
                waiting = tuple(wait for _, one in self._servers for wait in one.waits)
                unread = "; ".join(one.untold for _, one in self._servers if one.untold)
                if not self._done.is_set() and (waiting or (waiting, unread) != self._said):
                    self._tell(waiting, unread)
                self._said = (waiting, unread)
            self._done.wait(pause)
