"""The core as a library for user programs: read the changes to a table, and write batches or single records.

The library uses no progress rows. A program that exits between writing and confirming reads its last batch again, and
upserts and deletes by key make that harmless. A slot that is read in this way belongs to no job.
"""

from __future__ import annotations

import os
from pathlib import Path

from slotkeeper.core.config.load import load as load_config
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.slot import EventType
from slotkeeper.core.errors import ErrorKind, SlotkeeperError, Trouble
from slotkeeper.core.library.reader import Batch, Reader, Record
from slotkeeper.core.library.sink import RecordSink, Sink, TableWriter

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


def load(path: str) -> Loaded:
    """Load a configuration file; raises ConfigError with file, key and line."""
    return load_config(Path(path), os.environ)


def passes(error: SlotkeeperError) -> bool:
    """Whether the error is transient, so that the caller only needs to try again later."""
    return error.kind in (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
