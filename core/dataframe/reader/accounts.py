"""Write the progress of queries that read slots to the store: batch, checkpoint and lag.

Spark does not pass these values to a Python source, neither on its driver nor in a task, but they are available in the
program's own Spark session. A thread of the program therefore queries that Spark session once per second, which takes a
millisecond and delays no batch. It writes changed values over a persistent database session, with one statement that is
fenced by the epoch. The reports are only informational: a failed write is retried later, and no query waits for it.
"""

from __future__ import annotations

import atexit
import json
import logging
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.dataframe.reader.faults import naming
from slotkeeper.core.domain.query_report import QueryReport
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.redaction import masked

if TYPE_CHECKING:
    from slotkeeper.core.domain.spec import JobSpec
    from slotkeeper.core.ports.sink import QueryAccounts

EVERY = 1.0
FINISH = 3.0
"""Seconds for which a program waits at its end until the last batches of its queries are reported."""
AGAIN = 30.0
"""Seconds after which a failed write is retried and an idle query's last report is repeated."""
MARK = "query"
"""The key in a source's reported latest offset that contains the slot's owner (`Place`)."""
UNREAD_TO = "unread_to"
"""The key of the last unread position by DN; a DN's newest position can belong to another table."""
LIMIT_MS = 2_000
_IDLE = "Waiting for data to arrive"
"""Spark's status message between two consecutive triggers without a pause (MicroBatchExecution)."""
_PASSWORD = re.compile(r"(?<=://)[^/@\s]*(?::|%3A)(?:[^/\s]*@|(?!\d+/)\S*?@)", re.IGNORECASE)
"""Matches the login in s3://key:secret@bucket; a secret can contain slashes, and a host's port does not match."""
_QUERY = re.compile(r"(?<=\?)\S+")
"""Matches the query string in https://account/container?sig=secret."""
LOG = logging.getLogger("slotkeeper.dataframe")
_followed: weakref.WeakKeyDictionary[Any, AccountKeeper] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Place:
    """The owner of a query's slot: configuration, job, table and epoch."""

    config: str
    job: str
    table: str
    epoch: int

    @classmethod
    def read(cls, reported: object) -> Place | None:
        """Return the owner from a source's reported offset; None for the offset of another source."""
        mark = reported.get(MARK) if isinstance(reported, Mapping) else None
        try:
            return cls(str(mark["config"]), str(mark["job"]), str(mark["table"]), int(mark["epoch"])) if mark else None
        except (KeyError, TypeError, ValueError):
            return None


def follow(spark: Any) -> None:
    """Start reporting for a session, once; do nothing with Spark Connect, which uses no JVM of this process."""
    context = getattr(spark, "_sc", None)
    if context is None or getattr(spark, "_jsparkSession", None) is None or spark in _followed:
        return
    kept = weakref.ref(spark)  # this reference does not prevent garbage collection of the session

    def active() -> Iterable[Any]:
        there = kept()
        return there.streams.active if there is not None else ()

    keeper = _followed[spark] = AccountKeeper(active, lambda: type(context)._active_spark_context is context)
    threading.Thread(target=keeper.run, name="slotkeeper-accounts", daemon=True).start()
    atexit.register(keeper.finish)


def started(writer: Any, query: Any) -> None:
    """Register a query started by the program, so that its last batch is reported even if it ends soon."""
    spark = getattr(writer, "_spark", None)
    keeper = _followed.get(spark) if spark is not None else None
    if keeper is not None:
        keeper.add(query)


def begin(job: JobSpec, epoch: int, fresh: bool) -> None:
    """Create the record of a starting query; if this fails, the query runs without a record."""
    try:
        with closing(_over(job)) as accounts:
            accounts.begin(epoch, fresh)
    except SlotkeeperError as error:
        LOG.info("cannot report this query's batches to consoles: %s", error)


def opened(place: Place) -> QueryAccounts:
    """Return access to the store's record of a query, in a separate session."""
    from slotkeeper.core.dataframe.reader.options import asked

    return _over(asked({"config": place.config, "job": place.job, "table": place.table, "read": "rows"}).job)


def _over(job: JobSpec) -> QueryAccounts:
    """Open the store under a separate session name, so that no job start ends this session or waits for it to end."""
    from slotkeeper.core.services.looking import open_store  # a program that only registers does not need this import

    return open_store(job, LIMIT_MS, f"slotkeeper-accounts/{job.name}"[:63]).accounts(job.lane_key())


class _Kept:
    """The last record written for a query and slot, and its session."""

    def __init__(self, place: Place, make: Callable[[Place], QueryAccounts]) -> None:
        self._place, self._make = place, make
        self._accounts: QueryAccounts | None = None
        self._written: QueryReport | None = None
        self._at = float("-inf")
        self._failed = False

    def keep(self, report: QueryReport, idle: bool, now: float) -> None:
        """Write a changed report; after a failure, or if the query is idle, at most every `AGAIN` seconds."""
        waits, written = now - self._at < AGAIN, self._written
        # between batches, an idle query's last report already contains the newest values of its batch
        same = written is not None and (report == written or (report.batch == written.batch and not idle))
        if (waits and (same or self._failed)) or (same and not waits and not idle):
            return
        self._at = now
        try:
            self._accounts = self._accounts or self._make(self._place)
            self._accounts.write(report)
            self._written, self._failed = report, False
        except Exception as error:  # an error here must not reach the program or its query
            if not self._failed:
                LOG.info("cannot report batch %s to consoles: %s", report.batch, masked(str(error)))
            self._failed = True
            self.close()

    def close(self) -> None:
        accounts, self._accounts = self._accounts, None
        if accounts is not None:
            with suppress(Exception):
                accounts.close()


