"""Rules for ending a session that blocks jobs: eligible sessions, required privileges, and errors. Pure.

PostgreSQL, "Server Signaling Functions" (pg_terminate_backend): allowed to members of the session's role and to roles
with the privileges of pg_signal_backend, except for sessions of superusers; a superuser can end any session. MySQL and
MariaDB, "KILL": a login can end its own sessions, and any session with the privilege CONNECTION_ADMIN (MariaDB:
CONNECTION ADMIN) or SUPER.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from slotkeeper.core.domain.locks import PREFIX, Blocker, ending, named_in_act
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused

SAME_MOMENT = 0.001
"""Tolerance in seconds for the comparison of login times, which are passed as seconds since 1970."""
NOTHING = "no session was ended"


@dataclass(frozen=True, slots=True)
class InFront:
    """A session that blocked a job's session when the server was queried, and whether this login can end it.

    `client` is false for a background process of the server; `right` names the privilege with which this login can end
    the session, "" if it has none; `guarded` is true for a superuser's session; `sent` is whether the server has
    signaled the session to end. `kills` is the statement for a server other than PostgreSQL, and `same` the tolerance
    in seconds for comparing `began`.
    """

    blocker: Blocker
    login: str
    client: bool
    right: str
    guarded: bool
    sent: bool = False
    kills: str = ""
    same: float = SAME_MOMENT


def moment(began: float) -> str:
    """Return the start time of a session as users type it, with microseconds.

    >>> moment(90.5)
    '1970-01-01T00:01:30.500000Z'
    """
    return f"{datetime.fromtimestamp(began, timezone.utc):%Y-%m-%dT%H:%M:%S.%f}Z"


def moment_from(text: str) -> float:
    """Parse a typed start time; raises ValueError for any other string.

    >>> moment_from("1970-01-01T00:01:30.500000Z")
    90.5
    """
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if found.tzinfo is None:
        raise ValueError("without a time zone")
    return found.timestamp()


def refuse(found: InFront | None, pid: int, began: float | None, where: str) -> InFront:
    """Return the session if this login can end it; else raise Refused and name who can. `where` is the server."""
    if found is None:
        again = "`slotkeeper locks` shows the current blockers"
        raise Refused(f"pid {pid} does not block a job's session at {where}: {NOTHING}", again)
    one = found.blocker
    if one.began is None:
        shows = f"GRANT pg_read_all_stats TO {named_in_act(safe(found.login, 80))}"
        raise Refused(
            f"the login time of pid {pid} is hidden from this login: {NOTHING}",
            f"as a superuser of {where}, run `{shows}`, or end the session: `{ending(pid, None)}`",
        )
    if began is None or abs(one.began - began) > found.same:
        now = f"{one.name}, connected {moment(one.began)}"
        said = "--began was not given" if began is None else f"not the session connected {moment(began)}"
        raise Refused(f"{now}: {said}; {NOTHING}", f"to end this session, add --began {moment(one.began)}")
    if not found.client:
        raise Refused(f"pid {pid} is a server process: {NOTHING}", "wait for it, or ask the server's administrator")
    if (one.application or "").startswith(PREFIX):
        hint = "`slotkeeper jobs pause JOB` releases its locks; or wait for that job"
        raise Refused(
            f"pid {pid} has the application name of a job's session, {safe(one.application, 80)}: {NOTHING}", hint
        )
    if not found.right:
        raise Refused(f"login {safe(found.login, 80)} is not allowed to end pid {pid}: {NOTHING}", who_can(found))
    return found


def who_can(found: InFront) -> str:
    """Describe the users who can end the session, with the statement to run.

    >>> eve = Blocker(7, "eve", "psql", began=90.5)
    >>> print(who_can(InFront(eve, "etl", True, "", True)))
    a superuser can run `SELECT pg_terminate_backend(7) FROM pg_stat_activity WHERE pid = 7 AND backend_start < \
'1970-01-01 00:01:31Z'`
    """
    one = found.blocker
    line = f"`{found.kills or ending(one.pid or 0, one.began)}`"
    if found.guarded:
        return f"a superuser can run {line}"
    user, login = named_in_act(safe(one.user or "", 80)), named_in_act(safe(found.login, 80))
    if found.kills:
        grant = f"`GRANT CONNECTION_ADMIN ON *.* TO {login}` (MariaDB: CONNECTION ADMIN) allows this login to do so"
        return f"user {user}, or an administrator of the server, can run {line}; {grant}"
    grant = f"`GRANT pg_signal_backend TO {login}` allows this login to do so"
    return f"user {user}, a member of pg_signal_backend, or a superuser can run {line}; {grant}"
