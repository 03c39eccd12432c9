"""Queries over MySQL's protocol, in a session with limits that opens at its first query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

import pymysql
from pymysql.constants import CR, ER
from pymysql.cursors import SSCursor

from slotkeeper.core.domain import refusals
from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import deadline, my, tls_context
from slotkeeper.core.drivers.my import ANSWER_BYTES, ROW_BYTES, answered, code_of, ended
from slotkeeper.core.errors import Refused, SlotkeeperError, Unclassified, Unreachable
from slotkeeper.core.ports.kinds import COUNTED, Checksum, ComparedKey, Digest, Key, KeyRange, Rewrite, hash_of, md5_of

_GONE = frozenset({CR.CR_CONN_HOST_ERROR, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_CONNECTION_ERROR})
_LOGIN = frozenset({ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR})
_LOGIN |= {CR.CR_AUTH_PLUGIN_ERR}
_STATEMENTS = range(1000, 2000)
"""Error numbers of a server; those of the client start at 2000."""
READ_SECONDS = 60
_NAMES = (
    "map the column to another name (`columns` of the channel); for letters beyond ASCII: SET GLOBAL"
    " enable_unicode_name_support = true"
)


class MysqlQueries:
    """One session, used by one thread at a time; any thread can call `sever`."""

    def __init__(self, login: Login, where: str, read_seconds: float = READ_SECONDS) -> None:
        self._login = login
        self._where = where
        self._seconds = read_seconds
        self._line: Any = None
        self._names: list[str] = []

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return a statement's rows; if the session breaks, the next call opens a new session."""
        return self.in_one_session(statement, values=values)[0]

    def records(self, statement: str) -> list[dict[str, Any]]:
        """Return a statement's rows, each as a mapping from column name to value."""
        rows = self.rows(statement)
        return [dict(zip(self._names, row, strict=True)) for row in rows]

    def in_one_session(self, *asked: str, values: Sequence[object] = ()) -> list[list[tuple[Any, ...]]]:
        """Run all statements in one session, so that settings persist; return the rows of each statement."""
        found = []
        try:
            line = self._opened()
            for statement in asked:
                if line._sock is None:
                    raise pymysql.err.InterfaceError(0, "the session was ended")
                with answered(line._sock.fileno(), self._seconds, ANSWER_BYTES), line.cursor() as cursor:
                    cursor.execute(statement, tuple(values) if values else None)
                    found.append(list(cursor.fetchall()))
                    self._names = [str(one[0]) for one in cursor.description or ()]
        except pymysql.MySQLError as error:
            raise self._failed(error) from error
        return found

    def streamed(self, statement: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield a statement's rows one by one as they arrive; until then, the session accepts no other statement.

        If the caller stops early, the session ends.
        """
        done = False
        try:
            line = self._opened()
            cursor = line.cursor(SSCursor)
            with answered(line._sock.fileno(), self._seconds, ROW_BYTES) as call:
                cursor.execute(statement, tuple(values) if values else None)
                while (row := cursor.fetchone()) is not None:
                    call.moved = True
                    yield row
            done = True
        except pymysql.MySQLError as error:
            raise self._failed(error) from error
        finally:
            if not done:  # otherwise the cursor would read the rest, which can take long
                self.close()

    def _failed(self, error: Exception) -> SlotkeeperError:
        place = f"{self._login.endpoint.host}:{self._login.endpoint.port}"
        found = tls_context.refused(error, place, self._where) or translated(error, self._where)
        if code_of(error) not in _STATEMENTS:  # the rest of an answer may still arrive on the connection
            self.close()
        if isinstance(found, Unreachable):
            named = f"{self._where} {self._login.endpoint.name}: {found.message}"
            return Unreachable(named, found.hint, found.code, self._where)
        return found

    def _opened(self) -> Any:
        if self._line is None:
            endpoint = self._login.endpoint
            seconds = max(1.0, endpoint.connect_timeout_ms / 1000)
            self._line = my.logged_in(endpoint, self._login.password, self._login.name, seconds)
        return self._line

    def line(self) -> tuple[str, str]:
        """Return the session's TLS protocol and cipher; both are empty without TLS or without an open session."""
        cipher = getattr(getattr(self._line, "_sock", None), "cipher", None)
        found = cipher() if cipher else None
        return (str(found[1]), str(found[0])) if found else ("", "")

    def sever(self) -> None:
        line = self._line
        if line is not None and line._sock is not None:
            deadline.shut(line._sock.fileno())

    def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            ended(line)


def translated(error: Exception, where: str) -> SlotkeeperError:
    """Convert a driver error to a SlotkeeperError with the server's message, limited in length and without rows."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = safe(str(error.args[1] if len(error.args) > 1 else type(error).__name__), 300)
    if number in _GONE or isinstance(error, OSError | pymysql.err.InterfaceError):
        return Unreachable(text, where=where, code=str(number or ""))
    if number in _LOGIN:
        return refusals.error_of(text)(text, "check user, password and privileges", where=where, code=str(number))
    low = text.lower()
    if "unknown database" in low or "unknown table" in low or "does not exist" in low:
        return Refused(text, "check whether the database or the table was dropped or never created", where=where)
    if "incorrect column name" in low:
        return Refused(text, _NAMES, where=where)
    return Unclassified(text, where=where, code=str(number or ""))


KEYS_PER_STATEMENT = 200
"""Maximum number of keys whose rows are read by one statement."""


class OrderedKey(ComparedKey, Protocol):
    """A key column, as used in statements."""

    @property
    def ordered(self) -> str:
        """The expression that orders the column on both sides."""

    def bound(self, text: str, values: list[object]) -> str:
        """Return the SQL of a value of the column; a value that cannot be written literally is appended to `values`."""


class HashedHere(ABC):
    """A table for a comparison, whose rows arrive as strings and are hashed in this process; no value is stored.

    The hash is computed as in `slotkeeper.core.drivers.pg_table`, with the length before every string, so that the
    table can be compared with a PostgreSQL table.
    """

    def __init__(self, name: str, columns: Sequence[str], keys: Sequence[str], there: Sequence[str]) -> None:
        self.label = name
        self.columns = list(columns) or list(there)
        self._rewrite: Rewrite | None = None
        lacks = [column for column in dict.fromkeys([*keys, *self.columns]) if column not in there]
        if lacks:
            raise Refused(f"unknown column {', '.join(lacks)} of {name}", "correct the column mapping")
        self.forms: Sequence[str] = [COUNTED] * len(self.columns)

    @property
    @abstractmethod
    def key(self) -> Sequence[OrderedKey]: ...

    def hashes_by(self, forms: Sequence[str]) -> None:  # noqa: B027 - not abstract: there is nothing to do
        """Do nothing, because this table has only one form, which `forms` already contains."""

    def rewrite(self, columns: Sequence[str], values: Rewrite) -> None:
        self.columns, self._rewrite = list(columns), values
        self.forms = [COUNTED] * len(self.columns)

    @abstractmethod
    def _selected(
        self, where: str, values: Sequence[object], limit: int | None = None
    ) -> Iterator[tuple[Key, list[str | None]]]:
        """Yield the key and the compared columns of each row that meets the condition, up to `limit` rows."""

    def _rows(
        self, where: str, values: Sequence[object], limit: int | None = None
    ) -> Iterator[tuple[Key, Sequence[str | None]]]:
        found = self._selected(where, values, limit)
        return ((key, self._rewrite(texts)) for key, texts in found) if self._rewrite else found

    def _within(self, bounds: KeyRange) -> tuple[str, list[object]]:
        """Return a range as a condition, and the condition's values."""
        parts, values = ["1 = 1"], list[object]()
        for at, sign, equal in ((bounds.low, ">", True), (bounds.high, "<", False)):
            if at is not None:
                parts.append(_edge(self.key, at, sign, equal, values))
        return " AND ".join(parts), values

    def checksum(self, bounds: KeyRange) -> Checksum:
        rows = total = 0
        for _, texts in self._rows(*self._within(bounds)):
            rows += 1
            total += int(hash_of(texts)[:15], 16)
        return Checksum(rows, total)

    def rows(self, bounds: KeyRange, limit: int) -> list[tuple[Key, str]]:
        return [(key, hash_of(texts)) for key, texts in self._rows(*self._within(bounds), limit)]

    def digests(self, keys: Collection[Key]) -> dict[Key, Digest]:
        wanted, found = list(keys), dict[Key, Digest]()
        for start in range(0, len(wanted), KEYS_PER_STATEMENT):
            values: list[object] = []
            same = [
                " AND ".join(f"{c.ordered} = {c.bound(text, values)}" for c, text in zip(self.key, one, strict=True))
                for one in wanted[start : start + KEYS_PER_STATEMENT]
            ]
            for key, texts in self._rows(" OR ".join(f"({one})" for one in same), values):
                found[key] = tuple(None if text is None else md5_of(text) for text in texts)
        return found


def _edge(key: Sequence[OrderedKey], at: Sequence[str], sign: str, equal: bool, values: list[object]) -> str:
    """Return the condition that the key is beyond `at`, column by column; appends to `values` in placeholder order."""
    first = key[0]
    if len(key) == 1:
        return f"{first.ordered} {sign}{'=' if equal else ''} {first.bound(at[0], values)}"
    strict = f"{first.ordered} {sign} {first.bound(at[0], values)}"
    same = f"{first.ordered} = {first.bound(at[0], values)}"
    return f"({strict} OR ({same} AND {_edge(key[1:], at[1:], sign, equal, values)}))"
