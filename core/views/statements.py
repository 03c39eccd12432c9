"""The SQL of a view: its table, what triggers capture, the affected keys, and how a round applies them.

Affected keys (ADR 94). A row of the result can only have changed if a changed row is among its inputs. So for each
captured table Ti, the SELECT runs with Ti replaced by its deltas and every other Tj by Tj plus its deltas, without
aggregates and HAVING, and yields keys; too many keys do no harm. A LEFT JOIN contributes two cases: matched, as an
inner join, and NULL-extended, with the columns of its nullable side replaced by NULL in keys and conditions.

Keys are compared so that NULL equals NULL. PostgreSQL has no index or hash for IS NOT DISTINCT FROM, so keys without
NULL are compared with `=`, and the few keys with NULL separately.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from slotkeeper.core.domain.views import Explained
from slotkeeper.core.sqltext import dotted, literal, quoted
from slotkeeper.core.views.plan import OWN, Branch, Capture, Use, View, unique

K = quoted(OWN + "k")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a view's objects in the sink; `schema` is the schema of Slotkeeper's tables."""

    view: View
    schema: str
    stamp: str = ""
    """Distinguishes the session's tables of one build from those of another, whose columns can have other types."""
    most: int = 0
    """The number of affected keys or a greater one; 0 if none are stored yet."""

    def delta(self, table: str) -> str:
        """The table with the captured changes of a mirrored table."""
        spelled = hashlib.sha256(f"{self.view.target} {table}".encode()).hexdigest()[:12]
        return self._own(f"delta_{spelled}")

    @property
    def sums(self) -> str:
        """The table with the sums per group of the delta method."""
        return self._own(f"sums_{self.view.digest}")

    @property
    def marks(self) -> str:
        """The table of events after which a view must be rebuilt, for all views."""
        return self._own("view_marks")

    @property
    def keys(self) -> str:
        """The session's table of affected keys."""
        return f"pg_temp.{quoted(f'{OWN}keys_{self.view.digest}{self.stamp}')}"

    @property
    def some_keys(self) -> str:
        """The affected keys, with a limit from which the planner estimates their number.

        Without it, the planner estimates a table without statistics at ten pages of rows or more (PostgreSQL,
        `table_block_relation_estimate_size`), and reads a view's whole table instead of its index.
        """
        return f"(SELECT * FROM {self.keys} LIMIT {self.most})"

    @property
    def rows(self) -> str:
        """The session's table of recomputed rows."""
        return f"pg_temp.{quoted(f'{OWN}rows_{self.view.digest}{self.stamp}')}"

    def trigger(self, table: str, event: str) -> str:
        """The name of a trigger on a captured table, or of the guard on the view's own table."""
        spelled = hashlib.sha256(f"{self.view.target} {table}".encode()).hexdigest()[:12]
        return f"{OWN}view_{spelled}_{event}"

    def _own(self, name: str) -> str:
        return f"{quoted(self.schema)}.{quoted(OWN + name)}"


# -- expressions ------------------------------------------------------------------------------------------------------


def text(value: exp.Expr) -> str:
    """Return an expression as PostgreSQL's SQL, with quoted names."""
    return value.sql(dialect="postgres", identify=True, comments=False)


def columns_of(values: Iterable[exp.Expr], alias: str) -> tuple[str, ...]:
    """Return the columns of a table that expressions use, in alphabetic order."""
    return tuple(sorted({c.name for value in values for c in value.find_all(exp.Column) if c.table == alias}))


def _with_null(value: exp.Expr, nulled: Mapping[str, str]) -> exp.Expr:
    """Replace the columns of these aliases by a NULL of the column's type."""

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.table in nulled:
            column = f"(SELECT {quoted(node.name)} FROM {dotted(nulled[node.table])} LIMIT 0)"
            return exp.maybe_parse(column, dialect="postgres")
        return node

    return value.transform(replaced) if nulled else value


def key_values(view: View, branch: Branch) -> list[exp.Expr]:
    """Return the expressions of the key's columns, in the order of the key."""
    return [branch.value(name) for name in view.key]


def captured(view: View, table: str) -> tuple[str, ...]:
    """Return the columns of a table that keys, and for a join also conditions, need: those that triggers capture."""
    found: set[str] = set()
    join = view.capture(False) is Capture.IMAGES
    for branch in view.branches:
        values = key_values(view, branch)
        if join:
            values += [use.on for use in branch.uses if use.on is not None]
            values += [branch.where] if branch.where is not None else []
        for use in branch.mirrored:
            if use.table == table:
                found.update(columns_of(values, use.alias))
    return tuple(sorted(found))


