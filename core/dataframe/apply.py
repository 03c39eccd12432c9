"""`apply_changes` for `foreachBatch`: the streaming writer's two steps, called by a program of a user's.

Next door: `writer/source.py` is the same as a format of Spark's; `writer/task.py` does the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from core.dataframe.writer import task
from core.dataframe.writer.source import QUERY_ID, fields_of
from core.dataframe.writer.spec import WriterSpec, spec_of
from core.errors import ConfigError
from core.ports.stream import QueryBatch, Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ANSWER = "token bigint, rows bigint"


@dataclass(frozen=True, slots=True)
class _Part:
    """What a task of `mapInArrow` runs."""

    spec: WriterSpec
    place: str
    query: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with task.spoken():
            staged = task.stage(self.spec, self.place, self.query, batches)
        yield pa.RecordBatch.from_pydict({"token": [staged.token], "rows": [staged.rows]})


def apply_changes(
    df: DataFrame, batch: int, *, sink: str, table: str, key: str | Sequence[str] = (), query: str = "", **options: Any
) -> bool:
    """Write a batch of changes (or of plain rows) into a table, in one transaction, once; False where it is there.

    For `foreachBatch`: `lambda df, batch: apply_changes(df, batch, config=..., sink="mart", table="dwd.orders")`. `key`
    names the key's columns where the reader's are not to be used. `query` is the id that the fence keeps; inside
    `foreachBatch` it is the query's own. `options` are those of `format("slotkeeper_postgres")`. Raises
    `core.dataframe.writer.task.QueryError`.
    """
    with task.spoken():
        spelled = key if isinstance(key, str) else ",".join(key)
        given = {"sink": sink, "table": table, **({"key": spelled} if spelled else {}), **options}
        spec = spec_of({name: _text(value) for name, value in given.items()}, fields_of(df.schema))
        known = query or _query_of(df)
        part = _Part(spec, task.admit(spec), known)
        answers = df.mapInArrow(part, _ANSWER).collect()
        staged = [Staged(one["token"], one["rows"]) for one in answers]
        return task.commit(spec, QueryBatch(known, batch), staged)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _query_of(df: DataFrame) -> str:
    found = df.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if not found:
        what = "this batch belongs to no query of Spark's, so that nothing says which batches are there"
        raise ConfigError(what, "call it inside foreachBatch, or give query= a name of your own and count batch up")
    return str(found)
