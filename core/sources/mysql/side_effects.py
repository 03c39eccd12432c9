"""Detect changes to a followed table without row events: through foreign keys, or by statements that do not name it.

Unsupported features of a table are rejected before a start, with an error that names them. Foreign keys and their
actions are read from SHOW CREATE TABLE: information_schema.REFERENTIAL_CONSTRAINTS is empty for a login that has only
the SELECT privilege (tested on MariaDB 10.11).

A statement (DML as text) that names no followed table can still change a followed table through a view, a trigger, a
stored function or a MERGE table. The statement is skipped if no such object on the whole server has any of its names,
now or when the statement ran; for the latter, the binlog after the statement is searched for DDL that drops such an
object. If the login does not see every trigger and routine, nothing is proven: MySQL, "The INFORMATION_SCHEMA TRIGGERS
Table", "... ROUTINES Table".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from slotkeeper.core.domain.finding import Objection, refuse
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.rows import Described
from slotkeeper.core.sources.mysql.session import MysqlSession, ServerFacts, is_hidden
from slotkeeper.core.sources.mysql.statements import (
    ENGINES,
    Said,
    Statement,
    Unread,
    cascades,
    is_temporary,
    kind_of_object,
    read,
    unwrapped,
)
from slotkeeper.core.sources.mysql.stream import there
from slotkeeper.core.sources.mysql.tables import TableSeen, quoted
from slotkeeper.core.sources.mysql.values import text_reader

CASCADES_WRITTEN = (9, 6)
"""The first MySQL version that runs cascades in the server and writes their row events, unless
innodb_native_foreign_keys is on (MySQL 9.6, "FOREIGN KEY Constraints")."""
_ENGINES = frozenset(one.lower() for one in ENGINES)
_TRANSACTIONAL = frozenset({"innodb", "rocksdb", "tokudb", "ndbcluster"})
_CANNOT_BE_READ = "cannot parse the result of SHOW CREATE TABLE"


def objections(session: MysqlSession, seen: TableSeen, cascades_known: bool) -> Iterator[Objection]:
    """Return objections to following a table; the first is the one to report. Raises SlotkeeperError."""
    table = f"{seen.schema}.{seen.name}"
    yield from filtered(session, seen)
    yield from kind_objections(table, seen.kind, seen.engine)
    yield from charset_objections(table, seen.described)
    if not cascades_known and not cascades_are_written(session.facts):
        try:
            made = str(session.rows(f"SHOW CREATE TABLE {seen.quoted}")[0][1])
            created = read(made, 0, session.facts.is_mariadb)
        except Unread:
            raise Refused(f"{table}: {_CANNOT_BE_READ}", "report it", where="source") from None
        for key in _cascading(created):
            yield Objection(
                f"{table} has foreign key {key} with cascades, which change its rows without row events",
                'make the key RESTRICT, or set cascades = "allow" in the channel if incorrect rows are acceptable',
            )
    if seen.engine.lower() == "myisam":
        merges = "SELECT table_schema, table_name FROM information_schema.tables WHERE engine = 'MRG_MyISAM'"
        for schema, name in session.rows(merges):  # only tables that this login can see
            rows = session.rows(f"SHOW CREATE TABLE {quoted(str(schema))}.{quoted(str(name))}")
            if seen.name.casefold() in read(str(rows[0][1])).names:
                merge = f"{schema}.{name}"
                what = f"{table} is part of the MERGE table {merge}: changes made through it do not name {table}"
                yield Objection(what, "drop the MERGE table")


def filtered(session: MysqlSession, seen: TableSeen) -> Iterator[Objection]:
    """Return an objection if the server's filters exclude a table from the binlog; they change only with a restart."""
    if session.asking(lambda line: is_hidden(line, seen.schema)):
        place = f"{seen.schema}.{seen.name}"
        what = f"{place}: the binlog has no changes of database {seen.schema} (binlog_do_db, binlog_ignore_db)"
        yield Objection(
            what, "remove the filter from the server's configuration and restart it; then take a new snapshot"
        )


