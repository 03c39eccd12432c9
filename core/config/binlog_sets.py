"""How a job's source is read: the sets of keys of `[jobs.X.binlog]`, where a job starts, and the table `sync`.

Traits of a kind of source name its set (`binlog_keys`). `sync` also says something of the sink's own options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from slotkeeper.core.config import keys
from slotkeeper.core.config.check import Reading, Table, as_table, dotted, read_section
from slotkeeper.core.config.keys import Section
from slotkeeper.core.config.keys_binlog import BINLOG
from slotkeeper.core.config.keys_hologres import HOLOGRES
from slotkeeper.core.config.keys_sync import SYNC
from slotkeeper.core.config.model import Path
from slotkeeper.core.config.values import BadValue
from slotkeeper.core.domain.spec import ALLOW, EVERY_DN, BinlogOptions, ChannelSpec, SinkOptions, SyncOptions
from slotkeeper.core.domain.text import safe
from slotkeeper.core.sources import registry


def start_of_hologres(reading: Reading, path: Path, raw: Table, below: Table) -> None:
    """The job's start out of `binlog_start_up_mode`, `start_time` and `start_lsn`, which say one thing together."""
    named = [name for name in ("binlog_start_up_mode", "start_time", "start_lsn") if name in below]
    if not named:
        return
    here: Path = (*path, "binlog", named[-1])
    if "start" in raw:
        what = f"[{dotted(path)}] sets start and binlog.{named[-1]}, two keys for one thing"
        raise reading.error(here, what, "keep start")
    if {"start_time", "start_lsn"} <= set(named):
        what = f"[{dotted(path)}.binlog] sets start_time and start_lsn; Hologres lets the LSN win, we refuse it"
        raise reading.error(here, what, "keep one of them")
    mode, given = below.get("binlog_start_up_mode"), {name: below.pop(name) for name in named}
    read = {name: _value(reading, (*path, "binlog", name), HOLOGRES[name], value) for name, value in given.items()}
    place = read.get("start_time") or _earliest(read.get("start_lsn"))
    if mode == "timestamp" and "start_time" not in read:
        raise reading.error(here, f'{dotted(here)} = "timestamp" needs start_time', "set start_time, or another mode")
    if mode is not None and place and not (mode == "timestamp" and "start_time" in read):
        what = f'{dotted(here)} and binlog_start_up_mode = "{safe(mode, 20)}" name two places to start at'
        raise reading.error(here, what, "keep one of them")
    raw["start"] = place or {"initial": "initial"}.get(str(mode), "earliest")
    reading.overrides[(*path, "start")] = reading.origin(here)


def _value(reading: Reading, path: Path, key: keys.Key, value: object) -> str:
    assert key.read is not None
    try:
        return str(key.read(value))
    except BadValue as error:
        raise reading.error(path, f"{dotted(path)} {error}") from None


def _earliest(lsn: str | None) -> str | None:
    """Behind LSN 0 of all shards is what they still have, as the vendor's example means it."""
    return "earliest" if lsn == f"{EVERY_DN}=0" else lsn


def _no_start(reading: Reading, path: Path, raw: Table, below: Table) -> None:
    """No key of the set says where a job starts but those that every set has."""


def _as_read(set_here: Table, options: BinlogOptions) -> BinlogOptions:
    return options


def _tries_of_hologres(set_here: Table, options: BinlogOptions) -> BinlogOptions:
    """`retry_count` counts the first try, too."""
    tries = set_here.get("retry_count", HOLOGRES["retry_count"].default)
    assert isinstance(tries, int)
    return replace(options, binlog_max_retry_times=tries - 1)


@dataclass(frozen=True, slots=True)
class BinlogKeys:
    """`start` puts what keys of the set say of a start into the job's own table; `more` does what no field takes."""

    section: Section
    start: Callable[[Reading, Path, Table, Table], None] = _no_start
    more: Callable[[Table, BinlogOptions], BinlogOptions] = _as_read


SETS = {"dws": BinlogKeys(BINLOG), "hologres": BinlogKeys(HOLOGRES, start_of_hologres, _tries_of_hologres)}
"""All of them."""
UNTOLD = SETS["dws"]
"""That of a job which names no source; which is told later."""


def set_here(reading: Reading, path: Path, raw: Table) -> Table:
    """The table `binlog` of the job at `path` as it is written."""
    return as_table(reading, (*path, "binlog"), raw.get("binlog", {}))


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
