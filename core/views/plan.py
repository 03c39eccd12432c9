"""A view as a plan: its branches, their tables and columns, and its key (ADR 94).

Expressions are sqlglot trees whose names are quoted and whose columns name their table's alias.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from slotkeeper.core.errors import Refused

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

OWN = "slotkeeper_"
"""The prefix of Slotkeeper's names, which a view's aliases and columns cannot have."""


class ViewRefused(Refused):
    """A view's SELECT that cannot be maintained; the message names the line, and `hint` is the fix.

    `target`: the view's table.
    """

    target = ""


def refused(target: str, what: str, cure: str) -> ViewRefused:
    error = ViewRefused(f"view {target}{what}", cure)
    error.target = target
    return error


@dataclass(frozen=True, slots=True)
class Use:
    """A table of a FROM clause; `join` is "" for the first table, else "inner" or "left", with its condition `on`."""

    table: str
    alias: str
    join: str = ""
    on: Expr | None = None
    lookup: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result; `aggregates`: its expression contains an aggregate function."""

    name: str
    value: Expr
    aggregates: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """One SELECT of the view."""

    uses: tuple[Use, ...]
    outputs: tuple[Output, ...]
    where: Expr | None = None
    groups: bool = False
    having: Expr | None = None

    def value(self, name: str) -> Expr:
        """Return the expression of an output column."""
        return next(one.value for one in self.outputs if one.name == name)

    @property
    def mirrored(self) -> tuple[Use, ...]:
        """The tables whose changes are captured."""
        return tuple(use for use in self.uses if not use.lookup)


class Capture(Enum):
    """What the triggers of a table write for a view."""

    KEYS = "group keys"
    """The distinct values of the columns that determine the key: enough for a view over one table."""
    WEIGHTS = "weights"
    """Sums per group, added up in the trigger, for the delta method."""
    IMAGES = "images"
    """The columns of keys and conditions of every old and new row: a join's keys can only be found in the round."""


@dataclass(frozen=True, slots=True)
class View:
    """A parsed view; `may_add`: its form allows the delta method, provided that the types of its sums do."""

    target: str
    branches: tuple[Branch, ...]
    key: tuple[str, ...]
    may_add: bool
    sql: str
    method: str = "auto"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.branches[0].outputs)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables whose changes are captured, each once."""
        return unique(use.table for branch in self.branches for use in branch.mirrored)

    @property
    def lookups(self) -> tuple[str, ...]:
        """The tables that are read but not captured."""
        return unique(use.table for branch in self.branches for use in branch.uses if use.lookup)

    @property
    def digest(self) -> str:
        """A short name of the view for its objects in the sink, derived from its table."""
        return hashlib.sha256(self.target.encode()).hexdigest()[:12]

    @property
    def definition(self) -> str:
        """A hash of everything that determines the view's result and its objects."""
        spelled = repr((self.target, self.sql, self.key, self.lookups, self.method))
        return hashlib.sha256(spelled.encode()).hexdigest()[:16]

    def capture(self, adds: bool) -> Capture:
        """Return what is captured for the view; `adds`: it is maintained by the delta method."""
        if adds:
            return Capture.WEIGHTS
        one = all(len(branch.mirrored) == 1 for branch in self.branches)
        return Capture.KEYS if one else Capture.IMAGES


def unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def in_order(views: Sequence[View]) -> tuple[View, ...]:
    """Return the views so that each follows the views that it reads; raises ViewRefused for a circle."""
    by_target = {view.target: view for view in views}
    done: dict[str, View] = {}
    path: list[str] = []

    def visit(view: View) -> None:
        if view.target in done:
            return
        if view.target in path:
            circle = " -> ".join([*path[path.index(view.target) :], view.target])
            raise refused(view.target, f" reads itself in a circle: {circle}", "remove one of these references")
        path.append(view.target)
        for table in view.tables:
            if table in by_target:
                visit(by_target[table])
        path.pop()
        done[view.target] = view

    for view in views:
        visit(view)
    return tuple(done.values())
