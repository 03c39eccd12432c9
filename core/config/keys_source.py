"""How a job's source is read: the keys of `[jobs.X.binlog]` and `[jobs.X.sync]`, and what they say together.

Traits of a kind of source name its set of keys (`binlog_keys`). Parameters of a vendor have the vendor's names in
snake_case; the table of each says where its defaults, units and meanings are from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from slotkeeper.core.config import values
from slotkeeper.core.config.check import Reading, Table, as_table, dotted, read_section, read_value
from slotkeeper.core.config.keys import Key, Section, no_meaning, section, vendor
from slotkeeper.core.config.model import Path
from slotkeeper.core.domain.spec import ALLOW, EVERY_DN, READ_BY, BinlogOptions, ChannelSpec, SinkOptions, SyncOptions
from slotkeeper.core.domain.text import safe
from slotkeeper.core.sources import registry

_EFFECTS = "tests/integration/test_binlog_parameters.py"
_RETRIES = "tests/unit/test_retry.py"
_NODES = "tests/fault/test_topology_rules.py"
_ROWS = values.whole(1, 10_000_000)
_WAIT = values.duration(1, values.DAY)
_LIMIT = values.duration(1, values.WEEK)

BINLOG: Section = section(
    vendor("binlog", "read the binlog; false is one full copy", values.boolean, False, _EFFECTS),
    vendor(
        "binlogSlotName",
        "slot of the source table; the same as the job's slot, set one of them",
        values.slot,
        None,
        _EFFECTS,
    ),
    vendor("binlogBatchReadSize", "binlog rows read in a batch", _ROWS, 5_000, _EFFECTS, "rows"),
    vendor("fullSyncBinlogBatchReadSize", "rows of a chunk of the full copy", _ROWS, 50_000, _EFFECTS, "rows"),
    vendor("binlogReadTimeout", "limit of one incremental read", _LIMIT, 600_000, _EFFECTS, "ms"),
    vendor(
        "fullSyncBinlogReadTimeout",
        "limit of one read of the full copy; at the sink of a chunk and of the exchange (at least 30m)",
        _LIMIT,
        1_800_000,
        _EFFECTS,
        "ms",
    ),
    vendor("binlogSleepTime", "sleep after an empty read, x empty reads", _WAIT, 500, _EFFECTS, "ms"),
    vendor("binlogMaxSleepTime", "longest such sleep", _WAIT, 10_000, _EFFECTS, "ms"),
    vendor("binlogMaxRetryTimes", "quick retries after an error at the source", values.whole(0, 1_000), 1, _RETRIES),
    vendor(
        "binlogRetryInterval",
        "quick retry n waits this x n + Random(100) ms",
        values.duration(0, 3_600_000),
        100,
        _RETRIES,
        "ms",
    ),
    vendor(
        "newSystemValue",
        "use the new names of the system columns; false for older kernels",
        values.boolean,
        True,
        _EFFECTS,
    ),
    vendor(
        "connectionSocketTimeout",
        "client limit of a connection's answers; 0: none",
        values.duration(0, values.WEEK),
        0,
        _EFFECTS,
        "ms",
    ),
    vendor(
        "binlogSyncPointSize",
        "sync points of one incremental range (DWS 9.1.0.200 and later)",
        values.whole(1, 1_000_000_000),
        5_000,
        _EFFECTS,
        "sync points",
    ),
    vendor(
        "binlogParallelNum",
        "lanes of one task that are read at once, where there are fewer places than DNs; they share the pool",
        values.whole(1, 64),
        3,
        "tests/fault/test_fairness.py",
    ),
    vendor(
        "connectionPoolSize",
        "source connections that tasks read through at once, whatever the number of Spark's places; the driver holds "
        "[some more](delivery.md), which do not grow with tables",
        values.whole(2, 1_000),
        5,
        _EFFECTS,
    ),
    vendor(
        "needRedistribution",
        "adopt a changed set of DNs where that is safe; false for kernels that do not redistribute with a binlog",
        values.boolean,
        True,
        _NODES,
    ),
    vendor(
        "checkNodeChangeInterval",
        "interval of looking for changed DNs; only with need_redistribution",
        values.duration(100, values.DAY),
        10_000,
        _NODES,
        "ms",
    ),
    vendor(
        "binlogIgnoreUpdateBefore",
        "leave B rows at the server, deletes carry the key only (DWS 9.1.0.200 and later); needs `keys_never_change`",
        values.boolean,
        False,
        _EFFECTS,
    ),
    vendor(
        "binlogStartTime",
        "time from which to read, `yyyy-MM-dd hh:mm:ss` in UTC or with an offset; the same as the job's `start`, set "
        "one of them; needs enable_binlog_timestamp (DWS 9.1.0.200 and later)",
        values.start_time,
        None,
        "tests/integration/test_starts.py",
    ),
    no_meaning("binlogQueueSize", 0, "rows", "limit of the reader's queue", "rows pass through a pipe of fixed size"),
    no_meaning("connectionSize", 1, "", "threads of the read pool", "the tasks of Spark are the readers"),
    no_meaning("connectionPoolName", None, "", "name of the pool", "sessions are named slotkeeper/<job>/<epoch>"),
    no_meaning(
        "connectionPoolTimeout", None, "ms", "limit of the wait for a connection", "a task waits for a place of Spark"
    ),
    no_meaning("connectionMaxUseCount", None, "", "uses of a connection", "a session lives as long as its job's epoch"),
    no_meaning("needConnectionPoolMonitor", None, "", "monitor the pool", "each task has a session of its own"),
    no_meaning(
        "connectionPoolMonitorPeriod", None, "ms", "interval of that monitor", "each task has a session of its own"
    ),
    no_meaning("connectionTimeOut", None, "ms", "limit of one try to connect", "it is the source's connect_timeout"),
)
"""Those of a DWS.

