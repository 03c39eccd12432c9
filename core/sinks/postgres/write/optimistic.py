"""The optimistic step is a large step whose inserts are copied directly into the target. Four checks prove it correct.

Most large steps change each row once. No sorting is then needed: I rows are copied into the target, U rows are applied
as updates and d rows as deletes. The result is the net effect for any order of the events, provided that

a. each B is followed by its own U (or x) of the same key, so that no key changes (the compiled router checks this for
   most B, and leaves them out: `routing.c`);
b. the number of U rows equals the number of rows that the UPDATE changed (none of them written by this step) plus the
   rows inserted because their key did not exist: the keys of the U rows differ from each other and from the I keys;
c. the COPY of the I rows violates no unique index: their keys differ from each other and from all existing keys,
   including the keys of the U and d rows;
d. no row that the DELETE removes was written by this step: no d has the key of an I or a U.

So each key has one event besides its B, or is only deleted. If a check fails, everything written so far, including the
fence, is rolled back to a savepoint set after the staging, and the step takes the general path (`statements.py`);
nothing is assumed about the target. Rows written by this step have the xmin of the subtransaction that starts at the
savepoint. The progress row is written first in that subtransaction, so its xmin identifies the rows of this step.

A step that misses (fails a check) loses its writes, so checks that need no write run first. The first check, while the
step is read (`routing.py`), finds keys with two events; it can only reject a step, not prove it correct. Check a is
next. Among the remaining checks, c fails most often by far, so the COPY is the first write.

A batch of a Spark query takes the same path, but its inserts are staged as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.write.routing import Routed
from slotkeeper.core.sinks.postgres.write.session_tables import fill_target
from slotkeeper.core.sinks.postgres.write.statements import (
    TargetTable,
    all_staged,
    is_live,
    mark_sets,
    match,
    same_key,
    update_of,
)

SQL, Identifier = pg.sql.SQL, pg.sql.Identifier
Composable = pg.sql.Composable

LONGEST = 64
"""Maximum number of steps that take the general path in a lane before the next attempt."""
_MISSES = ("22", "23")
"""SQLSTATE classes of row errors (data exception, constraint violation): the general path finds the row, if any."""
_COUNTED = "SELECT count(*) FILTER (WHERE kind = 'U'), count(*) FILTER (WHERE kind = 'B') FROM {stage}"
_PAIRED = """
SELECT count(*) FROM {stage} b JOIN {stage} u ON u.point = b.point AND u.sequence = b.sequence + 1 AND {same}
 WHERE b.kind = 'B' AND u.kind IN ('U', 'x')
"""
_ABSENT = """
INSERT INTO {table} ({columns}) SELECT {staged} FROM {stage} s
 WHERE s.kind = 'U' AND NOT EXISTS (SELECT FROM {rows} t WHERE {match})
"""
_DELETED = """
WITH slotkeeper_gone AS (
    DELETE FROM {table} t USING {stage} s WHERE s.kind IN ('d', 'x') AND {match} RETURNING t.xmin AS by)
SELECT count(*) FROM slotkeeper_gone WHERE by = {writer}
"""
_MARKED = """
WITH slotkeeper_gone AS (
    UPDATE {table} t SET {sets} FROM {stage} s WHERE s.kind IN ('d', 'x') AND {live} AND t.xmin <> {writer} AND {match})
