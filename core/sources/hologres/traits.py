"""What a Hologres is as a source, read without a slot."""

from __future__ import annotations

from slotkeeper.core.domain.traits import SourceTraits

TRAITS = SourceTraits(
    keeps_positions=False,
    slot_unasked=True,
    one_stream=False,
    apart=True,
    by_age=True,
    earliest=True,
    adopts_shards=False,  # a key's rows may lie on any shard, old or new
    binlog_keys="hologres",
)
