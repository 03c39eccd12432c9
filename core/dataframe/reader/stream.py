"""The changelog of a table as a stream: Spark's calls, passed to the planner on its driver, or to parts on workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from slotkeeper.core.dataframe.reader.faults import naming
from slotkeeper.core.dataframe.reader.options import Asked
from slotkeeper.core.dataframe.reader.parts import Offset, Part
from slotkeeper.core.dataframe.reader.schema import Layout
from slotkeeper.core.sources import registry

if TYPE_CHECKING:
    import pyarrow

    from slotkeeper.core.dataframe.reader.query import Query


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a changelog as a stream: returns JSON offsets and parts, and ignores Spark's commit calls.

    Spark creates one reader on its driver, which exists as long as the query, and sends copies to workers, which do not
    contain the `Query`.
    """

    def __init__(self, asked: Asked, layout: Layout) -> None:
        self._asked, self._layout = asked, layout
        self._query: Query | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_query": None}

    @naming
    def initialOffset(self) -> dict[str, Any]:
        """Return the query's start."""
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
        """Release the slot."""
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
