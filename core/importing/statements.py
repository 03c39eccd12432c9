"""Read Flink SQL and the CREATE SYNC of Doris with a dialect of sqlglot.

Sources of the syntax: Apache Flink, "CREATE Statements", "INSERT Statement", "SET Statements"; Doris, "CREATE SYNC
JOB". A column's type is skipped, because the source's own columns decide. Messages name lines and options, and never
repeat text of a statement, which can contain a password.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from slotkeeper.core.domain import expressions
from slotkeeper.core.domain.text import see
from slotkeeper.core.importing.pasted import CANAL, Fate, Flow, Option, Pasted, Reading, Remark, Table, wrong

EXPRESSION = "select the column itself, or compute the value in the source table"
VIEW = f"a channel has one table: mirror each table, and write the query over the targets as a view: {see('views')}"
_SERVER_WORDS = ("ALTER", "CALL", "COMMIT", "ROLLBACK", "DROP", "GRANT", "ANALYZE", "COMMENT", "VACUUM")
"""First words of statements that run on a server, and are no part of a pipeline."""
_CLIENT_WORDS = ("USE", "EXPLAIN", "SHOW", "DESCRIBE", "DESC", "ADD", "LOAD", "RESET", "HELP", "QUIT")
"""First words of statements of the SQL client."""
_PARTS = {"expressions", "from_", "where"}
"""The parts of a SELECT that a channel can express."""
_TABLE_PARTS = {"this", "db", "catalog", "alias"}


class _PipelineParser(Parser):
    """Parses CREATE TABLE with a connector, CREATE SYNC, and SET; sqlglot's own parser reads INSERT and SELECT."""

    def _parse_create(self) -> exp.Create:
        self._match_text_seq("TEMPORARY")
        if self._match_text_seq("SYNC"):
            return self._sync()
        if not self._match_text_seq("TABLE"):
            kind = self._curr.text.upper() if self._curr else ""
            self._rest()
            return exp.Create(kind=kind)
        self._match_text_seq("IF", "NOT", "EXISTS")
        name = self._parse_table_parts(schema=True)
        columns = self._wrapped(self._column) if self._curr and self._curr.text == "(" else []
        options: list[exp.Expr] = []
        kind = "TABLE"
        while self._curr and not self._match(TokenType.SEMICOLON, advance=False):
            if self._match_text_seq("WITH") and self._curr and self._curr.text == "(":
                options = self._wrapped(self._option)
            elif self._match_text_seq("LIKE") or self._match(TokenType.ALIAS):
                kind = f"TABLE {self._prev.text.upper()}"
                self._rest()
            elif self._curr:
                self._advance()  # COMMENT, PARTITIONED BY, ENGINE and the like
        return exp.Create(this=name, kind=kind, expressions=columns, properties=options)

    def _parse_set(self, unset: bool = False, tag: bool = False) -> exp.Set:
        line, (name, _, value) = self._prev.line, self._rest().partition("=")
        named = exp.Property(this=name.strip(" '\""), value=value.strip(" '\""))
        named.meta["line"] = line
        return exp.Set(expressions=[named])

    def _rest(self) -> str:
        """Return the text of the remaining tokens of the statement."""
        first = last = self._curr
        while self._curr:
            last = self._curr
            self._advance()
        return self.sql[first.start : last.end + 1] if first and last else ""

    def _wrapped(self, read: Any) -> list[Any]:
        """Return the items of a list in parentheses; a trailing comma is allowed."""
        if not self._match(TokenType.L_PAREN):
            self.raise_error("expected (")
        found = []
        while self._curr and not self._match(TokenType.R_PAREN, advance=False):
            if (item := read()) is not None:
                found.append(item)
            if not self._match(TokenType.COMMA):
                break
        if not self._match(TokenType.R_PAREN):
            self.raise_error("expected )")
        return found

    def _option(self) -> exp.Property:
        key = self._curr
        words = []
        while self._curr and self._curr.token_type is not TokenType.EQ and self._curr.text not in (",", ")"):
            words.append(self._curr.text)
            self._advance()
        if not key or not self._match(TokenType.EQ) or not self._curr or self._curr.text in (",", ")"):
            self.raise_error("expected 'name' = 'value'")
        value = self._curr.text
        self._advance()
        found = exp.Property(this="".join(words), value=value)
        found.meta["line"] = key.line if key else 1
        return found

    def _column(self) -> exp.ColumnDef | None:
        """Return a declared column; `kind` is "derived" if its value is not a column of the server's table."""
        if self._match_text_seq("WATERMARK"):
            self._skip()
            return None
        if self._match(TokenType.CONSTRAINT) or self._match(TokenType.PRIMARY_KEY):
            self._skip()
            return None
        name = self._curr
        if name is None or name.token_type in (TokenType.L_PAREN, TokenType.EQ, TokenType.STRING):
            self.raise_error("expected a column")
        assert name is not None
        self._advance()
        words = self._skip()
        derived = bool(words) and (words[0] == "AS" or "METADATA" in words)
        return exp.ColumnDef(this=name.text, kind="derived" if derived else "")

    def _skip(self) -> list[str]:
        """Skip to the end of an item in a list; return the words outside parentheses and angle brackets."""
        depth, words = 0, []
        while self._curr:
            text = self._curr.text
            if depth == 0 and text in (",", ")"):
                break
            if self._curr.token_type is not TokenType.STRING:
                depth += text.count("(") + text.count("<") - text.count(")") - text.count(">")
                if depth == 0:
                    words.append(text.upper())
            self._advance()
        return words

    def _sync(self) -> exp.Create:
        """Return CREATE SYNC: its channels are in `expressions`, its BINLOG options in `properties`."""
        name = self._parse_table_parts(schema=True)
        channels = self._wrapped(self._channel)
        if not self._match_text_seq("FROM", "BINLOG"):
            self.raise_error("expected FROM BINLOG")
        return exp.Create(this=name, kind="SYNC", expressions=channels, properties=self._wrapped(self._option))

    def _channel(self) -> exp.Tuple:
        line = self._curr.line if self._curr else 1
        if not self._match_text_seq("FROM"):
            self.raise_error("expected FROM")
        source = self._parse_table_parts(schema=True)
        if not self._match_text_seq("INTO"):
            self.raise_error("expected INTO")
        target = self._parse_table_parts(schema=True)
        partition = self._match_text_seq("PARTITION")
        if partition:
            self._wrapped(self._column)
        columns = self._wrapped(self._column) if self._curr and self._curr.text == "(" else []
        found = exp.Tuple(expressions=[source, target, *columns])
        found.meta.update(line=line, partition=bool(partition))
        return found