Defaults, units and meanings: "Real-Time Binlog Consumption by Flink", table 1 (19 parameters), and the connector's
further pool options.
"""


_HOLOGRES = "tests/integration/test_hologres_parameters.py"
_STREAM = "tests/integration/test_hologres_by_stream.py"
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

OWN: Section = section(
    vendor(
        "binlogReadBatchSize",
        "binlog records read in a page, or at most in a message of the stream",
        values.whole(1, 1_000_000),
        1_024,
        _HOLOGRES,
        "records",
    ),
    vendor(
        "binlogHeartBeatIntervalMs",
        "an idle shard's progress row says this often up to which time of the server nothing else was there; -1: eight"
        " times in a binlog.ttl",
        values.whole(-1, values.DAY),
        -1,
        _HOLOGRES,
        "ms",
    ),
    vendor("binlogIgnoreDelete", "leave deletes (event type 2) out", values.boolean, False, _HOLOGRES),
    vendor(
        "binlogIgnoreBeforeUpdate",
        "leave the rows before an update (event type 3) out",
        values.boolean,
        False,
        _HOLOGRES,
    ),
    vendor(
        "retryCount",
        "tries after an error at the source before the long waits begin, the first one among them; counted anew after a"
        " success",
        values.whole(1, 1_000),
        3,
        _HOLOGRES,
    ),
    vendor(
        "binlogStartUpMode",
        "where a new job starts: `initial` (a copy, then the binlog), `earliest_offset`, or `timestamp` with"
        " `start_time`; the same as the job's `start`, set one of them",
        values.choice(*START_MODES),
        None,
        _HOLOGRES,
    ),
    vendor(
        "startTime",
        "time from which to read, `yyyy-MM-dd hh:mm:ss` in UTC or with an offset; the same as the job's `start`, set"
        " one of them",
        values.start_time,
        None,
        _HOLOGRES,
    ),
    vendor(
        "startLsn",
        'LSN behind which to read, of all shards (`"10516"`) or by shard (`"shard_0=10516, shard_1=99"`); not together'
        " with `start_time`, where Hologres itself lets the LSN win",
        values.start_lsn,
        None,
        _HOLOGRES,
    ),
    vendor(
        "cdcMode",
        "each record takes effect as what it is; false, which appends every image as a row, is refused",
        values.only_true,
        True,
        _HOLOGRES,
    ),
    Key(
        "read_by",
        "how changes come: `sql`, or `stream`, the binlog's own over PostgreSQL's replication protocol (Hologres 2.1"
        " and later, without a slot), which is what the connector calls `sdkMode` `jdbc`; where a range ends is asked"
        " by SQL either way",
        values.choice(*READ_BY),
        "sql",
        tested=_STREAM,
    ),
    vendor(
        "enableCompression",
        'messages of the stream come compressed (LZ4; Hologres 3.2 and later); with `read_by = "stream"` only',
        values.boolean,
        False,
        _STREAM,
    ),
    Key(
        "binlog_visibility_lag",
        "read only records that are older than this: for servers where one with a lower LSN might show after one with a"
        " higher",
        values.duration(0, values.DAY),
        0,
        "ms",
        tested=_HOLOGRES,
    ),
)
"""Those of a hologres that no other source has.

