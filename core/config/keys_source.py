"""How a job's source is read: the keys of `[jobs.X.binlog]` and `[jobs.X.sync]`, and what they say together.

Traits of a kind of source name its set of keys (`binlog_keys`). Parameters of a vendor have the vendor's names in
snake_case; the table of each says where its defaults, units and meanings are from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slotkeeper.core.config import values
from slotkeeper.core.config.check import Reading, Table, as_table, dotted, read_options, read_value, refuse_below
from slotkeeper.core.config.keys import SAME, Key, Section, defaults, no_meaning, section, vendor
from slotkeeper.core.config.model import Path
from slotkeeper.core.domain.spec import ALLOW, EVERY_DN, READ_BY, BinlogOptions, ChannelSpec, SinkOptions, SyncOptions
from slotkeeper.core.domain.text import safe
from slotkeeper.core.sources import registry

_ROWS = values.whole(1, 10_000_000)
_WAIT = values.duration(1, values.DAY)
_LIMIT = values.duration(1, values.WEEK)


class _Binlog:
    """Those of DWS.

    Defaults, units and meanings: "Real-Time Binlog Consumption by Flink", table 1 (19 parameters), and the connector's
    further pool options.
    """

    binlog = vendor(values.boolean)
    """read the binlog; false is one full copy"""
    binlog_slot_name = vendor(values.slot)
    """slot of the source table; the same as the job's slot, set one of them"""
    binlog_batch_read_size = vendor(_ROWS, "rows")
    """binlog rows read in a batch"""
    full_sync_binlog_batch_read_size = vendor(_ROWS, "rows")
    """rows of a chunk of the full copy"""
    binlog_read_timeout = vendor(_LIMIT, "ms")
    """limit of one incremental read"""
    full_sync_binlog_read_timeout = vendor(_LIMIT, "ms")
    """limit of one read of the full copy; at the sink of a chunk and of the exchange (at least 30m)"""
    binlog_sleep_time = vendor(_WAIT, "ms")
    """sleep after an empty read, x empty reads"""
    binlog_max_sleep_time = vendor(_WAIT, "ms")
    """longest such sleep"""
    binlog_max_retry_times = vendor(values.whole(0, 1_000))
    """quick retries after an error at the source"""
    binlog_retry_interval = vendor(values.duration(0, 3_600_000), "ms")
    """quick retry n waits this x n + Random(100) ms"""
    new_system_value = vendor(values.boolean)
    """use the new names of the system columns; false for older kernels"""
    connection_socket_timeout = vendor(values.duration(0, values.WEEK), "ms")
    """client limit of a connection's answers; 0: none"""
    binlog_sync_point_size = vendor(values.whole(1, 1_000_000_000), "sync points")
    """sync points of one incremental range (DWS 9.1.0.200 and later)"""
    binlog_parallel_num = vendor(values.whole(1, 64))
    """lanes of one task that are read at once, where there are fewer places than DNs; they share the pool"""
    connection_pool_size = vendor(values.whole(2, 1_000))
    """source connections that tasks read through at once, whatever the number of Spark's places; the driver holds [some
    more](delivery.md), which do not grow with tables"""
    need_redistribution = vendor(values.boolean)
    """adopt a changed set of DNs where that is safe; false for kernels that do not redistribute with a binlog"""
    check_node_change_interval = vendor(values.duration(100, values.DAY), "ms")
    """interval of looking for changed DNs; only with need_redistribution"""
    binlog_ignore_update_before = vendor(values.boolean)
    """leave B rows at the server, deletes carry the key only (DWS 9.1.0.200 and later); needs `keys_never_change`"""
    binlog_start_time = vendor(values.start_time)
    """time from which to read, `yyyy-MM-dd hh:mm:ss` in UTC or with an offset; the same as the job's `start`, set one
    of them; needs enable_binlog_timestamp (DWS 9.1.0.200 and later)"""
    binlog_queue_size = no_meaning("rows pass through a pipe of fixed size", 0, "rows")
    """limit of the reader's queue"""
    connection_size = no_meaning("the tasks of Spark are the readers", 1)
    """threads of the read pool"""
    connection_pool_name = no_meaning("sessions are named slotkeeper/<job>/<epoch>")
    """name of the pool"""
    connection_pool_timeout = no_meaning("a task waits for a place of Spark", unit="ms")
    """limit of the wait for a connection"""
    connection_max_use_count = no_meaning("a session lives as long as its job's epoch")
    """uses of a connection"""
    need_connection_pool_monitor = no_meaning("each task has a session of its own")
    """monitor the pool"""
    connection_pool_monitor_period = no_meaning("each task has a session of its own", unit="ms")
    """interval of that monitor"""
    connection_time_out = no_meaning("it is the source's connect_timeout", unit="ms")
    """limit of one try to connect"""


