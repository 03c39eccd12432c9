"""A session to a PostgreSQL sink: the differences of DWS, the kinds of errors, and the settings required for safety.

The differences between the two servers are defined in `SinkDialect` only. The SQLSTATE determines an error's kind; an
error message never contains a row's values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain import refusals
from slotkeeper.core.domain.endpoint import Endpoint, Secret
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import passing, pg, pg_types
from slotkeeper.core.drivers.session import Book, Dialect, Session
from slotkeeper.core.errors import Busy, Refused, RowRefused, SlotkeeperError, TooLarge, Unclassified, Unreachable
from slotkeeper.core.sqltext import statements

SQL = pg.sql.SQL
Composable = pg.sql.Composable


@dataclass(frozen=True, slots=True)
class SinkDialect:
    """A server's dialect; `name` is the sink's kind in the configuration and the name suffix of its statements.

    `spreads`: tables are distributed by the hash of columns, and a key cannot be updated. `follows`: a temporary table
    can get its columns from a query. `plain`: the server has no WITH before INSERT ... ON CONFLICT, no DISTINCT ON, no
    FILTER and no RETURNING, so a step uses the table of net effects, and an upsert after the MERGE applies the
    remaining rows. `analyzes`: ANALYZE is allowed inside a transaction (DWS does not document it). `merges_since`: the
    first version with MERGE, 0 if every version has it. `path`: the search_path of its sessions.
    """

    name: str
    own_rows: str = ""
    """The storage clause of Slotkeeper's own tables whose rows are changed individually."""
    target: str = ""
    """The storage clause of a created target."""
    spreads: bool = False
    follows: bool = True
    plain: bool = False
    analyzes: bool = True
    merges_since: int = 0
    path: str = "pg_catalog, pg_temp"
    settings: tuple[tuple[str, str], ...] = ()
    """Session settings of this dialect, in addition to the settings for every sink."""
    has_modes: bool = False
    """Whether databases of this server have compatibility modes, which can treat an empty string as NULL."""

    def spread(self, key: Iterable[Composable]) -> Composable:
        """Return the clause that distributes a table by its key's hash, so that each DN joins its own rows."""
        return SQL(" DISTRIBUTE BY HASH ({})").format(SQL(", ").join(key)) if self.spreads else SQL("")

    def spelled(self, type_: str) -> str:
        """Return a source type as this server writes it."""
        return type_ if self.spreads else pg_types.at_postgres(type_)


POSTGRES = SinkDialect("postgres", merges_since=150_000)
DWS = SinkDialect(
    "dws",
    own_rows=" WITH (orientation = row)",
    # a real-time mirror is an HStore-opt table, as in the vendor's example
    target=" WITH (orientation = column, enable_hstore_opt = on)",
    spreads=True,
    follows=False,
    plain=True,
    analyzes=False,
    path="pg_catalog",  # DWS, "Statement Behavior": pg_temp is always first; listing it after another schema fails
    # DWS, "Platform and Client Compatibility": if on, a string that is too long for its column is truncated without an
    # error
    settings=(("td_compatible_truncation", "off"),),
    has_modes=True,
)
DIALECTS = {one.name: one for one in (POSTGRES, DWS)}


BAD_ROW = ("22", "23")
LIMIT = "57014"
"""query_canceled: the session's statement_timeout."""
_LACKED = frozenset({"42704", "42P01", "42883", "42725", "42602", "42601", "3F000"})
"""SQLSTATEs for an unknown name."""
_AT_A_VALUE = re.compile(r"\bCOPY .*, line \d+, column ", re.DOTALL)
"""Matches a COPY error that concerns a value; the unknown name is in that value (regrole, aclitem, regclass, ...)."""


def classify(error: BaseException, place: str, timed_out: type[SlotkeeperError] = TooLarge) -> SlotkeeperError:
    """Return Slotkeeper's error for a driver error at endpoint `place`; `timed_out`: the error class for a timeout."""
    code, text = pg.failure(error)
    if isinstance(error, pg.NoAnswer):
        return Unreachable(f"sink {place} {text}", "", code, "sink").after_limit()
    if isinstance(error, pg.TooMuch):
        return TooLarge(f"sink {place} {text}", "", code, "sink")
    message = f"sink {place}: {safe(_shown(error, text, code), 300)}"
    if refusals.refusal(code, text):
        return refusals.error_of(text)(message, refusals.cure(text), code, "sink")
    if (
        code == LIMIT and "user request" in text
    ):  # an administrator called pg_cancel_backend; the next attempt can succeed
        return Busy(message, "", code, "sink")
    if code == LIMIT:
        return timed_out(message, "", code, "sink").after_limit()
    if code in passing.BY_CODE:
        return passing.BY_CODE[code](message, "", code, "sink")
    if code.startswith("08"):
        return passing.lost_line(text)(message, "", code, "sink")
    if is_bad_row(error):
        return bad_row(place, safe(_shown(error, text, code), 300), code)
    if code[:2] == "42":
        own = (
            "; `slotkeeper jobs start JOB` migrates Slotkeeper's own tables"
            if code == refusals.UNDEFINED_COLUMN
            else ""
        )
        hint = f"Restore the target or the progress table as it was{own}; `slotkeeper doctor` names what is missing."
        return Refused(message, hint, code, "sink")
    return Unclassified(message, "", code, "sink")


