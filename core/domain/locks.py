"""Lock waits of a job's sessions in the sink: holders, waiters, completeness of session lists, descriptions. Pure.

PostgreSQL, "pg_stat_activity": a login that is not a member of pg_read_all_stats sees the user and application name of
another login's session, and NULL or '<insufficient privilege>' in the other columns; such a value is None here. DWS,
PG_STAT_ACTIVITY: an ordinary login sees only its own sessions, and PG_LOCKS shows the locks of one coordinator (CN). A
list is considered complete only if its completeness is proven. No view contains the time at which a lock was granted,
so descriptions contain the start of the session instead. Times of a wait are in seconds since 1970 by this host's
clock, computed from ages that the server measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Annotated

from slotkeeper.core.domain.fault import in_brief
from slotkeeper.core.domain.field import Moment, MomentOrNone, Positive, SignedOrNone
from slotkeeper.core.domain.remedy import OR, THEN
from slotkeeper.core.domain.text import many, safe, typed


@dataclass(frozen=True, slots=True)
class Sight:
    """The extent to which a login can see the sessions of a server.

    `coordinators` is the number of coordinators in the cluster's catalog (None: unknown); `everyone` is whether the
    login is proven to have the privilege to see all users' sessions; `across` is whether the list of the sessions of
    all coordinators was readable.
    """

    coordinators: int | None
    everyone: bool
    across: bool

    @property
    def all_coordinators(self) -> bool:
        """Whether the list contains the sessions of all coordinators, at least those of the same login."""
        return self.across or self.coordinators == 1

    @property
    def whole(self) -> bool:
        """Whether the list contains every session of the cluster."""
        return self.everyone and self.all_coordinators

    @property
    def lacks(self) -> str:
        """A description of the sessions that this login cannot see; "" if the list is complete.

        >>> Sight(2, False, False).lacks
        'cannot see all sessions of other logins and of 2 coordinators'
        """
        where = "another coordinator" if self.coordinators is None else f"{self.coordinators} coordinators"
        parts = [] if self.everyone else ["of other logins"]
        parts += [] if self.all_coordinators else [f"of {where}"]
        return f"cannot see all sessions {' and '.join(parts)}" if parts else ""


HIDDEN = "hidden"
PREFIX = "slotkeeper/"
"""The prefix of the names of all job sessions; any session can take such a name."""
UNSEEN = "a session that this login cannot see: it has just ended, or it is on another coordinator"
_SHORT = 80
_COMMENT = r"/\*(?:[^*/]+|\*(?!/)|/(?!\*))*(?:\*/|.*)|--[^\n]*"
"""Matches a comment. A nested comment is treated as extending to the end of the statement, because PostgreSQL nests
comments and MySQL does not."""
_TEXT = r"{0}(?:[^{0}\\]+|{0}{0}|\\[^{0}])*(?:{0}|\\.*|\Z)"
"""Matches a literal. A literal with a backslash before a quote is treated as extending to the end of the statement,
because it depends on the server's settings whether that quote ends the literal."""
_SINGLE = _TEXT.format("'")
_LITERALS = rf'(?P<name>"(?:[^"]|"")*(?:"|\Z))|(?P<no>{_COMMENT})|\$(\w*)\$.*?(?:\$\3\$|\Z)|{_SINGLE}'
_OF_MYSQL = rf"(?P<name>`(?:[^`]|``)*(?:`|\Z))|(?P<no>{_COMMENT}|#[^\n]*)|{_SINGLE}|" + _TEXT.format('"')


@dataclass(frozen=True, slots=True)
class LockOwner:
    """A session that holds a lock; None for a value that the login cannot see.

    `pid` is None for a prepared transaction. `since` is the session's start by the server's clock, `seconds` its age by
    the same clock. `rows`: the session also holds the lock on the progress rows, which only their job takes.
    """

    pid: int | None
    user: str | None
    application: str | None
    since: datetime | None
    seconds: float | None
    statement: str | None
    rows: bool = False

    @property
    def job(self) -> str:
        return job_named(self.application or "")

    @property
    def text(self) -> str:
        """A description of the session, with `hidden` for each value that the login cannot see.

        >>> LockOwner(4711, "eve", "psql", None, None, "SELECT pg_advisory_lock(7)").text
        'session psql, user eve, pid 4711, connected since hidden, last statement SELECT pg_advisory_lock(7)'
        """
        if self.pid is None:
            return "a prepared transaction (see pg_prepared_xacts)"
        since = HIDDEN
        if self.since is not None:
            since = f"{self.since:%Y-%m-%dT%H:%M:%SZ} ({self.seconds or 0:.0f} s ago by the server's clock)"
        name, user = (
            HIDDEN if one is None else safe(one, _SHORT) or "without a name" for one in (self.application, self.user)
        )
        said = HIDDEN if self.statement is None else without_literals(self.statement) or "none"
        return f"session {name}, user {user}, pid {self.pid}, connected since {since}, last statement {said}"


