"""One table as the server describes it now: its columns, its key, and what a sink calls it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql.columns import Described
from slotkeeper.core.sources.mysql.errors import Unsupported
from slotkeeper.core.sources.mysql.image import Image, image_of
from slotkeeper.core.sources.mysql.requirements import ServerFacts
from slotkeeper.core.sources.mysql.schema import read_described
from slotkeeper.core.sources.mysql.session import MysqlSession

_TABLE = "SELECT table_schema, table_name, table_type, engine FROM information_schema.tables"


PRIMARY = "PRIMARY"


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A column of an index, as SHOW INDEX lists it: `name` is None for an expression, `prefix` for a whole column."""

    index: str
    unique: bool
    name: str | None
    prefix: int | None
    nullable: bool
    kind: str = "BTREE"


@dataclass(frozen=True, slots=True)
class TableSeen:
    """A table: `schema` and `name` as the server stores them, which is how the binlog names it.

    `kind` is its type in information_schema.TABLES, `engine` its storage engine.
    """

    schema: str
    name: str
    described: Described
    images: tuple[Image, ...]
    identity: TableIdentity
    kind: str = "BASE TABLE"
    engine: str = "InnoDB"
    key_index: str = PRIMARY
    """The index whose columns are the key."""

    @property
    def quoted(self) -> str:
        """The table for a statement."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def key(self) -> tuple[Image, ...]:
        """The columns of the key, in its order."""
        by_name = {one.name: one for one in self.images}
        return tuple(by_name[name] for name in self.identity.key)


def quoted(name: str) -> str:
    """A name for a statement that goes through pymysql.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def read_table(session: MysqlSession, table: str) -> TableSeen:
    """The table `schema.name` as it is now; Refused where it is not there or has no usable key."""
    schema, name, sort = stored_names(session, table)
    found = session.asking(lambda line: read_described(line, schema, name))
    if found is None:
        raise _absent(session, table)
    described: Described = found
    index, key = key_of(read_indexes(session, f"{quoted(schema)}.{quoted(name)}"))
    for objection in key_objections(table, key):
        raise Refused(objection.text, objection.cure, where="source")
    try:
        images = tuple(map(image_of, described))
    except Unsupported as error:
        raise Refused(f"{table}: {error.message}", error.cure, where="source") from None
    columns = tuple(
        Column(image.name, image.type, not one.nullable, number=place)
        for place, (image, one) in enumerate(zip(images, described, strict=True), 1)
    )
    identity = TableIdentity(0, columns, tuple(part.name or "" for part in key), server_of(session.facts))
    return TableSeen(schema, name, described, images, identity, *sort, key_index=index)


def read_indexes(session: MysqlSession, table: str) -> list[IndexPart]:
    """The columns of a table's indexes, in the server's own order; `table` is quoted.

    MySQL, "SHOW INDEX Statement"; later columns differ between the servers.
    """
    return [
        IndexPart(
            str(row[2]),
            not int(row[1]),
            None if row[4] is None else str(row[4]),
            None if row[7] is None else int(row[7]),
            str(row[9]).upper() == "YES",
            str(row[10]).upper(),
        )
        for row in session.rows(f"SHOW INDEX FROM {table}")
    ]


def key_of(parts: Sequence[IndexPart]) -> tuple[str, list[IndexPart]]:
    """The index whose columns tell rows apart, and its columns: the primary key, else the first UNIQUE index that can.

    That is one over whole columns that hold no NULL, which the servers themselves take for a missing primary key
    (MySQL, "Clustered and Secondary Indexes"). The server lists such indexes in the order in which they were made, so
    that another one changes nothing. Indexes by hash serve no ranges of a copy.
    """
    indexes: dict[str, list[IndexPart]] = {}
    for part in parts:
        indexes.setdefault(part.index, []).append(part)
    if PRIMARY in indexes:
        return PRIMARY, indexes[PRIMARY]
    for name, columns in indexes.items():
        whole = all(one.unique and one.name and one.prefix is None and not one.nullable for one in columns)
        if whole and columns[0].kind != "HASH":
            return name, columns
    return PRIMARY, []


def stored_names(session: MysqlSession, table: str) -> tuple[str, str, tuple[str, str]]:
    """Schema and name of a table as the server stores them, and its type with its storage engine; where the server does
    not tell cases apart, neither do we.

    MySQL, "Identifier Case Sensitivity": with lower_case_table_names 1 names are stored in lower case, with 2 as they
    were written. Raises Refused where there is no such table, or none that this login may see.
    """
    schema, _, name = table.partition(".")
    if session.facts.of("lower_case_table_names") in ("", "0"):
        rows = session.rows(f"{_TABLE} WHERE table_schema = %s AND table_name = %s", (schema, name))
        rows = [row for row in rows if (str(row[0]), str(row[1])) == (schema, name)]
    else:
        where = "WHERE lower(table_schema) = lower(%s) AND lower(table_name) = lower(%s)"
        rows = session.rows(f"{_TABLE} {where}", (schema, name))
    if not rows:
        raise _absent(session, table)
    if "TABLE" not in str(rows[0][2]).upper() and "VERSIONED" not in str(rows[0][2]).upper():
        raise Refused(f"{table} is no table: {str(rows[0][2]).lower()}", "name a base table", where="source")
    return str(rows[0][0]), str(rows[0][1]), (str(rows[0][2]), str(rows[0][3] or ""))


def key_objections(table: str, key: Sequence[IndexPart]) -> Iterator[Objection]:
    """What stands against a key of these columns."""
    if not key:
        what = f"{table} has no primary key, and no UNIQUE key over whole columns that are NOT NULL"
        yield Objection(what, f"ALTER TABLE {table} ADD PRIMARY KEY (...)")
    for part in key:
        if part.prefix is not None:
            what = f"{table} has a primary key over the beginning of {part.name}:"
            yield Objection(f"{what} two rows may share what we would call one", "make the key of whole columns")


def server_of(facts: ServerFacts) -> str:
    """What tells this server from others, as far as it tells: MariaDB has no UUID, so its id is taken."""
    return facts.variables.get("server_uuid", "") or f"server-{facts.variables.get('server_id', '')}"


def _absent(session: MysqlSession, table: str) -> Refused:
    cure = f"check its name; or GRANT SELECT ON {table} TO {session.user}"
    return Refused(f"{table} is not there, or may not be seen by this login", cure, where="source")
