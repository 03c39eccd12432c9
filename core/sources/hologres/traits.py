"""The traits of a Hologres source, whose jobs are read without a slot, or with one (`SLOT_TRAITS`)."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.domain.traits import SourceTraits

TRAITS = SourceTraits(
    keeps_positions=False,
    slot_unasked=True,
    one_stream=False,
    apart=True,
    by_age=True,
    earliest=True,
    adopts_shards=False,  # the rows of a key can be on any shard, old or new
    binlog_keys="hologres",
)
SLOT_TRAITS = replace(TRAITS, keeps_positions=True, slot_unasked=False, several_by="hologres")
