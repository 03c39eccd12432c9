"""Parse the definition of a column in a statement, and compare the definitions before and after a change. Pure.

A definition that is not known here raises `NotFollowed`. Sources: MySQL, "CREATE TABLE Statement", "Data Types", "Data
Type Default Values", "Supported Character Sets and Collations"; MariaDB, "CREATE TABLE", "JSON Data Type".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from slotkeeper.core.sources.mysql.rows import SchemaColumn, labels_of
from slotkeeper.core.sources.mysql.statements import Token


class NotFollowed(ValueError):
    """The effect of a clause on the columns is not known."""


@dataclass(slots=True)
class Reading:
    """The tokens of one clause, from `at` on."""

    tokens: Sequence[Token]
    at: int = 0

    @property
    def word(self) -> str:
        """The next token in upper case if it is not quoted, else ""."""
        one = self.tokens[self.at] if self.at < len(self.tokens) else None
        return one.text.upper() if one is not None and one.kind in ("word", "sign") else ""

    @property
    def ended(self) -> bool:
        return self.at >= len(self.tokens)

    def skip(self, *words: str) -> bool:
        """Skip these words if they come next; return whether they did."""
        found = [one.text.upper() for one in self.tokens[self.at : self.at + len(words)] if one.kind != "name"]
        if found == list(words):
            self.at += len(words)
            return True
        return False

    def take(self) -> str:
        """Return the next token as a name or value."""
        if self.ended:
            raise NotFollowed("the statement ends unexpectedly")
        self.at += 1
        return self.tokens[self.at - 1].text

    def group(self) -> list[Token]:
        """Return the tokens between the parentheses that come next; none if there are none."""
        if self.word != "(":
            return []
        depth, first = 0, self.at + 1
        while not self.ended:
            depth += (self.word == "(") - (self.word == ")")
            self.at += 1
            if not depth:
                return list(self.tokens[first : self.at - 1])
        raise NotFollowed("a parenthesis is not closed")


def split(tokens: Sequence[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    depth = 0
    for one in tokens:
        if one.kind == "sign":
            depth += (one.text == "(") - (one.text == ")")
            if one.text == "," and not depth:
                found.append([])
                continue
        found[-1].append(one)
    return [one for one in found if one]


_KINDS = {
    **{one.upper(): one for one in ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double")},
    **{one.upper(): one for one in ("bit", "date", "time", "datetime", "timestamp", "year", "char", "varchar")},
    **{one.upper(): one for one in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")},
    **{one.upper(): one for one in ("tinytext", "text", "mediumtext", "longtext", "enum", "set", "json")},
    **{one.upper(): one for one in ("uuid", "inet4", "inet6")},
    "INTEGER": "int",
    "BOOL": "tinyint",
    "BOOLEAN": "tinyint",
    "DEC": "decimal",
    "NUMERIC": "decimal",
    "FIXED": "decimal",
    "REAL": "double",
    "CHARACTER": "char",
    "INT1": "tinyint",
    "INT2": "smallint",
    "INT3": "mediumint",
    "INT4": "int",
    "INT8": "bigint",
    "MIDDLEINT": "mediumint",
    "VARCHARACTER": "varchar",
}
_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint")
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_MOMENTS = frozenset({"time", "datetime", "timestamp"})
_BLOB_BYTES = {"tiny": 255, "text": 65535, "blob": 65535, "medi": (1 << 24) - 1, "long": (1 << 32) - 1}
MOST_BYTES = {
    **dict.fromkeys(("latin1", "latin2", "latin5", "latin7", "ascii", "binary", "cp1250", "cp1251", "cp1256"), 1),
    **dict.fromkeys(("cp1257", "cp850", "cp852", "cp866", "greek", "hebrew", "koi8r", "koi8u", "macce", "macroman"), 1),
    **dict.fromkeys(("tis620",), 1),
    **dict.fromkeys(("gbk", "big5", "sjis", "cp932", "euckr", "gb2312", "ucs2"), 2),
    **dict.fromkeys(("utf8", "utf8mb3", "ujis"), 3),
    **dict.fromkeys(("utf8mb4", "utf16", "utf16le", "utf32"), 4),
}
"""Maximum number of bytes of a character, by character set (MySQL, "Supported Character Sets and Collations")."""


def defined(name: str, one: Reading, table_charset: str, maria: bool) -> tuple[SchemaColumn, str | None]:
    """Parse a column's definition after its name; return the column, and the value of existing rows if it is added.

    None stands for NULL. Raises NotFollowed with the reason.
    """
    typed = one.take().upper()
    kind = _KINDS.get(typed, "")
    if typed == "DOUBLE":
        one.skip("PRECISION")
    if kind == "char" and one.skip("VARYING"):
        kind = "varchar"
    if not kind:
        raise NotFollowed(f"the type {typed} is not followed")
    arguments = one.group()
    labels, commas = arguments[::2], arguments[1::2]  # two strings in a row are one, and a prefix is a character set
    plain = all(token.kind in ("string", "long") and token.text == token.text.rstrip() for token in labels)
    separate = len(labels) > len(commas) and all(token == Token("sign", ",") for token in commas)
    if kind in ("enum", "set") and not (plain and separate):
        raise NotFollowed("a label is not a plain string, or has blanks at its end, which the server removes")
    values = [_value(token) for token in arguments if token != Token("sign", ",")]
    given = _Given(kind, values, typed in ("BOOL", "BOOLEAN"))
    attributes = _attributes(one)
    column = _column(name, given, attributes, table_charset, maria)
    if attributes.why:
        raise NotFollowed(attributes.why)
    return column, _default(column, attributes)


def _value(token: Token) -> str:
    """Return a literal's text; raises NotFollowed if it is too long or has an escape, which depends on the mode."""
    if token.kind == "long" or (token.kind == "string" and any(one in token.text for one in ("\\", "''", '""'))):
        raise NotFollowed("a literal is longer than 64 characters, or has an escaped character")
    return token.text


