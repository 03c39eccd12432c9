"""Requests to a running job besides its desired state: states of single tables, retries, and the limit of its copies.

Commands write the requests; the job's driver or supervisor reads them and answers each retry request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from slotkeeper.core import codec
from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.copy_limit import CopyLimit
from slotkeeper.core.domain.job import TableWanted, WantedState
from slotkeeper.core.domain.tries import TryAnswer, TryAsked
from slotkeeper.core.errors import Busy
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.sqlite import Store


def wanted(store: Store, job: str) -> dict[str, TableWanted]:
    """Return the desired states of the job's tables; a table without its own desired state has that of the job."""
    rows = store.read("SELECT source_table, wanted, turn FROM tables_wanted WHERE job = ?", job)
    return {row["source_table"]: TableWanted(WantedState(row["wanted"]), row["turn"]) for row in rows}


def want(store: Store, job: str, table: str, state: WantedState, again: bool = False) -> TableWanted:
    """Set a table's desired state; with `again`, the table is started again, even if it is running or has failed."""
    with store.write() as sql:
        sql.execute(
            "INSERT INTO tables_wanted (job, source_table, wanted, turn) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (job, source_table) DO UPDATE SET wanted = excluded.wanted, turn = turn + excluded.turn",
            (job, table, state.value, int(again)),
        )
    return wanted(store, job)[table]


def forget(store: Store, job: str) -> None:
    """Delete the desired states of a job's tables, so that all tables have the desired state of the job."""
    with store.write() as sql:
        sql.execute("DELETE FROM tables_wanted WHERE job = ?", (job,))


LIMITS = "limits"
"""The folder of the limits that users have set for copies, one file per job."""


def copy_limit(store: Store, job: str) -> CopyLimit | None:
    """Return the limit that a user has set for the job's copies; None if the configured limit applies.

    Raises StateError for an unreadable file.
    """
    text = ResetFiles(store.folder).load(LIMITS, job)
    try:
        return None if text is None else codec.record_from(CopyLimit, text)
    except ValueError as error:
        raise StateError(f"the limit of job {job} cannot be read", "`slotkeeper jobs limit` sets it again") from error


def set_copy_limit(store: Store, job: str, limit: CopyLimit | None) -> None:
    """Set the limit of the job's copies, for running and later copies; None restores the configured limit."""
    files = ResetFiles(store.folder)
    if limit is None:
        files.remove(LIMITS, job)
    else:
        files.save(LIMITS, job, codec.text_of(limit))


AGAIN = "again"
"""The folder of the tables that users want to be copied again, one file per request."""


@dataclass(frozen=True, slots=True)
class AgainRequest:
    """A user's request to copy a table of a job again."""

    job: str
    table: str
    planned: bool = False
    """Whether the chunks are stored in the sink."""


class StoredAgain:
    """The requests to copy tables of one job again; implements `slotkeeper.core.ports.again.AgainRequests`.

    Any thread can call it. While a file cannot be read, its request does not exist.
    """

    def __init__(self, store: Store, job: str, tell: Callable[[str, str], None] = lambda table, text: None) -> None:
        self._files, self._job, self._clock, self.tell = ResetFiles(store.folder), job, SystemClock(), tell
        self._known: dict[str, AgainRequest] = {}
        self._read_at = float("-inf")

    def tables(self) -> Collection[str]:
        """Return the requested tables; reads the files at most once per second."""
        if self._clock.monotonic() - self._read_at > 1.0:
            self._read_at = self._clock.monotonic()
            found = [one for name in self._files.names(AGAIN) if (one := self._loaded(name)) is not None]
            self._known = {one.table: one for one in found if one.job == self._job}
        return self._known

    def is_planned(self, table: str) -> bool:
        found = self._loaded(self._name(table))
        return found is not None and found.planned

    def ask(self, table: str) -> None:
        """Request a table to be copied again; replaces an earlier request, whose chunks are then planned again."""
        self._save(AgainRequest(self._job, table))

    def planned(self, table: str) -> None:
        if self._loaded(self._name(table)) is not None:  # a request that was withdrawn stays withdrawn
            self._save(AgainRequest(self._job, table, planned=True))

    def end(self, table: str) -> None:
        """Remove a request: it was carried out, refused or withdrawn."""
        self._files.remove(AGAIN, self._name(table))
        self._known = {name: one for name, one in self._known.items() if name != table}

    def _name(self, table: str) -> str:
        import hashlib  # monitoring runs `status` every minute, and it needs no hash

        return hashlib.sha256(f"{self._job}\0{table}".encode()).hexdigest()[:32]

    def _save(self, one: AgainRequest) -> None:
        self._files.save(AGAIN, self._name(one.table), codec.text_of(one))

    def _loaded(self, name: str) -> AgainRequest | None:
        with suppress(StateError, OSError, ValueError):
            text = self._files.load(AGAIN, name)
            return None if text is None else codec.record_from(AgainRequest, text)
        return None


