"""Determine what an ALTER TABLE in the binlog does to each column of a followed table, from its text alone. Pure.

The present state of the table proves nothing about an earlier statement, because the table can be several statements
further. So the columns before the statement are known (they are stored with the lane's position), and the statement is
applied to them. The type of a column is parsed only if the column is mirrored or would become so; any other changed
column is `opaque`: only its name and its place in a row are known, and the rows themselves contain its size.

A clause that is not known here raises `NotFollowed`, and the lane stops. Sources: MySQL, "ALTER TABLE Statement",
"CREATE TABLE Statement", "Data Type Storage Requirements"; MariaDB, "ALTER TABLE", "CREATE TABLE".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from slotkeeper.core.sources.mysql.definitions import NotFollowed, Reading, defined, split
from slotkeeper.core.sources.mysql.rows import Described, SchemaColumn
from slotkeeper.core.sources.mysql.statements import Said, Token, unwrapped
from slotkeeper.core.sources.mysql.table_map import BINARY, PhysicalColumn, TableMap, Type

OPAQUE = "opaque"
"""The kind of a column of which only the name is known."""


def opaque(name: str) -> SchemaColumn:
    return SchemaColumn(name, OPAQUE, "", True)


@dataclass(frozen=True, slots=True)
class Altered:
    """A column after a statement.

    `before`: its name before, "" if it was added. `column` is opaque if its definition was not needed, or not parsed
    for the reason `why`. `default`: the value that existing rows get in an added column, None for NULL.
    """

    before: str
    column: SchemaColumn
    default: str | None = None
    why: str = ""


_NOT_COLUMNS = frozenset({"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "CHECK"})
_OPTIONS = frozenset(
    {
        *("ENGINE", "COMMENT", "ROW_FORMAT", "AUTO_INCREMENT", "ALGORITHM", "LOCK", "FORCE", "ORDER", "ENABLE"),
        *("DISABLE", "KEY_BLOCK_SIZE", "STATS_PERSISTENT", "STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES", "MAX_ROWS"),
        *("MIN_ROWS", "AVG_ROW_LENGTH", "CHECKSUM", "PACK_KEYS", "DELAY_KEY_WRITE", "WITH", "WITHOUT", "NOWAIT"),
        *("WAIT", "COMPRESSION", "ENCRYPTION", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "TRANSACTIONAL"),
        *("PAGE_CHECKSUM", "INSERT_METHOD", "CONNECTION"),
    }
)
"""First words of clauses that change no column."""


@dataclass(slots=True)
class _Table:
    columns: list[Altered]
    wanted: frozenset[str]
    charset: str
    maria: bool
    key_index: str
    adds: bool
    dropped: list[str] = field(default_factory=list)

    def place(self, name: str) -> int:
        for number, one in enumerate(self.columns):
            if one.column.name.casefold() == name.casefold():
                return number
        raise NotFollowed(f"the column {name} is unknown")

    def has(self, name: str) -> bool:
        return any(one.column.name.casefold() == name.casefold() for one in self.columns)


def altered(
    said: Said,
    before: Described,
    *,
    wanted: Collection[str],
    adds: bool,
    charset: str = "",
    maria: bool = True,
    key_index: str = "PRIMARY",
) -> tuple[tuple[Altered, ...], str]:
    """Apply an ALTER TABLE to the columns `before` it; return the columns after it, and the table's character set.

    `wanted` are the mirrored columns, whose definitions are parsed; `adds`: added columns would also be mirrored.
    `charset` is the table's default character set, "" if unknown. Raises NotFollowed with the reason.

    >>> from slotkeeper.core.sources.mysql.statements import read
    >>> table = (SchemaColumn("id", "int", "int(11)", False), SchemaColumn("v", "int", "int(11)", True))
    >>> found, _ = altered(read("ALTER TABLE t ADD w TEXT AFTER id, DROP v"), table, wanted={"id"}, adds=False)
    >>> [(one.before, one.column.name, one.column.kind) for one in found]
    [('id', 'id', 'int'), ('', 'w', 'opaque')]
    """
    said = unwrapped(said)
    folded = frozenset(one.casefold() for one in wanted)
    table = _Table([Altered(one.name, one) for one in before], folded, charset, maria, key_index, adds)
    for clause in split(_after_name(said)):
        _clause(Reading(clause), table)
    return tuple(table.columns), table.charset


def _after_name(said: Said) -> Sequence[Token]:
    reading = Reading(said.tokens)
    if not reading.skip("ALTER"):
        raise NotFollowed("it is not an ALTER TABLE")
    reading.skip("ONLINE")
    if not reading.skip("TABLE"):
        raise NotFollowed(f"ALTER {reading.word} is not followed")
    reading.skip("IF", "EXISTS")
    reading.take()
    if reading.skip("."):
        reading.take()
    return said.tokens[reading.at :]


def _clause(one: Reading, table: _Table) -> None:
    if one.word in ("WAIT", "NOWAIT"):
        one.at += 2 if one.word == "WAIT" else 1
        if one.ended:
            return
    verb = one.word
    words = [token.text.upper() for token in one.tokens if token.kind == "word"]
    if verb == "ADD":
        one.take()
        _add(one, table)
    elif verb == "DROP":
        one.take()
        _drop(one, table)
    elif verb in ("CHANGE", "MODIFY"):
        one.take()
        one.skip("COLUMN")
        one.skip("IF", "EXISTS")
        place = table.place(one.take() if verb == "CHANGE" else one.tokens[one.at].text)
        _define(one, table, table.columns[place])
    elif verb == "RENAME":
        one.take()
        _rename(one, table)
    elif verb == "ALTER":
        one.take()
        if one.word not in ("INDEX", "KEY", "CHECK", "CONSTRAINT"):
            one.skip("COLUMN")
            one.skip("IF", "EXISTS")
            table.place(one.take())
            if one.word not in ("SET", "DROP") or not {"DEFAULT", "VISIBLE", "INVISIBLE"}.intersection(words):
                raise NotFollowed(f"ALTER COLUMN {one.word} is not followed")
    elif verb == "CONVERT":
        raise NotFollowed("CONVERT TO CHARACTER SET can change the type of each text column")
    elif verb in _OPTIONS or verb in ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE"):
        if {"SYSTEM", "PERIOD", "PARTITION", "TABLESPACE"}.intersection(words):
            raise NotFollowed(f"{' '.join(words[:3])} is not followed")
        _table_charset(one, table)
    else:
        raise NotFollowed(f"the clause {' '.join(words[:3]) or verb} is not known")


def _table_charset(one: Reading, table: _Table) -> None:
    while not one.ended:
        if one.skip("CHARSET") or one.skip("CHARACTER", "SET"):
            one.skip("=")
            table.charset = one.take().lower()
        elif one.skip("COLLATE"):
            one.skip("=")
            table.charset = one.take().lower().partition("_")[0]
        else:
            one.take()


def _add(one: Reading, table: _Table) -> None:
    if one.word in _NOT_COLUMNS or one.word in ("PRIMARY", "PERIOD", "SYSTEM", "PARTITION"):
        if one.word not in _NOT_COLUMNS or any(t.kind == "word" and t.text.upper() == "PRIMARY" for t in one.tokens):
            raise NotFollowed("it changes the key, or what the table stores besides its rows")
        return
    one.skip("COLUMN")
    unless = one.skip("IF", "NOT", "EXISTS")
    definitions = [Reading(each) for each in split(one.group())] or [one]
    for each in definitions:
        if each.word in _NOT_COLUMNS:
            continue
        if each.word == "PRIMARY":
            raise NotFollowed("it changes the key")
        if unless and not each.ended and table.has(each.tokens[each.at].text):
            continue  # the column exists, so nothing is added
        _define(each, table, None)


def _drop(one: Reading, table: _Table) -> None:
    if one.word in ("INDEX", "KEY", "CONSTRAINT", "CHECK", "FOREIGN"):
        names = [token.text.casefold() for token in one.tokens]
        if table.key_index.casefold() in names:
            raise NotFollowed("it drops the key")
        return
    if one.word in ("PRIMARY", "PERIOD", "SYSTEM", "PARTITION"):
        raise NotFollowed("it changes the key, or what the table stores besides its rows")
    one.skip("COLUMN")
    unless = one.skip("IF", "EXISTS")
    name = one.take()
    if unless and not table.has(name):
        return
    gone = table.columns.pop(table.place(name))
    if gone.before:
        table.dropped.append(gone.before)


def _rename(one: Reading, table: _Table) -> None:
    if one.word in ("INDEX", "KEY"):
        if table.key_index.casefold() in [token.text.casefold() for token in one.tokens]:
            raise NotFollowed("it renames the index of the key")
        return
    if not one.skip("COLUMN"):
        raise NotFollowed("it renames the table")
    one.skip("IF", "EXISTS")
    place = table.place(one.take())
    if not one.skip("TO"):
        raise NotFollowed("a RENAME COLUMN without TO")
    was = table.columns[place]
    table.columns[place] = replace(was, column=replace(was.column, name=one.take()))


def _define(one: Reading, table: _Table, was: Altered | None) -> None:
    """Add a column, or change `was`, according to a definition: a name, a type, attributes and a place."""
    name = one.take()
    place_at = _place_of(one)
    definition = Reading(one.tokens[one.at : place_at])
    needed = table.adds if was is None else was.before.casefold() in table.wanted and was.column.kind != OPAQUE
    made = Altered(was.before if was is not None else "", opaque(name))
    if needed:
        try:
            made = Altered(made.before, *defined(name, definition, table.charset, table.maria))
        except NotFollowed as error:
            made = replace(made, why=str(error))
    _refuse_key(definition)
    where = len(table.columns)
    if was is not None:
        where = table.columns.index(was)
        del table.columns[where]
    if place_at < len(one.tokens):
        one.at = place_at
        if one.skip("FIRST"):
            where = 0
        elif one.skip("AFTER"):
            where = table.place(one.take()) + 1
    table.columns.insert(where, made)


def _place_of(one: Reading) -> int:
    """Return the index of FIRST or AFTER at the end of a definition, or the number of its tokens."""
    length = len(one.tokens)
    for at in (length - 1, length - 2):
        if at > one.at and one.tokens[at].kind == "word":
            if at == length - 1 and one.tokens[at].text.upper() == "FIRST":
                return at
            if at == length - 2 and one.tokens[at].text.upper() == "AFTER":
                return at
    return length


def _refuse_key(definition: Reading) -> None:
    words = [token.text.upper() for token in definition.tokens if token.kind == "word"]
    if "PRIMARY" in words or ("REFERENCES" in words) or {"PERIOD", "VERSIONING"}.intersection(words):
        raise NotFollowed("the column's definition changes a key, or what the table stores besides its rows")


# -- online schema changes

_NEW = r"_+{0}_(?:gho|new)|__osc_new_{0}"
"""Names that tools give to the new form of a table (gh-ost, `GetGhostTableName`; pt-online-schema-change, "--new-table-
name"; OnlineSchemaChange of Facebook)."""


def swaps(said: Said, table: str) -> bool:
    """Whether a RENAME TABLE moves a table away and puts the new form of it, which a tool has made, in its place.

    Such a tool applies all changes to the new form as well, and locks the table before it exchanges them.

    >>> from slotkeeper.core.sources.mysql.statements import read
    >>> swaps(read("rename /* gh-ost */ table `s`.`t` to `s`.`_t_del`, `s`.`_t_gho` to `s`.`t`"), "t")
    True
    >>> swaps(read("RENAME TABLE t TO old, loaded TO t"), "t"), swaps(read("RENAME TABLE t TO _t_old"), "t")
    (False, False)
    """
    said = unwrapped(said)
    reading = Reading(said.tokens)
    if not reading.skip("RENAME") or not (reading.skip("TABLE") or reading.skip("TABLES")):
        return False
    pairs = []
    for clause in split(said.tokens[reading.at :]):
        names = [one.text for one in clause if one.kind in ("word", "name")]
        if [one.casefold() for one in names].count("to") != 1:
            return False
        at = [one.casefold() for one in names].index("to")
        pairs.append((".".join(names[:at]).rpartition("."), ".".join(names[at + 1 :]).rpartition(".")))
    if len(pairs) != 2 or len({place for pair in pairs for place, _, _ in pair}) != 1:
        return False
    ((_, _, away), _), ((_, _, new), (_, _, into)) = pairs
    made = re.fullmatch(_NEW.format(re.escape(table)), new, re.IGNORECASE)
    return away.casefold() == into.casefold() == table.casefold() and made is not None


# -- rows with opaque columns -----------------------------------------------------------------------------------------

_KIND_OF = {
    Type.TINY: "tinyint",
    Type.SHORT: "smallint",
    Type.INT24: "mediumint",
    Type.LONG: "int",
    Type.LONGLONG: "bigint",
    Type.NEWDECIMAL: "decimal",
    Type.FLOAT: "float",
    Type.DOUBLE: "double",
    Type.BIT: "bit",
    Type.YEAR: "year",
    Type.DATE: "date",
    Type.TIME2: "time",
    Type.DATETIME2: "datetime",
    Type.TIMESTAMP2: "timestamp",
    Type.STRING: "binary",
    Type.VARCHAR: "varbinary",
    Type.VAR_STRING: "varbinary",
    Type.JSON: "longblob",
    Type.VARCHAR_COMPRESSED: "varbinary",
    Type.GEOMETRY: "geometry",
}
_BLOB_OF = {1: "tinyblob", 2: "blob", 3: "mediumblob", 4: "longblob"}


def without_opaque(table: TableMap, described: Described) -> tuple[TableMap, Described]:
    """Return a table map and columns in which each opaque column is a column of bytes or numbers of the same size.

    Its values are read and discarded, so its character set, signedness and labels do not matter.
    """
    places = [place for place, one in enumerate(described) if one.kind == OPAQUE]
    if not places or len(described) != len(table.columns):
        return table, described
    columns, found = list(table.columns), list(described)
    for place in places:
        columns[place], found[place] = _of_size(columns[place], described[place].name)
    return replace(table, columns=tuple(columns)), tuple(found)


def _of_size(one: PhysicalColumn, name: str) -> tuple[PhysicalColumn, SchemaColumn]:
    if one.code == Type.ENUM:
        one = replace(one, code=Type.TINY if one.first == 1 else Type.SHORT, labels=None)
    elif one.code == Type.SET:
        one = replace(one, code=Type.BIT, second=8 * one.first, labels=None)
    elif one.code == Type.JSON:
        one = replace(one, code=Type.BLOB)
    one = replace(one, unsigned=False, collation=BINARY)
    kind = _BLOB_OF.get(one.first, "") if one.code in (Type.BLOB, Type.BLOB_COMPRESSED) else _KIND_OF.get(one.code, "")
    column = SchemaColumn(name, kind, kind, one.nullable, most_bytes=one.first, precision=one.first, scale=one.second)
    if one.code == Type.BIT:
        column = replace(column, precision=one.second)
    return one, replace(column, fraction=one.first)
