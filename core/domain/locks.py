"""Who has a lock that we want, who of us waits, and whether a list of sessions is whole: values and words. Pure.

PostgreSQL, "pg_stat_activity": of another login's session the view gives user and application name, and for the rest
NULL and '<insufficient privilege>' to whoever is no member of pg_read_all_stats; None is what our login is not shown.
DWS, PG_STAT_ACTIVITY: an ordinary login sees its own sessions only, and PG_LOCKS those of one coordinator (CN). So a
list counts as whole only where that is proven. No view tells since when a lock is had: it is said since when its
session is there. Moments of a wait are seconds since 1970 by this host's clock, made of ages by the server's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Annotated

from slotkeeper.core.domain.fault import in_brief
from slotkeeper.core.domain.field import Moment, MomentOrNone, Positive, SignedOrNone
from slotkeeper.core.domain.remedy import BY_HAND, OR
from slotkeeper.core.domain.text import many, safe, typed


@dataclass(frozen=True, slots=True)
class Sight:
    """What a login can see: `coordinators` by the cluster's catalog (None: not told), `everyone` only where a right to
    all users' sessions is proven, `across` where the list of all coordinators' sessions could be read."""

    coordinators: int | None
    everyone: bool
    across: bool

    @property
    def all_coordinators(self) -> bool:
        """Whether no session is left out because it is connected elsewhere; enough for sessions of our own login."""
        return self.across or self.coordinators == 1

    @property
    def whole(self) -> bool:
        """Whether every session of the cluster is seen."""
        return self.everyone and self.all_coordinators

    @property
    def lacks(self) -> str:
        """What is not seen, in words; nothing where the list is whole.

        >>> Sight(2, False, False).lacks
        "other logins' sessions and those of 2 coordinators cannot all be seen"
        """
        where = "another coordinator" if self.coordinators is None else f"{self.coordinators} coordinators"
        parts = [] if self.everyone else ["other logins' sessions"]
        parts += [] if self.all_coordinators else [f"those of {where}"]
        return f"{' and '.join(parts)} cannot all be seen" if parts else ""


HIDDEN = "hidden"
PREFIX = "slotkeeper/"
"""What the names of all sessions of jobs begin with; anybody may take such a name."""
UNSEEN = "a session that is not shown here: it has just ended, or another coordinator of the server has it"
_SHORT = 80
_COMMENT = r"/\*(?:[^*/]+|\*(?!/)|/(?!\*))*(?:\*/|.*)|--[^\n]*"
"""One with another inside it ends at the statement's end: PostgreSQL nests comments, MySQL does not."""
_TEXT = r"{0}(?:[^{0}\\]+|{0}{0}|\\[^{0}])*(?:{0}|\\.*|\Z)"
"""One with a backslash before a quote likewise: whether that ends the text depends on the server's settings."""
_SINGLE = _TEXT.format("'")
_LITERALS = re.compile(
    rf'(?P<name>"(?:[^"]|"")*(?:"|\Z))|(?P<no>{_COMMENT})|\$(\w*)\$.*?(?:\$\3\$|\Z)|{_SINGLE}', re.DOTALL
)
_OF_MYSQL = re.compile(
    rf"(?P<name>`(?:[^`]|``)*(?:`|\Z))|(?P<no>{_COMMENT}|#[^\n]*)|{_SINGLE}|" + _TEXT.format('"'), re.DOTALL
)


