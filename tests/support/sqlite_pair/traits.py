"""The traits of SQLite as a source and as sinks, for tests."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.domain.traits import SinkTraits, SourceTraits

FILE = "file"
"""The names of the keys that contain a file's path."""
TRAITS = SourceTraits(
    keeps_positions=False,
    slot_unasked=True,
    one_stream=True,
    server_keys=FILE,
)
KEEPS_TRAITS = replace(TRAITS, keeps_positions=True, slot_unasked=False)
"""The same for a server that keeps one position for the stream."""
SQLITE_ADDS_UP = SinkTraits(one_transaction=False, repeats_change_nothing=False, server_keys=FILE)
SQLITE_BY_KEY = SinkTraits(one_transaction=False, repeats_change_nothing=True, server_keys=FILE)
SQLITE_TOKENS = SinkTraits(one_transaction=False, repeats_change_nothing=False, keeps_prepared=True, server_keys=FILE)
