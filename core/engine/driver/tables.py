"""Runs a job from start to end: its tables stream together, and a table that stopped separately restarts separately.

Tables that start together are the joint tables: one group in the caller's thread, with shared sessions, leases, epoch
and loop. A table that fails, or whose desired state differs from the job's, leaves the group. When it is restarted, it
forms a separate group with its own thread and epoch. So does a table that is paused separately, or that must be copied
while other tables stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from slotkeeper.core.domain.job import AS_THE_JOB, JobState, TableWanted, WantedState
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.pending import APART
from slotkeeper.core.domain.progress import STREAMING
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.engine.driver.job import JobEnd, run_group
from slotkeeper.core.engine.driver.narration import GroupNarrator, Telling
from slotkeeper.core.engine.driver.reshape import NAMES, PASSING
from slotkeeper.core.engine.runners import Pooled, SharedRunner
from slotkeeper.core.errors import Busy, ErrorKind, SlotkeeperError, Trouble, classed

READ_EVERY = 0.25
"""Seconds between two reads of the desired states of the tables."""
ASKED, ASK_AGAIN = 12, 5.0
"""Maximum number of queries to a sink about the tables that need a copy, and the seconds between two queries."""
END_WITHIN = 8.0
"""Maximum wait in seconds for separate tables to end, while each loop drains and closes its sessions."""


def run(ctx: JobContext) -> JobEnd:
    """Run the job until it has to stop or is finished; raises an error that a user must resolve."""
    ctx = replace(ctx, runner=Pooled(ctx.runner, ctx.job.binlog.connection_pool_size))
    several = len(ctx.job.channels) > 1 and not ctx.sessions.shares_position
    return Tables(ctx).run() if several else run_group(ctx)


@dataclass(slots=True)
class _Alone:
    """A separate table: `turn` is the number of its requested start; `thread` ends when the table ends."""

    turn: int
    narrator: GroupNarrator
    thread: threading.Thread | None = None


class Tables:
    """The tables of a job with several tables; implements `slotkeeper.core.engine.driver.context.Desk`."""

    def __init__(self, ctx: JobContext) -> None:
        self._ctx = replace(ctx, whole=ctx.job, asked=_kept(ctx.asked))
        self._lock = threading.RLock()
        self._runner = SharedRunner(ctx.runner)
        self._telling = Telling(ctx.narrator, ctx.job)
        self._turns = {channel.source_table: 0 for channel in ctx.job.channels}
        """The `turn` of each table's last start."""
        self._alone: dict[str, _Alone] = {}
        self._errors: dict[str, SlotkeeperError] = {}
        self._leader: GroupNarrator | None = None
        """The narrator of the joint tables; its `tables` are those that still run together."""
        self._fatal: BaseException | None = None
        self._closing = threading.Event()
        self._watch = threading.Thread(target=self._watch_over, name="slotkeeper-tables", daemon=True)

    def run(self) -> JobEnd:
        """Run the joint tables in this thread and each separate table in its own thread, until all have ended."""
        together = self._sort()
        try:
            ended = self._together(together) if together else JobEnd.EMPTY
            if ended is JobEnd.STOPPED and self._ctx.wanted() is WantedState.STOP:
                return ended
            return self._rest(ended)
        finally:
            self._closing.set()
            with self._lock:
                threads = [one.thread for one in self._alone.values() if one.thread is not None]
            end = self._ctx.clock.monotonic() + END_WITHIN
            for thread in threads:
                thread.join(max(0.0, end - self._ctx.clock.monotonic()))

    # -- joint tables ------------------------------------------------------------------------------------------------

    def _sort(self) -> list[str]:
        """Return the tables to start together; the other tables start separately or stay stopped."""
        asked = self._ctx.asked()
        wanted = {table: asked.get(table, AS_THE_JOB) for table in self._turns}
        self._turns = {table: one.turn for table, one in wanted.items()}
        for table, one in wanted.items():
            if one.wanted is WantedState.STOP:
                self._telling.rests(table, JobState.STOPPED, {})
        running = [table for table, one in wanted.items() if one.wanted is WantedState.RUN]
        copied = self._copied(running)
        self._apart = [table for table in running if copied and table not in copied]
        for table in self._apart:
            self._telling.waits(table, APART)
        self._apart += [table for table, one in wanted.items() if one.wanted is WantedState.PAUSE]
        return [table for table in running if table not in self._apart]

    def _copied(self, tables: Collection[str]) -> set[str]:
        """Return the tables that need no copy; none if the sink does not report them, or the job does not stream.

        A sink that is starting is queried several times: otherwise all tables would wait for the copy of one table.
        """
        if not self._ctx.job.binlog.binlog:
            return set()
        for left in range(ASKED, 0, -1):
            try:
                return {table for table in tables if self._streams(table)}
            except SlotkeeperError as error:
                if left == 1 or error.kind not in PASSING or self._ctx.wanted() is not WantedState.RUN:
                    break  # the tables' start will raise the same error
                said = f"cannot determine which tables need a copy, retrying in {ASK_AGAIN:.0f} s: {error.message}"
                self._ctx.narrator.retrying(said, error)
                self._ctx.pause(ASK_AGAIN)
        return set()

    def _streams(self, table: str) -> bool:
        store = self._ctx.of(table).sessions.store()
        store.create_tables()
        rows = store.rows()
        return bool(rows) and all(row.state in STREAMING for row in rows)

    def _together(self, tables: list[str]) -> JobEnd:
        channels = tuple(one for one in self._ctx.job.channels if one.source_table in tables)
        narrator = self._leader = GroupNarrator(self._telling, tables, leads=True, begun=self._watch_on)
        job = replace(self._ctx.job, channels=channels)
        ctx = replace(self._ctx, job=job, runner=self._runner, narrator=narrator, wanted=self._wanted, desk=self)
        try:
            return run_group(ctx)
        except SlotkeeperError as error:
            if not error.table or error.kind is ErrorKind.SUPERSEDED or error.where == "spark":
                raise
            with self._lock:
                for table in narrator.tables:
                    self._fail(table, error, {})
            if self._over():
                raise
            ctx.sessions.close()  # release locks that a reset may need
            return JobEnd.EMPTY
        finally:
            self._telling.leader_ended()

    def _wanted(self) -> WantedState:
        if self._fatal is not None:
            raise self._fatal
        return WantedState.STOP if self._closing.is_set() else self._ctx.wanted()

    def wanted_away(self, tables: Collection[str]) -> Collection[str]:
        """Return the tables whose desired state is no longer RUN, or whose start was requested again."""
        if not self._watch.is_alive():
            return ()
        asked = self._ctx.asked()
        known = {table: asked.get(table, AS_THE_JOB) for table in tables}
        return [
            table for table, one in known.items() if one.wanted is not WantedState.RUN or one.turn != self._turns[table]
        ]

    def still(self, tables: Collection[str]) -> Collection[str]:
        return [table for table in tables if self._leader is not None and table in self._leader.tables]

    def left(self, table: str, error: SlotkeeperError | None, lanes: Mapping[str, Lane], again: bool = False) -> None:
        """Record that a table has left the joint group; `again`: start it separately at once."""
        with self._lock:
            if self._leader is not None:
                self._leader.tables = tuple(one for one in self._leader.tables if one != table)
            if error is None:
                self._telling.rests(table, JobState.STOPPED, lanes)
                return
            if again or (isinstance(error, Trouble) and error.name in NAMES):
                self._begin(table, lanes)  # the new start adapts to the changed table, or reports the required action
                return
            self._fail(table, error, lanes)

    def _fail(self, table: str, error: SlotkeeperError, lanes: Mapping[str, Lane]) -> None:
        self._errors[table] = error
        self._telling.failed(table, error, lanes)

    # -- separate tables ---------------------------------------------------------------------------------------------

    def _watch_on(self) -> None:
        """Start watching single tables; called once the joint tables hold their leases and stream or copy."""
        if self._watch.ident is None and not self._closing.is_set():
            self._watch.start()

    def _watch_over(self) -> None:
        try:
            with self._lock:
                for table in self._apart:
                    self._begin(table)
                self._apart = []
            while not self._closing.wait(READ_EVERY):
                self._read()
        except Exception as error:
            self._fatal = classed(error)

    def _read(self) -> None:
        asked = self._ctx.asked()
        with self._lock:
            for table in self._telling.resting():
                one = asked.get(table, AS_THE_JOB)
                if one.wanted is WantedState.STOP or table in self._alone:
                    continue
                if one.turn != self._turns[table] or (one.wanted is WantedState.PAUSE and table not in self._errors):
                    self._begin(table)

    def _begin(self, table: str, lanes: Mapping[str, Lane] | None = None) -> None:
        if self._closing.is_set():
            return
        self._turns[table] = self._ctx.asked().get(table, AS_THE_JOB).turn
        self._errors.pop(table, None)
        one = _Alone(self._turns[table], GroupNarrator(self._telling, [table], leads=False))
        self._telling.starts(table, lanes)
        one.thread = threading.Thread(target=self._go, args=(table, one), name=f"slotkeeper-{table}", daemon=True)
        self._alone[table] = one
        self._runner.beside = len(self._alone)
        one.thread.start()

    def _go(self, table: str, one: _Alone) -> None:
        ctx = self._context(table, one)
        error: SlotkeeperError | None = None
        try:
            run_group(ctx)
        except SlotkeeperError as found:
            error = found
            error.table = error.table or table
        except BaseException as found:
            self._fatal = found
        finally:
            try:
                ctx.sessions.close()
            finally:
                self._ended(table, one, error)

    def _context(self, table: str, one: _Alone) -> JobContext:
        """Return the context in which a separate table runs."""
        job = self._ctx.job.of(table)

        def wanted() -> WantedState:
            whole = self._wanted()
            asked = self._ctx.asked().get(table, AS_THE_JOB)
            if whole is WantedState.STOP or asked.wanted is WantedState.STOP or asked.turn != one.turn:
                return WantedState.STOP
            # a table starts its loop before it pauses, because a paused loop keeps its slot alive
            pauses = asked.wanted is WantedState.PAUSE and one.narrator.streams
            return WantedState.PAUSE if pauses else whole

        def pause(seconds: float) -> None:
            end = self._ctx.clock.monotonic() + seconds
            while (left := end - self._ctx.clock.monotonic()) > 0 and wanted() is WantedState.RUN:
                self._ctx.pause(min(left, READ_EVERY))

        alone = replace(self._ctx, job=job, sessions=self._ctx.sessions.apart(job), runner=self._runner.apart(table))
        alone = replace(alone, narrator=one.narrator, wanted=wanted, pause=pause, curves={}, group=table)
        return replace(alone, take_over=False, established=True)

    def _ended(self, table: str, one: _Alone, error: SlotkeeperError | None) -> None:
        with self._lock:
            del self._alone[table]
            self._runner.beside = len(self._alone)
            lanes = self._telling.without(one.narrator)
            if error is None:
                self._telling.rests(table, JobState.STOPPED, lanes)
            elif error.kind is ErrorKind.SUPERSEDED or error.where == "spark":
                self._fatal = error
            else:
                self._fail(table, error, lanes)

    def _rest(self, ended: JobEnd) -> JobEnd:
        """Wait for the separate tables; once no table is running, raise the error of the first failed table."""
        self._watch_on()
        while self._ctx.wanted() is not WantedState.STOP:
            if self._fatal is not None:
                raise self._fatal
            if self._over():
                for error in self._errors.values():
                    raise error
                return JobEnd.STOPPED if ended is JobEnd.EMPTY else ended
            self._closing.wait(READ_EVERY)
        return JobEnd.STOPPED

    def _over(self) -> bool:
        """Whether all tables have stopped and no user has requested a start since the last read."""
        if not self._goes_on():
            self._read()
        return not self._goes_on()

    def _goes_on(self) -> bool:
        with self._lock:
            return bool(self._alone or self._apart)


def _kept(asked: Callable[[], Mapping[str, TableWanted]]) -> Callable[[], Mapping[str, TableWanted]]:
    """Wrap `asked` to return the last known desired states while this host's store is busy or missing."""
    last: list[Mapping[str, TableWanted]] = [{}]

    def now() -> Mapping[str, TableWanted]:
        with suppress(Busy):
            last[0] = asked()
        return last[0]

    return now
