"""Read a part on a worker as Arrow batches, with a status check before and after the rows.

If the status after the rows reports different points or a different table, the rows may have been read across the gap
left by a TRUNCATE, so the task and its batch fail. A worker keeps its sessions between tasks.

Arrow's CSV reader parses and converts COPY text, if possible without Python code per value. PostgreSQL, "COPY, Text
Format": each line is a row, tabs separate columns, `\\N` is NULL, and a backslash escapes these separators. Arrow's
reader handles the first three; strings with a backslash and bytes are decoded here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO

import pyarrow
import pyarrow.compute
from pyarrow import csv

from slotkeeper.core.dataframe.changelog import BEGINNING, COPIED, NET, WEIGHTED, WRITES
from slotkeeper.core.dataframe.net import Reduce
from slotkeeper.core.dataframe.reader.faults import named, tried
from slotkeeper.core.dataframe.reader.parts import ChunkPart, Part, RangePart
from slotkeeper.core.dataframe.reader.schema import Layout, arrow_type
from slotkeeper.core.domain.slot import SlotStatus
from slotkeeper.core.domain.spec import Images, JobSpec
from slotkeeper.core.domain.type_name import Field, FieldKind
from slotkeeper.core.domain.watch import exactly, judge, purged, trouble
from slotkeeper.core.drivers.pipe import pieces, value_of
from slotkeeper.core.errors import Defect, RowRefused, TroubleName
from slotkeeper.core.ports.kinds import SourceSession
from slotkeeper.core.ports.source import Source
from slotkeeper.core.wiring.worker import changelog_of, changelog_session

MOST_KEPT = 4
"""Maximum number of sessions that a worker keeps for its next tasks."""
_kept: dict[tuple[JobSpec, int], SourceSession] = {}


def read(part: Part) -> Iterator[pyarrow.RecordBatch]:
    """Yield the part's batches; raises ReadFailed."""
    with named(), _session(part.job, part.epoch) as session:
        images = Images(tuple(part.layout.columns), tuple(part.only))
        log = changelog_of(session, part.job, images, part.feed if isinstance(part, RangePart) else "").source
        rows = _range(log, part) if isinstance(part, RangePart) else _chunk(log, part)
        # all changes to a key are in one part of a batch, so its net effect is that of its part
        yield from Reduce(part.layout.key)(rows) if part.layout.form == NET else rows


def _range(log: Source, part: RangePart) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a range in steps of `binlog_sync_point_size`, as a server may hold a whole result in memory."""
    status = _status(log, part)

    def copy(out: BinaryIO) -> int:
        at, rows = part.after, 0
        while at < part.up_to:
            # a source with one stream reads it here; no row of the step has been passed on, so it can be read again
            end = tried(partial(log.next_range, at, status, part.job.binlog.binlog_sync_point_size))
            if not end < part.up_to:
                end = part.up_to
            rows += log.copy_changes(part.shard, at, end, out)
            at = end
        return rows

    yield from changes(pieces(copy, PIECE), part.layout, part.shard.name)
    _status(log, part)


def _chunk(log: Source, part: ChunkPart) -> Iterator[pyarrow.RecordBatch]:
    _same_table(log, part)
    rows = pieces(partial(log.copy_chunk, part.chunk), PIECE)
    yield from copied(rows, part.layout)
    _same_table(log, part)


def _same_table(log: Source, part: ChunkPart) -> None:
    if log.identify().text != part.layout.fingerprint:
        raise trouble(TroubleName.SCHEMA_CHANGED, "the table was altered or recreated during the read")


def _status(log: Source, part: RangePart) -> SlotStatus:
    """Return the status of the part's DN; raises an error if parts of the range may be missing.

    The slot must be at the start of the part or earlier, so that the source retains all changes of the part.
    """
    (status,) = log.read_status(part.shard)
    wrong = judge(status, exactly(status.kept, part.layout.fingerprint))
    if wrong:
        raise wrong
    if gone := purged(status, part.after):
        raise gone
    there = status.kept.furthest
    if there is not None and there > part.after:
        what = f"{part.shard.name}: the slot is at {there.shown}, after {part.after.text}"
        raise trouble(TroubleName.SLOT_MOVED, f"{what}, where this batch starts")
    return status


@contextmanager
def _session(job: JobSpec, epoch: int) -> Iterator[SourceSession]:
    """Yield a session and keep it for this worker's next task; close it if an error occurs or the task stops early."""
    session = _kept.pop((job, epoch), None) or changelog_session(job, epoch, "read")
    try:
        yield session
    except BaseException:
        session.close()
        raise
    while len(_kept) >= MOST_KEPT:
        _kept.pop(next(iter(_kept))).close()
    _kept[job, epoch] = session


