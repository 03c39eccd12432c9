"""What a Hologres says about its slots. Text only; next door: `viewer.py`, `source.py`."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.sources.hologres.slot.kept import MARK
from slotkeeper.core.sources.hologres.words import WORDS

SLOT_WORDS = replace(
    WORDS,
    no_list="",
    no_drop="this login may not drop a slot",
    own_times="",
    moved="the slot moves to the newest record of every shard",
    short="the slot did not move to the newest record",
    ages="records go once they are older than binlog.ttl, confirmed or not: a slot holds nothing back",
    marks=(MARK,),
    there="the slot is there, on every shard",
)
