"""Find sessions that wait for a job's table lock, from the server's pairs of a waiting and a granted lock.

A server also pairs a waiting lock with granted locks that do not block it, which depends on the lock modes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from slotkeeper.core.domain.locks import Blocker, without_literals
from slotkeeper.core.domain.source_waits import SourceWait, conflicts, is_ours, kind_of

LIMIT_MS = 2_000
"""Time limit in milliseconds of each statement; on a screen, a later answer would be of no use."""
CONCEALED = "<insufficient privilege>"
EVERY = 60.0
"""Seconds after which the reader checks privileges and settings again."""
MOST = 20
"""Maximum number of lock waits reported per table, the longest first; every further waiting session is only included in
the count of one of these. Without this limit, a report with thousands of waits could be written every two seconds."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A session that waits for a table lock, and a session that holds a lock; `lasts` is the time for which the
    waiter's statement has been running.

    `granted` and `wanted` are lock modes with the server's names.
    """

    table: str
    waiter: Blocker
    wanted: str
    lasts: float
    holder: Blocker
    granted: str


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit at which a wait fails: the name and value of the setting as text, and the limit in seconds."""

    said: str
    seconds: float


def session(now: float, columns: Sequence[object], node: str = "") -> Blocker:
    pid, user, application, state, seconds, statement, query = columns
    return Blocker(
        pid if isinstance(pid, int) else None,
        None if user is None else str(user),
        None if application is None else str(application),
        None if state is None else str(state),
        now - float(str(seconds)) if seconds is not None else None,
        said(statement),
        node=node,
        query=query if isinstance(query, int) and query else None,
    )


def said(statement: object, of_mysql: bool = False) -> str | None:
    """Return a statement without its literals; None if it is hidden."""
    return None if statement is None or statement == CONCEALED else without_literals(str(statement), of_mysql)


def by_locks(pairs: Sequence[Pair], now: float, limit: Callable[[str], Limit | None]) -> Iterator[SourceWait]:
    """Return the sessions that wait for jobs' sessions; `limit` returns the limit of a wait for a lock mode."""
    at: dict[str, list[Pair]] = {}
    for one in sorted(pairs, key=lambda one: -one.lasts):
        at.setdefault(one.table, []).append(one)
    for here in at.values():
        front: dict[tuple[int | None, str], list[Pair]] = {}
        for one in here:
            ours = is_ours(one.holder.application) and not is_ours(one.waiter.application)
            if ours and conflicts(one.wanted, one.granted):
                front.setdefault((one.waiter.pid, one.waiter.node), []).append(one)
        for some in islice(front.values(), MOST):
            first = some[0]
            since, ended = now - first.lasts, limit(first.wanted)
            yield SourceWait(
                first.waiter,
                kind_of(first.waiter.statement, first.waiter.application),
                first.table,
                since,
                sessions=tuple({one.holder.pid: one.holder for one in some}.values()),
                behind=behind(one for one in here if _queues(one, first)),
                limit=ended.said if ended else "",
                fails_at=since + ended.seconds if ended else None,
            )


def _queues(one: Pair, first: Pair) -> bool:
    """Whether the waiter of `one` queues for the same table behind the waiter of `first`."""
    later = one.lasts <= first.lasts and one.waiter.pid != first.waiter.pid
    return later and conflicts(one.wanted, first.wanted)


def behind(pairs: Iterable[Pair]) -> int:
    return len({one.waiter.query or (one.waiter.node, one.waiter.pid) for one in pairs})
