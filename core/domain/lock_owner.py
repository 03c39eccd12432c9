"""Who has a lock that we want, in words: the session, its login, since when it is there, its statement. Pure.

PostgreSQL, "pg_stat_activity": of another login's session the view gives user and application name, and for the rest
NULL and '<insufficient privilege>' to whoever is no member of pg_read_all_stats. DWS, PG_STAT_ACTIVITY: an ordinary
login sees its own sessions only, and PG_LOCKS those of one coordinator. Since when a lock is had no view tells, so it
is said since when its session is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slotkeeper.core.domain.text import safe

HIDDEN = "hidden"
PREFIX = "slotkeeper/"
"""What the names of all sessions of jobs begin with; anybody may take such a name."""
UNSEEN = "a session that is not shown here: it has just ended, or another coordinator of the server has it"
_SHORT = 80
_LITERALS = re.compile(r"\$(\w*)\$.*?(?:\$\1\$|$)|'(?:[^']|'')*(?:'|$)", re.DOTALL)


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
        name = self.application or ""
        return name.removeprefix(PREFIX).rpartition("/")[0] if name.startswith(PREFIX) else ""

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
        name, user = (HIDDEN if one is None else safe(one, _SHORT) or "without a name" for one in self._names)
        said = HIDDEN if self.statement is None else without_literals(self.statement) or "none"
        return f"session {name}, user {user}, pid {self.pid}, connected since {since}, last statement {said}"

    @property
    def _names(self) -> tuple[str | None, str | None]:
        return self.application, self.user


def without_literals(statement: str) -> str:
    """A statement on one line, at most 80 characters of it, and without what stands in quotes: it may be a secret.

    >>> without_literals("ALTER ROLE eve\\n  PASSWORD 'it''s me' VALID UNTIL $$x$$")
    "ALTER ROLE eve PASSWORD '...' VALID UNTIL '...'"
    """
    return safe(" ".join(_LITERALS.sub("'...'", statement).split()), _SHORT)


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
    return f"have its user or an administrator of the server run `SELECT pg_terminate_backend({owners[0].pid})`"
