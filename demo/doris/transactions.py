"""Loads of the stand-in as Doris manages them: transactions, their labels, and their retention.

States and messages are those of apache/doris, `DatabaseTransactionMgr`, `TransactionState` and `GlobalTransactionMgr`;
settings are those of "FE Configuration".
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum


class State(Enum):
    """A transaction's state, with the name that `get_load_state` returns."""

    UNKNOWN = "UNKNOWN"
    PREPARE = "PREPARE"
    PRECOMMITTED = "PRECOMMITTED"
    COMMITTED = "COMMITTED"
    VISIBLE = "VISIBLE"
    ABORTED = "ABORTED"


DECIDED = frozenset({State.COMMITTED, State.VISIBLE})
EXISTING = {State.PREPARE: "RUNNING", State.PRECOMMITTED: "PRECOMMITTED"}
"""`ExistingJobStatus` by state, for a label that is already used; FINISHED for other states."""


class Refused(Exception):
    """Raised if the FE rejects the request; the message is the FE's."""


class LabelTaken(Exception):
    """Raised if the label belongs to a transaction that is not aborted."""

    def __init__(self, other: Transaction) -> None:
        super().__init__(other.label)
        self.other = other


@dataclass
class Transaction:
    """A load; `apply` makes its rows visible. `began` and `limit` are in seconds of the stand-in's clock."""

    id: int
    database: str
    label: str
    began: float
    limit: float
    state: State = State.PREPARE
    reason: str = ""
    apply: Callable[[], None] | None = None
    ended: float | None = None