class AccountKeeper:
    """Reports the queries of one Spark session; used by a single thread.

    `active` returns the running queries as pyspark lists them; `lives` is whether their Spark context still exists.
    """

    def __init__(
        self,
        active: Callable[[], Iterable[Any]],
        lives: Callable[[], bool],
        make: Callable[[Place], QueryAccounts] = opened,
        clock: Clock | None = None,
        every: float = EVERY,
    ) -> None:
        self._active, self._lives, self._make = active, lives, make
        self._clock = clock or SystemClock()
        self._every = every
        self._kept: dict[tuple[str, Place], _Kept] = {}
        self._known: dict[str, Any] = {}
        """The queries that have started and not yet ended, by run id."""
        self._added: SimpleQueue[Any] = SimpleQueue()
        self._hurry, self._done = threading.Event(), threading.Event()
        self._ending = False

    def add(self, query: Any) -> None:
        """Add a query that has just started; callable from any thread."""
        self._added.put(query)

    def run(self) -> None:
        """Report until Spark or the program ends."""
        try:
            while self._lives() and not self._ending:
                with suppress(Exception):  # Spark may be ending; `lives` detects that
                    self.turn()
                self._hurry.wait(self._every)
            with suppress(Exception):
                self._know(())
                self._ask()
        finally:
            self._end(list(self._kept))
            self._done.set()

    def finish(self) -> None:
        """Wait briefly, at the end of the program, until the last batches of its queries are reported."""
        self._ending = True
        self._hurry.set()
        self._done.wait(FINISH)

    def turn(self) -> None:
        """Read the progress of every query once, including a last time after the query has ended."""
        running = {str(query.runId) for query in self._know(self._active())}
        self._ask()
        for run in [one for one in self._known if one not in running]:
            del self._known[run]
        self._end([key for key in self._kept if key[0] not in running])

    def _know(self, running: Iterable[Any]) -> list[Any]:
        there = list(running)
        with suppress(Empty):
            while True:
                query = self._added.get_nowait()
                self._known[str(query.runId)] = query
        self._known |= {str(query.runId): query for query in there}
        return there

    def _ask(self) -> None:
        for query in list(self._known.values()):
            with suppress(Exception):  # the query may be ending: it is read once more
                now = self._clock.monotonic()
                for place, report, idle in accounts_of(query):
                    key = (str(query.runId), place)
                    if key not in self._kept:
                        self._kept[key] = _Kept(place, self._make)
                    self._kept[key].keep(report, idle, now)

    def _end(self, keys: Iterable[tuple[str, Place]]) -> None:
        for key in keys:
            self._kept.pop(key).close()


def accounts_of(query: Any) -> Iterator[tuple[Place, QueryReport, bool]]:
    """Yield the owner, the query's report, and whether the query is idle for each slot that a query reads.

    The report is made from the query's last progress. An idle query has read everything: the source has nothing newer
    than the end of its last batch.
    """
    progress = query.lastProgress
    if progress is None:
        return
    said = json.loads(progress.json)
    ours = [(place, one) for one in said.get("sources", ()) if (place := Place.read(one.get("latestOffset")))]
    if not ours:
        return
    idle = query.status.get("message") == _IDLE
    report = QueryReport(
        0, str(query.id), safe(masked(query.name or ""), 200), int(said["batchId"]), _checkpoint(query)
    )
    for place, one in ours:
        reached = one.get("endOffset") if idle else None
        places = reached.get("positions") if isinstance(reached, Mapping) else one["latestOffset"][MARK].get(UNREAD_TO)
        newest = {str(dn): str(text) for dn, text in places.items()} if isinstance(places, Mapping) else {}
        yield place, replace(report, epoch=place.epoch, newest=newest), idle


def _checkpoint(query: Any) -> str:
    """Return the checkpoint's path as resolved by Spark; "" if this Spark version does not have the private call."""
    try:
        root = str(query._jsq.streamingQuery().resolvedCheckpointRoot())
    except Exception:
        return ""
    return safe(_QUERY.sub("***", _PASSWORD.sub("***@", masked(root))), 1_000)


ASYNC = "asyncProgressTrackingEnabled"


@naming
def start(writer: Any, path: str | None = None) -> Any:
    """Start a DataStreamWriter and return the query; raises ReadFailed if its progress tracking is asynchronous.

    With asynchronous progress tracking, Spark requests the next offset before the last batch is in its commit log:
    changes confirmed at that time may be lost. A source cannot see that option, so this function checks the writer.
    """
    if asynchronous(writer):
        what = f"{ASYNC} lets Spark, and therefore the slot, advance past the commit log"
        raise Refused(what, 'remove that option, or read with .option("register", "never")', where="spark")
    query = writer.start(path) if path else writer.start()
    started(writer, query)
    return query


def asynchronous(writer: Any) -> bool:
    """Return whether asynchronous progress tracking is on for a writer; reads a private field of Spark's object."""
    jvm = writer._jwrite
    field = jvm.getClass().getDeclaredField("extraOptions")
    field.setAccessible(True)
    found = field.get(jvm).get(ASYNC)
    return bool(found.isDefined()) and str(found.get()).lower() == "true"
