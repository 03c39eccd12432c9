"""The net effect of a changelog: one row with the table's state for each key of a batch.

A filter on a changelog is not a filter on its table: `.where` drops an update after which a row no longer matches, so a
consumer would retain the old row. `net` therefore applies the condition itself and turns such a row into a delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from slotkeeper.core.dataframe import changelog
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError, Refused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NUMBER = "slotkeeper_number"
REDUCE_ROWS = 100_000
"""Number of rows that are gathered before a reduction, so that a task's memory depends on the number of its keys and
not on the number of all its rows."""


def net(
    changes: DataFrame, where: Column | str | None = None, key: str | Sequence[str] = (), partitions: int = 0
) -> DataFrame:
    """Return one row per key and batch: its last image (I, U or S), or a delete (d) if the table has no such row.

    `where` is a condition on a row after a change; a row for which it is false or NULL becomes a delete. `key` names
    the key columns; by default, the reader's key columns are used. In a delete, only the key columns are valid. All
    rows of a key are sent to the same partition; `partitions` is the number of partitions (default: the number of
    parallel tasks). The function works on batches and streams; in a stream, each batch has its own net effect. Raises
    ConfigError if the rows are not a changelog or are weighted, or if key columns are missing.
    """
    names = [field.name for field in changes.schema.fields]
    if missing := changelog.missing(names):
        what = f"net: the rows are not a changelog: no {' and no '.join(missing)}"
        raise ConfigError(what, "select the columns that start with slotkeeper_ in every earlier step")
    _refuse_weighted(names)
    known = _key(changes, key)
    kept = changes if where is None else matching(changes, where)
    session = kept.sparkSession
    shuffled = int(session.conf.get("spark.sql.shuffle.partitions"))
    places = partitions or min(int(session.sparkContext.defaultParallelism), shuffled)
    gathered = kept.repartition(places, *[kept[name] for name in known])
    return gathered.mapInArrow(Reduce(tuple(known)), changes.schema)


def matching(changes: DataFrame, where: Column | str) -> DataFrame:
    """Return the changelog with every row that does not match a condition turned into a delete of its key.

    This is the first step of `net`, without the reduction. It is sufficient if the result is passed to the writer,
    which reduces the rows itself. A NULL result of `where` counts as false.
    """
    from pyspark.sql import functions as f

    _refuse_weighted([field.name for field in changes.schema.fields])
    condition = f.expr(where) if isinstance(where, str) else where
    change = f.col(changelog.CHANGE)
    gone = change.isin(*changelog.WRITES) & ~f.coalesce(condition, f.lit(False))
    return changes.withColumn(changelog.CHANGE, f.when(gone, f.lit(changelog.DELETE)).otherwise(change))


def _refuse_weighted(names: Sequence[str]) -> None:
    if changelog.WEIGHT in names:
        what = f"the rows are a weighted changelog: net and matching would leave a wrong {changelog.WEIGHT}"
        raise ConfigError(what, 'read with .option("changelog", "raw"), or sum the weighted rows themselves')


def _key(changes: DataFrame, key: str | Sequence[str]) -> Sequence[str]:
    fields = changes.schema.fields
    given = key.split(",") if isinstance(key, str) and key else key
    named = (changelog.Named(one.name, one.metadata or {}) for one in fields)
    known = [name.strip() for name in given] or list(changelog.key_of(named))
    if not known:
        raise ConfigError("net: no column is marked as a key", 'name the key columns: net(changes, key="id")')
    own = changelog.own(one.name for one in fields)
    for name in known:
        if name not in own:
            raise ConfigError(f"net: unknown column {safe(name, 60)}", f"the columns are {', '.join(own)}")
    return known


@dataclass(frozen=True, slots=True)
class Reduce:
    """The function of a `net` task over the batches of its keys."""

    key: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the last row of each key, with kind `d` (delete) if the table then has no row for the key."""
        left: pa.Table | None = None
        gathered: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            gathered.append(batch)
            rows += batch.num_rows
            if rows >= max(REDUCE_ROWS, left.num_rows if left is not None else 0):
                left, gathered, rows = self._last(left, gathered), [], 0
        if gathered:
            left = self._last(left, gathered)
        if left is not None:
            # an event after which the table has no row for its key becomes a delete
            place = left.schema.get_field_index(changelog.CHANGE)
            change = left.column(place)
            writes = pc.is_in(change, value_set=pa.array(changelog.WRITES, change.type))
            kinds = pc.if_else(writes, change, changelog.DELETE)
            yield from left.set_column(place, left.schema.field(place), kinds).to_batches()

    def _last(self, before: pa.Table | None, batches: list[pa.RecordBatch]) -> pa.Table:
        """Return the last row of each key from earlier and new rows; raise Refused if two share a position."""
        table = pa.Table.from_batches(batches)
        changelog.refuse_nulls(dict(zip(table.column_names, (one.null_count for one in table.columns), strict=True)))
        if before is not None:
            table = pa.concat_tables([before, table])
        place = [*self.key, changelog.POINT, changelog.SEQUENCE]
        if table.select(place).group_by(place, use_threads=False).aggregate([]).num_rows < table.num_rows:
            what = "net: several rows of a key have the same position"
            raise Refused(what, "call net before a join or explode that multiplies rows")
        order = [(changelog.POINT, "ascending"), (changelog.SEQUENCE, "ascending")]
        table = table.take(pc.sort_indices(table, sort_keys=order))
        numbered = table.select(list(self.key)).append_column(_NUMBER, pa.array(range(table.num_rows), pa.int64()))
        found = numbered.group_by(list(self.key), use_threads=False).aggregate([(_NUMBER, "max")])
        return table.take(found.column(f"{_NUMBER}_max").combine_chunks())
