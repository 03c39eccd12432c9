"""Random changes to a table's columns: the statements for its target can be executed in order, and are needed once."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from slotkeeper.core.domain.shape import (
    Act,
    ColumnChange,
    Need,
    TargetShape,
    changes,
    columns_from,
    columns_text,
    needs,
)
from slotkeeper.core.domain.slot import Column

TYPES = ("integer", "bigint", "text", "date")
NAMES = ("a", "b", "c", "d", "e", "f")
OWN = "loaded_at"
Columns = dict[str, tuple[str, bool]]


@dataclass
class Table:
    """A source whose columns change; the key is never touched."""

    draw: random.Random
    columns: list[Column] = field(default_factory=lambda: [Column("id", "bigint", True, number=1)])
    last: int = 1

    def change(self) -> None:
        """Another change that a server would accept."""
        others = self.columns[1:]
        free = [name for name in NAMES if name not in {one.name for one in self.columns}]
        act = self.draw.choice(["add", "add", "drop", "rename", "type", "null"])
        if act == "add" and free:
            self.last += 1
            type_, required = self.draw.choice(TYPES), self.draw.random() < 0.3
            self.columns.append(Column(self.draw.choice(free), type_, required, number=self.last))
        elif others:
            one = self.draw.choice(others)
            place = next(n for n, it in enumerate(self.columns) if it.number == one.number)
            if act == "drop":
                del self.columns[place]
            elif act == "rename" and free:
                self.columns[place] = replace(one, name=self.draw.choice(free))
            elif act == "type":
                self.columns[place] = replace(one, type=self.draw.choice(TYPES))
            elif act == "null":
                self.columns[place] = replace(one, required=not one.required)


def fits(there: str, wanted: str) -> bool:
    return there == wanted or (there, wanted) == ("bigint", "integer")


def done(columns: Columns, made: list[Need]) -> Columns:
    """The target's columns after these statements; a server has to accept each of them."""
    found = dict(columns)
    for one in made:
        assert (one.column in found) == (one.act is not Act.ADD), one
        if one.act in (Act.DROP, Act.RENAME):
            its = found.pop(one.column)
        if one.act is Act.RENAME:
            assert one.to not in found, one
            found[one.to] = its
        elif one.act is Act.NULLABLE:
            found[one.column] = (found[one.column][0], False)
        elif one.act in (Act.TYPE, Act.ADD):
            found[one.column] = (one.to, one.act is Act.TYPE and found[one.column][1])
    return found


def shape(columns: Columns) -> TargetShape:
    return TargetShape(columns, ("id",), fits)


@pytest.mark.parametrize("numbered", [True, False])
def test_a_target_is_brought_in_line_whatever_changed(seed: int, numbered: bool) -> None:
    for number in range(2_000):
        draw = random.Random(seed * 10_000 + number)
        table = Table(draw)
        for _ in range(draw.randrange(1, 6)):
            table.change()
        if not numbered:
            table.columns = [replace(one, number=0) for one in table.columns]
        old = list(table.columns)
        target = {one.name: (one.type, one.required) for one in old} | {OWN: ("timestamptz", False)}
        for _ in range(draw.randrange(1, 8)):
            table.change()
        found = changes(old, table.columns)
        made = needs(found, False, table.columns, shape(target))
        there = done(target, made)
        wanted = {one.name: one for one in table.columns}
        assert set(there) == {*wanted, OWN}, (number, found, made)
        assert all(fits(there[name][0], one.type) for name, one in wanted.items())
        assert all(one.required or not there[name][1] for name, one in wanted.items() if name != "id")
        assert needs(found, False, table.columns, shape(there)) == [], (number, found, made)


def test_columns_that_the_target_alone_has_stay_where_the_old_ones_are_not_known() -> None:
    target: Columns = {"id": ("bigint", True), "w": ("text", False), OWN: ("timestamptz", True)}
    new = [Column("id", "bigint", True), Column("x", "text", True)]
    assert needs((), False, new, shape(target)) == [Need(Act.ADD, "x", "text")]


def test_a_mapped_channel_keeps_its_targets_names() -> None:
    found = changes(
        [Column("id", "bigint", number=1), Column("v", "integer", number=2), Column("w", "text", number=3)],
        [Column("id", "bigint", number=1), Column("u", "date", number=2), Column("x", "text", number=4)],
    )
    image = [Column("order_id", "bigint", number=1), Column("day", "date", number=2)]
    target: Columns = {"order_id": ("bigint", True), "day": ("integer", True), "w": ("text", False)}
    there = TargetShape(target, ("order_id",), fits)
    assert needs(found, True, image, there) == [Need(Act.NULLABLE, "day"), Need(Act.TYPE, "day", "date")]


def test_a_rename_is_known_by_the_columns_number() -> None:
    old, new = Column("v", "text", number=2), Column("w", "text", number=2)
    assert changes([old], [new]) == (ColumnChange(old, new),)
    assert [one.renamed for one in changes([replace(old, number=0)], [new])] == [False, False]


def test_columns_are_kept_as_text(seed: int) -> None:
    table = Table(random.Random(seed))
    for _ in range(5):
        table.change()
    kept = columns_from(columns_text(table.columns))
    assert kept is not None and [(one, one.required, one.number) for one in kept] == [
        (one, one.required, one.number) for one in table.columns
    ]
    for text in ("", "[]]", '[[1, "id"]]', '[["1", "id", "bigint", true]]', "{}"):
        assert columns_from(text) in (None, ())
