"""How a job's steps are made of a binlog: its table `sync`, and what that says of the sink's own options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from slotkeeper.core.config.check import Reading, Table, as_table, dotted, read_section
from slotkeeper.core.config.keys_sync import SYNC
from slotkeeper.core.config.lines import Path
from slotkeeper.core.domain.spec import ALLOW, ChannelSpec, SinkOptions, SyncOptions
from slotkeeper.core.sources import registry

_SAME = {"min_sync_commit_size": "auto_flush_batch_size", "sync_commit_interval_second": "auto_flush_max_interval"}
"""Keys of `sync` and of `sink_options` that say one thing."""


def read(
    reading: Reading, path: Path, raw: Table, dialect: str, options: SinkOptions
) -> tuple[SyncOptions, SinkOptions]:
    """The table `sync` of the job at `path`, and the sink's options with what it says.

    Raises ConfigError for a table that has no effect, and for limits that contradict each other.
    """
    here: Path = (*path, "sync")
    set_here = as_table(reading, here, raw.get("sync", {}))
    if not registry.traits(dialect).paced:
        for name in set_here:
            what = f"{dotted((*here, name))} has no effect: a source of kind {dialect} is read in sync points"
            raise reading.error((*here, name), what, "see binlog_sync_point_size, sink_options.auto_flush_batch_size")
        return SyncOptions(), options
    given: Mapping[str, Any] = read_section(reading, here, set_here, SYNC)
    sync = SyncOptions(**{one.name: given[one.name] for one in fields(SyncOptions)})
    if sync.max_bytes_sync_commit < sync.min_bytes_sync_commit:
        least = f"{sync.min_bytes_sync_commit} bytes"
        what = f"{dotted(here)}.max_bytes_sync_commit is below min_bytes_sync_commit ({least})"
        name = "max_bytes_sync_commit" if "max_bytes_sync_commit" in set_here else "min_bytes_sync_commit"
        raise reading.error((*here, name), what, "a range may have the most once it has the least")
    theirs = as_table(reading, (*path, "sink_options"), raw.get("sink_options", {}))
    for name, other in _SAME.items():
        if name in set_here and other in theirs:
            what = f"[{dotted(path)}] sets sync.{name} and sink_options.{other}, two keys for one thing"
            raise reading.error((*here, name), what, "keep one of them")
    if "auto_flush_batch_size" not in theirs:
        options = replace(options, auto_flush_batch_size=sync.min_sync_commit_size)
    if "auto_flush_max_interval" not in theirs:
        options = replace(options, auto_flush_max_interval=sync.sync_commit_interval_second * 1000)
    return sync, options


def refuse_cascades(reading: Reading, path: Path, dialect: str, channels: tuple[ChannelSpec, ...]) -> None:
    """Only a server that carries cascades out beside its binlog has rows that may stay wrong."""
    for number, channel in enumerate(channels):
        if channel.cascades == ALLOW and not registry.traits(dialect).silent_cascades:
            here: Path = (*path, "channels", number, "cascades")
            what = f"{dotted(here)} has no effect: a source of kind {dialect} writes what a cascade changes"
            raise reading.error(here, what, "leave it out")
