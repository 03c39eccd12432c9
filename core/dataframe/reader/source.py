"""The format "slotkeeper": a table of a configured job as a DataFrame, read as a stream or as one batch.

Spark creates the source in a Python process on the driver, requests its schema, and pickles it for other processes.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from slotkeeper.core.dataframe.reader import accounts
from slotkeeper.core.dataframe.reader.faults import check, naming
from slotkeeper.core.dataframe.reader.options import Asked, asked
from slotkeeper.core.dataframe.reader.parts import Offset, Part
from slotkeeper.core.dataframe.reader.schema import Layout, layout
from slotkeeper.core.domain.text import see
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources import registry
from slotkeeper.core.wiring.worker import changelog_of, changelog_session

if TYPE_CHECKING:
    import pyarrow

    from slotkeeper.core.dataframe.reader.batch import PlainTableReader
    from slotkeeper.core.dataframe.reader.query import Query

NAME = "slotkeeper"
PUSHES = "spark.sql.python.filterPushdown.enabled"
"""The Spark setting for pushing conditions to a Python source; if false, Spark rejects a source that accepts them."""


class SlotkeeperSource(DataSource):
    """One read: its options, and the table's columns at the time of its creation."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._asked: Asked | None = None
        self._layout: Layout | None = None

    @classmethod
    def name(cls) -> str:
        return NAME

    @naming
    def schema(self) -> StructType:
        check(pyspark.__version__)
        self._asked = asked(self.options)
        with closing(changelog_session(self._asked.job, 0, "schema")) as session:
            log = changelog_of(session, self._asked.job).source
            wanted = self._asked
            self._layout = layout(log, wanted.columns, wanted.as_text, wanted.changelog)
        return self._layout.spark

    @naming
    def streamReader(self, schema: StructType) -> ChangesReader:
        wanted, columns = self._made()
        if wanted.read == "rows" or wanted.begin:
            what = "read and from are options of spark.read: a stream reads all changes from its start position"
            raise Refused(what, f'use .option("start", ...): {see("dataframes", "Options")}', where="spark")
        return ChangesReader(wanted, columns)

    @naming
    def reader(self, schema: StructType) -> PlainTableReader:
        """Return a reader of the table's rows, or of a range of its changes, as one batch."""
        from slotkeeper.core.dataframe.reader.batch import PlainTableReader, TableReader

        wanted, columns = self._made()
        return (TableReader if wanted.pushes else PlainTableReader)(wanted, columns)

    def _made(self) -> tuple[Asked, Layout]:
        if self._asked is None or self._layout is None:
            what = "a custom schema is not supported: the source defines the columns"
            raise Refused(what, 'remove .schema(...); choose with .option("columns", ...) and "as_text"', where="spark")
        return self._asked, self._layout


@naming
def register(spark: Any) -> None:
    spark.dataSource.register(SlotkeeperSource)
    spark.conf.set(PUSHES, "true")
    accounts.follow(spark)


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a changelog as a stream: returns JSON offsets and parts, and ignores Spark's commit calls.

    Spark creates one reader on its driver for the whole query, and sends copies without the `Query` to workers.
    """

    def __init__(self, asked: Asked, layout: Layout) -> None:
        self._asked, self._layout = asked, layout
        self._query: Query | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_query": None}

    @naming
    def initialOffset(self) -> dict[str, Any]:
        return self._asking.initial().json

    @naming
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch; the slot advances to `start`."""
        width = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._asking.latest(self._offset(start), width).json

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the batch width as a row limit, because Spark has no limit type for sync points."""
        return ReadMaxRows(self._asked.points_per_trigger)

    @naming
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the newest positions and the slot's owner, for the query's progress report."""
        return self._asking.reported

    @naming
    def prepareForTriggerAvailableNow(self) -> None:
        """Read no changes after the current newest position."""
        self._asking.stop_at_newest()

    @naming
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one part for each DN that has changes, and one part for each chunk of a copy."""
        return self._asking.parts(self._offset(start), self._offset(end))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        # the code for planning is not loaded on workers, and Arrow is not loaded on the driver
        from slotkeeper.core.dataframe.reader import read

        assert isinstance(partition, Part)
        return read.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing, because Spark calls this one batch late and never for the last batch; see `Query.latest`."""

    def stop(self) -> None:
        if self._query is not None:
            self._query.close()
            self._query = None

    @property
    def _asking(self) -> Query:
        from slotkeeper.core.dataframe.reader.query import Query

        if self._query is None:
            self._query = Query(self._asked, self._layout)
        return self._query

    def _offset(self, kept: dict[str, Any]) -> Offset:
        return Offset.read(kept, registry.open(self._asked.job.source_kind).positions)
