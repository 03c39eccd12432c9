"""`apply_changes`, with which a program's `foreachBatch` function runs both steps of the streaming writer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from slotkeeper.core.dataframe.writer import source
from slotkeeper.core.dataframe.writer.source import QUERY_ID, fields_of
from slotkeeper.core.dataframe.writer.spec import WriterSpec, spec_of
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.ports.sink import QueryBatch, Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JOB_GROUP = "spark.jobGroup.id"
"""The local property in which Spark stores the id of a query run."""
_ANSWER = "token bigint, rows bigint, left_out bigint"


@dataclass(frozen=True, slots=True)
class _Part:
    """The function of a `mapInArrow` task."""

    spec: WriterSpec
    place: str
    query: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with source.spoken():
            staged = source.stage(self.spec, self.place, self.query, batches)
        answer = {"token": [staged.token], "rows": [staged.rows], "left_out": [staged.left_out]}
        yield pa.RecordBatch.from_pydict(answer)


def apply_changes(
    df: DataFrame, batch: int, *, sink: str, table: str, key: str | Sequence[str] = (), query: str = "", **options: Any
) -> bool:
    """Write a batch of changes or plain rows to a table once, in one transaction; return False if already written.

    For `foreachBatch`: `lambda df, batch: apply_changes(df, batch, config=..., sink="mart", table="dwd.orders")`. `key`
    names the key columns; by default, the reader's key columns are used. `query` is the id stored in the fence; in
    `foreachBatch` it defaults to the query's own id. `options` are those of `format("slotkeeper_postgres")`. Raises
    `slotkeeper.core.dataframe.writer.source.QueryError`.
    """
    with source.spoken():
        spelled = key if isinstance(key, str) else ",".join(key)
        given = {"sink": sink, "table": table, **({"key": spelled} if spelled else {}), **options}
        spec = spec_of(
            {name: (str(value).lower() if isinstance(value, bool) else str(value)) for name, value in given.items()},
            fields_of(df.schema),
        )
        known = query or str(df.sparkSession.sparkContext.getLocalProperty(QUERY_ID) or "")
        if not known:
            what = "this batch has no Spark query, so its earlier batches are unknown"
            raise ConfigError(what, "call it inside foreachBatch, or pass your own name as query= and increase batch")
        with _Run(df, spec, known).once(batch):
            part = _Part(spec, source.admit(spec), known)
            answers = df.mapInArrow(part, _ANSWER).collect()
            staged = [Staged(one["token"], one["rows"], one["left_out"]) for one in answers]
            return source.commit(spec, QueryBatch(known, batch), staged)


class _Run:
    """One run of a query for one table; allows one call for each batch, also among the threads of this program.

    The fence cannot distinguish a second DataFrame of a batch from a repeated batch, so without this check the second
    DataFrame would be silently dropped. A query that is restarted in the same program has a new run id (Spark's job
    group).
    """

    called: ClassVar[dict[tuple[str, str, str], tuple[str, int]]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, df: DataFrame, spec: WriterSpec, query: str) -> None:
        self._place = (spec.sink.endpoint.place, spec.target.name, query)
        self._run = str(df.sparkSession.sparkContext.getLocalProperty(JOB_GROUP) or "")

    @contextmanager
    def once(self, batch: int) -> Iterator[None]:
        """Raise ConfigError if this run has called for the batch; a call that raises an error can be repeated."""
        if not self._run:
            yield
            return
        with self._lock:
            if self.called.get(self._place) == (self._run, batch):
                what = f"{self._place[1]}: this program has already called apply_changes for batch {batch}"
                raise ConfigError(what, "union the DataFrames of a batch, and call apply_changes once for each table")
            self.called[self._place] = (self._run, batch)
        try:
            yield
        except BaseException:
            with self._lock:
                self.called.pop(self._place, None)
            raise