@dataclass(frozen=True, slots=True)
class _Given:
    kind: str
    arguments: list[str]
    boolean: bool


@dataclass(slots=True)
class _Attributes:
    unsigned: bool = False
    nullable: bool = True
    charset: str = ""
    default: Token | None = None
    why: str = ""


def _attributes(one: Reading) -> _Attributes:
    found = _Attributes()
    while not one.ended:
        if one.skip("UNSIGNED") or one.skip("ZEROFILL"):
            found.unsigned = True
        elif one.skip("NOT", "NULL"):
            found.nullable = False
        elif one.skip("CHARACTER", "SET") or one.skip("CHARSET"):
            found.charset = one.take().lower()
        elif one.skip("COLLATE"):
            collation = one.take().lower()
            found.charset = found.charset or collation.partition("_")[0]
        elif one.skip("DEFAULT"):
            _read_default(one, found)
        elif one.skip("COMMENT") or one.skip("COLUMN_FORMAT") or one.skip("STORAGE"):
            one.take()
        elif one.skip("ON", "UPDATE"):
            one.take()
            one.group()
        elif one.skip("CHECK"):
            one.group()
        elif not any(map(one.skip, ("SIGNED", "NULL", "UNIQUE", "KEY", "INVISIBLE", "VISIBLE"))):
            raise NotFollowed(f"the attribute {one.take()} is not followed")
    return found


def _read_default(one: Reading, found: _Attributes) -> None:
    sign = one.skip("-")
    if not sign:
        one.skip("+")
    token = one.tokens[one.at] if not one.ended else Token("word", "NULL")
    text = _value(token)
    one.take()
    while token.kind == "word" and one.skip("."):  # a number with decimal places is several tokens
        text += f".{one.take()}"
    if token.kind != "string" and text.upper() in ("NULL", "TRUE", "FALSE"):
        found.default = {"TRUE": Token("word", "1"), "FALSE": Token("word", "0")}.get(text.upper())
    elif token.kind == "string" or (token.kind == "word" and text.replace(".", "", 1).isdigit()):
        found.default = Token(token.kind, f"-{text}" if sign else text)
    else:
        if one.word == "(":
            one.group()
        found.why = "existing rows get the value of an expression, which the binlog does not contain"


