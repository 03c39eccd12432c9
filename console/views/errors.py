"""Convert the errors recorded by jobs to rows, one per kind of error, with explanations. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum

from slotkeeper.console.monitor.snapshot import JobFacts, Level, Local
from slotkeeper.console.views.detail import labelled, listed
from slotkeeper.console.views.remedies import named, numbered, recovered, remedy_for, with_act
from slotkeeper.console.views.rows import FAULTS, NARROW, TYPED, WIDE, Column, Row, age, clock, count, rank
from slotkeeper.core.domain.fault import Ack, is_quiet
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.state.rows import ErrorRow

ERROR_COLUMNS = (
    Column("mark", "", 1),
    Column("last", "LAST UTC", 14),
    Column("first", "FIRST UTC", 14, least=WIDE),
    Column("number", "N", 5, right=True),
    Column("job", "JOB", 12, name=True),
    Column("dn", "DN", 8, least=NARROW, name=True),
    Column("side", "SIDE", 6, least=WIDE),
    Column("state", "STATE", 9),
    Column("signature", "SIGNATURE", 0),
)
_DN = re.compile(r"(?:[A-Z ]+: )?([\w.-]{1,63})(?: and [\d,]+ other lanes?)?: ")
_WHERE = re.compile(
    r"(?P<lane>[\w.-]{1,63}: )?(?P<end>(?:sink|source) \S{1,80} \([^()]{1,200}\))(?:: | )(?P<said>.+)", re.DOTALL
)
"""The format of a driver's message: lane, server with address and login, and the error of the server or connection."""
_LIBPQ = re.compile(
    r'connection to server (?:at|on socket) "[^"]{1,200}"(?: \([^()]{1,60}\))?(?:, port \d+)? failed: (?:FATAL: +)?'
)
_ASKS = "Is the server running"
"""The question that libpq appends to its error message if an address does not answer."""
_FRESH_SECONDS = 60.0


class Standing(Enum):
    """The status of an error. The value is its label."""

    FATAL = "fatal"
    OPEN = "open"
    RECOVERED = "recovered"
    PAST = "past"
    ACKED = "acked"


_LEVELS = {Standing.FATAL: Level.CRITICAL, Standing.OPEN: Level.WARNING, Standing.RECOVERED: Level.FINE}


def error_key(one: ErrorRow) -> str:
    """Return the key of an error."""
    return f"{one.job}\x1f{one.signature}"


def ack_key(one: ErrorRow) -> str:
    """Return the acknowledgement key of an error; it covers this kind of error up to its last occurrence only."""
    return f"error\x1f{error_key(one)}\x1f{one.last_at.timestamp():.3f}"


def standing(one: ErrorRow, job: JobFacts | None, latest: bool, now: datetime) -> Standing:
    """Return the status: fatal if the error ended the job, open if it may persist, recovered if the job runs well."""
    if job is None or job.state is None:
        return Standing.PAST
    if job.state is JobState.FAILED:
        return Standing.FATAL if latest else Standing.PAST
    if not job.state.is_open:
        return Standing.PAST
    troubled = job.level in (Level.CRITICAL, Level.WARNING)
    # a user's pause is unrelated to an earlier error, and a job is RUNNING only after all lanes have recovered from it
    rests = job.state in (JobState.PAUSED, JobState.RUNNING)
    over = rests and job.changed_at is not None and one.last_at < job.changed_at
    if not over and troubled and (latest or (now - one.last_at).total_seconds() < _FRESH_SECONDS):
        return Standing.OPEN
    return Standing.RECOVERED


def standings(local: Local, acks: Mapping[str, Ack], now: datetime) -> list[tuple[ErrorRow, Standing]]:
    """Return every error with its status."""
    jobs = {job.name: job for job in local.jobs}
    newest: dict[str, ErrorRow] = {}
    for one in local.errors:
        if one.job not in newest or one.last_at > newest[one.job].last_at:
            newest[one.job] = one
    found = []
    for one in local.errors:
        state = standing(one, jobs.get(one.job), newest[one.job] is one, now)
        if state in (Standing.FATAL, Standing.OPEN) and is_quiet(acks.get(ack_key(one)), now):
            state = Standing.ACKED
        found.append((one, state))
    return found


def error_rows(local: Local, acks: Mapping[str, Ack], now: datetime, job: str = "") -> list[Row]:
    """Return the errors as rows: unresolved ones first, then the newest; only those of `job` if it is given."""
    keyed = [
        (rank(level_of(state)), -one.last_at.timestamp(), one, state)
        for one, state in standings(local, acks, now)
        if job in ("", one.job)
    ]
    return [_row(one, state) for *_, one, state in sorted(keyed, key=lambda item: item[:2])]