def without_literals(statement: str, of_mysql: bool = False) -> str:
    """Return a statement on one line of at most 80 characters, without comments and literals.

    A literal may contain a secret. A quote in a comment or name does not start a literal. MySQL literals can be in
    double quotes.

    >>> without_literals("ALTER ROLE eve\\n  PASSWORD 'it''s me' VALID UNTIL $$x$$")
    "ALTER ROLE eve PASSWORD '...' VALID UNTIL '...'"
    """

    def shown(found: re.Match[str]) -> str:
        said, comment = found["name"], found["no"]
        return said or (" " if comment is not None and "/*" not in comment[2:] else "'...'")

    bare = re.sub(_OF_MYSQL if of_mysql else _LITERALS, shown, statement, flags=re.DOTALL)
    return safe(" ".join(bare.split()), _SHORT)


def explain_lease(place: str, owners: Sequence[LockOwner], by_rows: str) -> str:
    """Describe the holder of a lease; `place` names the slot, `by_rows` is the last run according to the progress rows.

    >>> explain_lease("ods.orders slot s", [LockOwner(7, "eve", "psql", None, None, None)], "")
    'the lease of ods.orders slot s is held by a session that belongs to no job: session psql, user eve, pid 7, \
connected since hidden, last statement hidden'
    """
    what = f"the lease of {place} is held by "
    last = f"; according to the progress rows, the last run was {by_rows}" if by_rows else ""
    if not owners:
        return f"{what}{UNSEEN}{last}"
    more = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
    if is_stranger(owners):
        return f"{what}a session that belongs to no job: {owners[0].text}{more}{last}"
    return f"{what}{by_rows or f'job {safe(owners[0].job, _SHORT)}'} ({owners[0].text}){more}"


def explain_writer(owner: LockOwner, other_schema: bool) -> str:
    """Describe the session that holds a target's lock; `other_schema`: these progress rows do not list its job."""
    if not owner.job:
        return f"no job: its lock is held by {owner.text}"
    return f"job {safe(owner.job, _SHORT)}{' of another progress schema' if other_schema else ''} ({owner.text})"


def is_stranger(owners: Sequence[LockOwner]) -> bool:
    """Return whether none of a lock's holders has a job's session name or a job's locks."""
    return not any(one.rows or one.job for one in owners)


def lease_cure(owners: Sequence[LockOwner], job: str, passed_by: str = "") -> str:
    """Return the action for a job that waits for a lease; `passed_by` is the command to take it over, if not start."""
    passes = passed_by or f"`slotkeeper jobs start {safe(job, _SHORT)} --take-over`"
    if any(one.rows for one in owners):
        return f"stop that job, or {passes}, which ends the sessions of the same job and login"
    if not is_stranger(owners):
        return f"stop that job, or {passes}"
    return f"{end_it(owners)}; {passes} continues without the lease: the progress rows fence each step"


def target_cure(owners: Sequence[LockOwner]) -> str:
    """Return the action for a wait for a target's lock; no option bypasses it because no fence protects the target."""
    if not is_stranger(owners):
        return "choose another target, or stop that job: a target can have only one job"
    return f"{end_it(owners)}; --take-over does not bypass this lock: no fence protects the target"


def end_it(owners: Sequence[LockOwner]) -> str:
    """Return the action that ends a session that belongs to no job."""
    if not owners or owners[0].pid is None:
        return "ask its owner to release the lock"
    since = None if owners[0].since is None else owners[0].since.timestamp()
    return f"ask its user, or an administrator of the server, to run `{ending(owners[0].pid, since)}`"


