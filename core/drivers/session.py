"""One session on a server, which is opened on demand, dropped after a driver error, and closable from any thread.

A `Dialect` has the settings of a kind of server; named statements are in the dialect's SQL files.

A connection must keep one server session: settings, locks and prepared statements belong to that session. The
connection is direct if the server process that answers is the one named at login: PostgreSQL, "Message Formats",
BackendKeyData ("the process ID of this backend"). A pooler returns its own number (PgBouncer: a random number,
according to Citus' README of pg_send_cancellation), and DWS and Hologres can do so as well. In these cases, a second
connection is used for the test. The marker is `geqo_seed`, which no pooler transfers from client to client and which
changes no result. Any user can set it (PostgreSQL, "Genetic Query Optimizer"; DWS has a page of the same name, but
documents no user-defined settings).

Sessions do not use the login's own search_path (ADR 0025); `doctor` reports that path.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, BinaryIO

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.endpoint import CURE, NOT_KEPT, REFUSALS, Endpoint, Line, Secret, Seen, breach
from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused, SlotkeeperError, TooLarge, Unreachable
from slotkeeper.core.sqltext import dotted, quoted, statements

LIMIT_MS = 1_000
"""Time limit of each answer in ms, without a call's grace period: a pooler without a free session must not delay a
start."""
ROUNDS = 3
CLEANING = 16
TRIES = 2
ENDED = "a transaction ends the connection"
_SEEN = "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('geqo_seed')"


def is_direct(connection: pg.Connection) -> bool:
    """Return whether the answering server process is the one named at login; one round trip, which changes nothing."""
    (pid,) = _row(connection, "SELECT pg_catalog.pg_backend_pid()")
    return int(pid) == connection.info.backend_pid


def shared(first: pg.Connection, login: Callable[[], pg.Connection]) -> str:
    """Return why `first` does not keep its own server session; "" if it does. Both connections are in autocommit.

    `login` opens a second connection of the same login, whose transactions run between those of `first`. `first` is
    queried while such a transaction is open, so that a pooler must use another server process for it, and again after
    it: a third client can hold the server session of `first` when the pooler chooses a session for `second`. All
    settings are reset. Raises psycopg2.Error.
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
        _seen(first)  # raises if the server is no longer available
    _run(first, "RESET geqo_seed")
    first.limit_ms = before
    return found


def is_refusal(error: BaseException) -> str:
    """Return the reason if a pooler's error message says that it keeps no session; "" for any other error."""
    _, text = pg.failure(error)
    return NOT_KEPT if any(words in text for words in REFUSALS) else ""


def _is_cut(connection: pg.Connection, error: pg.DriverError) -> bool:
    """Return whether the connection was closed without a message, as PgBouncer does at a BEGIN in statement mode."""
    return bool(connection.closed) and pg.failure(error)[0] == "08006" and not isinstance(error, pg.NoAnswer)


def _taken_in_turn(first: pg.Connection, second: pg.Connection, mark: str) -> str:
    mine, theirs, found = [_seen(first)], list[Seen](), ""
    while not found and len(theirs) < ROUNDS:
        theirs.append(_seen(second, "BEGIN; "))
        found = breach(mine, theirs, mark)
        if found:  # otherwise `first` could wait for the session that `second` holds
            break
        mine.append(_seen(first))
        _run(second, "COMMIT")
        # `first` now gets the session of `second` from a last-in-first-out pooler, and later from a round-robin pooler
        mine += [_seen(first), _seen(first)]
        found = breach(mine, theirs, mark)
    return found


def _marked(connection: pg.Connection) -> str:
    """Set and return the marker; return "" if the server rejects it."""
    mark = f"0.{random.SystemRandom().randrange(100_001, 999_999, 2)}"
    try:
        _run(connection, f"SET geqo_seed = {mark}")
    except pg.DriverError as error:
        if pg.failure(error)[0][:2] not in ("22", "42"):
            raise
        return ""
    return mark


def _unmark(first: pg.Connection, second: pg.Connection, mark: str) -> None:
    """Reset the marker in the server session that has it; either connection can get that session next."""
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


def names_of_path(path: str, user: str) -> list[str]:
    """Return the schemas of a search_path as a server shows it, with `$user` replaced by the login.

    >>> names_of_path('"$user", public', "etl"), names_of_path('Ods,"My ""own"", here"', "etl")
    (['etl', 'public'], ['ods', 'My "own", here'])
    """
    names = re.findall(r'"((?:[^"]|"")*)"|([^",\s]+)', path)
    spelled = [bare.lower() if bare else inside.replace('""', '"') for inside, bare in names]
    return [user if name == "$user" else name for name in spelled if name]


