"""Determine what an ALTER TABLE in the binlog does to each column of a followed table, from its text alone. Pure.

The present state of the table proves nothing about an earlier statement, because later statements may have changed the
table. The columns before the statement are therefore stored with the lane's position, and the statement is applied to
them. The type of a column is parsed only if the column is mirrored or would be; any other changed column is `opaque`:
only its name and its place in a row are known, and the rows themselves contain its size.

Names in a statement belong to the columns before it, in an order that differs between servers, so a statement in which
two clauses name one column, or in which a new name was another column's, is not applied.

A clause that is not known here raises `NotFollowed`, and the lane stops. Sources: MySQL, "ALTER TABLE Statement",
"CREATE TABLE Statement", "Data Type Storage Requirements"; MariaDB, "ALTER TABLE", "CREATE TABLE".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from slotkeeper.core.sources.mysql.definitions import TEXTS, NotFollowed, Reading, defined, same_form, split
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

    `before`: its previous name, or "" if it was added. `column` is opaque if its definition was not needed, or not read
    for the reason `why`. `default`: the value that existing rows get in an added column, None for NULL.
    """

    before: str
    column: SchemaColumn
    default: str | None = None
    why: str = ""


REPEATED = "the position may be before a change that was already followed; take a new snapshot"
"""With the columns after a statement, the rows before the statement would be decoded incorrectly."""
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
    key: frozenset[str]
    adds: bool
    claimed: set[str] = field(default_factory=set)
    """The columns, by old and new name, that a clause has named."""
    renewed: set[str] = field(default_factory=set)
    """The old and new names of columns that are renamed, added or dropped."""
    behind: set[str] = field(default_factory=set)
    """The names after AFTER."""
    known_named: bool = False
    """Whether a clause defines, renames, adds or drops a column whose definition is known."""
    has_charset: bool = False
    has_text: bool = False

    def place(self, name: str) -> int:
        for number, one in enumerate(self.columns):
            if one.column.name.casefold() == name.casefold():
                return number
        raise NotFollowed(f"the column {name} is unknown: {REPEATED}")

    def claim(self, old: str, new: str) -> None:
        """Note a clause's column, by its name before and after ("" for none); raises NotFollowed."""
        one, other = old.casefold(), new.casefold()
        names = {one, other} - {""}
        if names & self.claimed:
            raise NotFollowed(f"two clauses name the column {new or old}")
        if other and other != one and any(column.before.casefold() == other for column in self.columns):
            raise NotFollowed(f"the table had a column {new} already: {REPEATED}")
        self.claimed |= names
        if one != other:
            self.renewed |= names


def altered(
    said: Said,
    before: Described,
    *,
    wanted: Collection[str],
    adds: bool,
    charset: str = "",
    maria: bool = True,
    key_index: str = "PRIMARY",
    key: Collection[str] = (),
) -> tuple[tuple[Altered, ...], str]:
    """Apply an ALTER TABLE to the columns `before` it; return the columns after it, and the table's character set.

    `wanted` are the mirrored columns, whose definitions are parsed; `adds`: added columns would also be mirrored.
    `charset` is the table's default character set, "" if unknown; `key` are the columns of `key_index`. Raises
    NotFollowed with the reason.

    >>> from slotkeeper.core.sources.mysql.statements import read
    >>> table = (SchemaColumn("id", "int", "int(11)", False), SchemaColumn("v", "int", "int(11)", True))
    >>> found, _ = altered(read("ALTER TABLE t ADD w TEXT AFTER id, DROP v"), table, wanted={"id"}, adds=False)
    >>> [(one.before, one.column.name, one.column.kind) for one in found]
    [('id', 'id', 'int'), ('', 'w', 'opaque')]
    >>> said = read("ALTER TABLE t DROP IF EXISTS v, ADD IF NOT EXISTS (w INT)")
    >>> [one.column.name for one in altered(said, table, wanted={"id"}, adds=False)[0]]
    ['id', 'w']
    """
    said = unwrapped(said)
    folded, of_key = (frozenset(one.casefold() for one in names) for names in (wanted, key))
    table = _Table([Altered(one.name, one) for one in before], folded, charset, maria, key_index, of_key, adds)
    for clause in split(table_of(said)[2]):
        _clause(Reading(clause), table)
    if table.behind & table.renewed:
        raise NotFollowed(f"{min(table.behind & table.renewed)} after AFTER is renamed, added or dropped by a clause")
    if table.has_charset and table.has_text:
        raise NotFollowed("it defines a text column and changes the table's character set")
    after = [one.column for one in table.columns]
    if table.known_named and len(after) == len(before) and all(map(same_form, before, after)):
        raise NotFollowed(f"the statement changes nothing: {REPEATED}")
    return tuple(table.columns), table.charset