def admit(session: MysqlSession, seen: TableSeen, cascades_known: bool) -> None:
    """Raise Refused with the first objection."""
    refuse(list(objections(session, seen, cascades_known)), "source")


def cascades_are_written(facts: ServerFacts) -> bool:
    """Whether the server writes row events for rows that a cascade changes.

    >>> cascades_are_written(ServerFacts({"version": "9.6.0"})), cascades_are_written(ServerFacts({"version": "8.4.2"}))
    (True, False)
    """
    native = facts.of("innodb_native_foreign_keys") in ("ON", "1")
    return not facts.is_mariadb and facts.version >= CASCADES_WRITTEN and not native


def is_transactional(engine: str) -> bool:
    """Whether the rows of a storage engine match the binlog after a crash."""
    return engine.lower() in _TRANSACTIONAL


def kind_objections(table: str, kind: str, engine: str) -> Iterator[Objection]:
    """Return objections to a table's type and its storage engine.

    MariaDB, "System-Versioned Tables": a DELETE updates the end time of the row, and an UPDATE also inserts a row.

    >>> [one.what for one in kind_objections("s.t", "BASE TABLE", "BLACKHOLE")]
    ['s.t has engine BLACKHOLE: this server and its binlog do not have all of its rows']
    """
    if "VERSIONED" in kind.upper():
        what = f"{table} is system-versioned: a DELETE retains the row, an UPDATE adds a row"
        yield Objection(what, f"ALTER TABLE {table} DROP SYSTEM VERSIONING, or remove the table from the job")
    if engine.lower() not in _ENGINES:
        what = f"{table} has engine {engine or 'unknown'}: this server and its binlog do not have all of its rows"
        yield Objection(what, f"ALTER TABLE {table} ENGINE = InnoDB")


def charset_objections(table: str, described: Described) -> Iterator[Objection]:
    """Return objections to columns whose text cannot be decoded from the stream. (A copy could read such a column,
    because the server converts its text.)

    >>> from slotkeeper.core.sources.mysql.rows import SchemaColumn
    >>> [one.what for one in charset_objections("s.t", (SchemaColumn("a", "char", "char(1)", True, "swe7"),))]
    ['s.t: column a has the unsupported character set swe7']
    """
    for one in described:
        if one.charset and text_reader(one.charset) is None:
            what = f"{table}: column {one.name} has the unsupported character set {one.charset}"
            yield Objection(what, "convert the column to utf8mb4, or remove the table from the job")


def _cascading(created: Said) -> Iterator[str]:
    """Return the names of the foreign keys with cascading actions in a CREATE TABLE statement.

    >>> text = "CREATE TABLE t (CONSTRAINT `a` FOREIGN KEY (x) REFERENCES p (x), CONSTRAINT `b` FOREIGN KEY (y)"
    >>> list(_cascading(read(f"{text} REFERENCES p (y) ON DELETE CASCADE))")))
    ['b']
    """
    tokens = created.tokens
    starts = [
        place
        for place, (one, after) in enumerate(pairwise(tokens))
        if one.kind == "word" and (one.text.upper(), after.text.upper()) == ("FOREIGN", "KEY")
    ]
    for start, end in pairwise([*starts, len(tokens)]):
        if cascades([one.text.upper() for one in tokens[start:end] if one.kind == "word"]):
            yield tokens[start - 1].text


