r"""A small step needs no staging table: its events are one parameter of its statement, an array of a row type.

PostgreSQL empties every ON COMMIT DELETE ROWS table of a session at each commit that used a temporary table, so a
session that mirrors many tables pays at each commit for every staging table that it ever created. A row type has no
storage. It holds the staged columns with the target's types, so a value takes the same path as in COPY: the input
function of its type, with the type's modifier. (A cast of text to varchar(3) would cut a longer value instead of
rejecting it.) The general step handles or reports everything that a small step cannot do or that the server rejects.

A sweep commits small steps of several lanes in one transaction, each under its own fence (ADR 85). The fences are taken
first, in one statement that waits for no row: a row that a registration or another worker has locked is skipped, so no
two sweeps can wait for each other's rows. Only the effects of lanes whose fence matched are sent, in one message. The
wait for a target's lock is short, because the transaction holds the rows of all its lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.progress import LaneKey, ProgressRow
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pipe import value_of
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.ports.sink import BufferedStep, Top
from slotkeeper.core.sinks.postgres.progress.store import key_of, row_of
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write import routing
from slotkeeper.core.sinks.postgres.write import statements as compose
from slotkeeper.core.sinks.postgres.write.statements import TargetTable

SQL, Identifier = pg.sql.SQL, pg.sql.Identifier

MOST_BYTES, MOST_LINES = 65_536, 600
"""Size up to which a step is small: beyond it, COPY costs less than building and parsing the array."""
KINDS = frozenset(("I", "d", "B", "U", "x"))
"""The types of events that a step can apply."""
REJECTED = ("22", "23", "42")
"""SQLSTATE classes after which the general step applies the same events: it finds the row, and names the error."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a target's small steps: the fields of a line, those of the key, and the limit of lines, exclusive."""

    fields: int
    keys: tuple[int, ...]
    below: int


def form_of(table: TargetTable, options: SinkOptions) -> Form | None:
    """Return the form of a target's small steps; None if all its steps need a staging table."""
    if (
        table.dialect.plain
        or len(table.types) != len(table.columns)
        or compose.needs_net(table, options)
        or options.write_mode not in ("auto", "update_auto", "upsert", "update")
    ):
        return None
    keys = tuple(place + 2 for place in table.places)
    return Form(len(table.columns) + 3, keys, min(MOST_LINES, options.copy_write_batch_size))


@dataclass(frozen=True, slots=True)
class SmallStep:
    """The events of a step: as the text of an array, their number, and the input from which they can be staged.

    `tops`: the highest sequence of each sync point.
    """

    array: str
    rows: int
    lines: bytes
    tops: dict[int, int]

    def top(self, up_to: int) -> Top:
        """Return the highest sync point, and the highest sequence at `up_to`."""
        return Top(max(self.tops, default=None), self.tops.get(up_to))


def read(lines: bytes, form: Form) -> SmallStep | None:
    r"""Return the step of these lines of COPY text; None if the general step has to handle them.

    It handles too many bytes or lines, text that is not UTF-8, events that no step can apply, and malformed lines.

    >>> read(b"7\t1\tI\t5\ta\\tb\n", Form(5, (3,), 10)).array
    '{"(\\"7\\",\\"1\\",\\"I\\",\\"5\\",\\"a\tb\\")"}'
    """
    number = lines.count(b"\n")
    if len(lines) > MOST_BYTES or number >= min(routing.LEAST, form.below):
        return None
    try:
        *texts, rest = lines.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    if rest:
        return None
    tops: dict[int, int] = {}
    rows = []
    for text in texts:
        fields = text.split("\t")
        if len(fields) != form.fields or fields[2] not in KINDS or any(fields[place] == "\\N" for place in form.keys):
            return None
        try:
            point, sequence = int(fields[0]), int(fields[1])
        except ValueError:
            return None
        tops[point] = max(sequence, tops.get(point, sequence))
        rows.append(_element(text, fields))
    return SmallStep("{" + ",".join(rows) + "}", number, lines, tops)