def _column(name: str, given: _Given, attributes: _Attributes, table_charset: str, maria: bool) -> SchemaColumn:
    kind, arguments = given.kind, given.arguments
    numbers = [int(one) for one in arguments if one.isdigit()]
    sizes = f"({','.join(map(str, numbers))})" if numbers else ""
    unsigned = " unsigned" if attributes.unsigned else ""
    column = SchemaColumn(name, kind, f"{kind}{sizes}{unsigned}", attributes.nullable)
    if kind == "json" and maria:  # MariaDB, "JSON Data Type": an alias for LONGTEXT
        return replace(column, kind="longtext", full_type="longtext", charset="utf8mb4", most_bytes=(1 << 32) - 1)
    if given.boolean:
        return replace(column, full_type="tinyint(1)")
    if kind == "decimal":
        precision, scale = [*numbers, *(10, 0)[len(numbers) :]][:2]
        return replace(column, full_type=f"decimal({precision},{scale}){unsigned}", precision=precision, scale=scale)
    if kind == "float" and len(numbers) == 1:
        return replace(column, kind="double" if numbers[0] > 24 else "float")
    if kind == "bit":
        return replace(column, precision=numbers[0] if numbers else 1, full_type=f"bit({numbers[0] if numbers else 1})")
    if kind in _MOMENTS:
        if kind == "timestamp" and attributes.default is None:
            raise NotFollowed("the server can add a default to a TIMESTAMP without one")
        return replace(column, fraction=numbers[0] if numbers else 0)
    if kind in ("enum", "set"):
        if any(not one for one in arguments) or not arguments:
            raise NotFollowed("a label is empty")
        column = replace(column, full_type="{}({})".format(kind, ",".join(f"'{one}'" for one in arguments)))
    if kind in ("tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext"):
        if numbers:
            raise NotFollowed("a BLOB or TEXT with a length gets the type that fits it")
        column = replace(column, most_bytes=_BLOB_BYTES[kind[:4]])
    if kind in ("char", "varchar", "binary", "varbinary"):
        length = numbers[0] if numbers else 1
        column = replace(column, full_type=f"{kind}({length})", most_bytes=length)
    if kind in TEXTS:
        charset = attributes.charset or table_charset
        if charset not in MOST_BYTES:
            raise NotFollowed(f"the character set {charset or 'of the table'} is not known")
        if kind in ("char", "varchar"):
            column = replace(column, most_bytes=(column.most_bytes or 0) * MOST_BYTES[charset])
        if charset == "binary":
            raise NotFollowed("a text column with the character set binary is a binary column")
        column = replace(column, charset="utf8mb3" if charset == "utf8" else charset)
    return column


_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def _default(column: SchemaColumn, attributes: _Attributes) -> str | None:
    """Return the value of existing rows in an added column; MySQL, "Data Type Default Values": implicit defaults.

    Raises NotFollowed for a default that the server may convert to the column's type.
    """
    if attributes.default is not None:
        text, quoted = attributes.default.text, attributes.default.kind == "string"
        if column.kind in (*_WHOLE, "decimal", "float", "double"):
            # a quoted whole number is converted without rounding, as tools and SHOW CREATE TABLE write it
            same = (not quoted or column.kind in _WHOLE) and _NUMBER.fullmatch(text) is not None
            same = same and not (column.kind in _WHOLE and "." in text)
            same = same and not (text.startswith("-") and not text.strip("-0."))
        elif column.kind == "enum":
            same = quoted and text in (labels_of(column.full_type) or ())
        else:
            same = quoted and column.kind in TEXTS - {"set"} and text == text.rstrip() and len(text) <= _length(column)
            same = same and (text.isascii() or column.charset == "utf8mb4")
        if not same:
            raise NotFollowed("existing rows get a default whose text the server can change")
        return _scaled(text, column.scale or 0) if column.kind == "decimal" else text
    if column.nullable:
        return None
    if column.kind in (*_WHOLE, "float", "double", "bit"):
        return "0"
    if column.kind == "decimal":
        return _scaled("0", column.scale or 0)
    if column.kind in TEXTS:
        labels = labels_of(column.full_type) if column.kind == "enum" else ("",)
        if labels:
            return labels[0]
    raise NotFollowed("existing rows get a value that the server chooses")


def _scaled(text: str, scale: int) -> str:
    whole, _, part = text.partition(".")
    if len(part) > scale:
        raise NotFollowed("existing rows get a rounded default")
    return f"{whole}.{part.ljust(scale, '0')}" if scale else whole


# -- comparison ----------------------------------------------------------------------------------------


def same_form(one: SchemaColumn, other: SchemaColumn) -> bool:
    """Whether two columns have the same name and definition, also if only one of them is described by the server.

    A display width is ignored, because servers add or omit it.

    >>> stored, parsed = SchemaColumn("a", "int", "int(11)", True), SchemaColumn("a", "int", "int", True)
    >>> same_form(stored, parsed), same_form(stored, replace(parsed, nullable=False))
    (True, False)
    """
    return _form(one) == _form(other)


def _form(one: SchemaColumn) -> tuple[object, ...]:
    labels = labels_of(one.full_type) if one.kind in ("enum", "set") else None
    decimals = one.full_type.partition("(")[2] if one.kind in ("float", "double") and "," in one.full_type else ""
    size = one.most_bytes if one.kind in ("char", "varchar", "binary", "varbinary") else None
    numbers = (one.precision, one.scale or 0) if one.kind in ("decimal", "bit") else None
    charset = "utf8mb3" if one.charset == "utf8" else one.charset
    unsigned = labels is None and "unsigned" in one.full_type
    shape = (labels, decimals.partition(")")[0], size, numbers, one.fraction if one.kind in _MOMENTS else None)
    return one.name, one.kind, one.nullable, charset, unsigned, shape


