"""Proves that a change written as a statement (DML as text) leaves the followed tables alone, or says why it may not.

A statement that names no followed table changes one through a view, a trigger, a stored function or a MERGE table. It
is passed over where none of its names is one of these, on the whole server, and was none when the statement ran: DDL
that takes such an object away is looked for in the binlog behind the statement. A login that does not see every
trigger and routine proves nothing: MySQL, "The INFORMATION_SCHEMA TRIGGERS Table", "... ROUTINES Table".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slotkeeper.core.sources.mysql.follow import there
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.statements import Statement, is_temporary, kind_of_object, unwrapped

RIGHTS = ("SELECT", "TRIGGER", "EXECUTE")
"""What a login needs on *.* to see every table, trigger and routine."""
SECONDS = 60.0
"""The time of one question: information_schema opens every table of the server."""
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
"""First words of DDL that may take an object away; "" of what cannot be read."""
_GRAMMAR = frozenset(
    {"table", "tables", "if", "exists", "to", "or", "replace", "create", "as", "select", "primary", "key"}
)


@dataclass(frozen=True, slots=True)
class _Taken:
    """The server's suspects by name, and the DDL in the binlog that may have hidden one, (after, up_to]."""

    after: MysqlPosition
    up_to: MysqlPosition
    suspects: dict[str, str]
    ddl: tuple[Statement, ...]
    blind: str


class Bystanders:
    """Judges statements of one lane. `newest` says where the binlog ends, `statements` gives those of a range."""

    def __init__(
        self,
        session: MysqlSession,
        newest: Callable[[], MysqlPosition],
        statements: Callable[[MysqlPosition, MysqlPosition], Iterator[Statement]],
    ) -> None:
        self._session, self._newest, self._statements = session, newest, statements
        self._taken: _Taken | None = None

    def doubt(self, statement: Statement) -> str:
        """What stands against the proof that a statement changed no followed table; "" where it is proven."""
        taken, here = self._taken, statement.position
        if taken is None or not (there(here, taken.after) and there(taken.up_to, here)):
            taken = self._taken = self._take(here)
        if taken.blind:
            return taken.blind
        names = statement.said.names
        for name in sorted(names & taken.suspects.keys()):
            return f"it names {name}, {taken.suspects[name]}"
        for one in taken.ddl:
            if not there(here, one.position) and _hides(one, names):
                text = " ".join(one.text.split())[:100]
                return f"what it names may have been a view, or had a trigger, until {one.position.shown}: {text!r}"
        return ""

    def _take(self, after: MysqlPosition) -> _Taken:
        """Ask the server, and then read the DDL up to a place of which the answer knows."""
        if self._blind():
            missing = "this login does not see every trigger and routine"
            return _Taken(after, self._newest(), {}, (), f"{missing} (GRANT {', '.join(RIGHTS)} ON *.*)")
        suspects = {
            str(name).casefold(): str(what)
            for statement in _SUSPECTS
            for name, what in self._session.rows(statement, (), SECONDS)
        }
        up_to = self._newest()
        ddl = tuple(one for one in self._statements(after, up_to) if _kind(one) in _TAKE_AWAY)
        return _Taken(after, up_to, suspects, ddl, "")

    def _blind(self) -> bool:
        if self._session.facts.of("partial_revokes") in ("ON", "1"):
            return True  # a right on *.* may not hold for each schema
        user, _, host = str(self._session.rows("SELECT CURRENT_USER()")[0][0]).rpartition("@")
        grantee = f"'{user}'@'{host}'"
        granted = {str(right).upper() for to, right in self._session.rows(_GRANTED) if str(to) == grantee}
        return not granted.issuperset(RIGHTS)


def _kind(statement: Statement) -> str:
    words = unwrapped(statement.said).words
    return words[0] if words else ""


def _hides(ddl: Statement, names: frozenset[str]) -> bool:
    """Whether DDL may have taken away what made a name a suspect."""
    words = unwrapped(ddl.said).words
    if not words:
        return True  # it cannot be read
    kind, what = words[0], kind_of_object(words)
    if kind == "CREATE" and words[1:3] != ("OR", "REPLACE"):
        return False
    if what in _HIDERS:
        return True
    if is_temporary(words) or (kind == "ALTER" and "RENAME" not in words):
        return False
    return bool(names & ddl.said.names - _GRAMMAR)