def ending(pid: int, began: float | None) -> str:
    """Return the statement that ends a session; even hours later, it does not end a newer session with the same pid.

    >>> ending(7, 90.5), ending(7, None)
    ("SELECT pg_terminate_backend(7) FROM pg_stat_activity WHERE pid = 7 AND backend_start < '1970-01-01 00:01:31Z'", \
'SELECT pg_terminate_backend(7)')
    """
    ends = f"SELECT pg_terminate_backend({pid})"
    if began is None:
        return ends
    later = datetime.fromtimestamp(int(began) + 1, timezone.utc)
    return f"{ends} FROM pg_stat_activity WHERE pid = {pid} AND backend_start < '{later:%Y-%m-%d %H:%M:%S}Z'"


AGES_DIFFER = 1.0
"""Maximum difference in seconds between two measurements of the same point in time."""
SHORTENED = re.compile(r".{10}-[0-9a-f]{8}")
"""Matches the shortened form of a job name longer than 19 characters (`slotkeeper.core.wiring.worker.session_name`)."""
_NAMED = re.compile(rf"{PREFIX}([A-Za-z][A-Za-z0-9_-]{{0,39}})/.*", re.DOTALL)
"""Matches the name of a job's session. Any session can have such a name, and the part before the second slash is
included in actions, so only a valid job name matches."""
NEVER = "Slotkeeper never ends another user's session by itself"


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session, or a prepared transaction, that a job's session waits for."""

    pid: Annotated[int | None, 1]
    """Its pid on the server; null: a prepared transaction."""
    user: str | None = None
    """Its login, empty for a process of the server (such as autovacuum); null: hidden from the job's login."""
    application: str | None = None
    """Its application name; null: hidden from the job's login."""
    state: str | None = None
    """Its state as the server reports it; null: hidden from the job's login."""
    since: MomentOrNone = None
    """When its transaction started; null: hidden from the job's login."""
    statement: str | None = None
    """Its statement; null: hidden from the job's login."""
    waits: bool = False
    """Whether it is itself waiting; if it waits for a lock, it blocks the job only by its position in the queue."""
    transaction: str = ""
    """An identifier that differs for a later transaction of the same session."""
    gid: str = ""
    """The name of a prepared transaction, or empty."""
    node: str = ""
    """The DWS node on which it holds the lock, or empty."""
    query: SignedOrNone = None
    """The number of its query, if the server (DWS) numbers queries; null: unknown."""
    began: MomentOrNone = None
    """When its session started, by its server's clock; null: hidden from the job's login."""

    def is_session_of(self, other: Blocker) -> bool:
        """Return whether both are the same session; on DWS, a session has one query number, but one pid per node."""
        return self.query == other.query if self.query and other.query else self.pid == other.pid

    @property
    def job(self) -> str:
        """The job named in the session's name, else ""; any session can use such a name."""
        return job_named(self.application or "")

    @property
    def name(self) -> str:
        """A description of the session.

        >>> Blocker(4711, "eve", "psql").name, Blocker(8, "", "").name, Blocker(None, "eve", gid="left").name
        ('pid 4711, user eve, application psql', 'pid 8, a server process', "prepared transaction 'left' of user eve")
        """
        if self.pid is None:
            return f"prepared transaction '{safe(self.gid, _SHORT)}' of user {_shown(self.user)}"
        at = f" on {safe(self.node, _SHORT)}" if self.node else ""
        if self.user == "":
            return f"pid {self.pid}{at}, a server process"
        application = safe(self.application or "", _SHORT)
        said = (
            f"application {application or 'hidden'}"
            if application or self.application is None
            else "no application name"
        )
        said = f"job {safe(self.job, _SHORT)} ({application})" if self.job else said
        return f"pid {self.pid}{at}, user {_shown(self.user)}, {said}"

    def doing(self, now: float | None) -> str:
        """Return the session's state, with its duration unless `now` is None, and its statement without literals.

        >>> Blocker(1, "eve", "psql", "idle in transaction", 42.0, "LOCK TABLE mart.orders").doing(100.0)
        'idle in transaction for 58 s: LOCK TABLE mart.orders'
        >>> Blocker(1, "eve", "psql").doing(100.0)
        'its state and statement are hidden from this login'
        """
        lasts = "" if self.since is None or now is None else f" for {in_brief(max(0.0, now - self.since))}"
        if self.pid is None:
            return f"prepared{lasts}"
        if self.state is None and self.statement is None:
            return f"its state and statement are {HIDDEN} from this login" + (f", connected{lasts}" if lasts else "")
        said = HIDDEN if self.statement is None else without_literals(self.statement) or "none"
        return f"{safe(self.state, _SHORT) if self.state else f'state {HIDDEN}'}{lasts}: {said}"


