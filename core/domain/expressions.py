"""Expressions of computed columns: a checked subset of PostgreSQL's SQL, evaluated on a row of text. Pure.

Each construct is on a list here, and has PostgreSQL's own answer or raises `ExpressionError`: an evaluator in Python
gives one answer for the copy, the stream and every sink. What depends on a server's collation, time zone or version is
left out: texts are only compared for equality, and `lower` and `upper` change ASCII letters, as with COLLATE "C".
`tests/property/test_expressions.py` compares the answers with those of a server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from slotkeeper.core.domain.expression_values import (
    ARITHMETIC,
    BOOLEAN,
    COMPARISONS,
    DATE,
    DECIMALS,
    INTEGERS,
    NUMERIC,
    READERS,
    TEXT,
    TIMESTAMP,
    TO_LOWER,
    TO_UPPER,
    decimal_of,
    fitting,
    from_epoch_ms,
    from_epoch_us,
    mask,
    reader_of,
    scaled,
    sized,
    spelled,
    substring,
    to_epoch_ms,
    truncated,
)
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import Computed
from slotkeeper.core.errors import ExpressionError

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_PARTS = ("year", "quarter", "month", "day", "hour", "minute")
CHANGE = ("change_op", "change_shard", "change_position", "change_time")
"""Functions without arguments: the operation (I, U; a copied row has I), the DN, the position and the time of a change;
the time is in microseconds since 1970 in a `Row`, and a timestamp in UTC in an expression."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the source as text, and the values of `CHANGE`."""

    values: Sequence[str | None]
    change: tuple[str | None, str | None, str | None, str | None] = ("I", None, None, None)


