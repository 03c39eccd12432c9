"""Reads a view's SELECT into a plan, and rejects every form that a round cannot maintain, with its line and a fix.

Only forms, functions and types on a list here are accepted: an expression must depend only on its row, because a round
evaluates it at a different time than a reader would. PostgreSQL's dialect; unquoted names are lower case, as PostgreSQL
stores them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from slotkeeper.core.domain.spec import ViewSpec
from slotkeeper.core.domain.text import few, safe, see
from slotkeeper.core.views.plan import OWN, Branch, Output, Use, View, in_order, refused, unique
from slotkeeper.core.views.statements import extensions

_SUMS = (exp.Count, exp.Sum, exp.Avg)
_AGGREGATES = (*_SUMS, exp.Min, exp.Max, exp.GroupConcat)
_PLAIN = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.And, exp.Or, exp.Not, exp.EQ),
    *(exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.Escape),
    *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Case, exp.If, exp.Coalesce),
)
"""Forms whose value depends on no setting of a session; the delta method accepts only these."""
_ALLOWED = (
    *_PLAIN,
    *(exp.Div, exp.Mod, exp.DPipe, exp.Nullif, exp.Greatest, exp.Least, exp.Abs, exp.Ceil, exp.Floor, exp.Round),
    *(exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.Length, exp.Left, exp.Right, exp.Replace, exp.Concat),
    *(exp.SplitPart, exp.Extract, exp.Var, exp.DateTrunc, exp.TimestampTrunc, exp.Cast, exp.DataType),
    *(exp.DataTypeParam, exp.Interval, exp.AtTimeZone, exp.JSONExtract, exp.JSONExtractScalar, exp.JSONPath),
    *(exp.JSONPathPart, exp.Order, exp.Ordered, exp.Distinct, exp.Filter, exp.Where, exp.Initcap),
)
_CLAUSES = {
    "with_": ("a WITH clause", "make each of its parts a separate view"),
    "distinct": ("SELECT DISTINCT", "use GROUP BY with the same columns"),
    "limit": ("LIMIT", "remove it; readers of the table can use it"),
    "offset": ("OFFSET", "remove it; readers of the table can use it"),
    "order": ("ORDER BY", "remove it; readers of the table can use it"),
    "windows": ("a window", "remove it; readers of the table can use it"),
    "qualify": ("QUALIFY", "remove it"),
    "laterals": ("LATERAL", "join a table or another view"),
    "into": ("SELECT INTO", "set `into` in the view's table of the configuration"),
    "locks": ("FOR UPDATE", "remove it"),
    "sample": ("TABLESAMPLE", "remove it"),
}
_CASTS = (
    *("SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE", "BOOLEAN", "CHAR", "BPCHAR", "VARCHAR", "TEXT"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "INTERVAL", "JSON", "JSONB", "UUID", "VARBINARY"),
)
_ASCII_LOWER = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}
"""PostgreSQL, "Lexical Structure": other letters of unquoted names are not folded in a UTF-8 database."""
_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ")
MOST_EXTENSIONS = 7
"""Maximum number of LEFT JOINs each of which doubles the cases of a round's search for keys: 0.1 s for one change."""
_SELECT = ("expressions", "from_", "joins", "where", "group", "having")
_TABLE = ("this", "db", "alias")
_JOIN = ("this", "on", "side", "kind", "using", "method")
"""The supported parts of a SELECT, a table and a join; all other parts are rejected."""
_TIME_WORD = re.compile(r"(?<![a-z])(now|today|tomorrow|yesterday|allballs)(?![a-z])", re.IGNORECASE)
"""PostgreSQL, "Special Date/Time Inputs": words in a literal that a date or time type reads as the current time."""
_NOT_NOW = "a view's value must depend on its rows alone: store the time in a column, or filter when reading"
_FORMS: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.Window: ("a window function", "use GROUP BY, or compute it when reading"),
    exp.Subquery: ("a subquery", "make the subquery a separate view, and join it"),
    exp.Select: ("a subquery", "make the subquery a separate view, and join it"),
    exp.Exists: ("EXISTS", "join the table, and use GROUP BY"),
    exp.Star: ("SELECT *", "name the columns: a new column must not change the view"),
    exp.ArrayAgg: ("array_agg", "use string_agg with ORDER BY"),
    exp.CurrentTimestamp: ("the current time", _NOT_NOW),
    exp.CurrentDate: ("the current date", _NOT_NOW),
    exp.CurrentTime: ("the current time", _NOT_NOW),
    exp.Rand: ("random()", "a view's value must depend on its rows alone"),
}


