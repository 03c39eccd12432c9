"""The optimistic step: a large step whose inserts go straight into the target, exact because four checks say so.

Most large steps change each row once. Then nothing has to be sorted: I rows are copied into the target, U rows update,
d rows delete. That is the net effect, whatever the order of the events was, where

a. each B has its own U (or x) of one key behind it, so that no key changes;
b. as many rows as there are U are either changed by the UPDATE, none of them written by this step, or inserted because
   there was none of their key: the keys of the U differ from each other and from those of the I;
c. the COPY of the I rows breaks no unique index: their keys differ from each other and from all that are there, those
   of the U and d rows among them;
d. no row that the DELETE ends was written by this step: no d is of a key with an I or a U.

So each key has one event besides its B, or only ends. Where a check fails all that was written, the fence with it, is
rolled back to a savepoint that lies behind the staging, and the step goes the general way (`statements.py`); nothing is
assumed of the target. What this step wrote has the xmin of the subtransaction under that savepoint: that of the
progress row, which was written in it first.

What was written for a step that misses is lost, so what can be known before anything is written comes first: whether
a key has two events, which is seen while the step is read (`routing.py`) and proves nothing; then a. What misses of the
rest is nearly always c, so the COPY is the first that writes.

A Spark query's batch goes the same way, its inserts staged too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.write.routing import Routed
from slotkeeper.core.sinks.postgres.write.statements import (
    TargetTable,
    all_staged,
    fill_target,
    match,
    same_key,
    update_of,
)

SQL, Identifier = pg.sql.SQL, pg.sql.Identifier
Composable = pg.sql.Composable

LONGEST = 64
"""Most steps that a lane takes the general way before the next try."""
_MISSES = ("22", "23")
"""SQLSTATE classes of a row's error (data exception, integrity constraint violation): the general way finds the row,
if there is one."""
_COUNTED = """
SELECT count(*) FILTER (WHERE kind = 'U'), count(*) FILTER (WHERE kind = 'B'),
       (SELECT count(*) FROM {stage} b JOIN {stage} u
          ON u.point = b.point AND u.sequence = b.sequence + 1 AND {same}
        WHERE b.kind = 'B' AND u.kind IN ('U', 'x'))
FROM {stage}
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
_ANOTHERS = "s.kind = 'U' AND t.xmin <> {}"
_XMIN = SQL("{}::text::xid")
_OWN = SQL("(SELECT (txid_current() % 4294967296)::text::xid)")
"""The xmin of rows that a transaction without a savepoint writes."""


def fits(table: TargetTable, options: SinkOptions) -> bool:
    """Whether steps of a target can take the optimistic way; decided once per target, from constant facts.

    An explicit write mode excludes it. It needs PostgreSQL, plain inserts, updates and deletes, and keys with one text
    per value and without NULL. (The start rejects a target with triggers, rules or foreign keys:
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
    """How a lane fared: after a miss it goes the general way for 1, 2, 4 ... `LONGEST` steps, then it is tried again.

    >>> lane = Lane()
    >>> lane.missed(), lane.missed(), [lane.may_try() for _ in range(4)]
    (None, None, [False, False, True, True])
    """

    wait: int = 0
    pause: int = 0

    @property
    def waits(self) -> bool:
        """Whether the next step is not tried."""
        return self.pause > 0

    def may_try(self) -> bool:
        """Whether this step is tried; one that is not counts down."""
        if self.pause:
            self.pause -= 1
            return False
        return True

    def missed(self) -> None:
        """A check failed."""
        self.wait = min(LONGEST, self.wait * 2 or 1)
        self.pause = self.wait

    def hit(self) -> None:
        """All checks held."""
        self.wait = 0


@dataclass(slots=True)
class Taken:
    """How a sink's steps with changes went, counted; a missed one is counted as a general one, too."""

    optimistic: int = 0
    general: int = 0
    missed: int = 0


def apply(cursor: pg.Cursor, table: TargetTable, options: SinkOptions, routed: Routed, writer: int) -> bool:
    """The step's effect behind its fence; False where a check fails, and what it did is to be rolled back.

    `writer` is the xmin of what is written now. Raises Unreachable where the server took another number of inserts than
    were read.
    """
    by = _XMIN.format(pg.sql.Literal(writer))
    return _written(cursor, table, options, by, lambda: _inserted(cursor, table, routed))


def apply_staged(cursor: pg.Cursor, table: TargetTable, options: SinkOptions) -> bool:
    """As `apply`, for inserts that are staged with the rest, without a savepoint; they are copied by the server."""
    columns = SQL(", ").join(map(Identifier, table.columns))
    insert = SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE kind = 'I'").format(
        table.identifier, columns, all_staged(table), Identifier(table.staging)
    )
    return _written(cursor, table, options, _OWN, lambda: cursor.execute(insert))


def _written(
    cursor: pg.Cursor, table: TargetTable, options: SinkOptions, writer: Composable, insert: Callable[[], object]
) -> bool:
    """What is asked first, then what is written: all inserts before the first update."""
    try:
        updates, olds, pairs = _counted(cursor, table)
        if not no_key_changes(olds, pairs):
            return False
        insert()
        if updates and not each_has_its_row(updates, _updated(cursor, table, options, writer, updates)):
            return False
        # the DELETE, and check d
        stage = Identifier(table.staging)
        cursor.execute(SQL(_DELETED).format(table=table.rows, stage=stage, match=match(table), writer=writer))
        return none_is_ours(cursor.fetchall()[0][0])
    except pg.DriverError as error:
        if pg.failure(error)[0][:2] not in _MISSES:
            raise
        return False


def _counted(cursor: pg.Cursor, table: TargetTable) -> tuple[int, int, int]:
    """The numbers of U, of B, and of the B whose U or x has the same key.

    The planner has no statistics of a temporary table and would pair some thousand rows by nested loops.
    """
    cursor.execute("SET LOCAL enable_nestloop = off")
    cursor.execute(SQL(_COUNTED).format(stage=Identifier(table.staging), same=same_key(table, "u", "b")))
    updates, olds, pairs = cursor.fetchall()[0]
    cursor.execute("SET LOCAL enable_nestloop TO DEFAULT")
    return updates, olds, pairs


def _updated(cursor: pg.Cursor, table: TargetTable, options: SinkOptions, writer: Composable, updates: int) -> int:
    """Update the rows of U events, none of which this step had written; insert a missing row."""
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
    """The COPY, which is check c."""
    if routed.inserts:
        routed.compare(pg.copy_in(cursor, fill_target(table), routed.bodies()))


def no_key_changes(olds: int, pairs: int) -> bool:
    """Check a: every B is followed by its own U or x of the same key."""
    return olds == pairs


def each_has_its_row(updates: int, changed: int) -> bool:
    """Check b: every U changed a row of an earlier step, or inserted one."""
    return updates == changed


def none_is_ours(deleted: int) -> bool:
    """Check d: the DELETE ended no row that this step wrote."""
    return deleted == 0