@dataclass(frozen=True, slots=True)
class LockOwner:
    """A session that has a lock, as our login is shown it; None is what it is not shown.

    `pid` is None for a prepared transaction, `since` the login of the session by the server's clock, `seconds` how long
    ago that was by the same clock. `rows`: it has the lock of our progress rows beside it, as only a job of them takes.
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
        """The job that the session's name says, else nothing."""
        return job_named(self.application or "")

    @property
    def text(self) -> str:
        """The session in words, each part that is not shown as `hidden`.

        >>> LockOwner(4711, "eve", "psql", None, None, "SELECT pg_advisory_lock(7)").text
        'session psql, user eve, pid 4711, connected since hidden, last statement SELECT pg_advisory_lock(7)'
        """
        if self.pid is None:
            return "a prepared transaction (see pg_prepared_xacts)"
        since = HIDDEN
        if self.since is not None:
            since = f"{self.since:%Y-%m-%dT%H:%M:%SZ} ({self.seconds or 0:.0f} s ago by its server)"
        name, user = (
            HIDDEN if one is None else safe(one, _SHORT) or "without a name" for one in (self.application, self.user)
        )
        said = HIDDEN if self.statement is None else without_literals(self.statement) or "none"
        return f"session {name}, user {user}, pid {self.pid}, connected since {since}, last statement {said}"


def without_literals(statement: str, of_mysql: bool = False) -> str:
    """A statement on one line, at most 80 characters of it, without comments, nor what stands in quotes: it may be a
    secret. A quote within a comment or a name opens no text, and one of MySQL may stand between double quotes.

    >>> without_literals("ALTER ROLE eve\\n  PASSWORD 'it''s me' VALID UNTIL $$x$$")
    "ALTER ROLE eve PASSWORD '...' VALID UNTIL '...'"
    """

    def shown(found: re.Match[str]) -> str:
        said, comment = found["name"], found["no"]
        return said or (" " if comment is not None and "/*" not in comment[2:] else "'...'")

    bare = (_OF_MYSQL if of_mysql else _LITERALS).sub(shown, statement)
    return safe(" ".join(bare.split()), _SHORT)


def explain_lease(place: str, owners: Sequence[LockOwner], by_rows: str) -> str:
    """Why a lease cannot be had: `place` is the slot in words, `by_rows` who ran its job last by the progress rows.

    >>> explain_lease("ods.orders slot s", [LockOwner(7, "eve", "psql", None, None, None)], "")
    'the lease of ods.orders slot s is held: by no job of ours, but session psql, user eve, pid 7, connected since \
hidden, last statement hidden'
    """
    what = f"the lease of {place} is held: "
    last = f"; by the progress rows the last to run was {by_rows}" if by_rows else ""
    if not owners:
        return f"{what}by {UNSEEN}{last}"
    more = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
    if is_stranger(owners):
        return f"{what}by no job of ours, but {owners[0].text}{more}{last}"
    return f"{what}{by_rows or f'by job {safe(owners[0].job, _SHORT)}'} ({owners[0].text}){more}"


def explain_writer(owner: LockOwner, other_schema: bool) -> str:
    """Whose a target is by its lock; `other_schema`: the progress rows here know no job of it."""
    if not owner.job:
        return f"no job: its lock is held by {owner.text}"
    return f"job {safe(owner.job, _SHORT)}{' of another progress schema' if other_schema else ''} ({owner.text})"


def is_stranger(owners: Sequence[LockOwner]) -> bool:
    """Whether a lock is held, and by nobody who says that he is a job."""
    return not any(one.rows or one.job for one in owners)


def lease_cure(owners: Sequence[LockOwner], job: str, passed_by: str = "") -> str:
    """What to do about it, for the job that wants it; `passed_by` is how another than a job takes the lease over."""
    passes = passed_by or f"`slotkeeper jobs start {safe(job, _SHORT)} --take-over`"
    if any(one.rows for one in owners):
        return f"stop that job, or {passes}, which ends the sessions of the same job and login"
    if not is_stranger(owners):
        return f"stop that job, or {passes}"
    return f"{end_it(owners)}; {passes} goes on without it: the progress rows fence each step"


def target_cure(owners: Sequence[LockOwner]) -> str:
    """What to do about a target's lock; nothing passes that one, because no fence is behind it."""
    if not is_stranger(owners):
        return "one target takes one job: choose another target, or stop that job"
    return f"{end_it(owners)}; no --take-over passes this lock: no fence is behind it"


def end_it(owners: Sequence[LockOwner]) -> str:
    """How a session that is no job's is ended."""
    if not owners or owners[0].pid is None:
        return "have whoever has it give it up"
    since = None if owners[0].since is None else owners[0].since.timestamp()
    return f"have its user or an administrator of the server run `{ending(owners[0].pid, since)}`"