def parse_all(specs: Sequence[ViewSpec], mirrored: Sequence[str]) -> tuple[View, ...]:
    """Return the job's views in order of dependence; `mirrored`: its targets. Raises ViewRefused."""
    known = frozenset([*mirrored, *(spec.target for spec in specs)])
    targets = [spec.target for spec in specs]
    for target in targets:
        if targets.count(target) > 1 or target in mirrored:
            raise refused(target, ": another view or channel writes this table", "choose another `into`")
    return in_order([parse(spec, known) for spec in specs])


def as_typed(sql: str) -> str:
    """Return a SELECT without its last semicolon, and what follows that.

    >>> as_typed("SELECT ';' FROM a; -- the end")
    "SELECT ';' FROM a"
    """
    last = sqlglot.tokenize(sql, read="postgres")[-1]
    return sql[: last.start] if last.token_type is TokenType.SEMICOLON else sql


@lru_cache(maxsize=256)
def parse(spec: ViewSpec, known: frozenset[str] | None) -> View:
    """Return the plan of a view; `known`: the tables whose changes are captured, None for all. Raises ViewRefused."""
    try:
        return _Reading(spec, known).view()
    except RecursionError:
        raise refused(spec.target, ": the SELECT is nested too deeply", "write it with fewer levels") from None