def keeps_values(one: SchemaColumn, other: SchemaColumn) -> bool:
    """Whether each value that the first column can hold has the same text after a change to the second.

    >>> small, large = SchemaColumn("a", "int", "int(11)", True), SchemaColumn("a", "bigint", "bigint(20)", True)
    >>> keeps_values(small, large), keeps_values(large, small)
    (True, False)
    """
    if one.nullable and not other.nullable:
        return False  # without a strict mode, the server replaces NULL
    if replace(one, name="", nullable=True) == replace(other, name="", nullable=True):
        return True
    if one.kind in _WHOLE and other.kind in _WHOLE:
        low, high = _bounds(one)
        least, most = _bounds(other)
        return least <= low and high <= most
    if one.kind in _WHOLE and other.kind == "decimal":
        low, high = _bounds(one)
        digits = (other.precision or 0) - (other.scale or 0)
        unsigned = "unsigned" in other.full_type
        return not other.scale and high < 10**digits and -low < 10**digits and not (unsigned and low < 0)
    if one.kind == other.kind == "decimal":
        same = one.scale == other.scale  # more decimal places change the text of each value
        signed = "unsigned" not in other.full_type or "unsigned" in one.full_type
        return same and (other.precision or 0) >= (one.precision or 0) and signed
    if one.kind == other.kind and one.kind in ("float", "double"):
        return "(" not in other.full_type  # FLOAT(M,D) rounds
    if one.kind == other.kind and one.kind in ("date", "year", "json", "uuid", "inet4", "inet6"):
        return True
    if one.kind == other.kind and one.kind in _MOMENTS:
        return one.fraction == other.fraction
    if one.kind == other.kind == "bit":
        return (other.precision or 0) >= (one.precision or 0)
    if one.kind == other.kind and one.kind in ("enum", "set"):
        labels, more = labels_of(one.full_type), labels_of(other.full_type)
        return labels is not None and more is not None and more[: len(labels)] == labels and _includes(one, other)
    if one.kind in _CHARACTERS and other.kind in _CHARACTERS:
        return _length(other) >= _length(one) and _includes(one, other)
    if one.kind == other.kind == "char":
        return _length(other) >= _length(one) and _includes(one, other)
    blobs = ("varbinary", "tinyblob", "blob", "mediumblob", "longblob")
    return one.kind in blobs and other.kind in blobs and (other.most_bytes or 0) >= (one.most_bytes or 0)


_CHARACTERS = ("varchar", "tinytext", "text", "mediumtext", "longtext")


def lost_values(one: SchemaColumn, other: SchemaColumn) -> tuple[tuple[str, str], ...] | None:
    """Return which stored values a change from the first column to the second replaces, each as (condition, new value).

    None if that is unknown. Only a server without a strict mode replaces values (MySQL, "Server SQL Modes"): a number
    by the nearest limit ("Out-of-Range and Overflow Handling"), a text by its first characters ("The CHAR and VARCHAR
    Types"), NULL by the implicit default ("Data Type Default Values"). `{0}` stands for the column.

    >>> small, large = SchemaColumn("a", "tinyint", "tinyint(4)", False), SchemaColumn("a", "int", "int(11)", True)
    >>> lost_values(large, small)
    (('{0} IS NULL', '0'), ('{0} < -128', '-128'), ('{0} > 127', '127'))
    """
    found: list[tuple[str, str]] = []
    if one.nullable and not other.nullable:
        if other.kind not in (*_WHOLE, *_CHARACTERS):
            return None
        found.append(("{0} IS NULL", "0" if other.kind in _WHOLE else "''"))
    if keeps_values(one, replace(other, nullable=True)):
        return tuple(found)
    if one.kind in _WHOLE and other.kind in _WHOLE:
        (low, high), (least, most) = _bounds(one), _bounds(other)
        found += [(f"{{0}} < {least}", str(least))] * (low < least) + [(f"{{0}} > {most}", str(most))] * (high > most)
        return tuple(found)
    if one.kind in _CHARACTERS and other.kind == "varchar" and _includes(one, other):
        first = f"substr({{0}}, 1, {_length(other)})"
        return (*found, (f"{{0}} <> {first}", first))
    return None


def _bounds(column: SchemaColumn) -> tuple[int, int]:
    bits = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}[column.kind]
    unsigned = "unsigned" in column.full_type
    return (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _length(column: SchemaColumn) -> int:
    """Return the number of characters that certainly fit."""
    return (column.most_bytes or 0) // MOST_BYTES.get(column.charset or "", 4)


def _includes(one: SchemaColumn, other: SchemaColumn) -> bool:
    """Whether the second column's character set has every character of the first one's."""
    return one.charset == other.charset or other.charset == "utf8mb4" or one.charset == "ascii"