_DEFAULTS = defaults(BinlogOptions)
BINLOG = section(_Binlog, of=_DEFAULTS)


_SHARED = (
    "binlog",
    "binlog_slot_name",
    "full_sync_binlog_batch_read_size",
    "binlog_read_timeout",
    "full_sync_binlog_read_timeout",
    "binlog_sleep_time",
    "binlog_max_sleep_time",
    "binlog_retry_interval",
    "connection_socket_timeout",
    "binlog_parallel_num",
    "connection_pool_size",
)
START_MODES = ("initial", "earliest_offset", "timestamp")


class _Own:
    """Those of a hologres that no other source has.

    Defaults and meanings are those of holo-client ("HoloConfig") and of the table in "Technical Principle of Hologres
    Binlog"; `binlogStartUpMode`, `startTime` and `cdcMode` are the Flink connector's.
    """

    binlog_read_batch_size = vendor(values.whole(1, 1_000_000), "records")
    """binlog records read in a page, or at most in a message of the stream"""
    binlog_heart_beat_interval_ms = vendor(values.whole(-1, values.DAY), "ms")
    """an idle shard's progress row says this often up to which time of the server nothing else was there; -1: eight
    times in a binlog.ttl"""
    binlog_ignore_delete = vendor(values.boolean)
    """leave deletes (event type 2) out"""
    binlog_ignore_before_update = vendor(values.boolean)
    """leave the rows before an update (event type 3) out"""
    retry_count = vendor(values.whole(1, 1_000), default=3)
    """tries after an error at the source before the long waits begin, the first one among them; counted again after a
    success"""
    binlog_start_up_mode = vendor(values.choice(*START_MODES))
    """where a new job starts: `initial` (a copy, then the binlog), `earliest_offset`, or `timestamp` with `start_time`;
    the same as the job's `start`, set one of them"""
    start_time = vendor(values.start_time)
    """time from which to read, `yyyy-MM-dd hh:mm:ss` in UTC or with an offset; the same as the job's `start`, set one
    of them"""
    start_lsn = vendor(values.start_lsn)
    """LSN behind which to read, of all shards (`"10516"`) or by shard (`"shard_0=10516, shard_1=99"`); not together
    with `start_time`, where Hologres itself lets the LSN win"""
    cdc_mode = vendor(values.only_true, default=True)
    """each record takes effect as what it is; false, which appends every image as a row, is refused"""
    read_by = Key(values.choice(*READ_BY))
    """how changes come: `sql`, or `stream`, the binlog's own over PostgreSQL's replication protocol (Hologres 2.1 and
    later, without a slot), which is what the connector calls `sdkMode` `jdbc`; where a range ends is asked by SQL
    either way"""
    enable_compression = vendor(values.boolean)
    """messages of the stream come compressed (LZ4; Hologres 3.2 and later); with `read_by = "stream"` only"""
    binlog_visibility_lag = Key(values.duration(0, values.DAY), unit="ms")
    """read only records that are older than this: for servers where one with a lower LSN might show after one with a
    higher"""


