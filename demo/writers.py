"""Threads that change `ods.orders` and record every change in the ledger, at a limited rate, through source restarts.

A transaction that loses a deadlock is rolled back and not retried: its ledger rows are rolled back with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from slotkeeper.core.drivers import pg
from slotkeeper.demo import ledger
from slotkeeper.demo.orders import Statements
from slotkeeper.demo.plans import Mix, Plan, Planner, Step, Verb

Connect = Callable[[], pg.Connection]

CONTENTION = frozenset({"40001", "40P01", "55P03", "57014", "23505"})
"""Serialization failure, deadlock, lock and statement timeouts, a key that another writer inserted first."""

GONE = frozenset({"57P01", "57P02", "57P03", "53300"})
"""The server is shutting down, starting, or full; class 08 (lost connection) counts as well."""

RECONNECT_S = 0.1


class TokenBucket:
    """Allows `rate` changes per second in total, by the given time; 0: no limit. Several threads can share one."""

    def __init__(self, rate: float, burst_s: float = 0.1) -> None:
        self._rate = rate
        self._burst_s = burst_s
        self._lock = threading.Lock()
        self._paid_until: float | None = None

    def spend(self, changes: int, now: float) -> float:
        """Charge `changes` that were just made, and return the seconds to wait before the next change.

        >>> bucket = TokenBucket(10, burst_s=0.0)
        >>> bucket.spend(5, now=100.0), bucket.spend(5, now=100.0), bucket.spend(1, now=200.0)
        (0.5, 1.0, 0.1)
        """
        if self._rate <= 0:
            return 0.0
        with self._lock:
            start = now - self._burst_s
            paid = start if self._paid_until is None else max(self._paid_until, start)
            self._paid_until = paid + changes / self._rate
            return max(0.0, round(self._paid_until - now, 9))


class Outcome(Enum):
    """How a transaction ended."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    CONTENDED = "contended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class WriterStats:
    """The results of a writer; `recovered` counts commits whose answer was lost and which the ledger confirmed."""

    transactions: int = 0
    committed: int = 0
    rolled_back: int = 0
    contended: int = 0
    lost: int = 0
    recovered: int = 0
    reconnects: int = 0
    changes: int = 0
    events: int = 0


class Line:
    """One session on the source, which is reopened when it is lost, until `stop` is set."""

    def __init__(self, connect: Connect, stop: threading.Event) -> None:
        self._connect = connect
        self._stop = stop
        self._connection: pg.Connection | None = None
        self.session: ledger.Session | None = None
        self.opened = 0

    def open(self) -> pg.Connection | None:
        """Return the open connection, or None once stopped; waits while the server does not answer."""
        while self._connection is None or self._connection.closed:
            if self._stop.is_set():
                return None
            try:
                self._connection = self._connect()
                self._connection.autocommit = False
                self.session = ledger.session(self._connection)
                self.opened += 1
            except pg.DriverError as error:
                self.drop()
                if not gone(error):
                    raise
                self._stop.wait(RECONNECT_S)
        return self._connection

    def drop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def outcome(self, writer: str, tx: int, lost: ledger.Session) -> bool | None:
        """Whether a transaction whose COMMIT was not answered has committed; None if stopped before this was
        determined.
        """
        while not self._stop.is_set():
            connection = self.open()
            if connection is None:
                return None
            try:
                if not ledger.still_open(connection, lost):
                    return ledger.committed(connection, writer, tx)
            except pg.DriverError as error:
                if not gone(error):
                    raise
                self.drop()
            self._stop.wait(RECONNECT_S / 10)
        return None


def gone(error: pg.DriverError) -> bool:
    """Whether the session is lost, rather than the statement rejected."""
    code, _ = pg.failure(error)
    return code.startswith("08") or code in GONE


class Loop(threading.Thread):
    """A thread that works with one session until it is stopped; `finish` raises an error that ended the thread
    early.
    """

    def __init__(self, connect: Connect, name: str, monotonic: Callable[[], float]) -> None:
        super().__init__(name=name, daemon=True)
        self._stop_asked = threading.Event()
        self._line = Line(connect, self._stop_asked)
        self._monotonic = monotonic
        self.error: BaseException | None = None

    def stop(self) -> None:
        """Ask the thread to end after its current work; safe to call twice, and before start."""
        self._stop_asked.set()

    def finish(self, seconds: float = 30.0) -> None:
        """Wait for the thread to end; raises the error that ended it, or TimeoutError."""
        self.join(seconds)
        if self.is_alive():
            raise TimeoutError(f"thread {self.name} did not finish within {seconds} s")
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # raised in `finish`: a thread has no caller
            self.error = error
        finally:
            self._line.drop()

    def work(self) -> None:
        """Do the thread's work until it is stopped."""
        raise NotImplementedError


