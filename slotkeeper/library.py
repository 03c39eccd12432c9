"""The core as a library: read the changes of a table, and write batches or single records.

A reader delivers at least once; a `TableWriter` with positions writes each record once.
"""

from __future__ import annotations

from slotkeeper.core.library import (
    Batch,
    EventType,
    Reader,
    Record,
    RecordSink,
    Sink,
    SlotkeeperError,
    TableWriter,
    Trouble,
    load,
    passes,
)

__all__ = [
    "Batch",
    "EventType",
    "Reader",
    "Record",
    "RecordSink",
    "Sink",
    "SlotkeeperError",
    "TableWriter",
    "Trouble",
    "load",
    "passes",
]
