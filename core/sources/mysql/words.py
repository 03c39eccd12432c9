"""What a MySQL server says where a slot would be. Text only. Next door: `viewer.py` and `source.py` hand it out."""

from __future__ import annotations

from core.ports.source import SlotWords

WORDS = SlotWords(
    no_list="the server keeps no position of ours: shown is where our own progress rows stand",
    no_count="unread events are not counted",
    head="binlog files go by their age, whoever still needs them (binlog_expire_logs_seconds)",
    ttl="binlog_expire_logs_seconds",
    identity="columns and key",
    retains=False,
    no_expiry="no slot has a TTL here; binlog files that are to be read again go by binlog_expire_logs_seconds",
)