def used(view: View, table: str) -> tuple[str, ...]:
    """Return all columns of a table on which the result depends."""
    found: set[str] = set()
    for branch in view.branches:
        values = [one.value for one in branch.outputs]
        values += [one for one in (branch.where, branch.having, *(use.on for use in branch.uses)) if one is not None]
        for use in branch.uses:
            if use.table == table:
                found.update(columns_of(values, use.alias))
    return tuple(sorted(found))


def compared(view: View, table: str) -> tuple[str, ...]:
    """Return the columns of a table that are used otherwise than as an output or under a cast."""
    found: set[str] = set()
    for branch in view.branches:
        aliases = {use.alias for use in branch.uses if use.table == table}
        values = [one.value for one in branch.outputs if not isinstance(one.value, exp.Column)]
        values += [one for one in (branch.where, branch.having, *(use.on for use in branch.uses)) if one is not None]
        for column in (one for value in values for one in value.find_all(exp.Column)):
            if column.table in aliases and not isinstance(column.parent, exp.Cast):
                found.add(column.name)
    return tuple(sorted(found))


def extensions(branch: Branch, keys: Sequence[exp.Expr]) -> int:
    """Return the number of LEFT JOINs each of which doubles the cases of a search for affected keys."""
    return sum(one.join == "left" and _matters(branch, n, keys) for n, one in enumerate(branch.uses))


# -- the result -------------------------------------------------------------------------------------------------------


def answer(view: View) -> str:
    """Return the whole SELECT of the view."""
    return " UNION ALL ".join(_select(branch) for branch in view.branches)


def _select(branch: Branch, more: str = "") -> str:
    """Return a branch's SELECT; `more` is added to FROM."""
    outputs = ", ".join(f"{text(one.value)} AS {quoted(one.name)}" for one in branch.outputs)
    tables = "".join(_joined(use, dotted(use.table)) for use in branch.uses)
    where = f" WHERE {text(branch.where)}" if branch.where is not None else ""
    having = f" HAVING {text(branch.having)}" if branch.having is not None else ""
    return f"SELECT {outputs} FROM {tables}{more}{where}{_grouped(branch)}{having}"


def _grouped(branch: Branch) -> str:
    if not branch.groups:
        return ""
    plain = [text(one.value) for one in branch.outputs if not one.aggregates and one.value.find(exp.Column)]
    return f" GROUP BY {', '.join(plain)}"


def _joined(use: Use, source: str, left: bool = True, on: str = "") -> str:
    named = f"{source} AS {quoted(use.alias)}"
    if not use.join:
        return named
    kind = "LEFT JOIN" if use.join == "left" and left else "JOIN"
    assert use.on is not None
    return f" {kind} {named} ON {on or text(use.on)}"


def create_target(view: View) -> list[str]:
    """Return the statements that create the view's table with its key, empty.

    PostgreSQL 15, CREATE INDEX: NULLS NOT DISTINCT treats NULL as equal to NULL, so that a group of NULL is one row.
    """
    key = ", ".join(map(quoted, view.key))
    index = quoted(f"{OWN}key_{view.digest}")
    return [
        f"CREATE TABLE {dotted(view.target)} AS {answer(view)} WITH NO DATA",
        f"CREATE UNIQUE INDEX {index} ON {dotted(view.target)} ({key}) NULLS NOT DISTINCT",
    ]


def has_key(view: View) -> str:
    """Return a query that finds the unique index of the view's key."""
    columns = ", ".join(f"{literal(name)}::name" for name in view.key)
    return (
        "SELECT 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        f" WHERE i.indrelid = {literal(dotted(view.target))}::regclass AND i.indisvalid AND i.indnullsnotdistinct"
        f" AND c.relname = {literal(f'{OWN}key_{view.digest}')}"
        f" AND ARRAY[{columns}] = ARRAY(SELECT a.attname FROM unnest(i.indkey) WITH ORDINALITY k(number, place)"
        " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place)"
    )


# -- a round ----------------------------------------------------------------------------------------------------------


def create_temporary(view: View, names: Names) -> list[str]:
    """Return the statements that create the session's tables of keys and rows."""
    keys = ", ".join(map(quoted, view.key))
    made = "CREATE TEMP TABLE IF NOT EXISTS {} ON COMMIT DELETE ROWS AS SELECT {} FROM {} WITH NO DATA"
    return [
        made.format(names.keys.removeprefix("pg_temp."), keys, dotted(view.target)),
        made.format(names.rows.removeprefix("pg_temp."), "*", dotted(view.target)),
    ]