class Pipelines(Dialect):
    """The dialect of Flink SQL and CREATE SYNC: strings in ' or ", names in backticks, no backslash escapes."""

    class Tokenizer(Tokenizer):
        QUOTES: ClassVar = ["'", '"']
        IDENTIFIERS: ClassVar = ["`"]
        STRING_ESCAPES: ClassVar = ["'", '"']
        TOKENS_PRECEDING_HINT: ClassVar = set(TokenType)  # in Flink SQL, a hint follows a table's name
        COMMANDS: ClassVar = set[TokenType]()  # EXECUTE and SHOW are tokens as all others

    Parser = _PipelineParser


def read(text: str) -> Pasted:
    """Return the flows of a text; raises ConfigError for a text without any statement that can be read."""
    dialect = Pipelines()
    try:
        tokens = dialect.tokenize(text)
    except (SqlglotError, RecursionError):
        raise wrong(_unclosed(text), "a quote or a comment is not closed", "close it, and import again") from None
    quiet = logging.getLogger("sqlglot")
    before, quiet.disabled = quiet.disabled, True  # it logs the text of statements
    try:
        reading = _Statements()
        for statement in _split(tokens):
            reading.one(dialect, statement, text)
        return reading.found.pasted()
    finally:
        quiet.disabled = before