def path_findings(place: str, user: str, schemas: Sequence[str]) -> Iterator[Finding]:
    """Yield a warning for each schema on a login's own path in which PUBLIC can create objects."""
    for one in schemas:
        text = f"PUBLIC can create objects in schema {one}, which is on {user}'s search_path, but not on a job's"
        cure = f"for other programs of this login: REVOKE CREATE ON SCHEMA {quoted(one)} FROM PUBLIC"
        yield Finding(place, Level.WARN, f"{text}; {cure}")


Book = tuple[str, str]
"""A package and the name of its file of named statements."""
Rows = list[tuple[Any, ...]]
PING_LIMIT_MS = 2_000
"""Time limit in milliseconds of a query that only tests whether the server answers."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The settings for sessions on a kind of server."""

    side: str
    book: Book
    settings: Mapping[str, str]
    classify: Callable[..., SlotkeeperError]
    """Converts a driver error. The arguments are the error, the server's label and, if it is not the
    usual one, the error class for a timeout."""
    autocommit: bool = False
    limit_ms: int | None = None
    """Default time limit of a statement in milliseconds; if None, `settings` determines the limit."""
    quiet: bool = False
    """Send only the caller's statements: settings are sent with the login, and the connection survives most errors."""
    path: str = "pg_catalog, pg_temp"
    """The search_path of its sessions (ADR 0025): excludes other users' objects in the login's schemas."""


