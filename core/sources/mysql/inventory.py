"""What a followed table has beside its columns that changes rows without row events: refused by name, before a start.

Foreign keys and their actions are read from SHOW CREATE TABLE: information_schema.REFERENTIAL_CONSTRAINTS is empty for
a login that has SELECT alone (tried on MariaDB 10.11).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from slotkeeper.core.domain.finding import Objection, refuse
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql.alters import ENGINES
from slotkeeper.core.sources.mysql.columns import Described
from slotkeeper.core.sources.mysql.requirements import ServerFacts
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.statements import cascades
from slotkeeper.core.sources.mysql.tables import TableSeen, quoted
from slotkeeper.core.sources.mysql.tokens import Said, Unread, read
from slotkeeper.core.sources.mysql.values import text_reader

CASCADES_WRITTEN = (9, 6)
"""The MySQL whose server carries cascades out itself, and writes row events for them, but where
innodb_native_foreign_keys is on (MySQL 9.6, "FOREIGN KEY Constraints")."""
_ENGINES = frozenset(one.lower() for one in ENGINES)
_TRANSACTIONAL = frozenset({"innodb", "rocksdb", "tokudb", "ndbcluster"})
_CANNOT_BE_READ = "what SHOW CREATE TABLE answers cannot be read"


def objections(session: MysqlSession, seen: TableSeen, cascades_known: bool) -> Iterator[Objection]:
    """What stands against following a table, the first the one to be named. Raises SlotkeeperError."""
    table = f"{seen.schema}.{seen.name}"
    yield from kind_objections(table, seen.kind, seen.engine)
    yield from charset_objections(table, seen.described)
    if not cascades_known and not cascades_are_written(session.facts):
        for key in _cascading(_created(session, seen)):
            yield Objection(
                f"{table} has foreign key {key} with cascades, which change its rows without row events",
                'make the key RESTRICT, or set cascades = "allow" in the channel if such rows may stay wrong',
            )
    if seen.engine.lower() == "myisam":
        for merge in _merges(session, seen):
            yield Objection(
                f"{table} is part of the MERGE table {merge}, whose changes do not name it", "drop that table"
            )


def admit(session: MysqlSession, seen: TableSeen, cascades_known: bool) -> None:
    """Raises Refused with the first objection."""
    refuse(list(objections(session, seen, cascades_known)), "source")


def cascades_are_written(facts: ServerFacts) -> bool:
    """Whether the server writes row events for what a cascade changes.

    >>> cascades_are_written(ServerFacts({"version": "9.6.0"})), cascades_are_written(ServerFacts({"version": "8.4.2"}))
    (True, False)
    """
    native = facts.of("innodb_native_foreign_keys") in ("ON", "1")
    return not facts.is_mariadb and facts.version >= CASCADES_WRITTEN and not native


def is_transactional(engine: str) -> bool:
    """Whether an engine's rows and the binlog agree after a crash."""
    return engine.lower() in _TRANSACTIONAL


def kind_objections(table: str, kind: str, engine: str) -> Iterator[Objection]:
    """What stands against a table's type and its storage engine.

    MariaDB, "System-Versioned Tables": a DELETE is an UPDATE of the row's end there, and an UPDATE an INSERT beside.

    >>> [one.what for one in kind_objections("s.t", "BASE TABLE", "BLACKHOLE")]
    ['s.t has engine BLACKHOLE, whose rows are not all in this server and its binlog']
    """
    if "VERSIONED" in kind.upper():
        what = f"{table} is system-versioned: a DELETE there leaves the row, an UPDATE adds one"
        yield Objection(what, f"ALTER TABLE {table} DROP SYSTEM VERSIONING, or leave the table out of the job")
    if engine.lower() not in _ENGINES:
        what = f"{table} has engine {engine or 'unknown'}, whose rows are not all in this server and its binlog"
        yield Objection(what, f"ALTER TABLE {table} ENGINE = InnoDB")


def charset_objections(table: str, described: Described) -> Iterator[Objection]:
    """The columns whose text the stream cannot read: a copy could, for the server converts what it selects.

    >>> from slotkeeper.core.sources.mysql.columns import SchemaColumn
    >>> [one.what for one in charset_objections("s.t", (SchemaColumn("a", "char", "char(1)", True, "swe7"),))]
    ['s.t: column a has character set swe7, which is not read']
    """
    for one in described:
        if one.charset and text_reader(one.charset) is None:
            what = f"{table}: column {one.name} has character set {one.charset}, which is not read"
            yield Objection(what, "convert the column to utf8mb4, or leave the table out of the job")


def _created(session: MysqlSession, seen: TableSeen) -> Said:
    try:
        return read(str(session.rows(f"SHOW CREATE TABLE {seen.quoted}")[0][1]), 0, session.facts.is_mariadb)
    except Unread:
        raise Refused(f"{seen.schema}.{seen.name}: {_CANNOT_BE_READ}", "report it", where="source") from None


def _cascading(created: Said) -> Iterator[str]:
    """The names of the foreign keys with cascades in a CREATE TABLE.

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


def _merges(session: MysqlSession, seen: TableSeen) -> Iterator[str]:
    """The MERGE tables that may have a table in them, as far as this login sees."""
    found = session.rows("SELECT table_schema, table_name FROM information_schema.tables WHERE engine = 'MRG_MyISAM'")
    for schema, name in found:
        rows = session.rows(f"SHOW CREATE TABLE {quoted(str(schema))}.{quoted(str(name))}")
        if seen.name.casefold() in read(str(rows[0][1])).names:
            yield f"{schema}.{name}"
