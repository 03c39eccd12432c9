"""Read-only commands: their sessions, their time limit for all servers, and the waits on these servers.

Their sessions do not have a job's session names, because the job's next start ends the sessions of those names. Each
server is queried in its own thread and session, so that a server that does not answer delays no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.config.secrets import login, resolve
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.locks import PREFIX, LockWait, job_named
from slotkeeper.core.domain.source_waits import SourceWait, of_job
from slotkeeper.core.domain.spec import BinlogOptions, JobSpec, TableAsked
from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.ports.kinds import SinkSession, SourceSession, StoreSession
from slotkeeper.core.ports.sink import LockReader, SessionEnder
from slotkeeper.core.ports.source import SlotsOfTables, SourceTable, SourceWaits
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.wiring.worker import session_name

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Question = tuple[K, Callable[[], V]]

SECONDS = 7.0
"""Seconds for all servers together, so that a read-only command, including its startup, ends within 10 s."""


def asked(lanes: Mapping[str, Sequence[Question[K, V]]], seconds: float | None = None) -> dict[K, V | SlotkeeperError]:
    """Return the answer to each query, or its error; a late answer is replaced by Unreachable.

    A lane is one server, identified by its name in messages. Its queries run one after another in one thread, which is
    abandoned if it is late. Any other exception of a query is raised here.
    """
    seconds = SECONDS if seconds is None else seconds
    found: dict[K, V | SlotkeeperError] = {}
    defects: list[Exception] = []

    def work(questions: Sequence[Question[K, V]]) -> None:
        try:
            for key, ask in questions:
                try:
                    found[key] = ask()
                except SlotkeeperError as error:
                    found[key] = error
        except Exception as error:  # report every error, so that it does not look like a missing answer
            defects.append(error)

    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in lanes.values()]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    there = dict(found)
    if defects:
        raise defects[0]
    for lane, questions in lanes.items():
        there |= {key: late(lane, seconds) for key, _ in questions if key not in there}
    return there


def answer(lane: str, ask: Callable[[], V], seconds: float | None = None) -> V:
    """Return the answer to one query; raises its error, or Unreachable if it is late."""
    found = asked({lane: [(lane, ask)]}, seconds)[lane]
    if isinstance(found, SlotkeeperError):
        raise found
    return found


def late(lane: str, seconds: float) -> Unreachable:
    return Unreachable(f"{lane} does not answer within {seconds:g} s", "check the server and the network to it")


def passwords(endpoints: Iterable[Endpoint]) -> None:
    """Run the password commands of these endpoints before the time limit starts, because a user may have to answer."""
    for ref in {ref for one in endpoints for ref in (one.password, one.sslpassword) if ref.how == "command"}:
        with suppress(SlotkeeperError):  # the login reports it
            resolve(ref)


STORE_LIMIT_MS = 30_000
"""Time limit in milliseconds of a command's statement in a store: less than a step's ten minutes, as a user waits."""


def poll_name(what: str) -> str:
    """Return the session name of a read-only command.

    >>> poll_name("orders_rt")
    'slotkeeper-status/orders_rt'
    """
    return f"slotkeeper-status/{what}"[:63]


def open_source(kind: str, endpoint: Endpoint, name: str = "") -> SourceSession:
    """Open a source session with the given name; the default is the name of a read-only command."""
    return sources.open(kind).connect(login(endpoint, name or poll_name(endpoint.name)))


@contextmanager
def inspecting(kind: str, endpoint: Endpoint, table: str) -> Iterator[SourceTable]:
    """Open a table for the block, over a read-only session; no slot is named."""
    with closing(open_source(kind, endpoint)) as session:
        yield session.table(TableAsked(table, "", BinlogOptions()))


def open_store(job: JobSpec, limit_ms: int | None = None, name: str = "") -> StoreSession:
    """Open a session on the store of a job's progress rows; `name` defaults to that of a read-only command."""
    endpoint, kind = job.store_at
    endpoint = replace(endpoint, socket_timeout_ms=STORE_LIMIT_MS if limit_ms is None else limit_ms)
    positions = sources.open(job.source_kind).positions
    return sinks.open(kind).connect(login(endpoint, name or poll_name(job.name)), job.progress_schema, positions)


