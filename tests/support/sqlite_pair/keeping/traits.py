"""The traits of SQLite as a source whose server keeps one position for the stream."""

from __future__ import annotations

from dataclasses import replace

from tests.support.sqlite_pair import traits

TRAITS = replace(traits.TRAITS, keeps_positions=True, slot_unasked=False)
