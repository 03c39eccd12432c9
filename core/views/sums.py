"""The delta method: hidden sums per group, to which the weights of old and new rows are added.

For COUNT, SUM and AVG over one table. The hidden sums are the number of a group's rows, and for each argument the
number and the sum of its values that are not NULL: a group without rows is deleted, and a sum without values is NULL.
"""

from __future__ import annotations

from sqlglot import exp

from slotkeeper.core.sqltext import dotted, quoted
from slotkeeper.core.views.plan import OWN, View
from slotkeeper.core.views.statements import K, Names, insert_keys, no_null, same, text

WEIGHT = OWN + "w"


def _summed(view: View) -> list[tuple[str, str, exp.Expr]]:
    """Return the hidden sums of the delta method: (name, output column, argument) for COUNT(x), SUM and AVG."""
    branch = view.branches[0]
    outputs = [(one.name, one.value.this) for one in branch.outputs if one.aggregates]
    summed = [(f"{OWN}{n}", name, argument) for n, (name, argument) in enumerate(outputs)]
    return [one for one in summed if one[2] is not None and not isinstance(one[2], exp.Star)]


def sums_of(view: View, weight: str, rows: str = "", more: str = "") -> str:
    """Return the SELECT of keys and hidden sums over the view's table, or over `rows`, each row with a weight.

    The hidden sums are the number of rows, and for each argument the number and the sum of values that are not NULL.
    """
    branch = view.branches[0]
    use = branch.uses[0]
    columns = [f"{text(branch.value(name))} AS {quoted(name)}" for name in view.key]
    columns.append(f"sum({weight})::bigint AS {quoted(WEIGHT)}")
    for name, output, argument in _summed(view):
        value = text(argument)
        known = f"CASE WHEN ({value}) IS DISTINCT FROM NULL THEN {weight} ELSE 0 END"
        columns.append(f"sum({known})::bigint AS {quoted(name + 'n')}")
        if not isinstance(branch.value(output), exp.Count):
            columns.append(f"coalesce(sum({weight} * ({value})), 0)::numeric AS {quoted(name + 's')}")
    where = f" WHERE {text(branch.where)}" if branch.where is not None else ""
    source = rows or dotted(use.table)
    groups = ", ".join(text(branch.value(name)) for name in view.key)
    return f"SELECT {', '.join(columns)} FROM {source} AS {quoted(use.alias)}{more}{where} GROUP BY {groups}"


def sum_columns(view: View) -> list[str]:
    """Return the columns of the hidden sums."""
    found = [WEIGHT]
    for name, output, _ in _summed(view):
        found.append(name + "n")
        if not isinstance(view.branches[0].value(output), exp.Count):
            found.append(name + "s")
    return found


def arguments(view: View) -> str:
    """Return a SELECT without rows of the arguments of SUM and AVG, whose types decide about the delta method."""
    branch = view.branches[0]
    wanted = [one.value for one in branch.outputs if isinstance(one.value, exp.Sum | exp.Avg)]
    listed = [f"{text(one.this)} AS {quoted(f'{one.key}_{n}')}" for n, one in enumerate(wanted)]
    use = branch.uses[0]
    return f"SELECT {', '.join(listed) or '1 AS sum_0'} FROM {dotted(use.table)} AS {quoted(use.alias)} LIMIT 0"


def add_sums(view: View, names: Names) -> str:
    """Return INSERT ... ON CONFLICT that adds the captured weights to the sums of their groups."""
    keys, sums = list(map(quoted, view.key)), list(map(quoted, sum_columns(view)))
    added = ", ".join(f"sum({one})" for one in sums)
    changed = ", ".join(f"{one} = t.{one} + excluded.{one}" for one in sums)
    return (
        f"INSERT INTO {names.sums} AS t ({', '.join([*keys, *sums])})"
        f" SELECT {', '.join(keys)}, {added} FROM {names.delta(view.tables[0])} GROUP BY {', '.join(keys)}"
        f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changed}"
    )


def delta_keys(view: View, names: Names) -> str:
    """Return `insert_keys` for the keys of the captured weights."""
    listed = ", ".join(map(quoted, view.key))
    return insert_keys(view, names, f"SELECT DISTINCT {listed} FROM {names.delta(view.tables[0])}")


def _affected(view: View, nulls: bool) -> str:
    """Return the condition that `t` has an affected key; `nulls`: one that contains NULL."""
    condition = no_null(view, K)
    pairs = [(f"t.{quoted(name)}", f"{K}.{quoted(name)}") for name in view.key]
    return f"{f'NOT ({condition})' if nulls else f'({condition})'} AND {same(pairs, nulls)}"


def odd_sums(view: View, names: Names, nulls: bool) -> tuple[str, str]:
    """Return a query whether a sum of an affected group is NaN or infinite, and UPDATE that recomputes such sums.

    Subtraction never makes them finite again (PostgreSQL, "Numeric Types": NaN and infinities).
    """
    sums = [f"t.{quoted(name)}" for name in sum_columns(view) if name.endswith("s")]
    odd = " OR ".join(f"{one} IN ('NaN', 'Infinity', '-Infinity')" for one in sums) or "false"
    mine = f"({odd}) AND EXISTS (SELECT FROM {names.some_keys} AS {K} WHERE {_affected(view, nulls)})"
    match = same([(f"t.{quoted(name)}", f"s.{quoted(name)}") for name in view.key], nulls=True)
    values = ", ".join(f"{quoted(name)} = s.{quoted(name)}" for name in sum_columns(view))
    update = f"UPDATE {names.sums} AS t SET {values} FROM ({sums_of(view, '1')}) AS s WHERE {mine} AND {match}"
    asked = f"SELECT FROM {names.sums} AS t JOIN {names.some_keys} AS {K} ON {_affected(view, nulls)} WHERE {odd}"
    return f"SELECT EXISTS ({asked})", update


def drop_empty_sums(view: View, names: Names, nulls: bool) -> str:
    """Return DELETE for the sums of affected groups without rows."""
    return (
        f"DELETE FROM {names.sums} AS t USING {names.some_keys} AS {K}"
        f" WHERE {_affected(view, nulls)} AND t.{quoted(WEIGHT)} = 0"
    )


def rows_of_sums(view: View, names: Names, nulls: bool) -> str:
    """Return INSERT for the rows of the affected groups, made from their sums."""
    listed = ", ".join(map(quoted, view.columns))
    return (
        f"INSERT INTO {names.rows} ({listed}) SELECT {_of_sums(view)} FROM {names.sums} AS t"
        f" JOIN {names.some_keys} AS {K} ON {_affected(view, nulls)}"
    )


def _of_sums(view: View) -> str:
    branch = view.branches[0]
    names = {output: name for name, output, _ in _summed(view)}
    values = []
    for one in branch.outputs:
        if not one.aggregates:
            key = next(name for name in view.key if branch.value(name) == one.value)
            values.append(f"t.{quoted(key)}")
        elif one.name not in names:
            values.append(f"t.{quoted(WEIGHT)}")
        else:
            count, total = f"t.{quoted(names[one.name] + 'n')}", f"t.{quoted(names[one.name] + 's')}"
            if isinstance(one.value, exp.Count):
                values.append(count)
            elif isinstance(one.value, exp.Sum):
                values.append(f"CASE WHEN {count} > 0 THEN {total} END")
            else:
                values.append(f"CASE WHEN {count} > 0 THEN {total} / {count} END")
    return ", ".join(values)


def refill(view: View, names: Names) -> list[str]:
    return [f"DELETE FROM {names.sums}", f"INSERT INTO {names.sums} {sums_of(view, '1')}"]
