"""What a Hologres says where a slot would be. Text only; next door: `viewer.py`, `retention.py`."""

from __future__ import annotations

from slotkeeper.core.ports.source import SlotWords
from slotkeeper.core.sources.hologres.position import POSITIONS

WORDS = SlotWords(
    no_list="no slot of the server is used, by SQL or by stream: shown is where our own progress rows stand",
    no_count="the server counts no unread records",
    no_drop="there is no slot to drop: no job here has one at the server",
    own_times="the time of a position is up to when nothing else was there, by the server's clock",
    ages="records go once they are older than binlog.ttl, read or not",
    head="records are deleted after {ttl}, read or not",
    ttl="binlog.ttl",
    part=POSITIONS.part,
    identity="table_id, columns and key",
    retains=False,
    no_expiry="no slot has a TTL here; records that are to be read again go by binlog.ttl, read or not",
)