def empty_temporary(names: Names) -> list[str]:
    """Return the statements that empty the session's tables for the next build or round of this transaction."""
    return [f"DELETE FROM {names.keys}", f"DELETE FROM {names.rows}"]


def affected(view: View, names: Names, changed: Collection[str], extends: bool = True) -> str:
    """Return `insert_keys` for the affected keys; `changed`: the tables that have deltas.

    `extends` = False omits the NULL-extended keys, a mistake that only a test makes.
    """
    if view.capture(False) is Capture.KEYS:
        queries = [_own_keys(view, names, branch) for branch in view.branches]
    else:
        queries = [one for branch in view.branches for one in _join_keys(view, names, branch, changed, extends)]
    return insert_keys(view, names, f"SELECT DISTINCT * FROM ({' UNION ALL '.join(queries)}) q")


def insert_keys(view: View, names: Names, query: str) -> str:
    """Return a query that stores affected keys, and returns their number, and whether one contains NULL."""
    listed = ", ".join(map(quoted, view.key))
    insert = f"INSERT INTO {names.keys} AS {K} ({listed}) {query} RETURNING {no_null(view, K)} AS whole"
    return f"WITH i AS ({insert}) SELECT count(*), coalesce(bool_or(NOT whole), false) FROM i"


def _own_keys(view: View, names: Names, branch: Branch) -> str:
    """Return the keys of a branch over one table: those of its captured columns."""
    use = branch.mirrored[0]
    listed = ", ".join(text(value) for value in key_values(view, branch))
    return f"SELECT {listed} FROM {names.delta(use.table)} AS {quoted(use.alias)}"


def _join_keys(view: View, names: Names, branch: Branch, changed: Collection[str], extends: bool) -> Iterator[str]:
    keys = key_values(view, branch)
    for place, use in enumerate(branch.uses):
        if use.lookup or use.table not in changed:
            continue
        matters = [n for n, one in enumerate(branch.uses) if one.join == "left" and _matters(branch, n, keys)]
        for size in range(len(matters) + 1 if extends else 1):
            for nulled in itertools.combinations(matters, size):
                yield _case(view, names, branch, place, frozenset(nulled), set(matters), changed)


def _matters(branch: Branch, place: int, keys: Sequence[exp.Expr]) -> bool:
    """Whether it matters for keys or other conditions that the row of a LEFT JOIN is NULL."""
    alias = branch.uses[place].alias
    others = [one.on for one in branch.uses[place + 1 :] if one.on is not None]
    others += [branch.where] if branch.where is not None else []
    return bool(columns_of([*keys, *others], alias))


def _case(
    view: View,
    names: Names,
    branch: Branch,
    driven: int,
    nulled: frozenset[int],
    matters: Collection[int],
    changed: Collection[str],
) -> str:
    """Return the keys for deltas of one table, with the tables `nulled` of LEFT JOINs replaced by NULL."""
    gone = {branch.uses[n].alias: branch.uses[n].table for n in nulled}
    tables = []
    for place, use in enumerate(branch.uses):
        if place == driven:
            source = f"({_images(view, names, use.table)})"
        elif place in nulled or (use.join == "left" and place not in matters):
            continue
        else:
            source = _with_deltas(view, names, use, changed)
        before = {alias: table for alias, table in gone.items() if alias != use.alias}
        on = text(_with_null(use.on, before)) if use.on is not None else ""
        tables.append(_joined(use, source, left=False, on=on))
    where = f" WHERE {text(_with_null(branch.where, gone))}" if branch.where is not None else ""
    listed = ", ".join(text(_with_null(value, gone)) for value in key_values(view, branch))
    return f"SELECT {listed} FROM {''.join(tables)}{where}"


def _with_deltas(view: View, names: Names, use: Use, changed: Collection[str]) -> str:
    """Return a table with its deltas; a table without deltas is read as it is."""
    if use.lookup or use.table not in changed:
        return dotted(use.table)
    listed = ", ".join(map(quoted, captured(view, use.table))) or "1"
    return f"(SELECT {listed} FROM {dotted(use.table)} UNION ALL {_images(view, names, use.table)})"


def _images(view: View, names: Names, table: str) -> str:
    """Return the distinct images of a table's changed rows: many changes of few rows must not multiply in joins."""
    return distinct(captured(view, table), names.delta(table))


