"""What a DWS says about its slots, in the words of its manual. Text only."""

from __future__ import annotations

from slotkeeper.core.ports.source import DdlWords, SlotWords
from slotkeeper.core.sources.dws.position import POSITIONS

TIMEOUT = "binlog_consume_timeout"
"""The setting that says for how long maintenance waits for readers."""

WORDS = SlotWords(
    no_list="this kernel cannot list slots (9.1.0.223 or newer can): only configured ones are shown, and no points",
    no_count="this kernel cannot count unread rows of this table (9.1.0.223 or newer can)",
    no_drop="this kernel cannot drop a slot (9.1.0.223 or newer can)",
    no_after="this kernel cannot show where the points are now",
    no_drained="this kernel does not tell whether everything is read",
    no_ttl="binlog_ttl cannot be read from the table's options, so no time left is told",
    no_timeout=f"the server does not tell {TIMEOUT} (documented default: 3600 s)",
    own_times="this kernel tells no registration times: those marked as ours are from the sink's progress rows",
    lapses="if nobody registers within binlog_ttl, it is cleared again",
    moved="both points of every DN move to the newest sync point",
    ages="the table has binlog timestamps: each record is deleted once it is older than the TTL, read or not",
    head=f"binlog_ttl {{ttl}}, {TIMEOUT} {{timeout}}",
    ttl="binlog_ttl",
    short="the full-sync point did not take",
    identity="columns, key and oid",
    marks=POSITIONS.marks,
    ddl=DdlWords(
        waits={
            "vacuum full": "it would wait up to {limit}, under a lock that blocks DML on the whole table, then fail",
            "scale out": "scaling would wait up to {limit} at this table, then fail for it",
        },
        limit=f"{TIMEOUT} (3600 s by default)",
        limit_of=f"{{seconds}} s ({TIMEOUT})",
        clears="ADD/DROP COLUMN, SET TYPE and TRUNCATE clear increments and points",
        lost_by="ADD/DROP COLUMN, SET TYPE, TRUNCATE: each would clear this slot",
        note="vendor texts contradict each other on VACUUM FULL: the text for 8.3.0 says that it clears increments and"
        " points, newer ones that it waits until they are read; after it, list the slots",
        blocked="VACUUM FULL of the table, scale-out",
    ),
)
