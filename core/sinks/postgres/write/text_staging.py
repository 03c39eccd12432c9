"""The statements of an isolating step: its events as text, the net effect per key, and pieces of that effect.

Keys are compared as text, in a form that is the same for equal keys (`one_text`). This way, keys that do not fit the
target's types can be compared too. Rows to apply are converted only by COPY, from Slotkeeper's own table into the
step's staging table, so every type is read as in a normal step. Bytes that the sink's encoding cannot store are escaped
and marked by `Readable`, which only isolating steps use.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import BinaryIO

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg, pg_types
from slotkeeper.core.sinks.postgres.write.statements import TargetTable, all_staged


class Readable(io.RawIOBase):
    """A reader of whole lines; `codec` is the server's encoding, empty if the server stores any bytes.

    A line of a step has its kind in the third field; if lines have no kind (`kinds` False), an I precedes each line.
    """

    def __init__(self, lines: BinaryIO, codec: str, kinds: bool = True) -> None:
        self._lines, self._codec, self._kinds = lines, codec, kinds
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes, and at least one byte before the end of the data."""
        parts, there = [self._rest], len(self._rest)
        while size < 0 or there < size:
            line = self._lines.readline()
            if not line:
                break
            parts.append(self._one(line))
            there += len(parts[-1])
        text = b"".join(parts)
        out, self._rest = (text, b"") if size < 0 else (text[:size], text[size:])
        return out

    def _one(self, line: bytes) -> bytes:
        kept = spelled(line, self._codec)
        mark = b"I\t" if kept is line else b"i\t"
        if not self._kinds:
            return mark + kept
        if kept is line:
            return line
        point, sequence, kind, rest = kept.split(b"\t", 3)
        return b"\t".join((point, sequence, kind.lower() if kind in (b"I", b"U") else kind, rest))


def spelled(line: bytes, codec: str) -> bytes:
    r"""Return the line with bytes or characters that the encoding cannot represent escaped as \xNN or \uNNNN.

    >>> spelled(b"caf\xe9\n", "utf-8"), spelled("5 €".encode(), "latin-1"), spelled("5 €".encode(), "utf-8")
    (b'caf\\\\xe9\n', b'5 \\\\u20ac', b'5 \xe2\x82\xac')
    """
    try:
        text = line.decode("utf-8")
        if codec and codec != "utf-8":
            text.encode(codec)
    except UnicodeError:
        text = line.decode("utf-8", "surrogateescape")
        return "".join(_shown(one, codec or "utf-8") for one in text).encode()
    return line


def _shown(one: str, codec: str) -> str:
    code = ord(one)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\\\x{code - 0xDC00:02x}"
    try:
        one.encode(codec)
    except UnicodeError:
        return f"\\\\u{code:04x}" if code < 0x10000 else f"\\\\U{code:08x}"
    return one


SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
Composable = pg.sql.Composable

_EVENTS = """
SELECT point, sequence, kind, key, {columns},
       CASE WHEN kind = 'B' AND leads THEN point || '/' || (sequence + 1)
            WHEN kind IN ('U', 'u') AND follows AND last_key <> key THEN point || '/' || sequence ELSE '' END AS pair
FROM (
  SELECT *, lead(kind) OVER w IN ('U', 'u') AND lead(point) OVER w = point
              AND lead(sequence) OVER w = sequence + 1 AS leads, lead(key) OVER w AS next_key,
         lag(kind) OVER w = 'B' AND lag(point) OVER w = point AND lag(sequence) OVER w = sequence - 1 AS follows,
         lag(key) OVER w AS last_key
  FROM (SELECT *, {key} AS key FROM {texts}{kept}) t WINDOW w AS (ORDER BY point, sequence)) r
WHERE NOT (kind = 'B' AND coalesce(leads, false) AND next_key = key)
"""
"""The relevant events, each with its key; the two halves of a changed key have the same `pair`.

DWS: an update is B, then U, with consecutive sequences at one sync point. i and u denote an I and a U whose text the
sink cannot store.
"""

_FINALS = """
SELECT *, CASE WHEN pair = '' THEN 1 ELSE count(*) OVER (PARTITION BY pair) END AS halves
FROM (SELECT *, row_number() OVER (PARTITION BY key ORDER BY point DESC, sequence DESC) AS back,
             sum(CASE WHEN kind IN ('I', 'U', 'i', 'u') THEN 0 ELSE 1 END) OVER (PARTITION BY key) AS ends
      FROM ({events}) e{only}) f
WHERE back = 1
"""
"""The last event of each key. It has the whole row, so only a flag is added for whether the key's row was deleted."""