def _unclosed(text: str) -> int:
    """Return the line of the first quote whose string has no end, or 1."""
    quote, line, begun = "", 1, 1
    for character in text:
        if character == "\n":
            line += 1
        elif not quote and character in "'\"`":
            quote, begun = character, line
        elif character == quote:
            quote = ""
    return begun


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [one for one in found if one]


class _Statements:
    """The statements of a text, read one after another."""

    def __init__(self) -> None:
        self.found = Reading()
        self._set = 0
        self._sets = 0

    def one(self, dialect: Dialect, tokens: list[Token], text: str) -> None:
        """Read one statement; an error becomes a remark, so that the others are read."""
        words = [token.text.upper() for token in tokens[:4]]
        if words in (["EXECUTE", "STATEMENT", "SET", "BEGIN"],) or words[:3] == ["BEGIN", "STATEMENT", "SET"]:
            self._sets += 1
            self._set = self._sets
            tokens = tokens[4 if words[0] == "EXECUTE" else 3 :]
        elif words in (["END"],):
            self._set = 0
            return
        elif words[0] == "BEGIN" and len(tokens) == 1:
            return
        if not tokens:
            return
        line = tokens[0].line
        if any(token.token_type is TokenType.HINT for token in tokens):
            self._lose(words[0], line, "a hint in /*+ */ is not read; write its options in WITH")
            return
        if self._needless(tokens, line):
            return
        if tokens[0].text.upper() == "EXECUTE" and len(tokens) > 1:
            tokens = tokens[1:]
        try:
            (tree,) = dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
        except (
            SqlglotError,
            RecursionError,
            AssertionError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            first = (getattr(error, "errors", None) or [{}])[0]
            deep = isinstance(error, RecursionError)
            what = "is nested too deeply" if deep else f"is not understood (column {first.get('col') or 1})"
            self._lose(words[0], first.get("line") or line, f"{what}; correct it, or write the job yourself")
            return
        self._read(tree, line)

    def _refuse(self, line: int, what: str, text: str) -> None:
        self.found.remarks.append(Remark(line, what, Fate.REFUSED, text))

    def _lose(self, word: str, line: int, text: str) -> None:
        """Refuse a statement that cannot be read; an INSERT stays a job, so that its refusal has a place."""
        remark = Remark(line, "statement", Fate.REFUSED, text)
        if word in ("INSERT", "EXECUTE"):
            self.found.flows.append(Flow(None, None, line, remarks=(remark,)))
        else:
            self.found.remarks.append(remark)

    def _needless(self, tokens: list[Token], line: int) -> bool:
        """Return whether a statement needs no parser: it runs on a server or in a client."""
        word = tokens[0].text.upper()
        texts = [token.text for token in tokens]
        if word == "ALTER" and any(key.rpartition(".")[2] in texts for key in self.found.tables):
            self._refuse(line, "ALTER", "changes a table of this text; write its options in CREATE TABLE")
        elif word == "SELECT" and "pgxc_register_full_sync_point" in texts:
            self._latest(texts, line)
        elif word in _SERVER_WORDS or (word == "CREATE" and "CONNECTOR" not in map(str.upper, texts) and _bare(tokens)):
            self.found.remarks.append(Remark(line, word, Fate.UNNEEDED, "runs on the server, before a job starts"))
        elif word in _CLIENT_WORDS or word == "SELECT":
            self.found.remarks.append(Remark(line, word, Fate.UNNEEDED, "is not part of a pipeline"))
        else:
            return False
        return True

    def _latest(self, texts: list[str], line: int) -> None:
        """Record that another tool has already copied a table: its flows then read only changes."""
        named = set(texts)
        for place, flow in enumerate(self.found.flows):
            if flow.source is not None and flow.source.option("tablename") in named:
                self.found.flows[place] = replace(flow, latest=True)
                return
        what = 'registers a table that this text does not read; a job with start = "latest" does the same'
        self.found.remarks.append(Remark(line, "SELECT", Fate.UNNEEDED, what))

    def _read(self, tree: exp.Expr | None, line: int) -> None:
        if isinstance(tree, exp.Create) and tree.args.get("kind") == "SYNC":
            self._sync(tree, line)
        elif isinstance(tree, exp.Create):
            self._create(tree, line)
        elif isinstance(tree, exp.Set):
            self.found.settings += _options(tree.expressions)
        elif isinstance(tree, exp.Insert):
            self._insert(tree, line)
        else:
            self._refuse(line, "statement", "is not a CREATE TABLE, INSERT, CREATE SYNC or SET; leave it out")

    def _create(self, tree: exp.Create, line: int) -> None:
        kind = tree.args["kind"]
        if kind in ("TABLE LIKE", "TABLE AS"):
            self._refuse(line, f"CREATE {kind}", "write the table with its columns and options, and an INSERT")
            return
        if kind != "TABLE":
            text = VIEW if kind == "VIEW" else "write each table with its own options in CREATE TABLE"
            self._refuse(line, f"CREATE {kind if kind.isalpha() else ''}".strip(), text)
            return
        options = tuple(_options(tree.args["properties"]))
        connector = next((one.value for one in options if one.name.lower() in ("connector", "connector.type")), "")
        columns = tree.expressions
        names = tuple(column.this for column in columns)
        derived = frozenset(one.this for one in columns if one.args["kind"] or one.this.startswith("hg_binlog_"))
        name = tree.this.name
        self.found.tables[_whole(tree.this)] = Table(name, connector.lower(), options, line, names, derived)

    def _sync(self, tree: exp.Create, line: int) -> None:
        options = tuple(_options(tree.args["properties"]))
        job, database = tree.this.name, tree.this.db
        self._sets += 1
        self.found.settings.append(Option("pipeline.name", job, line))
        for channel in tree.expressions:
            source, target, *columns = channel.expressions
            names = tuple((column.this, column.this) for column in columns)
            at = channel.meta["line"]
            read = Table(_dotted(source), CANAL, (*options, Option("table", _dotted(source), at)), at)
            into = _dotted(target) if target.db else f"{database}.{target.name}"
            written = Table(into, "doris", (Option("table.identifier", into, at),), at)
            remarks = (
                (Remark(at, "PARTITION", Fate.REFUSED, "partitions cannot be chosen; remove it"),)
                if channel.meta["partition"]
                else ()
            )
            self.found.flows.append(Flow(read, written, at, names, together=self._sets, remarks=remarks))

    def _insert(self, tree: exp.Insert, line: int) -> None:
        into, given = tree.this, ()
        if isinstance(into, exp.Schema):
            given, into = tuple(one.name for one in into.expressions), into.this
        query = tree.expression
        remarks: list[Remark] = []
        target = self._table(into, line, remarks)
        if target is None and not remarks:
            remarks.append(_refused(line, "INSERT", "writes to a table that the text does not declare"))
        if tree.args.get("partition") or tree.args.get("with_"):
            remarks.append(_refused(line, "INSERT", "write INSERT INTO table SELECT, without PARTITION and WITH"))
        if tree.args.get("overwrite"):
            remarks.append(_refused(line, "INSERT OVERWRITE", 'write INSERT INTO, and set on_existing = "replace"'))
        if not isinstance(query, exp.Select):
            remarks.append(_refused(line, "INSERT", "only INSERT ... SELECT from one table can be mirrored"))
            self.found.flows.append(Flow(None, target, line, together=self._set, remarks=tuple(remarks)))
            return
        self.found.flows.append(self._select(query, target, given, line, remarks))

    def _table(self, named: exp.Expr | None, line: int, remarks: list[Remark]) -> Table | None:
        """Return the declared table of a name; a name that fits several tables is refused."""
        if not isinstance(named, exp.Table):
            return None
        name, tables = _whole(named), self.found.tables
        fits = [key for key in tables if f".{key}".endswith(f".{name}") or f".{name}".endswith(f".{key}")]
        if "." in name and name in fits:
            fits = [name]
        if len(fits) > 1:
            remarks.append(_refused(line, "INSERT", "matches several CREATE TABLE; write the name as in one of them"))
        return tables[fits[0]] if len(fits) == 1 else None

    def _select(
        self, query: exp.Select, target: Table | None, given: tuple[str, ...], line: int, remarks: list[Remark]
    ) -> Flow:
        """Return the flow of INSERT ... SELECT; parts that a channel cannot express become refused remarks."""
        first = query.args.get("from_")
        table = first.this if first else None
        joined = query.args.get("joins") or query.args.get("group")
        many: list[Remark] = []
        source = self._table(table, line, many)
        remarks += many
        if joined:
            remarks.append(_refused(line, "JOIN or GROUP BY", VIEW))
        elif source is None and not many:
            remarks.append(_refused(line, "FROM", "reads no table that the text declares"))
        elif table is not None and {part for part, value in table.args.items() if value} - _TABLE_PARTS:
            remarks.append(_refused(line, "FROM", "a table is mirrored as it is; leave out what follows its name"))
        for part, value in query.args.items():
            if value and part not in _PARTS and part not in ("joins", "group", "operation_modifiers"):
                name = part.rstrip("_").replace("_", " ").upper()
                remarks.append(
                    _refused(
                        line, name, f"a channel has no {name}; remove it, or write the query as a view in the sink"
                    )
                )
        columns: tuple[tuple[str, str], ...] = ()
        compute: tuple[tuple[str, str], ...] = ()
        if not joined:
            columns, compute = self._columns(query, source, target, given, line, remarks)
        where = _where(query, table, line, remarks)
        text = query.sql(dialect="postgres", comments=False) if joined else ""
        return Flow(source, target, line, columns, compute, where, self._set, tuple(remarks), text)

    def _columns(
        self, query: exp.Select, source: Table | None, target: Table | None, given: tuple[str, ...], line: int,
        remarks: list[Remark],
    ) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:  # fmt: skip
        """Return the pairs of columns, and of computed columns: an INSERT assigns by position, and not by name."""
        chosen: list[str] = []
        computed: dict[str, str] = {}
        for part in query.expressions:
            at = part.find(exp.Identifier)
            at_line = at.meta.get("line", line) if at is not None else line
            inner = part.this if isinstance(part, exp.Alias) else part
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                chosen += source.columns if source else ()
            elif isinstance(inner, exp.Column):
                chosen.append(inner.name)
            else:
                sql, why = _expression(inner)
                chosen.append(f" {len(chosen)}")  # no column has such a name
                computed[chosen[-1]] = sql
                if why:
                    remarks.append(_refused(at_line, "an expression in SELECT", f"{why}; {EXPRESSION}"))
        if source is not None:
            if source.derived.intersection(chosen):
                remarks.append(_refused(line, "a computed or metadata column", EXPRESSION))
            named = [name for name in chosen if name not in computed]
            if unknown := [name for name in named if source.columns and name not in source.columns]:
                remarks.append(_refused(line, "SELECT", f"{len(unknown)} of its columns are not declared in the table"))
        into = given or (target.columns if target else ())
        if not chosen or any(one.fate is Fate.REFUSED for one in remarks):
            return (), ()
        if into and len(into) != len(chosen):
            remarks.append(_refused(line, "INSERT", f"assigns {len(chosen)} columns to {len(into)}"))
            return (), ()
        if len(set(chosen)) < len(chosen):
            remarks.append(_refused(line, "SELECT", "a column can be mirrored to one target column"))
            return (), ()
        if computed and not into:
            remarks.append(_refused(line, "INSERT", "an expression needs the columns of the target: list them"))
            return (), ()
        pairs = tuple(zip(chosen, into or chosen, strict=True))
        mirrored = tuple(pair for pair in pairs if pair[0] not in computed)
        return mirrored, tuple((name, computed[one]) for one, name in pairs if one in computed)


def _expression(tree: exp.Expr) -> tuple[str, str]:
    """Return an expression in PostgreSQL's syntax, and why a worker cannot compute it; "" if it can."""
    plain = tree.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    if plain.find(exp.Div, exp.Mod) is not None:
        return "", "servers disagree on the quotient of numbers"
    if plain.find(exp.Lower, exp.Upper) is not None:
        return "", "LOWER and UPPER change only ASCII letters here"
    if why := _differs(plain):
        return "", why
    sql = plain.sql(dialect="postgres", comments=False)
    try:
        expressions.read("x", sql)
    except ValueError as error:
        return "", str(error).removeprefix("must be an expression of the supported subset: ")
    return sql, ""


def _differs(tree: exp.Expr) -> str:
    """Return which part of an expression has another result in Flink, or "".

    Apache Flink, "System (Built-in) Functions": a position below 1 counts from the end; "Data Types": a cast to an
    integer truncates, and DECIMAL is DECIMAL(10, 0).
    """
    for one in tree.find_all(exp.Substring, exp.Left, exp.Right):
        for name in ("start", "length", "expression"):
            place = one.args.get(name)
            number = isinstance(place, exp.Literal) and not place.is_string and re.fullmatch("[1-9][0-9]*", place.name)
            if place is not None and not number:
                return "Flink counts some positions from the end: SUBSTR, LEFT and RIGHT need numbers from 1"
    for cast in tree.find_all(exp.Cast):
        if cast.is_type(*exp.DataType.INTEGER_TYPES):
            return "Flink truncates in a cast to an integer, and a number is rounded here"
        if cast.is_type(exp.DType.DECIMAL) and not cast.to.expressions:
            return "DECIMAL without a precision has no decimals in Flink: write DECIMAL(precision, scale)"
    return ""


def _bare(tokens: list[Token]) -> bool:
    """Return whether a CREATE defines a server's own table or object: it then names no connector."""
    kind = next((t.text.upper() for t in tokens[1:] if t.text.upper() not in ("TEMPORARY", "OR", "REPLACE")), "")
    if kind in ("TABLE",):
        return not any(token.text.lower() in ("connector", "connector.type") for token in tokens) and not any(
            token.text.upper() in ("LIKE", "AS") for token in tokens[2:]
        )
    return kind in ("EXTENSION", "PUBLICATION", "SCHEMA", "INDEX", "USER", "ROLE")


def _options(properties: Sequence[exp.Expr]) -> list[Option]:
    return [Option(str(one.this), str(one.args["value"]), one.meta.get("line", 1)) for one in properties]


def _whole(table: exp.Expr) -> str:
    """Return a table's name as it is written, with database and catalog."""
    return ".".join(part.name for part in table.parts) if isinstance(table, exp.Table) else table.name


def _dotted(table: exp.Table) -> str:
    return f"{table.db}.{table.name}" if table.db else table.name


def _refused(line: int, what: str, text: str) -> Remark:
    return Remark(line, what, Fate.REFUSED, text)


def _where(query: exp.Select, table: exp.Expr | None, line: int, remarks: list[Remark]) -> str:
    """Return the condition as a row filter, or "" if there is none or it cannot be one."""
    from slotkeeper.core import row_filter

    where = query.args.get("where")
    if where is None or query.args.get("joins"):
        return ""
    condition = where.this.copy()
    if condition.find(exp.Div, exp.IntDiv):
        text = "a division of integers has another result in other servers; compare without /, or filter in the source"
        remarks.append(_refused(line, "WHERE", text))
        return ""
    if why := _differs(condition):
        remarks.append(_refused(line, "WHERE", why))
        return ""
    for column in condition.find_all(exp.Column):
        column.set("table", None)
        column.set("db", None)
    for name in condition.find_all(exp.Identifier):
        name.set("quoted", True)
    text = str(condition.sql(dialect="postgres", comments=False))
    try:
        row_filter.read(text)
    except row_filter.WrongFilter as error:
        remarks.append(_refused(line, "WHERE", f"the condition {error}"))
        return ""
    return text
