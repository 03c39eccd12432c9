"""Read a table's current rows, or a range of its changes, as one batch.

This module takes no lease, registers nothing and creates no slot. A range must start after the position registered for
the job's slot, because only later changes are certain to be retained.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from slotkeeper.core.dataframe.reader import read, schema
from slotkeeper.core.dataframe.reader.faults import naming
from slotkeeper.core.dataframe.reader.options import Asked
from slotkeeper.core.dataframe.reader.parts import ChunkPart, Part, RangePart
from slotkeeper.core.dataframe.reader.schema import Layout
from slotkeeper.core.domain.position import NOTHING_KEPT, Position
from slotkeeper.core.domain.slot import SlotStatus
from slotkeeper.core.domain.type_name import Condition
from slotkeeper.core.domain.watch import purged, trouble
from slotkeeper.core.errors import Refused, TroubleName
from slotkeeper.core.ports.source import SourceTable
from slotkeeper.core.sources import registry
from slotkeeper.core.wiring.worker import changelog_of, changelog_session

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class PlainTableReader(DataSourceReader):
    """A reader of all requested rows; Spark applies every condition."""

    def __init__(self, asked: Asked, layout: Layout) -> None:
        self._asked, self._layout = asked, layout
        self._only: tuple[Condition, ...] = ()

    @naming
    def partitions(self) -> Sequence[InputPartition]:
        """Return one part per chunk of the table, or one per DN of a range."""
        job = self._asked.job
        with closing(changelog_session(job, 0, "plan")) as session:
            table = changelog_of(session, job)
            log = table.source
            if log.identify().text != self._layout.fingerprint:
                raise trouble(TroubleName.SCHEMA_CHANGED, "the table was altered since the DataFrame was created")
            ranges = self._asked.read == "changes" or (self._asked.begin != "" and self._asked.read != "rows")
            if not ranges and (self._asked.begin or self._asked.end != "latest"):
                what = "the current table is read, which accepts no range"
                raise Refused(what, 'remove the options from and to, or set .option("read", "changes")', where="spark")
            if ranges:
                found = self._ranges(table)
            else:
                planned = log.plan_chunks(self._asked.partition_rows)
                found = [ChunkPart(job, 0, self._layout, chunk, self._only) for chunk in planned]
        # Spark does not accept an empty list
        return found or [Nothing()]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read.read(partition) if isinstance(partition, Part) else iter(())

    def _ranges(self, table: SourceTable) -> list[InputPartition]:
        log, job = table.source, self._asked.job
        if table.slot is None and self._asked.begin in ("", "slot"):
            what = f"a source of kind {job.source_kind} stores no slot whose position could be the start of a range"
            raise Refused(what, 'set .option("from", ...) to a position of each DN', where="spark")
        if table.slot is not None and not table.lists(job.slot):
            what = f"slot {job.slot} of {job.channel.source_table} does not exist: the retained changes are unknown"
            raise Refused(what, "create it (`slotkeeper slots create`), or start a query or job", where="source")
        statuses = log.read_status(None)
        begins = self._begins(statuses)
        names = {status.shard.name for status in statuses}
        ends = {} if self._asked.end == "latest" else self._typed("to", self._asked.end, names)
        found: list[InputPartition] = []
        for status in statuses:
            name = status.shard.name
            after = begins[name]
            newest = log.reached(after, max(status.latest, after.place), None, status)
            up_to = min(ends.get(name, newest), newest)
            if after < up_to:
                found.append(RangePart(job, 0, self._layout, status.shard, after, up_to, self._only))
        return found

    def _begins(self, statuses: Sequence[SlotStatus]) -> dict[str, Position]:
        """Return the requested start of the range on each DN; raises Refused if it is before the slot's position."""
        kept: dict[str, Position] = {}
        without_slot = {one.shard.name: one for one in statuses if one.kept == NOTHING_KEPT}
        for status in (one for one in statuses if one.shard.name not in without_slot):
            oldest = status.kept.furthest
            if status.kept.missing or oldest is None:
                raise trouble(TroubleName.SLOT_LOST, f"{status.shard.name}: the slot holds {status.kept.shown}")
            kept[status.shard.name] = oldest.from_here
        if self._asked.begin in ("", "slot"):
            return kept
        typed = self._typed("from", self._asked.begin, kept.keys() | without_slot.keys())
        for name, place in typed.items():
            if name in without_slot:
                if gone := purged(without_slot[name], place):
                    raise gone
            elif place < kept[name]:
                what = f"{name}: unknown whether the source retains every change from {place.text} on"
                raise Refused(what, f"choose {kept[name].text} or a later position", where="source")
        return typed

    def _typed(self, option: str, text: str, names: set[str]) -> dict[str, Position]:
        """Return the position of each DN; `to` can omit DNs. Raises Refused for an unknown or repeated DN."""
        positions, found = registry.open(self._asked.job.source_kind).positions, {}
        for part in text.split(","):
            name, _, place = part.strip().partition("=")
            if name in found:
                raise Refused(f"option {option} names {name} twice", "specify one position for each DN", where="spark")
            try:
                found[name] = positions.place(place).from_here
            except ValueError as error:
                what = f'option {option} takes positions such as "dn_1=10516/-1, dn_2=10517": {error}'
                raise Refused(what, "`slotkeeper slots peek` and a changelog's columns show positions") from None
        if wrong := sorted(set(found) - names if option == "to" else names ^ set(found)):
            what = f"option {option} and the cluster have different DNs ({', '.join(wrong)})"
            raise Refused(what, f"specify {', '.join(sorted(names))}")
        return found


class TableReader(PlainTableReader):
    """A reader that also sends conditions on the key to the source; Spark applies all conditions again."""

    def pushFilters(self, filters_: list[Filter]) -> Iterable[Filter]:
        """Record the conditions that the source can apply; all conditions are returned, so that Spark applies them."""
        self._only = schema.of_key(filters_, self._layout)
        return filters_


class Nothing(InputPartition):
    """A part without rows."""

    def __init__(self) -> None:
        super().__init__(None)