def distinct(columns: Sequence[str], rows: str) -> str:
    """Return the rows without repetitions; values that are equal, but not the same, differ as text: 1.0 and 1.00."""
    listed = list(map(quoted, columns))
    if not listed:
        return f"SELECT DISTINCT 1 FROM {rows}"
    return (
        f"SELECT {', '.join(listed)} FROM {rows} GROUP BY {', '.join([*listed, *(f'{one}::text' for one in listed)])}"
    )


def no_null(view: View, alias: str) -> str:
    return " AND ".join(f"{alias}.{quoted(name)} IS NOT NULL" for name in view.key)


def same(pairs: Iterable[tuple[str, str]], nulls: bool) -> str:
    sign = "IS NOT DISTINCT FROM" if nulls else "="
    return " AND ".join(f"({one}) {sign} {other}" for one, other in pairs)


def recompute(view: View, names: Names, nulls: bool) -> str:
    """Return INSERT for the rows of the affected keys; `nulls`: of the keys that contain NULL."""
    condition = no_null(view, K)
    keys = f"(SELECT * FROM {names.some_keys} AS {K} WHERE {f'NOT ({condition})' if nulls else condition})"
    queries = []
    for branch in view.branches:
        pairs = [(text(branch.value(name)), f"{K}.{quoted(name)}") for name in view.key]
        queries.append(_select(branch, f" JOIN {keys} AS {K} ON {same(pairs, nulls)}"))
    listed = ", ".join(map(quoted, view.columns))
    return f"INSERT INTO {names.rows} ({listed}) {' UNION ALL '.join(queries)}"


def delete_gone(view: View, names: Names, nulls: bool) -> str:
    """Return DELETE for the rows of affected keys that are no longer in the result."""
    condition = no_null(view, K)
    pairs = [(f"t.{quoted(name)}", f"{K}.{quoted(name)}") for name in view.key]
    there = [(f"r.{quoted(name)}", f"{K}.{quoted(name)}") for name in view.key]
    return (
        f"DELETE FROM {dotted(view.target)} AS t USING {names.some_keys} AS {K}"
        f" WHERE {f'NOT ({condition})' if nulls else f'({condition})'} AND {same(pairs, nulls)}"
        f" AND NOT EXISTS (SELECT FROM {names.rows} AS r WHERE {same(there, nulls)})"
    )


def upsert(view: View, names: Names) -> str:
    """Return INSERT ... ON CONFLICT for the recomputed rows; a row that is the same is not written.

    PostgreSQL, "Composite Type Comparison": `*<>` compares the bytes. `=` calls intervals of 24 hours and of a day
    equal, or figures of the same area, and has no form for json.
    """
    listed = ", ".join(map(quoted, view.columns))
    return _upsert(view, f"SELECT {listed} FROM {names.rows}")


def _upsert(view: View, query: str) -> str:
    listed = ", ".join(map(quoted, view.columns))
    key = ", ".join(map(quoted, view.key))
    values = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in view.columns)
    old = ", ".join(f"t.{quoted(name)}" for name in view.columns)
    new = ", ".join(f"excluded.{quoted(name)}" for name in view.columns)
    return (
        f"INSERT INTO {dotted(view.target)} AS t ({listed}) {query} ON CONFLICT ({key})"
        f" DO UPDATE SET {values} WHERE ROW({old})::record OPERATOR(pg_catalog.*<>) ROW({new})::record"
    )


# -- the whole view ---------------------------------------------------------------------------------------------------


def compute(view: View, names: Names) -> str:
    """Return INSERT of the view's complete result into `names.rows`."""
    return f"INSERT INTO {names.rows} ({', '.join(map(quoted, view.columns))}) {answer(view)}"


def several_rows(view: View, names: Names) -> str:
    """Return a query whether `names.rows` has two rows with one key, "" if its form excludes that.

    ON CONFLICT alone does not find all of them: equal rows, or rows of nothing but a key, are not written again.
    """
    if len(view.branches) == 1 and view.branches[0].groups:
        return ""
    key = ", ".join(map(quoted, view.key))
    return f"SELECT EXISTS (SELECT FROM {names.rows} GROUP BY {key} HAVING count(*) > 1)"


def fill(view: View, names: Names) -> list[str]:
    """Return the statements that replace the view's rows by its result; unchanged rows are not written.

    `compute` has already written the result to `names.rows`.
    """
    made = []
    pairs = [(f"t.{quoted(name)}", f"r.{quoted(name)}") for name in view.key]
    null = " OR ".join(f"t.{quoted(name)} IS NULL" for name in view.key)
    for nulls in (False, True):
        made.append(
            f"DELETE FROM {dotted(view.target)} AS t WHERE {'' if nulls else 'NOT '}({null})"
            f" AND NOT EXISTS (SELECT FROM {names.rows} AS r WHERE {same(pairs, nulls)})"
        )
    return [*made, upsert(view, names)]