NO_ANSWER = "this kind of sink does not report locks"
NO_WAITS = "this kind of source does not report waits"


@dataclass(frozen=True, slots=True)
class LocksSeen:
    """One server's answer: its `name`, its `place`, and `error` if it did not answer.

    `untold`: why it cannot be queried, "" if it was queried; `hidden`: the values that the login cannot see. A sink has
    `waits`, a source (`is_source`) has `source_waits`.
    """

    name: str
    place: str
    waits: tuple[LockWait, ...] = ()
    untold: str = ""
    error: SlotkeeperError | None = None
    is_source: bool = False
    source_waits: tuple[SourceWait, ...] = ()
    hidden: str = ""

    @property
    def server(self) -> str:
        return f"{'source' if self.is_source else 'sink'} {self.place}"


@dataclass(slots=True)
class _Sink:
    """A sink and its session, which opens at the first query."""

    endpoint: Endpoint
    connect: Callable[[], SinkSession]
    prefix: str = PREFIX
    session: SinkSession | None = None
    reader: LockReader | None = None
    asking: threading.Lock = field(default_factory=threading.Lock)
    """Held during a query, because a late query continues to use the session."""

    def ask(self, now: float) -> LocksSeen:
        if self.session is None:
            self.session = self.connect()
            self.reader = self.session.locks(self.prefix)
        waits = tuple(self.reader.read(now)) if self.reader else ()
        return replace(self.blank(), waits=waits, untold="" if self.reader else NO_ANSWER)

    def blank(self) -> LocksSeen:
        return LocksSeen(self.endpoint.name, self.endpoint.place)


@dataclass(slots=True)
class _Source:
    """A source and its session, which opens at the first query; `job` limits the waits to one job, "" for all."""

    endpoint: Endpoint
    connect: Callable[[], SourceSession]
    tables: SlotsOfTables
    job: str = ""
    session: SourceSession | None = None
    reader: SourceWaits | None = None
    asking: threading.Lock = field(default_factory=threading.Lock)
    """Held during a query, because a late query continues to use the session."""

    def ask(self, now: float) -> LocksSeen:
        if self.session is None:
            self.session = self.connect()
            self.reader = self.session.doctor.waits(self.tables)
        if self.reader is None:
            return replace(self.blank(), untold=NO_WAITS)
        waits = tuple(self.reader.read(now))
        if self.job:
            waits = of_job(waits, self.job, job_named(session_name(self.job, "")))
        return replace(self.blank(), source_waits=waits, hidden=self.reader.hidden)

    def blank(self) -> LocksSeen:
        return LocksSeen(self.endpoint.name, self.endpoint.place, is_source=True)


