"""The format "slotkeeper": a table of a configured job as a DataFrame, read as a stream or as one batch.

Spark creates the source in a Python process on the driver, requests its schema, and pickles it for other processes.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from slotkeeper.core.dataframe.reader import accounts
from slotkeeper.core.dataframe.reader.faults import check, naming
from slotkeeper.core.dataframe.reader.options import Asked, asked
from slotkeeper.core.dataframe.reader.schema import Layout, layout
from slotkeeper.core.domain.text import see
from slotkeeper.core.errors import Refused
from slotkeeper.core.wiring.worker import changelog_of, changelog_session

if TYPE_CHECKING:
    from slotkeeper.core.dataframe.reader.batch import PlainTableReader
    from slotkeeper.core.dataframe.reader.stream import ChangesReader

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
        if wanted.read == "rows" or wanted.begin or wanted.end != "latest":
            what = "read, from and to are options of spark.read: a stream reads all changes from its start position"
            raise Refused(what, f'use .option("start", ...): {see("dataframes", "Options")}', where="spark")
        check(pyspark.__version__, streams=True)
        from slotkeeper.core.dataframe.reader.stream import ChangesReader  # needs classes of Spark 4.2

        return ChangesReader(wanted, columns)

    @naming
    def reader(self, schema: StructType) -> PlainTableReader:
        """Return a reader of the table's rows, or of a range of its changes, as one batch."""
        from slotkeeper.core.dataframe.reader.batch import PlainTableReader, TableReader

        wanted, columns = self._made()
        if wanted.start != "slot":
            what = "start is an option of spark.readStream: spark.read reads the table, or a range of changes"
            raise Refused(what, f'use .option("from", ...): {see("dataframes", "Options")}', where="spark")
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
