"""Proof that a new connection keeps one server session: what is set, locked and prepared there is its own.

A connection whose login named the server process that answers is that process's own: PostgreSQL, "Message Formats",
BackendKeyData ("the process ID of this backend"). A pooler gives out a number of its own (PgBouncer: a random one, as
Citus' README of pg_send_cancellation says), and so may a DWS or Hologres: those are asked over a second connection.
The mark is `geqo_seed`, which no pooler carries from client to client and which changes no result. Any user may set it
(PostgreSQL, "Genetic Query Optimizer"; DWS, the page of that name, since a DWS documents no settings of a user's own).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import cycle, islice
from typing import Any

from slotkeeper.core.domain.endpoint import NOT_KEPT, REFUSALS, Seen, breach
from slotkeeper.core.drivers import pg

LIMIT_MS = 1_000
"""For each answer, beside the grace of a call: a pooler that has no server session left must not hold a start up."""
TRANSACTIONS = 3
CLEANING = 16
TRIES = 2
ENDED = "a transaction ends the connection"
_SEEN = "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('geqo_seed')"


def is_direct(connection: pg.Connection) -> bool:
    """Whether the login named the server process that answers; one round trip, which changes nothing."""
    (pid,) = _row(connection, "SELECT pg_catalog.pg_backend_pid()")
    return int(pid) == connection.info.backend_pid


def shared(first: pg.Connection, login: Callable[[], pg.Connection]) -> str:
    """Why `first` does not keep a server session of its own; "" where it does. Both are in autocommit.

    `login` opens another connection of the same login. Its transactions lie between those of `first`, which asks while
    one is open, so that a pooler has to use another server process for it, and again once it is over: a third client
    may have the server session of `first` when that of `second` is chosen. Nothing that was set is left.
    Raises psycopg2.Error.
    """
    before, first.limit_ms = first.limit_ms, LIMIT_MS
    mark, found = _marked(first), ""
    for _ in range(TRIES):
        with closing(login()) as second:
            second.limit_ms = LIMIT_MS
            try:
                found = _taken_in_turn(first, second, mark)
            except pg.DriverError as error:
                found = is_refusal(error) or (ENDED if _is_cut(second, error) else "")
                if not found:
                    raise
            if found:
                _unmark(first, second, mark)
        if found != ENDED:
            break
        _seen(first)  # where the server has gone, this says so
    _run(first, "RESET geqo_seed")
    first.limit_ms = before
    return found


def is_refusal(error: BaseException) -> str:
    """The sentence where a pooler's words say that it keeps no session; "" where the error is another one."""
    _, text = pg.failure(error)
    return NOT_KEPT if any(words in text for words in REFUSALS) else ""


def _is_cut(connection: pg.Connection, error: pg.DriverError) -> bool:
    """Whether the connection was ended without a word, as PgBouncer does at a BEGIN in statement mode."""
    return bool(connection.closed) and pg.failure(error)[0] == "08006" and not isinstance(error, pg.NoAnswer)


def _taken_in_turn(first: pg.Connection, second: pg.Connection, mark: str) -> str:
    mine, theirs, found = [_seen(first)], list[Seen](), ""
    while not found and len(theirs) < TRANSACTIONS - 1:
        theirs.append(_seen(second, "BEGIN; "))
        found = breach(mine, theirs, mark)
        if found:  # else `first` may wait for the very session that `second` holds
            break
        mine.append(_seen(first))
        _run(second, "COMMIT")
        mine.append(_seen(first))  # a pooler that gives out what came back last gives it the session of `second` now
        found = breach(mine, theirs, mark)
    return found


def _marked(connection: pg.Connection) -> str:
    """Set the mark; "" where the server does not let us."""
    mark = f"0.{random.SystemRandom().randrange(100_001, 999_999, 2)}"
    try:
        _run(connection, f"SET geqo_seed = {mark}")
    except pg.DriverError as error:
        if pg.failure(error)[0][:2] not in ("22", "42"):
            raise
        return ""
    return mark


def _unmark(first: pg.Connection, second: pg.Connection, mark: str) -> None:
    """Take the mark away from the server session that has it, which either connection may get next."""
    for one in islice(cycle((second, first)), CLEANING if mark and not second.closed else 0):
        with suppress(pg.DriverError):
            has = _seen(one, "BEGIN; ").mark == mark
            _run(one, "RESET geqo_seed; COMMIT" if has else "COMMIT")
            if has:
                return


def _seen(connection: pg.Connection, before: str = "") -> Seen:
    pid, mark = _row(connection, before + _SEEN)
    return Seen(int(pid), str(mark))


def _row(connection: pg.Connection, statement: str) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone() if cursor.description else None
    if row is None:
        raise pg.DriverError(f"no answer to {statement}")
    return row


def _run(connection: pg.Connection, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
