"""Encode Arrow batches of a changelog (or of plain rows) as CSV lines for the staging table, one batch at a time.

CSV is used because Arrow writes it without Python code per value, and because it is exact: NULL is written as an empty
field, an empty string is written as two quotes, and COPY reads both correctly (PostgreSQL, COPY, "CSV Format": a NULL
is distinguished by not being quoted).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from slotkeeper.core.dataframe import changelog
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused

_LINES = pc_csv.WriteOptions(include_header=False, quoting_style="needed")
_UTC = pa.timestamp("us", "UTC")


class Lines(io.RawIOBase, BinaryIO):
    """Batches as a file of CSV lines that can be read once; `rows` counts the lines read, `left_out` the omitted rows.

    `broken` is an error raised while a batch was produced; it is stored because a database driver that reads a file
    suppresses it.
    """

    def __init__(
        self, batches: Iterable[pa.RecordBatch], token: int, columns: Sequence[str], key: Sequence[str] = ()
    ) -> None:
        """Prepare the lines; if `key` is given, redundant old images are omitted (`without_old_images`)."""
        super().__init__()
        staged = self._staged(batches, key) if key else batches
        self._lines = ((one.num_rows, encoded(one, token, columns)) for one in staged if one.num_rows)
        self.rows, self.left_out = 0, 0
        self.broken: BaseException | None = None

    def _staged(self, batches: Iterable[pa.RecordBatch], key: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            staged = without_old_images(batch, key)
            self.left_out += batch.num_rows - staged.num_rows
            yield staged

    def readable(self) -> bool:
        """Return True, because the file can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the lines of the next batch, regardless of `size`; empty at the end."""
        try:
            rows, lines = next(self._lines, (0, b""))
        except BaseException as error:
            self.broken = error
            raise
        self.rows += rows
        return lines


def without_old_images(batch: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    """Return the rows without those B rows that are immediately followed by their U row with the same key.

    No write mode needs such a B row. DWS, "Subscribing to Hybrid Data Warehouse Binlog": an update is B then U, with
    one sync point and consecutive sequences. Every B row that may be something else is kept: the first row, whose
    predecessor is not in this batch; a B row with the same position as the row before it, which the sink rejects; and a
    B row with a NULL in its key.
    """
    if batch.num_rows < 3 or not changelog.is_changelog(batch.schema.names):
        return batch
    change, size = batch.column(changelog.CHANGE), batch.num_rows - 2
    before, here, behind = (batch.slice(first, size) for first in range(3))
    point, sequence = here.column(changelog.POINT), here.column(changelog.SEQUENCE)
    pairs = [
        pc.equal(change.slice(1, size), changelog.BEFORE),
        pc.equal(change.slice(2, size), changelog.AFTER),
        pc.equal(behind.column(changelog.POINT), point),
        pc.equal(behind.column(changelog.SEQUENCE), pc.add(sequence, 1)),
        pc.or_(
            pc.not_equal(before.column(changelog.POINT), point),
            pc.not_equal(before.column(changelog.SEQUENCE), sequence),
        ),
        *(pc.equal(here.column(name), behind.column(name)) for name in key),
    ]
    kept = pc.invert(pc.fill_null(reduce(pc.and_kleene, pairs), False))
    ends = pa.array([True])
    return batch.filter(pa.concat_arrays([ends, kept, ends]))


def encoded(batch: pa.RecordBatch, token: int, columns: Sequence[str]) -> bytes:
    """Return the CSV lines of one batch: token, point, sequence and kind, followed by the columns in `columns`.

    Rows without changelog columns are upserts that all have the same position. Raises Refused for an unknown kind of
    change and for a change without a position.
    """
    size = batch.num_rows
    if changelog.is_changelog(batch.schema.names):
        order = [batch.column(changelog.POINT), batch.column(changelog.SEQUENCE)]
        changelog.refuse_nulls({changelog.POINT: order[0].null_count, changelog.SEQUENCE: order[1].null_count})
        kinds = _kinds(batch.column(changelog.CHANGE))
    else:
        order = [pa.repeat(pa.scalar(0, pa.int64()), size)] * 2
        kinds = pa.repeat(changelog.AFTER, size)
    written = [pa.repeat(pa.scalar(token, pa.int64()), size), *order, kinds]
    written += [_written(batch.column(name)) for name in columns]
    table = pa.Table.from_arrays(written, names=[str(n) for n in range(len(written))])
    out = io.BytesIO()
    pc_csv.write_csv(table, out, _LINES)
    return out.getvalue()


def _kinds(change: pa.Array) -> pa.Array:
    """Return the kinds of change for the sink, with copied rows as inserts."""
    known = pc.fill_null(pc.is_in(change, value_set=pa.array(changelog.KINDS, change.type)), False)
    if not pc.all(known).as_py():
        odd = pc.filter(change, pc.invert(known))[0].as_py()
        what = f"{changelog.CHANGE} is {'NULL' if odd is None else repr(safe(odd, 20))} in a row"
        raise Refused(what, f"it must be one of {', '.join(changelog.KINDS)}", where="sink")
    return pc.if_else(pc.equal(change, changelog.COPIED), changelog.INSERT, change)


def _written(values: pa.Array) -> pa.Array:
    """Return the values in a form that CSV and the server preserve exactly."""
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        return values.cast(_UTC)  # written with the suffix Z; other time zones would need a time zone database
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return pa.array([None if one is None else "\\x" + one.hex() for one in values.to_pylist()], pa.string())
    return values
