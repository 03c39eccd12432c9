"""A table with changed columns: the changes in the source, and the changes that its target needs. Pure.

After any change the table is copied again, because a changed column can have different values in every row, and DWS
clears the binlog after most such changes. The target therefore only needs the new columns; the copy writes its rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.errors import Refused


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column before and after a change; `before` is None if it was added, `after` is None if it was dropped."""

    before: Column | None
    after: Column | None

    @property
    def renamed(self) -> bool:
        return self.before is not None and self.after is not None and self.before.name != self.after.name

    @property
    def text(self) -> str:
        """The change as text.

        >>> ColumnChange(Column("v", "text"), Column("w", "integer", True)).text
        'column v is renamed to w and is integer (was text) and is NOT NULL'
        """
        if self.before is None or self.after is None:
            one, what = (self.after, "was added") if self.after else (self.before, "was dropped")
            assert one is not None
            return f"column {one.name} ({one.type}{' NOT NULL' if one.required else ''}) {what}"
        said = [f"is renamed to {self.after.name}"] if self.renamed else []
        said += [f"is {self.after.type} (was {self.before.type})"] if self.after.type != self.before.type else []
        if self.after.required != self.before.required:
            said.append("is NOT NULL" if self.after.required else "allows NULL")
        return f"column {self.before.name} {' and '.join(said)}"


def changes(old: Sequence[Column], new: Sequence[Column]) -> tuple[ColumnChange, ...]:
    """Return the changes of columns, in the order of `new`, with dropped columns last.

    Columns are identified by number if `old` and `new` have numbers, else by name; in the latter case, a renamed column
    counts as dropped and added.
    """
    numbered = all(column.number > 0 for column in (*old, *new))

    def which(column: Column) -> object:
        return column.number if numbered else column.name

    before, after = {which(one): one for one in old}, {which(one): one for one in new}
    pairs = [ColumnChange(before.get(one), column) for one, column in after.items()]
    pairs += [ColumnChange(column, None) for one, column in before.items() if one not in after]
    same = [one.before and one.after and one.before.required == one.after.required for one in pairs]
    return tuple(one for one, kept in zip(pairs, same, strict=True) if not kept or one.before != one.after)


def columns_text(columns: Sequence[Column]) -> str:
    """Return the columns as text for storage; `columns_from` parses the text."""
    return json.dumps(
        [[one.number, one.name, one.type, one.required, *([one.native] if one.native else [])] for one in columns]
    )


def columns_from(text: str) -> tuple[Column, ...] | None:
    """Parse stored columns; None if the text is invalid.

    >>> columns_from(columns_text([Column("id", "bigint", True, number=1)]))[0].number, columns_from("?")
    (1, None)
    """
    try:
        return tuple(_column(*one) for one in json.loads(text))
    except (ValueError, TypeError, Refused):
        return None


def _column(number: Any, name: Any, type_: Any, required: Any, native: Any = "") -> Column:
    if (type(number), type(name), type(type_), type(required), type(native)) != (int, str, str, bool, str):
        raise TypeError("not a column")
    return Column(name, type_, required, number=number, native=native)


class Act(Enum):
    """A kind of change to a target."""

    DROP = "drop"
    RENAME = "rename"
    NULLABLE = "nullable"
    TYPE = "type"
    ADD = "add"


@dataclass(frozen=True, slots=True)
class Need:
    """A change that a target needs; `to` is the new name for RENAME, and the source's type for TYPE and ADD."""

    act: Act
    column: str
    to: str = ""


@dataclass(frozen=True, slots=True)
class TargetShape:
    """A target's columns by name, each with its type and whether it rejects NULL.

    `fits(target type, source type)` returns whether the sink's type can hold the source's values. `key` contains the
    columns of the source's key with their names in the target.
    """

    columns: Mapping[str, tuple[str, bool]]
    key: Sequence[str]
    fits: Callable[[str, str], bool]


def needs(found: Sequence[ColumnChange], mapped: bool, image: Sequence[Column], target: TargetShape) -> list[Need]:
    """Return the changes that align a target with `image`, the source's columns as the channel maps them, in order.

    Columns that exist only in the target are kept, unless they are known to have come from the source. `mapped`: the
    channel lists its columns, so the names in the target come from the configuration. Once these changes have been
    made, another call returns none.
    """
    columns = dict(target.columns)
    made = [] if mapped else _names(found, image, columns)
    by_name = {one.name: one for one in image}
    loosened = {pair.after.number or pair.after.name for pair in found if pair.after and not pair.after.required}
    for name, (_, refuses_null) in columns.items():
        one = by_name.get(name)
        if one and refuses_null and (one.number or name) in loosened and name not in target.key:
            made.append(Need(Act.NULLABLE, name))
    for name, (type_, _) in columns.items():
        if name in by_name and not target.fits(type_, by_name[name].type):
            made.append(Need(Act.TYPE, name, by_name[name].type))
    return made + [Need(Act.ADD, one.name, one.type) for one in image if one.name not in columns]


