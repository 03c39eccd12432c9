"""Find the statement of the binlog that stopped a table's lane, and what it does to the table's columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from slotkeeper.core.domain.logged_change import ColumnStep, LoggedChange
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.sources.mysql.alters import OPAQUE, Altered, altered, opaque, swaps, table_of
from slotkeeper.core.sources.mysql.definitions import NotFollowed, keeps_values, lost_values
from slotkeeper.core.sources.mysql.faults import Unsupported
from slotkeeper.core.sources.mysql.position import ours
from slotkeeper.core.sources.mysql.rows import SchemaColumn, misfit
from slotkeeper.core.sources.mysql.source import MysqlSource
from slotkeeper.core.sources.mysql.statements import Effect, Statement
from slotkeeper.core.sources.mysql.stream import Follower
from slotkeeper.core.sources.mysql.tables import Known, image_of, read_indexes, read_table
from slotkeeper.core.sources.mysql.transactions import TableRows


class MysqlShapes:
    """Implements `slotkeeper.core.ports.source.Shapes` for a table whose columns are known at the lane's position."""

    def __init__(self, source: MysqlSource) -> None:
        self._source = source

    def needed(self) -> Sequence[str]:
        return self._source.selection.filtered(self._source.seen.identity)

    def change(self, after: Position) -> LoggedChange | None:
        source = self._source
        follower = Follower(lambda place: source.stream(place, "shapes"))
        try:
            for item in follower.read(source.resolved(ours(after)), source.newest()):
                if isinstance(item, TableRows):
                    return None
                if isinstance(item, Statement):
                    swap = item.ends and swaps(item.said, source.table.partition(".")[2])
                    return self._swapped(item) if swap else self._change(item)
        finally:
            follower.close()
        return None

    def _swapped(self, item: Statement) -> LoggedChange:
        """Return the effect of an online schema change, which replaces the table with its new form.

        The new table's statements are not followed. Its columns are the present ones if the binlog contains no later
        statement about the table.
        """
        source = self._source
        found = LoggedChange(" ".join(item.text.split())[:200], item.position.shown, item.position)
        known, stored = source.seen.known, source.seen.identity.known
        assert known is not None
        if not self._is_ours(item):
            return replace(found, why=_OTHER)
        now = read_table(source.session, source.table).known
        assert now is not None
        follower, first = Follower(lambda place: source.stream(place, "shapes")), True
        try:
            for later in follower.read(item.position, source.newest()):
                if isinstance(later, Statement):
                    return replace(found, why=f"another statement follows it, after {later.position.shown}")
                if isinstance(later, TableRows) and first:
                    first, why = False, misfit(later.table, now.described)
                    if why:
                        return replace(found, why=why)
        finally:
            follower.close()
        if now.key != known.key:
            return replace(found, why=f"the key of the new table is ({', '.join(now.key)})")
        rejects = {one.index for one in read_indexes(source.session, source.seen.quoted) if one.unique} - {now.index}
        if rejects:  # the indexes of the table before it are not known, and tools copy with INSERT IGNORE
            return replace(
                found, why=f"the new table has the UNIQUE index {min(rejects)}, which can have rejected rows"
            )
        nulls = {str(name) for (name,) in source.session.rows(self._nulls, (source.seen.schema, source.seen.name))}
        columns = [_replaced(one, known, one.name in nulls) for one in now.described]
        steps = _steps(columns, replace(known, index=now.index), stored, now.charset)
        return replace(found, steps=tuple(steps))

    @property
    def _nulls(self) -> str:
        """The columns that are NULL in rows that do not name them; MariaDB shows the default NULL as text."""
        null = " OR column_default = 'NULL'" if self._source.session.facts.is_mariadb else ""
        return (
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
            f" AND is_nullable = 'YES' AND extra NOT LIKE '%%GENERATED%%' AND (column_default IS NULL{null})"
        )

    def _change(self, item: Statement) -> LoggedChange | None:
        if item.effect is not Effect.RESHAPES or not item.ends:
            return None
        text = " ".join(item.text.split())[:200]
        found = LoggedChange(text, item.position.shown, item.position)
        seen, selection = self._source.seen, self._source.selection
        known = seen.known
        assert known is not None
        wanted = {one.name for one in seen.identity.columns}
        if selection.names:
            wanted &= {*selection.names, *self.needed()}
        try:
            if not self._is_ours(item):
                return replace(found, why=_OTHER)
            columns, charset = altered(
                item.said,
                known.described,
                wanted=wanted,
                adds=not selection.names,
                charset=known.charset,
                maria=self._source.session.facts.is_mariadb,
                key_index=known.index,
                key=known.key,
            )
        except NotFollowed as error:
            return replace(found, why=str(error))
        return replace(found, steps=tuple(_steps(columns, known, seen.identity.known, charset)))

    def _is_ours(self, item: Statement) -> bool:
        """Whether an ALTER or RENAME changes the followed table itself; raises NotFollowed for another statement.

        MySQL, "Identifier Case Sensitivity": with lower_case_table_names 0, names are compared by case.
        """
        seen = self._source.seen
        schema, name, _ = table_of(item.said)
        found, ours = (schema or item.schema, name), (seen.schema, seen.name)
        if self._source.session.facts.of("lower_case_table_names") in ("", "0"):
            return found == ours
        return [one.casefold() for one in found] == [one.casefold() for one in ours]


_OTHER = "the statement alters another table"


def _steps(columns: Sequence[Altered], known: Known, stored: Sequence[Column], charset: str) -> Iterator[ColumnStep]:
    numbers = dict(zip((one.name for one in known.described), known.numbers, strict=True))
    new = iter(range(1 + max(known.numbers), 1 << 31))
    names = {one.before: one.column.name for one in columns if one.before}
    places = tuple(numbers[one.before] if one.before else next(new) for one in columns)
    key = tuple(names.get(name, name) for name in known.key)
    after = _table(columns, Known((), places, key, known.index, charset), hidden=False)
    hidden = _table(columns, Known((), places, key, known.index, charset), hidden=True)
    before = {one.name: (one, column) for one, column in zip(stored, known.described, strict=True)}
    for one, shown, other in zip(columns, after, hidden, strict=True):
        column, was = before.pop(one.before, (None, None))
        followed = was is None or was.kind != OPAQUE
        why = one.why or _unsupported(one.column)
        if one.column.kind == OPAQUE and not why:
            why = "its definition was not parsed"
        keeps = was is None or keeps_values(was, one.column)
        losses = None if keeps or was is None else lost_values(was, one.column)
        yield ColumnStep(column, shown, other, followed, keeps, one.default, why if followed else "", losses)
    for column, was in before.values():
        yield ColumnStep(column, None, followed=was.kind != OPAQUE)


def _replaced(column: SchemaColumn, known: Known, null: bool) -> Altered:
    """Return a column of a table that takes the place of the known one: it is the column of the same name."""
    if any(one.name == column.name for one in known.described):
        return Altered(column.name, column)
    why = "" if null else "existing rows can have a value that the table's binlog does not contain"
    return Altered("", column, None, why)


def _table(columns: Sequence[Altered], table: Known, hidden: bool) -> tuple[Column, ...]:
    """Return the columns for storage; `hidden`: as columns of which only the name is known."""
    found = [opaque(one.column.name) if hidden or _unsupported(one.column) else one.column for one in columns]
    return replace(table, described=tuple(found)).columns


def _unsupported(column: SchemaColumn) -> str:
    try:
        image_of(column)
    except Unsupported as error:
        return error.message
    return ""
