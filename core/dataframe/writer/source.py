"""The format `slotkeeper_postgres` of `writeStream`: what Spark calls, passed on to `task.py`.

Spark makes the writer once in each batch on the driver, pickles it to the tasks, and makes it anew in the process that
commits or aborts the batch (pyspark's runner of a streaming sink). So the id of the query travels with what the
tasks answer: they find it among the local properties of their task, the committing process does not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

from slotkeeper.core.dataframe.writer import task
from slotkeeper.core.dataframe.writer.spec import Field, WriterSpec, spec_of
from slotkeeper.core.errors import ConfigError, Defect, Refused
from slotkeeper.core.ports.sink import QueryBatch, Staged

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "slotkeeper_postgres"
QUERY_ID = "sql.streaming.queryId"
"""The local property in which Spark keeps the id of a query, which its checkpoint keeps over restarts."""
COMMITTING = "pyspark.sql.worker.python_streaming_sink_runner"
"""What the process runs that makes the writer anew behind a batch: the one that began it has had it admitted."""


@dataclass(frozen=True)
class PartStaged(WriterCommitMessage):  # type: ignore[misc]  # pyspark is not typed for us
    """What one task answers: the query, and what it staged."""

    query: str
    staged: Staged


class PostgresStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """One query's writer, as Spark makes it: `place` is where tasks stage, empty until the sink was asked."""

    def __init__(self, spec: WriterSpec) -> None:
        self._spec = spec
        self._place = ""

    def admitted(self) -> PostgresStreamWriter:
        """This writer, with what it needs at the sink made and checked."""
        self._place = task.admit(self._spec)
        return self

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartStaged:
        """Stage a task's rows."""
        with task.spoken():
            query = TaskContext.get().getLocalProperty(QUERY_ID)
            if not query:
                what = "this Spark does not say which query a task belongs to"
                raise Defect(what, "use a version of Spark that the documentation names, and report it")
            return PartStaged(query, task.stage(self._spec, self._place, query, iterator))

    def commit(self, messages: list[PartStaged | None], batchId: int) -> None:
        """Make a batch the target's, once."""
        parts = [one for one in messages if one is not None]
        if not parts:
            return  # a batch without a single task has no rows
        with task.spoken():
            task.commit(self._spec, QueryBatch(parts[0].query, batchId), [one.staged for one in parts])

    def abort(self, messages: list[PartStaged | None], batchId: int) -> None:
        """Undo nothing: Spark calls this also where the batch is durable and its answer was lost."""
        task.abort(self._spec)


class SlotkeeperPostgres(DataSource):  # type: ignore[misc]
    """The format, for `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        """What `format(...)` is given."""
        return FORMAT

    def streamWriter(self, schema: Any, overwrite: bool) -> PostgresStreamWriter:
        """The writer of a query over rows of this schema; QueryError where option, sink or column is wrong."""
        with task.spoken():
            if overwrite:
                what = 'output mode "complete" would write the whole table in each batch'
                raise ConfigError(what, 'use outputMode("update"), or "append"')
            made = PostgresStreamWriter(spec_of(dict(self.options), fields_of(schema)))
            return made if COMMITTING in sys.modules else made.admitted()

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Refuse: rows outside a query have no batch by which they could be written once."""
        with task.spoken():
            what = f'format("{FORMAT}") writes streams'
            raise Refused(what, "use writeStream, or apply_changes(df, batch, query=...)", where="sink")


def fields_of(schema: Any) -> list[Field]:
    """The columns of a StructType."""
    return [Field(one.name, one.dataType.simpleString(), dict(one.metadata or {})) for one in schema.fields]


def register(spark: Any) -> None:
    """Make the format known to a session; once for each."""
    spark.dataSource.register(SlotkeeperPostgres)
