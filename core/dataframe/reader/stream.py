"""What Spark calls of a streaming query: offsets as JSON, parts, and nothing when it says commit.

Spark makes one of these on its driver, which lives as long as the query, and one more whose `read` goes to workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from slotkeeper.core.dataframe.reader.faults import naming
from slotkeeper.core.dataframe.reader.offsets import Offset
from slotkeeper.core.dataframe.reader.options import Asked
from slotkeeper.core.dataframe.reader.parts import Part
from slotkeeper.core.dataframe.reader.schema import Layout
from slotkeeper.core.sources import registry

if TYPE_CHECKING:
    import pyarrow

    from slotkeeper.core.dataframe.reader.query import Query


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A changelog as a stream. Travels to workers without its query."""

    def __init__(self, asked: Asked, layout: Layout) -> None:
        self._asked = asked
        self._layout = layout
        self._query: Query | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_query": None}

    @naming
    def initialOffset(self) -> dict[str, Any]:
        """Where the query begins."""
        return self._asking.initial().json

    @naming
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; the slot follows `start`."""
        width = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._asking.latest(self._offset(start), width).json

    def getDefaultReadLimit(self) -> ReadLimit:
        """How wide a batch is: Spark knows no limit by sync points, so their number travels as one of rows."""
        return ReadMaxRows(self._asked.points_per_trigger)

    @naming
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The newest places, for the query's progress, with whose slot it is."""
        return self._asking.reported

    @naming
    def prepareForTriggerAvailableNow(self) -> None:
        """From now on nothing newer is read."""
        self._asking.stop_at_newest()

    @naming
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A part per DN that has moved, and per chunk of a copy."""
        return self._asking.parts(self._offset(start), self._offset(end))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """A part's rows, on a worker."""
        from slotkeeper.core.dataframe.reader import (
            read,  # what a query asks is not loaded where it reads, nor Arrow there
        )

        assert isinstance(partition, Part)
        return read.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark calls it one batch late, and never for the last (`Query.latest` registers)."""

    def stop(self) -> None:
        """Give the slot back."""
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