Defaults and meanings are those of holo-client ("HoloConfig") and of the table in "Technical Principle of Hologres
Binlog"; `binlogStartUpMode`, `startTime` and `cdcMode` are the Flink connector's.
"""
HOLOGRES: Section = {name: BINLOG[name] for name in _SHARED} | dict(OWN)
"""All of a hologres; what every source has is as for a DWS."""


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


_SYNC = "tests/unit/config/test_mysql_keys.py"
_THRESHOLDS = "tests/unit/sources/mysql/test_thresholds.py"
MIB = 1 << 20
_BYTES = values.whole(1, 1 << 40)

SYNC: Section = section(
    Key(
        "sync_commit_interval_second",
        "how long a step reads on before it is committed; set it or sink_options.auto_flush_max_interval",
        values.whole(1, 86_400),
        10,
        "s",
        "sync_commit_interval_second",
        _SYNC,
    ),
    Key(
        "min_sync_commit_size",
        "rows with which a step is committed; one that is at the binlog's end never waits for more; set it or"
        " sink_options.auto_flush_batch_size",
        values.whole(1, 10_000_000),
        10_000,
        "rows",
        "min_sync_commit_size",
        _SYNC,
    ),
    Key(
        "min_bytes_sync_commit",
        "bytes of events with which a range ends, and a step where it has enough rows",
        _BYTES,
        15 * MIB,
        "bytes",
        "min_bytes_sync_commit",
        _THRESHOLDS,
    ),
    Key(
        "max_bytes_sync_commit",
        "bytes of events that a step has at most; a transaction is never split: a larger one is a step alone; at least"
        " min_bytes_sync_commit",
        _BYTES,
        64 * MIB,
        "bytes",
        "max_bytes_sync_commit",
        _THRESHOLDS,
    ),
    Key(
        "stream_read_timeout",
        "how long the binlog's stream may stay silent before the source ends it and reconnects; a server that is well"
        " sends a heartbeat every second",
        values.duration(5_000, 3_600_000),
        "30s",
        "ms",
        tested=_THRESHOLDS,
    ),
    Key(
        "max_sync_task_threads_num",
        "threads that load, of all jobs",
        default=10,
        documented="max_sync_task_threads_num",
        tested="",
        because="tasks run at a time are Spark's: set master in [jobs.X.spark]",
    ),
)
"""Parameters of Doris Binlog Load, for sources with a binlog of their own that is read in ranges of transactions.

Names, defaults and meanings are those of Doris, "Binlog Load", "FE configuration".
"""
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