@dataclass
class Transactions:
    """All transactions, and the settings that an administrator can change; `clock` returns seconds."""

    clock: Callable[[], float]
    label_keep: float = 43_200.0
    """`streaming_label_keep_max_second`: how long an ended load is retained. `label_keep_max_second` is for other loads
    (`TransactionState.isShortTxn`).
    """
    label_most: int = 2_000
    """`label_num_threshold`: maximum number of ended loads retained per database; the oldest are dropped first. 0 or
    less means no limit (`DatabaseTransactionMgr.unprotectedRemoveUselessTxns`)."""
    precommit_seconds: float = 3_600.0
    """`stream_load_default_precommit_timeout_second`: the header `timeout` limits PREPARE only
    (`TransactionState.isTimeout`)."""
    most: int = 100
    """`max_running_txn_num_per_db`."""
    publishes: bool = True
    """Whether a committed load becomes visible at once; False simulates a lost BE or a slow publish."""
    _all: dict[int, Transaction] = field(default_factory=dict)
    _committed: list[Transaction] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _next: int = 1_000

    def begin(self, database: str, label: str, limit: float) -> Transaction:
        """Begin a transaction with a label; raises LabelTaken, or Refused if too many are running."""
        with self._lock:
            self._tidy()
            other = self.under(database, label)
            if other is not None:
                raise LabelTaken(other)
            running = [one for one in self._all.values() if one.database == database and _runs(one)]
            if len(running) >= self.most:
                what = f"current running txns on db {database} is {len(running)}, larger than limit {self.most}"
                raise Refused(f"errCode = 2, detailMessage = {what}")
            self._next += 1
            made = Transaction(self._next, database, label, self.clock(), limit)
            self._all[made.id] = made
            return made

    def under(self, database: str, label: str) -> Transaction | None:
        """Return the transaction of a label; an aborted transaction releases its label."""
        with self._lock:
            self._tidy()
            found = [one for one in self._all.values() if (one.database, one.label) == (database, label)]
            return next((one for one in found if one.state is not State.ABORTED), None)

    def state(self, database: str, label: str) -> State:
        """Return the state for `get_load_state`: that of the newest transaction with the label."""
        with self._lock:
            self._tidy()
            found = [one for one in self._all.values() if (one.database, one.label) == (database, label)]
            return found[-1].state if found else State.UNKNOWN

    def precommit(self, one: Transaction) -> None:
        with self._lock:
            self._still(one)
            one.state, one.began, one.limit = State.PRECOMMITTED, self.clock(), self.precommit_seconds

    def commit(self, database: str, number: int) -> None:
        """Run the second phase; raises Refused with the FE's message."""
        with self._lock:
            one = self._found(database, number)
            if one.state is State.ABORTED:
                raise Refused(_says(number, f"is already aborted. abort reason: {one.reason}"))
            if one.state in DECIDED:
                word = "visible" if one.state is State.VISIBLE else "committed"
                raise Refused(_says(number, f"is already {word}, not pre-committed."))
            if one.state is State.PREPARE:
                raise Refused(_says(number, "is prepare, not pre-committed."))
            self.finish(one)

    def finish(self, one: Transaction, published: bool = True) -> None:
        """Commit a transaction; its rows become visible at once if `published`, else with the next `publish`."""
        with self._lock:
            self._still(one)
            self._committed.append(one)
            if published and self.publishes:
                self.publish()
            else:
                one.state = State.COMMITTED

    def publish(self) -> None:
        """Make committed transactions visible in commit order, like the versions of a partition."""
        with self._lock:
            while self._committed:
                one = self._committed.pop(0)
                if one.apply is not None:
                    one.apply()
                one.state, one.ended, one.apply = State.VISIBLE, self.clock(), None

    def lose_backend(self) -> None:
        """Simulate the loss of the coordinator BE: loads in state PREPARE are aborted, pre-committed ones remain.

        apache/doris, `GlobalTransactionMgr.abortTxnWhenCoordinateBeDown`. Committed transactions wait for their
        replicas.
        """
        with self._lock:
            self.publishes = False
            for one in self.running():
                if one.state is State.PREPARE:
                    self._end(one, "coordinate BE is down")

    def backend_returns(self) -> None:
        """Simulate the return of the BE: transactions committed in the meantime become visible."""
        with self._lock:
            self.publishes = True
            self.publish()

    def abort(self, database: str, number: int, reason: str = "User Abort") -> None:
        with self._lock:
            one = self._found(database, number)
            if one.state in DECIDED:
                raise Refused(_says(number, f"is already {one.state.value}, could not abort."))
            if one.state is State.ABORTED:
                raise Refused(_says(number, f"is already aborted. abort reason: {one.reason}"))
            self._end(one, reason)

    def fail(self, one: Transaction, reason: str) -> None:
        """Abort a load that failed."""
        with self._lock:
            if _runs(one):
                self._end(one, reason)

    def forget(self) -> None:
        """Remove all ended transactions, as retention does."""
        with self._lock:
            self._all = {number: one for number, one in self._all.items() if one.ended is None}

    def all(self) -> list[Transaction]:
        """Return every retained transaction."""
        with self._lock:
            self._tidy()
            return list(self._all.values())

    def running(self) -> list[Transaction]:
        """Return the transactions that count against the limit of a database."""
        return [one for one in self.all() if _runs(one)]

    def _end(self, one: Transaction, reason: str) -> None:
        one.state, one.reason, one.ended, one.apply = State.ABORTED, reason, self.clock(), None

    def _found(self, database: str, number: int) -> Transaction:
        self._tidy()
        one = self._all.get(number)
        if one is None or one.database != database:
            raise Refused(_says(number, "not found"))
        return one

    def _still(self, one: Transaction) -> None:
        if one.state is State.ABORTED:
            raise Refused(_says(one.id, f"is already aborted. abort reason: {one.reason}"))

    def _tidy(self) -> None:
        now = self.clock()
        for one in self._all.values():
            if _runs(one) and now - one.began > one.limit:
                self._end(one, "timeout by txn manager")
        ended: dict[str, list[tuple[float, int]]] = {}
        for number, one in self._all.items():
            if one.ended is not None:
                ended.setdefault(one.database, []).append((one.ended, number))
        for known in ended.values():
            beyond = len(known) - self.label_most if self.label_most > 0 else 0
            for place, (at, number) in enumerate(sorted(known)):
                if place < beyond or now - at > self.label_keep:
                    del self._all[number]


def _runs(one: Transaction) -> bool:
    return one.state in (State.PREPARE, State.PRECOMMITTED)


def _says(number: int, what: str) -> str:
    return f"errCode = 2, detailMessage = transaction [{number}] {what}"