@dataclass(frozen=True, slots=True)
class LockWait:
    """A job's session that waits for a lock."""

    pid: Positive
    """The job session's pid on the server."""
    session: str
    """The job session's name on the server."""
    thing: str
    """The locked object ("mart.orders", "a row of mart.orders")."""
    mode: str
    """The requested lock mode, as the server names it."""
    since: Moment
    """When the job was first seen waiting for this blocker, across all its attempts."""
    statement: str | None = None
    """Its statement; null: hidden from the job's login."""
    blockers: tuple[Blocker, ...] = ()
    """The sessions that block it; sessions that are not themselves waiting come first."""
    waits: bool = True
    """Whether it waits now; false: it is between two attempts, and its blocker is still present."""
    more: int = 0
    """The number of further sessions that block it, not listed in `blockers`."""

    @property
    def job(self) -> str:
        return job_named(self.session)

    @property
    def root(self) -> Blocker | None:
        """The blocker that has to finish before all others can continue; None if none is visible."""
        return self.blockers[0] if self.blockers else None

    @property
    def key(self) -> tuple[str, int | None, str]:
        """A key that stays the same while the same session blocks the job on the same object."""
        root = self.root
        return (self.thing, root.pid if root else None, root.transaction or root.gid if root else "")


@dataclass(frozen=True, slots=True)
class Locked:
    """A locked object and its blocker; `cause` and `do` are text; `since` is in seconds since 1970.

    `sessions` counts the waiting sessions.
    """

    thing: str
    pid: int | None
    cause: str
    do: str
    since: float
    sessions: int


def job_named(session: str) -> str:
    """Return the job named in a session's name; "" if it is not the name of a job's session.

    >>> job_named("slotkeeper/orders/7"), job_named("slotkeeper/orders/7/copy"), job_named("slotkeeper/`x`/7")
    ('orders', 'orders', '')
    """
    found = _NAMED.fullmatch(session)
    return found[1] if found else ""


def continued(before: Iterable[LockWait], seen: Iterable[LockWait]) -> tuple[LockWait, ...]:
    """Return the current waits, each with the time when it was first seen, which a new attempt does not reset.

    >>> first = LockWait(1, "slotkeeper/a/1", "m.t", "RowExclusiveLock", 10.0, blockers=(Blocker(7),))
    >>> [one.since for one in continued([first], [replace(first, pid=2, since=40.0)])]
    [10.0]
    """
    began: dict[tuple[str, int | None, str], float] = {}
    for one in before:
        began[one.key] = min(one.since, began.get(one.key, one.since))
    found = []
    for one in seen:
        # the same start must result in the same value, although two measured ages differ by the network latency
        since = began.get(one.key, one.since)
        found.append(replace(one, since=one.since if since > one.since + AGES_DIFFER else since))
    return tuple(found)


def locked(waits: Iterable[LockWait], now: float | None = None) -> tuple[Locked, ...]:
    """Return one entry per locked object and first blocker, the longest wait first.

    The cause includes the blocker's duration only if `now` is given, because two durations on one line are confusing.
    """
    grouped: dict[tuple[str, int | None, str], list[LockWait]] = {}
    for one in waits:
        grouped.setdefault(one.key, []).append(one)
    found = []
    for some in grouped.values():
        first, since, waiting = some[0], min(one.since for one in some), sum(one.waits for one in some)
        pid = first.root.pid if first.root else None
        found.append(Locked(first.thing, pid, cause(first, now), to_do(first), since, waiting))
    return tuple(sorted(found, key=lambda one: (one.since, one.thing)))


def cause(wait: LockWait, now: float | None) -> str:
    """Describe the blocker in one sentence, with the duration of its state unless `now` is None.

    >>> eve = Blocker(4711, "eve", "psql", "idle in transaction", 42.0, "LOCK TABLE mart.orders")
    >>> cause(LockWait(1, "slotkeeper/a/1", "mart.orders", "RowExclusiveLock", 90.0, blockers=(eve,)), 100.0)
    'mart.orders is locked by pid 4711, user eve, application psql, idle in transaction for 58 s: LOCK TABLE \
mart.orders'
    """
    root = wait.root
    if root is None:
        return f"{safe(wait.thing, _SHORT)} is locked by {UNSEEN}"
    said = f"{safe(wait.thing, _SHORT)} is locked by {root.name}, {root.doing(now)}"
    others = [one for one in wait.blockers[1:] if not one.waits]
    queued = [one for one in wait.blockers[1:] if one.waits]
    if others:
        said += f"; and by {others[0].name}" + _more(others)
    if queued:
        said += f"; earlier in the queue: {queued[0].name}" + _more(queued)
    return f"{said}; {many(wait.more, 'more session')} block it" if wait.more else said


