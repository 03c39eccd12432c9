"""Which statements a step is applied with: from write mode, options and the number of rows staged.

`upsert` and `update` keep one plan for many small steps (they are prepared in the session, as the vendor's client
prepares its batches); the modes with `copy` are planned for the sizes of each step. `auto` and `update_auto` choose by
`copy_write_batch_size`. Rows travel by COPY in every mode: they have to be in the session before the second look.

Next door: `effects.py` composes; `sink.py` runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.domain.spec import SinkOptions
from core.drivers import pg
from core.sinks.postgres.write import effects
from core.sinks.postgres.write.statements import TargetTable, create_staging

SQL, Identifier = pg.sql.SQL, pg.sql.Identifier

RARELY = 100
"""Uses of a kept plan before it is made anew: a table may have grown since."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A step's statements in order; `kept` where they are prepared once and their plan is used again.

    `mode` is the write mode that was chosen, never an automatic one; `instead` does the work of the last statement
    where the server refuses that for now (DWS: no MERGE during redistribution).
    """

    mode: str
    statements: tuple[pg.sql.Composable, ...]
    kept: bool
    instead: pg.sql.Composable | None = None


def chosen(options: SinkOptions, rows: int) -> str:
    """The write mode for a step of so many staged rows.

    >>> chosen(SinkOptions(copy_write_batch_size=10), 9), chosen(SinkOptions(copy_write_batch_size=10), 10)
    ('upsert', 'copy_upsert')
    """
    small, large = {"auto": ("upsert", "copy_upsert"), "update_auto": ("update", "copy_update")}.get(
        options.write_mode, (options.write_mode, options.write_mode)
    )
    return small if rows < options.copy_write_batch_size else large


def size_of(rows: int) -> int:
    """The class of sizes that one kept plan serves: a plan for thousands of rows is a bad one for two.

    >>> [size_of(rows) for rows in (1, 3, 4, 15, 16, 5_000)]
    [0, 1, 1, 2, 2, 6]
    """
    return rows.bit_length() // 2


def needs_net(table: TargetTable, options: SinkOptions) -> bool:
    """Whether steps go through the table of net effects."""
    if options.write_mode == "copy_merge" or table.kind == "dws":
        return True
    return not options.updates_only and not effects.last_is_enough(table, options)


def temporary(table: TargetTable, options: SinkOptions) -> tuple[pg.sql.Composable, ...]:
    """The session's own tables that steps need."""
    staging = create_staging(table)
    return (staging, effects.create_net(table)) if needs_net(table, options) else (staging,)


def plan(table: TargetTable, options: SinkOptions, rows: int) -> Plan:
    """How a step of so many staged rows is applied."""
    mode = chosen(options, rows)
    kept = mode in ("upsert", "update")
    if not needs_net(table, options):
        straight = effects.straight_update if options.updates_only else effects.straight
        return Plan(mode, (straight(table, options),), kept)
    origin = SQL("{} s").format(Identifier(table.net))
    upsert = effects.upsert(table, options, origin, SQL(" WHERE s.writes"))
    first = (effects.fill_net(table, options), effects.delete(table, origin))
    if options.updates_only:
        return Plan(mode, (*first, effects.update(table, options, origin)), kept)
    if mode != "copy_merge":
        return Plan(mode, (*first, upsert), kept)
    merge = effects.merge(table, options, origin)
    return Plan(mode, (*first, merge), kept, upsert if table.kind == "dws" else None)


def chunk(table: TargetTable, options: SinkOptions) -> Plan:
    """How a staged chunk of the copy is brought into a target with rows: by the options, as inserts."""
    origin = SQL("(SELECT *, true AS writes, false AS deletes FROM {}) s").format(Identifier(table.staging))
    upsert = effects.upsert(table, options, origin, SQL(""))
    if options.updates_only:
        return Plan(options.write_mode, (effects.update(table, options, origin),), False)
    if options.write_mode != "copy_merge":
        return Plan(options.write_mode, (upsert,), False)
    merge = effects.merge(table, options, origin)
    return Plan(options.write_mode, (merge,), False, upsert if table.kind == "dws" else None)


def execute(cursor: pg.Cursor, plan: Plan) -> None:
    """Run a step's statements once, as they are."""
    for statement in plan.statements[:-1]:
        cursor.execute(statement)
    _last(cursor, plan.statements[-1], plan.instead)


def _last(cursor: pg.Cursor, statement: pg.sql.Composable, instead: pg.sql.Composable | None) -> None:
    """A statement, or the other one where the server says that it does not support this one now."""
    if instead is None:
        cursor.execute(statement)
        return
    cursor.execute("SAVEPOINT slotkeeper_last")
    try:
        cursor.execute(statement)
    except pg.DriverError as error:
        if pg.failure(error)[0] != "0A000":  # feature_not_supported
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT slotkeeper_last")
        cursor.execute(instead)
