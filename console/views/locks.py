"""Waiting and blocking: which sessions of ours wait for a lock at a sink, and who is in front of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.views.rows import UNKNOWN, Column, Row
from slotkeeper.core.domain.locks import HIDDEN, PREFIX, Blocker, LockWait, cause, to_do, without_literals
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.domain.ttl import in_words

LOCK_COLUMNS = (
    Column("mark", "", 1),
    Column("waiting", "WAITING", 13, name=True),
    Column("thing", "WAITS FOR", 0, name=True),
    Column("lasts", "FOR", 6, right=True),
    Column("pid", "BLOCKER", 8, right=True),
    Column("user", "USER", 10),
    Column("state", "IT IS", 19),
    Column("application", "APPLICATION", 20, least=112),
    Column("mode", "LOCK WANTED", 24, least=140),
)
NOBODY = "no session of ours waits for a lock"
NOT_ASKED = "not asked yet"


@dataclass(frozen=True, slots=True)
class SinkWaits:
    """The waits that one sink or the report of one job shows; `fault` is why the sink did not answer."""

    place: str
    waits: tuple[LockWait, ...] = ()
    fault: str = ""


def none_waits(seen: Sequence[SinkWaits] | None) -> str:
    """What no waiting session means, by what the sinks have said; None: they were not asked yet.

    >>> none_waits(None), none_waits([SinkWaits("sink mart", fault="refused")]), none_waits([SinkWaits("sink mart")])
    ('not asked yet', 'unknown: no sink answered', 'no session of ours waits for a lock')
    """
    if seen is None:
        return NOT_ASKED
    answered = [one for one in seen if not one.fault]
    if not answered:
        return "unknown: no sink answered" if seen else NOT_ASKED
    return NOBODY if len(answered) == len(seen) else f"{NOBODY} at the sinks that answered"


def tells(job: JobFacts) -> bool:
    """Whether the driver of a job reports of its sessions now."""
    return job.report is not None and job.current and not job.last_known


def of_reports(jobs: Iterable[JobFacts]) -> list[SinkWaits]:
    """The waits that the reports of the jobs show."""
    known = [(one.name, one.report) for one in jobs if one.report is not None and tells(one)]
    return [
        SinkWaits(f"job {name}", report.lock_waits, report.locks_untold)
        for name, report in known
        if report.lock_waits or report.locks_untold
    ]


def lock_rows(seen: Iterable[SinkWaits], now: datetime) -> list[Row]:
    """One row per session that waits, those first that wait longest."""
    found = [(one.place, wait) for one in seen for wait in one.waits]
    found.sort(key=lambda one: (one[1].since, one[1].pid))
    return [_row(place, wait, now) for place, wait in found]


def _row(place: str, wait: LockWait, now: datetime) -> Row:
    root, lasts = wait.root, max(0.0, now.timestamp() - wait.since)
    cells = {
        "mark": Level.WARNING.value,
        "waiting": safe(wait.session.removeprefix(PREFIX), 63),
        "thing": safe(wait.thing, 130),
        "lasts": in_words(lasts),
        "pid": UNKNOWN if root is None else "prepared" if root.pid is None else str(root.pid),
        "user": UNKNOWN if root is None else shown(root.user) or "the server",
        "state": UNKNOWN if root is None else "prepared" if root.pid is None else shown(root.state),
        "application": UNKNOWN if root is None else shown(root.application),
        "mode": safe(wait.mode, 40),
    }
    return Row(row_key(place, wait), Level.WARNING, cells, {"lasts": lasts})


def row_key(place: str, wait: LockWait) -> str:
    """The same as long as one session waits."""
    return f"{place}\x1f{wait.pid}"


def wait_of(seen: Iterable[SinkWaits], key: str | None) -> LockWait | None:
    """The wait of a row."""
    return next((wait for one in seen for wait in one.waits if row_key(one.place, wait) == key), None)


def wait_lines(wait: LockWait, now: datetime) -> list[tuple[Level, str]]:
    """Who is in front, what is safe to do, and everybody in the queue."""
    at = now.timestamp()
    lines = [(Level.WARNING, f"wrong  {cause(wait, at)}"), (Level.FINE, f"do     {to_do(wait)}")]
    statement = HIDDEN if wait.statement is None else without_literals(wait.statement)
    how = "waits" if wait.waits else "waited, and is tried again,"
    said = f"pid {wait.pid} ({safe(wait.session, 63)}) {how} for {safe(wait.mode, 40)}: {statement}"
    lines.append((Level.FINE, said))
    lines += [(Level.REST, f"in front: {one.name}, {one.doing(at)}") for one in wait.blockers[1:]]
    return lines


def seen_lines(seen: Sequence[SinkWaits]) -> list[tuple[Level, str]]:
    """A line for each sink that could not be asked, and one for the others."""
    asked = [one for one in seen if not one.fault]
    lines = [  # with the sink's name where its error has it not
        (Level.UNKNOWN, safe(one.fault if one.place in one.fault else f"{one.place}: {one.fault}", 400))
        for one in seen
        if one.fault
    ]
    number = sum(len(one.waits) for one in asked)
    if asked:
        words = f"{many(number, 'session')} of ours wait{'s' if number == 1 else ''}" if number else NOBODY
        lines.append(
            (Level.WARNING if number else Level.FINE, f"{words}: {', '.join(safe(one.place, 40) for one in asked)}")
        )
    return lines


def shown(text: str | None) -> str:
    """The text, or that it is not shown to our login."""
    return HIDDEN if text is None else safe(text, 63)


def values(wait: LockWait, now: float) -> dict[str, object]:
    """A wait as JSON; null is what our login is not shown."""
    return {
        "pid": wait.pid,
        "session": wait.session,
        "job": wait.job,
        "thing": wait.thing,
        "mode": wait.mode,
        "waits": wait.waits,
        "since": _moment(wait.since),
        "seconds": round(max(0.0, now - wait.since), 1),
        "statement": wait.statement,
        "cause": cause(wait, now),
        "do": to_do(wait),
        "blockers": [_blocker(one) for one in wait.blockers],
    }


def _blocker(one: Blocker) -> dict[str, object]:
    return {
        "pid": one.pid,
        "prepared": one.gid or None,
        "user": one.user,
        "application": one.application,
        "job": one.job or None,
        "state": one.state,
        "since": _moment(one.since),
        "statement": one.statement,
        "waits": one.waits,
        "node": one.node or None,
        "query_id": one.query,
    }


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(round(seconds), timezone.utc)