def to_do(wait: LockWait) -> str:
    """Return the action that ends the wait, with the user who can perform it and the SQL to run.

    >>> to_do(LockWait(1, "slotkeeper/a/1", "m.t", "RowExclusiveLock", 9.0, blockers=(Blocker(7, "eve", "psql"),)))
    "Ask user eve to commit or roll back; or as an administrator of the sink, run \
`SELECT pg_terminate_backend(7)`; Slotkeeper never ends another user's session by itself"
    """
    roots = [one for one in wait.blockers if not one.waits] or list(wait.blockers[:1])
    if not roots:
        return f"Find the transaction in pg_locks on each coordinator, and ask its user to end it; {NEVER}"
    return "; ".join([*dict.fromkeys(_end(one, wait.job) for one in roots), NEVER])


def _end(one: Blocker, own: str) -> str:
    user = named_in_act(_shown(one.user))
    if one.pid is None:
        ends = f"in this database of the sink, run `ROLLBACK PREPARED {_text(one.gid)}`"
        return f"Ask user {user} to commit it, if it is still needed{OR}{ends}"
    if one.job and one.job == own:
        # usually the session of a step that took too long and was cancelled: the server still runs its statement
        return (
            f"Wait: this is the job's own session, and its statement is running{OR}find out why the statement is slow"
        )
    if one.job:
        named = typed(one.job)
        if SHORTENED.fullmatch(one.job):
            full = f"`slotkeeper jobs list` shows the full name of the job whose sessions are named {named}"
            return f"{full}{THEN}wait for that job, or pause it"
        return f"Wait for job {safe(one.job, _SHORT)}{OR}`slotkeeper jobs pause {named}`"
    whose = f"Ask user {user} to commit or roll back" if one.user != "" else "Wait for the server's own process to end"
    return f"{whose}{OR}as an administrator of the sink, run {ended_at(one)}"


def ended_at(one: Blocker) -> str:
    """Return the command with which an administrator ends a session; on DWS, pids differ by node and coordinator."""
    if not (one.node or one.query):
        return f"`{ending(one.pid or 0, one.began)}`"
    columns, by, which = "coorname, pid", f"query_id = {one.query}", ""
    if not one.query:  # every session that is between two queries has the query number 0
        by = f"usename = {_text(one.user)}" if one.user else "state <> 'idle'"
        columns, which = "coorname, pid, state, xact_start", ", identify the session by xact_start,"
    found = f"`SELECT {columns} FROM pgxc_stat_activity WHERE {by}`"
    return f"{found}{which} and on that coordinator `SELECT pg_terminate_backend(pid)`"


def _text(text: str) -> str:
    """Return an SQL literal for an action; characters that cannot be typed or would end it become Unicode escapes.

    Source: PostgreSQL, "Lexical Structure".

    >>> print(_text("o'k"), _text("a`b"))
    'o''k' U&'a\\+000060b'
    """
    if safe(text, len(text)) == text and "`" not in text:
        return "'{}'".format(text.replace("'", "''"))
    parts = (one if one.isascii() and one.isalnum() else f"\\+{ord(one):06x}" for one in text)
    return f"U&'{''.join(parts)}'"


def named_in_act(name: str) -> str:
    """Escape a name chosen by another user, because backquotes mark commands in an action and ";" separates its parts.

    >>> print(named_in_act("eve`; or `DROP TABLE x"))
    eve\\x60\\x3b or \\x60DROP TABLE x
    """
    return re.sub("[`;]", lambda found: f"\\x{ord(found[0]):02x}", name)


def ordered(blockers: Iterable[Blocker]) -> tuple[Blocker, ...]:
    """Sort blockers: sessions that do not wait first, other sessions before job sessions, older before newer."""
    return tuple(sorted(blockers, key=_place))


def _place(one: Blocker) -> tuple[bool, bool, float, int]:
    return (one.waits, bool(one.job), one.since if one.since is not None else float("inf"), one.pid or 0)


def _more(some: Sequence[Blocker]) -> str:
    return f" and {many(len(some) - 1, 'more session')}" if len(some) > 1 else ""


def _shown(text: str | None) -> str:
    return HIDDEN if text is None else safe(text, _SHORT)
