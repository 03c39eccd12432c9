"""Rows of a binlog in Flink's binary layout, decoded to what a SELECT would show. Pure.

A byte for the row's kind, a bit for each NULL from bit 8 on, padded to eight bytes; a slot of eight bytes for each
field; then what does not fit a slot. The first three fields are LSN, event type and time, then the table's columns.
Source: Flink, BinaryRowData; that Hologres has the same layout follows from holo-client, whose BinaryRow is Flink's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from slotkeeper.core.domain.slot import Column
from slotkeeper.core.sources.hologres.stream.values import field_of, garbled, piece

OWN_FIELDS = 3
"""LSN, event type and time, before the table's columns."""


@dataclass(frozen=True, slots=True)
class LoggedRow:
    """A row of the binlog: its LSN, the number of its event type, its time in microseconds since 1970, its columns.

    Columns are PostgreSQL's texts, None for NULL.
    """

    lsn: int
    event: int
    at_us: int
    columns: tuple[str | None, ...]


class RowReader:
    """Reads the rows of one table; `columns` are its own in the order of its DDL (or those that were asked for)."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._fields = tuple(field_of(column) for column in columns)
        arity = OWN_FIELDS + len(self._fields)
        self._bits = (arity + 63 + 8) // 64 * 8
        self._fixed = struct.Struct(f"<{self._bits}s3q{''.join(one.code for one in self._fields)}")

    def row(self, raw: bytes, bare: frozenset[int] = frozenset()) -> LoggedRow:
        """The row; where its event type is in `bare`, its columns are not looked into and it has none."""
        if len(raw) < self._fixed.size:
            raise garbled(f"a row of {len(raw)} bytes, where its slots take {self._fixed.size}")
        bits, lsn, event, at_us, *slots = self._fixed.unpack_from(raw)
        gone = int.from_bytes(bits, "little") >> 8
        if gone & 0b111:
            raise garbled("a row without its LSN, event type or time")
        if event in bare:
            return LoggedRow(lsn, event, at_us, ())
        gone >>= OWN_FIELDS
        texts: list[str | None] = []
        for place, field in enumerate(self._fields):
            if gone >> place & 1:
                texts.append(None)
                continue
            value = slots[place]
            texts.append(field.text(piece(raw, value) if field.variable else value))
        return LoggedRow(lsn, event, at_us, tuple(texts))
