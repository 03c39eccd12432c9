"""What a SQLite binlog says where a slot would be. Text only."""

from __future__ import annotations

from slotkeeper.core.ports.source import SlotWords

WORDS = SlotWords(
    no_list="there are no slots: shown is where our own progress rows stand",
    no_count="unread events are not counted",
    head="files are purged by hand, whoever still needs them",
)