def _element(text: str, fields: list[str]) -> str:
    """Return an array element that holds a row; quotes and backslashes are escaped once for the row, and once for the
    array (PostgreSQL, "Composite Type Input and Output Syntax").
    """
    if "\\" not in text and '"' not in text:
        inner = text.replace("\t", '\\",\\"')
        return f'"(\\"{inner}\\")"'
    values = ("" if value is None else f'\\"{_escaped(value)}\\"' for value in map(value_of, fields))
    return f'"({",".join(values)})"'


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\\\\\").replace('"', '\\\\\\"')


def create_type(table: TargetTable) -> pg.sql.Composable:
    """Return CREATE for the session's row type of a target's events."""
    return SQL('CREATE TYPE {} AS (point bigint, sequence bigint, kind "char", {})').format(
        _type(table), compose.typed(table)
    )


def _type(table: TargetTable) -> pg.sql.Composable:
    return Identifier("pg_temp", table.row_type)


def prepare(table: TargetTable, options: SinkOptions) -> pg.sql.Composable:
    """Return PREPARE for the statement that applies a small step; its parameter is the array of events."""
    events = SQL("{} AS MATERIALIZED (SELECT * FROM unnest($1)), ").format(Identifier(table.staging))
    whole = compose.straight_update if options.updates_only else compose.straight
    return SQL("PREPARE {} ({}[]) AS {}").format(
        Identifier(table.row_type), _type(table), whole(table, options, events)
    )


SWEEPS: Book = ("slotkeeper.core.sinks.postgres.write", "small_step.sql")
LOCK_MS = 50
"""Maximum wait for a lock of a target in a sweep; the target's own step then waits for `lock_timeout`."""


class Owner(Protocol):
    """The sink of one target."""

    def prepare_small(self) -> bool:
        """Create the objects that the target's small steps need in this session; return False if the server refuses."""

    def execute_small(self, cursor: pg.Cursor, step: SmallStep) -> pg.sql.Composable:
        """Return the statement that applies a step; prepares it if needed."""

    def count_small(self, step: SmallStep) -> None: ...


@dataclass(frozen=True, slots=True)
class BufferedSmall:
    """A buffered small step and the sink of its target."""

    owner: Owner
    step: SmallStep

    def top(self, up_to: Position) -> Top:
        return self.step.top(up_to.pair[0])


def read_rows(session: SinkSession, positions: Positions, keys: Sequence[LaneKey]) -> dict[LaneKey, ProgressRow]:
    found: dict[LaneKey, ProgressRow] = {}
    with session.transaction() as cursor:
        for table, *row in session.run(cursor, "rows", _lanes(keys), SWEEPS).fetchall():
            key = LaneKey(keys[0].source, table, keys[0].slot, row[0])
            found[key] = row_of(key, tuple(row), positions)
    return found


def take_fences(session: SinkSession, cursor: pg.Cursor, steps: Sequence[BufferedStep]) -> Set[LaneKey]:
    """Update the rows of the lanes whose fence matches and whose row is not locked; return these lanes."""
    values: dict[str, object] = {
        **_lanes([step.key for step in steps]),
        "epochs": [step.epoch for step in steps],
        "afters": [step.after.text for step in steps],
        "news": [step.new.text for step in steps],
        "rows": [step.rows for step in steps],
        "lock_ms": LOCK_MS,
    }
    lanes = {(step.key.source_table, step.key.shard): step.key for step in steps}
    return {lanes[table, shard] for table, shard in session.run(cursor, "fences", values, SWEEPS).fetchall()}


def apply(cursor: pg.Cursor, steps: Sequence[tuple[Owner, SmallStep]]) -> None:
    """Apply the steps in one message."""
    if statements := [owner.execute_small(cursor, step) for owner, step in steps if step.rows]:
        cursor.execute(pg.sql.SQL("; ").join(statements))


def _lanes(keys: Sequence[LaneKey]) -> Mapping[str, object]:
    one = key_of(keys[0])
    lanes = {"tables": [key.source_table for key in keys], "shards": [key.shard for key in keys]}
    return {"source": one["source"], "slot": one["slot"], **lanes}