class _Reading:
    """One view's SELECT, while it is read."""

    def __init__(self, spec: ViewSpec, known: frozenset[str] | None) -> None:
        self._spec, self._known = spec, known
        self._is_new = known is not None
        """Whether the view is to be maintained; a stored one is read to be removed, whatever accepted it."""

    def view(self) -> View:
        query, names = self._query()
        selects = list(self._selects(query))
        first = self._branch(selects[0], names)
        names = tuple(one.name for one in first.outputs)
        branches = (first, *(self._branch(select, names) for select in selects[1:]))
        for branch in branches[1:]:
            if len(branch.outputs) != len(names):
                self._refuse(selects[1], "branches of UNION ALL with different numbers of columns", "align them")
        if len(branches) > 1:  # PostgreSQL, "Combining Queries": the first branch names the columns
            branches = tuple(
                Branch(one.uses, tuple(_renamed(one.outputs, names)), one.where, one.groups, one.having)
                for one in branches
            )
        if len(set(names)) < len(names):
            self._refuse(selects[0], "two output columns with one name", "rename one of them with AS")
        key = self._key(branches, selects, names)
        for branch, select in zip(branches, selects, strict=True):
            if self._is_new and extensions(branch, [branch.value(name) for name in key]) > MOST_EXTENSIONS:
                what = f"more than {MOST_EXTENSIONS} LEFT JOINs whose columns are in the key or in conditions"
                self._refuse(select, what, "make some of the joins a separate view, and join it")
        adds = len(branches) == 1 and _may_add(first)
        if self._spec.method == "delta" and not adds:
            what = 'method = "delta" for this SELECT'
            cure = 'it needs one table, GROUP BY columns, and only COUNT, SUM and AVG; set method = "auto"'
            self._refuse(selects[0], what, cure)
        return View(self._spec.target, branches, key, adds, self._spec.sql, self._spec.method)

    def _refuse(self, where: exp.Expr, what: str, cure: str) -> NoReturn:
        raise refused(self._spec.target, f", line {_line(where)}: {what} cannot be maintained", cure)

    def _query(self) -> tuple[exp.Expr, tuple[str, ...]]:
        """Return the query, and the column names of a pasted INSERT INTO ... SELECT."""
        try:
            if self._is_new and any(
                token.text.lower() == "date_part" for token in sqlglot.tokenize(self._spec.sql, read="postgres")
            ):
                raise refused(self._spec.target, ": date_part cannot be maintained", "write EXTRACT(field FROM value)")
            parsed = sqlglot.parse(self._spec.sql, read="postgres")
            found = [one for one in parsed if one is not None and not isinstance(one, exp.Semicolon)]
        except SqlglotError as error:
            details = getattr(error, "errors", None) or [{}]
            line, what = details[0].get("line", 1), safe(str(details[0].get("description", "not SQL")), 120)
            raise refused(self._spec.target, f", line {line}: cannot parse the SELECT: {what}", "") from None
        if len(found) != 1:
            raise refused(self._spec.target, f": one SELECT is expected, found {len(found)}", "")
        query, names = found[0], ()
        for identifier in query.find_all(exp.Identifier):
            if not identifier.quoted:
                identifier.set("this", identifier.name.translate(_ASCII_LOWER))
                identifier.set("quoted", True)
        if isinstance(query, exp.Insert):
            into = query.this
            if isinstance(into, exp.Schema):
                names, into = tuple(one.name for one in into.expressions), into.this
            if _name(into) != self._spec.target:
                self._refuse(query, f"INSERT INTO {_name(into)}", f'set into = "{_name(into)}"')
            query = query.expression
        if not isinstance(query, exp.Select | exp.Union):
            self._refuse(query, type(query).__name__.upper(), "write one SELECT")
        return query, names

    def _selects(self, query: exp.Expr) -> Iterator[exp.Select]:
        if isinstance(query, exp.Subquery) and not query.alias and isinstance(query.this, exp.Query):
            query = query.this
        if isinstance(query, exp.Union) and not isinstance(query, exp.Except | exp.Intersect):
            if query.args.get("distinct"):
                self._refuse(query, "UNION without ALL", "use UNION ALL, with a constant column that names the branch")
            for name in ("with_", "order", "limit", "offset"):
                if query.args.get(name):
                    self._refuse(query, *_CLAUSES[name])
            yield from self._selects(query.this)
            yield from self._selects(query.expression)
        elif isinstance(query, exp.Select):
            yield query
        else:
            self._refuse(query, type(query).__name__.upper(), "write SELECT, or SELECTs with UNION ALL")

    def _branch(self, select: exp.Select, names: tuple[str, ...]) -> Branch:
        for name, (what, cure) in _CLAUSES.items():
            if select.args.get(name):
                self._refuse(select, what, cure)
        self._only(select, _SELECT, "in a SELECT")
        if select.args.get("from_") is None:
            self._refuse(select, "a SELECT without FROM", "name a mirrored table")
        uses = tuple(self._uses(select))
        aliases = [use.alias for use in uses]
        for column in select.find_all(exp.Column):
            self._qualify(column, aliases)
        outputs = tuple(self._output(one, number, names) for number, one in enumerate(select.expressions))
        groups = self._groups(select, outputs)
        where, having = select.args.get("where"), select.args.get("having")
        if where is not None:
            self._admit(where.this, aggregates=False)
        if having is not None:
            self._admit(having.this, aggregates=True)
        uses = tuple(Use(use.table, use.alias, use.join, use.on, use.lookup) for use in uses)
        for use in uses:
            if use.on is not None:
                self._admit(use.on, aggregates=False)
        return Branch(uses, outputs, where and where.this, groups, having and having.this)

    def _uses(self, select: exp.Select) -> Iterator[Use]:
        first = select.args["from_"].this
        seen: set[str] = set()
        joins = select.args.get("joins") or []
        for number, (table, join) in enumerate([(first, None), *((one.this, one) for one in joins)]):
            if not isinstance(table, exp.Table):
                self._refuse(table, "a subquery in FROM", "make the subquery a separate view, and join it")
            if table.args.get("version") or table.args.get("when"):
                cure = "list the table in `lookup`: its current rows are read when the other side changes"
                self._refuse(table, "FOR SYSTEM_TIME", cure)
            self._only(table, _TABLE, "of a table")
            if isinstance(table.args.get("alias"), exp.TableAlias) and table.args["alias"].columns:
                self._refuse(table, "a table alias with column names", "name the columns with AS in the SELECT")
            name, alias = _name(table), table.alias_or_name
            if alias.startswith(OWN) or alias in seen:
                self._refuse(table, f"the alias {alias}", "choose another alias")
            seen.add(alias)
            lookup = name in self._spec.lookup
            if not lookup and self._known is not None and name not in self._known:
                known = few(sorted(self._known))
                self._refuse(
                    table,
                    f"{name}, which is not mirrored by this job (known: {known}),",
                    "mirror it with a channel, or list it in `lookup`",
                )
            if lookup and not number:
                self._refuse(table, f"the lookup table {name} in first place", "start with a mirrored table")
            yield Use(name, alias, *self._join(join), lookup)

    def _only(self, node: exp.Expr, read: Sequence[str], what: str) -> None:
        """Reject a part of a node that is not read and would therefore be lost."""
        for name, value in node.args.items():
            if value and name not in read:
                word = name.rstrip("_").replace("_", " ").upper()
                self._refuse(node, f"{word} {what}", "remove it")

    def _join(self, join: exp.Join | None) -> tuple[str, exp.Expr | None]:
        if join is None:
            return "", None
        side, kind, on = str(join.side).upper(), str(join.kind).upper(), join.args.get("on")
        if join.args.get("using") or str(join.method).upper() == "NATURAL":
            self._refuse(join, "USING and NATURAL", "write the condition with ON")
        if join.method:
            self._refuse(join, f"{safe(str(join.method), 20).upper()} JOIN", "write JOIN ... ON")
        self._only(join, _JOIN, "of a join")
        if side in ("FULL", "RIGHT"):
            cure = "swap the tables and use LEFT JOIN" if side == "RIGHT" else "use UNION ALL of two LEFT JOINs"
            self._refuse(join, f"{side} JOIN", cure)
        if kind not in ("", "INNER", "OUTER") or on is None:
            self._refuse(join, "a join without ON", "write JOIN ... ON")
        return "left" if side == "LEFT" else "inner", on

    def _qualify(self, column: exp.Column, aliases: Sequence[str]) -> None:
        if isinstance(column.this, exp.Star):
            self._refuse(column, *_FORMS[exp.Star])
        if column.args.get("db") is not None:
            self._refuse(column, f"the column {column.sql('postgres')} with a schema", "use the table's alias")
        if not column.table:
            if len(aliases) > 1:
                self._refuse(column, f"the column {column.name} without its table", f"write {aliases[0]}.{column.name}")
            column.set("table", exp.to_identifier(aliases[0], quoted=True))
        elif column.table not in aliases:
            self._refuse(column, f"the unknown table {column.table}", f"known here: {few(aliases)}")

    def _output(self, given: exp.Expr, number: int, names: tuple[str, ...]) -> Output:
        value = given.unalias()
        if isinstance(value, exp.Star):
            self._refuse(given, *_FORMS[exp.Star])
        name = (
            names[number]
            if number < len(names)
            else given.alias or (value.name if isinstance(value, exp.Column) else "")
        )
        if not name:
            self._refuse(given, f"output column {number + 1} without a name", "name it with AS")
        if name.startswith(OWN):
            self._refuse(given, f"the name {name}", "choose another name")
        self._admit(value, aggregates=True)
        return Output(name, value, any(True for _ in value.find_all(exp.AggFunc)))

    def _groups(self, select: exp.Select, outputs: Sequence[Output]) -> bool:
        """Return whether the branch groups; refuses groups that are no outputs, and outputs that are no groups."""
        group, aggregates = select.args.get("group"), [one for one in outputs if one.aggregates]
        if group is None:
            if aggregates or select.args.get("having"):
                cure = "add GROUP BY: such a SELECT always has one row, which no key identifies"
                self._refuse(select, "an aggregate without GROUP BY", cure)
            return False
        for name in ("cube", "rollup", "grouping_sets", "all", "totals"):
            if group.args.get(name):
                self._refuse(group, name.upper().replace("_", " "), "write one view for each grouping")
        grouped = []
        for given in group.expressions:
            one = given
            if isinstance(one, exp.Literal) and one.is_int and 0 < int(one.name) <= len(outputs):
                one = outputs[int(one.name) - 1].value
            elif not any(one == output.value for output in outputs):
                what = f"GROUP BY {safe(one.sql('postgres'), 60)}, which is not an output column,"
                self._refuse(one, what, "add it to the SELECT; for an alias, write its position: GROUP BY 1")
            grouped.append(one)
        for output in outputs:
            if not output.aggregates and output.value not in grouped and not _constant(output.value):
                self._refuse(output.value, f"the column {output.name}, which is not grouped,", "add it to GROUP BY")
        if not grouped or (self._is_new and all(map(_constant, grouped))):
            self._refuse(group, "GROUP BY without columns", "group by a column")
        return True

    def _admit(self, value: exp.Expr, aggregates: bool) -> None:
        """Refuse an expression with a form that is not on the list."""
        for node in value.walk():
            if isinstance(node, exp.AggFunc):
                self._admit_aggregate(node, aggregates)
            if isinstance(node, _AGGREGATES) or (isinstance(node, exp.Star) and isinstance(node.parent, exp.Count)):
                continue
            if not isinstance(node, _ALLOWED):
                what, cure = _FORMS.get(type(node), ("", ""))
                called = node.name if isinstance(node, exp.Anonymous) else node.key
                fallback = "compute it in a column of the source, or when reading"
                self._refuse(node, what or f"{called} (not on the list: {see('views')})", cure or fallback)
            if isinstance(node, exp.Literal) and node.is_string and _TIME_WORD.search(node.name):
                self._refuse(node, f"the literal {safe(node.sql('postgres'), 60)}", _NOT_NOW)
            if self._is_new and isinstance(node, exp.Cast) and getattr(node.to.this, "name", "") in _TIMES:
                given = node.this.unnest()
                if not isinstance(given, exp.Literal | exp.Null) and given.find(exp.Column) is None:
                    self._refuse(node, "a cast of a computed constant to a date or time", "write it as one literal")
            if isinstance(node, exp.DataType) and getattr(node.this, "name", "") not in _CASTS:
                what = f"a cast to {safe(node.sql('postgres'), 60)}"
                self._refuse(node, what, "cast to a number, text, boolean, date, time, interval, json or uuid")

    def _admit_aggregate(self, node: exp.AggFunc, aggregates: bool) -> None:
        if not aggregates:
            self._refuse(node, "an aggregate in WHERE or ON", "use HAVING, or a view over a view")
        if not isinstance(node, _AGGREGATES):
            self._refuse(node, *_FORMS.get(type(node), (f"{node.key}", "use COUNT, SUM, AVG, MIN, MAX or string_agg")))
        if node.find_ancestor(exp.AggFunc):
            self._refuse(node, "an aggregate inside an aggregate", "use a view over a view")
        if isinstance(node, exp.GroupConcat):
            order = node.find(exp.Order)
            value = node.this.this if isinstance(node.this, exp.Order) else node.this
            value = value.expressions[0] if isinstance(value, exp.Distinct) else value
            if order is None or not any(one.this == value for one in order.expressions):
                cure = "add the aggregated value to its ORDER BY: only then the order is total"
                self._refuse(node, "string_agg without a total order", cure)
            separator = node.args.get("separator")
            if self._is_new and separator is not None and separator.find(exp.Column) is not None:
                self._refuse(node, "string_agg with a column as separator", "use a literal")

    def _key(self, branches: Sequence[Branch], selects: Sequence[exp.Select], names: Sequence[str]) -> tuple[str, ...]:
        first, select = branches[0], selects[0]
        key = self._spec.key
        if not key:
            if not all(branch.groups for branch in branches):
                cure = "set key = [...]: the output columns that identify a row (of a join: the keys of both sides)"
                self._refuse(select, "a view without GROUP BY and without a key", cure)
            key = tuple(one.name for one in first.outputs if not one.aggregates)
        for name in key:
            if name not in names:
                self._refuse(select, f"the key column {name}, which is not an output column,", f"known: {few(names)}")
        for branch in branches:
            lookups = {use.alias for use in branch.uses if use.lookup}
            for name in key:
                value = branch.value(name)
                if value.find(exp.AggFunc):
                    self._refuse(value, f"the aggregate {name} in the key", "use grouped columns only")
                if any(column.table in lookups for column in value.find_all(exp.Column)):
                    cure = "mirror the table: a change of a lookup table cannot move a row to another key"
                    self._refuse(value, f"the key column {name} of a lookup table", cure)
            if branch.groups and {
                one.name for one in branch.outputs if not one.aggregates and not _constant(one.value)
            } - set(key):
                self._refuse(select, "a key without all grouped columns", "leave `key` out, or list all of them")
        if len(branches) > 1:
            marks = [[_mark(branch.value(name)) for branch in branches] for name in key]
            if self._is_new and not any(map(_differ, marks)):
                cure = "add a constant column with a different value in each branch, and list it in the key"
                self._refuse(selects[1], "UNION ALL whose branches the key does not distinguish", cure)
        return unique(key)