RIGHTS = ("SELECT", "TRIGGER", "EXECUTE")
"""Privileges on *.* with which a login sees every table, trigger and routine."""
SECONDS = 60.0
"""Time limit in seconds for one query; information_schema opens every table of the server."""
_SUSPECTS = (
    (
        "SELECT table_name, IF(engine = 'MRG_MyISAM', 'a MERGE table', 'a view') FROM information_schema.tables"
        " WHERE table_type = 'VIEW' OR engine = 'MRG_MyISAM'"
    ),
    "SELECT event_object_table, 'a table with a trigger' FROM information_schema.triggers",
    "SELECT routine_name, 'a stored routine' FROM information_schema.routines",
)
_GRANTED = "SELECT grantee, privilege_type FROM information_schema.user_privileges"
_HIDERS = frozenset({"VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "PACKAGE", "DATABASE", "SCHEMA"})
_TAKE_AWAY = frozenset({"DROP", "ALTER", "RENAME", "CREATE", ""})
"""First words of DDL that can remove an object; "" for text that cannot be parsed."""
_GRAMMAR = frozenset(
    {"table", "tables", "if", "exists", "to", "or", "replace", "create", "as", "select", "primary", "key"}
)


@dataclass(frozen=True, slots=True)
class _Taken:
    """The result of querying a server: its suspects by name, valid for statements in (after, up_to], and the DDL after
    `after` that may have removed a suspect before the query.
    """

    after: MysqlPosition
    up_to: MysqlPosition
    suspects: dict[str, str]
    ddl: tuple[Statement, ...]
    blind: str


class Bystanders:
    """Checks one lane's statements. `newest` returns the binlog's end, `statements` returns a range's statements."""

    def __init__(
        self,
        session: MysqlSession,
        newest: Callable[[], MysqlPosition],
        statements: Callable[[MysqlPosition, MysqlPosition], Iterator[Statement]],
    ) -> None:
        self._session, self._newest, self._statements = session, newest, statements
        self._taken: _Taken | None = None

    def doubt(self, statement: Statement) -> str:
        """Return why a statement may have changed the followed tables; "" if it provably did not."""
        taken, here = self._taken, statement.position
        if taken is None or not (there(here, taken.after) and there(taken.up_to, here)):
            taken = self._taken = self._take(here)
        if taken.blind:
            return taken.blind
        names = statement.said.names
        for name in sorted(names & taken.suspects.keys()):
            return f"it references {name}, {taken.suspects[name]}"
        for one in taken.ddl:
            if not there(here, one.position) and _hides(one, names):
                text = " ".join(one.text.split())[:100]
                until = one.position.shown
                return f"an object it references may have been a view or had a trigger until {until}: {text!r}"
        return ""

    def _take(self, after: MysqlPosition) -> _Taken:
        """Query the server for suspects, then read the DDL up to the end of the binlog at that time.

        The list of suspects is valid up to the position that was the end of the binlog before the queries: an object
        that a later statement uses may have been created after the queries.
        """
        up_to = self._newest()
        if self._blind():
            missing = "this login cannot see every trigger and routine"
            return _Taken(after, up_to, {}, (), f"{missing} (GRANT {', '.join(RIGHTS)} ON *.*)")
        suspects = {
            str(name).casefold(): str(what)
            for statement in _SUSPECTS
            for name, what in self._session.rows(statement, (), SECONDS)
        }
        statements = self._statements(after, self._newest())
        ddl = tuple(one for one in statements if (*unwrapped(one.said).words, "")[0] in _TAKE_AWAY)
        return _Taken(after, up_to, suspects, ddl, "")

    def _blind(self) -> bool:
        if self._session.facts.of("partial_revokes") in ("ON", "1"):
            return True  # a privilege on *.* may not apply to each schema
        user, host = self._session.account
        grantee = f"'{user}'@'{host}'"
        granted = {str(right).upper() for to, right in self._session.rows(_GRANTED) if str(to) == grantee}
        return not granted.issuperset(RIGHTS)


def _hides(ddl: Statement, names: frozenset[str]) -> bool:
    """Whether DDL may have removed the object that made a name a suspect."""
    words = unwrapped(ddl.said).words
    if not words:
        return True  # the text cannot be parsed
    kind, what = words[0], kind_of_object(words)
    if kind == "CREATE" and words[1:3] != ("OR", "REPLACE"):
        return False
    if what in _HIDERS:
        return True
    if is_temporary(words) or (kind == "ALTER" and "RENAME" not in words):
        return False
    return bool(names & ddl.said.names - _GRAMMAR)
