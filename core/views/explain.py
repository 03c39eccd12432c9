"""What a view costs and needs: its captures, its method, and the indexes with which small rounds stay small."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from slotkeeper.core.domain.views import Explained
from slotkeeper.core.views import statements as compose
from slotkeeper.core.views.plan import View, unique
from slotkeeper.core.views.statements import Names


def explain(view: View, names: Names, adds: bool) -> Explained:
    """Return what is known of a view without its sink."""
    kind = view.capture(adds).value
    captures = tuple((table, kind) for table in view.tables)
    keys = compose.affected(view, names, view.tables)
    return Explained("delta" if adds else "recompute", captures, keys)


def indexed(view: View, adds: bool) -> tuple[tuple[str, str], ...]:
    """Return (table, column) of each column by which a round looks up rows of a table: joins, and recomputed keys.

    The delta method looks up nothing in the view's table.
    """
    return () if adds else tuple(dict.fromkeys(_looked_up(view)))


def _looked_up(view: View) -> Iterator[tuple[str, str]]:
    for branch in view.branches:
        tables = {use.alias: use.table for use in branch.uses}
        for use in branch.uses:
            for equal in use.on.find_all(exp.EQ) if use.on is not None else ():
                for side in (equal.this, equal.expression):
                    if isinstance(side, exp.Column):
                        yield tables[side.table], side.name
        first = unique(value.table for value in compose.key_values(view, branch) if isinstance(value, exp.Column))
        for value in compose.key_values(view, branch):
            if isinstance(value, exp.Column) and value.table in first[:1]:
                yield tables[value.table], value.name
                break