PIECE = 1 << 20
"""Size in bytes of the text for an Arrow batch, so that a worker's memory use does not grow with the range."""
KINDS = ("I", "U", "B", "d")
"""The event types, from DWS, "Subscribing to Hybrid Data Warehouse Binlog"."""
_PARSE = csv.ParseOptions(
    delimiter="\t", quote_char=False, escape_char=False, newlines_in_values=False, ignore_empty_lines=False
)
_COLUMN = re.compile(r"CSV column #(\d+)")


def changes(pieces: Iterable[bytes], layout: Layout, shard: str) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a binlog, each with point, sequence, type, and the layout's columns."""
    types = [pyarrow.int64(), pyarrow.int64(), pyarrow.string(), *map(_read_as, layout.fields)]
    names = ("the point", "the sequence", "the type", *(field.name for field in layout.fields))
    kinds = pyarrow.array(KINDS)  # created here, because Arrow loads pandas when it creates its first value
    for piece in pieces:
        point, sequence, kind, *values = _columns(piece, types, names)
        if not pyarrow.compute.all(pyarrow.compute.is_in(kind, kinds)).as_py():
            raise Defect(f"{shard}: an event of unknown type (not I, d, B or U)", where="source")
        lead = [kind, pyarrow.repeat(shard, len(kind)), point, sequence] if layout.form else []
        if layout.form == WEIGHTED:
            written = pyarrow.compute.is_in(kind, pyarrow.array(WRITES))
            lead.append(pyarrow.compute.if_else(written, *(pyarrow.scalar(one, pyarrow.int32()) for one in (1, -1))))
        yield _batch(layout, [*lead, *_given(layout.fields, values)])


def copied(pieces: Iterable[bytes], layout: Layout) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of a table, with the layout's columns."""
    types, names = list(map(_read_as, layout.fields)), [field.name for field in layout.fields]
    for piece in pieces:
        values = _columns(piece, types, names)
        constants = (COPIED, "", BEGINNING, BEGINNING, pyarrow.scalar(1, pyarrow.int32()))[: len(layout.lead)]
        lead = [pyarrow.repeat(one, len(values[0])) for one in constants]
        yield _batch(layout, [*lead, *_given(layout.fields, values)])


def _batch(layout: Layout, arrays: Sequence[pyarrow.Array]) -> pyarrow.RecordBatch:
    return pyarrow.RecordBatch.from_arrays(arrays, schema=layout.arrow)


def _columns(piece: bytes, types: Sequence[pyarrow.DataType], names: Sequence[str]) -> list[pyarrow.Array]:
    numbers = [str(number) for number in range(len(types))]
    reading = csv.ReadOptions(column_names=numbers, block_size=len(piece) + 1, use_threads=False)
    converting = csv.ConvertOptions(
        column_types=dict(zip(numbers, types, strict=True)),
        null_values=["\\N"],
        strings_can_be_null=True,
        true_values=["t", "true"],
        false_values=["f", "false"],
    )
    try:
        table = csv.read_csv(pyarrow.BufferReader(piece), reading, _PARSE, converting)
    except pyarrow.ArrowInvalid as error:
        # report only the column's name: Arrow's message contains the value, which may be confidential
        found = _COLUMN.search(str(error))
        name = names[int(found[1])] if found and int(found[1]) < len(names) else ""
        where = f"column {name!r} has a value outside the range of its Spark type" if name else "cannot decode a row"
        raise RowRefused(where, f'read it as text: .option("as_text", "{name or "COLUMN"}")', where="source") from None
    return [column.combine_chunks() for column in table.columns]


def _read_as(field: Field) -> pyarrow.DataType:
    """Return the Arrow type for parsing a column; strings and bytes are parsed as text and converted in `_given`."""
    return pyarrow.string() if field.type.kind is FieldKind.BYTES else arrow_type(field.type)


def _given(fields: Sequence[Field], values: Sequence[pyarrow.Array]) -> list[pyarrow.Array]:
    return [_spelled_out(field, array) for field, array in zip(fields, values, strict=True)]


def _spelled_out(field: Field, array: pyarrow.Array) -> pyarrow.Array:
    if field.type.kind is FieldKind.BYTES:
        return pyarrow.array([None if one is None else _bytes(one) for one in array.to_pylist()], pyarrow.binary())
    if field.type.kind is not FieldKind.TEXT:
        return array
    escaped = pyarrow.compute.match_substring(array, "\\")
    if not pyarrow.compute.any(escaped).as_py():
        return array
    return pyarrow.array([None if one is None else value_of(one) for one in array.to_pylist()], pyarrow.string())


def _bytes(text: str) -> bytes:
    r"""Convert a bytea value in hex format, in which COPY doubles the backslash.

    >>> _bytes(r"\\x0a41")
    b'\nA'
    """
    return bytes.fromhex(text.lstrip("\\").removeprefix("x"))
