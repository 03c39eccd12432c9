"""The format `slotkeeper_postgres` of `writeStream`: tasks stage rows, then one transaction applies the batch.

Spark creates the writer once per batch on the driver, pickles it for the tasks, and creates it again in the process
that commits or aborts the batch (pyspark's runner of a streaming sink). The tasks find the query id in their local
properties and return it, because it is not available in the committing process. `apply_changes` calls the same two
functions, `stage` and `commit`.
"""

from __future__ import annotations

import getpass
import secrets
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, WriterCommitMessage

from slotkeeper.core.dataframe.reader.faults import check
from slotkeeper.core.dataframe.writer.spec import Field, WriterSpec, spec_of
from slotkeeper.core.errors import ConfigError, Defect, Refused, SlotkeeperError, classed
from slotkeeper.core.ports.sink import QueryBatch, QuerySink, Staged

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "slotkeeper_postgres"
QUERY_ID = "sql.streaming.queryId"
"""The local property that contains a query's id; the checkpoint preserves the id across restarts."""
COMMITTING = "pyspark.sql.worker.python_streaming_sink_runner"
"""Main module of the process that commits a batch, which recreates the writer without checking the sink's tables."""


@dataclass(frozen=True)
class PartStaged(WriterCommitMessage):  # type: ignore[misc]  # pyspark is untyped
    """The result of a task: the query and its staged rows."""

    query: str
    staged: Staged


_ArrowWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", object)
"""Missing in Spark 4.0, whose streams are refused."""


class PostgresStreamWriter(_ArrowWriter):  # type: ignore[misc]
    """The writer of one query, created by Spark; `place` is where tasks stage rows, empty before `admitted`."""

    def __init__(self, spec: WriterSpec) -> None:
        self._spec = spec
        self._place = ""

    def admitted(self) -> PostgresStreamWriter:
        """Create and check the query's tables in the sink, and return this writer."""
        self._place = admit(self._spec)
        return self

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartStaged:
        with spoken():
            query = TaskContext.get().getLocalProperty(QUERY_ID)
            if not query:
                what = "this Spark version does not report a task's query"
                raise Defect(what, "use a documented Spark version, and report this error")
            return PartStaged(query, stage(self._spec, self._place, query, iterator))

    def commit(self, messages: list[PartStaged | None], batchId: int) -> None:
        """Apply a batch to the target, once."""
        parts = [one for one in messages if one is not None]
        if not parts:
            return  # a batch without tasks has no rows
        with spoken():
            commit(self._spec, QueryBatch(parts[0].query, batchId), [one.staged for one in parts])

    def abort(self, messages: list[PartStaged | None], batchId: int) -> None:
        """Undo nothing, because Spark also calls this for a committed batch whose response was lost.

        Without staged rows, nothing is deleted: a query that the sink has rejected leaves the rows of the running one.
        """
        if any(one is not None and one.staged.rows for one in messages):
            abort(self._spec)


class SlotkeeperPostgres(DataSource):  # type: ignore[misc]
    """The data source to pass to `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamWriter(self, schema: Any, overwrite: bool) -> PostgresStreamWriter:
        """Return a query's writer for rows of this schema; raises QueryError for a wrong option, sink or column."""
        with spoken():
            if overwrite:
                what = 'output mode "complete" would write the whole table in each batch'
                raise ConfigError(what, 'use outputMode("update"), or "append"')
            check(pyspark.__version__, streams=True)
            made = PostgresStreamWriter(spec_of(dict(self.options), fields_of(schema)))
            return made if COMMITTING in sys.modules else made.admitted()

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Raise QueryError, because rows written outside a query have no batch number and could be written twice."""
        with spoken():
            what = f'format("{FORMAT}") writes only streams'
            raise Refused(what, "use writeStream, or apply_changes(df, batch, query=...)", where="sink")


def fields_of(schema: Any) -> list[Field]:
    return [Field(one.name, one.dataType.simpleString(), dict(one.metadata or {})) for one in schema.fields]


def register(spark: Any) -> None:
    """Register the format with a session; needed once per session."""
    spark.dataSource.register(SlotkeeperPostgres)


TOKEN_BITS = 62
"""Number of random bits of a token, which is a positive bigint; two attempts practically never get the same token."""


class QueryError(Exception):
    """A Spark query cannot continue; the message contains the cause and the next action."""


@contextmanager
def spoken() -> Iterator[None]:
    """Convert Slotkeeper's errors to one line without their causes.

    Spark prints the cause of an error, and the message of a database driver may contain values of a row.
    """
    try:
        yield
    except SlotkeeperError as error:
        raise QueryError(": ".join(part for part in (str(error), error.hint) if part)) from None


@contextmanager
def opened(spec: WriterSpec, part: str) -> Iterator[QuerySink]:
    """Yield a session whose secret is resolved in this process; raises ConfigError with the host's name on failure."""
    try:
        sink = spec.open(part)
    except ConfigError as error:
        hint = error.hint or (
            "provide each worker with the same file, variable or command: workers resolve passwords themselves"
        )
        raise ConfigError(f"on {socket.gethostname()}, as {getpass.getuser()}: {error.message}", hint) from None
    with closing(sink):
        yield sink


def admit(spec: WriterSpec) -> str:
    """Create and check a query's tables in the sink; return the location where its tasks stage rows."""
    with opened(spec, "admit") as sink:
        return sink.admit()


def stage(spec: WriterSpec, place: str, query: str, batches: Iterable[pa.RecordBatch]) -> Staged:
    """Stage the rows of a task under a new token for this attempt; a task without rows opens no session."""
    from slotkeeper.core.dataframe.writer.encode import Lines  # a process that only commits does not need Arrow

    token = secrets.randbits(TOKEN_BITS)
    filled = (one for one in batches if one.num_rows)
    first = next(filled, None)
    if first is None:
        return Staged(token, 0)
    key = spec.target.key if spec.target.options.ignore_update_before else ()
    lines = Lines(chain([first], filled), token, spec.columns, key)
    with opened(spec, "stage") as sink:
        try:
            rows = sink.stage(place, query, token, lines)
        except SlotkeeperError:
            if lines.broken is not None:
                raise lines.broken from None  # the producer of the batches failed, not the sink
            raise
    if rows != lines.rows:
        raise classed(AssertionError(f"sent {lines.rows} rows, stored {rows}"))
    return Staged(token, rows, lines.left_out)


def commit(spec: WriterSpec, batch: QueryBatch, staged: Sequence[Staged]) -> bool:
    """Apply a batch to the target; return False if it was already applied. Deletes staged rows of earlier batches."""
    with opened(spec, str(batch.number)) as sink:
        done = sink.commit(batch, staged)
        sink.discard()
    return done


def abort(spec: WriterSpec) -> None:
    """Delete staged rows that no run needs; nothing is undone, so this is harmless after a COMMIT."""
    try:
        with opened(spec, "abort") as sink:
            sink.discard()
    except SlotkeeperError:
        pass  # the next batch deletes them