def bad_row(place: str, sentence: str, code: str) -> RowRefused:
    """Return the error for a row that the target rejects; outside `BAD_ROW`, it names a missing object."""
    hint = (
        "Alter the target so that it accepts the row (its columns, types and constraints), or correct it in the source"
    )
    if code[:2] not in BAD_ROW:
        lacks = "a value names an object that the sink lacks (a role, a table, a function, a type, ...)"
        hint = f"{lacks}: create it there, or store the column as text in the target"
    return RowRefused(f"sink {place}: {sentence}", hint, code, "sink")


def is_bad_row(error: BaseException) -> bool:
    """Return whether a driver error is caused by a row's values.

    These are the SQLSTATE classes 22 (data) and 23 (constraints), and values that name an object missing in the sink.
    """
    return pg.failure(error)[0][:2] in BAD_ROW or names_absent(error)


def names_absent(error: BaseException) -> bool:
    """Return whether a row's value names an object that is missing here; a missing table or column does not count."""
    return pg.failure(error)[0] in _LACKED and bool(_AT_A_VALUE.search(pg.named(error).context))


def sentence(error: BaseException) -> tuple[str, str]:
    """Return (SQLSTATE, the server's message without a row's values)."""
    code, text = pg.failure(error)
    return code, safe(_shown(error, text, code), 300)


def _shown(error: BaseException, text: str, code: str) -> str:
    """Return the server's message without a row's values; the message can contain a missing name without quotes."""
    shown = pg.without_values(text, code)
    if not names_absent(error):
        return shown
    return re.sub(r'".*"', '"..."', re.sub(r": .*", "", shown, flags=re.DOTALL))


SETTINGS = {
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",  # with off, commits whose points are already registered can be lost
    "lock_timeout": "30s",
    "statement_timeout": "600s",
    "idle_in_transaction_session_timeout": "60s",  # longer than a status query (2 s) plus a registration (2 x 10 s)
    "client_connection_check_interval": "500ms",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

_LIKE = re.compile(r"[\\%_]")
"""Special characters of a LIKE pattern."""

COPY_LIMIT_MS = 1_800_000
"""Minimum timeout of a chunk and the exchange, in milliseconds: the default of full_sync_binlog_read_timeout."""


def lengthen(cursor: pg.Cursor, read_timeout_ms: int) -> None:
    """Set the timeouts of the open transaction for a copy.

    The statement timeout is the one for a single read of the full copy (0: no limit). The idle-in-transaction timeout
    is set as well, because a chunk's transaction is idle while it waits for the source. On DWS, statement_timeout is
    documented (Statement Behavior); the idle timeout is set only if the server supports it.
    """
    limit_ms = max(COPY_LIMIT_MS, read_timeout_ms) if read_timeout_ms else 0
    pg.limit_transaction(cursor, limit_ms)
    set_locally(cursor, "idle_in_transaction_session_timeout", str(limit_ms))


def set_locally(cursor: pg.Cursor, name: str, value: str) -> None:
    """Change a setting for the open transaction if the server supports it, which DWS may not."""
    cursor.execute("SELECT set_config(name, %s, true) FROM pg_settings WHERE name = %s", (value, name))


SESSION = Dialect("sink", ("slotkeeper.core.sinks.postgres", "tables.sql"), SETTINGS, classify)


def dialect_of(kind: str) -> Dialect:
    own = DIALECTS[kind]
    return replace(SESSION, path=own.path, settings={**SETTINGS, **dict(own.settings)})


class SinkSession(Session):
    """A session to a sink; `kind` names the dialect, `schema` contains Slotkeeper's own tables."""

    def __init__(
        self,
        endpoint: Endpoint,
        password: Secret | str,
        application_name: str,
        schema: str = "public",
        kind: str = "postgres",
        clock: Clock | None = None,
    ) -> None:
        self.dialect = DIALECTS[kind]
        super().__init__(endpoint, password, application_name, dialect_of(kind), clock)
        # the endpoint's timeout for silent connections also limits each statement
        self.transaction_ms = endpoint.socket_timeout_ms
        self.schema = pg.sql.Identifier(schema)
        self.parts = {"schema": self.schema}

    def activity(self, name: str) -> tuple[bool, str]:
        """Return whether a session of this name runs a statement, and a text that changes with each of its statements.

        The text is empty if there is no such session.
        """
        ((working, changed),) = self.fetched("session_activity", {"name": name})
        return working, changed

    def at_work(self, name: str) -> bool:
        return self.activity(name)[0]

    def end_sessions(self, name: str, begins: bool = False) -> int:
        """End this login's other sessions in this database by name, or by prefix with `begins`; return their number.

        Does not wait until the sessions have ended.
        """
        pattern = _LIKE.sub(r"\\\g<0>", name) + "%" * begins
        return len([one for (one,) in self.fetched("end_sessions", {"pattern": pattern}) if one])

    def has(self, cursor: pg.Cursor, name: str, of: Book | None = None, /, **more: str) -> bool:
        """Return whether the statement `name`, which looks up an object in Slotkeeper's schema, finds one."""
        return self.run(cursor, name, {"schema": self.schema.string, **more}, of).fetchone() is not None

    def changed(self, name: str, values: Mapping[str, Any], of: Book | None = None) -> int:
        """Execute a statement as `run` does, in its own transaction; return the number of changed rows."""
        with self.transaction() as cursor:
            return int(self.run(cursor, name, values, of).rowcount)

    def of_dialect(self, name: str, of: Book = SESSION.book) -> str:
        """Return the name of this dialect's variant of a statement if it exists, otherwise `name`."""
        own = f"{name}_{self.dialect.name}"
        return own if own in statements(*of) else name