WINDOWS = {0: "all", 3_600: "1 h", 21_600: "6 h", 86_400: "24 h"}
"""The time windows for listed errors, in seconds; 0 lists all retained errors."""


def within(rows: Sequence[Row], window: int, now: datetime) -> list[Row]:
    """Return the rows of the last `window` seconds, and every unresolved row."""
    since = now.timestamp() - window
    return [row for row in rows if not window or row.level in FAULTS or (row.order.get("last") or since) >= since]


def open_count(local: Local, acks: Mapping[str, Ack], now: datetime) -> int:
    """Return the number of kinds of error that are fatal or open."""
    return sum(state in (Standing.FATAL, Standing.OPEN) for _, state in standings(local, acks, now))


def level_of(state: Standing) -> Level:
    """Return the level of a status."""
    return _LEVELS.get(state, Level.REST)


def error_lines(one: ErrorRow, job: JobFacts | None, now: datetime) -> list[tuple[Level, str]]:
    """Return the message, its impact on the job, and the known options, least loss first."""
    known = remedy_for(one.code, one.message)
    if job is not None and standing(one, job, True, now) is Standing.RECOVERED:
        known = recovered(known)
    first, last = clock(one.first_at), clock(one.last_at)
    when = f"at {last}" if one.first_at == one.last_at else f"from {first} to {last}"
    place = ", ".join(part for part in (one.side, one.code and f"code {safe(one.code, 40)}") if part)
    times = f"{many(one.count, 'time')}, {when} UTC, {age(one.last_at, now)} ago"
    said = [
        (Level.FINE, labelled("Problem", safe(message_first(one.message), 2_000))),
        (Level.REST, labelled("Detail", f"{place}: {times}" if place else times)),
    ]
    if job is not None and job.state is not None:
        stays = "" if job.state is JobState.RUNNING else "; position held, nothing skipped"
        said.append((job.level, labelled("Impact", f"job {job.state.value}{stays}")))
    title = " ".join(part for part in (known.code, named(known.title, one.job)) if part)
    said.append((Level.FINE, labelled("Means", f"{title}: {known.means}")))
    table, slot = (job.table_in(one.message), job.slot) if job is not None else ("", "")
    ended = job is not None and job.trouble and one.message.startswith(job.trouble)
    do = next((each.do for each in job.faults if each.rule == "job_failed"), "") if job is not None and ended else ""
    options = with_act(safe(do, TYPED), known.options)
    return said + (listed("Action", numbered(options, one.job, table, slot)) if options else [])


def summary(rows: Iterable[Row]) -> str:
    """Return the title's figures: the number of error kinds and the total number of errors.

    >>> summary([])
    '0 kinds, 0 occurrences'
    """
    every = list(rows)
    times = sum(int(row.order.get("number") or 0) for row in every)
    return f"{many(len(every), 'kind')}, {count(times)} {'occurrence' if times == 1 else 'occurrences'}"


def dn_of(message: str) -> str:
    """Return the DN that a message refers to; "-" if there is none.

    >>> dn_of("dn_6017: connection refused"), dn_of("SLOT LOST: dn_1 and 3 other lanes: gone"), dn_of("driver ended: x")
    ('dn_6017', 'dn_1', '-')
    """
    found = _DN.match(message)
    return found[1] if found and found[1] not in ("source", "sink") else "-"


def message_first(message: str) -> str:
    """Return the message with the error first and the server's address last, because a narrow list truncates the end.

    >>> refused = 'connection to server at "h" (10.0.0.1), port 5432 failed: Connection refused Is the server running?'
    >>> print(message_first(f"dn_3: sink mart (h:5432/mart as etl): {refused}"))
    dn_3: Connection refused: sink mart (h:5432/mart as etl)
    >>> message_first("source dws1 (h:8000/d as r) did not answer"), message_first("the file was locked")
    ('did not answer: source dws1 (h:8000/d as r)', 'the file was locked')
    """
    found = _WHERE.fullmatch(message)
    said = _LIBPQ.sub("", found["said"] if found else message, count=1).partition(_ASKS)[0].strip()
    return f"{found['lane'] or ''}{said}: {found['end']}" if found else said or message


def _row(one: ErrorRow, state: Standing) -> Row:
    level = level_of(state)
    cells = {
        "mark": level.value,
        "last": clock(one.last_at),
        "first": clock(one.first_at),
        "number": count(one.count),
        "job": safe(one.job, 80),
        "dn": safe(dn_of(one.message), 40),
        "side": one.side or "?",
        "state": state.value,
        "signature": safe(message_first(one.message), 300),
    }
    order = {"last": one.last_at.timestamp(), "first": one.first_at.timestamp(), "number": float(one.count)}
    return Row(error_key(one), level, cells, order)
