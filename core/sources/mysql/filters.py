"""Select the columns and rows of a table that a channel mirrors, the rows by its filter. Pure.

Row filters are evaluated here, because no server can evaluate them on the row images of a stream. The supported parts
of the syntax that `slotkeeper.core.row_filter` parses are comparisons of a column with a value or another column, IN,
BETWEEN, LIKE, IS NULL and IS [NOT] DISTINCT FROM, combined with AND, OR and NOT as in SQL. Any other part is rejected
with an error that names it. Text is compared by character, regardless of the source's collation, and numbers as
numbers. Rows of a copy are filtered in the same way, so that copy and stream agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import TYPE_CHECKING, Any

from slotkeeper.core.domain.shape import Mapped
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ALLOW, ChannelSpec
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql.tables import Image


@dataclass(frozen=True, slots=True)
class Selection(Mapped):
    """The columns and rows of a table that a channel mirrors.

    `cascades_known` means that foreign keys that change the table's rows without row events are allowed.
    """

    cascades_known: bool = False

    @classmethod
    def of(cls, channel: ChannelSpec) -> Selection:
        return cls(channel.read, channel.where, channel.timed, channel.cascades == ALLOW)

    def places(self, identity: TableIdentity) -> tuple[int, ...]:
        """Return the indexes of the selected columns in the table's rows."""
        there = {column.name: place for place, column in enumerate(identity.known or identity.columns)}
        return tuple(there[name] for name in self.names or (column.name for column in identity.columns))

    def filtered(self, identity: TableIdentity) -> tuple[str, ...]:
        """Return the columns that the filter can use: those whose names are in its text."""
        return tuple(one.name for one in identity.columns if one.name.casefold() in self.where.casefold())


if TYPE_CHECKING:
    from sqlglot.expressions import Expr

Value = Callable[[Sequence[Any]], Any]
"""Function that evaluates a part of a filter on a row; returns None for NULL or unknown."""
Accepts = Callable[[Sequence[Any]], bool]
NUMBER, TEXT, TIME = "number", "text", "time"
_GROUPS = {"integer": NUMBER, "numeric": NUMBER, "float": NUMBER, "text": TEXT, "uuid": TEXT}
_GROUPS |= {"timestamp": TIME, "date": TIME}
_KNOWN_PARTS = frozenset({"this", "expression", "expressions", "low", "high", "negate", "is_string"})
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?")


def compiled(where: str, images: Sequence[Image]) -> Accepts:
    """Return a function that evaluates the filter on a row; `images` are the columns of the rows, in order.

    Raises Refused for unsupported syntax.
    """
    import sqlglot  # only a channel with a filter needs it

    condition = _Compiler(images).condition(sqlglot.parse_one(where, read="postgres"))
    return lambda row: condition(row) is True