class Session:
    """A connection for a login and a dialect, used by one thread at a time; any thread can cancel or close it."""

    def __init__(
        self,
        endpoint: Endpoint,
        password: Secret | str,
        application_name: str,
        dialect: Dialect,
        clock: Clock | None = None,
    ) -> None:
        self.place = endpoint.place
        self.application_name = application_name
        self.generation = 0
        """Incremented for every new connection, which does not have the prepared state of the old connection."""
        self.parts: Mapping[str, pg.sql.Composable] = {}
        """Values for the placeholders (in braces) of all statements of `run`, by name."""
        self.transaction_ms = 0
        """The limit of a statement in a transaction, in milliseconds; 0 means the session's own limit."""
        self._endpoint = endpoint
        self._password = password
        self._dialect = dialect
        self._clock = clock or SystemClock()
        self._connection: pg.Connection | None = None
        self._limit_ms: int | None = None
        self._opened = 0.0
        self._pinned = False
        self._listed_in = 0
        """The generation of the connection for which the server listed a changed name."""

    # -- the connection ---------------------------------------------------------------------------------------------

    def ready(self) -> pg.Connection:
        """Return the connection, opening it if needed. Raises a SlotkeeperError."""
        with self.translated():
            return self._ready(None)

    @property
    def fresh(self) -> bool:
        """Whether the next call opens a new connection."""
        return self._connection is None or bool(self._connection.closed)

    def line(self) -> Line:
        """Return the connection's TLS state, opening it if needed. Raises a SlotkeeperError."""
        info = self.ready().info
        if not info.ssl_in_use:
            return Line()
        return Line(info.ssl_attribute("protocol") or "TLS", info.ssl_attribute("cipher") or "an unnamed cipher")

    def prove(self) -> str:
        """Test whether this connection keeps its server session; return a sentence that confirms it, or raise Refused.

        Call it only between transactions; the test runs transactions of a second connection in between.
        """
        connection = self.ready()
        with self.translated(), pg.autocommitted(connection):
            self._prove(connection)
        return "each connection kept its own server session for three transactions"

    def seconds(self) -> float:
        return self._clock.monotonic()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Hold one open session during the block; if the session is lost, it is not reopened.

        A registrar that resumes after a stall must detect that its session has ended, instead of opening a new one.
        """
        self.ready()
        self._pinned = True
        try:
            yield
        finally:
            self._pinned = False

    def show(self, name: str) -> None:
        """Change the session's name on the server; reconnect with the name if the server does not list it.

        Raises Unreachable in a pinned block, where no connection is opened.
        """
        if name == self.application_name:
            return
        if not self.fresh and not self._renamed(name):
            if self._pinned:
                side = self._dialect.side
                raise Unreachable(f"{side} {self.place}: could not rename the session", where=side)
            self.sever()
            self.close()
        self.application_name = name

    def _renamed(self, name: str) -> bool:
        """Rename the connection; return whether the server lists the name, which is checked once per connection.

        PostgreSQL, "Error Reporting and Logging": pg_stat_activity shows application_name, and any user can set it. DWS
        does not document the latter, and the session must be listed under its name so that it can be ended.
        """
        try:
            self.composed_rows(pg.sql.SQL("SET application_name = {}").format(pg.sql.Literal(name[:63])), None)
            if self._listed_in != self.generation:
                listed = "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"
                if self.composed_rows(pg.sql.SQL(listed), None) != [(name[:63],)]:
                    return False
                self._listed_in = self.generation
        except SlotkeeperError:
            return False  # lost, or rejected: a new connection sends its name at login
        return True

    def go_by(self, name: str) -> None:
        """Change the session's name in one round trip, without checking whether it is listed; "" changes nothing.

        Call it only between transactions. No code relies on the new name: a server that rejects it lists the old name.
        """
        if not name or name == self.application_name:
            return
        connection = self._connection
        if connection is not None and not self.fresh:
            try:
                pg.rename(connection, name)
            except pg.DriverError as error:
                if not _loses_line(error):
                    return
                self.close()
        self.application_name = name

    def retire(self, seconds: float) -> None:
        """End the session if it is older than `seconds`; call it only between transactions."""
        if self._connection is not None and self._clock.monotonic() - self._opened >= seconds:
            self.close()

    def cancel(self) -> None:
        """Ask the server to end another thread's statement in this session; do nothing if none is running."""
        connection = self._connection
        if connection is not None:
            pg.cancel(connection)

    def sever(self) -> None:
        """Shut the connection down, from any thread, without waiting: a running statement fails at once."""
        connection = self._connection
        if connection is not None:
            pg.sever(connection)

    def close(self) -> None:
        """End the session; waits for a statement of another thread unless `sever` was called. Safe to call twice."""
        connection = self._connection
        if connection is not None and not connection.closed:
            connection.close()  # this call can wait, and `sever` must find the connection meanwhile
        if self._connection is connection:
            self._connection = None

    @contextmanager
    def translated(self, *timed_out: type[SlotkeeperError]) -> Iterator[None]:
        """Convert a driver error raised inside the block to a SlotkeeperError."""
        try:
            yield
        except pg.DriverError as error:
            pooled = is_refusal(error)
            if pooled:
                raise self._pooled(pooled) from error
            raise self._dialect.classify(pg.hiding(error, self._password), self.place, *timed_out) from error

    def _ready(self, limit_ms: int | None) -> pg.Connection:
        connection = self._connection
        if connection is None or connection.closed:
            if self._pinned:
                side = self._dialect.side
                raise Unreachable(f"{side} {self.place}: the session was ended", code="08003", where=side)
            connection = self._connection = self._connect()
            self.generation += 1
            self._limit_ms, self._opened = None, self._clock.monotonic()
        limit_ms = self._dialect.limit_ms if limit_ms is None else limit_ms
        if limit_ms is not None:
            if self._endpoint.socket_timeout_ms:  # the time within which the connection must answer
                limit_ms = min(limit_ms, self._endpoint.socket_timeout_ms)
            if limit_ms != self._limit_ms:
                pg.limit(connection, limit_ms)
                self._limit_ms = limit_ms
        return connection

    def _connect(self) -> pg.Connection:
        login, dialect = (self._endpoint, self._password, self.application_name), self._dialect
        if dialect.quiet:
            return pg.connect_quietly(*login, dialect.settings, dialect.path, self._check)
        return pg.connect(*login, dialect.settings, dialect.autocommit, dialect.path, self._check)

    def _check(self, connection: pg.Connection) -> None:
        """Reject a new connection without its own server session; one round trip if the connection is direct."""
        if not is_direct(connection):
            self._prove(connection)

    def _prove(self, connection: pg.Connection) -> None:
        found = shared(connection, lambda: pg.log_in(self._endpoint, self._password, self.application_name))
        if found:
            raise self._pooled(found)

    def _pooled(self, why: str) -> Refused:
        side = self._dialect.side
        return Refused(
            f"{side} {self.place}: this connection does not keep the same server session: {why}", CURE, where=side
        )

    # -- one statement, in autocommit -------------------------------------------------------------------------------

    def rows(
        self,
        name: str,
        parameters: Mapping[str, Any] | None = None,
        limit_ms: int | None = None,
        of: Book | None = None,
    ) -> Rows:
        """Return all rows of the statement `name` from the dialect's file, or from the file `of`."""
        return self.composed_rows(pg.sql.SQL(statements(*(of or self._dialect.book))[name]), parameters or {}, limit_ms)

    def composed_rows(
        self, statement: pg.sql.Composable, parameters: Mapping[str, Any] | None, limit_ms: int | None = None
    ) -> Rows:
        """Return all rows of a composed statement; its parameter `table` is a name as written in the configuration."""
        return self.answered(statement, parameters, limit_ms)[1]

    def answered(
        self, statement: pg.sql.Composable, parameters: Mapping[str, Any] | None, limit_ms: int | None = None
    ) -> tuple[list[str], Rows]:
        """Return the column names and all rows of a statement's result; both empty if it has no result."""
        if parameters and "table" in parameters:
            parameters = {**parameters, "table": dotted(parameters["table"])}
        with self._asked(limit_ms) as connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            if cursor.description is None:
                return [], []
            return [column.name for column in cursor.description], cursor.fetchall()

    def copy_out(self, statement: pg.sql.Composable, out: BinaryIO, limit_ms: int) -> int:
        """Run COPY (statement) TO STDOUT into `out`; return the number of rows that the server reports."""
        with self._asked(limit_ms, TooLarge) as connection, connection.cursor() as cursor:
            text = pg.sql.SQL("COPY ({}) TO STDOUT").format(statement).as_string(connection)
            cursor.copy_expert(text, out, pg.COPY_BUFFER)
            return int(cursor.rowcount)

    def cursor_out(
        self, statement: pg.sql.Composable, put: Callable[[tuple[Any, ...]], None], limit_ms: int, batch: int
    ) -> int:
        """Pass a statement's rows to `put` from a server-side cursor, `batch` at a time, for servers without COPY."""
        count = 0
        with self._asked(limit_ms, TooLarge) as connection:
            connection.autocommit = False  # a server-side cursor exists only in a transaction
            with pg.transaction(connection) as opener:
                opener.execute(pg.sql.SQL("DECLARE slotkeeper_read NO SCROLL CURSOR FOR {}").format(statement))
                while True:
                    opener.execute("FETCH FORWARD %s FROM slotkeeper_read", (batch,))
                    rows = opener.fetchall()
                    for row in rows:
                        put(row)
                    count += len(rows)
                    if len(rows) < batch:
                        break
                opener.execute("CLOSE slotkeeper_read")
            connection.autocommit = True
        return count

    @contextmanager
    def _asked(self, limit_ms: int | None, *timed_out: type[SlotkeeperError]) -> Iterator[pg.Connection]:
        """Yield the connection for one statement; drop it on any error, so that the next call reconnects."""
        with self.translated(*timed_out):
            try:
                yield self._ready(limit_ms)
            except BaseException as error:
                if not self._dialect.quiet or _loses_line(error):
                    self.close()
                raise

    # -- statements in a transaction --------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[pg.Cursor]:
        """Yield a cursor in one transaction; driver errors become SlotkeeperErrors, and drop the connection.

        It commits on the connection on which it started, because a later connection does not have the transaction.
        """
        connection = self.ready()
        with self.translated():
            try:
                cursor = connection.cursor()
                if self.transaction_ms:
                    pg.limit_transaction(cursor, self.transaction_ms)
                yield cursor
                connection.commit()  # raises if the connection is closed
            except pg.DriverError:
                self.close()
                raise
            except BaseException:
                self.rollback()
                raise

    def run(
        self,
        cursor: pg.Cursor,
        name: str,
        parameters: Mapping[str, Any],
        of: Book | None = None,
        **parts: pg.sql.Composable,
    ) -> pg.Cursor:
        """Execute the statement `name` from the dialect's file or the file `of`, with `parts` for its placeholders."""
        text = pg.sql.SQL(statements(*(of or self._dialect.book))[name])
        cursor.execute(text.format(**self.parts, **parts), parameters)
        return cursor

    def fetched(self, name: str, parameters: Mapping[str, Any], of: Book | None = None) -> Rows:
        """Run a named statement, as `run` does, in its own transaction; return all its rows."""
        with self.transaction() as cursor:
            return self.run(cursor, name, parameters, of).fetchall()

    def rollback(self) -> None:
        """Roll back the open transaction, if any; drop the connection if that fails."""
        if self._connection is not None and not self._connection.closed:
            try:
                self._connection.rollback()
            except pg.DriverError:
                self.close()


def _loses_line(error: BaseException) -> bool:
    """Return whether a connection is unusable after this error; it remains usable if only a single statement failed."""
    code, _ = pg.failure(error)
    return not code or (code[:2] in ("08", "57") and code != "57014")
