"""Ending a session that blocks jobs: which one may be ended, by whom, and what is said where it may not. Pure.

PostgreSQL, "Server Signaling Functions" (pg_terminate_backend): allowed to a member of the session's role, and to one
with the privileges of pg_signal_backend, which reaches no session of a superuser; a superuser may end any. MySQL and
MariaDB, "KILL": a login ends its own sessions, and with CONNECTION_ADMIN (CONNECTION ADMIN) or SUPER any.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from slotkeeper.core.domain.locks import PREFIX, Blocker, ending, named_in_act
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused

SAME_MOMENT = 0.001
"""Seconds by which one login's time may differ from itself: it is carried as a number of seconds since 1970."""
NOTHING = "nothing was ended"


@dataclass(frozen=True, slots=True)
class InFront:
    """A session that was in front of a job's when the server was asked, and whether this login may end it.

    `client` is false for a process of the server's own; `right` names what allows it, "" where nothing does; `guarded`
    is true for a superuser's session; `sent` says whether the server has told it to end. `kills` is the statement of a
    server other than PostgreSQL, and `same` the seconds by which one moment of `began` may differ from itself.
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
    """When a session began, to the microsecond, as it is typed.

    >>> moment(90.5)
    '1970-01-01T00:01:30.500000Z'
    """
    return f"{datetime.fromtimestamp(began, timezone.utc):%Y-%m-%dT%H:%M:%S.%f}Z"


def moment_from(text: str) -> float:
    """The moment that was typed; raises ValueError for anything else.

    >>> moment_from("1970-01-01T00:01:30.500000Z")
    90.5
    """
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if found.tzinfo is None:
        raise ValueError("without a time zone")
    return found.timestamp()


def refuse(found: InFront | None, pid: int, began: float | None, where: str) -> InFront:
    """The session where it may be ended; raises Refused with who can end it where it may not. `where` is the server."""
    if found is None:
        again = "`slotkeeper locks` shows who is in front now"
        raise Refused(f"pid {pid} is not in front of a session of a job at {where}: {NOTHING}", again)
    one = found.blocker
    if one.began is None:
        shows = f"GRANT pg_read_all_stats TO {named_in_act(safe(found.login, 80))}"
        raise Refused(
            f"the login's time of pid {pid} is hidden from this login: {NOTHING}",
            f"a superuser of {where} types `{shows}`, or ends it: `{ending(pid, None)}`",
        )
    if began is None or abs(one.began - began) > found.same:
        now = f"pid {pid} is {one.name}, connected {moment(one.began)}"
        said = "no --began was typed" if began is None else f"not the session of {moment(began)}"
        raise Refused(f"{now}: {said}; {NOTHING}", f"if it is meant, type --began {moment(one.began)}")
    if not found.client:
        raise Refused(
            f"pid {pid} is a process of the server: {NOTHING}", "wait for it, or ask the server's administrator"
        )
    if (one.application or "").startswith(PREFIX):
        hint = "`slotkeeper jobs pause JOB` lets go of its locks; or wait for it"
        raise Refused(f"pid {pid} calls itself a job's session, {safe(one.application, 80)}: {NOTHING}", hint)
    if not found.right:
        raise Refused(f"login {safe(found.login, 80)} may not end pid {pid}: {NOTHING}", who_can(found))
    return found


def who_can(found: InFront) -> str:
    """Who can end it instead of us, with the line to type.

    >>> eve = Blocker(7, "eve", "psql", began=90.5)
    >>> print(who_can(InFront(eve, "etl", True, "", True)))
    a superuser can: `SELECT pg_terminate_backend(7) FROM pg_stat_activity WHERE pid = 7 AND backend_start < \
'1970-01-01 00:01:31Z'`
    """
    one = found.blocker
    line = f"`{found.kills or ending(one.pid or 0, one.began)}`"
    if found.guarded:
        return f"a superuser can: {line}"
    user, login = named_in_act(safe(one.user or "", 80)), named_in_act(safe(found.login, 80))
    if found.kills:
        grant = f"`GRANT CONNECTION_ADMIN ON *.* TO {login}` (MariaDB: CONNECTION ADMIN) lets this login"
        return f"user {user}, or an administrator of the server can: {line}; {grant}"
    grant = f"`GRANT pg_signal_backend TO {login}` lets this login"
    return f"user {user}, a member of pg_signal_backend, or a superuser can: {line}; {grant}"