_UNITS = """
INSERT INTO {units} (unit, point, sequence, kind, pair, ended, key, {columns})
SELECT dense_rank() OVER (ORDER BY point, CASE WHEN kind = 'B' AND {paired} THEN sequence + 1 ELSE sequence END),
       point, sequence, kind, CASE WHEN {paired} THEN pair ELSE '' END,
       kind IN ('I', 'U', 'i', 'u') AND ends > 0, key, {columns}
FROM ({finals}) g
"""
"""Units to apply or quarantine together: the last event of a key, or both halves of a changed key if both are last."""


def create(table: TargetTable) -> tuple[Composable, ...]:
    """Return CREATE for two tables, the second indexed by unit; they exist per connection and are emptied on commit."""
    columns = SQL(", ").join(SQL("{} text").format(Identifier(f"c{n}")) for n in range(1, len(table.columns) + 1))
    made = "CREATE TEMP TABLE IF NOT EXISTS {} ({}{}) ON COMMIT DELETE ROWS{}"
    event = 'point bigint, sequence bigint, kind "char", '
    unit = 'unit bigint, point bigint, sequence bigint, kind "char", pair text, ended boolean, key text[], '
    return (
        SQL(made).format(Identifier(table.texts), SQL(event), columns, table.dialect.spread([SQL("point")])),
        SQL(made).format(Identifier(table.units), SQL(unit), columns, table.dialect.spread([SQL("unit")])),
        SQL("CREATE INDEX {} ON {} (unit)").format(Identifier(f"{table.units}_unit"), Identifier(table.units)),
    )


def fill(table: TargetTable, chunk: bool = False) -> Composable:
    """Return the COPY statement for a step's events, or for a chunk's rows, each preceded by a kind."""
    if not chunk:
        return SQL("COPY {} FROM STDIN").format(Identifier(table.texts))
    return SQL("COPY {} (kind, {}) FROM STDIN").format(Identifier(table.texts), all_staged(table))


def units(table: TargetTable, options: SinkOptions, besides: Composable | None = None) -> Composable:
    """Return a statement that fills the table of units with the last event of each key.

    `besides` is a SELECT of (point, sequence, key) of the events just quarantined. With it, the table is filled with
    the last event that precedes a quarantined event of the same key.
    """
    kept = SQL(" WHERE kind <> 'd'") if options.ignore_delete else SQL("")
    columns = all_staged(table)
    events = SQL(_EVENTS).format(columns=columns, key=one_text(table), texts=Identifier(table.texts), kept=kept)
    only: Composable = SQL("")
    if besides is not None:
        only = SQL(
            " WHERE key IN (SELECT key FROM ({0}) b)"
            " AND NOT EXISTS (SELECT 1 FROM ({0}) b WHERE b.point = e.point AND b.sequence = e.sequence)"
        ).format(besides)
    finals = SQL(_FINALS).format(events=events, only=only)
    paired = SQL("halves = 2" if besides is None else "false")
    return SQL(_UNITS).format(units=Identifier(table.units), columns=columns, paired=paired, finals=finals)


def earlier_images(table: TargetTable) -> Composable:
    """Return a statement that adds each removed key's last image before its removal as kind p of the key's unit.

    A soft delete writes the marked row with that image, which the target may not have yet.
    """
    columns, origin = all_staged(table), Identifier(table.texts)
    images = SQL("SELECT *, {} AS key FROM {} WHERE kind IN ('I', 'U')").format(one_text(table), origin)
    return SQL(
        "INSERT INTO {units} (unit, point, sequence, kind, pair, ended, key, {columns})"
        " SELECT DISTINCT ON (u.unit, u.key) u.unit, i.point, i.sequence, 'p', '', false, u.key, {values}"
        " FROM {units} u JOIN ({images}) i ON i.key = u.key AND (i.point, i.sequence) < (u.point, u.sequence)"
        " WHERE u.kind IN ('d', 'B', 'x') ORDER BY u.unit, u.key, i.point DESC, i.sequence DESC"
    ).format(
        units=Identifier(table.units),
        columns=columns,
        images=images,
        values=SQL(", ").join(SQL("i.{}").format(Identifier(f"c{n}")) for n in range(1, len(table.columns) + 1)),
    )


def chunk_units(table: TargetTable) -> Composable:
    """Return a statement that fills the table of units with a chunk's rows, one unit per row."""
    return SQL(
        "INSERT INTO {units} (unit, point, sequence, kind, pair, ended, key, {columns})"
        " SELECT row_number() OVER (), 0, -1, kind, '', false, {key}, {columns} FROM {texts}"
    ).format(
        units=Identifier(table.units), columns=all_staged(table), key=one_text(table), texts=Identifier(table.texts)
    )