class Writer(Loop):
    """One writer: seeded, with its own session; ends after `transactions` transactions, or when stopped."""

    def __init__(
        self,
        connect: Connect,
        seed: int,
        number: int = 0,
        mix: Mix | None = None,
        bucket: TokenBucket | None = None,
        transactions: int | None = None,
        name: str = "",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(connect, name or f"writer-{number}", monotonic)
        self._planner = Planner(seed, number, mix or Mix())
        self._bucket = bucket or TokenBucket(0)
        self._left = transactions
        self._statements: Statements | None = None
        self._tx = 0
        self.stats = WriterStats()

    def work(self) -> None:
        """Run one transaction after another, at the shared rate."""
        for plan in self._planner:
            if self._stop_asked.is_set() or (self._left is not None and self.stats.transactions >= self._left):
                break
            before = self.stats.changes
            if not self._transaction(plan):
                break
            spent = max(1, self.stats.changes - before)
            self._stop_asked.wait(self._bucket.spend(spent, self._monotonic()))

    def _transaction(self, plan: Plan) -> bool:
        """Carry out one plan; return False if stopped before a session was opened."""
        connection = self._ready()
        if connection is None:
            return False
        tally: ledger.Tally = {}
        self._tx += 1
        asked = False
        try:
            with connection.cursor() as cursor:
                self._steps(cursor, plan, tally)
                ledger.write(cursor, self.name, self._tx, tally)
            self._stop_asked.wait(plan.delay_s) if plan.delay_s else None
            asked = not plan.rolled_back
            connection.commit() if asked else connection.rollback()
            self._count(Outcome.COMMITTED if asked else Outcome.ROLLED_BACK, tally)
        except pg.DriverError as error:
            self._failed(error, connection, tally, asked)
        return True

    def _ready(self) -> pg.Connection | None:
        """Return a session after the initial queries, or None once stopped; wait if the server goes away in between."""
        while True:
            connection = self._line.open()
            if connection is None or self._statements is not None:
                return connection
            try:
                self._statements = Statements.of(connection)
                self._tx = ledger.last_tx(connection, self.name)
            except pg.DriverError as error:
                self._statements = None
                if not gone(error):
                    raise
                self._line.drop()

    def _steps(self, cursor: pg.Cursor, plan: Plan, tally: ledger.Tally) -> None:
        if plan.repeatable:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for step in plan.steps:
            if step.undone:
                cursor.execute("SAVEPOINT undone")
            done = self._step(cursor, step)
            if step.undone:
                cursor.execute("ROLLBACK TO SAVEPOINT undone")
            else:
                ledger.add(tally, done)

    def _step(self, cursor: pg.Cursor, step: Step) -> ledger.Tally:
        assert self._statements is not None
        match step.verb:
            case Verb.INSERT:
                return self._statements.insert(cursor, step.orders)
            case Verb.UPSERT:
                return self._statements.upsert(cursor, step.orders)
            case Verb.UPDATE:
                return self._statements.update(cursor, step.keys, step.status, step.note)
            case Verb.DELETE:
                return self._statements.delete(cursor, step.keys)
            case Verb.CHANGE_KEY:
                return self._statements.change_keys(cursor, step.keys, step.numbers)

    def _failed(self, error: pg.DriverError, connection: pg.Connection, tally: ledger.Tally, asked: bool) -> None:
        if not gone(error) and not connection.closed:
            if pg.failure(error)[0] not in CONTENTION:
                raise error
            try:
                connection.rollback()
            except pg.DriverError as ended:  # the server can go away right after it has rejected a statement
                if not gone(ended):
                    raise
            else:
                self._count(Outcome.CONTENDED, tally)
                return
        lost = self._line.session
        self._line.drop()
        known = self._line.outcome(self.name, self._tx, lost) if asked and lost is not None else False
        if known:
            self.stats = replace(self.stats, recovered=self.stats.recovered + 1)
        self._count(Outcome.COMMITTED if known else Outcome.LOST, tally)

    def _count(self, outcome: Outcome, tally: ledger.Tally) -> None:
        was, done = self.stats, outcome is Outcome.COMMITTED
        self.stats = replace(
            was,
            transactions=was.transactions + 1,
            committed=was.committed + done,
            rolled_back=was.rolled_back + (outcome is Outcome.ROLLED_BACK),
            contended=was.contended + (outcome is Outcome.CONTENDED),
            lost=was.lost + (outcome is Outcome.LOST),
            reconnects=max(0, self._line.opened - 1),
            changes=was.changes + (sum(e.rows for e in tally.values()) if done else 0),
            events=was.events + (sum(e.total for e in tally.values()) if done else 0),
        )
