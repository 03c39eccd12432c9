"""Histories as the changelog that a DataFrame has: Arrow batches with the columns of
`slotkeeper.core.dataframe.changelog`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from slotkeeper.core.dataframe import changelog
from tests.support.histories import COLUMNS
from tests.support.oracle import Accepts, Event

_INTS = ("h", "k", "a")
SCHEMA = pa.schema(
    [
        (changelog.CHANGE, pa.string()),
        (changelog.DN, pa.string()),
        (changelog.POINT, pa.int64()),
        (changelog.SEQUENCE, pa.int64()),
        *((name, pa.int32() if name in _INTS else pa.string()) for name in COLUMNS),
    ]
)


def row_of(event: Event, accepts: Accepts | None = None) -> dict[str, Any]:
    """An event as a row; old images hold their key alone or, every other one, values that must not get anywhere."""
    image: dict[str, Any] = dict(event.image) if event.image is not None else {"h": event.key[0], "k": event.key[1]}
    kind = event.kind
    if event.image is not None and accepts is not None and not accepts(event.image):
        kind = changelog.DELETE
    if event.image is None and event.sequence % 2:
        image |= {"a": -1, "b": "old", "tags": "{-1}", "j": "-1"}
    ours = {changelog.CHANGE: kind, changelog.DN: f"dn_{event.key[0] % 3}"}
    return ours | {changelog.POINT: event.point, changelog.SEQUENCE: event.sequence} | image


def batches_of(events: Iterable[Event], size: int, accepts: Accepts | None = None) -> list[pa.RecordBatch]:
    """Record batches of at most `size` rows."""
    rows = [row_of(event, accepts) for event in events]
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    return [pa.RecordBatch.from_pylist(part, SCHEMA) for part in parts]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Their rows."""
    return [row for batch in _checked(batches) for row in batch.to_pylist()]


def _checked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        assert batch.schema == SCHEMA
        yield batch
