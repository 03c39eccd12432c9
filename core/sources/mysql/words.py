"""What a MySQL server says where a slot would be. Text only."""

from __future__ import annotations

from slotkeeper.core.ports.source import SlotWords
from slotkeeper.core.sources.mysql.kept import POSITIONS

WORDS = SlotWords(
    no_list="the server lists no slots: the positions are those of the progress rows",
    no_count="unread events are not counted",
    head="the server deletes binlog files by their age, read or not",
    ttl="binlog_expire_logs_seconds",
    part=POSITIONS.part,
    identity="columns and key",
    retains=False,
    no_expiry="a MySQL has no slot that expires; binlog files are purged by their age (binlog_expire_logs_seconds)",
)