def _names(found: Sequence[ColumnChange], image: Sequence[Column], columns: dict[str, tuple[str, bool]]) -> list[Need]:
    """Return the drops and renames, in an order in which no name is used twice; updates `columns` accordingly.

    A target column with a needed name is kept regardless of the column's earlier name, because the copy writes its
    values. If two names were swapped, the target needs no rename.
    """
    wanted = {one.name for one in image}
    renamed = {pair.before.name: pair.after.name for pair in found if pair.renamed and pair.before and pair.after}
    done = {new for old, new in renamed.items() if new in columns and (old not in columns or old in wanted)}
    added = {pair.after.name for pair in found if pair.before is None and pair.after}
    gone = [pair.before.name for pair in found if pair.before and pair.after is None]
    made = [Need(Act.DROP, name) for name in gone if name in columns and name not in added | done]
    for one in made:
        del columns[one.column]
    left = {old: new for old, new in renamed.items() if old in columns}
    while free := next((old for old, new in left.items() if new not in columns), None):
        made.append(Need(Act.RENAME, free, left.pop(free)))
        columns[made[-1].to] = columns.pop(free)
    for name in (old for old in left if old not in wanted):  # the new column already exists
        made.append(Need(Act.DROP, name))
        del columns[name]
    return made


@dataclass(frozen=True, slots=True)
class Reshape:
    """The steps that align a target with a changed source.

    `before` contains problems that must be fixed first (a type that does not exist in the sink), `statements` alter the
    target, and `after` contains problems that no statement fixes, such as a different key. `blank` contains the
    statements to use if old values do not fit a column's new type: the column is emptied and gets its values from the
    copy. `empties`: one of `statements` empties a column, or casts to a type that cannot hold every value. `source` and
    `target` are the columns of the source and of the target, with the differences marked. `needs` are the changes that
    the target needs; `there` are the names of its columns, None if this kind of sink does not report them.
    """

    found: tuple[ColumnChange, ...] = ()
    statements: tuple[str, ...] = ()
    blank: tuple[str, ...] = ()
    before: tuple[Objection, ...] = ()
    after: tuple[Objection, ...] = ()
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    empties: bool = False
    needs: tuple[Need, ...] = ()
    there: frozenset[str] | None = None

    @property
    def by_itself(self) -> bool:
        """Whether running the statements is sufficient."""
        return not self.before and not self.after

    @property
    def typed(self) -> tuple[str, ...]:
        """All statements that a user must run in the sink, in order."""
        return (*(one.cure for one in self.before), *self.statements, *(one.cure for one in self.after))


def marked(
    source: Sequence[Column], target: Mapping[str, tuple[str, bool]], fits: Callable[[str, str], bool]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of source and target as text, marked `+` (source only), `-` (target only), `~` (small type).

    >>> marked([Column("id", "bigint", True), Column("x", "text")], {"id": ("integer", True)}, lambda *types: False)
    (('~ id bigint NOT NULL', '+ x text'), ('~ id integer NOT NULL',))
    """
    by_name = {one.name: one.type for one in source}

    def text(mark: str, name: str, type_: str, required: bool) -> str:
        return f"{mark}{name} {type_}{' NOT NULL' if required else ''}"

    def mark_of(name: str, alone: str) -> str:
        if name not in by_name or name not in target:
            return alone
        return "" if fits(target[name][0], by_name[name]) else "~ "

    ours = tuple(text(mark_of(one.name, "+ "), one.name, one.type, one.required) for one in source)
    theirs = tuple(text(mark_of(name, "- "), name, *its) for name, its in target.items())
    return ours, theirs


@dataclass(frozen=True, slots=True)
class Mapped:
    """The names of the columns to read, in order; empty for all. `where` is the row filter, "" if there is none.

    `timed`: each change is read with its time, in microseconds since 1970, as a last column.
    """

    names: tuple[str, ...] = ()
    where: str = ""
    timed: bool = False

    @classmethod
    def of(cls, channel: ChannelSpec) -> Self:
        return cls(channel.read, channel.where, channel.timed)

    def columns(self, identity: TableIdentity) -> tuple[Column, ...]:
        """Return the columns to read; raises Refused if a column does not exist, or if a key column is not included."""
        if not self.names:
            return identity.columns
        there = {column.name: column for column in identity.columns}
        absent = [name for name in self.names if name not in there]
        if absent:
            what = f"columns names {absent[0]!r}, which the source table does not have"
            raise Refused(what, f"the source table has {', '.join(there)}", where="source")
        left = [name for name in identity.key if name not in self.names]
        if left:
            what = f"columns omits {left[0]!r}, which is part of the source's key"
            raise Refused(what, "map every column of the primary key", where="source")
        return tuple(there[name] for name in self.names)