_NOT_FINITE = "'NaN', 'Infinity', '-Infinity'"
"""Values that are near no other value; PostgreSQL, "Numeric Types": NaN equals NaN, and is greater than all others."""


def differences(view: View, floats: Collection[str], tolerance: float, query: str = "") -> str:
    """Return a query for keys at which the view's table differs from the result: the key as text, and what is wrong.

    `floats`: output columns that are compared with the relative `tolerance`, because sums of floating-point numbers
    depend on the order of their rows.
    """
    parts = []
    for name in view.columns:
        one, other = f"t.{quoted(name)}", f"a.{quoted(name)}"
        if name in floats:
            near = f"abs({one} - {other}) <= {tolerance!r} * greatest(abs({one}), abs({other}), 1)"
            odd = f"{one} IN ({_NOT_FINITE}) OR {other} IN ({_NOT_FINITE})"
            parts.append(
                f"({one} IS NOT DISTINCT FROM {other} OR coalesce(CASE WHEN {odd} THEN false ELSE {near} END, false))"
            )
        elif any(branch.groups for branch in view.branches):  # of equal values, a group shows any
            parts.append(f"{one} IS NOT DISTINCT FROM {other}")
        else:
            parts.append(f"ROW({one})::record OPERATOR(pg_catalog.*=) ROW({other})::record")
    shown = "concat_ws(', ', " + ", ".join(f"coalesce(t.{quoted(n)}, a.{quoted(n)})::text" for n in view.key) + ")"
    left = f"SELECT *, true AS slotkeeper_there FROM {dotted(view.target)}"
    right = (
        f"SELECT *, true AS slotkeeper_there FROM ({query or answer(view)}\n) q"  # a comment can end the query
        f" ({', '.join(map(quoted, view.columns))})"
    )
    columns = f"{shown}, CASE WHEN t.slotkeeper_there IS NULL THEN 'missing' WHEN a.slotkeeper_there IS NULL"
    columns += " THEN 'extra' ELSE 'different' END"
    key = ", ".join(f"l.{quoted(name)}" for name in view.key)
    several = "concat_ws(', ', " + ", ".join(f"l.{quoted(name)}::text" for name in view.key) + ")"
    counted = [
        f"SELECT {several}, '{what} several rows with this key' FROM ({side}) l GROUP BY {key} HAVING count(*) > 1"
        for side, what in ((left, "the table has"), (right, "the SELECT has"))
    ]
    compared = [
        f"SELECT {columns} FROM (SELECT * FROM ({left}) l WHERE {where}) t FULL JOIN"
        f" (SELECT * FROM ({right}) l WHERE {where}) a ON {match}"
        f" WHERE t.slotkeeper_there IS NULL OR a.slotkeeper_there IS NULL OR NOT ({' AND '.join(parts)})"
        for where, match in _halves(view)
    ]
    return " UNION ALL ".join([*compared, *counted])


def _halves(view: View) -> Iterator[tuple[str, str]]:
    """Yield the condition and the comparison of keys without NULL, and of keys with NULL.

    PostgreSQL joins FULL only by conditions that can be hashed or merged: keys with NULL are compared as text.
    """
    condition = no_null(view, "l")
    yield condition, same([(f"t.{quoted(name)}", f"a.{quoted(name)}") for name in view.key], nulls=False)
    pairs = []
    for name in view.key:
        pairs.append((f"coalesce(t.{quoted(name)}::text, '')", f"coalesce(a.{quoted(name)}::text, '')"))
        pairs.append((f"(t.{quoted(name)} IS NULL)", f"(a.{quoted(name)} IS NULL)"))
    yield f"NOT ({condition})", same(pairs, nulls=False)


# -- what users are told ----------------------------------------------------------------------------------------------


def explain(view: View, names: Names, adds: bool) -> Explained:
    """Return the part of a view's description that is known without its sink."""
    kind = view.capture(adds).value
    captures = tuple((table, kind) for table in view.tables)
    keys = affected(view, names, view.tables)
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
        first = unique(value.table for value in key_values(view, branch) if isinstance(value, exp.Column))
        for value in key_values(view, branch):
            if isinstance(value, exp.Column) and value.table in first[:1]:
                yield tables[value.table], value.name
                break