READ_EVERY = 0.25
"""Seconds between two reads of the requests."""
KEPT = 20
"""Maximum number of requests stored per job; older requests are deleted, because they were answered long ago."""


def ask(store: Store, job: str, table: str = "") -> int:
    """Request an immediate retry for one source table or for the whole job; return the number of the request."""
    with store.write() as sql:
        number = sql.execute("INSERT INTO tries_asked (job, source_table) VALUES (?, ?)", (job, table)).lastrowid
        sql.execute(
            "DELETE FROM tries_asked WHERE job = ?1 AND number <= (SELECT number FROM tries_asked WHERE job = ?1"
            " ORDER BY number DESC LIMIT 1 OFFSET ?2)",
            (job, KEPT),
        )
        sql.execute("DELETE FROM tries_answered WHERE number NOT IN (SELECT number FROM tries_asked)")
    assert number is not None
    return number


def answers(store: Store, number: int) -> list[TryAnswer]:
    """Return the answers to a request, one for each table that has answered."""
    rows = store.read("SELECT answer FROM tries_answered WHERE number = ? ORDER BY source_table", number)
    return [codec.record_from(TryAnswer, row["answer"]) for row in rows]


class StoredTries:
    """The retries requested for one job; implements `slotkeeper.core.domain.tries.Tries`. Any thread can call it.

    While the store is busy or missing, no new requests are returned, and answers that cannot be stored are dropped.
    """

    def __init__(self, store: Store, job: str, clock: Clock | None = None) -> None:
        self._store, self._job, self._clock = store, job, clock or SystemClock()
        self._lock = threading.Lock()
        self._known: tuple[TryAsked, ...] = ()
        self._read_at = float("-inf")

    def last(self) -> int:
        with self._lock:
            self._read()
            return self._known[-1].number if self._known else 0

    def since(self, number: int) -> Sequence[TryAsked]:
        """Return the requests after the request `number`; reads the store at most four times per second."""
        with self._lock:
            if self._clock.monotonic() - self._read_at > READ_EVERY:
                self._read()
            return [one for one in self._known if one.number > number]

    def answer(self, number: int, answers: Iterable[TryAnswer]) -> None:
        with suppress(Busy, StateError), self._store.write() as sql:
            for one in answers:
                sql.execute(
                    "INSERT OR REPLACE INTO tries_answered (number, source_table, answer) VALUES (?, ?, ?)",
                    (number, one.table, codec.text_of(one)),
                )

    def _read(self) -> None:
        self._read_at = self._clock.monotonic()
        with suppress(Busy, StateError):
            rows = self._store.read("SELECT number, source_table FROM tries_asked WHERE job = ?", self._job)
            found = [TryAsked(row["number"], row["source_table"]) for row in rows]
            self._known = tuple(sorted(found, key=lambda one: one.number))