def ending(pid: int, began: float | None) -> str:
    """The statement that ends a session, and none that has its pid later: who reads it may do so hours after that.

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
"""Seconds by which a moment may be measured later than it was before."""
SHORTENED = re.compile(r".{10}-[0-9a-f]{8}")
"""What `slotkeeper.core.wiring.worker.session_name` makes of a job's name of more than 19 characters."""
_NAMED = re.compile(rf"{PREFIX}([A-Za-z][A-Za-z0-9_-]{{0,39}})/.*", re.DOTALL)
"""Anybody may call a session so, and what is in front of the second slash stands in acts: nothing but a job's name."""
NEVER = "slotkeeper ends no session of others by itself"


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session, or a prepared transaction, that is in front of one of ours."""

    pid: Annotated[int | None, 1]
    """Its pid at the server; null: a prepared transaction."""
    user: str | None = None
    """Its login, empty for a process of the server's own (a vacuum by itself); null: not shown to our login."""
    application: str | None = None
    """Its name; null: not shown to our login."""
    state: str | None = None
    """What it does, as the server says; null: not shown to our login."""
    since: MomentOrNone = None
    """When its transaction began; null: not shown to our login."""
    statement: str | None = None
    """Its statement; null: not shown to our login."""
    waits: bool = False
    """Whether it waits for a lock itself, and has none that keeps us out but its place in the queue, or waits
    elsewhere."""
    transaction: str = ""
    """What tells it from a later one of its session."""
    gid: str = ""
    """The name of a prepared transaction, or empty."""
    node: str = ""
    """The node of a DWS whose lock it is, or empty."""
    query: SignedOrNone = None
    """The number of its query, where the server (a DWS) numbers them; null: none was told."""
    began: MomentOrNone = None
    """When its session began, by its server's clock; null: not shown to our login."""

    def is_session_of(self, other: Blocker) -> bool:
        """Whether both are one session: a DWS has a pid of it per node, and one query."""
        return self.query == other.query if self.query and other.query else self.pid == other.pid

    @property
    def job(self) -> str:
        """The job that the session's name says, else nothing; anybody may take such a name."""
        return job_named(self.application or "")

    @property
    def name(self) -> str:
        """Who it is, in words.

        >>> Blocker(4711, "eve", "psql").name, Blocker(8, "", "").name, Blocker(None, "eve", gid="left").name
        ('pid 4711, user eve, psql', 'pid 8, a process of the server', "prepared transaction 'left' of user eve")
        """
        if self.pid is None:
            return f"prepared transaction '{safe(self.gid, _SHORT)}' of user {_shown(self.user)}"
        at = f" on {safe(self.node, _SHORT)}" if self.node else ""
        if self.user == "":
            return f"pid {self.pid}{at}, a process of the server"
        application = "application hidden" if self.application is None else safe(self.application, _SHORT)
        said = f"job {safe(self.job, _SHORT)} ({application})" if self.job else application or "no application name"
        return f"pid {self.pid}{at}, user {_shown(self.user)}, {said}"

    def doing(self, now: float | None) -> str:
        """What it does, for how long unless `now` is None, and its statement without literals.

        >>> Blocker(1, "eve", "psql", "idle in transaction", 42.0, "LOCK TABLE mart.orders").doing(100.0)
        'idle in transaction for 58 s: LOCK TABLE mart.orders'
        >>> Blocker(1, "eve", "psql").doing(100.0)
        'its state and statement are hidden from our login'
        """
        lasts = "" if self.since is None or now is None else f" for {in_brief(max(0.0, now - self.since))}"
        if self.pid is None:
            return f"prepared{lasts}"
        if self.state is None and self.statement is None:
            return f"its state and statement are {HIDDEN} from our login" + (f", there{lasts}" if lasts else "")
        said = HIDDEN if self.statement is None else without_literals(self.statement) or "none"
        return f"{safe(self.state, _SHORT) if self.state else f'state {HIDDEN}'}{lasts}: {said}"


