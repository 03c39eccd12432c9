"""Whether a view can be maintained over its tables as they are: their kinds, columns, types, and the view's triggers.

A build refuses what cannot be maintained before it creates the view's table; rounds check the triggers again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.core.sqltext import dotted
from slotkeeper.core.views import capture, sums
from slotkeeper.core.views import statements as compose
from slotkeeper.core.views.parse import as_typed
from slotkeeper.core.views.plan import View
from slotkeeper.core.views.statements import Names

Run = Callable[[pg.Cursor, str, Mapping[str, object]], pg.Cursor]
"""Runs a statement of views.sql by its name."""
IN_TREE = "is a partitioned table, a partition, or part of an inheritance tree"
"""PostgreSQL, "CREATE TRIGGER": statement triggers of the other tables of a tree do not fire for a statement."""
_EXACT = ("smallint", "integer", "bigint", "numeric")


def refuse_unfit(run: Run, cursor: pg.Cursor, view: View) -> None:
    """Refuse tables of trees, and columns that captures would not see, or could not compare."""
    tables = sorted(view.tables)
    for (table,) in run(cursor, "in_tree", {"tables": tables, "quoted": list(map(dotted, tables))}).fetchall():
        what = f"view {view.target}: {table} {IN_TREE}, whose changes are not all captured"
        raise Refused(what, "use a table of its own", where="sink")
    for table in tables:
        given = {"table": dotted(table), "used": list(compose.used(view, table))}
        given |= {"captured": list(compose.captured(view, table)), "compared": list(compose.compared(view, table))}
        for column, why, cure in run(cursor, "unfit", given).fetchall():
            raise Refused(f"view {view.target}: column {column} of {table} {why}", str(cure), where="sink")


def refuse_other_types(run: Run, cursor: pg.Cursor, view: View) -> None:
    """Refuse a SELECT that the server reads differently than this program does: its columns would have other types."""
    if view.sql.lstrip()[:6].upper() == "INSERT":
        return
    found = []
    for query in (as_typed(view.sql), compose.answer(view)):
        cursor.execute(f"CREATE TEMP TABLE slotkeeper_types AS {query}\nWITH NO DATA")
        found.append(
            [type_ for _, type_, *_ in run(cursor, "columns", {"table": "pg_temp.slotkeeper_types"}).fetchall()]
        )
        cursor.execute("DROP TABLE pg_temp.slotkeeper_types")
    for column, typed, read in zip(view.columns, *found, strict=True):
        if typed != read:
            what = f"view {view.target}: column {column} would have the type {read} instead of {typed}"
            raise Refused(what, "cast the column in the SELECT, or write its expression differently", where="sink")


def sums_exactly(run: Run, cursor: pg.Cursor, view: View) -> bool:
    """Whether every sum is one of integers or numerics, and every average of integers or a fixed scale.

    The number of digits of an average depends on the scale of its sum, which for numeric without a scale is that of the
    rows that were ever added (PostgreSQL, numeric.c, select_div_scale).
    """
    cursor.execute(f"CREATE TEMP TABLE slotkeeper_types AS {sums.arguments(view)}")
    found = run(cursor, "columns", {"table": "pg_temp.slotkeeper_types"}).fetchall()
    cursor.execute("DROP TABLE pg_temp.slotkeeper_types")
    return all(
        type_ in _EXACT and not (name.startswith("avg") and type_ == "numeric" and modifier < 0)
        for name, _, type_, modifier in found
    )


def captures(
    run: Run, cursor: pg.Cursor, views: Sequence[View], all_names: Mapping[str, Names], adds: Mapping[str, bool]
) -> dict[str, tuple[str, str]]:
    """Return a hash of the triggers of the views in `adds` as they are, and what is wrong with them, if anything."""
    rows: list[tuple[str, ...]] = []
    wanted, home = dict[str, int](), ""
    for view in views:
        if view.target in adds:
            names = all_names[view.target]
            triggers, home = capture.triggers_of(view, names, adds[view.target]), names.schema
            wanted[view.target] = len(triggers)
            for table, name, function in triggers:
                schema, _, own = table.partition(".")
                columns = view.columns if table == view.target else compose.used(view, table)
                rows.append((view.target, schema, own, name, function, "\x1f".join(columns)))
    parameters = ("views", "schemas", "names", "triggers", "functions", "columns")
    given: dict[str, object] = {"home": home}
    given |= dict(zip(parameters, map(list, zip(*rows, strict=True)), strict=True)) if rows else {}
    there = {str(row[0]): row[1:] for row in run(cursor, "capture", given).fetchall()} if rows else {}
    found = {}
    for target, number in wanted.items():
        count, right, state, disabled, more, tree, foreign = there.get(target, (0, False, "", "", False, "", ""))
        why = "" if right else "a capture function was changed"
        if disabled:
            why = f"a capture trigger on {disabled} is disabled"
        elif more:
            why = "another trigger calls a capture function"
        elif tree:
            why = f"{tree} {IN_TREE}"
        elif count < number:
            why = "a capture trigger is missing: a table was dropped or created again"
        elif foreign:
            why = f"{foreign} of the view's table can change its rows; drop it"
        found[target] = str(state), why
    return found