OWN = section(_Own, of=_DEFAULTS)
HOLOGRES: Section = {name: BINLOG[name] for name in _SHARED} | dict(OWN)
"""All of hologres; what every source has is as for DWS."""


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
    read = {}
    for name, value in given.items():
        reader = HOLOGRES[name].read
        assert reader is not None
        read[name] = str(read_value(reading, (*path, "binlog", name), reader, value))
    lsn = read.get("start_lsn")
    if lsn == f"{EVERY_DN}=0":  # behind LSN 0 of all shards is what they still have, as the vendor's example means it
        lsn = "earliest"
    place = read.get("start_time") or lsn
    if mode == "timestamp" and "start_time" not in read:
        raise reading.error(here, f'{dotted(here)} = "timestamp" needs start_time', "set start_time, or another mode")
    if mode is not None and place and not (mode == "timestamp" and "start_time" in read):
        what = f'{dotted(here)} and binlog_start_up_mode = "{safe(mode, 20)}" name two places to start at'
        raise reading.error(here, what, "keep one of them")
    raw["start"] = place or {"initial": "initial"}.get(str(mode), "earliest")
    reading.overrides[(*path, "start")] = reading.origin(here)


def _tries_of_hologres(set_here: Table, options: BinlogOptions) -> BinlogOptions:
    """`retry_count` counts the first try, too."""
    tries = set_here.get("retry_count", HOLOGRES["retry_count"].default)
    assert isinstance(tries, int)
    return replace(options, binlog_max_retry_times=tries - 1)


@dataclass(frozen=True, slots=True)
class BinlogKeys:
    """`start` puts what keys of the set say of a start, beside those that every set has, into the job's own table;
    `more` does what no field takes."""

    section: Section
    start: Callable[[Reading, Path, Table, Table], None] = lambda *_: None
    more: Callable[[Table, BinlogOptions], BinlogOptions] = lambda _set_here, options: options


SETS = {"dws": BinlogKeys(BINLOG), "hologres": BinlogKeys(HOLOGRES, start_of_hologres, _tries_of_hologres)}
"""By the name that the traits of a kind of source have."""
UNTOLD = SETS["dws"]
"""That of a job which names no source; the reader of `[jobs.X]` reports that."""


def binlog_table(reading: Reading, path: Path, raw: Table) -> Table:
    """The table `binlog` of the job at `path` as it is written."""
    return as_table(reading, (*path, "binlog"), raw.get("binlog", {}))


_BYTES = values.whole(1, 1 << 40)


class _Sync:
    """Parameters of Doris Binlog Load, for sources with a binlog of their own that is read in ranges of transactions.

    Names, defaults and meanings are those of Doris, "Binlog Load", "FE configuration".
    """

    sync_commit_interval_second = Key(values.whole(1, 86_400), unit="s", documented=SAME)
    """how long a step reads on before it is committed; set it or sink_options.auto_flush_max_interval"""
    min_sync_commit_size = Key(values.whole(1, 10_000_000), unit="rows", documented=SAME)
    """rows with which a step is committed; one that is at the binlog's end never waits for more; set it or
    sink_options.auto_flush_batch_size"""
    min_bytes_sync_commit = Key(_BYTES, unit="bytes", documented=SAME)
    """bytes of events with which a range ends, and a step where it has enough rows"""
    max_bytes_sync_commit = Key(_BYTES, unit="bytes", documented=SAME)
    """bytes of events that a step has at most; a transaction is never split: a larger one is a step alone; at least
    min_bytes_sync_commit"""
    stream_read_timeout = Key(values.duration(5_000, 3_600_000), unit="ms")
    """how long the binlog's stream may stay silent before the source ends it and reconnects; a server that is well
    sends a heartbeat every second"""
    max_sync_task_threads_num = no_meaning(
        "tasks run at a time are Spark's: set master in [jobs.X.spark]", 10, documented=SAME
    )
    """threads that load, of all jobs"""


SYNC = section(_Sync, of=defaults(SyncOptions))
_SAME = {"min_sync_commit_size": "auto_flush_batch_size", "sync_commit_interval_second": "auto_flush_max_interval"}
"""Keys of `sync` and of `sink_options` that say one thing."""


def read_sync(
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
    sync = read_options(reading, path, raw, "sync", SYNC, SyncOptions)
    least, hint = f" ({sync.min_bytes_sync_commit} bytes)", "a range may have the most once it has the least"
    refuse_below(reading, here, sync, "max_bytes_sync_commit", "min_bytes_sync_commit", least, hint)
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