@dataclass(frozen=True, slots=True)
class LockWait:
    """A session of ours that waits for a lock."""

    pid: Positive
    """Our session's pid at the server."""
    session: str
    """Our session's name at the server."""
    thing: str
    """What it waits for, in words ("mart.orders", "a row of mart.orders")."""
    mode: str
    """The lock that it wants, as the server names it."""
    since: Moment
    """When it was first seen waiting for the same one in front, over all its attempts."""
    statement: str | None = None
    """Its statement; null: not shown to our login."""
    blockers: tuple[Blocker, ...] = ()
    """Who is in front, those first that wait for nobody."""
    waits: bool = True
    """Whether it waits at this moment, and not between two attempts, while what was in front is still there."""
    more: int = 0
    """How many more are in front, which `blockers` does not list."""

    @property
    def job(self) -> str:
        """Whose session it is."""
        return job_named(self.session)

    @property
    def root(self) -> Blocker | None:
        """Who has to go on or give up, for everybody behind to go on; None where nobody is shown."""
        return self.blockers[0] if self.blockers else None

    @property
    def key(self) -> tuple[str, int | None, str]:
        """The same as long as the same one is in front of us at the same thing."""
        root = self.root
        return (self.thing, root.pid if root else None, root.transaction or root.gid if root else "")


@dataclass(frozen=True, slots=True)
class Locked:
    """One thing that is locked, by one session: `cause` and `do` in words, `since` when, `sessions` how many wait."""

    thing: str
    pid: int | None
    cause: str
    do: str
    since: float
    sessions: int


def job_named(session: str) -> str:
    """The job in a session's name; nothing where the name is none of ours.

    >>> job_named("slotkeeper/orders/7"), job_named("slotkeeper/orders/7/copy"), job_named("slotkeeper/`x`/7")
    ('orders', 'orders', '')
    """
    found = _NAMED.fullmatch(session)
    return found[1] if found else ""


def continued(before: Iterable[LockWait], seen: Iterable[LockWait]) -> tuple[LockWait, ...]:
    """What is seen now, each since when it was first seen: a new attempt of ours does not begin it anew.

    >>> first = LockWait(1, "slotkeeper/a/1", "m.t", "RowExclusiveLock", 10.0, blockers=(Blocker(7),))
    >>> [one.since for one in continued([first], [replace(first, pid=2, since=40.0)])]
    [10.0]
    """
    began: dict[tuple[str, int | None, str], float] = {}
    for one in before:
        began[one.key] = min(one.since, began.get(one.key, one.since))
    found = []
    for one in seen:
        # the same number as before for the same moment: ages measured twice differ by what the way took
        since = began.get(one.key, one.since)
        found.append(replace(one, since=one.since if since > one.since + AGES_DIFFER else since))
    return tuple(found)


def locked(waits: Iterable[LockWait], now: float | None = None) -> tuple[Locked, ...]:
    """What is locked and by whom, the longest first: one for each thing and who is in front of all at it.

    Its cause says how long that one has been there only with `now`: of two times in a line one is taken for the other.
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
    """Who keeps us out, in one sentence; for how long it has been there unless `now` is None.

    >>> eve = Blocker(4711, "eve", "psql", "idle in transaction", 42.0, "LOCK TABLE mart.orders")
    >>> cause(LockWait(1, "slotkeeper/a/1", "mart.orders", "RowExclusiveLock", 90.0, blockers=(eve,)), 100.0)
    'mart.orders is locked by pid 4711, user eve, psql, idle in transaction for 58 s: LOCK TABLE mart.orders'
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
        said += f"; in the queue before us: {queued[0].name}" + _more(queued)
    return f"{said}; {many(wait.more, 'more session')} in front" if wait.more else said


