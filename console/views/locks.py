"""Lock waits: job sessions that wait in a sink, and source sessions that wait for jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.views.detail import labelled
from slotkeeper.console.views.rows import UNKNOWN, Column, Row
from slotkeeper.core.domain import source_waits
from slotkeeper.core.domain.ending import moment
from slotkeeper.core.domain.locks import HIDDEN, PREFIX, Blocker, LockWait, cause, to_do, without_literals
from slotkeeper.core.domain.source_waits import SourceWait
from slotkeeper.core.domain.text import many, safe, typed
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
NONE_WAITS = "no session of a job waits for a lock"
NOT_ASKED = "not queried yet"
NONE_WAITS_AT_SOURCE = "no session waits for a slot or a session of a job"
AnyWait = LockWait | SourceWait


@dataclass(frozen=True, slots=True)
class ServerWaits:
    """The waits on one server, or from the report of one job; `fault` is the error if the server did not answer.

    `hidden` describes the information that the server hides from the login; `at_source` is true for a source; `name` is
    the server's name if it was queried directly.
    """

    place: str
    waits: tuple[AnyWait, ...] = ()
    fault: str = ""
    hidden: str = ""
    at_source: bool = False
    name: str = ""


def none_waits(seen: Sequence[ServerWaits] | None) -> str:
    """Explain why no waiting session is listed, based on the servers' answers; None means not queried yet.

    >>> none_waits(None), none_waits([ServerWaits("sink m", fault="refused")]), none_waits([ServerWaits("sink m")])
    ('not queried yet', 'unknown: no server answered', 'no session of a job waits for a lock')
    """
    if seen is None:
        return NOT_ASKED
    answered = [one for one in seen if not one.fault]
    if not answered:
        return "unknown: no server answered" if seen else NOT_ASKED
    return NONE_WAITS if len(answered) == len(seen) else f"{NONE_WAITS} on the servers that answered"


def tells(job: JobFacts) -> bool:
    """Return whether the driver of a job currently reports its sessions."""
    return job.report is not None and job.current and not job.last_known


def of_reports(jobs: Iterable[JobFacts]) -> list[ServerWaits]:
    """Return the waits that the jobs report."""
    known = [(one.name, one.report) for one in jobs if one.report is not None and tells(one)]
    found = []
    for name, report in known:
        if report.lock_waits or report.locks_untold:
            found.append(ServerWaits(f"job {name}", report.lock_waits, report.locks_untold))
        if report.source_waits or report.source_untold:
            place = f"source of job {name}"
            found.append(ServerWaits(place, report.source_waits, hidden=report.source_untold, at_source=True))
    return found


def lock_rows(seen: Iterable[ServerWaits], now: datetime) -> list[Row]:
    """Return one row per waiting session, the longest wait first."""
    found = [(one.place, wait) for one in seen for wait in one.waits]
    found.sort(key=lambda one: (one[1].since, _pid(one[1]) or 0))
    return [
        _row(place, wait, now) if isinstance(wait, LockWait) else _source_row(place, wait, now) for place, wait in found
    ]


def _pid(wait: AnyWait) -> int | None:
    return wait.pid if isinstance(wait, LockWait) else wait.waiter.pid


def _source_row(place: str, wait: SourceWait, now: datetime) -> Row:
    """Return the row of a session that waits in a source; the blocker columns show what it waits for."""
    first, lasts = next(iter(wait.sessions), None), max(0.0, now.timestamp() - wait.since)
    jobs = ", ".join(safe(one, 40) for one in wait.jobs) or "no job"
    cells = {
        "mark": Level.WARNING.value,
        "waiting": f"{wait.what}, pid {wait.waiter.pid}",
        "thing": safe(wait.table, 130),
        "lasts": in_words(lasts),
        "pid": "slot" if first is None else str(first.pid),
        "user": shown(wait.waiter.user if first is None else first.user),
        "state": f"{jobs}" if first is None else shown(first.state),
        "application": shown(wait.waiter.application if first is None else first.application),
        "mode": wait.what,
    }
    return Row(row_key(place, wait), Level.WARNING, cells, {"lasts": lasts})


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


def row_key(place: str, wait: AnyWait) -> str:
    """Return a key that stays the same as long as the session waits."""
    return f"{place}\x1f{_pid(wait)}" + ("" if isinstance(wait, LockWait) else f"\x1f{wait.table}")


def jobs_of(wait: AnyWait) -> tuple[str, ...]:
    """Return the jobs affected by a wait."""
    return (wait.job,) if isinstance(wait, LockWait) else wait.jobs


def thing_of(wait: AnyWait) -> str:
    """Return the object of a wait."""
    return wait.thing if isinstance(wait, LockWait) else wait.table


def wait_of(seen: Iterable[ServerWaits], key: str | None) -> AnyWait | None:
    """Return the wait of a row."""
    return next((wait for one in seen for wait in one.waits if row_key(one.place, wait) == key), None)


def wait_lines(wait: AnyWait, now: datetime) -> list[tuple[Level, str]]:
    """Return the blocker, the safe action, and all sessions in the queue."""
    at = now.timestamp()
    if isinstance(wait, SourceWait):
        return [
            (Level.WARNING, labelled("Problem", source_waits.cause(wait, at))),
            (Level.FINE, labelled("Impact", source_waits.effect(wait))),
            (Level.FINE, labelled("Action", source_waits.to_do(wait))),
        ]
    lines = [(Level.WARNING, labelled("Problem", cause(wait, at))), (Level.FINE, labelled("Action", to_do(wait)))]
    statement = HIDDEN if wait.statement is None else without_literals(wait.statement)
    how = "waits" if wait.waits else "waited, and will retry,"
    said = f"pid {wait.pid} ({safe(wait.session, 63)}) {how} for {safe(wait.mode, 40)}: {statement}"
    lines.append((Level.FINE, said))
    lines += [(Level.REST, f"also blocking: {one.name}, {one.doing(at)}") for one in wait.blockers[1:]]
    return lines


def name_of(seen: Iterable[ServerWaits], key: str | None) -> str:
    """Return the name of a row's server; "" if the wait is known only from a report."""
    return next((one.name for one in seen for wait in one.waits if row_key(one.place, wait) == key), "")


