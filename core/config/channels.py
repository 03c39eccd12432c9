"""A job's channels: one source table to one target each, every table once.

Names are taken as they are written, and a server reads them back as just those names (`core.sqltext.dotted`), so two
spellings are two tables. Next door: `build.py` compares the channels of two jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.config import keys
from core.config.check import Reading, Table, dotted, read_section
from core.config.lines import Path
from core.domain.spec import ChannelSpec


def read_channels(reading: Reading, path: Path, raw: Table) -> tuple[ChannelSpec, ...]:
    """The channels of the job at `path`; at least one, no source table and no target twice."""
    here: Path = (*path, "channels")
    channels = raw.get("channels")
    if channels is None or channels == []:
        raise reading.error(path, f"[{dotted(path)}] has no channel", f"add [[{dotted(here)}]] with from and into")
    if not isinstance(channels, list):
        raise reading.error(here, f"{dotted(here)} must be a list of tables", f"write [[{dotted(here)}]]")
    found: list[ChannelSpec] = []
    for number, one in enumerate(channels):
        channel = _channel(read_section(reading, (*here, number), one, keys.CHANNEL))
        _refuse_twice(reading, (*here, number), channel, found)
        found.append(channel)
    return tuple(found)


def _channel(given: Mapping[str, Any]) -> ChannelSpec:
    return ChannelSpec(
        given["from"],
        given["into"],
        given["create_target"],
        given["columns"] or (),
        given["where"] or "",
        given["keys_never_change"],
    )


def _refuse_twice(reading: Reading, here: Path, channel: ChannelSpec, before: list[ChannelSpec]) -> None:
    """One slot of one table has one reader, and one target one writer."""
    for number, other in enumerate(before):
        there = dotted((*here[:-1], number))
        if other.source_table == channel.source_table:
            what = f"{dotted(here)} reads {channel.source_table}, which {there} reads"
            raise reading.error(
                (*here, "from"), what, "a table is read once by a job: make a second job with a slot of its own"
            )
        if other.target == channel.target:
            what = f"{dotted(here)} writes to {channel.target}, which {there} writes to"
            raise reading.error((*here, "into"), what, "give each channel a target of its own")