class ServerLocks:
    """Repeats queries in the same sessions, which open at the first query."""

    def __init__(self, loaded: Loaded, job: str = "") -> None:
        """Prepare to query all servers about all jobs' sessions or, with `job`, its servers about its sessions."""
        prefix = session_name(job, "") if job else PREFIX
        jobs = [loaded.jobs[job]] if job else list(loaded.jobs.values())
        sinks = {_at(one.endpoint): one for each in jobs for one in _sinks(each, prefix)}
        self._servers: list[_Sink | _Source] = [*sinks.values(), *_sources(jobs, job)]

    def ask(self, now: float, seconds: float | None = None) -> list[LocksSeen]:
        """Query all servers at once; `now` is this host's clock in seconds since 1970.

        The answer of a server that is silent for `seconds` is an error; it is queried again once it has answered.
        """
        answers: SimpleQueue[tuple[int, LocksSeen | Exception]] = SimpleQueue()

        def work(number: int, one: _Sink | _Source) -> None:
            try:
                with one.asking:
                    answers.put((number, one.ask(now)))
            except SlotkeeperError as error:
                answers.put((number, replace(one.blank(), error=error)))
            except Exception as error:  # this is the top of a thread: its caller must get the error
                answers.put((number, error))

        found: dict[int, LocksSeen] = {}
        for number, one in enumerate(self._servers):
            if one.asking.locked():  # an earlier query is still running
                found[number] = _late(one, seconds)
            else:
                threading.Thread(target=work, args=(number, one), name=_NAME, daemon=True).start()
        end = None if seconds is None else time.monotonic() + seconds
        while len(found) < len(self._servers):  # on Ctrl-C, this process does not wait for the threads
            try:
                number, answer = answers.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
            except Empty:
                break
            if isinstance(answer, Exception):
                raise answer
            found[number] = answer
        for number, one in enumerate(self._servers):
            if number not in found:
                found[number] = _late(one, seconds)
        return [found[number] for number in range(len(self._servers))]

    def close(self) -> None:
        """End the sessions without waiting for their running queries."""
        for one in self._servers:
            session, one.session, one.reader = one.session, None, None
            if session is not None:
                session.sever()
                with suppress(SlotkeeperError):
                    session.close()


Asker = Callable[[], tuple[StoreSession | SourceSession, LockReader | SessionEnder | None]]
"""Opens a session on a server, and its reader of waits, or None if this kind of server cannot end sessions."""


def askers(loaded: Loaded) -> dict[str, Asker]:
    """Return the functions that open sessions and readers of a configuration's servers, by "sink NAME" or "source
    NAME".
    """

    def at_sink(job: JobSpec) -> tuple[StoreSession, LockReader | None]:
        session = open_store(job, name=_NAME)
        return session, session.locks(PREFIX)

    def at_source(one: _Source) -> tuple[SourceSession, SessionEnder | None]:
        session = one.connect()
        waits = session.doctor.waits(one.tables)
        return session, waits.ender if waits is not None else None

    jobs = list(loaded.jobs.values())
    found: dict[str, Asker] = {f"sink {job.store_at[0].name}": partial(at_sink, job) for job in jobs}
    return found | {f"source {one.endpoint.name}": partial(at_source, one) for one in _sources(jobs, "")}


def _late(one: _Sink | _Source, seconds: float | None) -> LocksSeen:
    blank, at = one.blank(), one.endpoint
    return replace(
        blank, error=late(f"{'source' if blank.is_source else 'sink'} {at.name} ({at.place})", seconds or 0.0)
    )


def _at(endpoint: Endpoint) -> tuple[str, int, str, str]:
    return (endpoint.host, endpoint.port, endpoint.database, endpoint.user)


def _sinks(job: JobSpec, prefix: str) -> Iterable[_Sink]:
    endpoint, kind = job.store_at
    yield _Sink(endpoint, lambda: sinks.open(kind).connect(login(endpoint, _NAME), job.progress_schema), prefix)
    if job.in_two_parts:
        yield _Sink(job.sink, lambda: sinks.open(job.sink_kind).connect_beside(login(job.sink, _NAME)), prefix)


def _sources(jobs: Iterable[JobSpec], only: str) -> Iterable[_Source]:
    """Yield each source once, with the tables and slots of all its jobs."""
    found: dict[tuple[str, int, str, str], list[JobSpec]] = {}
    for job in jobs:
        found.setdefault(_at(job.source), []).append(job)
    for some in found.values():
        tables: dict[str, dict[str, str]] = {}
        for job in some:
            for channel in job.channels:
                tables.setdefault(channel.source_table, {})[job.slot] = job.name
        first = some[0]
        yield _Source(
            first.source,
            lambda first=first: sources.open(first.source_kind).connect(login(first.source, _NAME)),  # type: ignore[misc]
            tables,
            only,
        )


_NAME = "slotkeeper-locks"