def ends_at(wait: AnyWait | None) -> Blocker | None:
    """Return the session that `locks end` could end for a wait.

    In a sink, it is a client session that does not wait itself and belongs to no job. In MySQL, it is the session of a
    waiting DDL statement that blocks other sessions. Whether one of those belongs to a job is checked on the server
    just before the session is ended.
    """
    found = None
    if isinstance(wait, LockWait):
        found = wait.root if wait.waits else None
    elif wait is not None and wait.ends and wait.behind:
        found = wait.waiter
    return found if found is not None and not why_not(found) else None


def why_not(one: Blocker) -> str:
    """Return the reason why Slotkeeper cannot end a blocking session; "" if only its server can decide."""
    if one.pid is None:
        return "it is a prepared transaction"
    if one.user == "":
        return "it is a server process"
    if (one.application or "").startswith(PREFIX):
        return "its application name identifies a job's session: pause that job"
    if one.node or one.query:
        return "it can be ended only at its own coordinator"
    return "" if one.began is not None else "its start time is hidden from this login (pg_read_all_stats shows it)"


def end_command(name: str, wait: AnyWait) -> str:
    """Return the command that ends the session; "" if there is none."""
    one = ends_at(wait)
    if one is None or one.began is None:
        return ""
    at = "sink" if isinstance(wait, LockWait) else "source"
    return f"`slotkeeper locks end {one.pid} --began {moment(one.began)} --{at} {typed(name)} --reason REASON`"


def blocking_lines(jobs: Iterable[JobFacts], table: str, slot: str, now: datetime) -> list[tuple[Level, str]]:
    """Return the source sessions that wait for a slot, according to the jobs' reports, each session once."""
    waits = {
        wait.key: wait
        for job in jobs
        if job.report is not None and tells(job)
        for wait in job.report.source_waits
        if wait.table == table and any(one.slot == slot for one in wait.slots)
    }
    return [
        (Level.WARNING, f"{source_waits.cause(one, now.timestamp())}; {source_waits.effect(one)}")
        for one in waits.values()
    ]


def seen_lines(seen: Sequence[ServerWaits]) -> list[tuple[Level, str]]:
    """Return a line for each server that could not be queried, and one line for the sinks that answered."""
    asked = [one for one in seen if not one.fault and not one.at_source]
    lines = [  # with the sink's name if its error does not contain it
        (Level.UNKNOWN, safe(one.fault if one.place in one.fault else f"{one.place}: {one.fault}", 400))
        for one in seen
        if one.fault
    ]
    number = sum(len(one.waits) for one in asked)
    if asked:
        words = f"{many(number, 'session')} of jobs wait{'s' if number == 1 else ''}" if number else NONE_WAITS
        lines.append(
            (Level.WARNING if number else Level.FINE, f"{words}: {', '.join(safe(one.place, 40) for one in asked)}")
        )
    lines += [source_line(one) for one in seen if one.at_source and not one.fault]
    return lines


def source_line(one: ServerWaits) -> tuple[Level, str]:
    """Return a source's answer: its waits; if there are none, what is hidden; otherwise that no session waits."""
    number = len(one.waits)
    if number:
        words = f"{many(number, 'session')} {'waits' if number == 1 else 'wait'} for slots or sessions of jobs"
        return Level.WARNING, f"{words}: {safe(one.place, 40)}" + (f"; {safe(one.hidden, 400)}" if one.hidden else "")
    if one.hidden:
        return Level.UNKNOWN, safe(f"{one.place}: {one.hidden}", 400)
    return Level.FINE, f"{NONE_WAITS_AT_SOURCE}: {safe(one.place, 40)}"


def shown(text: str | None) -> str:
    """Return the text, or a note that it is hidden from this login."""
    return HIDDEN if text is None else safe(text, 63)


def values(wait: LockWait, now: float) -> dict[str, object]:
    """Return a wait as JSON values; null means hidden from this login."""
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


def source_values(wait: SourceWait, now: float) -> dict[str, object]:
    """Return a wait in a source as JSON values; null means hidden from this login."""
    return {
        "what": wait.what,
        "table": wait.table,
        "since": _moment(wait.since),
        "seconds": round(max(0.0, now - wait.since), 1),
        "waiter": _blocker(wait.waiter),
        "slots": [{"slot": one.slot, "job": one.job or None, "shards": list(one.shards)} for one in wait.slots],
        "sessions": [_blocker(one) for one in wait.sessions],
        "behind": wait.behind,
        "limit": wait.limit or None,
        "fails_at": _moment(wait.fails_at),
        "cause": source_waits.cause(wait, now),
        "effect": source_waits.effect(wait),
        "do": source_waits.to_do(wait),
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
        "began": None if one.began is None else moment(one.began),
    }


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(round(seconds), timezone.utc)
