"""A row filter: one condition over a row's own columns, which is parsed, and sent in its parsed form, not as typed.

Keywords, operators, functions, types and literals that are not on a list here are rejected. The sent text has the typed
tokens in the typed order, so that the server's own precedence applies; names are quoted, functions and types are
qualified with pg_catalog, and all strings are written in one form. That text is parsed again, and both trees must be
equal. ADR 0026 gives the reasons; `slotkeeper.core.config.values` reads the configuration with this module, and
`slotkeeper.core.sources.dws.eligibility` checks a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slotkeeper.core.sqltext import RESERVED

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

DEEPEST = 50
"""Maximum nesting depth of parentheses, because the recursive parser has a limit, too."""


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\S+", text))


_KEYWORDS = _words(
    "and or not in between is null true false unknown distinct from like ilike escape case when then else end as"
)
_CONSTRUCTS = _words("coalesce nullif greatest least cast")
"""SQL constructs that look like functions but have no schema."""

FUNCTIONS = _words(
    """
    abs ceil ceiling round trunc mod sign power sqrt
    lower upper initcap length char_length character_length octet_length btrim ltrim rtrim lpad rpad left right
    substr substring strpos replace translate reverse md5 split_part date_part date_trunc
    """
)
"""Functions of pg_catalog that always return the same result and change nothing. PostgreSQL 18 and DWS, "String
Functions and Operators", "Mathematical Functions"; date_part and date_trunc of a timestamptz use the TimeZone that
Slotkeeper sets in its sessions."""

_OPERATORS = _words("= <> != < <= > >= + - * / % ^ || ~ ~* !~ !~* -> ->> ( ) , ::")
_PLAIN = frozenset("+-*/<>=")
"""PostgreSQL, "Operators": an operator of only these characters never ends in + or -, so a + or - after it is unary."""

_AS_TEXT = _words("like ilike ~ ~* !~ !~* -> ->>")
"""Operators whose right operand is text, so that a string there is never read as a time."""

_MOVING = _words("now today tomorrow yesterday")
"""PostgreSQL, "Special Date/Time Inputs": words that a date or time type interprets as the time of the query."""

_TYPES = {
    "smallint": "int2",
    "int2": "int2",
    "int": "int4",
    "integer": "int4",
    "int4": "int4",
    "bigint": "int8",
    "int8": "int8",
    "numeric": "numeric",
    "decimal": "numeric",
    "real": "float4",
    "float4": "float4",
    "float8": "float8",
    "double precision": "float8",
    "text": "text",
    "varchar": "varchar",
    "character varying": "varchar",
    "bool": "bool",
    "boolean": "bool",
    "uuid": "uuid",
    "interval": "interval",
    "date": "date",
    "time": "time",
    "time without time zone": "time",
    "timestamp": "timestamp",
    "timestamp without time zone": "timestamp",
    "timestamptz": "timestamptz",
    "timestamp with time zone": "timestamptz",
}
_SIZED = frozenset({"numeric", "varchar", "timestamp", "timestamptz", "time"})
_TIMES = frozenset({"date", "time", "timestamp", "timestamptz"})
_TYPED = frozenset({"date", "time", "timestamp", "timestamptz", "interval"})
"""Types that can precede a string literal, which then has that type."""

_WORD = re.compile(r"[^\W\d][\w$]*")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class WrongFilter(ValueError):
    """An error that states the rule that a filter breaks, as "must ...", without any value of the filter."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A parsed filter; `text` is the text that is sent.

    `columns`: the columns that the filter names. Of these, `bare` columns are used in comparisons or computations
    without a cast, and `timed` columns are cast to a date or a time.
    """

    text: str
    columns: frozenset[str]
    bare: frozenset[str]
    timed: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Token:
    """A token with its text as typed; `kind` is word, name (in quotes), string, number or sign."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """A word in lower case, any other token as typed."""
        return self.text.lower() if self.kind == "word" else self.text


def read(typed: str) -> RowFilter:
    """Read a filter; raises WrongFilter with the rule that it breaks."""
    tokens = _tokens(typed)
    found = _Reading(tokens)
    text, plain = found.read()
    try:
        same = _tree(typed) == _tree(plain)
    except RecursionError:
        raise WrongFilter("must be a simpler condition") from None
    if not same:
        raise WrongFilter("must be written differently: the parser does not reproduce it as written")
    return RowFilter(text, frozenset(found.columns), frozenset(found.bare), frozenset(found.timed))


# -- tokens ----------------------------------------------------------------------------------------------------------


def _tokens(typed: str) -> list[_Token]:
    """Return the tokens, each operator as one token; only blanks can separate tokens."""
    from sqlglot.dialects.postgres import Postgres  # takes half a second; needed only for a filter
    from sqlglot.errors import TokenError

    try:
        raw = Postgres().tokenize(typed)
    except TokenError:
        raise WrongFilter("must close every quote") from None
    found: list[_Token] = []
    for one in raw:
        found += _pieces(_Token("", typed[one.start : one.end + 1], one.start, one.end + 1), one.text)
    end = 0
    for token in found:
        if typed[end : token.start].strip(" "):
            raise WrongFilter("must be one condition, with no ; and no comment")
        end = token.end
    if typed[end:].strip(" ") or not found:
        raise WrongFilter("must be one condition, with no ; and no comment")
    return list(_whole(found))


def _pieces(token: _Token, value: str) -> Iterator[_Token]:
    """Yield the tokens that one token of the parser contains, as typed; `value`: the parser's value of that token."""
    text, at = token.text, token.start
    if text[0] == "'" and text == "'" + value.replace("'", "''") + "'":
        yield _Token("string", text, at, token.end)
    elif text[0] == '"' and value and text == '"' + value.replace('"', '""') + '"':
        yield _Token("name", text, at, token.end)
    elif _NUMBER.fullmatch(text):
        yield _Token("number", text, at, token.end)
    elif all(_WORD.fullmatch(part) for part in text.split(" ") if part):  # the parser can join two words
        for part in re.finditer(r"[^ ]+", text):
            yield _Token("word", part[0], at + part.start(), at + part.end())
    elif re.fullmatch(r"[-+*/<>=~!%^|(),:.]+", text):
        yield _Token("sign", text, at, token.end)
    else:
        raise WrongFilter("must " + _odd(text))


