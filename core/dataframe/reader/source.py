"""The format "slotkeeper": a table of a configured job as a DataFrame, read as a stream or at once.

Spark makes it in a Python of its own on the driver, asks for the columns, and hands it on by pickling.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from slotkeeper.core.dataframe.reader import accounts, versions
from slotkeeper.core.dataframe.reader.faults import naming
from slotkeeper.core.dataframe.reader.options import Asked, asked
from slotkeeper.core.dataframe.reader.schema import Layout, layout
from slotkeeper.core.dataframe.reader.stream import ChangesReader
from slotkeeper.core.domain.text import see
from slotkeeper.core.errors import Refused
from slotkeeper.core.wiring.worker import changelog_session

if TYPE_CHECKING:
    from slotkeeper.core.dataframe.reader.batch import PlainTableReader

NAME = "slotkeeper"
PUSHES = "spark.sql.python.filterPushdown.enabled"
"""Spark hands conditions to a Python source only where this is true, and refuses one that would take them elsewhere."""


class SlotkeeperSource(DataSource):
    """One read: its options, and the columns as they were when it was made."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._asked: Asked | None = None
        self._layout: Layout | None = None

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    @naming
    def schema(self) -> StructType:
        """The columns; asks the source."""
        versions.check()
        self._asked = asked(self.options)
        with closing(changelog_session(self._asked.job, 0, "schema")) as session:
            log = session.changelog(self._asked.job)
            wanted = self._asked
            self._layout = layout(log, wanted.columns, wanted.as_text, led=wanted.read != "rows")
        return self._layout.spark

    @naming
    def streamReader(self, schema: StructType) -> ChangesReader:
        """The changes as a stream."""
        wanted, columns = self._made()
        if wanted.read == "rows" or wanted.begin:
            what = "a stream reads changes from its start on; read and from are options of spark.read"
            raise Refused(what, f'use .option("start", ...): {see("dataframes", "Options")}', where="spark")
        return ChangesReader(wanted, columns)

    @naming
    def reader(self, schema: StructType) -> PlainTableReader:
        """The table's rows, or a range of its changes, at once."""
        from slotkeeper.core.dataframe.reader.batch import PlainTableReader, TableReader

        wanted, columns = self._made()
        return (TableReader if wanted.pushes else PlainTableReader)(wanted, columns)

    def _made(self) -> tuple[Asked, Layout]:
        if self._asked is None or self._layout is None:
            what = "a schema of your own is not taken: the columns are the source's"
            raise Refused(what, 'leave out .schema(...); .option("columns", ...) and "as_text" choose', where="spark")
        return self._asked, self._layout


@naming
def register(spark: Any) -> None:
    """Make the format known to a SparkSession; raises ReadFailed for a version of Spark that was not tested."""
    versions.check()
    spark.dataSource.register(SlotkeeperSource)
    spark.conf.set(PUSHES, "true")
    accounts.follow(spark)