def to_do(wait: LockWait) -> str:
    """What is safe to do, by whom, with the SQL to type.

    >>> to_do(LockWait(1, "slotkeeper/a/1", "m.t", "RowExclusiveLock", 9.0, blockers=(Blocker(7, "eve", "psql"),)))
    'by hand: have user eve commit or roll back; or as an administrator of the sink type \
`SELECT pg_terminate_backend(7)`; slotkeeper ends no session of others by itself'
    """
    roots = [one for one in wait.blockers if not one.waits] or list(wait.blockers[:1])
    if not roots:
        return f"{BY_HAND}find the transaction by pg_locks on each coordinator and have it ended; {NEVER}"
    return "; ".join([*dict.fromkeys(_end(one, wait.job) for one in roots), NEVER])


def _end(one: Blocker, own: str) -> str:
    user = named_in_act(_shown(one.user))
    if one.pid is None:
        ends = f"in this database of the sink, `ROLLBACK PREPARED {_text(one.gid)}`"
        return f"{BY_HAND}ask user {user} whether it is wanted, who may COMMIT it{OR}type, {ends}"
    if one.job and one.job == own:
        # mostly a step that took too long and was given up: its server goes on with the statement all the same
        return f"{BY_HAND}wait: it is this job's own session, whose statement runs{OR}find what makes that slow"
    if one.job:
        named = typed(one.job)
        if SHORTENED.fullmatch(one.job):
            wait = f"wait for the job whose sessions are called {named}, or pause it"
            return f"{BY_HAND}{wait} (`slotkeeper jobs list` has its name)"
        return f"{BY_HAND}wait for job {safe(one.job, _SHORT)}{OR}`slotkeeper jobs pause {named}`"
    whose = f"have user {user} commit or roll back" if one.user != "" else "let the server's own process end"
    return f"{BY_HAND}{whose}{OR}as an administrator of the sink type {ended_at(one)}"


def ended_at(one: Blocker) -> str:
    """What an administrator types to end a session. The pid of one at a node of a DWS is no coordinator's."""
    if not (one.node or one.query):
        return f"`{ending(one.pid or 0, one.began)}`"
    columns, by, which = "coorname, pid", f"query_id = {one.query}", ""
    if not one.query:  # a session between two queries has number 0, as all others there have
        by = f"usename = {_text(one.user)}" if one.user else "state <> 'idle'"
        columns, which = "coorname, pid, state, xact_start", ", whose xact_start tells which it is,"
    found = f"`SELECT {columns} FROM pgxc_stat_activity WHERE {by}`"
    return f"{found}{which} and at that coordinator `SELECT pg_terminate_backend(pid)`"


def _text(text: str) -> str:
    """A literal of SQL for an act; what cannot be typed, or would end the act, by its number (PostgreSQL, "Lexical
    Structure", Unicode escapes).

    >>> print(_text("o'k"), _text("a`b"))
    'o''k' U&'a\\+000060b'
    """
    if safe(text, len(text)) == text and "`" not in text:
        return "'{}'".format(text.replace("'", "''"))
    parts = (one if one.isascii() and one.isalnum() else f"\\+{ord(one):06x}" for one in text)
    return f"U&'{''.join(parts)}'"


def named_in_act(name: str) -> str:
    """A name that others chose, for the text of an act: what stands in backquotes there is typed, and ";" divides it.

    >>> print(named_in_act("eve`; or `DROP TABLE x"))
    eve\\x60\\x3b or \\x60DROP TABLE x
    """
    return re.sub("[`;]", lambda found: f"\\x{ord(found[0]):02x}", name)


def ordered(blockers: Iterable[Blocker]) -> tuple[Blocker, ...]:
    """Those first that wait for nobody, strangers before jobs of ours, the oldest first."""
    return tuple(sorted(blockers, key=_place))


def _place(one: Blocker) -> tuple[bool, bool, float, int]:
    return (one.waits, bool(one.job), one.since if one.since is not None else float("inf"), one.pid or 0)


def _more(some: Sequence[Blocker]) -> str:
    return f" and {many(len(some) - 1, 'more session')}" if len(some) > 1 else ""


def _shown(text: str | None) -> str:
    return HIDDEN if text is None else safe(text, _SHORT)