def _odd(text: str) -> str:
    if ";" in text:
        return "be one condition, with no ; and no comment"
    if "'" in text or "$" in text:
        return "have only plain strings: '...', without E, U&, B, X, N or $ before the quote"
    return "contain only columns, literals, operators, casts and listed functions"


def _whole(tokens: Sequence[_Token]) -> Iterator[_Token]:
    """Yield operators as the server reads them: adjacent symbols form one operator, except a final + or -."""
    at = 0
    while at < len(tokens):
        last = at
        while _joins(tokens, last):
            last += 1
        run = _Token(
            tokens[at].kind, "".join(t.text for t in tokens[at : last + 1]), tokens[at].start, tokens[last].end
        )
        if run.kind != "sign" or run.text in _OPERATORS or run.text == ".":
            yield run
        elif run.text[:-1] in _OPERATORS and run.text[-1] in "+-" and set(run.text) <= _PLAIN:
            yield _Token("sign", run.text[:-1], run.start, run.end - 1)
            yield _Token("sign", run.text[-1], run.end - 1, run.end)
        elif "--" in run.text or "/*" in run.text:
            raise WrongFilter("must be one condition, with no ; and no comment")
        else:
            raise WrongFilter(f"must use only listed operators, not {run.text}")
        at = last + 1