SELECT count(*) FROM {table} t, {stage} s WHERE s.kind IN ('d', 'x') AND t.xmin = {writer} AND {match}
"""
"""The same for soft deletes: the count does not see the rows that the UPDATE changes."""
_ANOTHERS = "s.kind = 'U' AND t.xmin <> {}"
_XMIN = SQL("{}::text::xid")
_OWN = SQL("(SELECT (txid_current() % 4294967296)::text::xid)")
"""The xmin of rows that a transaction writes without a savepoint."""


def fits(table: TargetTable, options: SinkOptions) -> bool:
    """Return whether steps of a target can take the optimistic path; decided once per target, from fixed properties.

    An explicit write mode excludes it. It requires PostgreSQL, plain inserts, updates and deletes, and keys without
    NULL whose equal values have equal text. (The start rejects a target with triggers, rules or foreign keys:
    `check/eligibility.py`.)
    """
    return (
        options.optimistic_step
        and options.write_mode == "auto"
        and not table.dialect.plain
        and table.strict_key
        and not table.loose
        and options.conflict_strategy == "update"
        and options.ignore_update_before
        and not (options.ignore_delete or options.ignore_null_when_update)
    )


@dataclass(slots=True)
class Lane:
    """The backoff of a lane: after a miss, it takes the general path for 1, 2, 4 ... `LONGEST` steps, then tries again.

    >>> lane = Lane()
    >>> lane.missed(), lane.missed(), [lane.may_try() for _ in range(4)]
    (None, None, [False, False, True, True])
    """

    wait: int = 0
    pause: int = 0

    @property
    def waits(self) -> bool:
        """Whether the next step takes the general path without an optimistic attempt."""
        return self.pause > 0

    def may_try(self) -> bool:
        """Return whether to try the optimistic path for this step; during a pause, count down the pause by one step."""
        if self.pause:
            self.pause -= 1
            return False
        return True

    def missed(self) -> None:
        self.wait = min(LONGEST, self.wait * 2 or 1)
        self.pause = self.wait

    def hit(self) -> None:
        self.wait = 0


@dataclass(slots=True)
class Taken:
    """The number of a sink's steps with changes, by the path that they took.

    A missed step also counts as general, as does a small step, which has the general statement (`small_step.py`);
    `swept` counts the small steps that a sweep committed.
    """

    optimistic: int = 0
    general: int = 0
    missed: int = 0
    small: int = 0
    swept: int = 0


def apply(cursor: pg.Cursor, table: TargetTable, options: SinkOptions, routed: Routed, writer: int) -> bool:
    """Apply the step after its fence; return False if a check fails and the caller has to roll back.

    `writer` is the xmin of the rows written by this step. Raises Unreachable if the number of inserts that the server
    received differs from the number read.
    """
    by = _XMIN.format(pg.sql.Literal(writer))
    return _written(cursor, table, options, by, lambda: _inserted(cursor, table, routed))


def apply_staged(cursor: pg.Cursor, table: TargetTable, options: SinkOptions) -> bool:
    """Apply a step like `apply`, but without a savepoint: the inserts are staged too, and the server copies them."""
    columns = SQL(", ").join(map(Identifier, table.columns))
    insert = SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE kind = 'I'").format(
        table.identifier, columns, all_staged(table), Identifier(table.staging)
    )
    return _written(cursor, table, options, _OWN, lambda: cursor.execute(insert))


def _written(
    cursor: pg.Cursor, table: TargetTable, options: SinkOptions, writer: Composable, insert: Callable[[], object]
) -> bool:
    """Run check a, which needs no write, then write; all inserts precede the first update."""
    try:
        updates, olds, pairs = _counted(cursor, table)
        if not no_key_changes(olds, pairs):
            return False
        insert()
        if updates and not each_has_its_row(updates, _updated(cursor, table, options, writer, updates)):
            return False
        # the DELETE, and check d
        stage = Identifier(table.staging)
        parts = {"table": table.rows, "stage": stage, "match": match(table), "writer": writer}
        marks = {"sets": mark_sets(table), "live": is_live(table)} if table.marks else {}
        cursor.execute(SQL(_MARKED if marks else _DELETED).format(**parts, **marks))
        return none_is_ours(cursor.fetchall()[0][0])
    except pg.DriverError as error:
        if pg.failure(error)[0][:2] not in _MISSES:
            raise
        return False


def _counted(cursor: pg.Cursor, table: TargetTable) -> tuple[int, int, int]:
    """Return the number of U events, of B events, and of B events whose U or x has the same key.

    The planner has no statistics for a temporary table and would join several thousand rows with nested loops.
    """
    stage = Identifier(table.staging)
    cursor.execute(SQL(_COUNTED).format(stage=stage))
    updates, olds = cursor.fetchall()[0]
    if not olds:
        return updates, 0, 0
    cursor.execute("SET LOCAL enable_nestloop = off")
    cursor.execute(SQL(_PAIRED).format(stage=stage, same=same_key(table, "u", "b")))
    ((pairs,),) = cursor.fetchall()
    cursor.execute("SET LOCAL enable_nestloop TO DEFAULT")
    return updates, olds, pairs


def _updated(cursor: pg.Cursor, table: TargetTable, options: SinkOptions, writer: Composable, updates: int) -> int:
    """Update the rows of U events, except rows that this step wrote; insert missing rows."""
    stage = Identifier(table.staging)
    cursor.execute(update_of(table, options, SQL("{} s").format(stage), SQL(_ANOTHERS).format(writer)))
    changed = int(cursor.rowcount)
    if changed < updates:
        columns, staged = SQL(", ").join(map(Identifier, table.columns)), all_staged(table)
        parts = {"table": table.identifier, "rows": table.rows, "stage": stage, "match": match(table)}
        cursor.execute(SQL(_ABSENT).format(columns=columns, staged=staged, **parts))
        changed += cursor.rowcount
    return changed


def _inserted(cursor: pg.Cursor, table: TargetTable, routed: Routed) -> None:
    """Copy the inserts into the target; this is check c."""
    if routed.inserts:
        routed.compare(pg.copy_in(cursor, fill_target(table), routed.bodies()))


def no_key_changes(olds: int, pairs: int) -> bool:
    """Run check a, that every B is followed by its own U or x with the same key."""
    return olds == pairs


def each_has_its_row(updates: int, changed: int) -> bool:
    """Run check b, that every U changed a row written by an earlier step, or inserted a row."""
    return updates == changed


def none_is_ours(deleted: int) -> bool:
    """Run check d, that the DELETE removed no row that this step wrote."""
    return deleted == 0