def _renamed(outputs: Sequence[Output], names: Sequence[str]) -> Iterator[Output]:
    for output, name in zip(outputs, names, strict=True):
        yield Output(name, output.value, output.aggregates)


def _name(table: exp.Expr) -> str:
    parts = [table.args.get(one) for one in ("db", "this")]
    return ".".join(one.name for one in parts if one is not None)


def _line(node: exp.Expr) -> int:
    """Return the line of the first token of a node, as far as the parser noted one."""
    for one in node.walk():
        if "line" in one.meta:
            return int(one.meta["line"])
    parent = node.parent
    return _line(parent) if parent is not None and not isinstance(parent, exp.Union) else 1


def _mark(value: exp.Expr) -> str | int | None:
    """Return the value of a literal that can name a branch: a text or a whole number; None for anything else."""
    value = value.unnest()
    if isinstance(value, exp.Cast) and value.to.sql("postgres") == "TEXT" and value.this.is_string:
        value = value.this
    if not isinstance(value, exp.Literal):
        return None
    return value.name if value.is_string else int(value.name) if value.is_int else None


def _differ(marks: Sequence[str | int | None]) -> bool:
    """Whether the branches have different marks of one type: of two types, one would be converted."""
    return len(set(marks)) == len(marks) and len(set(map(type, marks))) == 1


def _constant(value: exp.Expr) -> bool:
    return value.find(exp.Column) is None and value.find(exp.AggFunc) is None


def _may_add(branch: Branch) -> bool:
    """Whether the branch has the form of the delta method: one table, plain groups, and COUNT, SUM and AVG alone."""
    if len(branch.uses) != 1 or not branch.groups:
        return False
    sums = [one.value for one in branch.outputs if one.aggregates]
    plain = [one.value for one in branch.outputs if not one.aggregates]
    if not all(isinstance(one, exp.Column) for one in plain) or branch.having is not None:
        return False
    if not all(isinstance(one, _SUMS) and one.find(exp.Distinct) is None for one in sums):
        return False
    inside = [one.this for one in sums if one.this is not None and not isinstance(one.this, exp.Star)]
    inside += [branch.where] if branch.where is not None else []
    return all(isinstance(node, _PLAIN) for one in inside for node in one.walk())