class _Compiler:
    """Compiles the parts of a filter to functions."""

    def __init__(self, images: Sequence[Image]) -> None:
        self._places = {image.name: place for place, image in enumerate(images)}
        self._images = images

    def condition(self, part: Expr) -> Value:
        """Compile a part that is true, false or unknown."""
        if {name for name, value in part.args.items() if value} - _KNOWN_PARTS:
            raise _unanswered(part)  # for example a LIKE with ESCAPE
        found = self._positive(part)
        return _negated(found) if part.args.get("negate") else found

    def _positive(self, part: Expr) -> Value:
        from sqlglot import exp

        if isinstance(part, exp.Paren):
            return self.condition(part.this)
        if isinstance(part, exp.And | exp.Or):
            one, other = self.condition(part.this), self.condition(part.expression)
            return _both(one, other) if isinstance(part, exp.And) else _either(one, other)
        if isinstance(part, exp.Not):
            return _negated(self.condition(part.this))
        if isinstance(part, exp.Is) and isinstance(part.expression, exp.Null) and isinstance(part.this, exp.Column):
            place = self._place(part.this)
            return lambda row: row[place] is None
        if isinstance(part, exp.In) and part.expressions:
            return reduce(_either, [self._compared(part.this, one, lambda a, b: a == b) for one in part.expressions])
        if isinstance(part, exp.Between):
            low = self._compared(part.this, part.args["low"], lambda a, b: a >= b)
            return _both(low, self._compared(part.this, part.args["high"], lambda a, b: a <= b))
        if isinstance(part, exp.Like):
            return self._like(part)
        if isinstance(part, exp.NullSafeEQ | exp.NullSafeNEQ):
            one, other = self._pair(part.this, part.expression)
            same = isinstance(part, exp.NullSafeEQ)
            return lambda row: (one(row) == other(row)) is same
        signs: dict[type[Any], Callable[[Any, Any], bool]] = {
            exp.EQ: lambda a, b: a == b,
            exp.NEQ: lambda a, b: a != b,
            exp.LT: lambda a, b: a < b,
            exp.LTE: lambda a, b: a <= b,
            exp.GT: lambda a, b: a > b,
            exp.GTE: lambda a, b: a >= b,
        }
        if type(part) in signs:
            return self._compared(part.this, part.expression, signs[type(part)])
        raise _unanswered(part)

    def _like(self, part: Expr) -> Value:
        from sqlglot import exp

        if not isinstance(part.expression, exp.Literal) or self._group(part.this) != TEXT:
            raise _unanswered(part)
        pattern, value = re.compile(_pattern(str(part.expression.this)), re.DOTALL), self._column(part.this)

        def like(row: Sequence[Any]) -> bool | None:
            text = value(row)
            return None if text is None else pattern.fullmatch(text) is not None

        return like

    def _compared(self, one: Expr, other: Expr, true: Callable[[Any, Any], bool]) -> Value:
        left, right = self._pair(one, other)

        def compare(row: Sequence[Any]) -> bool | None:
            a, b = left(row), right(row)
            return None if a is None or b is None else true(a, b)

        return compare

    def _pair(self, one: Expr, other: Expr) -> tuple[Value, Value]:
        """Compile both operands to comparable values."""
        groups = {group for group in (self._group(one), self._group(other)) if group}
        if len(groups) != 1:
            raise _unanswered(one.parent or one)
        (group,) = groups
        return self._side(one, group), self._side(other, group)

    def _group(self, part: Expr) -> str:
        """Return how a column's values are compared; "" for a constant, which is parsed as the other operand's type."""
        from sqlglot import exp

        if not isinstance(part, exp.Column):
            return ""
        image = self._images[self._place(part)]
        if image.family not in _GROUPS:
            raise Refused(f"where compares column {image.name!r} of the unsupported type {image.type}")
        return _GROUPS[image.family]

    def _side(self, part: Expr, group: str) -> Value:
        from sqlglot import exp

        if isinstance(part, exp.Column):
            return self._column(part)
        constant = _constant(part, group)
        return lambda row: constant

    def _column(self, part: Expr) -> Value:
        place = self._place(part)
        image = self._images[place]
        group, spell = _GROUPS.get(image.family, ""), image.text

        def value(row: Sequence[Any]) -> Any:
            text = spell(row[place])
            return None if text is None else _read(text, group)

        return value

    def _place(self, part: Expr) -> int:
        name = str(part.this.this)
        if name not in self._places:
            known = ", ".join(self._places)
            raise Refused(
                f"where names column {name!r}, which the source table does not have", f"the table has {known}"
            )
        return self._places[name]


def _constant(part: Expr, group: str) -> Any:
    from sqlglot import exp

    if isinstance(part, exp.Neg) and isinstance(part.this, exp.Literal) and group == NUMBER:
        return -_read(str(part.this.this), NUMBER)
    if isinstance(part, exp.Literal) and (part.is_string or group == NUMBER):
        try:
            return _read(str(part.this), group)
        except (InvalidOperation, ValueError):
            pass
    raise _unanswered(part.parent or part)


def _read(text: str, group: str) -> Any:
    """Return a value in comparable form; a time becomes a string of fixed length, with six fractional digits."""
    if group == NUMBER:
        return Decimal(text)
    if group != TIME:
        return text
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError("no time")
    return f"{found[1]} {found[2] or '00:00:00'}.{(found[3] or '').ljust(6, '0')}"


def _pattern(like: str) -> str:
    r"""Convert a LIKE pattern to a regular expression; a backslash escapes the next character.

    >>> _pattern("a%_.\\%")
    'a.*.\\.%'
    """
    found = []
    parts = iter(like)
    for character in parts:
        if character == "\\":
            found.append(re.escape(next(parts, "\\")))
        else:
            found.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "".join(found)


def _both(one: Value, other: Value) -> Value:
    def both(row: Sequence[Any]) -> bool | None:
        a, b = one(row), other(row)
        return False if a is False or b is False else None if a is None or b is None else True

    return both


def _either(one: Value, other: Value) -> Value:
    def either(row: Sequence[Any]) -> bool | None:
        a, b = one(row), other(row)
        return True if a is True or b is True else None if a is None or b is None else False

    return either


def _negated(one: Value) -> Value:
    def negated(row: Sequence[Any]) -> bool | None:
        a = one(row)
        return None if a is None else not a

    return negated


def _unanswered(part: Expr) -> Refused:
    what = f"where has {part.sql(dialect='postgres')[:80]!r}, which a stream does not support"
    return Refused(
        what, "compare a column with a value: =, <, IN, BETWEEN, LIKE, IS NULL; AND, OR, NOT", where="source"
    )