def _joins(tokens: Sequence[_Token], at: int) -> bool:
    """Whether a token and the next form one operator; raises WrongFilter if no blank follows a literal."""
    if at + 1 == len(tokens) or tokens[at].end != tokens[at + 1].start:
        return False
    one, two = tokens[at], tokens[at + 1]
    if (one.kind, two.kind) in (("number", "word"), ("string", "string"), ("number", "number"), ("word", "string")):
        raise WrongFilter("must have a space after each literal")
    return one.kind == two.kind == "sign" and one.text not in "(),." and two.text not in "(),."


# -- allowed tokens, and how they are sent ---------------------------------------------------------------------------


@dataclass
class _Reading:
    """One pass over the tokens; each is sent or rejected."""

    tokens: Sequence[_Token]
    columns: set[str] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)
    timed: set[str] = field(default_factory=set)
    at: int = 0
    depth: int = 0
    sent: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)

    def read(self) -> tuple[str, str]:
        """Return (the text to send, the text to compare with the typed one)."""
        while self.at < len(self.tokens):
            self._one()
        if self.depth:
            raise WrongFilter("must have matching parentheses")
        return " ".join(self.sent), " ".join(self.plain)

    def _one(self) -> None:
        token, after = self.tokens[self.at], self._word(1)
        if token.kind == "string":
            self._string(token)
        elif token.kind == "number":
            self._put(token.text)
        elif token.kind == "name" and after == "(":
            self._called()
        elif token.kind == "name":
            self._column(token.text[1:-1].replace('""', '"'))
        elif token.kind == "sign":
            self._sign(token.text)
        elif token.word in _KEYWORDS:
            self._put(token.word.upper())
            if token.word == "as":
                self._type()
        elif token.word == "pg_catalog" and after == ".":
            self.at += 2
            self._called()
        elif after == "(":
            self._called()
        elif token.word in _TYPED and self._kind(1) == "string":
            self._typed_string(token.word)
        elif token.word in RESERVED:
            raise WrongFilter(f"must use only the row's own columns, without {token.word}")
        else:
            self._column(re.sub("[A-Z]+", lambda found: found[0].lower(), token.text))

    def _string(self, token: _Token) -> None:
        if self._kind(1) == "string":
            raise WrongFilter("must have an operator between two strings")
        self._refuse_moving(token, self._word(-1) in _AS_TEXT)
        self._put(token.text)

    def _refuse_moving(self, token: _Token, is_text: bool) -> None:
        into = 4 if (self._word(2), self._word(3)) == ("pg_catalog", ".") else 2
        cast = self._word(1) == "::" and self._word(into) in ("text", "varchar")
        if not (is_text or cast) and _MOVING & set(re.findall("[a-z]+", token.text.lower())):
            what = "must not compare with now, today, tomorrow or yesterday, which mean the current time in a time type"
            raise WrongFilter(f"{what}; write ::text after the string if text is meant")

    def _sign(self, sign: str) -> None:
        self.depth += (sign == "(") - (sign == ")")
        if self.depth < 0:
            raise WrongFilter("must have matching parentheses")
        if self.depth > DEEPEST:
            raise WrongFilter(f"must have at most {DEEPEST} nested parentheses")
        if sign == ".":
            raise WrongFilter("must name columns without a table, and functions without a schema")
        self._put(sign)
        if sign == "::":
            self._type()

    def _called(self) -> None:
        """Send a function's name; its parenthesis follows."""
        name = self._word(0)
        if self._kind(0) != "word" or self._word(1) != "(" or name not in FUNCTIONS | _CONSTRUCTS:
            known = ", ".join(sorted(FUNCTIONS | _CONSTRUCTS))
            shown = name[:40] if self._kind(0) == "word" else "a quoted function"
            what = f"must use only the row's own columns, without {shown}"
            raise WrongFilter(f"{what}: a row filter can call only {known}")
        if name in _CONSTRUCTS:
            self._put(name.upper())
        else:
            self._put(f"pg_catalog.{name}", name)

    def _column(self, name: str) -> None:
        self.columns.add(name)
        casting = self._word(-1) == "(" and self._word(-2) == "cast" and self._word(1) == "as"
        if self._word(1) != "::" and not casting:
            self.bare.add(name)
        self._put('"' + name.replace('"', '""') + '"')

    def _type(self) -> None:
        """Send the type after :: or AS; check the value that is cast to it."""
        value = self._cast_whole()
        if self._word(0) == "pg_catalog" and self._word(1) == ".":
            self.at += 2
        for words in (4, 3, 2, 1):
            spelled = " ".join(self._word(n) for n in range(words))
            if spelled in _TYPES:
                break
        else:
            raise WrongFilter(f"must cast to one of {', '.join(sorted(_TYPES))}")
        known = _TYPES[spelled]
        if known in _TIMES:
            self._refuse_time(value)
        self._put(f"pg_catalog.{known}", spelled, words)
        if known in _SIZED and self._word(0) == "(":
            size = "".join(self._word(n) for n in range(5)).partition(")")[0] + ")"
            if not re.fullmatch(r"\([0-9]{1,4}(,[0-9]{1,4})?\)", size):
                raise WrongFilter("must use whole numbers for the size of a type")
            self._put(size, size, 5 if "," in size else 3)

    def _cast_whole(self) -> _Token | None:
        """Return the token that the :: or AS before this position casts, if it is a single token; else None."""
        if self._word(-1) == "::":
            alone = self._word(-3) not in ("::", ".", "as")  # otherwise the token is a type
        else:
            alone = (self._word(-4), self._word(-3)) == ("cast", "(")
        return self.tokens[self.at - 2] if alone and self.at > 1 else None

    def _refuse_time(self, value: _Token | None) -> None:
        """Reject a cast to a time if the text could mean now: check a literal, record a column, reject the rest."""
        if value is not None and value.kind == "string":
            if _MOVING & set(re.findall("[a-z]+", value.text.lower())):
                raise WrongFilter("must not contain a time that means the current time (now, today, ...)")
        elif value and (value.kind == "name" or (value.kind == "word" and value.word not in _KEYWORDS | RESERVED)):
            name = value.text[1:-1].replace('""', '"') if value.kind == "name" else value.word
            self.timed.add(name)
        else:
            raise WrongFilter("must cast only a column or a string to a date or time")

    def _typed_string(self, word: str) -> None:
        """Send a type and its string as a cast."""
        string = self.tokens[self.at + 1]
        if _MOVING & set(re.findall("[a-z]+", string.text.lower())):
            raise WrongFilter("must not contain a time that means the current time (now, today, ...)")
        self._put(f"CAST ( {string.text} AS pg_catalog.{_TYPES[word]} )", f"{word} {string.text}", 2)

    def _put(self, sent: str, plain: str | None = None, tokens: int = 1) -> None:
        self.sent.append(sent)
        self.plain.append(sent if plain is None else plain)
        self.at += tokens

    def _word(self, ahead: int) -> str:
        at = self.at + ahead
        return self.tokens[at].word if 0 <= at < len(self.tokens) else ""

    def _kind(self, ahead: int) -> str:
        at = self.at + ahead
        return self.tokens[at].kind if 0 <= at < len(self.tokens) else ""


# -- the parsed tree, for the comparison -----------------------------------------------------------------------------


def _tree(text: str) -> Expr:
    """Return the parser's tree of a condition, with names folded as the server does, and functions without a schema."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError

    bare = re.sub(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")|\bpg_catalog\s*\.\s*""", lambda found: found[1] or "", text)
    try:
        tree = sqlglot.parse_one(f"SELECT 1 FROM t WHERE {bare}", read="postgres")
    except ParseError:
        raise WrongFilter("must be one valid SQL condition") from None
    if tree.find(exp.Alias) or {name for name, part in tree.args.items() if part} > {"expressions", "from_", "where"}:
        raise WrongFilter("must be one valid SQL condition")
    for name in tree.find_all(exp.Identifier):
        if not name.quoted:
            name.set("this", re.sub("[A-Z]+", lambda found: found[0].lower(), name.this))
            name.set("quoted", True)
    return tree