def piece(table: TargetTable, first: int, last: int, kinds: str = "") -> Composable:
    """Return COPY TO for the units from `first` to `last` as events of a step, limited to `kinds` if given.

    A delete contains only the key; a key that was deleted and written again has a delete before its last event.
    """
    where = SQL("FROM {} WHERE unit BETWEEN {} AND {}").format(Identifier(table.units), Literal(first), Literal(last))
    if kinds:
        where = SQL("{} AND kind IN ({})").format(where, SQL(", ").join(map(Literal, kinds)))
    last_ones = [
        Identifier(f"c{n}")
        if n in table.places
        else SQL("CASE WHEN kind IN ('I', 'U', 'p') THEN {} END").format(Identifier(f"c{n}"))
        for n in range(1, len(table.columns) + 1)
    ]
    return SQL(
        "COPY (SELECT point, 2 * sequence, 'x', {keys} {where} AND ended"
        " UNION ALL SELECT point, 2 * sequence + 1, CASE kind WHEN 'p' THEN 'I' ELSE kind END, {columns} {where})"
        " TO STDOUT"
    ).format(keys=_only_keys(table), where=where, columns=SQL(", ").join(last_ones))


def ends(table: TargetTable, unit: int) -> Composable:
    """Return COPY TO for the delete of a unit whose last event cannot be applied; it yields no row without a delete."""
    return SQL("COPY (SELECT point, sequence, 'x', {} FROM {} WHERE unit = {} AND ended) TO STDOUT").format(
        _only_keys(table), Identifier(table.units), Literal(unit)
    )


def rows(table: TargetTable, first: int, last: int) -> Composable:
    """Return the COPY TO statement for a chunk's rows."""
    return SQL("COPY (SELECT {} FROM {} WHERE unit BETWEEN {} AND {}) TO STDOUT").format(
        all_staged(table), Identifier(table.units), Literal(first), Literal(last)
    )


def entries(table: TargetTable, origin: Composable) -> Composable:
    """Return COPY TO for quarantine entries as events before all others: old halves delete their keys, others write.

    Values are found by name, because the table's columns can have another order now. The servers that DWS is based on
    have no array_position (PostgreSQL 9.5, "Release Notes").
    """
    values = []
    for n, name in enumerate(table.columns, 1):
        text = SQL("(SELECT texts[i] FROM generate_subscripts(names, 1) i WHERE names[i] = {})").format(Literal(name))
        values.append(text if n in table.places else SQL("CASE WHEN kind <> 'B' THEN {} END").format(text))
    return SQL("COPY (SELECT -1, id, CASE WHEN kind = 'B' THEN 'x' ELSE 'U' END, {} FROM {}) TO STDOUT").format(
        SQL(", ").join(values), origin
    )


def one_text(table: TargetTable) -> Composable:
    """Return the key of an event stored as text: keys that are equal in the source's type have equal text[]."""
    return _array(table, [Identifier(f"c{n}") for n in table.places])


def one_text_typed(table: TargetTable) -> Composable:
    """Return the same key for an event that is stored in the target's types."""
    plain = table.bases or table.types
    return _array(table, [pg.text_form(plain[n - 1], Identifier(f"c{n}")) for n in table.places])


def touched(table: TargetTable, options: SinkOptions) -> Composable:
    """Return a SELECT for the keys of a step that is staged in the target's types."""
    kept = SQL(" WHERE kind <> 'd'") if options.ignore_delete else SQL("")
    return SQL("SELECT {} FROM {}{}").format(one_text_typed(table), Identifier(table.staging), kept)


def touched_units(table: TargetTable) -> Composable:
    """Return a SELECT for the keys of an isolating step."""
    return SQL("SELECT key FROM {}").format(Identifier(table.units))


_FORMS = {
    pg_types.TEXT: "{}",
    pg_types.NUMBER: "CASE WHEN position('.' IN {0}) > 0 THEN rtrim(rtrim({0}, '0'), '.') ELSE {0} END",
    pg_types.FLOAT: "(CASE WHEN {0} = '-0' THEN '0' ELSE {0} END)::float8::text",
    pg_types.SINGLE: "(CASE WHEN {0} = '-0' THEN '0' ELSE {0} END)::float4::text",
    pg_types.SPAN: "justify_interval({}::interval)::text",
}


def _array(table: TargetTable, texts: Sequence[Composable]) -> Composable:
    forms = table.forms or (pg_types.TEXT,) * len(texts)
    return SQL("ARRAY[{}]").format(
        SQL(", ").join(SQL(_FORMS[form]).format(text) for form, text in zip(forms, texts, strict=True))
    )


def _only_keys(table: TargetTable) -> Composable:
    places = range(1, len(table.columns) + 1)
    return SQL(", ").join(Identifier(f"c{n}") if n in table.places else SQL("NULL") for n in places)
