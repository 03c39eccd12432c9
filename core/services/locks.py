"""Which sessions of ours wait for a lock at the sinks of a configuration, asked of the sinks themselves.

Each sink is asked in a thread and a session of its own, so that one that does not answer holds up no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from slotkeeper.core.config.model import Loaded
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.locks import PREFIX, LockWait
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.kinds import SinkSession
from slotkeeper.core.ports.sink import LockReader
from slotkeeper.core.services.looking import late
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.wiring.worker import session_name

NO_ANSWER = "a sink of this kind tells of no locks"


@dataclass(frozen=True, slots=True)
class LocksSeen:
    """What one sink answered: `sink` is its name, `place` where it is, `error` why it did not answer.

    `untold` is why there is nothing to ask it, "" where it was asked.
    """

    sink: str
    place: str
    waits: tuple[LockWait, ...] = ()
    untold: str = ""
    error: SlotkeeperError | None = None


@dataclass(slots=True)
class _Server:
    """A server that was not asked yet, or its session."""

    endpoint: Endpoint
    connect: Callable[[], SinkSession]
    session: SinkSession | None = None
    reader: LockReader | None = None


class SinkLocks:
    """Asks again and again over the same sessions, which are opened at the first question."""

    def __init__(self, loaded: Loaded, job: str = "") -> None:
        """All of a configuration's sinks for all sessions of ours, or those of one job for its own."""
        self._prefix = session_name(job, "") if job else PREFIX
        jobs = [loaded.jobs[job]] if job else list(loaded.jobs.values())
        self._servers = list({_key(one.endpoint): one for each in jobs for one in _servers(each)}.values())

    def ask(self, now: float, seconds: float | None = None) -> list[LocksSeen]:
        """What each sink says, all asked at once; `now` is this machine's clock in seconds since 1970.

        A sink that has not answered after `seconds` has an error in place of an answer.
        """
        answers: SimpleQueue[tuple[int, LocksSeen | Exception]] = SimpleQueue()

        def work(number: int, one: _Server) -> None:
            try:
                answers.put((number, self._asked(one, now)))
            except Exception as error:  # the top of a thread: whoever waits for it must hear of it
                answers.put((number, error))

        for number, one in enumerate(self._servers):
            threading.Thread(target=work, args=(number, one), name=_NAME, daemon=True).start()
        found: dict[int, LocksSeen] = {}
        end = None if seconds is None else time.monotonic() + seconds
        while len(found) < len(self._servers):  # Ctrl-C is heard here, and nobody waits for the threads then
            try:
                number, answer = answers.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
            except Empty:
                break
            if isinstance(answer, Exception):
                raise answer
            found[number] = answer
        return [found.get(number) or _silent(one, seconds) for number, one in enumerate(self._servers)]

    def close(self) -> None:
        """End the sessions, without waiting for what is under way in them."""
        for one in self._servers:
            session, one.session, one.reader = one.session, None, None
            if session is not None:
                session.sever()
                with suppress(SlotkeeperError):
                    session.close()

    def _asked(self, one: _Server, now: float) -> LocksSeen:
        name, place = one.endpoint.name, one.endpoint.place
        try:
            if one.session is None:
                one.session = one.connect()
                one.reader = one.session.locks(self._prefix)
            reader = one.reader
            return LocksSeen(name, place, tuple(reader.read(now)) if reader else (), "" if reader else NO_ANSWER)
        except SlotkeeperError as error:
            return LocksSeen(name, place, error=error)


def _silent(one: _Server, seconds: float | None) -> LocksSeen:
    place = one.endpoint.place
    return LocksSeen(one.endpoint.name, place, error=late(f"sink {one.endpoint.name} ({place})", seconds or 0.0))


def _servers(job: JobSpec) -> Iterable[_Server]:
    """Where a job writes: its store, and a sink beside that."""
    endpoint, kind = job.store_at
    yield _Server(endpoint, lambda: sinks.open(kind).connect(login(endpoint, _NAME), job.progress_schema))
    if job.in_two_parts:
        yield _Server(job.sink, lambda: sinks.open(job.sink_kind).connect_beside(login(job.sink, _NAME)))


_NAME = "slotkeeper-locks"


def _key(endpoint: Endpoint) -> Sequence[object]:
    return (endpoint.host, endpoint.port, endpoint.database, endpoint.user)