def table_of(said: Said) -> tuple[str, str, Sequence[Token]]:
    """Return the schema ("" for the current one) and name of the table that an ALTER or the first part of a RENAME
    changes, and the tokens after it. Raises NotFollowed for another statement.

    >>> from slotkeeper.core.sources.mysql.statements import read
    >>> table_of(read("ALTER TABLE IF EXISTS `S`.t FORCE"))[:2], table_of(read("RENAME TABLE t TO u"))[:2]
    (('S', 't'), ('', 't'))
    """
    said = unwrapped(said)
    reading = Reading(said.tokens)
    if reading.skip("RENAME"):
        reading.skip("TABLES")
    elif not reading.skip("ALTER"):
        raise NotFollowed("it is not an ALTER TABLE")
    reading.skip("ONLINE")
    if not reading.skip("TABLE") and said.words[1:2] != ("TABLES",):
        raise NotFollowed(f"ALTER {reading.word} is not followed")
    reading.skip("IF", "EXISTS")
    schema, name = "", reading.take()
    if reading.skip("."):
        schema, name = name, reading.take()
    return schema, name, said.tokens[reading.at :]


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
        old = one.take()
        was = table.columns[table.place(old)]
        one.at -= verb == "MODIFY"
        _define(one, table, was, old)
    elif verb == "RENAME":
        one.take()
        _rename(one, table)
    elif verb == "ALTER":
        one.take()
        if one.word not in ("INDEX", "KEY", "CHECK", "CONSTRAINT"):
            one.skip("COLUMN")
            one.skip("IF", "EXISTS")
            name = one.take()
            table.claim(name, name)
            table.place(name)
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
            table.charset, table.has_charset = one.take().lower(), True
        elif one.skip("COLLATE"):
            one.skip("=")
            table.charset, table.has_charset = one.take().lower().partition("_")[0], True
        else:
            one.take()


def _add(one: Reading, table: _Table) -> None:
    if one.word in _NOT_COLUMNS or one.word in ("PRIMARY", "PERIOD", "SYSTEM", "PARTITION"):
        if one.word not in _NOT_COLUMNS or any(t.kind == "word" and t.text.upper() == "PRIMARY" for t in one.tokens):
            raise NotFollowed("it changes the key, or what the table stores besides its rows")
        return
    one.skip("COLUMN")
    one.skip("IF", "NOT", "EXISTS")
    definitions = [Reading(each) for each in split(one.group())] or [one]
    for each in definitions:
        if each.word in _NOT_COLUMNS:
            continue
        if each.word == "PRIMARY":
            raise NotFollowed("it changes the key")
        _define(each, table, None, "")


def _drop(one: Reading, table: _Table) -> None:
    if one.word in ("INDEX", "KEY", "CONSTRAINT", "CHECK", "FOREIGN"):
        names = [token.text.casefold() for token in one.tokens]
        if table.key_index.casefold() in names:
            raise NotFollowed("it drops the key")
        return
    if one.word in ("PRIMARY", "PERIOD", "SYSTEM", "PARTITION"):
        raise NotFollowed("it changes the key, or what the table stores besides its rows")
    one.skip("COLUMN")
    one.skip("IF", "EXISTS")
    name = one.take()
    table.claim(name, "")
    del table.columns[table.place(name)]


def _rename(one: Reading, table: _Table) -> None:
    if one.word in ("INDEX", "KEY"):
        if table.key_index.casefold() in [token.text.casefold() for token in one.tokens]:
            raise NotFollowed("it renames the index of the key")
        return
    if not one.skip("COLUMN"):
        raise NotFollowed("it renames the table")
    one.skip("IF", "EXISTS")
    old = one.take()
    if not one.skip("TO"):
        raise NotFollowed("a RENAME COLUMN without TO")
    new = one.take()
    table.claim(old, new)
    place = table.place(old)
    was = table.columns[place]
    table.known_named = table.known_named or was.column.kind != OPAQUE
    table.columns[place] = replace(was, column=replace(was.column, name=new))


def _define(one: Reading, table: _Table, was: Altered | None, old: str) -> None:
    """Add a column, or change `was`, according to a definition: a name, a type, attributes and a place."""
    name = one.take()
    table.claim(old, name)
    table.known_named = table.known_named or was is None or was.column.kind != OPAQUE
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
    if made.before.casefold() in table.key and made.column.kind != OPAQUE and made.column.nullable:
        if table.key_index != "PRIMARY":
            raise NotFollowed(f"the column {name} of the key is no longer NOT NULL")
        # MySQL, "CREATE TABLE Statement": columns of a primary key are NOT NULL, implicitly if not declared so
        made = replace(made, column=replace(made.column, nullable=False))
    table.has_text = table.has_text or made.column.kind in TEXTS
    where = len(table.columns)
    if was is not None:
        where = table.columns.index(was)
        del table.columns[where]
    if place_at < len(one.tokens):
        one.at = place_at
        if one.skip("FIRST"):
            where = 0
        elif one.skip("AFTER"):
            behind = one.take()
            where = table.place(behind) + 1
            if table.columns[where - 1].before:  # a column that an earlier clause adds has no other meaning
                table.behind.add(behind.casefold())
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