Value = Callable[[Row], Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A compiled part: its type ("" for NULL), and its value in a row; `spelled` is the type with its length."""

    type: str
    value: Value
    spelled: str = ""

    @property
    def column_type(self) -> str:
        """The type of a column with these values."""
        return self.spelled or self.type or TEXT

    def text(self, row: Row) -> str | None:
        """Return the value as the server writes it, None for NULL; raises ExpressionError if there is none."""
        return spelled(self._of(row))

    def cast_text(self, row: Row) -> str | None:
        """Return the value as a cast to text, which differs for a boolean."""
        value = self._of(row)
        return ("true" if value else "false") if isinstance(value, bool) else spelled(value)

    def _of(self, row: Row) -> Any:
        try:
            return self.value(row)
        except (ArithmeticError, ValueError):  # of Python's own limits, such as the digits of an integer
            raise ExpressionError("a value is out of range") from None


def read(name: str, sql: str) -> Computed:
    """Parse an expression; raises ValueError, as "must ...", if it is not in the subset."""
    from sqlglot import exp

    tree = _parsed(sql)
    inputs = tuple(dict.fromkeys(one.name for one in tree.find_all(exp.Column)))
    salts = [one for one in tree.find_all(exp.Anonymous) if one.name.lower() == "salt"]
    for one in salts:
        if one.find_ancestor(exp.MD5, exp.SHA2Digest) is None:
            raise ValueError("must use salt() only within md5() or sha256()")
    try:
        # texts are the most that a column can be used as; types are checked once the table is known
        _Compiler(None, "").part(tree)
    except ExpressionError as error:
        raise ValueError(f"must be an expression of the supported subset: {error.message}") from None
    used = {one.name.lower() for one in tree.find_all(exp.Anonymous)}.intersection(CHANGE)
    return Computed(name, sql, inputs, bool(salts), bool(used), "change_time" in used)


@cache
def compiled(one: Computed, columns: tuple[Column, ...], salt: str) -> Part:
    """Return an expression over rows of these columns; raises ExpressionError for types that it does not support."""
    try:
        return _Compiler(columns, salt).part(_parsed(one.sql))
    except ExpressionError as error:
        raise ExpressionError(f"computed column {one.name}: {error.message}", "change its expression") from None


def _parsed(sql: str) -> Expr:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        words = [token.text.lower() for token in sqlglot.tokenize(sql, read="postgres")]
        found = sqlglot.parse(sql, read="postgres")
    except (SqlglotError, RecursionError):
        raise ValueError("must be an expression that can be parsed") from None
    if len(found) != 1 or found[0] is None:
        raise ValueError("must be one expression")
    if ("date_part", "(") in pairwise(words):  # the parser reads it as extract, which is a numeric
        raise ValueError("must use extract instead of date_part, which is a double precision number")
    return found[0]


def _type_of(column: Column) -> str:
    plain = re.sub(r"\([\d,]+\)", "", column.type)
    plain = {"character varying": TEXT, "nvarchar2": TEXT, "tinyint": "smallint"}.get(plain, plain)
    if plain not in READERS:
        raise ExpressionError(f"column {column.name} has type {column.type}, which expressions do not support")
    return plain


# -- the compiler -----------------------------------------------------------------------------------------------------

_ARGUMENTS = ("this", "expression", "expressions", "is_string", "typed", "safe")
_MORE_ARGUMENTS = {
    "between": ("low", "high"),
    "case": ("ifs", "default"),
    "cast": ("to",),
    "column": ("table",),
    "in": ("query",),
    "is": ("negate",),
    "replace": ("replacement",),
    "round": ("decimals",),
    "sha2digest": ("length",),
    "substring": ("start", "length"),
    "timestamptrunc": ("unit", "zone"),
}
"""The parser's arguments that the compiler's methods read, of every node and by kind; no other is ignored."""
ANY = "?"
"""The type of a column as long as the table is not known."""


class _Compiler:
    """Compiles a tree of the parser; without `columns`, only the constructs are checked."""

    def __init__(self, columns: tuple[Column, ...] | None, salt: str) -> None:
        from sqlglot import exp

        self._columns, self._salt, self._exp = columns, salt, exp
        self._operators = {
            exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
            exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
        }  # fmt: skip
        self._compares = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between)

    def part(self, tree: Expr) -> Part:
        kind = type(tree).__name__.lower()
        method = getattr(self, f"_{kind}", None)
        if method is None and type(tree) not in self._operators:
            raise ExpressionError(f"{tree.key.upper()} is not supported")
        for name, value in tree.args.items():
            if value and name not in _ARGUMENTS and name not in _MORE_ARGUMENTS.get(kind, ""):
                raise ExpressionError(f"{tree.key.upper()} with {name} is not supported")
        if method is not None:
            try:
                found: Part = method(tree)
            except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
                raise ExpressionError(f"{tree.key.upper()} in this form is not supported") from None
            return found
        return self._operation(tree, self._operators[type(tree)])  # type: ignore[index]

    def _paren(self, tree: Expr) -> Part:
        return self.part(tree.this)

    def _column(self, tree: Expr) -> Part:
        if tree.args.get("table"):
            raise ExpressionError("a column name must not have a table prefix")
        if self._columns is None:
            return Part(ANY, lambda row: None)
        names = [one.name for one in self._columns]
        if tree.name not in names:
            raise ExpressionError(f"the source table has no column {tree.name}")
        place = names.index(tree.name)
        type_ = _type_of(self._columns[place])
        reader = READERS[type_]

        def value(row: Row) -> Any:
            text = row.values[place]
            return None if text is None else reader(text)

        return Part(type_, value)

    def _null(self, tree: Expr) -> Part:
        return Part("", lambda row: None)

    def _boolean(self, tree: Expr) -> Part:
        return _constant(BOOLEAN, bool(tree.this))

    def _literal(self, tree: Expr) -> Part:
        if tree.is_string:
            return _constant(TEXT, str(tree.this))
        if not re.fullmatch(r"[0-9]+", tree.name):
            return _constant(NUMERIC, decimal_of(tree.name))
        number = int(tree.name)
        type_ = next((name for name in ("integer", "bigint") if number < 1 << INTEGERS[name]), NUMERIC)
        return _constant(type_, number if type_ != NUMERIC else Decimal(number))

    def _neg(self, tree: Expr) -> Part:
        one = self._of(tree.this, (*INTEGERS, NUMERIC))
        if one.type in INTEGERS:
            return _strict(one.type, lambda number: fitting(-number, one.type), one)
        return _strict(one.type, Decimal.copy_negate, one)

    def _operation(self, tree: Expr, sign: str) -> Part:
        for child in (tree.this, tree.expression):
            if sign in "+-*/%" and isinstance(child, self._exp.DPipe):
                raise ExpressionError("|| within arithmetic needs parentheses")
            if sign not in "+-*/%" and isinstance(child, (*self._compares, self._exp.Not)):
                raise ExpressionError("a comparison within another needs parentheses")
        return self._of_two(sign, self.part(tree.this), self.part(tree.expression))

    def _of_two(self, sign: str, left: Part, right: Part) -> Part:
        type_ = _common([left, right])
        if sign in "+-*/%":
            if type_ not in (*INTEGERS, NUMERIC, ANY):
                raise ExpressionError(f"{sign} is not supported for type {type_ or 'unknown'}")
            whole, exact = ARITHMETIC[sign], DECIMALS[sign]
            if type_ in INTEGERS:
                return _strict(type_, lambda a, b: fitting(whole(a, b), type_), left, right)
            return _strict(type_, lambda a, b: exact(Decimal(a), Decimal(b)), left, right)
        if sign not in ("=", "<>") and type_ == TEXT:
            raise ExpressionError("the order of texts depends on the collation: only = and <> compare texts")
        return _strict(BOOLEAN, COMPARISONS[sign], left, right)

    def _is(self, tree: Expr) -> Part:
        if not isinstance(tree.expression, self._exp.Null) or isinstance(tree.this, self._exp.Not):
            raise ExpressionError("IS supports only NULL and NOT NULL, of an operand in parentheses if it is compound")
        one, negate = self.part(tree.this), bool(tree.args.get("negate"))
        return Part(BOOLEAN, lambda row: (one.value(row) is None) != negate)

    def _not(self, tree: Expr) -> Part:
        return _strict(BOOLEAN, lambda flag: not flag, self._of(tree.this, (BOOLEAN,)))

    def _and(self, tree: Expr) -> Part:
        return self._logical(tree, False)

    def _or(self, tree: Expr) -> Part:
        return self._logical(tree, True)

    def _logical(self, tree: Expr, decides: bool) -> Part:
        left, right = (self._of(one, (BOOLEAN,)) for one in (tree.this, tree.expression))

        def value(row: Row) -> Any:
            first = left.value(row)
            if first is decides:
                return decides
            second = right.value(row)
            return second if second is decides or first is not None else None

        return Part(BOOLEAN, value)

    def _in(self, tree: Expr) -> Part:
        if tree.args.get("query") or not tree.expressions:
            raise ExpressionError("IN supports only a list")
        return self._any(tree.this, tree.expressions)

    def _any(self, this: Expr, others: Sequence[Expr]) -> Part:
        if isinstance(this, (*self._compares, self._exp.Not)):
            raise ExpressionError("a comparison within another needs parentheses")
        equals = [self._of_two("=", self.part(this), self.part(one)) for one in others]

        def value(row: Row) -> Any:
            found = [one.value(row) for one in equals]
            return True if True in found else None if None in found else False

        return Part(BOOLEAN, value)

    def _between(self, tree: Expr) -> Part:
        exp = self._exp
        low = exp.GTE(this=tree.this, expression=tree.args["low"])
        return self._logical(exp.And(this=low, expression=exp.LTE(this=tree.this, expression=tree.args["high"])), False)

    def _case(self, tree: Expr) -> Part:
        exp, conditions, results = self._exp, [], []
        for one in tree.args["ifs"]:
            when = exp.EQ(this=tree.this, expression=one.this) if tree.this is not None else one.this
            conditions.append(self._of(when, (BOOLEAN,)))
            results.append(self.part(one.args["true"]))
        default = tree.args.get("default")
        results.append(self.part(default) if default is not None else Part("", lambda row: None))
        type_ = _common(results)

        def value(row: Row) -> Any:
            pairs = zip(conditions, results, strict=False)
            chosen = next((result for condition, result in pairs if condition.value(row)), results[-1])
            return _as(type_, chosen.value(row))

        return Part(type_, value)

    def _coalesce(self, tree: Expr) -> Part:
        parts = [self.part(one) for one in (tree.this, *tree.expressions)]
        type_ = _common(parts)

        def value(row: Row) -> Any:
            return next((_as(type_, found) for one in parts if (found := one.value(row)) is not None), None)

        return Part(type_, value)

    def _nullif(self, tree: Expr) -> Part:
        one, other = self.part(tree.this), self.part(tree.expression)
        equal, type_ = self._of_two("=", one, other), _common([one, other])
        type_ = one.type if one.type in INTEGERS and type_ in INTEGERS else type_
        return Part(type_, lambda row: None if equal.value(row) else _as(type_, one.value(row)))

    def _dpipe(self, tree: Expr) -> Part:
        arithmetic = (self._exp.Add, self._exp.Sub, self._exp.Mul, self._exp.Div, self._exp.Mod)
        if isinstance(tree.this, arithmetic) or isinstance(tree.expression, arithmetic):
            raise ExpressionError("arithmetic beside || needs parentheses")
        left, right = self.part(tree.this), self.part(tree.expression)
        if TEXT not in (left.type, right.type) and ANY not in (left.type, right.type):
            raise ExpressionError("|| needs a text: cast one operand")
        for one in (left, right):
            if one.type not in ("", ANY, TEXT, NUMERIC, *INTEGERS):
                raise ExpressionError(f"|| does not support type {one.type}: cast it to text")
        return _strict(TEXT, lambda a, b: f"{spelled(a)}{spelled(b)}", left, right)

    def _cast(self, tree: Expr) -> Part:
        kind, sizes = tree.args["to"].this.name, [int(one.name) for one in tree.args["to"].expressions]
        target = _CASTS.get(kind)
        one = self.part(tree.this)
        if target is None or (sizes and kind not in ("DECIMAL", "VARCHAR")) or len(sizes) > 2:
            raise ExpressionError(f"a cast to {kind.lower()} is not supported")
        whole = f"{target}({','.join(map(str, sizes))})" if kind == "DECIMAL" and sizes else ""
        if kind == "VARCHAR" and sizes:
            whole = f"character varying({sizes[0]})"
        if target in (TIMESTAMP, DATE) and isinstance(tree.this, self._exp.Literal) and tree.this.is_string:
            return _constant(target, READERS[target](tree.this.name))
        found = _cast_of(one.type, target)
        if kind == "DECIMAL" and sizes:
            precision, scale = (*sizes, 0)[:2]
            if not 1 <= precision <= 1_000 or scale > precision:
                raise ExpressionError("numeric needs a precision of 1 to 1,000, and a scale not above it")
            return Part(target, _strict(target, lambda it: sized(found(it), precision, scale), one).value, whole)
        if kind == "VARCHAR" and sizes:
            return Part(target, _strict(target, lambda it: found(it)[: sizes[0]], one).value, whole)
        return _strict(target, found, one)

    def _lower(self, tree: Expr) -> Part:
        return _strict(TEXT, lambda it: it.translate(TO_LOWER), self._of(tree.this, (TEXT,)))

    def _upper(self, tree: Expr) -> Part:
        return _strict(TEXT, lambda it: it.translate(TO_UPPER), self._of(tree.this, (TEXT,)))

    def _length(self, tree: Expr) -> Part:
        return _strict("integer", len, self._of(tree.this, (TEXT,)))

    def _trim(self, tree: Expr) -> Part:
        if any(value for name, value in tree.args.items() if name != "this"):
            raise ExpressionError("trim supports only spaces on both sides")
        return _strict(TEXT, lambda it: it.strip(" "), self._of(tree.this, (TEXT,)))

    def _substring(self, tree: Expr) -> Part:
        if not tree.args.get("start"):
            raise ExpressionError("substring needs a start")
        places = [self._of(tree.args[name], INTEGERS) for name in ("start", "length") if tree.args.get(name)]
        return _strict(TEXT, substring, self._of(tree.this, (TEXT,)), *places)

    def _left(self, tree: Expr) -> Part:
        return _strict(TEXT, lambda it, n: it[:n], self._of(tree.this, (TEXT,)), self._of(tree.expression, INTEGERS))

    def _right(self, tree: Expr) -> Part:
        def right(it: str, n: int) -> str:
            return it[-n:] if n else ""

        return _strict(TEXT, right, self._of(tree.this, (TEXT,)), self._of(tree.expression, INTEGERS))

    def _replace(self, tree: Expr) -> Part:
        parts = [self._of(tree.args[name], (TEXT,)) for name in ("this", "expression", "replacement")]
        return _strict(TEXT, lambda it, old, new: it.replace(old, new) if old else it, *parts)

    def _md5(self, tree: Expr) -> Part:
        one = self._of(tree.this, (TEXT,))
        return _strict(TEXT, lambda it: hashlib.md5(it.encode(), usedforsecurity=False).hexdigest(), one)

    def _sha2digest(self, tree: Expr) -> Part:
        if tree.args["length"].name != "256":
            raise ExpressionError("of the SHA-2 functions, only sha256 is supported")
        return _strict(TEXT, lambda it: hashlib.sha256(it.encode()).hexdigest(), self._of(tree.this, (TEXT,)))

    def _abs(self, tree: Expr) -> Part:
        one = self._of(tree.this, (*INTEGERS, NUMERIC))
        if one.type in INTEGERS:
            return _strict(one.type, lambda it: fitting(abs(it), one.type), one)
        return _strict(one.type, Decimal.copy_abs, one)

    def _round(self, tree: Expr) -> Part:
        one, places = self._of(tree.this, (NUMERIC,)), tree.args.get("decimals")
        if places is not None and not (isinstance(places, self._exp.Literal) and re.fullmatch(r"\d{1,2}", places.name)):
            raise ExpressionError("round needs a number of digits from 0 to 99")
        scale = int(places.name) if places is not None else 0
        return _strict(NUMERIC, lambda it: scaled(it, scale), one)

    def _timestamptrunc(self, tree: Expr) -> Part:
        unit = tree.args["unit"].name.lower()
        if unit not in _UNITS or tree.args.get("zone"):
            raise ExpressionError(f"date_trunc supports only {', '.join(_UNITS)}")
        return _strict(TIMESTAMP, lambda it: truncated(it, unit), self._of(tree.this, (TIMESTAMP,)))

    def _extract(self, tree: Expr) -> Part:
        unit = tree.this.name.lower()
        one = self._of(tree.expression, (TIMESTAMP, DATE))
        if unit not in _PARTS or (one.type == DATE and unit in ("hour", "minute")):
            raise ExpressionError(f"extract supports only {', '.join(_PARTS)}")

        def value(it: Any) -> Decimal:
            return Decimal((it.month + 2) // 3 if unit == "quarter" else getattr(it, unit))

        return _strict(NUMERIC, value, one)

    def _anonymous(self, tree: Expr) -> Part:
        name, given = tree.name.lower(), tree.expressions
        if name == "salt" and not given:
            return _constant(TEXT, self._salt)
        if name in CHANGE and not given:
            place = CHANGE.index(name)
            if name == "change_time":
                return _strict(TIMESTAMP, from_epoch_us, Part("bigint", lambda row: row.change[place]))
            return Part(TEXT, lambda row: row.change[place])
        if name == "btrim" and len(given) == 1:
            return _strict(TEXT, lambda it: it.strip(" "), self._of(given[0], (TEXT,)))
        if name == "mask" and len(given) == 3:
            return _strict(TEXT, mask, self._of(given[0], (TEXT,)), *(self._of(one, INTEGERS) for one in given[1:]))
        if name == "from_epoch_ms" and len(given) == 1:
            return _strict(TIMESTAMP, from_epoch_ms, self._of(given[0], INTEGERS))
        if name == "from_text" and len(given) == 2:
            if not given[1].is_string:
                raise ExpressionError("from_text needs a format in quotes")
            return _strict(TIMESTAMP, reader_of(given[1].name), self._of(given[0], (TEXT,)))
        if name == "to_epoch_ms" and len(given) == 1:
            return _strict("bigint", to_epoch_ms, self._of(given[0], (TIMESTAMP,)))
        raise ExpressionError(f"function {name} with {len(given)} arguments is not supported")

    def _of(self, tree: Expr, types: Sequence[str] | dict[str, int]) -> Part:
        one = self.part(tree)
        if one.type and one.type != ANY and one.type not in types:
            raise ExpressionError(f"{one.type} is used where {' or '.join(types)} is needed: cast it")
        return one


def _constant(type_: str, value: Any) -> Part:
    return Part(type_, lambda row: value)


def _strict(type_: str, apply: Callable[..., Any], *parts: Part) -> Part:
    """Return a part that is NULL if any of its operands is NULL."""

    def value(row: Row) -> Any:
        found = [one.value(row) for one in parts]
        return None if None in found else apply(*found)

    return Part(type_, value)


def _common(parts: Sequence[Part]) -> str:
    """Return the type to which PostgreSQL converts these parts; raises ExpressionError if they need a cast."""
    types = {one.type for one in parts} - {""}
    if ANY in types:
        return ANY
    if types <= INTEGERS.keys():
        return max(types, key=lambda one: INTEGERS[one], default=TEXT)
    if types <= {NUMERIC, *INTEGERS}:
        return NUMERIC
    if len(types) > 1:
        raise ExpressionError(f"{' and '.join(sorted(types))} need a cast")
    return types.pop()


def _as(type_: str, value: Any) -> Any:
    return Decimal(value) if type_ == NUMERIC and isinstance(value, int) else value


_CASTS = {
    "SMALLINT": "smallint",
    "INT": "integer",
    "BIGINT": "bigint",
    "DECIMAL": NUMERIC,
    "TEXT": TEXT,
    "VARCHAR": TEXT,
    "TIMESTAMP": TIMESTAMP,
    "DATE": DATE,
}


def _cast_of(type_: str, target: str) -> Callable[[Any], Any]:
    """Return the conversion of a cast; raises ExpressionError if it is not supported."""
    numbers = (*INTEGERS, NUMERIC)
    if type_ in ("", ANY) or type_ == target:
        return lambda it: it
    if target == TEXT:
        return (lambda it: "true" if it else "false") if type_ == BOOLEAN else spelled
    if target in INTEGERS and type_ in numbers:
        return lambda it: fitting(int(scaled(Decimal(it), 0)), target)
    if target == NUMERIC and type_ in INTEGERS:
        return Decimal
    if type_ == TEXT and target in numbers:
        return READERS[target]
    if (type_, target) == (BOOLEAN, "integer"):
        return int
    if (type_, target) == (TIMESTAMP, DATE):
        return lambda it: it.date()
    if (type_, target) == (DATE, TIMESTAMP):
        return lambda it: datetime(it.year, it.month, it.day)
    raise ExpressionError(f"a cast of {type_} to {target} is not supported")
